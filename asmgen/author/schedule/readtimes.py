"""Ticks of reads of LDS, of loads into registers, and of the waits for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from asmgen.author.schedule.barrierchoice import Ticks
from asmgen.author.schedule.partialorder import APART, BUS, FREE, GAP, LDS, MEMORY, PORT, PartialOrder
from asmgen.author.schedule.stepfacts import NoRoom
from asmgen.author.schedule.unitcosts import UnitKind


def place_reads(order: PartialOrder, numbers: Sequence[int], known: Mapping[int, int]) -> None:
    """The earliest ticks, those with the earliest use first; each apart from others on its resource if the time to its use allows."""
    step, length = order.step, order.length
    ranges = []
    for number in numbers:
        first = max([order.earliest[number], *(known[edge.before] + edge.latency - edge.distance * length
                                              for edge in step.before[number] if edge.before in known)])
        last = min([order.latest[number], *(known[edge.after] + edge.distance * length - 1
                                           for edge in step.after[number] if edge.after in known)])
        soft = min([last, *(known[edge.after] + edge.distance * length - step.result(edge)
                            for edge in step.users[number] if edge.after in known)])
        if first > last:
            unit = step.units[number]
            raise NoRoom(unit, f"{unit} has no tick: {order.asks(number, True, known)} needs what it overwrites up to tick "
                               f"{first % length} of {length}, and {order.asks(number, False, known)} needs what it reads at tick "
                               f"{last % length}")
        ranges.append((last, first, soft, number))
    for last, first, soft, number in sorted(ranges):
        cost = step.costs[number]
        resource = LDS if step.kinds[number] is UnitKind.LDS_READ else MEMORY
        free, bus = (FREE, min(cost.issue, step.room)), (BUS, cost.bus)
        easy = range(max(first, 0) if soft >= 0 else first, max(first, soft) + 1)
        apart = (2 - bool(order.preferred)) * length // len(step.matrix) if order.spread else 1
        if _overwrites_computed(order, number):
            easy = easy[::-1]
        good = [tick for tick in easy if tick % length in order.preferred] if order.preferred else list(easy)
        served = free, bus, (resource, cost.busy)
        choices: list[tuple[Sequence[int], tuple[tuple[str, int], ...]]] = [
            (good, (*served, (APART, apart), (GAP, 1))), (good, (*served, (APART, apart))), (good, (*served, (GAP, 1))), (good, served),
            (easy, served)]
        if cost.port:  # what cannot come at the rate of memory comes at that of the port, be it late: a full queue holds up all that issues
            choices += [(ticks, (free, bus, (PORT, cost.port))) for ticks in (easy, range(max(first, soft), last + 1))]
        choices += [(range(first, soft + 1), (free, bus)), (range(first, soft + 1), (free,)), (range(first, last + 1), (free,))]
        for ticks, wanted in choices:
            tick = order.table.first(ticks, *wanted)
            if tick is not None:
                order.table.take(APART, tick, apart)
                break
        if tick is None:
            tick = max(first, soft)  # beside another unit: the step then takes longer
        order.stand(number, tick, resource)


def _overwrites_computed(order: PartialOrder, number: int) -> bool:
    """Whether a read overwrites what vector work uses, whose ticks are not known yet: the later it stands, the more room that work has."""
    step = order.step
    return any(step.kinds[edge.before] is UnitKind.COMPUTE and edge.before not in order.at for edge in step.before[number])


def add_waits(order: PartialOrder) -> None:
    """Each read has a wait after its data have arrived and before its first use; as few waits as serve all."""
    step, length = order.step, order.length
    due = []
    for number in (*step.of(UnitKind.LDS_READ), *step.of(UnitKind.LOAD)):
        uses = [order.at[edge.after] + edge.distance * length for edge in step.users[number] if edge.after in order.at]
        if uses:
            last = min(uses) - 1
            due.append((last, min(order.at[number] + step.costs[number].ready, last)))
    groups: list[list[Ticks]] = []  # each with a tick in common
    for last, first in sorted(due):
        if not groups or first > min(end for _, end in groups[-1]):
            groups.append([])
        groups[-1].append((first, last))
    for group in groups:
        left = [(first, last) for first, last in group if not any(tick % length in order.waits for tick in range(first, last + 1))]
        if left:
            landed = range(min(last for _, last in left), max(first for first, _ in left) - 1, -1)
            tick = order.beside(landed)
            tick = order.table.first(landed, (FREE, 1), (GAP, 1)) if tick is None else tick
            tick = order.table.first(landed, (FREE, 1)) if tick is None else tick
            tick = landed[0] if tick is None else tick
            order.take_issue(tick)
            order.waits.add(tick % length)
