"""`asmgen diff`: figures of two kernels side by side, loops matched by what they do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from asmgen.checks.lint.facts import KernelFacts
from asmgen.isa.errors import AsmgenError
from asmgen.reader.assembly import read_text
from asmgen.tools.cli import commands
from asmgen.tools.diff_command import compare, diff_files, likeness, match_loops
from asmgen.tools.inspection.inspection import KernelReport, inspect_program

MFMA = "v_mfma_f32_16x16x32_bf16 a[{0}:{1}], v[4:7], v[8:11], a[{0}:{1}]\n"


def mfma(count: int) -> str:
    return "".join(MFMA.format(4 * n, 4 * n + 3) for n in range(count))


def loop(name: str, body: str) -> str:
    return f"{name}:\n{body}s_sub_u32 s20, s20, 1\ns_cmp_lg_u32 s20, 0\ns_cbranch_scc1 {name}\n"


def inspected(text: str) -> KernelReport:
    return inspect_program(read_text(text + "s_endpgm\n", "gfx950")[0], None, facts=KernelFacts(block=(256, 1, 1)))


COPY = loop("C", "global_load_dwordx4 v[4:7], v[0:1], off\ns_waitcnt vmcnt(0)\nglobal_store_dwordx4 v[2:3], v[4:7], off\n")
READS = "ds_read_b128 v[4:7], v0\nds_read_b128 v[8:11], v0 offset:64\ns_waitcnt lgkmcnt(0)\n"


def test_loops_are_matched_by_what_they_do_and_in_order() -> None:
    """B has no copying loop in front, but one behind, and its matrix loop is unrolled twice."""
    a = inspected(COPY + loop("M", READS + mfma(4)) + loop("E", "v_add_f32 v40, v40, v41\n" * 5))
    b = inspected(loop("M", (READS + mfma(4)) * 2) + loop("E", "v_add_f32 v40, v40, v41\n" * 6) + COPY)
    pairs = [(a.loops.index(one) if one else None, b.loops.index(other) if other else None) for one, other, _ in
             match_loops(a.loops, b.loops)]
    assert pairs == [(0, None), (1, 0), (2, 1), (None, 2)]
    assert 0.4 < likeness(a.loops[1], b.loops[0]) < 0.8
    assert likeness(a.loops[1], a.loops[1]) == 1 and likeness(a.loops[0], a.loops[2]) < 0.5
    assert [pair[2] for pair in match_loops(a.loops, a.loops)] == [1, 1, 1]
    assert match_loops((), b.loops)[0][:2] == (None, b.loops[0])


def test_figures_of_both_and_none_where_a_loop_is_missing() -> None:
    a, b = inspected(loop("M", READS + mfma(4)) + COPY), inspected(loop("M", READS + "v_mov_b32 v30, v31\n" * 3 + mfma(8)))
    found = compare(a, b).as_json()
    matrix, copy = found["loops"]
    assert matrix["a"] == {"first": 0, "last": 9} and matrix["b"] == {"first": 0, "last": 16}
    figures = matrix["figures"]
    assert figures["matrix"] == [4, 8] and figures["valu"] == [0, 3] and figures["lds_read_per_mfma"] == [0.5, 0.25]
    assert figures["mfma_gap.0"] == [3, 7] and figures["mfma_gap.6"] == [1, 0] and figures["mfma_gap.9"] == [0, 1]
    assert figures["copies.VGPR to VGPR"] == [0, 3] and figures["waits.lgkmcnt(0)"] == [1, 1] and figures["waves"] == [4, 4]
    one, other = figures["predicted.clk_a_round"]
    assert other - one == pytest.approx(4 * 16 + 3 * 4, abs=8)  # four MFMAs more, and what the copies take
    assert copy["b"] is None and copy["figures"]["global_store"] == [1, None]
    assert found["figures"]["loops"] == [2, 1] and found["figures"]["agpr"] == [16, 32]


def test_nop_states_and_figures_of_one_kind_stand_together() -> None:
    found = compare(inspected("s_nop 3\ns_nop 0\ns_waitcnt vmcnt(2)\n"), inspected("s_nop 1\ns_waitcnt vmcnt(3)\n")).as_json()["figures"]
    assert found["nop_states"] == [5, 2] and found["nop"] == [2, 1]
    names = list(found)
    assert names.index("waits.vmcnt(3)") == names.index("waits.vmcnt(2)") + 1


def test_the_command(tmp_path: Path) -> None:
    head = '.amdgcn_target "amdgcn-amd-amdhsa--gfx950"\n.text\n.globl {0}\n.type {0},@function\n{0}:\n'
    for name, body in (("a", mfma(4)), ("b", mfma(6) + "s_nop 4\n")):
        (tmp_path / f"{name}.s").write_text(head.format(name) + loop("L", body) + "s_endpgm\n")
    files = [str(tmp_path / "a.s"), str(tmp_path / "b.s")]
    text = CliRunner().invoke(commands, ["diff", *files], standalone_mode=False, catch_exceptions=False).stdout
    assert "a and b" in text and "A loop 1: instructions 0 to 6" in text and "B loop 1: instructions 0 to 9" in text
    assert any(line.split() == ["matrix", "4", "6", "+2"] for line in text.splitlines())
    assert "predicted.clk_a_round" in text
    found = json.loads(CliRunner().invoke(commands, ["diff", *files, "--json"], standalone_mode=False).stdout)
    assert found["a"] == {"file": files[0], "arch": "gfx950"} and found["kernels"][0]["figures"]["nop_states"] == [0, 5]


def test_files_without_a_kernel_in_common_are_refused(tmp_path: Path) -> None:
    for name, kernels in (("a", "xy"), ("b", "z")):
        text = "".join(f".globl {kernel}\n.type {kernel},@function\n{kernel}:\ns_endpgm\n.amdhsa_kernel {kernel}\n.end_amdhsa_kernel\n"
                       for kernel in kernels)
        (tmp_path / f"{name}.s").write_text(text)
    with pytest.raises(AsmgenError, match="no kernel of one name: x, y here, z there"):
        diff_files(tmp_path / "a.s", tmp_path / "b.s", "gfx950")
