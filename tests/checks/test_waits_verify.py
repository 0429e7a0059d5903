"""Verification of waits: each rule fires where it must and is silent where it must not."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from asmgen.author.emit.builder import Builder
from asmgen.author.emit.ldsmap import LdsRange
from asmgen.checks.counters.flow import WaitFlow
from asmgen.checks.waits.verify import verify
from asmgen.checks.waits.waitmodes import apply_waits
from asmgen.isa.errors import AsmgenError
from asmgen.isa.operands import OFF
from asmgen.isa.registers import a, exec_, m0, s, v
from asmgen.program.program import Program
from asmgen.reader.assembly import read_text
from asmgen.reader.instruction import parse_instruction

A, B = LdsRange("A", 0, 1024), LdsRange("B", 1024, 2048)


def builder(stagger: int = 0, arch: str = "gfx950") -> Builder:
    return Builder("k", arch, stagger=stagger)


def found(program: Program | Builder) -> list[tuple[str, str, str, int | None, int | None]]:
    """(rule, severity, consumer's name, have, need) of each finding."""
    findings = verify(program.program() if isinstance(program, Builder) else program)
    return [(row.rule, row.severity, row.consumer.name, row.have, row.need) for row in findings]


def text(code: str, arch: str = "gfx942") -> list[tuple[str, str, str, int | None, int | None]]:
    (program,) = read_text(code, arch, "k")
    return found(program)


def test_missing_wait_names_what_is_read_and_the_count() -> None:
    k = builder()
    k.global_load_dwordx2(v[10:11], v[0:1], OFF)
    k.global_load_dword(v[12], v[0:1], OFF)
    k.global_store_dword(v[2:3], v[9], OFF)
    k.v_mov_b32(v[1], v[11])
    (finding,) = verify(k.program())
    assert (finding.rule, finding.severity, finding.need) == ("W001", "error", 2)
    assert "reads v[10:11]" in finding.message and "vmcnt(2)" in finding.message and "test_waits_verify.py" in finding.message
    assert finding.producer is not None and finding.producer.name == "global_load_dwordx2"


def test_one_count_too_loose_is_an_error_and_the_right_one_is_silent() -> None:
    for count, expected in ((2, []), (3, [("W001", "error", "v_mov_b32", None, 2)])):
        k = builder()
        for number in range(3):
            k.ds_read_b32(v[10 + number], v[0])
        k.s_waitcnt(lgkmcnt=count)
        k.v_mov_b32(v[1], v[10])
        assert [row for row in found(k) if row[1] == "error"] == expected


def test_too_strict_says_by_how_much() -> None:
    k = builder()
    k.global_load_dword(v[10], v[0:1], OFF)
    k.global_load_dword(v[11], v[0:1], OFF)
    k.global_load_dword(v[12], v[0:1], OFF)
    k.s_waitcnt(vmcnt=0)
    k.v_mov_b32(v[1], v[10])
    k.v_mov_b32(v[2], v[11])
    assert found(k) == [("W005", "note", "s_waitcnt", 0, 1)]


def test_a_wait_for_a_store_is_not_called_too_strict() -> None:
    """Why somebody waits for a store no register shows."""
    k = builder()
    k.global_load_dword(v[10], v[0:1], OFF)
    k.global_store_dword(v[2:3], v[9], OFF)
    k.s_waitcnt(vmcnt=0)
    k.v_mov_b32(v[1], v[10])
    k.s_endpgm()
    assert found(k) == []


def test_idle_waits() -> None:
    k = builder()
    k.s_waitcnt(vmcnt=0)
    k.global_load_dword(v[10], v[0:1], OFF)
    k.s_waitcnt(vmcnt=1)
    k.s_waitcnt(vmcnt=0)
    k.v_mov_b32(v[1], v[10])
    k.ds_read_b32(v[11], v[1])
    k.s_waitcnt(lgkmcnt=0)
    k.s_endpgm()
    assert found(k) == [("W006", "note", "s_waitcnt", count, None) for count in (0, 1, 0)]


def test_counts_that_wait_for_nothing() -> None:
    k = builder()
    k.s_waitcnt(vmcnt=63)
    k.s_waitcnt(lgkmcnt=15)
    k.s_waitcnt(vmcnt=62)
    assert found(k) == [
        ("W007", "warning", "s_waitcnt", 63, 62), ("W007", "warning", "s_waitcnt", 15, 14), ("W006", "note", "s_waitcnt", 62, None)]
    assert text("s_waitcnt 0xcf7f\n") == [("W007", "warning", "s_waitcnt", None, None)]
    # So objdump prints what LLVM has left of a wait that it found needless.
    assert text("s_waitcnt vmcnt(63) expcnt(7) lgkmcnt(15)\n") == [("W007", "note", "s_waitcnt", None, None)]


@pytest.mark.parametrize(("counter", "limit"), [("vm", 63), ("lgkm", 15)])
def test_full_counters_are_counted(counter: str, limit: int) -> None:
    for extra in (0, 1, 2):
        k = builder()
        for _ in range(limit + extra):
            k.global_store_dword(v[2:3], v[9], OFF) if counter == "vm" else k.ds_write_b32(v[0], v[1])
        notes = [finding for finding in verify(k.program()) if finding.rule == "W008"]
        assert len(notes) == (extra > 0)
        if extra:
            assert ("2 operations" if extra == 2 else "this operation") in notes[0].message and notes[0].position == limit


def test_wide_scalar_loads_count_twice() -> None:
    k = builder()
    for _ in range(7):
        k.s_load_dwordx2(s[4:5], s[0:1], 0)
        k.s_waitcnt(lgkmcnt=14)
    assert not [row for row in found(k) if row[0] == "W008"]
    k.s_load_dwordx2(s[4:5], s[0:1], 0)
    assert [row for row in found(k) if row[0] == "W008"]


def test_a_full_counter_holds_the_oldest_back() -> None:
    """The sixteenth LDS operation is not issued before the first has completed: no wait says so, which is a note only."""
    for newer, severity in ((14, "error"), (15, "note")):
        k = builder()
        k.ds_read_b32(v[10], v[0])
        for _ in range(newer):
            k.ds_write_b32(v[0], v[1])
        k.v_mov_b32(v[1], v[10])
        assert [row[1] for row in found(k) if row[0] == "W001"] == [severity]


def test_vector_loads_over_each_other_keep_their_order() -> None:
    """LLVM 22 waits in none of these three; the destination of a d16 half counts as overwritten."""
    k = builder()
    k.global_load_dword(v[10], v[0:1], OFF)
    k.global_load_dword(v[10], v[0:1], OFF, offset=4)
    k.global_load_short_d16(v[12], v[0:1], OFF)
    k.global_load_short_d16_hi(v[12], v[0:1], OFF)
    k.buffer_load_dword(v[10], v[0], s[4:7], 0, offen=True)
    assert found(k) == []
    k.global_load_dword(v[11], v[12:13], OFF)
    assert [row[:2] for row in found(k)] == [("W001", "error")]


def test_a_half_that_is_loaded_through_the_register_needs_the_wait() -> None:
    k = builder()
    k.global_load_short_d16(v[12], v[0], s[4:5])
    k.global_load_short_d16_hi(v[12], v[12], s[4:5])
    k.ds_read_u16_d16(v[13], v[0])
    k.ds_read_u16_d16_hi(v[13], v[0], offset=2)
    assert [row[:3] for row in found(k) if row[1] != "note"] == [("W001", "error", "global_load_short_d16_hi")]


def test_other_queues_over_a_load_need_the_wait() -> None:
    k = builder()
    k.global_load_dword(v[10], v[0:1], OFF)
    k.ds_read_b32(v[10], v[0])
    k.flat_load_dword(v[11], v[0:1])
    k.global_load_dword(v[11], v[0:1], OFF)
    missed = ["ds_read_b32", "global_load_dword", "global_load_dword"]
    assert [(row[0], row[2]) for row in found(k)] == [("W001", name) for name in missed]


def test_overwriting_alone_is_a_warning_in_foreign_code() -> None:
    """The last prefetch of a loop may long have landed; asmgen's own programs are held to the rule, and a read is an error anywhere."""
    for mode, severity in (("", "warning"), ("verify", "error")):
        k = builder()
        with k.waits(mode) if mode else nullcontext():
            k.global_load_dword(v[10], v[0:1], OFF)
            k.v_mov_b32(v[10], 0)
        assert [row[:2] for row in found(k)] == [("W001", severity)]
    assert [row[:2] for row in text("global_load_dword v10, v[0:1], off\nv_add_u32 v10, v10, v1\n")] == [("W001", "error")]


@pytest.mark.parametrize(("load", "severity"), [("global_load_lds_dword v[4:5], off", "warning"),
                                                ("buffer_load_dword v4, s[0:3], 0 offen lds", "error")])
def test_global_loads_into_lds_may_count_on_lgkmcnt(load: str, severity: str) -> None:
    """LLVM counts them there, the hardware's manual does not; of buffer loads nobody says so."""
    code = f"ds_read_b32 v1, v0\n{load}\ns_waitcnt lgkmcnt(1)\nv_mov_b32 v2, v1\ns_endpgm"
    assert [row for row in text(code) if row[0] == "W001"] == [("W001", severity, "v_mov_b32", None, 0)]


def test_lds_loads_over_each_other_are_a_note() -> None:
    k = builder()
    k.ds_read_b32(v[10], v[0])
    k.ds_read_b32(v[10], v[0], offset=4)
    assert [row[:2] for row in found(k)] == [("W009", "note")]


def test_possible_paths_only_are_warnings() -> None:
    """Two branches on one flag: the load runs only where the read does not."""
    k = builder()
    k.s_cbranch_scc1("one")
    k.global_load_dword(v[10], v[0:1], OFF)
    k.label("one")
    k.s_cbranch_scc0("two")
    k.v_mov_b32(v[1], v[10])
    k.label("two")
    k.s_endpgm()
    assert [row[:2] for row in found(k)] == [("W001", "warning")]


def test_a_branch_behind_the_load_makes_a_certain_path() -> None:
    k = builder()
    k.global_load_dword(v[10], v[0:1], OFF)
    k.s_cbranch_scc1("two")
    k.v_mov_b32(v[1], v[10])
    k.label("two")
    k.s_endpgm()
    assert [row[:2] for row in found(k)] == [("W001", "error")]


def test_back_edge_is_a_certain_path() -> None:
    k = builder()
    k.global_load_dword(v[10], v[0:1], OFF)
    k.s_waitcnt(vmcnt=0)
    k.label("loop")
    k.v_add_u32(v[20], v[20], v[10])
    k.global_load_dword(v[10], v[0:1], OFF)
    k.s_cbranch_scc1("loop")
    k.s_endpgm()
    (row,) = [row for row in found(k) if row[1] == "error"]
    assert row[:3] == ("W001", "error", "v_add_u32")


@pytest.mark.parametrize(("change", "severity"), [
    ("s_mov_b64 exec, s[4:5]", "warning"), ("s_xor_b64 exec, exec, s[4:5]", "warning"), ("s_andn2_saveexec_b64 s[4:5], s[6:7]", "warning"),
    ("s_mov_b64 exec, -1", "error"), ("s_and_saveexec_b64 s[4:5], s[6:7]", "error"), ("s_or_b64 exec, exec, s[4:5]", "error")])
def test_other_lanes_may_meet_nothing(change: str, severity: str) -> None:
    rows = text(f"global_load_dword v10, v[0:1], off\n{change}\nv_mov_b32 v1, v10\ns_endpgm\n")
    assert [row[:2] for row in rows] == [("W001", severity)]


def test_code_that_never_runs_is_passed_over() -> None:
    assert text("s_endpgm\nglobal_load_dword v10, v[0:1], off\nv_mov_b32 v1, v10\n") == []


def test_functions_begin_with_anything_in_flight() -> None:
    """A callable function's first wait is not idle, and a call leaves nothing that the caller must wait for."""
    assert text("s_waitcnt vmcnt(0) expcnt(0) lgkmcnt(0)\nv_mov_b32 v0, 1\ns_setpc_b64 s[30:31]\n") == []
    assert text("global_load_dword v10, v[0:1], off\ns_swappc_b64 s[30:31], s[4:5]\nv_mov_b32 v1, v10\ns_endpgm\n") == []
    rows = text("s_load_dwordx2 s[4:5], s[0:1], 0\ns_swappc_b64 s[30:31], s[4:5]\ns_endpgm\n")
    assert [row[:2] for row in rows] == [("W001", "error")]


def test_foreign_barriers_are_notes() -> None:
    assert text("ds_write_b32 v0, v1\ns_barrier\n") == [("W004", "note", "s_barrier", None, 0)]
    assert text("ds_read_b32 v0, v1\ns_barrier\ns_waitcnt lgkmcnt(0)\nv_mov_b32 v1, v0\ns_endpgm\n") == []


def test_upper_vgprs_are_agprs() -> None:
    k = builder()
    k.global_load_dword(v[70], v[0:1], OFF)
    k.v_accvgpr_read_b32(v[1], a[6])
    program = k.program()
    assert found(program) == []
    assert [row[0] for row in found(Program("k", "gfx950", program.items, accum_offset=64))] == ["W001"]


def dma(k: Builder, token: LdsRange) -> None:
    k.s_mov_b32(m0, token.low)
    k.buffer_load_dwordx4(v[0], s[4:7], 0, offen=True, lds=True, fills=token)


@pytest.mark.parametrize("stagger", [0, 1, 2])
def test_one_barrier_too_few(stagger: int) -> None:
    """Fill, wait, barriers, read: 1 + stagger barriers are enough, one fewer is an error."""
    for barriers in range(3 + stagger):
        k = builder(stagger)
        dma(k, A)
        k.s_waitcnt(vmcnt=0)
        for _ in range(barriers):
            k.s_barrier()
        k.ds_read_b128(v[4:7], v[1], uses=A)
        errors = [row for row in found(k) if row[1] == "error"]
        assert errors == ([] if barriers > stagger else [("W003", "error", "ds_read_b128", barriers, 1 + stagger)])


def test_a_write_of_lds_waits_for_the_waves_own_dma() -> None:
    """Which would land on it; another DMA lands after that one, and after the write's own wait nothing is in flight."""
    for waited in (False, True):
        k = builder()
        dma(k, A)
        dma(k, A)
        if waited:
            k.s_waitcnt(vmcnt=0)
        k.ds_write_b128(v[1], v[4:7], fills=A)
        rows = [] if waited else [("W001", "error", "ds_write_b128", None, 0)]
        assert found(k) == rows
        messages = [finding.message for finding in verify(k.program())]
        assert not rows or "overwrites LDS bytes of A that a load still fills while buffer_load_dwordx4" in messages[0]
        k.s_barrier()
        k.ds_read_b128(v[8:11], v[1], uses=A)
        assert sum(row[0] == "W002" for row in found(k)) == 2 - waited  # the write, and the DMA, which is still due at the barrier


@pytest.mark.parametrize("stagger", [0, 1])
def test_refill_one_barrier_too_early(stagger: int) -> None:
    for barriers in range(3 + stagger):
        k = builder(stagger)
        k.ds_read_b128(v[4:7], v[1], uses=A)
        k.s_waitcnt(lgkmcnt=0)
        for _ in range(barriers):
            k.s_barrier()
        dma(k, A)
        errors = [row[:2] for row in found(k) if row[1] == "error"]
        assert errors == ([] if barriers > stagger else [("W003", "error")])


def test_the_wait_stands_before_the_barrier_that_counts() -> None:
    """With a stagger of 1 the wait after the first of two barriers is too late."""
    for late in (False, True):
        k = builder(1)
        dma(k, A)
        if not late:
            k.s_waitcnt(vmcnt=0)
        k.s_barrier()
        if late:
            k.s_waitcnt(vmcnt=0)
        k.s_barrier()
        k.ds_read_b128(v[4:7], v[1], uses=A)
        assert [row[:3] for row in found(k) if row[1] == "error"] == ([("W002", "error", "s_barrier")] if late else [])


def test_other_bytes_and_the_other_buffer_are_free() -> None:
    k = builder()
    dma(k, A)
    k.s_waitcnt(vmcnt=0)
    k.ds_read_b128(v[4:7], v[1], uses=B)
    assert not [row for row in found(k) if row[1] == "error"]


def test_ping_pong_loop_with_stagger() -> None:
    """Two buffers, two wave groups one barrier apart: three barriers a round serve, two do not."""
    for barriers, good in ((2, True), (1, False)):
        k = builder(1)
        dma(k, A)
        k.s_waitcnt(vmcnt=0)
        for _ in range(2):
            k.s_barrier()
        k.label("loop")
        for filled, free in ((A, B), (B, A)):
            k.ds_read_b128(v[4:7], v[1], uses=filled)
            dma(k, free)
            k.s_waitcnt(vmcnt=0, lgkmcnt=0)
            for _ in range(barriers):
                k.s_barrier()
        k.s_cbranch_scc1("loop")
        k.s_endpgm()
        assert (not [row for row in found(k) if row[1] == "error"]) is good


def test_loop_state_is_stated() -> None:
    k = builder()
    k.global_load_dword(v[10], v[0:1], OFF)
    k.label("loop")
    k.global_load_dword(v[11], v[0:1], OFF)
    k.s_waitcnt(vmcnt=1)
    k.v_add_u32(v[20], v[20], v[10])
    k.global_load_dword(v[10], v[0:1], OFF)
    k.global_store_dword(v[2:3], v[9], OFF)
    k.s_cbranch_scc1("loop")
    k.s_endpgm()
    (state,) = WaitFlow(k.program(), automatic=False).loops()
    assert not state.steady and "v10" in state.sentence
    assert [row[0] for row in found(k) if row[0] == "W010"] == ["W010"]


def test_modes_of_blocks() -> None:
    def emit(mode: str, wait: bool) -> Program:
        k = builder()
        k.global_load_dword(v[10], v[0:1], OFF)
        k.global_load_dword(v[11], v[0:1], OFF)
        with k.waits(mode):
            if wait:
                k.s_waitcnt(vmcnt=1)
            k.v_mov_b32(v[1], v[10])
        k.v_mov_b32(v[2], v[11])
        return apply_waits(k.program(), "auto")

    assert [item.text for item in emit("off", False).instructions][2:] == ["v_mov_b32 v1, v10", "s_waitcnt vmcnt(0)", "v_mov_b32 v2, v11"]
    assert len(emit("verify", True)) == 6
    with pytest.raises(AsmgenError, match=r"test_waits_verify.py:\d+: v_mov_b32 reads v10 .* vmcnt\(1\) is needed"):
        emit("verify", False)
    assert len(emit("auto", False)) == 6
    with pytest.raises(AsmgenError, match="there is no such mode"), builder().waits("sometimes"):
        pass


def test_mode_of_a_kernel() -> None:
    k = builder()
    k.ds_read_b32(v[10], v[0])
    k.v_mov_b32(v[1], v[10])
    assert len(apply_waits(k.program(), "off")) == 2
    first, *_ = k.program().instructions
    for one in (first, first.in_mode("off")):
        twice = apply_waits(k.program().with_items([one, one]), "off").instructions
        assert len(set(map(id, twice))) == 2  # findings and the emulator tell places apart by identity
    assert len(apply_waits(k.program(), "auto")) == 3
    with pytest.raises(AsmgenError, match=r"lgkmcnt\(0\)"):
        apply_waits(k.program(), "verify")


def test_exec_is_named_as_the_assembler_does() -> None:
    k = builder()
    k.s_load_dwordx2(s[4:5], s[0:1], 0)
    k.s_mov_b64(exec_, s[4:5])
    (finding,) = verify(k.program())
    assert "s[4:5]" in finding.message and finding.severity == "error"


@pytest.mark.parametrize(("mate", "named"), [("v_mov_b32 v9, v10", "v[192:193]"), ("v_accvgpr_read_b32 v9, a0", "a[32:33]")])
def test_registers_above_the_split_keep_their_names_where_no_agpr_is_named(mate: str, named: str) -> None:
    """v192 of a file split at 160 is a32: the same register, found under either name."""
    lines = ("ds_read_b64 v[192:193], v0", mate, "v_mov_b32 v1, v193", "s_endpgm")
    program = Program("k", "gfx950", tuple(parse_instruction(line, "gfx950") for line in lines), accum_offset=160)
    (finding,) = [finding for finding in verify(program) if finding.severity == "error"]
    assert named in finding.message
