"""Races in device memory between the waves of one workgroup: the same bytes, one barrier interval, one of them writes.

Accesses are logged as they come and judged when their workgroup's barrier interval ends. What nobody has written by then is dropped
unseen. The rest is first compared by the bytes between each wave's lowest and highest lane; only where those of two waves overlap are
the lanes' own bytes compared, exactly. An access lives on into the next interval where its wave has not waited for it.

Atomics do not race with each other; stores with scope bits (sc0, sc1) count as such, as compilers make atomic stores of them. A load
with scope bits is disturbed by plain stores alone. So is a plain load whose wave compares and swaps the same places afterwards: it is a
guess, and the comparison finds out whether it was right. Where all waves store the same values (`globalvalues`), which who reads there
finds in any case, it is a warning, once. What orders waves by other means than barriers (a flag that one wave spins on) is not seen.
Where a workgroup makes more than LOG_BYTES of accesses without a barrier, those are judged among themselves.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.arrival.arrival import Counters
from asmgen.emulator.arrival.boundstep import queue_of
from asmgen.emulator.arrival.findings import Finding, Findings
from asmgen.emulator.arrival.ldsvalues import Bytes, bytes_of
from asmgen.emulator.machine.devicememory import PAGE
from asmgen.emulator.machine.kept import kept
from asmgen.emulator.machine.state import Group, Machine, Selection
from asmgen.emulator.races.globalvalues import Stores, agreed, changes_of, stored, untouched
from asmgen.emulator.races.racedbytes import RacedBytes
from asmgen.isa.records import dataclass
from asmgen.isa.registers import Reg
from asmgen.program.program import Instruction, Program

CHECK = "global-race"
READ, WRITE, ATOMIC, ATOMIC_READ = range(4)
_READS = (READ, ATOMIC_READ)
LOG_BYTES = 1 << 26
"""Bytes of logged addresses from which on they are judged and forgotten."""
_SHIFT = 47  # device addresses are smaller
_WITNESSES = 16  # faults that one judgement reports
_FAR = np.int64(1) << 62
_OWNERS = 1 << 26
"""Cells at most of a quick look."""
Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class _Row:
    """One execution of an instruction by a group: addresses and counts [waves, lanes] of elements of `size` bytes.

    `select` chooses the waves from arrays over all; `data` [waves, lanes, bytes] is what a plain store writes, where that is known, and
    `changes` which bytes of it were not there before.
    """

    position: int
    kind: int
    queue: int
    buffer: int
    waves: Numbers
    select: Selection
    tickets: NDArray[np.int32]
    addresses: Numbers
    counts: Numbers
    size: int
    data: Bytes | None
    changes: Bytes | None = None

    def part(self, chosen: NDArray[np.bool_]) -> _Row:
        """Some of the waves."""
        if chosen.all():
            return self
        return _Row(self.position, self.kind, self.queue, self.buffer, self.waves[chosen], self.waves[chosen], self.tickets[chosen],
                    self.addresses[chosen], self.counts[chosen], self.size, self.data[chosen] if self.data is not None else None,
                    self.changes[chosen] if self.changes is not None else None)

    def bytes_within(self, homes: Numbers, data: Bytes | None, starts: Numbers, ends: Numbers) -> Stores:
        """`stored` of what the lanes write, with the workgroup (`homes` of each wave) << 47 in the places."""
        active = self.counts > 0
        waves = np.broadcast_to(self.waves[:, None], active.shape)[active]
        locations = (homes[waves] << _SHIFT) + self.addresses[active]
        return stored(locations, (self.counts * self.size)[active], waves, data[active] if data is not None else None, starts, ends)

    def keys(self) -> Numbers:
        """The wave << 47 and the address of each lane's first byte."""
        return (self.waves[:, None] << _SHIFT) + self.addresses

    def hulls(self) -> Spans:
        """From the lowest to the highest byte of each wave."""
        active = self.counts > 0
        low = np.where(active, self.addresses, _FAR).min(axis=1)
        high = np.where(active, self.addresses + self.size * self.counts, 0).max(axis=1)
        some = low < high
        return Spans.of(self, self.waves[some], low[some], high[some])

    def lanes(self) -> Spans:
        """The bytes of each lane, joined where lanes follow each other in memory."""
        active = self.counts > 0
        low, high = self.addresses[active], (self.addresses + self.size * self.counts)[active]
        waves = np.broadcast_to(self.waves[:, None], self.counts.shape)[active]
        if not len(low):
            return Spans.of(self, waves, low, high)
        starts = np.ones(len(low), bool)
        starts[1:] = (low[1:] != high[:-1]) | (waves[1:] != waves[:-1])
        ends = np.append(starts[1:], True)
        return Spans.of(self, waves[starts], low[starts], high[ends])


