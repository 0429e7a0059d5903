"""The figures of `asmgen inspect`: each in a case where it counts and one where it must not, by numbers counted by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from asmgen.checks.lint.facts import KernelFacts
from asmgen.isa.arch import architecture
from asmgen.reader.assembly import read_text
from asmgen.tools.inspection.inspection import KernelReport, inspect_program
from asmgen.tools.inspection.inspectiontext import code_lines
from asmgen.tools.inspection.occupancysteps import _step

SMALL = "v_mfma_f32_16x16x32_bf16 a[{0}:{1}], v[{2}:{3}], v[{4}:{5}], a[{0}:{1}]\n"


def small(d: int, a: int, b: int) -> str:
    return SMALL.format(d, d + 3, a, a + 3, b, b + 3)


def inspected(text: str, block: tuple[int, int, int] | None = None, arch: str = "gfx950", counts: tuple[int, ...] | None = None
              ) -> KernelReport:
    return inspect_program(read_text(f"{text}s_endpgm\n", arch)[0], None, facts=KernelFacts(block=block), counts=counts)


def loop(body: str) -> str:
    return f"L:\n{body}s_sub_u32 s20, s20, 1\ns_cmp_lg_u32 s20, 0\ns_cbranch_scc1 L\n"


def test_first_use_in_order_and_round_the_loop() -> None:
    """The use stands before the load, so it is that of the next round; the second load's is 3 instructions later."""
    report = inspected(loop(small(0, 4, 8) + "ds_read_b128 v[4:7], v0\nglobal_load_dwordx4 v[12:15], v[2:3], off\n" + small(4, 20, 24)
                            + "s_nop 0\nv_mov_b32 v30, v13\n"))
    assert [(use.position, use.group, use.use, use.instructions, use.mfma, use.matrix_cycles) for use in report.uses] == [
        (1, "lds_read", 0, 8, 1, 16), (2, "global_load", 5, 3, 1, 16)]
    (summary, _) = report.loops[0].code.uses
    assert (summary.loads, summary.unused, summary.instructions, summary.matrix_cycles) == (1, 0, (8, 8, 8), (16, 16, 16))


def test_first_use_takes_the_shorter_way_and_stops_where_data_is_overwritten() -> None:
    text = """ds_read_b32 v1, v0
ds_read_b32 v2, v0
ds_read_b32 v3, v0
s_cbranch_scc1 Far
v_mov_b32 v2, 0
v_mov_b32 v9, v3
v_mov_b32 v9, v1
s_endpgm
Far:
v_mov_b32 v9, v1
v_mov_b32 v3, 0
"""
    uses = {use.position: use for use in inspected(text).uses}
    assert (uses[0].use, uses[0].instructions) == (8, 4)  # over the branch 4, without it 6
    assert uses[1].use is None  # overwritten on one way, never read on the other
    assert (uses[2].use, uses[2].instructions) == (5, 3)


def test_a_way_round_many_blocks_keeps_the_parts_that_are_still_unread() -> None:
    """v5, the second half of the pair, is read two blocks later; v4 is overwritten before."""
    text = "global_load_dwordx2 v[4:5], v[2:3], off\ns_cbranch_vccz A\nA:\nv_mov_b32 v4, 0\ns_cbranch_vccnz B\nB:\nv_mov_b32 v6, v5\n"
    (use,) = inspected(text).uses
    assert (use.use, use.instructions) == (4, 4)


def test_gaps_between_matrix_instructions() -> None:
    """In a loop the last one is followed by the first; in straight code it is not."""
    body = small(0, 4, 8) + small(4, 4, 8) + "v_mov_b32 v30, 0\nv_mov_b32 v31, 0\n" + small(8, 4, 8)
    assert inspected(loop(body)).loops[0].code.stream.gaps == {0: 1, 2: 1, 3: 1}
    assert inspected(body).code.stream.gaps == {0: 1, 2: 1}
    assert inspected("s_nop 0\n").code.stream.gaps == {}


