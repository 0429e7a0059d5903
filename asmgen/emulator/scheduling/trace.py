"""What each wave of a launch executed, in order, and what its memory accesses cost: input of the cycle model.

Positions are noted a segment at a time. LDS accesses carry the cycles that their real addresses take from the banks
(`asmgen.isa.lds`), vector memory accesses the cache lines that they touch. An access of no active lane costs nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.arrival.boundstep import Action, Step
from asmgen.emulator.machine.state import LANES, Group, Machine
from asmgen.emulator.memory.ldsops import locations
from asmgen.isa.lds import addresses_per_lane
from asmgen.isa.lds_arrays import bank_loads
from asmgen.isa.registers import Reg
from asmgen.program.program import Instruction, Program

LINE = 128
"""Bytes of a line of the vector cache (docs/facts/microarchitecture.md section 2.5)."""
_FAR = np.int64(1) << 62
VECTOR_SPACES = frozenset({"buffer", "global", "flat", "scratch"})


NO_ARGUMENT = -1
"""The argument of an access of LDS, or of no lane."""
PRIVATE = -2
"""That of an access of private memory (scratch)."""


@dataclass(frozen=True)
class TracedArgument:
    """A kernel's argument that points to device memory: where its bytes are."""

    name: str
    start: int
    nbytes: int


@dataclass(frozen=True)
class WaveTrace:
    """One wave: the positions that it executed, and the cost of each of its accesses, in order (`has_cost` says which have one).

    `arguments` has the number of the argument that each access touches, or one of the two above; it is empty where nobody told the trace
    its arguments.
    """

    workgroup: int
    wave: int
    positions: tuple[int, ...]
    costs: tuple[int, ...]
    arguments: tuple[int, ...] = ()


class AccessWatcher(Protocol):
    """A segments.Watcher whose `memory` is a state.MemoryWatcher."""

    def __call__(self, step: Step) -> Action | None: ...

    def memory(self, group: Group, instruction: Instruction, memory_name: str, addresses: NDArray[np.int64], counts: NDArray[np.int64],
               size: int, low: int, high: int) -> None: ...


