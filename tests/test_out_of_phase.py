"""Half of the waves set behind by a conditional barrier, and brought level again: W012 finds the one without the other."""

from __future__ import annotations

import pytest

from asmgen.checks.counters.outofphase import ends_out_of_phase
from asmgen.checks.counters.verify import verify
from asmgen.program.controlflow import control_flow
from asmgen.reader.assembly import read_text

_OPEN = "s_cmp_eq_u32 s8, 0\ns_cbranch_scc1 in_phase\ns_barrier\nin_phase:\n"
_CLOSE = "s_cmp_eq_u32 s8, 0\ns_cbranch_scc0 level\ns_barrier\nlevel:\n"
_LOOP = "round:\ns_barrier\ns_sub_u32 s9, s9, 1\ns_cmp_eq_u32 s9, 0\ns_cbranch_scc0 round\n"
_SECOND = _CLOSE.replace("level", "also_level")


def shifts(body: str, stagger: int = 1) -> list[list[int]]:
    (program,) = read_text((f"; stagger {stagger}\n" if stagger else "") + body + "s_endpgm\n", "gfx950")
    found = list(ends_out_of_phase(program, control_flow(program)).values())
    said = [finding for finding in verify(program) if finding.rule == "W012"]
    assert len(said) == len(found) and all(finding.severity == "warning" and finding.consumer.name == "s_endpgm" for finding in said)
    return found


@pytest.mark.parametrize(("body", "apart"), [
    (_OPEN + _LOOP + _CLOSE, []),
    (_OPEN + _LOOP, [[1]]),
    (_LOOP + _CLOSE, [[-1]]),
    (_LOOP, []),
    # Two ways to the end, each with its own closing branch; then one of them without.
    (_OPEN + "s_cmp_eq_u32 s9, 1\ns_cbranch_scc1 short\n" + _LOOP + _CLOSE + "s_endpgm\nshort:\n" + _SECOND, []),
    (_OPEN + "s_cmp_eq_u32 s9, 1\ns_cbranch_scc1 short\n" + _LOOP + _CLOSE + "s_endpgm\nshort:\n", [[1]]),
    # A branch over a barrier and something else is no stagger: code that a wave may pass by.
    ("s_cbranch_scc1 past\ns_barrier\nv_mov_b32 v0, 1\npast:\n", []),
    # A loop that sets the halves apart anew in each round.
    ("again:\n" + _OPEN + "s_cmp_eq_u32 s9, 0\ns_cbranch_scc0 again\n", [[1, 2, 3, 4]]),
])
def test_shift_at_the_end(body: str, apart: list[list[int]]) -> None:
    assert shifts(body) == apart
    assert shifts(body, stagger=0) == []


def test_two_barriers_need_two() -> None:
    both = _OPEN.replace("s_barrier", "s_barrier\ns_barrier")
    assert shifts(both + _LOOP + _CLOSE.replace("s_barrier", "s_barrier\ns_barrier"), 2) == []
    assert shifts(both + _LOOP + _CLOSE, 2) == [[1]]
