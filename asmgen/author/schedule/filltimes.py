"""Ticks of barriers, of the fills between them, and of the writes of M0 that fills need."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence

from asmgen.author.schedule.handoffs import FillKind, Ticks, choose_barriers
from asmgen.author.schedule.partialorder import FREE, MEMORY, PartialOrder
from asmgen.author.schedule.stepfacts import NoRoom
from asmgen.author.schedule.unitcosts import UnitKind
from asmgen.isa.registers import m0

_MOST_BARRIERS = 4
_GRID = 32  # ticks that the search for barriers tries: its time grows with their fourth power
_SHARES = (1.0, 0.5, 0.25, 0.0)  # of a latency that barriers leave to it


def place_fills(order: PartialOrder, known: Mapping[int, int]) -> tuple[int, ...]:
    """Place barriers and fills between the reads whose ticks are `known`; the ticks of the barriers."""
    barriers, ranges = _chosen(order, known)
    for barrier in barriers:
        _take_barrier(order, barrier)
    _place_in_ranges(order, ranges)
    return barriers


def _chosen(order: PartialOrder, known: Mapping[int, int]) -> tuple[tuple[int, ...], dict[int, Ticks]]:
    """The fewest barriers that serve all handoffs, and the range of each fill."""
    step, length = order.step, order.length
    fills, grid = step.of(UnitKind.FILL), _barrier_ticks(order)
    if not fills and not any(step.kinds[handoff.write] is UnitKind.COMPUTE for handoff in step.handoffs):
        return (), {}
    # A short step cannot cover a round trip. Then waves wait, and the schedule covers a half, a quarter or none of it.
    for share, settled, count in itertools.product(_SHARES, _SHARES, range(1, _MOST_BARRIERS + 1)):
        kinds, numbers, holds = _fill_kinds(order, known, share, settled)
        cover = max(1, min(length // max(1, len(fills)), max([step.costs[number].busy for number in fills], default=1)))
        found = choose_barriers(kinds, numbers, holds, grid, length, count, cover)
        if found is not None:
            return found.barriers, {fill: found.ranges[number] for fill, number in zip(fills, numbers, strict=True)}
    unit = step.units[next(iter([*fills, *step.of(UnitKind.COMPUTE)]))]
    raise NoRoom(unit, f"with {_MOST_BARRIERS} barriers a step not every shared tile can be read and refilled; more stages of LDS "
                        "would work")


def _fill_kinds(order: PartialOrder, known: Mapping[int, int], share: float,
                settled: float) -> tuple[list[FillKind], list[int], list[Ticks]]:
    """The kinds of the fills, the number of each fill's kind, and the holds of other writes, if a share of each round trip to memory is
    to be covered, and a share of the time in which accesses of LDS settle."""
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
    found = [_fill_kind(order, number, old[number], new[number], share) for number in step.of(UnitKind.FILL)]
    kinds = list(dict.fromkeys(found))
    return kinds, [kinds.index(kind) for kind in found], holds


def _fill_kind(order: PartialOrder, number: int, old: int, new: int, share: float) -> FillKind:
    """A fill from registers settles as an LDS write does, and keeps a tick at the step's end for the next load."""
    step = order.step
    memory = any(access.space == "global" for access in step.units[number].effects.memory)
    return FillKind(old, new, max(int(share * step.costs[number].ready), 1) + 2, 0 if memory else 2)


