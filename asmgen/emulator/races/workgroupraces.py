"""Races in device memory between workgroups: plain accesses to the same bytes, one of them a write that changes them, and no order.

Workgroups of a grid run in any order. Two are ordered where the first released after its access (an atomic, a store with scope bits,
buffer_wbl2, s_dcache_wb) and the second acquired later, before its own (an atomic that returns, a load with scope bits, buffer_inv,
s_dcache_inv, a scalar load with glc): any of them will do, so that tickets, semaphores and grid barriers of all sorts are believed, and
some races after them are not seen. A load, also a scalar one, that a short loop repeats at one address waits for somebody: it acquires
too, and whose store it finds has released.
Atomics and accesses with scope bits are no part of a race. Stores of workgroups that all leave the same in the end are none either
(workgroupdisputes): workgroups that overlap at an edge write the same there. Where the waves of one workgroup race already, what the
workgroup leaves means nothing: these bytes and pairs of instructions are left to that finding. Some launches rely on an order that
nothing here shows (workgroups in order of dispatch): they allow races.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.arrival.boundstep import Action, Step
from asmgen.emulator.arrival.findings import Finding
from asmgen.emulator.machine.devicememory import Interval, Memory
from asmgen.emulator.machine.kept import kept
from asmgen.emulator.machine.polling import polling
from asmgen.emulator.machine.state import Group, Machine
from asmgen.emulator.races.globalraces import data_of
from asmgen.emulator.races.racedbytes import RacedBytes
from asmgen.emulator.races.workgroupdisputes import Disputes, Left
from asmgen.emulator.races.workgrouptraces import (
    DISPUTED,
    DISPUTED_READ,
    NEVER,
    NUMBERS,
    STORED,
    TAG_SHIFT,
    WRITTEN,
    Known,
    MemoryTouch,
    Numbers,
    Words,
    trace,
)
from asmgen.program.program import Instruction, Program

CHECK = "workgroup-race"
_RELEASES = frozenset({"buffer_wbl2", "s_dcache_wb", "s_dcache_wb_vol"})
_ACQUIRES = frozenset({"buffer_inv", "buffer_invl2", "s_dcache_inv", "s_dcache_inv_vol"})
_MOST_BYTES = 1 << 30
"""Of the two words a cell for one buffer; larger buffers are not watched."""


_PUT_OFF_BYTES = 1 << 26
"""Bytes of the addresses of loads that are put off."""


class Traces:
    """What a launch of `workgroups` has done to device memory; its residents share it.

    Loads of a buffer that nobody has written to meet nothing: they are put off until somebody does, which mostly is never.
    Programs with more than 4,095 plain accesses are not watched, nor is a launch any more whose workgroups have used up the tags.
    """

    def __init__(self, program: Program, workgroups: int) -> None:
        self.program = program
        self.polls, plain = kept(program, "_plain_accesses", (), lambda: _accesses(program))
        self.positions = plain
        self.numbers = {id(program.instructions[position]): number for number, position in enumerate(plain)}
        self.shift = min((min(row.bytes, 4).bit_length() - 1 for position in plain
                          if (row := program.instructions[position].opcode.memory) is not None and row.bytes), default=2)
        self.on = len(plain) < NUMBERS
        self.time = 0
        self.tags = np.zeros(workgroups, np.int64)  # of each workgroup, 0 where it needs a new one
        self.acquired = np.full(workgroups, -1, np.int64)
        pairs = (len(plain) + 1,) * 2
        self.known = Known(np.full(1024, -1, np.int64), np.full(1024, NEVER), np.zeros(pairs, np.int32), np.zeros(pairs, np.int32))
        self.raced, self.disputes = RacedBytes(), Disputes()
        self._made = 1  # tags; 0 is nobody's
        self.written: set[int] = set()  # starts of the buffers that somebody has written to
        self._loads: dict[int, list[MemoryTouch]] = {}  # those put off, by the start of the buffer
        self._put_off = 0  # bytes of theirs
        self._cells: dict[int, tuple[Words, Words]] = {}
        self._names: dict[int, str] = {}
        self._found: list[tuple[int, Finding, tuple[int, int]]] = []  # by byte address; the numbers of the pair

    def cells(self, interval: Interval) -> tuple[Words, Words] | None:
        """Writers and readers of a buffer's bytes, None where they are too many."""
        start = interval.start
        count = (interval.end - start >> self.shift) + 1
        if start not in self._cells:
            if 8 * count > _MOST_BYTES:
                return None
            self._names[start] = interval.name
            self._cells[start] = np.zeros(count, np.uint32), np.zeros(count, np.uint32)
        return self._cells[start]

    def put_off(self, touch: MemoryTouch) -> bool:
        """Whether a load need not be looked at now: nobody has written to its buffer."""
        size = touch.addresses.nbytes + touch.counts.nbytes
        if touch.written or touch.data is not None or self._put_off + size > _PUT_OFF_BYTES:
            return False
        self._loads.setdefault(touch.start, []).append(touch)
        self._put_off += size
        return True

    def catch_up(self, start: int) -> list[MemoryTouch]:
        """The loads of a buffer that were put off, in order: they come before what is done to its cells now."""
        loads = self._loads.pop(start, [])
        self._put_off -= sum(touch.addresses.nbytes + touch.counts.nbytes for touch in loads)
        return [replace(touch, shift=self.shift) for touch in loads]

    def refine(self, shift: int) -> None:
        """Cells of 1 << shift bytes from now on."""
        times = 1 << self.shift - shift
        self.disputes.refine(self.shift, shift)
        self._cells = {start: (np.repeat(writers, times), np.repeat(readers, times)) for start, (writers, readers) in self._cells.items()}
        self.shift = shift

    def tags_of(self, homes: Numbers) -> Numbers:
        """The tag of each wave's workgroup."""
        found = self.tags[homes]
        if found.all():
            return found
        fresh = np.unique(homes[found == 0])
        if self._made + len(fresh) >= DISPUTED:
            self.on = False
            return found
        while self._made + len(fresh) > len(self.known.homes):
            known = self.known
            self.known = Known(np.concatenate([known.homes, np.full_like(known.homes, -1)]),
                               np.concatenate([known.released, np.full_like(known.released, NEVER)]), known.told, known.disputes)
        self.tags[fresh] = np.arange(self._made, self._made + len(fresh))
        self.known.homes[self.tags[fresh]] = fresh
        self._made += len(fresh)
        return self.tags[homes]

    def release(self, tags: Numbers) -> None:
        """What was done under these tags is known to all from now on."""
        known = self.known
        tags = tags[known.released[tags] == NEVER]
        if len(tags):
            self.time += 1
            known.released[tags] = self.time
            homes = known.homes[tags]
            self.tags[homes[self.tags[homes] == tags]] = 0

    def synchronise(self, homes: Numbers, releases: bool, acquires: bool) -> None:
        """Workgroups make what they did known to all, or come to know what others have made known."""
        self.time += 1
        if releases:
            tags = self.tags[homes]
            self.known.released[tags[tags > 0]] = self.time
            self.tags[homes] = 0
        if acquires:
            self.acquired[homes] = self.time

    def note(self, address: int, tag: int, number: int, now: Left, written: bool) -> None:
        """The access `now` races with that of this tag and number, which wrote, or read."""
        first, second = (self.program.instructions[self.positions[at]] for at in (number, now.number))
        row = second.opcode.memory
        verb = "reads" if row is not None and row.kind == "load" else "writes another value to"
        who = "others" if tag >= DISPUTED else f"workgroup {int(self.known.homes[tag])}"
        buffer = self._names[max(start for start in self._names if start <= address)]
        message = f"{verb} byte {address:#x} ({buffer}), which {who} {'wrote' if written else 'read'}; workgroups run in " \
                  "any order, and no atomic, flag or cache write-back between says which comes first"
        self._found.append((address, Finding(CHECK, "error", message, first, second, now.wave, now.home), (number, now.number)))

    def note_once(self, address: int, other: Left, now: Left, written: bool) -> None:
        """`note` for a pair that has not been told yet."""
        if self.known.count(other.number, now.number) == 1:
            self.note(address, other.tag, other.number, now, written)

    def findings(self, memory: Memory, ended: bool) -> list[Finding]:
        """All races of the launch; those that show in what workgroups leave after only where it has `ended`."""
        if ended:
            for address, other, last in self.disputes.open(self._cells, memory.u8, self.shift):
                if not self.raced.meets(address, address + (1 << self.shift)):
                    self.note_once(address, other, last, True)
        return [replace(finding, count=int(self.known.told[pair])) for address, finding, pair in self._found
                if not self.raced.meets(address, address + (1 << self.shift))]