def test_reuse_of_operands_and_accumulator() -> None:
    """Pairs: 1 shares all but B, 2 the accumulator alone, 3 (round the loop) A. Of each side's 12 reads those of the last two operands
    are left out."""
    body = small(0, 4, 8) + small(0, 4, 12) + small(0, 16, 8)
    stream = inspected(loop(body)).loops[0].code.stream
    assert (stream.pairs, stream.same_accumulator, stream.same_a, stream.same_b, stream.holding) == (3, 3, 1, 1, 3)
    assert (stream.reads, stream.left_out) == (24, 24)  # A: 4, 4, 16 and B: 8, 12, 8: two operands each
    wide = "".join(f"v_mfma_f32_32x32x16_bf16 a[{16 * n}:{16 * n + 15}], v[{a}:{a + 3}], v[0:3], a[{16 * n}:{16 * n + 15}]\n"
                   for n, a in enumerate((8, 12, 16)))
    stream = inspected(wide).code.stream
    assert (stream.pairs, stream.same_accumulator, stream.same_a, stream.same_b, stream.reads, stream.left_out) == (2, 0, 0, 2, 24, 8)
    assert stream.holding == 2
    assert "32x32 shapes" in stream.advice() and "33 %" in stream.advice().replace("33%", "33 %")
    assert "16x16 shapes" in inspected(loop(body)).loops[0].code.stream.advice()


def test_an_accumulator_that_another_instruction_begins_is_no_reuse() -> None:
    text = small(0, 4, 8) + "v_mfma_f32_16x16x32_bf16 a[0:3], v[4:7], v[8:11], 0\n"
    assert inspected(text).code.stream.same_accumulator == 0


def test_address_registers() -> None:
    """A register counts where it is an address, not where it is data; what rewrites it in the loop is counted."""
    report = inspected(loop("ds_read_b64 v[4:5], v1 offset:8\nds_read_b64 v[6:7], v1 offset:16\nds_write_b64 v2, v[4:5]\n"
                            "buffer_load_dword v8, v3, s[0:3], s9 offen\nv_add_u32 v1, v1, v9\n"))
    found = {use.register: (use.uses, use.groups, use.offsets, use.written) for use in report.loops[0].code.addresses}
    assert found == {"v1": (2, {"lds_read": 2}, 2, 1), "v2": (1, {"lds_write": 1}, 1, 0), "v3": (1, {"global_load": 1}, 1, 0),
                     "s[0:3]": (1, {"global_load": 1}, 1, 0), "s9": (1, {"global_load": 1}, 1, 0)}


def test_copies_between_files() -> None:
    report = inspected("v_accvgpr_read_b32 v1, a1\nv_accvgpr_write_b32 a2, v2\nv_accvgpr_write_b32 a3, 0\nv_mov_b32 v3, v4\n"
                       "v_mov_b32 v5, s6\nv_mov_b32 v6, 1.0\nv_readfirstlane_b32 s7, v8\nv_add_u32 v9, v1, v2\ns_mov_b32 s8, s9\n")
    assert report.code.copies == {"AGPR to VGPR": 1, "SGPR to SGPR": 1, "SGPR to VGPR": 1, "VGPR to AGPR": 1, "VGPR to SGPR": 1,
                                  "VGPR to VGPR": 1}


def test_mix_for_one_matrix_instruction() -> None:
    assert inspected(small(0, 4, 8) * 4 + "ds_read_b128 v[4:7], v0\n" * 2).code.per_mfma == {"matrix": 1.0, "lds_read": 0.5, "other": 0.25}
    assert inspected("s_nop 0\n").code.per_mfma == {}


def test_in_flight_ledger_at_waits() -> None:
    """What the first wait leaves is still there at the second one."""
    first, second = inspected("global_load_dword v1, v[2:3], off\nglobal_load_dword v4, v[2:3], off\nds_read_b32 v5, v0\n"
                              "s_waitcnt vmcnt(1)\ns_waitcnt lgkmcnt(0)\n").waits
    assert [(row.counter, row.operation, row.operations) for row in first.in_flight] == [
        ("vmcnt", "global_load_dword", 2), ("lgkmcnt", "ds_read_b32", 1)]
    assert [(row.counter, row.operations) for row in first.releases] == [("vmcnt", 1)]
    assert [(row.counter, row.operations) for row in second.in_flight] == [("vmcnt", 1), ("lgkmcnt", 1)]


def test_reasons_of_waits_are_kept() -> None:
    report = inspected("s_waitcnt vmcnt(0)                ; A landed\n")
    assert report.waits[0].as_json()["reason"] == "A landed"