@dataclass
class Trace:
    """Filled by a launch that has it among its options. `workgroups` is how many of the grid's run, from the first on; 0: all.
    `program` is the launch's, `fitting` how many of its workgroups fit on a compute unit together; what stands at the positions that `idle`
    gives for it is not computed. `arguments` is for who knows where they are: then each access has the number of its own."""

    workgroups: int = 1
    program: Program | None = None
    fitting: int = 1
    idle: Callable[[Program], frozenset[int]] = lambda program: frozenset()
    arguments: Sequence[TracedArgument] = ()
    _segments: dict[int, list[tuple[int, ...]]] = field(default_factory=dict)
    _costs: dict[int, list[list[int]]] = field(default_factory=dict)
    _per: int = 1

    def code(self, program: Program) -> Program:
        """What runs in place of the launch's program."""
        return program

    def entered(self, machine: Machine, waves: NDArray[np.int64], positions: tuple[int, ...]) -> None:
        """These waves execute the instructions at these positions."""
        self._per = machine.waves // machine.workgroups
        first = machine.first_workgroup * self._per
        for wave in waves.tolist():
            self._segments.setdefault(first + wave, []).append(positions)

    def watcher(self, machine: Machine) -> AccessWatcher:
        """Looks at the accesses of one machine."""
        return _Watcher(self, machine)

    def opened(self, machine: Machine, wave: int) -> list[list[int]]:
        """The accesses of a wave of the machine so far: cost and lowest address of each."""
        return self._costs.setdefault(machine.first_workgroup * (machine.waves // machine.workgroups) + wave, [])

    def waves(self) -> Iterator[WaveTrace]:
        """Every wave in order of launch."""
        argument = _finder(self.arguments)
        for number in sorted(self._segments):
            positions = tuple(position for part in self._segments[number] for position in part)
            accesses = self._costs.get(number, [])
            costs = tuple(cost for cost, _ in accesses)
            arguments = tuple(argument(address) for _, address in accesses) if self.arguments else ()
            yield WaveTrace(number // self._per, number % self._per, positions, costs, arguments)


def _finder(arguments: Sequence[TracedArgument]) -> Callable[[int], int]:
    """Says which argument an address lies in."""
    ordered = sorted(range(len(arguments)), key=lambda number: arguments[number].start)
    starts = [arguments[number].start for number in ordered]

    def find(address: int) -> int:
        if address == PRIVATE:
            return PRIVATE
        at = bisect_right(starts, address) - 1
        inside = at >= 0 and address < starts[at] + arguments[ordered[at]].nbytes
        return ordered[at] if inside else NO_ARGUMENT

    return find


def _lines(group: Group, addresses: NDArray[np.int64], lengths: NDArray[np.int64], private: bool) -> NDArray[np.int64]:
    """By wave the lines that its lanes touch, some more than once, and -1 for none. In private memory dword d of lane l of a wave lies at
    256 d + 4 l (docs/facts/microarchitecture.md section 2.5)."""
    lengths = np.broadcast_to(lengths, addresses.shape)
    if not private:
        first, last = addresses // LINE, (addresses + np.maximum(lengths - 1, 0)) // LINE
        return np.concatenate([np.where(lengths > 0, one, -1) for one in (first, last)], axis=1)
    lanes = np.arange(LANES)
    begins = addresses - (group.waves[:, None] * LANES + lanes) * group.machine.private_stride
    dwords = [np.where(at < lengths, (begins + at) // 4, -1) for at in range(0, max(1, int(lengths.max())), 4)]
    return np.concatenate([np.where(one >= 0, 2 * one + lanes // 32, -1) for one in dwords], axis=1)


def has_cost(instruction: Instruction) -> bool:
    """Whether each execution has an entry in `WaveTrace.costs`."""
    row = instruction.opcode.memory
    return row is not None and (row.space in VECTOR_SPACES or row.space == "lds")


class _Watcher:
    """A segments.Watcher and a state.MemoryWatcher."""

    def __init__(self, trace: Trace, machine: Machine) -> None:
        self.trace = trace
        self.machine = machine

    def __call__(self, step: Step) -> Action | None:
        if not has_cost(step.instruction):
            return None
        row = step.instruction.opcode.memory
        assert row is not None
        return self._lds(step.instruction) if row.space == "lds" else self._open

    def _open(self, group: Group) -> None:
        for wave in group.waves.tolist():
            self.trace.opened(self.machine, wave).append([0, NO_ARGUMENT])

    def memory(self, group: Group, instruction: Instruction, memory_name: str, addresses: NDArray[np.int64], counts: NDArray[np.int64],
               size: int, low: int, high: int) -> None:
        """Lines that the lanes of an access touch, added to what was opened before it."""
        if memory_name == "LDS":
            return
        lines = np.sort(_lines(group, addresses, counts * size, memory_name == "private memory"), axis=1)
        new = lines >= 0
        new[:, 1:] &= lines[:, 1:] != lines[:, :-1]
        nearest = np.where(counts > 0, addresses, _FAR).min(axis=1)
        for wave, number, address in zip(group.waves.tolist(), new.sum(axis=1).tolist(), nearest.tolist(), strict=True):
            if number:
                access = self.trace.opened(self.machine, wave)[-1]
                access[0] += number
                access[1] = address if memory_name != "private memory" else PRIVATE

    def _lds(self, instruction: Instruction) -> Action:
        named = {spec.name: operand for spec, operand in zip(instruction.form.operands, instruction.operands, strict=True)}
        address, row = named.get("addr"), instruction.opcode.memory
        assert row is not None
        if not isinstance(address, Reg):
            return self._one_cycle
        slot, machine = self.machine.slot(address), self.machine
        count = addresses_per_lane(instruction.name)
        size = row.bytes // 2 if "two" in instruction.opcode.flags else row.bytes
        offsets = np.array([memory_name.offset for memory_name in locations(instruction, size)], np.int64)

        def count_cycles(group: Group) -> None:
            base: NDArray[Any] = machine.vector[slot, group.select].astype(np.int64)
            at = base[..., None] + offsets if count > 1 else base + offsets[0]
            active = None if group.mask is None else group.lanes()
            cycles = bank_loads(machine.arch.name, instruction.name, at, 8 * size, active).max(axis=-1).sum(axis=-1)
            for wave, number in zip(group.waves.tolist(), cycles.tolist(), strict=True):
                self.trace.opened(machine, wave).append([number, NO_ARGUMENT])

        return count_cycles

    def _one_cycle(self, group: Group) -> None:
        """What has no lane addresses in a register touches a dword, or one a lane in order."""
        for wave in group.waves.tolist():
            self.trace.opened(self.machine, wave).append([LANES // 64, NO_ARGUMENT])