class WorkgroupRaces:
    """Tells the launch's traces what the waves of one resident do."""

    def __init__(self, machine: Machine, program: Program, traces: Traces) -> None:
        self.machine = machine
        self.program = program
        self.traces = traces
        self._orders = kept(program, "_orders", (), lambda: {
            id(instruction): (False, True) if id(instruction) in traces.polls else _orders(instruction)
            for instruction in program.instructions})
        self._scalar = kept(program, "_scalar_acquisitions", (), lambda: _scalar_acquisitions(program))
        plain = (program.instructions[position] for position in traces.positions)
        self._data = {id(instruction): source for instruction in plain if (source := data_of(instruction, machine)) is not None}

    def __call__(self, step: Step) -> Action | None:
        """What an instruction that orders workgroups without touching memory must do before it runs."""
        releases, acquires = self._orders[id(self.program.instructions[step.position])]
        if step.instruction.opcode.memory is not None and step.instruction.name not in _RELEASES | _ACQUIRES or not releases | acquires:
            return None
        return lambda group: self.traces.synchronise(self._homes(group), releases, acquires)

    def note(self, group: Group, instruction: Instruction, memory_name: str, addresses: Numbers, counts: Numbers, size: int, low: int,
             high: int) -> None:
        """A state.MemoryWatcher."""
        traces = self.traces
        if high <= low or not traces.on:
            return
        homes = self._homes(group)
        number = traces.numbers.get(id(instruction))
        if number is None:
            releases, acquires = self._orders[id(instruction)]
            if acquires:
                self._find(addresses[counts > 0])
            if releases or acquires:
                traces.synchronise(homes, releases, acquires)
            return
        row = instruction.opcode.memory
        assert row is not None
        source = self._data.get(id(instruction))
        if row.kind == "store" and source is None:
            return  # converted on its way: what it leaves in memory is not known here
        self._fit(addresses, counts, size)
        tags, data = traces.tags_of(homes), source(group) if source is not None else None
        for interval in self.machine.memory.intervals:
            if interval.end <= low or interval.start >= high:
                continue
            if not traces.on:
                continue
            here = counts
            if low < interval.start or high > interval.end:
                here = counts * ((addresses >= interval.start) & (addresses < interval.end))
            if data is not None:
                traces.written.add(interval.start)
            touch = MemoryTouch(addresses, here, size, interval.start, traces.shift, tags, homes, traces.acquired[homes], number, data,
                          interval.start in traces.written)
            if traces.put_off(touch) or (cells := traces.cells(interval)) is None:
                continue
            for earlier in traces.catch_up(interval.start):
                self._trace(cells, earlier)  # which meets nothing, as when it came
            hits = self._trace(cells, touch)
            if len(hits):
                self._hear(group, touch, cells[0], hits)

    def note_scalar(self, group: Group, instruction: Instruction, addresses: Numbers) -> None:
        """A state.ScalarWatcher."""
        if self.traces.on and id(instruction) in self._scalar:
            self._find(addresses)
            self.traces.synchronise(self._homes(group), False, True)

    def _trace(self, cells: tuple[Words, Words], touch: MemoryTouch) -> Numbers:
        function: Any = trace
        if self.machine.work.pays(32 * touch.addresses.size):
            from asmgen.emulator.races import workgrouptraces_kernels

            function = workgrouptraces_kernels.trace
        hits: Numbers = function(*cells, self.machine.memory.u8, touch, self.traces.known)
        return hits

    def _hear(self, group: Group, touch: MemoryTouch, writers: Words, hits: Numbers) -> None:
        """What an access met."""
        traces = self.traces
        for address, index, word, kind, old, new in hits.tolist():
            home, since = int(touch.homes[index]), int(touch.acquired[index])
            cell = touch.start, address - touch.start >> touch.shift
            now = Left(home, int(touch.tags[index]), touch.number, new, int(group.waves[index]))
            if kind == STORED:
                traces.disputes.store(writers, cell, address, word, old, now, since, traces.known)
            elif kind != DISPUTED_READ:
                traces.note(address, word >> TAG_SHIFT, word % NUMBERS, now, kind == WRITTEN)
            elif (other := traces.disputes.load(cell, home, since, traces.known)) is not None:
                traces.note_once(address, other, now, True)

    def _find(self, addresses: Numbers) -> None:
        """An acquiring access finds what stands at `addresses`: who wrote that has released it, be it with a plain store."""
        traces = self.traces
        for interval in self.machine.memory.intervals:
            here = addresses[(addresses >= interval.start) & (addresses < interval.end)]
            cells = traces.cells(interval) if len(here) else None
            if cells is not None:
                at = here - interval.start >> traces.shift
                tags = (cells[0][at] >> np.uint32(TAG_SHIFT)).astype(np.int64)
                disputed = [tag for cell in at[tags == DISPUTED].tolist() for tag in traces.disputes.tags((interval.start, cell))]
                traces.release(np.unique(np.append(tags[(tags > 0) & (tags < DISPUTED)], np.array(disputed, np.int64))))

    def _homes(self, group: Group) -> Numbers:
        return np.asarray(self.machine.workgroup[group.waves] + self.machine.first_workgroup, np.int64)

    def _fit(self, addresses: Numbers, counts: Numbers, size: int) -> None:
        """Smaller cells where an access does not fill whole ones."""
        traces = self.traces
        if (int(np.bitwise_or.reduce(addresses, axis=None)) | size) & (1 << traces.shift) - 1:
            low: NDArray[np.int64] | int = np.bitwise_or.reduce(np.where(counts > 0, addresses, 0), axis=None)
            bits = int(low) | size
            shift = (bits & -bits).bit_length() - 1
            if shift < traces.shift:
                traces.refine(shift)