def test_lds_map_by_tokens_and_by_addresses() -> None:
    named = inspected("ds_write_b128 v0, v[4:7]  ; lds write A[1] 0x400:0x800\nds_read_b128 v[4:7], v0  ; lds read A[1] 0x400:0x800\n"
                      "ds_read_b128 v[8:11], v0  ; lds read A[0] 0x0:0x400\n")
    assert [(row.name, row.low, row.high, row.fills, row.reads) for row in named.lds.rows] == [
        ("A[0]", 0, 0x400, 0, 1), ("A[1]", 0x400, 0x800, 1, 1)]
    plain = inspected("v_lshlrev_b32 v1, 4, v0\nds_write_b128 v1, v[4:7] offset:2048\nds_read_b64 v[8:9], v1\nds_read_b32 v3, v9\n",
                      block=(64, 1, 1))
    assert [(row.name, row.low, row.high, row.fills, row.reads) for row in plain.lds.rows] == [
        ("", 0, 64 * 16 - 8, 0, 1), ("", 2048, 2048 + 1024, 1, 0)]
    assert plain.lds.unknown == 1


def test_executions_by_group_and_rounds() -> None:
    text = "v_mov_b32 v1, 0\n" + loop("v_mov_b32 v2, v1\n")
    report = inspected(text, counts=(3, 12, 12, 12, 12, 3)).as_json()
    assert report["executed"]["valu"] == 15 and report["executed"]["salu"] == 24 and report["executed"]["branch"] == 12
    assert report["loops"][0]["rounds"] == 12 and report["loops"][0]["executed"]["valu"] == 12
    assert report["executions"] == [3, 12, 12, 12, 12, 3]
    without = inspected(text).as_json()
    assert without["executed"] is None and without["loops"][0]["rounds"] is None


