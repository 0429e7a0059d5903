"""Interleave: a modulo schedule of single instructions around one wave's matrix stream.

The matrix units of the step keep their order and are the clock. A step has N of them, and slot i is the gap after matrix unit i. All
other units, waits and barriers get a slot of their own if there are enough: the gap after a matrix unit of 16 clk holds two instructions,
and LDS takes one wave of a pair at a time. A slot may lie in the previous step; the unit then *leads*.

- A fragment is read as soon as the last matrix unit that uses its old content has issued.
- Memory requests are spread evenly over the step.
- There are as few barriers as the shared tiles need. Their slots are found by search.
- A wait stands where the data that it waits for have arrived.
- Blocks, and instructions that touch neither memory nor M0, stay in the gap in which they were emitted.

Cover rule (docs/facts/measured_gfx950.md section 5): a load from memory needs ceil(64 / c) matrix units of c clk, an LDS read needs one.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field

from asmgen.author.schedule.handoffs import handoffs
from asmgen.author.schedule.schedules import Arrangement, Placed, Sync, clocks, is_matrix, is_transcendental
from asmgen.author.schedule.unitcosts import StepMachine
from asmgen.author.schedule.vectorslots import in_groups, vector_slots
from asmgen.author.step.effects import Unit
from asmgen.author.step.iterations import PipelineError
from asmgen.isa.records import dataclass
from asmgen.isa.registers import m0

_WAIT_AHEAD = 3  # slots, at most, from a barrier's wait to the barrier
_REGISTER_FILL = 3  # slots of a ds_write_b128, which takes longer than one gap, and of the load after it
_FULL = 7  # instructions in a slot that are too many


@dataclass(frozen=True)
class Latencies:
    """The clk that a schedule leaves between an operation and its user (docs/facts/measured_gfx950.md sections 2 and 3).

    `lds`: until the data of an LDS read arrive. `memory`: a round trip to memory. `cycles`: one matrix unit. `load`: from one memory
    instruction of 16 bytes a lane to the next one, if four waves issue the same (burst rule: at most 44 KB in any 1000 clk).
    """

    cycles: int = 16
    lds: int = 128
    memory: int = 1000
    load: int = 93

    def slots(self, clk: int) -> int:
        """The number of matrix units that cover so many clk."""
        return -(-clk // self.cycles)


Slots = tuple[int, int]
"""The first and the last slot of a range."""


def _union(one: Sequence[Slots], other: Sequence[Slots]) -> list[Slots]:
    """The slot ranges that two sets of barriers allow together."""
    return [(min(first, begin), max(last, end)) for (first, last), (begin, end) in zip(one, other, strict=True)]


def _slack(spans: Sequence[Slots]) -> int:
    """The free slots of the narrowest range; negative if one is empty."""
    return min([last - first for first, last in spans])


def _fits(fills: Sequence[int], spans: Sequence[Slots], covers: Sequence[int]) -> bool:
    """Whether the fills fit into the slot ranges of their kinds, each with the cover of its kind; the earliest deadline goes first."""
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
class SlotRange:
    """The slots in which a unit may stand; both ends are included."""

    unit: Unit
    first: int
    last: int
    slot: int | None = None


def _from_registers(unit: Unit) -> bool:
    """Whether a fill comes from registers and not from memory."""
    return not any(access.space == "global" for access in unit.effects.memory)


@dataclass(frozen=True)
class Interleave:
    """For 4 waves, one on each SIMD. Stage borders are ignored.

    Barriers stand where shared tiles change hands. A wait slot stands before each barrier and where a group of reads is first needed.
    `barriers` is the largest number of barriers that the search tries in a step. The units of the stream `vector` are spread over the
    step (`vectorslots`); reads then stand in their own step if their latency allows that.
    """

    latencies: Latencies = field(default_factory=Latencies)
    barriers: int = 4
    vector: str = ""
    name: str = "interleave"
    stagger: int = 0

    def arrange(self, phases: Sequence[Sequence[Unit]], offsets: Mapping[int, int], machine: StepMachine) -> Arrangement:
        """The modulo schedule. Raises PipelineError if a read has no slot between the last use of what it overwrites and its own use, or if
        no barriers serve the shared tiles."""
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
        # Instructions in each slot. The last slot is for the loop's branch, the one before for the scalar code at the end of a copy.
        self.load = [0] * self.length
        self.load[-2:] = [1] * len(self.load[-2:])
        for slot in self.kept.values():
            self._take(slot)
        if self.vector:
            for slot in set(range(self.length)) - set(self._beside()):
                self._take(slot)

    def _beside(self) -> Counter[int]:
        """The number of transcendental instructions in each gap. Another instruction issues in the second half of each of them."""
        return Counter(self.vector[unit.tag.ordinal] for unit in self.others if unit.tag.ordinal in self.vector and is_transcendental(unit))

    def _kept(self, units: Sequence[Unit]) -> dict[int, int]:
        """The slots of the units that may not move, by ordinal; -1 before the first matrix unit."""
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
        """Place reads, then barriers, fills, the loads of fills from registers and waits; the result as an order."""
        reads = self._slot_ranges(self.slot_of | self.kept, "lds")
        positions = self._place_reads(reads) | self.kept | self.vector
        barriers, fills = self._barriers(positions)
        wait_slots = {self._before(barrier) for barrier in barriers}
        positions |= self._place_fills(fills)
        filled = {fill.unit.tag.ordinal: positions[fill.unit.tag.ordinal] for fill in fills}
        positions |= self._place_loads(self._slot_ranges(filled, "global"))
        self._add_wait_slots(reads, wait_slots)
        if self.vector:
            taken = self._taken(positions, barriers, wait_slots)
            self.vector = vector_slots(self.phases, self.schedule.vector, self.latencies.cycles, taken)
        return self._order(positions | self.vector, barriers, wait_slots)

    def _taken(self, positions: Mapping[int, int], barriers: Sequence[int], wait_slots: set[int]) -> list[int]:
        """The clk that other work takes of each gap, without what issues beside transcendental instructions; the last gap has a branch."""
        slots = [slot for ordinal, slot in positions.items() if ordinal not in self.vector]
        slots += [*wait_slots, *(barrier - 1 for barrier in barriers), self.length - 1]
        others, beside = Counter(slot % self.length for slot in slots), self._beside()
        return [clocks("slot") * max(0, others[slot] - beside[slot]) for slot in range(self.length)]

    def _take(self, slot: int) -> int:
        self.load[slot % self.length] += 1
        return slot

    def _free(self, slots: Sequence[int], limit: int = 1) -> int | None:
        """The first of the slots that holds fewer than `limit` instructions."""
        return next((slot for slot in slots if self.load[slot % self.length] < limit), None)

    def _before(self, barrier: int) -> int:
        """Take the slot before a barrier's matrix unit for the barrier, and a free one before that for its wait. Returns the wait's
        slot."""
        self._take(barrier - 1)
        free = self._free(range(barrier - 2, barrier - 1 - _WAIT_AHEAD, -1))
        return self._take(barrier - 1 if free is None else free) % self.length

    # ---- registers ----

    def _slot_ranges(self, users: Mapping[int, int], space: str) -> list[SlotRange]:
        """The slot range of each unit that reads `space` into registers of the users (ordinals with their slots).

        It begins after the last use of the old content and ends before the first use of the new one.
        """
        line = [(step, unit) for step in range(3) for unit in self.phases[step % len(self.phases)]]
        using = [(at, (step - 1) * self.length + users[unit.tag.ordinal], unit.effects.reads) for at, (step, unit) in enumerate(line)
                 if unit.tag.ordinal in users]
        writing = [(at, unit) for at, (_, unit) in enumerate(line) if unit.effects.writes and unit.tag.ordinal not in self.slot_of]
        found = []
        for position, (step, unit) in enumerate(line):
            if step != 1 or unit.tag.ordinal in self.kept or unit.tag.ordinal in self.vector:
                continue
            if not any(access.space == space and not access.write for access in unit.effects.memory):
                continue
            writes = unit.effects.writes
            uses = [(at, slot) for at, slot, reads in using if reads & writes]
            if not uses:
                continue
            following = next((at for at, other in writing if at > position and other is not unit and other.effects.writes & writes),
                             len(line))
            before = max((slot for at, slot in uses if at < position), default=-self.length)
            after = min((slot for at, slot in uses if position < at < following), default=2 * self.length)
            allowed = SlotRange(unit, before + 1, after - 1)
            if allowed.first > allowed.last:
                raise PipelineError(f"{unit} has no slot: what it overwrites is needed until matrix unit {before % self.length}, and "
                                    f"what it reads is needed at matrix unit {after % self.length}", unit.first.where())
            found.append(allowed)
        return found

    def _place_reads(self, reads: Sequence[SlotRange]) -> dict[int, int]:
        """The earliest slots for reads; those with the earliest use go first. Reads stand two slots apart if the latency allows that."""
        positions: dict[int, int] = {}
        wanted = self.latencies.slots(self.latencies.lds)
        for allowed in sorted(reads, key=lambda allowed: (allowed.last, allowed.first, allowed.unit.tag.ordinal)):
            first = 0 if self.vector and allowed.first < 0 <= allowed.last - wanted else allowed.first
            slots = range(first, allowed.last + 1)
            comfortable = range(first, max(first, allowed.last - wanted) + 1)
            roomy = comfortable if self.vector else [slot for slot in comfortable if not self.load[(slot - 1) % self.length]]
            choices = [slot for slot in (self._free(roomy), self._free(slots), min(slots, key=lambda slot: self.load[slot % self.length]))
                       if slot is not None]
            positions[allowed.unit.tag.ordinal] = allowed.slot = self._take(choices[0])
        return positions

    def _place_loads(self, loads: Sequence[SlotRange]) -> dict[int, int]:
        """A load for a fill from registers issues as soon as the previous fill has left its registers."""
        positions: dict[int, int] = {}
        for allowed in sorted(loads, key=lambda allowed: allowed.first):
            slots = range(max(0, allowed.first), min(allowed.last, self.length - 1) + 1)
            free = self._free(slots)
            if free is None and not slots:
                raise PipelineError(f"{allowed.unit} has no slot in its step: its registers become free only after it",
                                    allowed.unit.first.where())
            positions[allowed.unit.tag.ordinal] = self._take(min(slots, key=lambda slot: self.load[slot]) if free is None else free)
        return positions

    # ---- shared tiles ----

    def _fill_edges(self, positions: Mapping[int, int]) -> list[tuple[Unit, int, int]]:
        """(fill, slot of the last read of the old bytes, slot of the first read of the new bytes), relative to the fill's step."""
        far = (2 * len(self.phases) + 4) * self.length
        slots = [(one.write, one.fresh, one.copies * self.length + positions[one.read]) for one in handoffs(self.phases, self.offsets)]
        found = []
        for unit in self.phases[0]:
            if any(access.space == "lds" and access.write for access in unit.effects.memory):
                old, new = ([slot for write, of_new, slot in slots if write == unit.tag.ordinal and of_new == fresh]
                            for fresh in (False, True))
                found.append((unit, max(old, default=-far), min(new, default=far)))
        return found

    def _barriers(self, positions: Mapping[int, int]) -> tuple[tuple[int, ...], list[SlotRange]]:
        """The fewest barriers, with the most slack, between which each fill has a slot range."""
        edges = self._fill_edges(positions)
        if not edges:
            return (), []
        settle, trip = self.latencies.slots(self.latencies.lds) // 2, self.latencies.slots(self.latencies.memory)
        # A short step cannot cover a round trip. Then waves wait for memory, and the schedule covers a half, a quarter or none of it.
        counts = range(1, self.schedule.barriers + 1)
        tries = [(trip, count) for count in counts] + [(less, count) for count in counts for less in (trip // 2, trip // 4, 0)]
        grid = self._barrier_slots()
        for round_trip, count in tries:
            found = self._widest(edges, grid, count, settle, round_trip)
            if found is not None:
                return found
        raise PipelineError(f"with {self.schedule.barriers} barriers a step not every shared tile can be read and refilled; "
                            "more stages of LDS would work")

    def _barrier_slots(self) -> list[int]:
        """At most 32 slots for barriers, evenly over the step. The two slots before one, for the barrier and its wait, are free if
        possible.

        Slot 0 is not among them: its barrier would stand in the copy before, and prologues have no such copy.
        """
        step = max(1, self.length // 32)
        return [min(range(max(1, low), min(low + step, self.length)), key=lambda slot: (self.load[slot - 1], self.load[slot - 2]))
                for low in range(0, self.length, step) if low or step > 1]

    def _widest(self, edges: Sequence[tuple[Unit, int, int]], grid: Sequence[int], count: int, settle: int,
                trip: int) -> tuple[tuple[int, ...], list[SlotRange]] | None:
        """The first `count` barriers on the grid that leave the most slack to the narrowest slot range; None if the fills never fit.

        The slot range of several barriers begins with the earliest slot and ends with the latest slot that one of them allows. So the
        ranges of all barriers from a grid position on bound each choice among them.
        """
        every = [(_from_registers(unit), old, new) for unit, old, new in edges]
        kinds = list(dict.fromkeys(every))
        numbers = [kinds.index(kind) for kind in every]
        cover = min(self.latencies.slots(self.latencies.load), max(1, self.length // len(edges)))
        covers = [min(_REGISTER_FILL, cover) if from_registers else cover for from_registers, _, _ in kinds]
        alone = [[self._fill_range(*kind, barrier, settle, trip) for kind in kinds] for barrier in grid]
        from_here = list(itertools.accumulate(reversed(alone), _union))[::-1]
        best: tuple[int, tuple[int, ...], list[Slots]] | None = None

        def search(position: int, chosen: tuple[int, ...], spans: list[Slots]) -> None:
            nonlocal best
            if len(chosen) == count:
                if _fits(numbers, spans, covers):
                    best = _slack(spans), chosen, spans
                return
            for at in range(position, len(grid) - (count - len(chosen)) + 1):
                least = -1 if best is None else best[0]
                if _slack(_union(spans, from_here[at]) if chosen else from_here[at]) <= least:
                    return
                wider = _union(spans, alone[at]) if chosen else alone[at]
                if len(chosen) + 1 < count or _slack(wider) > least:
                    search(at + 1, (*chosen, grid[at]), wider)

        search(0, (), [])
        if best is None:
            return None
        _, barriers, spans = best
        return barriers, [SlotRange(unit, *spans[number]) for (unit, _, _), number in zip(edges, numbers, strict=True)]

    def _fill_range(self, from_registers: bool, old: int, new: int, barrier: int, settle: int, trip: int) -> Slots:
        """The slots of a fill: after the barrier that follows the last read of the old bytes, and a round trip before the last barrier
        that precedes the first read of the new bytes. A fill from registers needs only the time of an LDS write before that barrier, and a
        slot after it in the step for the next load."""
        n = self.length
        ahead = barrier + n * ((new - 1 - barrier) // n)
        return (max(0, barrier + n * ((old + settle - barrier) // n + 1)),
                min(n - 1 - 2 * from_registers, ahead - max(settle if from_registers else trip, 1 + _WAIT_AHEAD)))

    def _place_fills(self, ranges: list[SlotRange]) -> dict[int, int]:
        """Fills as evenly over the step as their ranges allow, the earliest deadline first. M0 is written a slot before its load."""
        if not ranges:
            return {}
        fills = {allowed.unit.tag.ordinal for allowed in ranges}
        writers = [unit for unit in self.others if unit.tag.ordinal not in fills and unit.effects.writes & m0.mask]
        order = self._in_m0_order(sorted(ranges, key=lambda allowed: (allowed.last, allowed.unit.tag.ordinal)), writers)
        widest = max(1, self.length // len(order))
        burst = min(widest, self.latencies.slots(self.latencies.load))  # loads share a slot rather than stand closer than this
        # Slot 0 is for the first write of M0. In a step with as many slots as loads, that write stands before slot 0.
        found = (self._spaced(order, first, spacing, limit) for spacings in (range(widest, burst - 1, -1), range(burst - 1, 0, -1))
                 for first in (1, 0) for limit in range(1, _FULL) for spacing in spacings)
        positions = next((positions for positions in found if positions is not None), None)
        if positions is None:
            raise PipelineError(f"{len(order)} loads find no room between the barriers of the step", order[0].unit.first.where())
        for slot in positions.values():
            self._take(slot)
        for writer in writers:
            read = [positions[ordinal] for ordinal in fills if self._reads_m0_of(writer, self.unit[ordinal])]
            if read:
                before = max((positions[ordinal] for ordinal in fills if positions[ordinal] < min(read)), default=-1)
                free = self._free(range(min(read) - 1, before, -1))
                slot = positions[writer.tag.ordinal] = self._take(min(read) - 1 if free is None else free)
                if slot < 0:
                    self.kept[writer.tag.ordinal] = slot
        return positions

    def _spaced(self, order: Sequence[SlotRange], at: int, spacing: int, limit: int) -> dict[int, int] | None:
        """Each fill about `spacing` slots after the previous one, from slot `at` on, in a slot of its range with room; None if one does not
        fit."""
        positions: dict[int, int] = {}
        for allowed in order:
            first = max(allowed.first, at)
            slot = self._free(range(first, min(allowed.last, self.length - 1) + 1), limit)
            if slot is None:
                return None
            positions[allowed.unit.tag.ordinal] = slot
            at = max(slot, at) + (spacing if slot - first < spacing else 1)
        return positions

    def _reads_m0_of(self, writer: Unit, reader: Unit) -> bool:
        """Whether `writer` is the last to write M0 before `reader` in emission order."""
        writers = [unit.tag.ordinal for unit in self.others if unit.effects.writes & m0.mask and unit.tag.ordinal < reader.tag.ordinal]
        return bool(reader.effects.reads & m0.mask) and bool(writers) and max(writers) == writer.tag.ordinal

    def _in_m0_order(self, order: Sequence[SlotRange], writers: Sequence[Unit]) -> list[SlotRange]:
        """Fills that share an M0 stay together; the groups go by their earliest deadline."""
        groups: dict[int, list[SlotRange]] = {}
        for allowed in order:
            writer = next((unit.tag.ordinal for unit in writers if self._reads_m0_of(unit, allowed.unit)), allowed.unit.tag.ordinal)
            groups.setdefault(writer, []).append(allowed)
        ranked = sorted(groups.values(), key=lambda group: (min(one.last for one in group), max(one.first for one in group)))
        return [allowed for group in ranked for allowed in sorted(group, key=lambda allowed: allowed.unit.tag.ordinal)]

    # ---- the order ----

    def _order(self, positions: Mapping[int, int], barriers: Sequence[int], wait_slots: set[int]) -> Arrangement:
        """Slot by slot: the matrix unit, the units in its gap, then synchronisation."""
        positions = dict(positions)
        for unit in self.others:
            if unit.tag.ordinal not in positions:
                raise PipelineError(f"interleave has no rule for {unit}: it places matrix instructions, reads of their operands and fills",
                                    unit.first.where())
        ahead = [ordinal for ordinal, slot in self.kept.items() if slot < 0]
        for ordinal in ahead:
            del positions[ordinal]
        lead = frozenset(ordinal for ordinal, slot in positions.items() if slot < 0)
        inside: dict[int, list[int]] = {}
        writers = {unit.tag.ordinal for unit in self.others if unit.effects.writes & m0.mask}
        for ordinal in sorted(positions, key=lambda ordinal: (positions[ordinal], ordinal in writers, ordinal)):
            inside.setdefault(positions[ordinal] % self.length, []).append(ordinal)
        late = {ordinal: slot for ordinal, slot in positions.items() if slot >= self.length}
        if late:
            unit = self.unit[min(late)]
            raise PipelineError(f"{unit} would stand in the step after its own", unit.first.where())
        order: list[Placed] = [*ahead]
        for slot, unit in enumerate(self.matrix):
            order.append(unit.tag.ordinal)
            order += self._gap_order(inside.get(slot, ()))
            if slot in wait_slots:
                order.append(Sync("wait"))
            if (slot + 1) % self.length in barriers:
                order.append(Sync("barrier"))
        if order[-1] == Sync("wait"):
            # Before the copy it serves the entry and the back-edge; at the end, the entry would need one of its own.
            order.insert(0, order.pop())
        return Arrangement(tuple(order), lead)

    def _gap_order(self, ordinals: Sequence[int]) -> list[int]:
        """The order in a gap: as given, but one unit of other work after each transcendental one, and packed f32 last."""
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

    def _add_wait_slots(self, reads: Sequence[SlotRange], wait_slots: set[int]) -> None:
        """Add wait slots: each read has one after its data have arrived and before its first use."""
        wanted = self.latencies.slots(self.latencies.lds)
        for allowed in sorted(reads, key=lambda allowed: allowed.last):
            assert allowed.slot is not None
            landed = range(min(allowed.slot + wanted, allowed.last), allowed.last + 1)
            if not any(slot % self.length in wait_slots for slot in landed):
                free = self._free(landed[::-1])
                wait_slots.add(self._take(allowed.last if free is None else free) % self.length)
