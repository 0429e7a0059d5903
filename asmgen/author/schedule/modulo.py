"""Interleave: a modulo schedule of single instructions around one wave's matrix stream.

The matrix units of the step keep their order and are the clock: slot i is the window behind matrix unit i, of N in a step. Everything
else, waits and barriers too, gets a slot of its own where there are enough, as the window of a 16 clk matrix unit holds two instructions
and the way to LDS lets one of a pair of waves in at a time. A slot may lie in the step before (the unit then *leads*): a fragment is read
as soon as the last matrix unit that wants its old content has gone, memory is asked for evenly over the step, barriers are as few as the
shared tiles need, and waits stand where what they wait for has landed. What is free to choose is found by search over barrier places;
nothing is placed by hand. Blocks, and instructions that touch neither memory nor M0, stay in the window in which they were emitted.

Cover rule (docs/facts/measured_gfx950.md section 5): a load from memory wants ceil(64 / c) matrix units of c clk, an LDS read one.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field

from asmgen.author.schedule.schedules import Arrangement, Placed, Sync, clocks, is_matrix, is_transcendental
from asmgen.author.schedule.vectorslots import in_groups, vector_slots
from asmgen.author.step.effects import MemoryAccess, Unit
from asmgen.author.step.iterations import PipelineError
from asmgen.isa.records import dataclass
from asmgen.isa.registers import m0

_WAIT_AHEAD = 3  # slots, at most, from a barrier's wait to the barrier
_COPY = 3  # slots of a ds_write_b128, which takes longer than one window, and of the load behind it
_FULL = 7  # things in a slot that are too many


@dataclass(frozen=True)
class Latencies:
    """In clk: what a schedule leaves between an operation and who needs it (docs/facts/measured_gfx950.md sections 2 and 3).

    `lds` until a read's data are there, `memory` a round trip; `cycles` of one matrix unit; `load` that a memory instruction of 16 bytes a
    lane wants to itself where four waves ask alike: at most 44 KB in any 1000 clk (burst rule).
    """

    cycles: int = 16
    lds: int = 128
    memory: int = 1000
    load: int = 93

    def slots(self, clk: int) -> int:
        """Matrix units that cover so many clk."""
        return -(-clk // self.cycles)


Slots = tuple[int, int]
"""The first and the last slot of a window."""


def _union(one: Sequence[Slots], other: Sequence[Slots]) -> list[Slots]:
    """The windows that two sets of barriers give together."""
    return [(min(first, begin), max(last, end)) for (first, last), (begin, end) in zip(one, other, strict=True)]


def _slack(spans: Sequence[Slots]) -> int:
    """The free slots of the narrowest one; negative where one is empty."""
    return min([last - first for first, last in spans])


def _fits(fills: Sequence[int], spans: Sequence[Slots], covers: Sequence[int]) -> bool:
    """Whether the fills, each taking the cover of its kind, find room in the windows of their kinds: earliest deadline first."""
    deadlines = [(last, first) for first, last in spans]
    at = 0
    for kind in sorted(fills, key=deadlines.__getitem__):
        last, first = deadlines[kind]
        at = max(at, first)
        if at > last or first > last:
            return False
        at += covers[kind]
    return True


@dataclass
class Window:
    """Slots in which a unit may stand, both inclusive."""

    unit: Unit
    first: int
    last: int
    slot: int | None = None


def _is_copy(unit: Unit) -> bool:
    """Whether a fill comes out of registers, not of memory."""
    return not any(access.space == "global" for access in unit.effects.memory)


@dataclass(frozen=True)
class Interleave:
    """4 waves, one a SIMD. Stage borders are ignored; barriers stand where shared tiles change hands, a wait slot before each and where
    a group of reads is first needed. `barriers` is the most that are tried in a step. The units of the stream `vector` are spread over
    the step (`vectorslots`); reads then stand in their own step where that leaves them their latency."""

    latencies: Latencies = field(default_factory=Latencies)
    barriers: int = 4
    vector: str = ""
    name: str = "interleave"
    stagger: int = 0

    def arrange(self, phases: Sequence[Sequence[Unit]], offsets: Mapping[int, int]) -> Arrangement:
        """The modulo schedule. Raises PipelineError where a read has no slot between the last use of what it overwrites and its own use,
        or no barriers serve the shared tiles."""
        return _Modulo(phases, offsets, self).arrangement()


class _Modulo:
    """One search."""

    def __init__(self, phases: Sequence[Sequence[Unit]], offsets: Mapping[int, int], schedule: Interleave) -> None:
        self.schedule, self.offsets = schedule, offsets
        self.latencies = schedule.latencies
        self.phases = phases
        units = phases[0]
        self.matrix = [unit for unit in units if is_matrix(unit)]
        self.length = len(self.matrix)
        if not self.length:
            raise PipelineError("interleave places operations around matrix instructions, and this step has none")
        self.slot_of = {unit.tag.ordinal: number for number, unit in enumerate(self.matrix)}
        self.others = [unit for unit in units if not is_matrix(unit)]
        self.unit = {unit.tag.ordinal: unit for unit in self.others}
        self.vector = vector_slots(phases, schedule.vector, schedule.latencies.cycles)
        self.grouped = in_groups([unit for unit in self.others if unit.tag.ordinal in self.vector])
        self.kept = self._kept(units)
        # What stands in each slot. The last one is the loop's branch's, the one before the scalar code's of a copy's end.
        self.load = [0] * self.length
        self.load[-2:] = [1] * len(self.load[-2:])
        for slot in self.kept.values():
            self._take(slot)
        if self.vector:
            for slot in set(range(self.length)) - set(self._beside()):
                self._take(slot)

    def _beside(self) -> Counter[int]:
        """How many transcendental instructions stand in which window: in the second half of each another instruction goes."""
        return Counter(self.vector[unit.tag.ordinal] for unit in self.others if unit.tag.ordinal in self.vector and is_transcendental(unit))

    def _kept(self, units: Sequence[Unit]) -> dict[int, int]:
        """The slots of what is not free to move, by ordinal; -1 in front of the first matrix unit."""
        kept: dict[int, int] = {}
        slot = -1
        for unit in units:
            if is_matrix(unit):
                slot = self.slot_of[unit.tag.ordinal]
            elif unit.tag.ordinal in self.vector:
                continue
            elif unit.is_block or not (unit.effects.memory or unit.effects.writes & m0.mask):
                kept[unit.tag.ordinal] = slot
        return kept

    def arrangement(self) -> Arrangement:
        """Reads first, then barriers, then what fills, then loads of what is copied, then waits; the whole as an order."""
        reads = self._windows(self.slot_of | self.kept, "lds")
        places = self._place_reads(reads) | self.kept | self.vector
        barriers, fills = self._barriers(places)
        points = {self._before(barrier) for barrier in barriers}
        places |= self._place_fills(fills)
        places |= self._place_loads(self._windows({fill.unit.tag.ordinal: places[fill.unit.tag.ordinal] for fill in fills}, "global"))
        self._points(reads, points)
        if self.vector:
            self.vector = vector_slots(self.phases, self.schedule.vector, self.latencies.cycles, self._taken(places, barriers, points))
        return self._order(places | self.vector, barriers, points)

    def _taken(self, places: Mapping[int, int], barriers: Sequence[int], points: set[int]) -> list[int]:
        """Clk of each window that other work takes, beside what goes behind something transcendental; the last one has a branch."""
        slots = [slot for ordinal, slot in places.items() if ordinal not in self.vector]
        slots += [*points, *(barrier - 1 for barrier in barriers), self.length - 1]
        others, beside = Counter(slot % self.length for slot in slots), self._beside()
        return [clocks("slot") * max(0, others[slot] - beside[slot]) for slot in range(self.length)]

    def _take(self, slot: int) -> int:
        self.load[slot % self.length] += 1
        return slot

    def _free(self, slots: Sequence[int], limit: int = 1) -> int | None:
        """The first of the slots in which fewer than `limit` things stand."""
        return next((slot for slot in slots if self.load[slot % self.length] < limit), None)

    def _before(self, barrier: int) -> int:
        """A barrier in the window before its matrix unit, and its wait slot in a free one before that; the wait's slot."""
        self._take(barrier - 1)
        free = self._free(range(barrier - 2, barrier - 1 - _WAIT_AHEAD, -1))
        return self._take(barrier - 1 if free is None else free) % self.length

    # ---- register windows ----

    def _windows(self, users: Mapping[int, int], space: str) -> list[Window]:
        """The window of every unit that reads `space` into registers of the users (ordinals with their slots): behind the last use of
        the old content, before the first of the new one."""
        line = [(step, unit) for step in range(3) for unit in self.phases[step % len(self.phases)]]
        using = [(at, (step - 1) * self.length + users[unit.tag.ordinal], unit.effects.reads) for at, (step, unit) in enumerate(line)
                 if unit.tag.ordinal in users]
        writing = [(at, unit) for at, (_, unit) in enumerate(line) if unit.effects.writes and unit.tag.ordinal not in self.slot_of]
        found = []
        for place, (step, unit) in enumerate(line):
            if step != 1 or unit.tag.ordinal in self.kept or unit.tag.ordinal in self.vector:
                continue
            if not any(access.space == space and not access.write for access in unit.effects.memory):
                continue
            writes = unit.effects.writes
            uses = [(at, slot) for at, slot, reads in using if reads & writes]
            if not uses:
                continue
            following = next((at for at, other in writing if at > place and other is not unit and other.effects.writes & writes), len(line))
            before = max((slot for at, slot in uses if at < place), default=-self.length)
            after = min((slot for at, slot in uses if place < at < following), default=2 * self.length)
            window = Window(unit, before + 1, after - 1)
            if window.first > window.last:
                raise PipelineError(f"{unit} has no slot: matrix unit {before % self.length}, or what stands there, still wants what it "
                                    f"overwrites, and matrix unit {after % self.length} what it reads", unit.first.where())
            found.append(window)
        return found

    def _place_reads(self, reads: Sequence[Window]) -> dict[int, int]:
        """The earliest slots, those that are needed first before others, two slots apart where that meets the latency."""
        places: dict[int, int] = {}
        wanted = self.latencies.slots(self.latencies.lds)
        for window in sorted(reads, key=lambda window: (window.last, window.first, window.unit.tag.ordinal)):
            first = 0 if self.vector and window.first < 0 <= window.last - wanted else window.first
            slots = range(first, window.last + 1)
            comfortable = range(first, max(first, window.last - wanted) + 1)
            roomy = comfortable if self.vector else [slot for slot in comfortable if not self.load[(slot - 1) % self.length]]
            choices = [slot for slot in (self._free(roomy), self._free(slots), min(slots, key=lambda slot: self.load[slot % self.length]))
                       if slot is not None]
            places[window.unit.tag.ordinal] = window.slot = self._take(choices[0])
        return places

    def _place_loads(self, loads: Sequence[Window]) -> dict[int, int]:
        """What is copied is asked for as soon as the copy before has left its registers."""
        places: dict[int, int] = {}
        for window in sorted(loads, key=lambda window: window.first):
            slots = range(max(0, window.first), min(window.last, self.length - 1) + 1)
            free = self._free(slots)
            if free is None and not slots:
                raise PipelineError(f"{window.unit} has no slot in its step: its registers are free only behind it",
                                    window.unit.first.where())
            places[window.unit.tag.ordinal] = self._take(min(slots, key=lambda slot: self.load[slot]) if free is None else free)
        return places

    # ---- shared tiles ----

    def _fill_edges(self, places: Mapping[int, int]) -> list[tuple[Unit, int, int]]:
        """(fill, slot of the last read of what it overwrites, slot of the first read of what it brings), relative to the fill's step."""
        steps = 2 * len(self.phases) + 4
        reads: list[tuple[int, int, Unit, MemoryAccess]] = []
        fills: list[tuple[int, int, Unit, MemoryAccess]] = []
        for step in range(steps):
            for unit in self.phases[step % len(self.phases)]:
                index = step + self.offsets[unit.tag.ordinal]
                for access in unit.effects.memory:
                    if access.space == "lds":
                        (fills if access.write else reads).append((step, index, unit, access))
        middle = steps // 2
        found = []
        for step, index, unit, access in fills:
            if step != middle:
                continue
            same = [(one_index, (one - step) * self.length + places[other.tag.ordinal])
                    for one, one_index, other, reading in reads if reading.low < access.high and access.low < reading.high]
            old = max((slot for one_index, slot in same if one_index < index), default=-steps * self.length)
            new = min((slot for one_index, slot in same if one_index == index), default=steps * self.length)
            found.append((unit, old, new))
        return found

    def _barriers(self, places: Mapping[int, int]) -> tuple[tuple[int, ...], list[Window]]:
        """The fewest barriers, with the most slack, between which every fill has a window."""
        edges = self._fill_edges(places)
        if not edges:
            return (), []
        settle, trip = self.latencies.slots(self.latencies.lds) // 2, self.latencies.slots(self.latencies.memory)
        # A short step cannot cover a round trip: then waves wait for memory, and the schedule asks for half of it, and so on.
        counts = range(1, self.schedule.barriers + 1)
        tries = [(trip, count) for count in counts] + [(less, count) for count in counts for less in (trip // 2, trip // 4, 0)]
        grid = self._barrier_places()
        for round_trip, count in tries:
            found = self._widest(edges, grid, count, settle, round_trip)
            if found is not None:
                return found
        raise PipelineError(f"no {self.schedule.barriers} barriers a step let every shared tile be read and refilled: more stages would")

    def _barrier_places(self) -> list[int]:
        """At most 32 slots, evenly over the step: where the window before, and the one before that for its wait, are free if possible.

        Not slot 0, as its window belongs to the copy before: what prologues read stands in none.
        """
        step = max(1, self.length // 32)
        return [min(range(max(1, low), min(low + step, self.length)), key=lambda slot: (self.load[slot - 1], self.load[slot - 2]))
                for low in range(0, self.length, step) if low or step > 1]

    def _widest(self, edges: Sequence[tuple[Unit, int, int]], grid: Sequence[int], count: int, settle: int,
                trip: int) -> tuple[tuple[int, ...], list[Window]] | None:
        """The first `count` barriers on the grid that leave the most slack to the narrowest window, None where the fills never fit.

        A window of several barriers begins with the earliest and ends with the latest that one of them allows, so what all barriers
        from a place on would give bounds every choice among them.
        """
        every = [(_is_copy(unit), old, new) for unit, old, new in edges]
        kinds = list(dict.fromkeys(every))
        numbers = [kinds.index(kind) for kind in every]
        cover = min(self.latencies.slots(self.latencies.load), max(1, self.length // len(edges)))
        covers = [min(_COPY, cover) if copy else cover for copy, _, _ in kinds]
        alone = [[self._fill_window(*kind, barrier, settle, trip) for kind in kinds] for barrier in grid]
        behind = list(itertools.accumulate(reversed(alone), _union))[::-1]
        best: tuple[int, tuple[int, ...], list[Slots]] | None = None

        def search(place: int, chosen: tuple[int, ...], spans: list[Slots]) -> None:
            nonlocal best
            if len(chosen) == count:
                if _fits(numbers, spans, covers):
                    best = _slack(spans), chosen, spans
                return
            for at in range(place, len(grid) - (count - len(chosen)) + 1):
                least = -1 if best is None else best[0]
                if _slack(_union(spans, behind[at]) if chosen else behind[at]) <= least:
                    return
                wider = _union(spans, alone[at]) if chosen else alone[at]
                if len(chosen) + 1 < count or _slack(wider) > least:
                    search(at + 1, (*chosen, grid[at]), wider)

        search(0, (), [])
        if best is None:
            return None
        _, barriers, spans = best
        return barriers, [Window(unit, *spans[number]) for (unit, _, _), number in zip(edges, numbers, strict=True)]

    def _fill_window(self, copy: bool, old: int, new: int, barrier: int, settle: int, trip: int) -> Slots:
        """Behind the first pass of a barrier after the last read of the old content, and a round trip before its last pass ahead of the
        new read; of a copy the way to LDS, and a slot in the step behind it for the load that follows."""
        n = self.length
        ahead = barrier + n * ((new - 1 - barrier) // n)
        return (max(0, barrier + n * ((old + settle - barrier) // n + 1)),
                min(n - 1 - 2 * copy, ahead - max(settle if copy else trip, 1 + _WAIT_AHEAD)))

    def _place_fills(self, windows: list[Window]) -> dict[int, int]:
        """As evenly over the step as windows allow, earliest deadline first; M0 is written a slot before the load that reads it."""
        if not windows:
            return {}
        fills = {window.unit.tag.ordinal for window in windows}
        writers = [unit for unit in self.others if unit.tag.ordinal not in fills and unit.effects.writes & m0.mask]
        order = self._in_m0_order(sorted(windows, key=lambda window: (window.last, window.unit.tag.ordinal)), writers)
        widest = max(1, self.length // len(order))
        burst = min(widest, self.latencies.slots(self.latencies.load))  # rather more in a slot than loads closer than this
        # Slot 0 is the first M0's; a step with as many slots as loads has that M0 in front of it.
        found = (self._spaced(order, first, spacing, limit) for spacings in (range(widest, burst - 1, -1), range(burst - 1, 0, -1))
                 for first in (1, 0) for limit in range(1, _FULL) for spacing in spacings)
        places = next((places for places in found if places is not None), None)
        if places is None:
            raise PipelineError(f"{len(order)} loads find no room between the barriers of the step", order[0].unit.first.where())
        for slot in places.values():
            self._take(slot)
        for writer in writers:
            read = [places[ordinal] for ordinal in fills if self._reads_m0_of(writer, self.unit[ordinal])]
            if read:
                before = max((places[ordinal] for ordinal in fills if places[ordinal] < min(read)), default=-1)
                free = self._free(range(min(read) - 1, before, -1))
                slot = places[writer.tag.ordinal] = self._take(min(read) - 1 if free is None else free)
                if slot < 0:
                    self.kept[writer.tag.ordinal] = slot
        return places

    def _spaced(self, order: Sequence[Window], at: int, spacing: int, limit: int) -> dict[int, int] | None:
        """Each fill about `spacing` slots behind the one before it, from slot `at` on, in a slot of its window with room; None where one
        does not fit."""
        places: dict[int, int] = {}
        for window in order:
            first = max(window.first, at)
            slot = self._free(range(first, min(window.last, self.length - 1) + 1), limit)
            if slot is None:
                return None
            places[window.unit.tag.ordinal] = slot
            at = max(slot, at) + (spacing if slot - first < spacing else 1)
        return places

    def _reads_m0_of(self, writer: Unit, reader: Unit) -> bool:
        """Whether `writer` is the last to write M0 before `reader` in emission order."""
        writers = [unit.tag.ordinal for unit in self.others if unit.effects.writes & m0.mask and unit.tag.ordinal < reader.tag.ordinal]
        return bool(reader.effects.reads & m0.mask) and bool(writers) and max(writers) == writer.tag.ordinal

    def _in_m0_order(self, order: Sequence[Window], writers: Sequence[Unit]) -> list[Window]:
        """Fills that share an M0 stay together, groups by their earliest deadline."""
        groups: dict[int, list[Window]] = {}
        for window in order:
            writer = next((unit.tag.ordinal for unit in writers if self._reads_m0_of(unit, window.unit)), window.unit.tag.ordinal)
            groups.setdefault(writer, []).append(window)
        ranked = sorted(groups.values(), key=lambda group: (min(window.last for window in group), max(window.first for window in group)))
        return [window for group in ranked for window in sorted(group, key=lambda window: window.unit.tag.ordinal)]

    # ---- the order ----

    def _order(self, places: Mapping[int, int], barriers: Sequence[int], points: set[int]) -> Arrangement:
        """Slot after slot: the matrix unit, what stands in its window, then synchronisation."""
        places = dict(places)
        for unit in self.others:
            if unit.tag.ordinal not in places:
                raise PipelineError(f"interleave has no rule for {unit}: it places matrix instructions, reads of their operands and fills",
                                    unit.first.where())
        ahead = [ordinal for ordinal, slot in self.kept.items() if slot < 0]
        for ordinal in ahead:
            del places[ordinal]
        lead = frozenset(ordinal for ordinal, slot in places.items() if slot < 0)
        inside: dict[int, list[int]] = {}
        writers = {unit.tag.ordinal for unit in self.others if unit.effects.writes & m0.mask}
        for ordinal in sorted(places, key=lambda ordinal: (places[ordinal], ordinal in writers, ordinal)):
            inside.setdefault(places[ordinal] % self.length, []).append(ordinal)
        late = {ordinal: slot for ordinal, slot in places.items() if slot >= self.length}
        if late:
            unit = self.unit[min(late)]
            raise PipelineError(f"{unit} would stand in the step behind its own", unit.first.where())
        order: list[Placed] = [*ahead]
        for slot, unit in enumerate(self.matrix):
            order.append(unit.tag.ordinal)
            order += self._window(inside.get(slot, ()))
            if slot in points:
                order.append(Sync("wait"))
            if (slot + 1) % self.length in barriers:
                order.append(Sync("barrier"))
        if order[-1] == Sync("wait"):
            # In front of the copy it serves the entry and the back-edge; at the end, the entry would need another.
            order.insert(0, order.pop())
        return Arrangement(tuple(order), lead)

    def _window(self, ordinals: Sequence[int]) -> list[int]:
        """What stands in a window: as it is, but other work behind something transcendental, one each, and packed f32 last."""
        if not self.vector:
            return list(ordinals)
        waiting = [ordinal for ordinal in ordinals if ordinal not in self.vector]
        packed = [ordinal for ordinal in ordinals if ordinal in self.grouped]
        found: list[int] = []
        for ordinal in ordinals:
            if ordinal in self.vector and ordinal not in packed:
                found.append(ordinal)
                if waiting and is_transcendental(self.unit[ordinal]):
                    found.append(waiting.pop(0))
        return found + waiting + packed

    def _points(self, reads: Sequence[Window], points: set[int]) -> None:
        """Adds wait slots: each read is landed by one that stands when its data are there, at the latest before its first use."""
        wanted = self.latencies.slots(self.latencies.lds)
        for window in sorted(reads, key=lambda window: window.last):
            assert window.slot is not None
            landed = range(min(window.slot + wanted, window.last), window.last + 1)
            if not any(slot % self.length in points for slot in landed):
                free = self._free(landed[::-1])
                points.add(self._take(window.last if free is None else free) % self.length)
