"""Races in LDS between waves, a wave's own LDS-DMA and LDS operations on the same bytes, and reads of bytes that nobody wrote.

An access lives from its issue until its own wave has waited for it; two of different waves, one a write, race if their lives share a
barrier interval, a read that lives on over a barrier with the writes after it too. Atomics do not race with each other: their order is
free, their effect is whole, and some reads do not race with them (`ldsguesses`). A wave's own LDS operations are in order, and so are its
LDS-DMA; the ones and the others are in none. Writes that leave the same values (`ldsvalues`), and
writes that change nothing while others read, are a warning, of which a launch needs one only: compilers make them by the hundred.

Workgroups that do the same, access for access (`ldscells.repeating`), are judged as one until they part or there is something to report.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.arrival.alignment import Alignment
from asmgen.emulator.arrival.arrival import LDS, MOST_OUTSTANDING, SMEM, VM, Counters
from asmgen.emulator.arrival.findings import Finding, Findings
from asmgen.emulator.arrival.ldscells import (
    AGAINST_CARRIED,
    AGAINST_READ,
    AGAINST_WRITE,
    EARLY,
    INACTIVE,
    INTERVALS,
    NOBODY,
    TICKET_SHIFT,
    UNCHANGED,
    WAVE_SHIFT,
    Addresses,
    Cells,
    LdsAccess,
    Toucher,
    carry,
    repeating,
    same_locations,
    touch,
)
from asmgen.emulator.arrival.ldsguesses import guesses
from asmgen.emulator.arrival.ldsvalues import Contents, Registers, bytes_of, changes, first_differing
from asmgen.emulator.machine.kept import kept
from asmgen.emulator.machine.state import Group, Machine, Selection
from asmgen.isa.opcode import is_lds_dma
from asmgen.isa.records import dataclass
from asmgen.program.program import Instruction, Program

_WIDEST = 16
_NUMBERS = 1 << 16
Locations = Callable[[int], Addresses]
"""Addresses [waves, lanes] of a group. Asked for so many of its first waves, those of one workgroup, it may give these waves' only, where
those of the following workgroups go to the same places of their own LDS; asked for 0, all."""
_NO_LOCATIONS = np.zeros((0, 1), np.int64)
_ANY = 0
"""How many workgroups do the same before any has done something."""


@dataclass(frozen=True)
class _Read:
    """A read that its waves may not have waited for; `at` is the first workgroup's while all do the same. All bytes lie in `low:high`."""

    position: int
    at: Addresses
    size: int
    waves: NDArray[np.int64]
    select: Selection
    tickets: NDArray[np.int32]
    queue: int
    low: int
    high: int
    guess: bool


