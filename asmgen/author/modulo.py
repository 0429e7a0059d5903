"""Interleave: a modulo schedule of single instructions around one wave's matrix stream.

The matrix units of the step keep their order and are the clock: slot i is the window behind matrix unit i, of N in a step. Everything
else gets a slot of its own, which may lie in the step before (the unit then *leads*): a fragment is read as soon as the last matrix unit
that wants its old content has gone, memory is asked for evenly over the step, barriers are as few as the shared tiles need. What is
free to choose is found by search over barrier places; nothing is placed by hand.

Cover rule (docs/facts/measured_gfx950.md section 5): a load from memory wants ceil(64 / c) matrix units of c clk, an LDS read one.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from asmgen.author.effects import MemoryAccess, Unit
from asmgen.author.schedules import Arrangement, Placed, Sync, is_matrix
from asmgen.author.steps import PipelineError
from asmgen.isa.registers import m0


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


Span = tuple[int, int]
"""The first and the last slot of a window."""


def _union(one: Sequence[Span], other: Sequence[Span]) -> list[Span]:
    """The windows that two sets of barriers give together."""
    return [(min(first, begin), max(last, end)) for (first, last), (begin, end) in zip(one, other, strict=True)]


def _slack(spans: Sequence[Span]) -> int:
    """The free slots of the narrowest one; negative where one is empty."""
    return min([last - first for first, last in spans])


@dataclass
class Window:
    """Slots in which a unit may stand, both inclusive."""

    unit: Unit
    first: int
    last: int
    slot: int | None = None


@dataclass(frozen=True)
class Interleave:
    """4 waves, one a SIMD. Stage borders are ignored; barriers stand where shared tiles change hands, a wait point before each and where
    a group of reads is first needed. `barriers` is the most that are tried in a step."""

    latencies: Latencies = field(default_factory=Latencies)
    barriers: int = 4
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
        self.taken: dict[int, int] = {}

    def arrangement(self) -> Arrangement:
        """Reads first, then barriers, then what fills; the whole as an order."""
        reads = self._reads()
        places = self._place_reads(reads)
        barriers, fills = self._barriers(places)
        places |= self._place_fills(fills)
        return self._order(places, barriers, reads)

    # ---- register windows ----

    def _reads(self) -> list[Window]:
        """The window of every unit that writes registers of matrix units: behind the last use of the old content, before the first of the
        new one."""
        line = [(step, unit) for step in range(3) for unit in self.phases[step % len(self.phases)]]
        found = []
        for place, (step, unit) in enumerate(line):
            if step != 1 or unit.tag.ordinal in self.slot_of:
                continue
            writes = unit.effects.writes
            uses = [(at, (other_step - 1) * self.length + self.slot_of[other.tag.ordinal]) for at, (other_step, other) in enumerate(line)
                    if other.tag.ordinal in self.slot_of and other.effects.reads & writes]
            if not uses or not any(access.space == "lds" and not access.write for access in unit.effects.memory):
                continue
            following = next((at for at, (_, other) in enumerate(line) if at > place and other is not unit
                              and other.effects.writes & writes and other.tag.ordinal not in self.slot_of), len(line))
            before = max((slot for at, slot in uses if at < place), default=-self.length)
            after = min((slot for at, slot in uses if place < at < following), default=2 * self.length)
            window = Window(unit, before + 1, after - 1)
            if window.first > window.last:
                raise PipelineError(f"{unit} has no slot: matrix unit {before % self.length} still wants what it overwrites, and matrix "
                                    f"unit {after % self.length} wants what it reads", unit.first.where())
            found.append(window)
        return found

    def _place_reads(self, reads: Sequence[Window]) -> dict[int, int]:
        """The earliest slots, those that are needed first before others, two slots apart where that meets the latency."""
        places: dict[int, int] = {}
        wanted = self.latencies.slots(self.latencies.lds)
        for window in sorted(reads, key=lambda window: (window.last, window.first, window.unit.tag.ordinal)):
            slot = self._free(window.first, window.last, max(window.first, window.last - wanted))
            self.taken[slot % self.length] = window.unit.tag.ordinal
            places[window.unit.tag.ordinal] = window.slot = slot
        return places

    def _free(self, first: int, last: int, comfortable: int) -> int:
        """A free slot: with free neighbours up to `comfortable`, else any, the earliest."""
        def free(slot: int) -> bool:
            return slot % self.length not in self.taken

        choices = [slot for slot in range(first, last + 1) if free(slot)]
        if not choices:
            raise PipelineError(f"there are more operations than slots from {first} to {last} of the matrix stream")
        roomy = [slot for slot in choices if slot <= comfortable and free(slot - 1)]
        return roomy[0] if roomy else choices[0]

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
        grid = range(0, self.length, max(1, self.length // 32))
        for round_trip, count in tries:
            found = self._widest(edges, grid, count, settle, round_trip)
            if found is not None:
                return found
        raise PipelineError(f"no {self.schedule.barriers} barriers a step let every shared tile be read and refilled: more stages would")

    def _widest(self, edges: Sequence[tuple[Unit, int, int]], grid: Sequence[int], count: int, settle: int,
                trip: int) -> tuple[tuple[int, ...], list[Window]] | None:
        """The first `count` barriers on the grid that leave the most slack to the narrowest window, None where the fills never fit.

        A window of several barriers begins with the earliest and ends with the latest that one of them allows, so what all barriers
        from a place on would give bounds every choice among them.
        """
        kinds = list(dict.fromkeys((old, new) for _, old, new in edges))
        alone = [[self._fill_window(old, new, barrier, settle, trip) for old, new in kinds] for barrier in grid]
        behind = list(itertools.accumulate(reversed(alone), _union))[::-1]
        best: tuple[int, tuple[int, ...], list[Window]] | None = None

        def search(place: int, chosen: tuple[int, ...], spans: list[Span]) -> None:
            nonlocal best
            if len(chosen) == count:
                span_of = dict(zip(kinds, spans, strict=True))
                windows = [Window(unit, *span_of[old, new]) for unit, old, new in edges]
                if self._fits(windows):
                    best = _slack(spans), chosen, windows
                return
            for at in range(place, len(grid) - (count - len(chosen)) + 1):
                least = -1 if best is None else best[0]
                if _slack(_union(spans, behind[at]) if chosen else behind[at]) <= least:
                    return
                wider = _union(spans, alone[at]) if chosen else alone[at]
                if len(chosen) + 1 < count or _slack(wider) > least:
                    search(at + 1, (*chosen, grid[at]), wider)

        search(0, (), [])
        return None if best is None else best[1:]

    def _fill_window(self, old: int, new: int, barrier: int, settle: int, trip: int) -> Span:
        """Behind the first pass of a barrier after the last read of the old content, and a round trip before its last pass ahead of the
        new read."""
        n = self.length
        return max(0, barrier + n * ((old + settle - barrier) // n + 1)), min(n - 1, barrier + n * ((new - 1 - barrier) // n) - trip)

    def _fits(self, windows: Sequence[Window]) -> bool:
        """Whether the fills, each taking its cover, find room in their windows: earliest deadline first."""
        cover = min(self.latencies.slots(self.latencies.load), max(1, self.length // len(windows)))
        at = 0
        for window in sorted(windows, key=lambda window: (window.last, window.first)):
            at = max(at, window.first)
            if at > window.last or window.first > window.last:
                return False
            at += cover
        return True

    def _place_fills(self, windows: list[Window]) -> dict[int, int]:
        """As evenly over the step as windows allow, earliest deadline first; M0 is written a slot before the load that reads it."""
        if not windows:
            return {}
        fills = {window.unit.tag.ordinal for window in windows}
        writers = [unit for unit in self.others if unit.tag.ordinal not in fills and unit.effects.writes & m0.mask]
        order = self._in_m0_order(sorted(windows, key=lambda window: (window.last, window.unit.tag.ordinal)), writers)
        for spacing in range(max(1, self.length // len(order)), 0, -1):
            places = self._spaced(order, spacing)
            if places is not None:
                break
        else:
            raise PipelineError(f"{len(order)} loads find no room between the barriers of the step", order[0].unit.first.where())
        for slot in places.values():
            self.taken[slot] = -1
        for writer in writers:
            read = [places[ordinal] for ordinal in fills if self._reads_m0_of(writer, self._unit(ordinal))]
            if read:
                places[writer.tag.ordinal] = min(read) - 1
        return places

    def _unit(self, ordinal: int) -> Unit:
        return next(unit for unit in self.others if unit.tag.ordinal == ordinal)

    def _spaced(self, order: Sequence[Window], spacing: int) -> dict[int, int] | None:
        """Each fill at least `spacing` slots behind the one before it, in a free slot of its window; None where one does not fit."""
        places: dict[int, int] = {}
        at = 1  # slot 0 is the first M0's
        for window in order:
            first = max(window.first, at)
            slot = next((slot for slot in range(first, min(window.last, self.length - 1) + 1) if slot not in self.taken), None)
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

    def _order(self, places: Mapping[int, int], barriers: Sequence[int], reads: Sequence[Window]) -> Arrangement:
        """Slot after slot: synchronisation, the matrix unit, what stands in its window."""
        places = dict(places)
        for unit in self.others:
            if unit.tag.ordinal not in places:
                raise PipelineError(f"interleave has no rule for {unit}: it places matrix instructions, reads of their operands and fills",
                                    unit.first.where())
        lead = frozenset(ordinal for ordinal, slot in places.items() if slot < 0)
        inside: dict[int, list[int]] = {}
        writers = {unit.tag.ordinal for unit in self.others if unit.effects.writes & m0.mask}
        for ordinal in sorted(places, key=lambda ordinal: (places[ordinal], ordinal in writers, ordinal)):
            inside.setdefault(places[ordinal] % self.length, []).append(ordinal)
        late = {ordinal: slot for ordinal, slot in places.items() if slot >= self.length}
        if late:
            unit = next(unit for unit in self.others if unit.tag.ordinal in late)
            raise PipelineError(f"{unit} would stand in the step behind its own", unit.first.where())
        points = self._points(reads, barriers)
        order: list[Placed] = []
        for slot, unit in enumerate(self.matrix):
            if slot in points:
                order.append(Sync("wait"))
            if slot in barriers:
                order.append(Sync("barrier"))
            order.append(unit.tag.ordinal)
            order += inside.get(slot, ())
        return Arrangement(tuple(order), lead)

    def _points(self, reads: Sequence[Window], barriers: Sequence[int]) -> set[int]:
        """Slots with a wait point: barriers, and first uses of reads that no point since the read has served."""
        points = set(barriers)
        for window in sorted(reads, key=lambda window: window.last):
            assert window.slot is not None
            use = window.last + 1
            if not any(slot % self.length in points for slot in range(window.slot + 1, use + 1)):
                points.add(use % self.length)
        return points