@dataclass(frozen=True)
class Spans:
    """Bytes low to high - 1, touched by waves at an instruction; all arrays of one length."""

    waves: Numbers
    low: Numbers
    high: Numbers
    kinds: Numbers
    positions: Numbers

    @classmethod
    def of(cls, row: _Row, waves: Numbers, low: Numbers, high: Numbers) -> Spans:
        """Spans of one row."""
        return cls(waves, low, high, np.full(len(low), row.kind), np.full(len(low), row.position))

    @classmethod
    def join(cls, parts: list[Spans]) -> Spans:
        """All of them, in this order."""
        columns = ("waves", "low", "high", "kinds", "positions")
        return cls(*(np.concatenate([getattr(part, column) for part in parts]) for column in columns))

    def of_kinds(self, *kinds: int) -> Spans:
        """Those of some kinds."""
        chosen = np.isin(self.kinds, kinds)
        return Spans(self.waves[chosen], self.low[chosen], self.high[chosen], self.kinds[chosen], self.positions[chosen])


def conflicts(spans: Spans, homes: Numbers) -> Numbers:
    """Byte addresses, with the workgroup (`homes` of each wave) << 47, at which two waves of a workgroup meet and one writes.

    Every stretch of bytes that is in conflict has one of the results in it.
    """
    home = homes[spans.waves] << _SHIFT
    waves, first, _ = _merged(spans)
    points = np.unique(np.concatenate([first + (homes[waves] << _SHIFT), home + spans.low]))
    return points[_in_conflict(points, spans, homes)]


def _in_conflict(points: Numbers, spans: Spans, homes: Numbers) -> NDArray[np.bool_]:
    home = homes[spans.waves] << _SHIFT
    low, high = home + spans.low, home + spans.high
    reads, writes, atomics = (_covered(points, low[spans.kinds == kind], high[spans.kinds == kind]) for kind in (READ, WRITE, ATOMIC))
    stored_to = (writes > 0) & (_waves_at(points, spans, homes) > 1)
    changed = (reads > 0) & (atomics > 0) & (_waves_at(points, spans.of_kinds(READ, ATOMIC), homes) > 1)
    return np.asarray(stored_to | changed, bool)


def _waves_at(points: Numbers, spans: Spans, homes: Numbers) -> Numbers:
    """How many waves touch each point."""
    waves, first, last = _merged(spans)
    return _covered(points, first + (homes[waves] << _SHIFT), last + (homes[waves] << _SHIFT))


def _merged(spans: Spans) -> tuple[Numbers, Numbers, Numbers]:
    """(wave, from, to) of the bytes that each wave touches, as spans that neither meet nor overlap for one wave."""
    base = spans.waves << _SHIFT
    order = np.argsort(base + spans.low, kind="stable")
    begin, reach = (base + spans.low)[order], np.maximum.accumulate((base + spans.high)[order])
    starts = np.append(True, begin[1:] > reach[:-1])[:len(begin)]
    ends = np.append(starts[1:], True)[:len(begin)]
    waves = begin[starts] >> _SHIFT
    return waves, begin[starts] - (waves << _SHIFT), reach[ends] - (waves << _SHIFT)


