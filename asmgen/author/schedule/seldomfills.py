"""Ticks of fills that plain copies of a step do not have: those of the first iteration. They cost a steady step nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from asmgen.author.schedule.partialorder import PartialOrder
from asmgen.author.schedule.stepfacts import NoRoom
from asmgen.author.schedule.unitcosts import UnitKind
from asmgen.author.step.merge import described

_Key = tuple[int, int]
"""A tick and a number: units of one tick stand by number."""


def place_seldom(order: PartialOrder, writers: Mapping[int, int]) -> None:
    """Those with one write of M0 stand in one tick, with that write, where no other fill needs what M0 holds. `writers` are the units that
    write M0 for a fill, by fill."""
    step = order.step
    groups: dict[int, list[int]] = {}
    for number in step.of(UnitKind.FILL):
        groups.setdefault(writers.get(number, number), []).append(number)
    held = [_held(order, writer, group) for writer, group in groups.items() if not step.units[group[0]].tag.seldom]
    for writer, group in groups.items():
        if not step.units[group[0]].tag.seldom:
            continue
        first, last = max(order.ranges[number][0] for number in group), min(order.ranges[number][1] for number in group)
        tick = next((tick for tick in range(first, last + 1) if _stands_apart(tick, writer, group, held)), None)
        if tick is None:
            other = next(number for of, number in ((of, numbers[0]) for of, numbers in groups.items()) if of != writer)
            raise NoRoom(step.units[group[0]], f"{step.units[group[0]]} has no tick: between the barriers of the step M0 has another value "
                                               f"for {described(step.units[other])}")
        for number in {writer, *group}:
            order.at[number] = tick


def _held(order: PartialOrder, writer: int, group: Sequence[int]) -> tuple[_Key, _Key]:
    """From the write of M0 to the last fill that needs it."""
    last = max(group, key=lambda number: (order.at[number], number))
    return (order.at[writer], writer), (order.at[last], last)


def _stands_apart(tick: int, writer: int, group: Sequence[int], held: Sequence[tuple[_Key, _Key]]) -> bool:
    begin, end = (tick, writer), (tick, max(group))
    return all(end < first or begin > last for first, last in held)
