"""Half of the waves delayed by a conditional barrier, and brought level again: W012 finds the one without the other, W013 halves that
compute at once."""

from __future__ import annotations

import pytest

from asmgen.checks.waits.verify import verify
from asmgen.checks.wavegroups.outofphase import Phases
from asmgen.program.controlflow import control_flow
from asmgen.reader.assembly import read_text

_OPEN = "s_cmp_eq_u32 s8, 0\ns_cbranch_scc1 in_phase\ns_barrier\nin_phase:\n"
_CLOSE = "s_cmp_eq_u32 s8, 0\ns_cbranch_scc0 level\ns_barrier\nlevel:\n"
_LOOP = "round:\ns_barrier\ns_sub_u32 s9, s9, 1\ns_cmp_eq_u32 s9, 0\ns_cbranch_scc0 round\n"
_SECOND = _CLOSE.replace("level", "also_level")


def shifts(body: str, stagger: int = 1) -> list[list[int]]:
    (program,) = read_text((f"; stagger {stagger}\n" if stagger else "") + body + "s_endpgm\n", "gfx950")
    found = list(Phases(program, control_flow(program)).apart_at_the_end().values())
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


def meetings(body: str, stagger: int = 1) -> list[tuple[str, str]]:
    """What the two halves do at once: first sources of the MFMAs, the late one first."""
    (program,) = read_text((f"; stagger {stagger}\n" if stagger else "") + body + "s_endpgm\n", "gfx950")
    found = [finding for finding in verify(program) if finding.rule == "W013"]
    assert all(finding.severity == "note" for finding in found)
    assert not [finding for finding in verify(program, notes=False) if finding.rule == "W013"]
    return [(str(finding.producer.operands[1]), str(finding.consumer.operands[1])) for finding in found if finding.producer is not None]


def stages(*which: int) -> str:
    """Stages, each with a barrier after it: an MFMA of v[N:N+3], or, for 0, something else."""
    return "".join((f"v_mfma_f32_16x16x32_bf16 v[80:83], v[{first}:{first + 3}], v[60:63], v[80:83]\n" if first else "v_mov_b32 v9, 1\n")
                   + "s_barrier\n" for first in which)


@pytest.mark.parametrize(("body", "found"), [
    (_OPEN + stages(0, 4, 0, 8) + _CLOSE, []),
    (stages(4, 8, 12) + _OPEN + stages(4, 0) + _CLOSE + stages(8, 12), []),  # the halves are level at both ends
    (_OPEN + stages(0, 4, 8, 0) + _CLOSE, [("v[4:7]", "v[8:11]")]),
    (_OPEN + stages(0, 4, 8, 12) + _CLOSE, [("v[4:7]", "v[8:11]"), ("v[8:11]", "v[12:15]")]),
    # A missing barrier joins a stage to the one before it.
    (_OPEN + stages(0, 4) + "v_mov_b32 v9, 2\n" + stages(8, 0) + _CLOSE, [("v[4:7]", "v[8:11]")]),
    # A loop whose last stage meets its first one.
    (_OPEN + "round:\n" + stages(4, 0, 8) + "s_cmp_eq_u32 s9, 0\ns_cbranch_scc0 round\n" + _CLOSE, [("v[8:11]", "v[4:7]")]),
    (_OPEN + "round:\n" + stages(4, 0, 8, 0) + "s_cmp_eq_u32 s9, 0\ns_cbranch_scc0 round\n" + _CLOSE, []),
])
def test_halves_that_compute_at_once(body: str, found: list[tuple[str, str]]) -> None:
    assert meetings(body) == found
    assert meetings(body, stagger=0) == []


def test_halves_two_barriers_apart_meet_two_stages_later() -> None:
    both = [_OPEN.replace("s_barrier", "s_barrier\ns_barrier"), _CLOSE.replace("s_barrier", "s_barrier\ns_barrier")]
    assert meetings(both[0] + stages(4, 8, 0, 0) + both[1], 2) == []
    assert meetings(both[0] + stages(4, 0, 8, 0) + both[1], 2) == [("v[4:7]", "v[8:11]")]
