"""Ticks of barriers, of the fills between them, and of the writes of M0 that fills need."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence

from asmgen.author.schedule.barrierchoice import BarrierChoice, BarrierSearch, FillKind, Ticks
from asmgen.author.schedule.partialorder import FREE, GAP, MEMORY, PartialOrder
from asmgen.author.schedule.seldomfills import place_seldom
from asmgen.author.schedule.stepfacts import NoRoom
from asmgen.author.schedule.unitcosts import UnitKind
from asmgen.author.step.effects import Unit
from asmgen.author.step.merge import described
from asmgen.isa.registers import m0

_MOST_BARRIERS = 4
_GRID = 32  # ticks that the search for barriers tries
_SHARES = (1.0, 0.5, 0.25, 0.0)  # of the time in which an access of LDS settles that barriers leave to it


def place_fills(order: PartialOrder, known: Mapping[int, int]) -> list[tuple[PartialOrder, tuple[int, ...]]]:
    """Orders with barriers and fills between the reads whose ticks are `known`, each with the ticks of its barriers. A barrier whose fills
    found no room before the next one orders nothing: an order without it comes before the one with it, which serves where other work needs
    the barrier."""
    chosen = _chosen(order, known)
    if chosen is None:
        return [(order, ())]
    choice, search, numbers = chosen
    placed = order.copy(order.exact, order.spread)
    _place_choice(placed, choice, numbers)
    found = [(placed, choice.barriers)]
    fewer = search.without_idle(choice, _plain_ticks(placed))
    while fewer is not None:
        try:
            placed = _placed_again(order, fewer, numbers, search, _plain_ticks(placed))
        except NoRoom:
            break
        found.insert(0, (placed, fewer.barriers))
        fewer = search.without_idle(fewer, _plain_ticks(placed))
    return found


def _placed_again(order: PartialOrder, fewer: BarrierChoice, numbers: Sequence[int], search: BarrierSearch,
                  ticks: Sequence[int]) -> PartialOrder:
    """The order with a choice of fewer barriers, its fills spread over their wider ranges, or in these `ticks`, where the worst one would
    get less of its round trip or all find no room."""
    again = order.copy(order.exact, order.spread)
    try:
        _place_choice(again, fewer, numbers)
        if search.lacks(fewer.barriers, _plain_ticks(again)) <= search.lacks(fewer.barriers, ticks):
            return again
    except NoRoom:
        pass
    again = order.copy(order.exact, order.spread)
    _place_choice(again, fewer, numbers, ticks)
    return again


def _place_choice(order: PartialOrder, choice: BarrierChoice, numbers: Sequence[int], ticks: Sequence[int] = ()) -> None:
    """Place a choice's barriers, and the fills between them, in `ticks` if given; `numbers` are those of the fills' kinds."""
    for barrier in choice.barriers:
        _take_barrier(order, barrier)
    if choice.ticks:
        order.ranges = {fill: choice.ranges[number] for fill, number in zip(order.step.of(UnitKind.FILL), numbers, strict=True)}
        writers = _writers(order)
        places = dict(zip(plain_fills(order), ticks or choice.ticks, strict=True))
        fills = _in_m0_order(writers, places)
        _stand(order, fills, writers, places if ticks else _spread(order, fills, writers))


def _chosen(order: PartialOrder, known: Mapping[int, int]) -> tuple[BarrierChoice, BarrierSearch, list[int]] | None:
    """The barriers that serve all handoffs and lose fewest ticks, how they were found, and the number of each fill's kind; None where there
    are no handoffs."""
    step, length = order.step, order.length
    fills, grid = step.of(UnitKind.FILL), _barrier_ticks(order)
    if not fills and not any(step.kinds[handoff.write] is UnitKind.COMPUTE for handoff in step.handoffs):
        return None
    plain = plain_fills(order)
    burst = max([step.costs[number].busy for number in plain], default=1)
    cover = max(1, min(length // max(1, len(plain)), burst))
    # A short step cannot cover a round trip, nor all of its fills at the rate of memory: then waves wait, as little as may be.
    for settled, apart in itertools.product(_SHARES, dict.fromkeys((cover, max(1, cover // 2), 1))):
        kinds, numbers, holds = _fill_kinds(order, known, settled)
        search = BarrierSearch(kinds, [numbers[fills.index(number)] for number in plain], holds, grid, length, apart)
        best: BarrierChoice | None = None
        for count in range(1, _MOST_BARRIERS + 1):
            found = search.best(count)
            if found is not None and (best is None or _loss(order, found) < _loss(order, best)):
                best = found
            if best is not None and best.slack >= 0:
                break
        if best is not None:
            return best, search, numbers
    unit = step.units[next(iter([*fills, *step.of(UnitKind.COMPUTE)]))]
    raise NoRoom(unit, f"with {_MOST_BARRIERS} barriers a step not every shared tile can be read and refilled{_beside(order, unit)}; more "
                       "stages of LDS would work")


def check_handoffs(order: PartialOrder, barriers: Sequence[int]) -> None:
    """Raises NoRoom where no barrier stands within a handoff of a computed value: barriers were chosen by where it would be written if
    nothing else were in the way, and it may have come to stand elsewhere. Fills stand within their ranges. Of one tick, the barrier is the
    last."""
    at, length = order.at, order.length
    for handoff in order.step.handoffs:
        if order.step.kinds[handoff.write] is UnitKind.FILL or handoff.write not in at or handoff.read not in at:
            continue
        write, read = at[handoff.write], at[handoff.read] + handoff.copies * length
        first, last = (write, read - 1) if handoff.fresh else (read, write - 1)
        if not any(first + (barrier - first) % length <= last for barrier in barriers):
            unit, other = order.step.units[handoff.write], order.step.units[handoff.read]
            raise NoRoom(unit, f"no barrier stands between {described(unit)} and {described(other)}; more stages of LDS would work")


def plain_fills(order: PartialOrder) -> list[int]:
    """The fills of a plain copy of the step."""
    return [number for number in order.step.of(UnitKind.FILL) if not order.step.units[number].tag.seldom]


def _plain_ticks(order: PartialOrder) -> list[int]:
    """Where these stand."""
    return [order.at[number] for number in plain_fills(order)]


def _loss(order: PartialOrder, choice: BarrierChoice) -> int:
    """The ticks that waves wait for the worst fill, and for barriers, each with its wait."""
    return max(0, -choice.slack) + len(choice.barriers) * (order.step.release + 1)


def _fill_kinds(order: PartialOrder, known: Mapping[int, int], settled: float) -> tuple[list[FillKind], list[int], list[Ticks]]:
    """The kinds of the fills, the number of each fill's kind, and the holds of other writes, if a share of the time in which accesses of
    LDS settle is to be covered."""
    step, length = order.step, order.length
    far = (len(step.phases) + 4) * length
    old: dict[int, int] = defaultdict(lambda: -far)
    new: dict[int, int] = defaultdict(lambda: far)
    holds: list[Ticks] = []
    for handoff in step.handoffs:
        read, write = known[handoff.read] + handoff.copies * length, handoff.write
        over = read + max(1, int(settled * step.costs[handoff.read].ready))
        if step.kinds[write] is not UnitKind.FILL:
            own = max(1, int(settled * step.costs[write].ready))
            holds.append((known[write] + own + 1, read - 1) if handoff.fresh else (over + 1, known[write] - 1))
        elif handoff.fresh:
            new[write] = min(read, new[write])
        else:
            old[write] = max(over, old[write])
    found = [_fill_kind(order, number, old[number], new[number]) for number in step.of(UnitKind.FILL)]
    kinds = list(dict.fromkeys(found))
    return kinds, [kinds.index(kind) for kind in found], holds


def _fill_kind(order: PartialOrder, number: int, old: int, new: int) -> FillKind:
    """A fill from registers settles as an LDS write does, and keeps a tick at the step's end for the next load."""
    step = order.step
    memory = any(access.space == "global" for access in step.units[number].effects.memory)
    return FillKind(old, new, step.costs[number].ready + 2, 0 if memory else 2)