def _covered(points: Numbers, low: Numbers, high: Numbers) -> Numbers:
    """How many of the spans hold each point."""
    return np.asarray(np.searchsorted(np.sort(low), points, "right") - np.searchsorted(np.sort(high), points, "right"), np.int64)


class GlobalArrival:
    """Logs accesses to device memory and judges them."""

    def __init__(self, machine: Machine, counters: Counters, program: Program, findings: Findings, raced: RacedBytes | None = None) -> None:
        self.machine = machine
        self.counters = counters
        self.program = program
        self.findings = findings
        self._facts, self._compares = kept(program, "_memory_facts", (), lambda: _facts(program))
        self._data = {number: source for number, (position, _, _) in self._facts.items()
                      if (source := data_of(program.instructions[position], machine)) is not None}
        self.renew(raced)

    def renew(self, raced: RacedBytes | None) -> None:
        """A launch begins: nothing has been written, and there may be other buffers."""
        self.raced = raced
        self._starts = [interval.start for interval in self.machine.memory.intervals]
        self._ends = [interval.end for interval in self.machine.memory.intervals]
        self._written: set[int] = set()
        self._told = False
        self.reset()

    def reset(self) -> None:
        """Other waves take these waves' places."""
        self._log: list[_Row] = []
        self._bytes = 0

    def note(self, group: Group, instruction: Instruction, memory_name: str, addresses: Numbers, counts: Numbers, size: int, low: int,
             high: int) -> None:
        """A state.MemoryWatcher; only what lies in the bytes low to high - 1 of device memory matters here."""
        position, kind, queue = self._facts[id(instruction)]
        if queue is None or high <= low:
            return
        buffer = bisect_right(self._starts, low) - 1
        if buffer < 0 or self._ends[buffer] < high:
            buffer = -1  # several at once
        if kind not in _READS:
            self._written.add(buffer)
        tickets = self.counters.issued[queue, group.select].copy()
        source = self._data.get(id(instruction))
        data = source(group) if source is not None else None
        changes = self._changes(addresses, counts, size, data) if data is not None and kind == WRITE else None
        self._log.append(_Row(position, kind, queue, buffer, group.waves, group.select, tickets, addresses, counts, size, data, changes))
        self._bytes += addresses.nbytes + counts.nbytes + (2 * data.nbytes if data is not None else 0)
        if self._bytes > LOG_BYTES:
            self._judge(self._log)
            self.reset()

    def _changes(self, addresses: Numbers, counts: Numbers, size: int, data: Bytes) -> Bytes:
        look = changes_of
        if self.machine.work.pays(32 * data.size):
            from asmgen.emulator.races import globalraces_kernels

            look = globalraces_kernels.changes_of
        return look(self.machine.memory.u8, addresses - PAGE, counts * size, data)

    def release(self, workgroups: Numbers) -> None:
        """The barrier interval of these workgroups ends, or they do: judge what they did. What they have not waited for lives on."""
        if not self._log:
            return
        machine, done = self.machine, self.counters.done
        closing = np.zeros(machine.workgroups, bool)
        closing[workgroups] = True
        judged, living = [], []
        everyone = closing.all()
        for row in self._log:
            stays = row.tickets > done[row.queue, row.select]
            if everyone:
                judged.append(row)
            else:
                mine = closing[machine.workgroup[row.select]]
                if not mine.any():
                    living.append(row)
                    continue
                judged.append(row if mine.all() else row.part(mine))
                stays |= ~mine
            if stays.any():
                living.append(row.part(stays))
        self._log = living
        self._bytes = sum(row.addresses.nbytes + row.counts.nbytes for row in living)
        self._judge(judged)

    def _judge(self, rows: list[_Row]) -> None:
        rows = [row for row in rows if row.buffer in self._written or -1 in self._written or row.buffer == -1 and self._written]
        kinds = {row.kind for row in rows}
        if WRITE not in kinds and not kinds >= {READ, ATOMIC}:
            return
        if self._apart(rows):
            return
        homes = self.machine.workgroup
        hulls = Spans.join([row.hulls() for row in rows])
        if not len(hulls.low):
            return
        meeting = conflicts(hulls, homes)
        if not len(meeting):
            return
        close = np.zeros(self.machine.workgroups, bool)
        close[meeting >> _SHIFT] = True
        parts = [row.part(chosen) for row in rows if (chosen := close[homes[row.waves]]).any()]
        spans = Spans.join([row.lanes() for row in self._without_guesses(parts)])
        if not len(spans.low):
            return
        points = conflicts(spans, homes)
        if len(points):
            alike = self._agreed(points, spans, parts)
            if alike.any() and not self._told:
                self._told = True
                self._report(spans, homes, int(points[alike][0]), True)
            wrong = points[~alike]
            for point in wrong[::-(-len(wrong) // _WITNESSES) or 1].tolist():  # all over: there may be several pairs
                self._report(spans, homes, point)
            if self.raced is not None and not alike.all():
                self._note_raced(self.raced, spans, parts)

    def _apart(self, rows: list[_Row]) -> bool:
        """Whether a quick look shows that no wave touches bytes that another one writes or changes. False where it shows nothing."""
        if not self.machine.work.pays(32 * sum(row.counts.size for row in rows)):
            return False
        bits = 0
        low, high = _FAR, np.int64(0)
        for row in rows:
            active = row.counts > 0
            if active.any():
                at = row.addresses[active]
                bits |= int(np.bitwise_or.reduce(at)) | row.size
                low, high = min(low, at.min()), max(high, (at + row.counts[active] * row.size).max())
        shift = (bits & -bits).bit_length() - 1
        if high <= low or (int(high - low) >> shift) > _OWNERS:
            return bool(high <= low)
        from asmgen.emulator.races import globalraces_kernels

        owners = np.zeros(int(high - low) >> shift, np.int32)
        return all(globalraces_kernels.take(owners, row.addresses, row.counts, row.size, shift, int(low), row.waves, row.kind not in _READS)
                   for row in sorted(rows, key=lambda row: row.kind in _READS))

    def _note_raced(self, raced: RacedBytes, spans: Spans, rows: list[_Row]) -> None:
        home = self.machine.workgroup[spans.waves] << _SHIFT
        bounds = np.unique(np.concatenate([home + spans.low, home + spans.high]))
        at = np.flatnonzero(_in_conflict(bounds, spans, self.machine.workgroup))  # never the last: there everything has ended
        at = at[~self._agreed(bounds[at], spans, rows)]
        raced.add(bounds[at] & (1 << _SHIFT) - 1, bounds[at + 1] & (1 << _SHIFT) - 1)

    def _without_guesses(self, rows: list[_Row]) -> list[_Row]:
        """The rows, with loads as atomic ones where their wave compares and swaps all of what it loaded later on."""
        swapped: list[Numbers] = []
        found = []
        for row in reversed(rows):
            if row.position in self._compares:
                swapped.append(row.keys()[row.counts > 0])
            elif row.kind == READ and swapped:
                guessed = (np.isin(row.keys(), np.concatenate(swapped)) | (row.counts == 0)).all(axis=1)
                found.append(replace(row.part(guessed), kind=ATOMIC_READ))
                row = row.part(~guessed)
            found.append(row)
        return found[::-1]

    def _agreed(self, points: Numbers, spans: Spans, rows: list[_Row]) -> NDArray[np.bool_]:
        """At which points waves store the same values, up to the next point at which anything begins or ends: what stood there already
        where somebody reads it."""
        homes = self.machine.workgroup
        home = homes[spans.waves] << _SHIFT
        low, high = home + spans.low, home + spans.high
        bounds = np.unique(np.concatenate([low, high]))
        ends = bounds[np.searchsorted(bounds, points, "right")]
        atomics, reads = spans.kinds == ATOMIC, np.isin(spans.kinds, _READS)
        storing = _covered(points, low[atomics], high[atomics]) == 0
        starts, ends = points[storing], ends[storing]
        result: NDArray[np.bool_] = storing.copy()
        if storing.any():
            writers = [row for row in rows if row.kind == WRITE and row.counts.any()]
            unread = _covered(starts, low[reads], high[reads]) == 0
            result[storing] = agreed([row.bytes_within(homes, row.data, starts, ends) for row in writers], starts) \
                & (unread | untouched([row.bytes_within(homes, row.changes, starts, ends) for row in writers], starts))
        return result

    def _report(self, spans: Spans, homes: Numbers, point: int, harmless: bool = False) -> None:
        home, address = point >> _SHIFT, point & (1 << _SHIFT) - 1
        at = np.flatnonzero((homes[spans.waves] == home) & (spans.low <= address) & (address < spans.high))
        kinds, waves = spans.kinds[at], spans.waves[at]
        pairs = ((first, second) for second in range(len(at)) for first in range(second)
                 if waves[first] != waves[second] and _collide(kinds[first], kinds[second]))
        first, second = next(pairs)
        instructions = self.program.instructions
        verbs = ("reads", "writes", "changes", "reads")
        other = int(self.machine.wave_in_group[waves[first]])
        message = f"{verbs[kinds[second]]} byte {address:#x} that wave {other} {verbs[kinds[first]]} in the same barrier interval"
        if harmless:
            same = "which leaves it as it was" if kinds[first] in _READS or kinds[second] in _READS else "both with the same value"
            message += f", {same}, so nothing is wrong yet; more of this kind is not reported"
        self.findings.add(Finding(CHECK, "warning" if harmless else "error", message, instructions[int(spans.positions[at[first]])],
                                  instructions[int(spans.positions[at[second]])], int(waves[second]), home))


def _collide(first: Any, second: Any) -> bool:
    return WRITE in (first, second) or {int(first), int(second)} == {READ, ATOMIC}


def _kind(instruction: Instruction) -> int:
    row = instruction.opcode.memory
    assert row is not None
    scoped = bool(instruction.modifiers.get("sc0") or instruction.modifiers.get("sc1"))
    if row.kind == "load":
        return ATOMIC_READ if scoped else READ
    return WRITE if row.kind == "store" and not scoped else ATOMIC


def data_of(instruction: Instruction, machine: Machine) -> Callable[[Group], Bytes] | None:
    """What a plain store is about to write, [waves, lanes, bytes]; None for what is none, or converts its data."""
    row = instruction.opcode.memory
    if row is None or row.kind != "store" or row.space not in ("buffer", "global", "flat") or "format" in instruction.opcode.flags:
        return None
    named = {spec.name: operand for spec, operand in zip(instruction.form.operands, instruction.operands, strict=True)}
    data = named.get("vdata")
    if not isinstance(data, Reg):
        return None
    slot, size, shift = machine.slot(data), row.bytes, np.uint32(16 if "hi" in instruction.opcode.flags else 0)
    return lambda group: bytes_of(machine.vector[slot:slot + max(1, size // 4), group.select] >> shift, size)


def _facts(program: Program) -> tuple[dict[int, tuple[int, int, int | None]], frozenset[int]]:
    """(position, kind, queue) of each access to memory by the instruction's id; the positions of those that compare and swap."""
    facts = {id(instruction): (position, _kind(instruction), queue_of(instruction))
             for position, instruction in enumerate(program.instructions) if instruction.opcode.memory is not None}
    return facts, frozenset(position for position, _, _ in facts.values() if "compare" in program.instructions[position].opcode.flags)


def stores(program: Program) -> bool:
    """Whether a program writes device memory at all."""
    return kept(program, "_stores", (), lambda: any(
        (row := instruction.opcode.memory) is not None and row.space in ("buffer", "global", "flat") and row.kind != "load"
        for instruction in program.instructions))
