"""The check for values that nobody wrote: a warning where such a register is read, an error where one decides something.

Followed as memcheck does it, lane by lane and bit by bit, through registers, LDS and memory (`bitshadow` says how). It is an error where
an undefined bit reaches an address, a branch or EXEC, or stays in memory that the host reads; to compute with it, to store it and to
drop it is none. A walk over the program first finds which registers may be read undefined at all (`undefinedpaths`); nothing else is
looked at, and nothing is kept while nothing undefined lives.

LDS that nobody wrote is found by `ldsraces`, which reports it here. Private memory counts as defined until something undefined is stored.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.arrival.boundstep import Action, Step
from asmgen.emulator.arrival.findings import Finding, Findings
from asmgen.emulator.machine.state import EXEC, VCC, Group, Machine
from asmgen.emulator.shadow.shadowbind import bind_shadow
from asmgen.emulator.shadow.shadowmemory import Carrier, Mark, device_shadow
from asmgen.emulator.shadow.undefinedpaths import followed
from asmgen.emulator.shadow.undefineduses import Use, bits_of, use_of
from asmgen.isa.registers import NAMED, SCC_BIT, SGPR_BIT, mask_names
from asmgen.program.program import Instruction, Program

READ, USED = "uninitialised-read", "uninitialised-use"
_VCC, _SCC = NAMED["vcc"].mask, NAMED["scc"].mask
_ONES = ~np.uint32(0)


@dataclass(frozen=True)
class Uses:
    """What a program's instructions do to registers. `start`: those that may be read before anybody wrote them; `mask`: all that may
    become undefined."""

    uses: tuple[Use, ...]
    accum_offset: int
    start: int
    mask: int

    @classmethod
    def of(cls, program: Program, accum_offset: int, defined: int, entry: int, full: bool, in_memory: bool) -> Uses:
        """Walk a program whose waves begin at position `entry` with the registers `defined`, all lanes active if `full`.

        `in_memory`: device memory holds undefined bytes already.
        """
        uses = tuple(use_of(instruction, accum_offset) for instruction in program.instructions)
        interesting = followed(program, uses, defined, entry, full)
        rows = [instruction.opcode.memory for instruction in program.instructions]
        mask = interesting
        for use, row in zip(uses, rows, strict=True):
            if row is not None and row.space in ("lds", "flat"):
                mask |= use.writes
        grown = -1
        while grown != mask:
            grown = mask
            for use, row in zip(uses, rows, strict=True):
                stores = row is not None and row.kind != "load" and bool(use.reads & ~use.addresses & mask)
                in_memory = in_memory or stores
                if use.reads & mask or row is not None and in_memory:
                    mask |= use.writes
        return cls(uses, accum_offset, interesting & ~defined, mask)

    @property
    def matter(self) -> bool:
        """Whether any register may ever be undefined."""
        return bool(self.mask)


class UndefinedWatcher:
    """Follows undefined bits. `quiet`: nothing undefined lives, so that no step needs to be looked at."""

    def __init__(self, machine: Machine, program: Program, findings: Findings, uses: Uses) -> None:
        self.machine = machine
        self.program = program
        self.findings = findings
        self.uses = uses
        self._device = device_shadow(machine.memory)
        self._shadow: Machine | None = None
        self._carrier: Carrier | None = None
        self._origin: NDArray[np.int32] = np.zeros((0, 0), np.int32)  # 1 + position of what made a register's undefined bits, by wave
        self._again: dict[int, Action] = {}  # how to pass on what a position loads from LDS
        self._marked: dict[tuple[int, int], int] = {}  # marks by store and origin
        self.live = 0
        self.quiet = True
        self.reset()

    @property
    def unmarked(self) -> bool:
        """Whether no store of undefined bits was told to the memory: that is once a launch."""
        return not self._marked

    def reset(self) -> None:
        """Other waves take these waves' places."""
        if self._shadow is not None:
            self._shadow.reset()
            self._origin.fill(0)
            self._parts()[1].live = self._parts()[1].private = False
        self.live = self.uses.start & self.uses.mask
        if self.live:
            shadow, _ = self._parts()
            for bit in bits_of(self.live):
                if bit < SGPR_BIT:
                    if bit < shadow.registers - 1:
                        shadow.vector[bit] = _ONES
                elif bit == SCC_BIT:
                    shadow.scc[:] = True
                else:
                    shadow.scalar[bit - SGPR_BIT] = _ONES
        if self._device.bits:
            self._parts()[1].live = True
        self.quiet = not self.live and not self._device.bits

    def _parts(self) -> tuple[Machine, Carrier]:
        """The shadow of all registers and memories, made when something undefined appears."""
        if self._shadow is None or self._carrier is None:
            machine = self.machine
            # One register more: the address of an LDS instruction, which is a value.
            shadow = Machine(machine.arch, machine.waves, machine.workgroups, machine.registers + 1, machine.accum_offset,
                             machine.lds_bytes, machine.memory)
            shadow.workgroup, shadow.wave_in_group = machine.workgroup, machine.wave_in_group
            shadow.scratch_bytes, shadow.work = machine.scratch_bytes, machine.work
            self._shadow = shadow
            self._carrier = Carrier(machine, shadow, self._device, self._marks)
            self._origin = np.zeros((SCC_BIT + 1, machine.waves), np.int32)
        return self._shadow, self._carrier

    def __call__(self, step: Step) -> Action | None:
        """What a step must do before it runs; nothing where it can touch nothing undefined."""
        known = self.program.instructions[step.position] is step.instruction
        use = self.uses.uses[step.position] if known else use_of(step.instruction, self.uses.accum_offset)
        touched = (use.reads | use.writes) & self.uses.mask
        memory = step.instruction.opcode.memory is not None
        if not touched and not memory:
            return None
        follow: _Follower | None = None

        def before(group: Group) -> None:
            nonlocal follow
            if self.quiet or not (touched & self.live or memory and self._carrier is not None and self._carrier.live):
                return
            if follow is None:
                follow = _Follower(self, step, use)
            follow.before(group)

        return before

    def taint(self, group: Group, position: int, locations: NDArray[np.int64]) -> None:
        """An instruction reads bytes of LDS that nobody wrote: [n] byte addresses in the machine's LDS."""
        shadow, carrier = self._parts()
        instruction, use = self.program.instructions[position], self.uses.uses[position]
        shadow.lds[locations] = 0xFF
        carrier.live, self.quiet = True, False
        if not use.writes:
            return
        again = self._again.get(position)
        if again is None:
            again = self._again[position] = bind_shadow(instruction, position, carrier, use)
        again(group)
        self.settle(group, position, use, True)

    def settle(self, group: Group, position: int, use: Use, made: bool) -> None:
        """Note which written registers have undefined bits now, and whom to name for them."""
        carrier = self._parts()[1]
        for bit in bits_of(use.writes & self.uses.mask):
            rows = self.undefined(bit, group)
            if rows.any():
                self.live |= 1 << bit
                if made:
                    waves = group.waves[rows if bit >= SGPR_BIT else (rows if group.mask is None else rows & group.mask).any(axis=1)]
                    self._origin[bit, waves] = position + 1
            elif self.live >> bit & 1 and (group.size == self.machine.waves or not self._anywhere(bit)):
                self.live &= ~(1 << bit)
        self.quiet = not self.live and not carrier.live

    def undefined(self, bit: int, group: Group) -> NDArray[np.bool_]:
        """Where a register has undefined bits: [waves, 64] of a vector register, else [waves]."""
        shadow, _ = self._parts()
        if bit < SGPR_BIT:
            return np.asarray(shadow.vector[min(bit, shadow.registers - 1), group.select] != 0)
        if bit == SCC_BIT:
            return np.asarray(shadow.scc[group.select])
        return np.asarray(shadow.scalar[bit - SGPR_BIT, group.select] != 0)

    def _anywhere(self, bit: int) -> bool:
        shadow, _ = self._parts()
        if bit < SGPR_BIT:
            return bool(shadow.vector[min(bit, shadow.registers - 1)].any())
        return bool(shadow.scc.any() if bit == SCC_BIT else shadow.scalar[bit - SGPR_BIT].any())

    def origin(self, bit: int, wave: int) -> Instruction | None:
        """The instruction that made a register's undefined bits; None where nobody ever wrote it."""
        position = int(self._origin[bit, wave]) - 1
        return self.program.instructions[position] if position >= 0 else None

    def never(self, bit: int, group: Group) -> NDArray[np.bool_]:
        """The waves in which no active lane's bit of a register was ever written."""
        shadow, _ = self._parts()
        fresh = self._origin[bit, group.select] == 0
        if bit >= SGPR_BIT:
            blank = self.undefined(bit, group) if bit == SCC_BIT else shadow.scalar[bit - SGPR_BIT, group.select] == _ONES
            return np.asarray(fresh & blank)
        blank = shadow.vector[min(bit, shadow.registers - 1), group.select] == _ONES
        if group.mask is None:
            return np.asarray(fresh & blank.all(axis=1))
        return np.asarray(fresh & (blank | ~group.mask).all(axis=1) & group.mask.any(axis=1))

    def _marks(self, group: Group, instruction: Instruction) -> NDArray[np.int32]:
        """Numbers of marks for the waves of a group that stores undefined bytes."""
        use = use_of(instruction, self.uses.accum_offset)
        bits = list(bits_of(use.reads & ~use.addresses & self.uses.mask))
        numbers = np.zeros(group.size, np.int32)
        for row in range(group.size):
            wave = int(group.waves[row])
            bit = next((bit for bit in bits if self.undefined(bit, group)[row].any()), None)
            origin = self.origin(bit, wave) if bit is not None else None
            key = id(instruction), id(origin)
            if key not in self._marked:
                self._marked[key] = len(self._device.marks)
                self._device.marks.append(Mark(instruction, origin, wave, int(self.machine.workgroup[wave])))
            numbers[row] = self._marked[key]
        return numbers

    def add(self, check: str, severity: str, message: str, producer: Instruction | None, consumer: Instruction, wave: int) -> None:
        """A finding about one wave."""
        self.findings.add(Finding(check, severity, message, producer, consumer, wave, int(self.machine.workgroup[wave])))

    def name(self, bit: int) -> str:
        """A register as assembly names it."""
        if self.uses.accum_offset <= bit < SGPR_BIT:
            return f"v{bit} (a{bit - self.uses.accum_offset})"
        return mask_names(1 << bit)[0]


