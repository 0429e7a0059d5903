"""Ticks of all other units: those of a stream in their order, evenly by their share of its work."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

from asmgen.author.schedule.partialorder import BUS, FREE, VECTOR, PartialOrder
from asmgen.author.schedule.stepfacts import NoRoom
from asmgen.author.schedule.stepgraph import Edge
from asmgen.author.schedule.unitcosts import UnitKind

_NEXT = 2.0**-16
"""What units without work count as work, so that each point of a string lies beyond the one before; a step has fewer units than that."""


def _streams(order: PartialOrder) -> dict[str, list[int]]:
    """The other units by stream, in emission order, with writes of M0 that no fill needs."""
    found: dict[str, list[int]] = {}
    for number, unit in order.step.units.items():
        if order.step.kinds[number] in (UnitKind.COMPUTE, UnitKind.ADDRESS) and number not in order.at:
            found.setdefault(unit.stream, []).append(number)
    return found


def paced(order: PartialOrder, due: Mapping[int, int]) -> dict[int, int]:
    """A tick for each other unit: a stream's work goes on as evenly as operands and users let it, from its first operands to the end."""
    taken = zip(order.table.left(VECTOR), order.table.left(FREE), strict=True)
    left = [0, *accumulate(int(vector and (issue or tick in order.preferred)) for tick, (vector, issue) in enumerate(taken))]
    found: dict[int, int] = {}
    for numbers in _streams(order).values():
        done = [0, *accumulate(max(order.step.issue(number), order.step.costs[number].busy) if _takes(order, number) else 0
                               for number in numbers)]
        low = [left[max(0, min(order.earliest[number], order.length))] for number in numbers]
        high = [max(first, left[max(0, due[number])]) for first, number in zip(low, numbers, strict=True)]
        for number, share in zip(numbers, evenly(done[:-1], low, high, (done[-1], left[-1])), strict=True):
            found[number] = max(order.earliest[number], min(bisect_left(left, math.floor(share) + 1) - 1, due[number]))
    return found


def evenly(done: Sequence[int], low: Sequence[int], high: Sequence[int], end: tuple[int, int]) -> list[float]:
    """The taut string from the first `low` to `end`, at each point of `done`, between the bounds: no stretch is steeper than it must be.

    From each of its corners it goes straight as far as the bounds let it; the bound that stops it is the next corner. Where `done` stands
    still, the string may rise.
    """
    points = [(across + number * _NEXT, *bounds) for number, (across, *bounds) in enumerate(zip(done, low, high, strict=True))]
    points.append((end[0] + len(done) * _NEXT, end[1], end[1]))
    line = [float(low[0])]
    at, height = 0, float(low[0])
    while at < len(points) - 1:
        least, most = (-math.inf, at + 1), (math.inf, at + 1)  # slopes that serve all points so far, and the points that ask for them
        corner, slope = len(points) - 1, 0.0
        for number in range(at + 1, len(points)):
            lowest, highest = ((points[number][side] - height) / (points[number][0] - points[at][0]) for side in (1, 2))
            if lowest > most[0] or highest < least[0]:
                slope, corner = most if lowest > most[0] else least
                break
            least, most = max(least, (lowest, number)), min(most, (highest, -number))
            most = most[0], abs(most[1])
            slope = lowest  # of the end, where both bounds are one
        line += [height + slope * (points[number][0] - points[at][0]) for number in range(at + 1, corner + 1)]
        at, height = corner, line[-1]
    return line[:-1]


def dues(order: PartialOrder) -> dict[int, int]:
    """The latest tick of each unit that leaves free ticks to each unit after it, of its stream and of those that use its results."""
    table = order.table
    order.table = table.copy()
    try:
        streams = _streams(order)
        waiting = {number for numbers in streams.values() for number in numbers}
        limits = dict.fromkeys(streams, order.length - 1)
        due: dict[int, int] = {}
        while waiting:
            last = {name: numbers[-1] for name, numbers in streams.items() if numbers}
            ready = [name for name, number in last.items() if not any(
                edge.after in waiting and not edge.distance and edge.after != number for edge in order.step.after[number])] or list(last)
            limit = {name: min([limits[name], order.latest[last[name]], *(
                due[edge.after] - edge.latency for edge in order.step.after[last[name]] if not edge.distance and edge.after in due)])
                for name in ready}
            name = max(ready, key=lambda one: (limit[one], last[one]))
            number = streams[name].pop()
            waiting.discard(number)
            tick: int | None = limit[name]
            if _takes(order, number):
                tick = _room(order, number, range(limit[name], -1, -1))
                if tick is not None:
                    _hold(order, number, tick)
            due[number] = limits[name] = limit[name] if tick is None else tick
        return due
    finally:
        order.table = table