def _barrier_ticks(order: PartialOrder) -> list[int]:
    """Ticks for barriers, evenly over the step, where the wait and the barrier have free ticks before the next matrix unit. Tick 0 is
    not among them: its barrier would stand in the copy before, and prologues have no such copy."""
    length = order.length
    step = max(1, length // _GRID)
    found = []
    for low in range(2, length, step):
        some = range(low, min(low + step, length - 2))
        tick = order.beside(some)
        tick = order.table.first(some, (FREE, order.step.release)) if tick is None else tick
        tick = order.table.first(some, (FREE, 1)) if tick is None else tick  # the next matrix unit waits
        if tick is not None:
            found.append(tick)
    return found


def _take_barrier(order: PartialOrder, barrier: int) -> None:
    """Take the tick of a barrier, and a free one before it for its wait."""
    order.table.take(FREE, barrier, order.step.release)
    before = range(barrier - 1, max(0, barrier - 1 - 2 * order.step.release - 4), -1)
    tick = order.beside(before)
    tick = order.table.first(before, (FREE, 1)) if tick is None else tick
    wait = barrier - 1 if tick is None else tick
    order.take_issue(wait)
    order.waits.add(wait)


def _spread(order: PartialOrder, fills: Sequence[int], writers: Mapping[int, int]) -> Mapping[int, int]:
    """Ticks of fills, in their order, as evenly over the step as their ranges allow. Raises NoRoom where there are none."""
    step, length = order.step, order.length
    burst = max(step.costs[number].busy for number in fills)
    widest = max(1, length * burst // sum(step.costs[number].busy for number in fills))
    begins = [order.at[unit] + step.costs[unit].issue for unit in step.matrix[1:2]] + [2]  # M0 is written before that matrix unit
    for spacing in [*range(min(widest, burst), 0, -max(1, burst // 8)), 0]:
        for apart, alone, begin in itertools.product((True, False), (True, False), begins):
            found = _spaced(order, fills, writers, order.ranges, spacing, burst if apart else 0, alone, begin)
            if found is not None:
                return found
    unit = step.units[fills[0]]
    raise NoRoom(unit, f"{len(fills)} fills find no room between the barriers of a step of {length} ticks{_beside(order, unit)}")


def _stand(order: PartialOrder, fills: Sequence[int], writers: Mapping[int, int], ticks: Mapping[int, int]) -> None:
    """Place fills in these ticks, in their order; the write of M0 that one needs stands in an earlier tick."""
    for number in fills:
        order.stand(number, ticks[number], MEMORY)
    _place_addresses(order, fills, writers)
    place_seldom(order, writers)


def _beside(order: PartialOrder, unit: Unit) -> str:
    """A fill with the read that is nearest to it, for a refusal."""
    read = next((handoff.read for handoff in order.step.handoffs if handoff.write == unit.tag.ordinal), None)
    return f", among them {described(unit)} and {described(order.step.units[read])}" if read is not None else ""


def _spaced(order: PartialOrder, fills: Sequence[int], writers: Mapping[int, int], ranges: Mapping[int, Ticks], spacing: int,
            burst: int, alone: bool, begin: int) -> dict[int, int] | None:
    """Each fill `spacing` ticks after the previous one, from `begin` on, in a tick of its range with room for it; if `alone`, in a gap. The
    next one follows the sooner, the less time a fill keeps the port."""
    found: dict[int, int] = {}
    at, taken = begin, 0
    most = max(order.step.costs[number].busy for number in fills)
    held: int | None = None
    beside = order.table.starts(MEMORY, burst) & (order.table.starts(GAP, 1) if alone else -1)
    for number in fills:
        first, last = ranges[number]
        if writers.get(number) != held:
            held, at = writers.get(number), at + bool(found)  # the write of M0 has a tick between the two fills
        issue = min(order.step.costs[number].issue, order.step.room)
        low = max(first, at)
        ticks = (order.table.starts(FREE, issue) & beside & ~taken & (1 << max(0, last + 1)) - 1) >> low << low
        if not ticks:
            return None
        tick = found[number] = (ticks & -ticks).bit_length() - 1
        taken |= (1 << issue) - 1 << tick
        at = tick + max(1, spacing * order.step.costs[number].busy // most)
    return found


def _writers(order: PartialOrder) -> dict[int, int]:
    """By fill, the unit that writes M0 for it."""
    found: dict[int, int] = {}
    last: int | None = None
    for number, unit in order.step.units.items():
        if unit.effects.reads & m0.mask and last is not None and order.step.kinds[number] is UnitKind.FILL:
            found[number] = last
        if unit.effects.writes & m0.mask and order.step.kinds[number] is UnitKind.ADDRESS:
            last = number
    return found


def _in_m0_order(writers: Mapping[int, int], planned: Mapping[int, int]) -> list[int]:
    """Fills by their planned ticks; those that share an M0 stay together."""
    groups: dict[int, list[int]] = {}
    for number in sorted(planned, key=lambda number: (planned[number], number)):
        groups.setdefault(writers.get(number, number), []).append(number)
    return [number for group in groups.values() for number in sorted(group)]


def _place_addresses(order: PartialOrder, fills: Sequence[int], writers: Mapping[int, int]) -> None:
    """Each write of M0 after the fill before it, a tick or more before its own."""
    previous = -2
    done: set[int] = set()
    for number in fills:
        writer = writers.get(number)
        if writer is not None and writer not in done:
            done.add(writer)
            # A wait state stands between the write and the fill: a matrix unit, if the fill before it leaves one.
            before = [order.at[unit] for unit in order.step.matrix if order.at[unit] < order.at[number]]
            ahead = max(before, default=order.at[number]) - 1
            tick = order.table.first(range(ahead, previous, -1), (FREE, 1), (GAP, 1))
            tick = order.table.first(range(ahead, previous, -1), (FREE, 1)) if tick is None else tick
            tick = order.table.first(range(order.at[number] - 2, previous, -1), (FREE, 1)) if tick is None else tick
            tick = order.at[number] - 1 if tick is None else tick
            order.at[writer] = max(tick, previous)
            order.take_issue(tick)
        previous = order.at[number]