def _accesses(program: Program) -> tuple[frozenset[int], list[int]]:
    """`polling`, and the positions of the accesses that may be part of a race."""
    polls = polling(program, _plain)
    return polls, [position for position, instruction in enumerate(program.instructions)
                   if _plain(instruction) and id(instruction) not in polls]


def _scalar_acquisitions(program: Program) -> frozenset[int]:
    """The scalar loads (by id) that wait for what others store, or say that they do not take it from the cache."""
    loads = {id(instruction): instruction for instruction in program.instructions if _loads_scalars(instruction)}
    return polling(program, _loads_scalars) | {number for number, load in loads.items() if load.modifiers.get("glc")}


def _loads_scalars(instruction: Instruction) -> bool:
    row = instruction.opcode.memory
    return row is not None and row.space == "scalar" and row.kind == "load"


def _plain(instruction: Instruction) -> bool:
    """Whether an instruction may be part of a race: no atomic, no scope bits, not private memory."""
    row = instruction.opcode.memory
    return row is not None and row.space in ("buffer", "global", "flat") and row.kind in ("load", "store") and not _scoped(instruction)


def _scoped(instruction: Instruction) -> bool:
    return bool(instruction.modifiers.get("sc0") or instruction.modifiers.get("sc1"))


def _orders(instruction: Instruction) -> tuple[bool, bool]:
    """Whether an instruction releases, and whether it acquires."""
    if instruction.name in _RELEASES | _ACQUIRES:
        return instruction.name in _RELEASES, instruction.name in _ACQUIRES
    row = instruction.opcode.memory
    if row is None or row.space not in ("buffer", "global", "flat"):
        return False, False
    if row.kind == "atomic":
        return True, bool(instruction.modifiers.get("sc0"))
    return _scoped(instruction) and row.kind == "store", _scoped(instruction) and row.kind == "load"
