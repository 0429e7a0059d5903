"""Where SGPRs lie that the lowest free places do not serve: the smallest hole, and the widest ranges first."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from asmgen.isa.registers import Reg, s
from asmgen.regalloc.plan import RegisterPlan
from asmgen.regalloc.scalarplaces import Holding, closest, placed
from asmgen.regalloc.shortage import OutOfRegisters


def taken(plan: RegisterPlan) -> None:
    """All but five SGPRs, then two lasting singles between brief ones: the lowest places leave no four side by side."""
    plan.pin("arguments", s[0:95])
    for number in range(2):
        brief = plan.sgprs(1, "brief")
        plan.sgprs(1, f"lasting_{number}")
        plan.release(brief)
    plan.sgprs(4, "descriptor")


def again(write: Callable[[RegisterPlan], None]) -> RegisterPlan:
    """What a second writing takes, after a first that failed."""
    first = RegisterPlan("gfx942")
    with pytest.raises(OutOfRegisters):
        write(first)
    second = RegisterPlan("gfx942")
    second.scalars.wanted = placed(first.scalars.known())
    write(second)
    return second


@pytest.mark.parametrize("free,count,align,at", [
    ([*range(8, 12), 15], 1, 1, 15),  # no four is broken for a single
    ([4, 5, 8, 9, 10, 11], 1, 1, 4),
    ([4, 5, 8, 9, 10, 11], 2, 2, 4),
    ([4, 5, 8, 9, 10, 11], 4, 4, 8),
    ([9, 10, 11, 12], 4, 4, None), ([9, 10, 11, 12], 4, 1, 9),
    ([*range(96, 102)], 1, 1, 100),  # the file ends with two
    ([], 1, 1, None)])
def test_the_smallest_hole(free: list[int], count: int, align: int, at: int | None) -> None:
    assert closest(sum(1 << index for index in free), count, align) == at


def test_lasting_singles_leave_fours_when_written_again() -> None:
    plan = again(taken)
    assert plan.owner(s[96:99]) is not None and {str(r.reg) for r in plan.live()} == {"s[0:95]", "s100", "s101", "s[96:99]"}
    assert [str(r.reg) for r in again(taken).ranges] == [str(r.reg) for r in plan.ranges]


def test_pins_stay_and_what_is_held_at_one_time_lies_apart() -> None:
    held = [Holding("pin", 0, s[0:3], None, 0), Holding("x", 0, s[4:4], 1, 1, 3), Holding("x", 1, s[4:4], 1, 3),
            Holding("wide", 0, Reg("s", 0, 4), 4, 4)]
    found = placed(held)
    assert ("pin", 0) not in found and found["wide", 0].reg.index % 4 == 0 and not found["wide", 0].bits & 0xF
    assert not found["x", 1].bits & found["wide", 0].bits
    assert not held[1].beside(held[2]) and held[2].beside(held[3])


def test_what_no_order_serves_is_left_out() -> None:
    held = [Holding("pin", 0, s[0:97], None, 0), Holding("four", 0, Reg("s", 0, 4), 4, 1), Holding("five", 0, Reg("s", 0, 5), 4, 2)]
    assert placed(held) == {}


def test_a_plan_without_places_takes_the_lowest() -> None:
    plan = RegisterPlan("gfx942")
    plan.pin("arguments", s[0:7])
    assert plan.sgprs(1, "one") == s[8] and plan.sgprs(4, "four") == s[12:15] and plan.scalars.wanted is None
