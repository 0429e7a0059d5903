"""Ticks of all other units: those of a stream in their order, evenly by their share of its work."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate

from asmgen.author.schedule.partialorder import FREE, VECTOR, PartialOrder
from asmgen.author.schedule.stepfacts import NoRoom
from asmgen.author.schedule.stepgraph import Edge
from asmgen.author.schedule.unitcosts import UnitKind


def _streams(order: PartialOrder) -> dict[str, list[int]]:
    """The other units by stream, in emission order, with writes of M0 that no fill needs."""
    found: dict[str, list[int]] = {}
    for number, unit in order.step.units.items():
        if order.step.kinds[number] in (UnitKind.COMPUTE, UnitKind.ADDRESS) and number not in order.at:
            found.setdefault(unit.stream, []).append(number)
    return found


def paced(order: PartialOrder) -> dict[int, int]:
    """A tick for each other unit: where its share of the stream's work is done, within its bounds."""
    taken = zip(order.table.left(VECTOR), order.table.left(FREE), strict=True)
    left = list(accumulate(vector and (issue or tick in order.preferred) for tick, (vector, issue) in enumerate(taken)))
    found: dict[int, int] = {}
    for numbers in _streams(order).values():
        work = [max(order.step.issue(number), order.step.costs[number].busy * (not order.step.units[number].tag.seldom))
                for number in numbers]
        done, whole = 0, max(1, sum(work))
        due = _due(order, numbers)
        for number, own in zip(numbers, work, strict=True):
            share = bisect_left(left, done * left[-1] // whole + 1)
            found[number] = max(order.earliest[number], min(share, due[number]))
            done += own
    return found


def _due(order: PartialOrder, numbers: Sequence[int]) -> dict[int, int]:
    """The latest tick of each unit of a stream that leaves free ticks to each unit after it."""
    due: dict[int, int] = {}
    limit = order.length - 1
    for number in reversed(numbers):
        limit = min(limit, order.latest[number])
        if _takes(order, number):
            tick = _room(order, number, range(limit, -1, -1))
            limit = limit if tick is None else tick
        due[number] = limit
        limit -= _takes(order, number)
    return due


def _takes(order: PartialOrder, number: int) -> bool:
    """Whether a unit takes ticks of a plain copy."""
    return not order.step.units[number].tag.seldom


def _room(order: PartialOrder, number: int, choices: Iterable[int]) -> int | None:
    """The first of the ticks at which a unit may issue. While it holds the vector port for longer than its issue, other work may issue,
    be it before or after it."""
    cost = order.step.costs[number]
    vector = 0 if order.step.units[number].effects.memory else cost.busy
    issue = min(cost.beside, order.step.room)
    free = order.table.free
    for tick in choices:
        if free(VECTOR, tick, vector):
            for later in range(max(1, vector)):
                if free(FREE, tick + later, issue):
                    return tick
    return None


def _hold(order: PartialOrder, number: int, tick: int) -> None:
    """Take the ticks of a unit for which there is room."""
    cost = order.step.costs[number]
    vector = 0 if order.step.units[number].effects.memory else cost.busy
    issue = min(cost.beside, order.step.room)
    order.table.take(VECTOR, tick, vector)
    order.table.take(FREE, next(tick + later for later in range(max(1, vector)) if order.table.free(FREE, tick + later, issue)), issue)


def place_compute(order: PartialOrder) -> None:
    """Each stream in its order, at its pace; a unit stands no earlier than its operands allow and no later than it is due."""
    step, wanted, streams = order.step, paced(order), _streams(order)
    due = {number: tick for numbers in streams.values() for number, tick in _due(order, numbers).items()}
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
                raise NoRoom(unit, f"{unit} has no tick: its operands are there at tick {first} of {order.length}, and its result is due "
                                   f"at tick {order.latest[number]}")
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