@pytest.mark.parametrize("total,lds,waves,expected", [
    (128, 0, 0, ("registers", 0, None, 5, 32, None)),  # 4 waves of 128; 96 registers for 5
    (129, 0, 4, ("registers", 39, 163840 // 3 // 1280 * 1280, 4, 1, 0)),  # 136 granted: 3 waves, of 168 registers at the most
    (256, 65536, 4, ("registers", 0, 81920 - 65536, 3, 88, 65536 - 53760)),
    (64, 0, 4, ("wave slots", 0, 19200 + 1280, None, 0, 0)),
    (64, 65536, 4, ("lds", 192, 81920 - 65536, 3, 0, 65536 - 53760)),
    (256, 100000, 8, ("registers", 0, 163840 - 100000, 4, 128, 100000 - 81920)),  # workgroups of 8 waves: 2 a SIMD, then 4
])  # fmt: skip
def test_distance_to_the_next_step_of_occupancy(total: int, lds: int, waves: int, expected: tuple[Any, ...]) -> None:
    step = _step(architecture("gfx950"), total, lds, waves)
    assert (step.limit, step.spare_registers, step.spare_lds, step.next_waves, step.excess_registers, step.excess_lds) == expected


def test_everything_is_in_the_json_and_the_text() -> None:
    report = inspected(loop(small(0, 4, 8) + "ds_read_b128 v[4:7], v0\nv_accvgpr_read_b32 v1, a1\ns_waitcnt lgkmcnt(0)\n"))
    found = json.loads(json.dumps(report.as_json()))
    assert {"occupancy_step", "per_mfma", "mfma_gaps", "mfma_reuse", "address_registers", "copies", "first_uses", "lds_map", "wait_list",
            "loads", "main_loop", "arguments", "register_map"} <= found.keys()
    text = " ".join(code_lines(report.loops[0].code))
    assert "instructions between MFMAs: 6 (1x)" in text and "first used" in text and "AGPR to VGPR 1" in text
    assert "uses of address registers: v0 1" in text


RUN = """.amdgcn_target "amdgcn-amd-amdhsa--gfx950"
.text
.globl k
.p2align 8
.type k,@function
k:
  s_mov_b32 s6, 5
L:
  v_add_u32 v2, 1, v2
  s_sub_u32 s6, s6, 1
  s_cmp_lg_u32 s6, 0
  s_cbranch_scc1 L
  s_endpgm
.rodata
.p2align 6
.amdhsa_kernel k
  .amdhsa_next_free_vgpr 8
  .amdhsa_next_free_sgpr 16
  .amdhsa_accum_offset 8
.end_amdhsa_kernel
"""


@pytest.mark.needs_objdump
def test_run_counts_the_whole_grid(tmp_path: Path) -> None:
    """Three workgroups of two waves, five rounds each; of the code object and of its text, but of no other code."""
    from click.testing import CliRunner

    from asmgen.toolchain import assemble
    from asmgen.tools.cli import commands

    (tmp_path / "k.s").write_text(RUN)
    (tmp_path / "k.co").write_bytes(assemble(RUN, "gfx950"))
    (tmp_path / "other.s").write_text(RUN.replace("v_add_u32 v2, 1, v2", "v_sub_u32 v2, 1, v2"))
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps({"code_object": "k.co", "grid": [3, 1, 1], "block": [128, 1, 1], "args": []}))
    for name in ("k.co", "k.s"):
        done = CliRunner().invoke(commands, ["inspect", str(tmp_path / name), "--run", str(spec), "--json"], standalone_mode=False)
        (kernel,) = json.loads(done.stdout)["kernels"]
        assert kernel["executed"]["valu"] == kernel["loops"][0]["rounds"] == 3 * 2 * 5 and sum(kernel["executions"]) == 6 * (2 + 4 * 5)
    refused = CliRunner().invoke(commands, ["inspect", str(tmp_path / "other.s"), "--run", str(spec)], standalone_mode=False)
    assert "not the same code" in str(refused.exception) and "v_sub_u32" in str(refused.exception)


def test_a_text_has_what_its_metadata_say() -> None:
    """SGPRs with VCC, scratch and spills; without metadata what instructions name."""
    code = "s_mov_b32 s9, 0\ns_endpgm\n"
    metadata = {".sgpr_count": 18, ".private_segment_fixed_size": 88, ".vgpr_spill_count": 3, ".sgpr_spill_count": 2, ".name": "k"}
    for given, expected in ((metadata, (18, 88, 5)), ({}, (10, 0, 0))):
        found = inspect_program(read_text(code, "gfx950")[0], None, metadata=given).resources
        assert (found["sgpr"], found["scratch"], found["spills"]) == expected


def test_the_main_loop() -> None:
    """Of nested loops the inner one; of two ways back to one head the whole; of several loops the one with most matrix cycles, of
    equal ones that with the fewest other instructions, or that which a run takes."""
    def chosen(text: str) -> tuple[int, int] | None:
        loop = inspected(text).main_loop
        return (loop.first, loop.last) if loop is not None else None

    assert chosen("O:\n" + "v_mov_b32 v1, 0\n" * 6 + "L:\nv_mov_b32 v2, 0\ns_cbranch_scc1 L\ns_cbranch_vccz O\n") == (6, 7)
    assert chosen("L:\ns_mov_b32 s4, 0\nv_mov_b32 v2, 0\ns_cbranch_vccz L\nv_mov_b32 v3, 0\ns_cbranch_scc1 L\n") == (0, 4)
    assert chosen("A:\n" + "v_mov_b32 v1, 0\n" * 9 + "s_cbranch_scc1 A\nB:\n" + small(0, 4, 8) + "s_cbranch_scc1 B\n") == (10, 11)
    masked = "A:\n" + "v_mov_b32 v1, 0\n" * 3 + small(0, 4, 8) + "s_cbranch_scc1 A\n"
    plain = "B:\n" + small(0, 4, 8) + "s_cbranch_scc1 B\n"
    assert chosen(masked + plain) == (5, 6) and chosen(plain + masked) == (0, 1)
    for rounds, first in (((7, 1), 0), ((1, 7), 5)):
        kernel = inspected(masked + plain)
        run = replace(kernel, loops=tuple(replace(loop, rounds=count) for loop, count in zip(kernel.loops, rounds, strict=True)))
        assert run.main_loop is not None and run.main_loop.first == first
    assert chosen("v_mov_b32 v1, 0\n") is None


def test_distances_in_words() -> None:
    text = " ".join(code_lines(inspected("ds_read_b32 v1, v0\nv_mov_b32 v2, v1\nglobal_load_dword v4, v[2:3], off\n").code))
    assert "lds_read: 1 load, first used 1 instruction later" in text and "global_load: 1 load, 1 never used" in text
