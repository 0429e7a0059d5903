"""Ticks of the matrix units, and of packed f32, which does not run beside them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from asmgen.author.schedule.partialorder import FREE, VECTOR, PartialOrder
from asmgen.author.schedule.stepfacts import NoRoom
from asmgen.author.schedule.streamtimes import dues, paced
from asmgen.author.schedule.unitcosts import UnitKind
from asmgen.author.step.merge import described


def place_matrix(order: PartialOrder) -> None:
    """The matrix units over the length, by their durations; each run of packed f32 in a pause between two of them. The last ticks are for
    the loop's scalar code and branch. Raises NoRoom where no pause serves a run."""
    step = order.step
    durations = [max(step.costs[number].busy, step.costs[number].issue) for number in step.matrix]
    _stretch(order, durations, [0] * len(durations))
    order.bound()
    if step.groups:
        paused = [list[tuple[int, ...]]() for _ in durations]
        idle = [0] * len(durations)  # ticks until the operands of a gap's runs are there
        wanted = paced(order, dues(order))
        for group in step.groups:
            gap, late = _gap_of(order, group, wanted[group[0]])
            paused[gap].append(group)
            idle[gap] = max(idle[gap], late)
        _stretch(order, durations, [late + sum(map(step.pause, groups)) for late, groups in zip(idle, paused, strict=True)])
        for number, late, groups in zip(step.matrix, idle, paused, strict=True):
            tick = order.at[number] + step.costs[number].busy + step.hazard + late
            for one in itertools.chain(*groups):
                order.at[one] = tick
                tick += max(step.costs[one].busy, 1)
        _check(order)
        order.bound()
    for number in order.at:
        issue = step.costs[number].issue
        order.table.take(FREE, order.at[number], issue)
        order.table.take(VECTOR, order.at[number], max(issue, 0 if step.kinds[number] is UnitKind.MATRIX else step.costs[number].busy))
    order.table.take(FREE, order.length - order.ends, order.ends)


def _stretch(order: PartialOrder, durations: Sequence[int], pauses: Sequence[int]) -> None:
    """Matrix units over the length without pauses, by their durations, each followed by its pause."""
    whole, room = sum(durations), order.length - sum(pauses)
    done = paused = 0
    for number, duration, pause in zip(order.step.matrix, durations, pauses, strict=True):
        order.at[number] = done * room // whole + paused
        done += duration
        paused += pause


def _gap_of(order: PartialOrder, group: Sequence[int], wanted: int) -> tuple[int, int]:
    """The gap, by the number of the matrix unit before it, nearest to the wanted tick, or `delay` gaps later; and the ticks in it until the
    run's operands are there."""
    step, earliest = order.step, order.earliest[group[0]]
    ends = [order.at[number] + step.costs[number].busy + step.hazard for number in step.matrix]
    nexts = [*(order.at[number] for number in step.matrix[1:]), order.length]
    allowed = [gap for gap, (end, following) in enumerate(zip(ends, nexts, strict=True))
               if earliest < following and max(end, earliest) <= order.latest[group[-1]]]
    if not allowed:
        unit = step.units[group[0]]
        raise NoRoom(unit, f"{unit} has no pause of the matrix cores: its operands are there at tick {earliest} of {order.length}, after "
                           f"{order.asks(group[0], True, order.at)}, and {order.asks(group[-1], False, order.at)} needs the run's result "
                           f"at tick {order.latest[group[-1]]}")
    gap = min(min(allowed, key=lambda gap: abs(ends[gap] - wanted)) + order.delay, allowed[-1])
    return gap, max(0, earliest - ends[gap])


def _check(order: PartialOrder) -> None:
    """Pauses move matrix units: dependences among what stands hold still."""
    for before, after, latency, distance, _ in order.step.edges:
        if before in order.at and after in order.at and order.at[before] + latency > order.at[after] + distance * order.length:
            unit = order.step.units[after]
            raise NoRoom(unit, f"{unit} would stand before its operand of {described(order.step.units[before])} is there, in a step of "
                               f"{order.length} ticks")
