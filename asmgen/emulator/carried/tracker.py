"""One mechanism for all second values: a launch is followed instruction by instruction, with handles beside its words.

A domain brings the tables of its elements and its rules for instructions that compute; moves are the same for all (`moves`). What a domain
has no rule for makes elements that it knows nothing of, if it took any. Without domains in a launch's options nothing of this exists.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from asmgen.codeobject.descriptor import KernelDescriptor
from asmgen.emulator.arrival.boundstep import Action, Step
from asmgen.emulator.binding.decode import UNBINDABLE, beyond_allocation
from asmgen.emulator.carried.carrier import DeviceCells, HandleCarrier
from asmgen.emulator.carried.cells import UNKNOWN, Handles, WordCells
from asmgen.emulator.carried.handleatomics import Change, bind_atomic
from asmgen.emulator.carried.moves import bind_move
from asmgen.emulator.machine.devicememory import Memory
from asmgen.emulator.machine.dispatch import Dispatch
from asmgen.emulator.machine.state import Group, Machine
from asmgen.emulator.shadow.undefineduses import scalars_in, use_of, vectors_in
from asmgen.program.program import Instruction

FULL = 1 << 22
"""Elements from which on those are dropped that no word names any more; then twice what is left, if that is more."""


class ElementTable(Protocol):
    """The elements of a domain. `used` numbers are taken, those of none and UNKNOWN included."""

    used: int

    def keep(self, alive: NDArray[np.bool_]) -> None:
        """Drop the other elements, in order."""


class Rules(ABC):
    """What a domain knows: how words hold its elements (`cells`), and what instructions make of them. Elements that nothing names are
    dropped from its `table`; without one all stay."""

    cells: WordCells
    table: ElementTable | None = None

    def begin(self, carrier: HandleCarrier, descriptor: KernelDescriptor, dispatch: Dispatch) -> None:
        """Waves have started: give elements to what the hardware gives them. By default none."""
        return

    def moves(self, instruction: Instruction, position: int, carrier: HandleCarrier) -> Action | None:
        """What an instruction that only moves data does to handles; None for all others."""
        return bind_move(instruction, position, carrier)

    def change(self, instruction: Instruction) -> Change | None:
        """What an atomic makes of a word in memory; None where that is unknown."""
        return None

    @abstractmethod
    def bind(self, instruction: Instruction, carrier: HandleCarrier) -> Action | None:
        """What an instruction that computes does to handles; None for one without a rule."""

    def watch(self, instruction: Instruction, position: int, carrier: HandleCarrier) -> Action | None:
        """What to note of any instruction before it runs; None for nothing."""
        return None


class Tracker:
    """A domain's second values in one memory, over the launches that it is given to."""

    def __init__(self, memory: Memory, rules: Rules) -> None:
        self.rules = rules
        self.cells = rules.cells
        self.device = DeviceCells(memory, self.cells)
        self.followers: list[HandleFollower] = []
        self.limit = FULL

    def attach(self, machine: Machine) -> HandleFollower:
        """Follow what a launch does on a machine."""
        follower = HandleFollower(self, HandleCarrier(machine, self.cells, self.device))
        self.followers.append(follower)
        return follower

    def release(self) -> None:
        """The launch is over: what its registers and LDS held is gone, what its buffers hold stays."""
        self.followers.clear()

    def clear(self) -> None:
        """Nothing is known of what memory holds."""
        self.device.words.clear()
        self.cells.used = 0
        self._forget()

    def tidy(self) -> None:
        """Drop elements and rows of cells that nothing names, if there are many."""
        table = self.rules.table
        if (table is None or table.used < self.limit) and self.cells.used < self.limit:
            return
        self._forget()
        roots: list[Handles] = list(self.device.words.values())
        for follower in self.followers:
            roots += follower.carrier.roots()
        if table is None:
            self.cells.used_rows(roots)
        else:
            table.keep(self.cells.compacted(roots, table.used))
        self.limit = max(FULL, 2 * max(table.used if table is not None else 0, self.cells.used))

    def _forget(self) -> None:
        """Elements get other numbers."""
        for follower in self.followers:
            follower.carrier.made.clear()


class HandleFollower:
    """Looks at each step of one machine."""

    def __init__(self, tracker: Tracker, carrier: HandleCarrier) -> None:
        self.tracker = tracker
        self.carrier = carrier

    def reset(self) -> None:
        """Other waves take these waves' places."""
        self.carrier.reset()

    def begin(self, descriptor: KernelDescriptor, dispatch: Dispatch) -> None:
        """Waves have started on the machine."""
        self.tracker.rules.begin(self.carrier, descriptor, dispatch)

    def __call__(self, step: Step) -> Action | None:
        """What a step must do before it runs."""
        instruction, rules = step.instruction, self.tracker.rules
        if beyond_allocation(instruction, self.carrier.machine) is not None:
            return None
        watch = rules.watch(instruction, step.position, self.carrier)
        if step.run is None or instruction.is_branch:
            return watch
        act: Action | None = None

        def before(group: Group) -> None:
            nonlocal act
            self.tracker.tidy()
            if watch is not None:
                watch(group)
            if act is None:
                act = self.bound(instruction, step.position)
            act(group)

        return before

    def bound(self, instruction: Instruction, position: int) -> Action:
        """What an instruction does to handles."""
        carrier, rules = self.carrier, self.tracker.rules
        carrier.shadow.binding_mode = carrier.machine.binding_mode
        try:
            act = rules.moves(instruction, position, carrier) or bind_atomic(instruction, carrier, rules.change(instruction)) \
                or rules.bind(instruction, carrier)
        except UNBINDABLE:
            act = None
        return act or self._unknown(instruction)

    def _unknown(self, instruction: Instruction) -> Action:
        """Elements that are read make unknown ones of all that is written."""
        use, shadow = use_of(instruction, self.carrier.shadow.accum_offset), self.carrier.shadow
        (reads, scalar_reads), (writes, scalar_writes) = (_registers(mask, shadow) for mask in (use.reads & ~use.addresses, use.writes))

        def step(group: Group) -> None:
            waves = np.zeros(group.size, bool)
            for bit in reads:
                lanes = shadow.vector[bit, group.select] != 0
                waves |= (lanes & group.mask if use.by_lane and group.mask is not None else lanes).any(axis=1)
            for bit in scalar_reads:
                waves |= shadow.scalar[bit, group.select] != 0
            pattern = np.where(waves, np.uint32(UNKNOWN), np.uint32(0))
            for bit in writes:
                kept = group.mask if use.by_lane and group.mask is not None else True
                shadow.vector[bit, group.select] = np.where(kept, pattern[:, None], shadow.vector[bit, group.select])
            for bit in scalar_writes:
                shadow.scalar[bit, group.select] = pattern

        return step


def _registers(mask: int, shadow: Machine) -> tuple[list[int], list[int]]:
    """Vector and scalar registers of a set."""
    return vectors_in(mask, shadow.registers - 1), scalars_in(mask)
