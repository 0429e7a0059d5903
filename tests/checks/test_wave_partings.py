"""Waves of a workgroup that part at a branch and pass different numbers of barriers (W014), and branches at which none is wrong."""

from __future__ import annotations

import pytest

from asmgen.author.emit.builder import Builder
from asmgen.author.emit.ldsmap import LdsRange
from asmgen.checks.mutants.mutants import Judge, mutants
from asmgen.checks.waits.verify import verify
from asmgen.checks.waits.waitmodes import apply_waits
from asmgen.isa.registers import s, v
from asmgen.kernels.attention_forward.library import ATTENTION
from asmgen.program.program import Program
from asmgen.reader.assembly import read_text

_BARRIER = "s_barrier\n"
_WAVE = "v_readfirstlane_b32 s8, v0\ns_lshr_b32 s8, s8, 6\n"
_PARTS = _WAVE + "s_add_u32 s9, s2, s8\ns_cmp_ge_i32 s9, 3\n"  # a workgroup's number and a wave's
_UNIFORM = _WAVE + "s_add_u32 s9, s2, s3\ns_cmp_ge_i32 s9, 3\n"
_OPEN = "s_cmp_eq_u32 s8, 0\ns_cbranch_scc1 in_phase\ns_barrier\nin_phase:\n"
_LEVEL = "s_cmp_eq_u32 s8, 0\ns_cbranch_scc0 LABEL\ns_barrier\nLABEL:\n"
_LOOP = "round:\ns_barrier\ns_sub_u32 s10, s10, 1\ns_cmp_eq_u32 s10, 0\ns_cbranch_scc0 round\n"


def read(body: str, stagger: int = 1) -> Program:
    (program,) = read_text((f"; stagger {stagger}\n" if stagger else "") + body + "s_endpgm\n", "gfx950")
    return program


def partings(body: str, stagger: int = 1) -> list[tuple[int | None, int | None]]:
    """Barriers where the branch is taken and where it is not."""
    found = [finding for finding in verify(read(body, stagger), notes=False) if finding.rule == "W014"]
    assert all(finding.severity == "warning" and finding.consumer.is_branch for finding in found)
    return [(finding.have, finding.need) for finding in found]


def ways(condition: str, passed: str, taken: str, after: str = "v_mov_b32 v5, 1\n") -> str:
    """Code that goes two ways and meets again."""
    return f"{condition}s_cbranch_scc1 leaves\n{passed}s_branch done\nleaves:\n{taken}done:\n{after}"


def _through_shared(passed: str, shared: str = "v_mov_b32 v6, 1\n") -> str:
    """A loop, and a branch behind it of which one way goes through a block that the loop enters too."""
    def call(number: int) -> str:
        return f"s_cbranch_vccz stub{number}\nback{number}:\n"

    return ("round:\ns_barrier\n" + call(0) + "s_sub_u32 s10, s10, 1\ns_cmp_eq_u32 s10, 0\ns_cbranch_scc0 round\n"
            + ways(_PARTS, call(1) + passed, _BARRIER)
            + "s_endpgm\nstub0:\ns_mov_b32 s12, 0\ns_branch seldom\nstub1:\ns_mov_b32 s12, 1\ns_branch seldom\n"
            + f"seldom:\n{shared}s_cmp_eq_u32 s12, 0\ns_cbranch_scc1 back0\ns_branch back1\n")


@pytest.mark.parametrize(("body", "found"), [
    (ways(_PARTS, 2 * _BARRIER, 2 * _BARRIER), []),
    (ways(_PARTS, 2 * _BARRIER, _BARRIER), [(1, 2)]),
    (ways(_PARTS, _BARRIER, 2 * _BARRIER, 3 * _BARRIER), [(2, 1)]),
    (_PARTS + "s_cbranch_scc1 past\ns_barrier\nv_mov_b32 v4, 1\npast:\ns_barrier\n", [(0, 1)]),
    # The workgroup's number decides for all waves alike; so does what they load from an address that all have.
    (ways(_UNIFORM, 2 * _BARRIER, _BARRIER), []),
    (ways("s_load_dword s9, s[4:5], 0\ns_waitcnt lgkmcnt(0)\ns_cmp_eq_u32 s9, 0\n", _BARRIER, ""), []),
    # The number is overwritten, and what a branch tests is that of all.
    (ways("v_mov_b32 v0, 5\n" + _PARTS, 2 * _BARRIER, _BARRIER), []),
    (ways(_PARTS + "s_cmp_eq_u32 s2, 0\n", 2 * _BARRIER, _BARRIER), []),
    # By data: loaded by each lane for itself.
    (ways("global_load_dword v3, v0, s[4:5]\ns_waitcnt vmcnt(0)\nv_cmp_lt_f32 vcc, 0, v3\n", _BARRIER, "").replace("scc1", "vccnz"),
     [(0, 1)]),
    # On one of the ways all waves may go on by either of two; that is right if one of them is.
    (ways(_PARTS, ways("s_cmp_eq_u32 s2, 0\n", _BARRIER, 2 * _BARRIER).replace("leaves", "other").replace("done", "inner"), _BARRIER), []),
    (ways(_PARTS, ways("s_cmp_eq_u32 s2, 0\n", _BARRIER, 2 * _BARRIER).replace("leaves", "other").replace("done", "inner"), ""), [(0, 1)]),
    # Both ways go through a block that they share with other code; each returns to its own.
    (_through_shared(_BARRIER), []),
    (_through_shared(2 * _BARRIER), [(1, 2)]),
    (_through_shared(2 * _BARRIER, shared=_BARRIER), []),  # nobody follows one way through a shared block with barriers
    # A loop over barriers has any number of them; one without has none.
    (ways(_PARTS, "s_mov_b32 s10, 4\n" + _LOOP, 4 * _BARRIER), []),
    (ways(_PARTS, _BARRIER + _LOOP.replace(_BARRIER, ""), 2 * _BARRIER), [(2, 1)]),
    (_PARTS + "again:\ns_barrier\ns_add_u32 s9, s9, 1\ns_cmp_ge_i32 s9, 3\ns_cbranch_scc0 again\n", []),
    # Ends apart: with barriers before them, and without.
    (_PARTS + f"s_cbranch_scc1 leaves\n{2 * _BARRIER}s_endpgm\nleaves:\n{_BARRIER}", [(1, 2)]),
    (_PARTS + f"s_cbranch_scc1 leaves\n{2 * _BARRIER}s_endpgm\nleaves:\n", []),
])
def test_barriers_of_waves_that_part(body: str, found: list[tuple[int, int]]) -> None:
    assert partings(body) == found
    assert partings(body, stagger=0) == []  # foreign code