def _takes(order: PartialOrder, number: int) -> bool:
    """Whether a unit takes ticks of a plain copy."""
    return not order.step.units[number].tag.seldom


def _issues(order: PartialOrder, number: int) -> int:
    """The ticks, as bits, at which a unit may issue, as far as issue itself and the bus go."""
    cost, table = order.step.costs[number], order.table
    return table.starts(FREE, min(cost.issue, order.step.room)) & table.starts(BUS, cost.bus)


def _vector(order: PartialOrder, number: int) -> int:
    """The ticks for which a unit holds the vector port."""
    return 0 if order.step.units[number].effects.memory else order.step.costs[number].busy


def _room(order: PartialOrder, number: int, choices: Iterable[int]) -> int | None:
    """The first of the ticks at which a unit may issue. While it holds the vector port for longer than its issue, other work may issue,
    be it before or after it."""
    table, vector = order.table, _vector(order, number)
    found = issues = _issues(order, number)
    for later in range(1, vector):
        found |= table.earlier(issues, later)
    return table.among(choices, found & table.starts(VECTOR, vector))


def _hold(order: PartialOrder, number: int, tick: int) -> None:
    """Take the ticks of a unit for which there is room."""
    cost, table, vector = order.step.costs[number], order.table, _vector(order, number)
    at = table.among(range(tick, tick + max(1, vector)), _issues(order, number))
    assert at is not None
    table.take(VECTOR, tick, vector)
    order.take_issue(at, min(cost.issue, order.step.room))
    table.take(BUS, at, cost.bus)


def place_compute(order: PartialOrder) -> None:
    """Each stream in its order, at its pace; a unit stands no earlier than its operands allow and no later than it is due."""
    step, due, streams = order.step, dues(order), _streams(order)
    wanted = paced(order, due)
    reach = dict.fromkeys(streams, 0)
    heads = {name: iter(numbers) for name, numbers in streams.items()}
    next_of = {name: next(numbers) for name, numbers in heads.items()}
    while next_of:
        ready = [one for one in next_of.items() if all(edge.before in order.at or edge.before not in wanted
                                                       for edge in step.before[one[1]] if not edge.distance)]
        name, number = min(ready or next_of.items(), key=lambda one: (wanted[one[1]], one[1]))
        first = max([reach[name] if _takes(order, number) else 0, order.earliest[number],
                     *(order.at[edge.before] + _latency(order, edge) - edge.distance * order.length
                       for edge in step.before[number] if edge.before in order.at)])
        if not _takes(order, number):
            order.at[number] = first
        else:
            if first > order.latest[number]:
                unit = step.units[number]
                raise NoRoom(unit, f"{unit} has no tick: its operands are there at tick {first} of {order.length}, after "
                                   f"{order.asks(number, True, order.at)}, and {order.asks(number, False, order.at)} needs its result at "
                                   f"tick {order.latest[number]}")
            order.at[number] = reach[name] = _tick_of(order, number, first, wanted[number], due[number])
        following = next(heads[name], None)
        if following is None:
            del next_of[name]
        else:
            next_of[name] = following


def _tick_of(order: PartialOrder, number: int, first: int, wanted: int, due: int) -> int:
    """The tick of a unit whose operands are there at `first`. Exact orders take a free tick; it may be a gap before the wanted one, so that
    later units have room. Where none is free, or in other orders, the unit stands beside others, and the step takes longer there."""
    last = order.latest[number]
    if not order.exact:
        return max(first, min(wanted, last))
    tick = _room(order, number, range(max(first, min(wanted - order.step.room, due)), order.length))
    if tick is None or tick > due:
        earlier = _room(order, number, range(min(due, order.length - 1), first - 1, -1))
        tick = earlier if earlier is not None else tick
    if tick is None or tick > last:
        return max(first, min(wanted, due))
    _hold(order, number, tick)
    return tick


def _latency(order: PartialOrder, edge: Edge) -> int:
    """The ticks of an edge; those of a read include the time until its data are there, which a wait would take too."""
    return max(edge.latency, order.step.result(edge)) if edge in order.step.raw else edge.latency


def beside(order: PartialOrder) -> tuple[frozenset[int], dict[int, int]]:
    """The ticks in which the vector port is taken and the wave could issue something else, if nothing but vector work stood in the step;
    and where that work then stands."""
    table, at, exact = order.table, order.at, order.exact
    order.table, order.at, order.exact = table.copy(), dict(at), True
    try:
        place_compute(order)
        vector, free = order.table.left(VECTOR), order.table.left(FREE)
        return frozenset(tick for tick in range(order.length) if free[tick] and not vector[tick]), order.at
    finally:
        order.table, order.at, order.exact = table, at, exact