class LdsArrival:
    """Follows what waves do to LDS. `undefined` is told of bytes that are read and nobody wrote: (group, position, addresses).

    `contents` tells what LDS holds before an access takes effect.
    """

    def __init__(self, machine: Machine, counters: Counters, program: Program, findings: Findings, contents: Contents,
                 alignment: Alignment | None = None, undefined: Callable[[Group, int, Addresses], None] | None = None) -> None:
        self.machine = machine
        self.counters = counters
        self.program = program
        self.findings = findings
        self.contents = contents
        self.alignment = alignment
        self.undefined = undefined
        self.cells = Cells.make(machine.workgroups * machine.lds_stride,
                                kept(program, "_lds_granule", (), lambda: granule_of(program)))
        self.interval = np.zeros(machine.workgroups, np.int64)
        instructions = program.instructions
        self._touching = kept(program, "_touching_lds", (), lambda: [
            position for position, instruction in enumerate(instructions) if reaches_lds(instruction)])
        self._number = {position: number % _NUMBERS for number, position in enumerate(self._touching)}
        self._position = {id(instructions[position]): position for position in self._touching}
        kinds = [row.kind for position in self._touching if (row := instructions[position].opcode.memory) is not None]
        self._atomic = np.array([kind == "atomic" for kind in kinds], bool)
        self._meets = any(instruction.name == "s_barrier" for instruction in instructions)
        self._fills = any(is_lds_dma(instructions[position].opcode, instructions[position].form) for position in self._touching)
        self._guesses = kept(program, "_lds_guesses", (), lambda: guesses(program))
        self._told = self._told_unchanged = False
        self.reset()

    def reset(self) -> None:
        """Other workgroups take these workgroups' places: nobody has touched LDS."""
        self.cells.clear()
        self.interval.fill(0)
        self._reads: list[_Read] = []
        self._carrying = False
        self._alike = _ANY  # workgroups that have done the same so far: only the first one's cells are kept; 1: each has its own

    def access(self, group: Group, position: int, locations: Addresses | Locations, size: int, write: bool, queue: int = LDS,
               data: Callable[[], Registers] | None = None) -> None:
        """An instruction touches `size` bytes at each of `places` [waves, lanes], byte addresses in the machine's LDS or INACTIVE.

        `data` gives the registers that a plain write is about to write from, [words, waves, lanes].
        """
        machine, counters = self.machine, self.counters
        who = self._toucher(group, queue)
        rows = self._repeating(who) if self._alike != 1 else 0
        at = locations(rows) if callable(locations) else locations
        bits = int(np.bitwise_or.reduce(at, axis=None))
        if self.alignment is not None and bits & _WIDEST - 1:
            self.alignment.in_lds(group, position, at, size)
        low_bits = bits & self.cells.granule - 1
        if low_bits:  # it begins within a cell, whose other bytes it does not touch
            self.cells = self.cells.refined(low_bits & -low_bits)
        function, same = touch, same_locations
        if machine.work.pays(32 * at.size):
            from asmgen.emulator.arrival import races_kernels

            function, same = races_kernels.touch_cells, races_kernels.locations_repeat
        if rows and len(at) == group.size and same(at, rows, machine.lds_stride):
            at = at[:rows]
        elif self._alike != 1 and len(at) == group.size:
            self._part()
        self._alike = group.size // len(at)
        fresh = None
        if write and self.undefined is not None and self._atomic[self._number[position]]:
            at = self._part(at)
            fresh = self._unwritten(at, size)  # an atomic writes what it reads, so one must look before
        written = data() if write and data is not None and machine.waves > machine.workgroups else None
        access = LdsAccess(size, queue, write, self._number[position], self._atomic, position in self._guesses,
                           self._changed(at, written, size))
        report, unwritten, hits = function(self.cells, at, access, who.first(len(at)), self._carrying, counters.settled, counters.done)
        found = report[:, 0].max() != NOBODY
        if found and self._alike > 1:
            unwritten, hits = np.tile(unwritten, self._alike), self._for_each(hits, len(at))
            at = self._part(at)
        if len(hits) and written is not None:
            differing = first_differing(at, bytes_of(written, size), hits, self.cells.granule, self.contents)
            if differing is None:
                self._agreed(group, position, report[AGAINST_WRITE])
            report[AGAINST_WRITE] = NOBODY if differing is None else differing
        if write and queue == VM and self._reads:
            self._overtaking(group, position, at, size)
        if not write and (self._fills or self._meets and not access.guess):
            self._reads.append(_Read(position, at, size, group.waves, group.select, who.tickets, queue, *_range(at, size), access.guess))
        if found:
            self._judge(group, position, report, write)
            if self.undefined is not None and unwritten.any():
                self.undefined(group, position, self._unwritten(at[unwritten], size) if fresh is None else fresh)

    def _overtaking(self, group: Group, position: int, at: Addresses, size: int) -> None:
        """Waves load into LDS: bytes that an LDS read of the same wave, which has not waited for it, may yet read are a finding."""
        low, high = _range(at, size)
        for read in self._reads:
            if read.low >= high or low >= read.high:
                continue
            late = read.tickets > self.counters.done[read.queue, read.select]
            rows = {int(wave): row for row, wave in enumerate(read.waves[:len(read.at)].tolist()) if late[row]}
            for row, wave in enumerate(group.waves[:len(at)].tolist()):
                if wave in rows:
                    common = _common_byte(at[row], size, read.at[rows[wave]], read.size)
                    if common is not None:
                        self._report("lds-dma-before-wait", "error", "loads into LDS that a read of the same wave may not have read yet",
                                     read.position, position, common // self.cells.granule, wave)
                        break

    def _changed(self, at: Addresses, written: Registers | None, size: int) -> NDArray[np.bool_]:
        """Which lanes give their bytes another value; all where what they write is not known."""
        machine = self.machine
        if written is None:
            return np.ones(at.shape, bool)
        look = changes
        if machine.work.pays(32 * written.size):
            from asmgen.emulator.arrival import races_kernels

            look = races_kernels.lanes_change
        return look(machine.lds, at, written, size, machine.lds_stride)

    def _toucher(self, group: Group, queue: int) -> Toucher:
        machine, chosen = self.machine, group.select
        return Toucher(group.waves, machine.wave_in_group[chosen], self.counters.issued[queue, chosen].copy(),
                       self.interval[machine.workgroup[chosen]])

    def _repeating(self, who: Toucher) -> int:
        """How many waves are the first workgroup's, where those of all that have done the same so far do the same again; else 0."""
        look: Callable[..., int] = repeating
        if self.machine.work.pays(32 * len(who.waves)):
            from asmgen.emulator.arrival import races_kernels

            look = races_kernels.repeats
        rows = look(who, self.machine.waves // self.machine.workgroups, self.counters.settled, self.counters.done)
        return rows if rows and self._alike in (_ANY, len(who.waves) // rows) else 0

    def _part(self, at: Addresses = _NO_LOCATIONS) -> Addresses:
        """Workgroups do different things from here on, or there is something to report. Returns `at` of the first one, for all of them."""
        workgroups, self._alike = max(1, self._alike), 1
        if workgroups == 1:
            return at
        self.cells.repeat(self.machine.lds_stride, workgroups)
        self._reads = [replace(read, at=self._everywhere(read.at, workgroups)) for read in self._reads]
        return self._everywhere(at, workgroups)

    def _everywhere(self, at: Addresses, workgroups: int) -> Addresses:
        homes = np.arange(workgroups)[:, None, None] * self.machine.lds_stride
        return np.asarray(np.where(at >= 0, at + homes, INACTIVE).reshape(-1, at.shape[1]), np.int64)

    def _for_each(self, hits: NDArray[np.int64], rows: int) -> NDArray[np.int64]:
        """Hits of the first workgroup's `rows` waves, for all that do the same."""
        cells = self.machine.lds_stride // self.cells.granule
        steps = np.arange(self._alike)[:, None, None] * np.array([cells, rows, 0, 0])
        return np.asarray((hits + steps).reshape(-1, 4), np.int64)

    def flat(self, group: Group, instruction: Instruction, location: str, addresses: Addresses, counts: Addresses, size: int, low: int,
             high: int) -> None:
        """A state.MemoryWatcher: flat instructions that reach LDS."""
        row = instruction.opcode.memory
        if location == "LDS" and row is not None:
            most = max(1, int(counts.max(initial=0)))
            at = np.where(counts == most, addresses, INACTIVE)
            self.access(group, self._position[id(instruction)], at, size * most, row.kind != "load", SMEM)

    def waited(self) -> None:
        """Waves have waited: forget reads that have all arrived."""
        if self._reads:
            done = self.counters.done
            self._reads = [read for read in self._reads if np.count_nonzero(read.tickets > done[read.queue, read.select])]

    def release(self, workgroups: NDArray[np.int64]) -> None:
        """A new barrier interval begins for these workgroups: reads that their waves have not waited for live on."""
        self.interval[workgroups] += 1
        if (self.interval[workgroups] % INTERVALS == 0).any():
            self.cells.forget_readers()
        machine, closing = self.machine, np.zeros(self.machine.workgroups, bool)
        closing[workgroups] = True
        for number in range(len(self._reads)):
            read = self._reads[number]
            homes = machine.workgroup[read.select]
            alive = (read.tickets > self.counters.done[read.queue, read.select]) & closing[homes]
            if read.guess or not alive.any():
                continue
            if self._alike > 1:
                together = alive.reshape(self._alike, -1)
                if (together == together[0]).all() and (self.interval[:self._alike] == self.interval[0]).all():
                    alive[len(read.at):] = False
                else:
                    self._part()
                    read = self._reads[number]
            waves = read.waves[alive]
            who = Toucher(waves, machine.wave_in_group[waves], read.tickets[alive], self.interval[homes[alive]])
            function = carry
            if machine.work.pays(32 * read.at.size):
                from asmgen.emulator.arrival import races_kernels

                function = races_kernels.carry_cells
            function(self.cells, read.at[alive[:len(read.at)]], read.size, who)
            self._carrying = True
        self.waited()

    def _agreed(self, group: Group, position: int, fault: NDArray[np.int64]) -> None:
        """Tell of the first writes that leave the same value."""
        if not self._told and len(self._touching) <= _NUMBERS:
            self._told = True
            cell, row, number, word = fault.tolist()
            self._report("lds-race", "warning", f"overwrites LDS {self._written(group, row, word)}, both with the same value, so nothing "
                         f"is wrong yet; more of this kind is not reported", self._touching[number], position, cell, int(group.waves[row]))

    def _written(self, group: Group, row: int, word: int) -> str:
        """How another wave's write, as `Cells.writes` has it, came to race: with a barrier in between, only as its counter let it."""
        wave = int(group.waves[row])
        writer = wave - int(self.machine.wave_in_group[wave]) + (word >> WAVE_SHIFT & 15)
        queue, ticket = word & 3, word >> TICKET_SHIFT
        newer = int(self.counters.crossed[queue, writer]) - ticket
        if newer < 0:
            return "that another wave writes in the same barrier interval"
        if queue == SMEM:
            missing = "lgkmcnt(0)"  # a flat one
        else:
            missing = f"{'vmcnt' if queue == VM else 'lgkmcnt'}({min(newer, MOST_OUTSTANDING[queue] - 1)})"
        return f"that another wave's write may not have reached, in flight over the barrier: that wave did not wait for it before " \
               f"(s_waitcnt {missing} would have)"

    def _judge(self, group: Group, position: int, report: NDArray[np.int64], write: bool) -> None:
        for kind, (cell, row, number, word) in enumerate(report.tolist()):
            if cell == NOBODY:
                continue
            severity, check, other = "error", "lds-race", self._touching[number] if len(self._touching) <= _NUMBERS else NOBODY
            if kind == UNCHANGED and self._told_unchanged:
                continue
            if kind == AGAINST_WRITE:
                what = f"{'overwrites' if write else 'reads'} LDS {self._written(group, row, word)}"
            elif kind == EARLY:
                check, what = "lds-dma-before-wait", "touches LDS that the wave's own LDS-DMA has not delivered"
                if word & 3 != VM:
                    what = "loads into LDS that a write of the same wave may not have reached yet"
            elif kind == AGAINST_READ:
                what = "overwrites LDS that another wave reads in the same barrier interval"
            elif kind == AGAINST_CARRIED:
                what = "overwrites LDS that another wave reads, which did not wait for it before the barrier"
            elif kind == UNCHANGED:
                self._told_unchanged, severity = True, "warning"
                met = "overwrites LDS that another wave reads" if write else "reads LDS that another wave writes"
                what = f"{met}, with nothing between; the write leaves it as it was, so nothing is wrong yet; more of this kind is not " \
                       "reported"
            else:
                severity, check, what, other = "warning", "uninitialised-lds-read", "reads LDS that nobody wrote", NOBODY
            self._report(check, severity, what, other, position, cell, int(group.waves[row]))

    def _unwritten(self, at: Addresses, size: int) -> Addresses:
        """Of what lanes read, the bytes that nobody wrote."""
        locations = (at[at >= 0][:, None] + np.arange(size)).ravel()
        result: Addresses = locations[self.cells.writes[locations // self.cells.granule] == 0]
        return result

    def _report(self, check: str, severity: str, message: str, producer: int, consumer: int, cell: int, wave: int) -> None:
        instructions = self.program.instructions
        byte = cell * self.cells.granule % self.machine.lds_stride
        first = instructions[producer] if producer != NOBODY else None
        self.findings.add(Finding(check, severity, f"{message} (byte {byte:#x})", first, instructions[consumer], wave,
                                  int(self.machine.workgroup[wave])))


def _range(at: Addresses, size: int) -> tuple[int, int]:
    """Between which addresses all bytes lie."""
    active = at[at >= 0]
    return (int(active.min()), int(active.max()) + size) if len(active) else (0, 0)


def _common_byte(one: NDArray[np.int64], size: int, other: NDArray[np.int64], its: int) -> int | None:
    """The first byte that lanes of both accesses touch."""
    first, last = _range(one, size)
    low, high = _range(other, its)
    if first >= high or low >= last:
        return None
    begin = min(first, low)
    touched = np.zeros(max(last, high) - begin, np.bool_)
    touched[_all_bytes(one, size) - begin] = True
    found = _all_bytes(other, its) - begin
    found = found[touched[found]]
    return begin + int(found.min()) if len(found) else None


def _all_bytes(at: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    found: NDArray[np.int64] = (at[at >= 0][:, None] + np.arange(size)).ravel()
    return found


def reaches_lds(instruction: Instruction) -> bool:
    """Whether an instruction may touch LDS: flat ones may, and loads into LDS do."""
    row = instruction.opcode.memory
    return row is not None and (row.space in ("lds", "flat") or is_lds_dma(instruction.opcode, instruction.form))


def granule_of(program: Program) -> int:
    """Bytes of a cell: a power of two that divides the size of every access to LDS that the program makes."""
    granule = _WIDEST
    for instruction in program.instructions:
        row = instruction.opcode.memory
        if row is not None and reaches_lds(instruction):
            size = max(4, row.bytes) if is_lds_dma(instruction.opcode, instruction.form) else row.bytes
            size //= 2 if "two" in instruction.opcode.flags else 1
            granule = min(granule, size & -size)
    return granule