class _Follower:
    """One step, bound to the shadow."""

    def __init__(self, watcher: UndefinedWatcher, step: Step, use: Use) -> None:
        self.watcher = watcher
        self.position = step.position
        self.consumer = watcher.program.instructions[step.position]
        self.use = use
        self.shadow, carrier = watcher._parts()
        branch = step.instruction.is_branch
        self.act = bind_shadow(step.instruction, step.position, carrier, use) if step.run is not None and not branch else None
        if branch and use.writes:
            self.act = self._return_address
        self.reads = list(bits_of(use.reads & watcher.uses.mask))
        self.writes = list(bits_of(use.writes & watcher.uses.mask))

    def before(self, group: Group) -> None:
        """Judge what the step reads, then pass undefined bits on."""
        watcher = self.watcher
        reading = [bit for bit in self.reads if watcher.live >> bit & 1]
        made = False
        for bit in reading:
            where = watcher.undefined(bit, group)
            if where.ndim == 2 and group.mask is not None and self.use.by_lane:
                where = where & group.mask
            if where.any():
                made = True
                self._judge(bit, np.asarray(where.any(axis=1) if where.ndim == 2 else where), group)
        carrier = watcher._parts()[1]
        loads = self.consumer.opcode.memory is not None
        if self.act is None or not made and not (loads and carrier.live) and self._steady(group):
            return
        self.act(group)
        if self.use.to_exec:
            self._exec(group, reading)
        if made or carrier.live or self.use.writes & watcher.live:
            watcher.settle(group, self.position, self.use, made or loads)

    def _steady(self, group: Group) -> bool:
        """Whether all that is written is defined already in the lanes that are."""
        for bit in self.writes:
            if self.watcher.live >> bit & 1:
                where = self.watcher.undefined(bit, group)
                if where.ndim == 2 and group.mask is not None and self.use.by_lane:
                    where = where & group.mask
                if where.any():
                    return False
        return True

    def _judge(self, bit: int, rows: NDArray[np.bool_], group: Group) -> None:
        """One register that is read with undefined bits in some waves."""
        watcher = self.watcher
        if self.use.by_lane and group.mask is not None:
            rows = rows & group.mask.any(axis=1)
        row = self.consumer.opcode.memory
        # Functions save what their callers may use.
        saves = row is not None and row.space == "scratch" and not self.use.addresses >> bit & 1
        never = watcher.never(bit, group) & rows
        if never.any() and not saves:
            watcher.add(READ, "warning", f"{watcher.name(bit)} is read and was never written", None, self.consumer,
                        int(group.waves[int(np.argmax(never))]))
        if self.use.addresses >> bit & 1:
            self._sink(bit, rows, group, "an address")
        elif self.use.decides >> bit & 1:
            self._sink(bit, rows & self._undecided(group), group, "a branch")

    def _undecided(self, group: Group) -> NDArray[np.bool_]:
        """Of a branch on VCC: where no defined bit says that it is not 0."""
        if self.use.decides != _VCC:
            return np.ones(group.size, bool)
        known = self.watcher.machine.scalar[VCC:VCC + 2, group.select] & ~self.shadow.scalar[VCC:VCC + 2, group.select]
        return np.asarray((known == 0).all(axis=0))

    def _sink(self, bit: int, rows: NDArray[np.bool_], group: Group, what: str) -> None:
        if rows.any():
            wave = int(group.waves[int(np.argmax(rows))])
            self.watcher.add(USED, "error", f"{self.watcher.name(bit)} reaches {what} and holds what nobody wrote",
                             self.watcher.origin(bit, wave), self.consumer, wave)

    def _exec(self, group: Group, reading: list[int]) -> None:
        """EXEC must be defined; once that was said, it is."""
        undefined = (self.shadow.scalar[EXEC:EXEC + 2, group.select] != 0).any(axis=0)
        if undefined.any():
            for bit in reading:
                where = self.watcher.undefined(bit, group)
                rows = (where.any(axis=1) if where.ndim == 2 else where) & undefined
                if rows.any():
                    self._sink(bit, rows, group, "EXEC")
                    break
            self.shadow.scalar[EXEC:EXEC + 2, group.select] = 0

    def _return_address(self, group: Group) -> None:
        for bit in bits_of(self.use.writes):
            if SGPR_BIT <= bit < SCC_BIT:
                self.shadow.scalar[bit - SGPR_BIT, group.select] = 0