def _barrier_ticks(order: PartialOrder) -> list[int]:
    """Ticks for barriers, evenly over the step, where the wait and the barrier have free ticks before the next matrix unit. Tick 0 is
    not among them: its barrier would stand in the copy before, and prologues have no such copy."""
    length = order.length
    step = max(1, length // _GRID)
    found = []
    for low in range(2, length, step):
        tick = order.table.first(range(low, min(low + step, length - 2)), (FREE, order.step.release))
        if tick is not None:
            found.append(tick)
    return found


def _take_barrier(order: PartialOrder, barrier: int) -> None:
    """Take the tick of a barrier, and a free one before it for its wait."""
    order.table.take(FREE, barrier, order.step.release)
    tick = order.table.first(range(barrier - 1, max(0, barrier - 1 - 2 * order.step.release - 4), -1), (FREE, 1))
    wait = barrier - 1 if tick is None else tick
    order.table.take(FREE, wait)
    order.waits.add(wait)


def _place_in_ranges(order: PartialOrder, ranges: Mapping[int, Ticks]) -> None:
    """Fills as evenly over the step as their ranges allow, the earliest deadline first; the write of M0 that a fill needs stands in an
    earlier tick."""
    if not ranges:
        return
    step, length = order.step, order.length
    fills = _in_m0_order(order, ranges)
    burst = max(step.costs[number].busy for number in fills)
    widest = max(1, length // len(fills))
    begins = [order.at[unit] + step.costs[unit].issue for unit in step.matrix[1:2]] + [2]  # M0 is written before that matrix unit
    for spacing in [*range(min(widest, burst), 0, -max(1, burst // 8)), 0]:
        for apart, begin in itertools.product((True, False), begins):
            found = _spaced(order, fills, ranges, spacing, burst if apart else 0, begin)
            if found is not None:
                for number, tick in found.items():
                    order.stand(number, tick, MEMORY)
                _place_addresses(order, fills)
                return
    unit = step.units[fills[0]]
    raise NoRoom(unit, f"{len(fills)} fills find no room between the barriers of a step of {length} ticks")


def _spaced(order: PartialOrder, fills: Sequence[int], ranges: Mapping[int, Ticks], spacing: int,
            burst: int, begin: int) -> dict[int, int] | None:
    """Each fill `spacing` ticks after the previous one, from `begin` on, in a tick of its range with room for it."""
    found: dict[int, int] = {}
    at, taken = begin, set[int]()
    for number in fills:
        first, last = ranges[number]
        issue = min(order.step.costs[number].issue, order.step.room)
        wanted = [(FREE, issue)] + [(MEMORY, burst)] * bool(burst)
        tick = next((tick for tick in range(max(first, at), last + 1) if tick not in taken
                     and all(order.table.free(resource, tick, count) for resource, count in wanted)), None)
        if tick is None:
            return None
        found[number] = tick
        taken |= {*range(tick, tick + issue)}
        at = tick + max(1, spacing)
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


def _in_m0_order(order: PartialOrder, ranges: Mapping[int, Ticks]) -> list[int]:
    """Fills that share an M0 stay together; the groups go by their earliest deadline."""
    writers = _writers(order)
    groups: dict[int, list[int]] = {}
    for number in sorted(ranges, key=lambda number: (ranges[number][1], number)):
        groups.setdefault(writers.get(number, number), []).append(number)
    ranked = sorted(groups.values(), key=lambda group: (min(ranges[one][1] for one in group), max(ranges[one][0] for one in group)))
    return [number for group in ranked for number in sorted(group)]


def _place_addresses(order: PartialOrder, fills: Sequence[int]) -> None:
    """Each write of M0 after the fill before it, a tick or more before its own."""
    previous = -2
    done: set[int] = set()
    writers = _writers(order)
    for number in fills:
        writer = writers.get(number)
        if writer is not None and writer not in done:
            done.add(writer)
            # A wait state stands between the write and the fill: a matrix unit, if the fill before it leaves one.
            before = [order.at[unit] for unit in order.step.matrix if order.at[unit] < order.at[number]]
            ahead = max(before, default=order.at[number]) - 1
            tick = order.table.first(range(ahead, previous, -1), (FREE, 1))
            tick = order.table.first(range(order.at[number] - 2, previous, -1), (FREE, 1)) if tick is None else tick
            tick = order.at[number] - 1 if tick is None else tick
            order.at[writer] = max(tick, previous)
            order.table.take(FREE, tick)
        previous = order.at[number]