def test_a_stagger_counts_apart() -> None:
    """Ways level the halves each for itself; the branches that set them apart and bring them level have unlike ways by design."""
    levels = [_LEVEL.replace("LABEL", label) for label in ("level", "also_level")]
    parts = "s_cmp_ge_i32 s9, 3\n"
    opened = _WAVE + "s_add_u32 s9, s2, s8\n" + _OPEN + 3 * _BARRIER
    assert partings(opened + ways(parts, 2 * _BARRIER + levels[0], _BARRIER + levels[1] + _BARRIER)) == []
    assert partings(opened + ways(parts, 2 * _BARRIER + levels[0], _BARRIER + levels[1])) == [(1, 2)]
    # One way leaves the halves apart: a barrier more would not mend that.
    assert partings(opened + ways(parts, 2 * _BARRIER + levels[0], 3 * _BARRIER)) == [(3, 2)]
    (alone,) = [finding for finding in verify(read(opened + ways(parts, 2 * _BARRIER + levels[0], 2 * _BARRIER))) if finding.rule == "W014"]
    assert "the others alone pass a branch over s_barrier" in alone.message


def test_roles_have_barriers_of_their_own() -> None:
    body = f"{_PARTS}s_cbranch_scc1 consumers\nproducers:\n{3 * _BARRIER}s_endpgm\nconsumers:\n{2 * _BARRIER}"
    assert partings(body) == [(2, 3)]
    assert partings("; roles consumers producers\n" + body) == []


@pytest.mark.slow
def test_a_barrier_of_a_way_out_is_missed() -> None:
    """Each barrier after the places where waves leave the end of attention's loop early, and on their ways."""
    program = ATTENTION.build("gfx950", {"causal": True, "waves": 8}).program
    assert not [finding for finding in verify(program) if finding.rule == "W014"]
    ways_out = sorted(position for label, position in program.labels.items() if label.startswith("leaves"))
    first, last = ways_out[-1], next(position for label, position in program.labels.items() if label.startswith("all_done"))
    inside = {id(instruction) for instruction in program.instructions[first:last] if instruction.name == "s_barrier"}
    judge = Judge(program)
    assert len(inside) > 2
    assert all(judge.notices(mutant) for mutant in mutants(program) if id(mutant.original) in inside)


def way_out(wait: int | None, reads: str = "A[0] 0x0:0x400") -> str:
    """A wave fills A, goes another way than those that read it two barriers later, and waits for its fill on the way."""
    waited = "" if wait is None else f"s_waitcnt vmcnt({wait})\n"
    fills = "".join(f"buffer_load_dword v1, s[4:7], 0 offen lds ; lds write {filled}\n" for filled in ("A[0] 0x0:0x400", "B 0x800:0xc00"))
    return (f"s_mov_b32 m0, 0\n{fills}{_PARTS}s_cbranch_scc1 leaves\ns_waitcnt vmcnt(1)\n{2 * _BARRIER}"
            f"ds_read_b32 v2, v1 ; lds read A[0] 0x0:0x400\ns_endpgm\nleaves:\n{waited}s_barrier\ns_barrier ; lds read {reads}\n")


@pytest.mark.parametrize(("program", "missing"), [
    (way_out(1), 0), (way_out(None), 1), (way_out(2), 1), (way_out(None, "A[0] 0x400:0x500"), 0), (way_out(1, "B 0x800:0xc00"), 1),
])
def test_fills_are_waited_for_on_a_way_whose_barrier_says_what_others_read(program: str, missing: int) -> None:
    """With a stagger, the barrier before that one is the last that may do; what is no part of what is read, or newer, may be in flight."""
    found = [finding for finding in verify(read(program)) if finding.severity == "error"]
    assert [(finding.rule, finding.consumer.name) for finding in found] == [("W002", "s_barrier")] * missing


def test_what_others_read_is_waited_for_by_insertion() -> None:
    k = Builder("k", "gfx950", stagger=1)
    held = LdsRange("A", 0, 1024)
    for fills in (held, LdsRange("B", 2048, 3072)):
        k.buffer_load_dword(v[1], s[4:7], 0, offen=True, lds=True, fills=fills)
    k.wait_slot()
    k.s_barrier()
    k.barrier_of_readers((held.read(),))
    k.s_endpgm()
    program = apply_waits(k.program(), "auto")
    assert [instruction.text for instruction in program.instructions if instruction.name.startswith(("s_w", "s_b"))] == [
        "s_waitcnt vmcnt(1)", "s_barrier", "s_barrier"]
    assert not [finding for finding in verify(program) if finding.severity != "note"]
