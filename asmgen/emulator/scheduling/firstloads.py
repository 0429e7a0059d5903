"""Which lines each workgroup of a launch loads first: from that follows which of them load the same.

Workgroups run as far as the end of the first round of each loop that loads. Of the lines that one loads of an interval of device memory
nothing is kept but their number and a sum of their hashes: workgroups that load the same lines have the same.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.arrival.boundstep import Action, Step
from asmgen.emulator.machine.state import Group, Machine
from asmgen.emulator.machine.ways import Ways
from asmgen.emulator.scheduling.trace import LINE, VECTOR_SPACES, Trace
from asmgen.isa.table import opcode
from asmgen.program.program import Instruction, Item, Program

MOST_WAVES = 8192
"""Of a launch, so many take the emulator one to three seconds."""
_MIX = np.uint64(0x9E3779B97F4A7C15)  # odd, and its bits look random
_SHIFT = np.uint64(29)


@dataclass
class FirstLines:
    """Of one interval of device memory, by workgroup: for how many lines its lanes ask, and the sum of their hashes."""

    counts: NDArray[np.int64]
    sums: NDArray[np.uint64]


@dataclass
class FirstLoads(Trace):
    """A Trace that notes the first loads of its workgroups and nothing else; `lines` is by the start of the interval."""

    lines: dict[int, FirstLines] = field(default_factory=dict)

    def code(self, program: Program) -> Program:
        """The program without the way back in loops that load."""
        return without_rounds(program)

    def entered(self, machine: Machine, waves: NDArray[np.int64], positions: tuple[int, ...]) -> None:
        """Nobody asks what was executed."""

    def watcher(self, machine: Machine) -> _LoadWatcher:
        """Looks at the loads of one machine."""
        return _LoadWatcher(self, machine)


def without_rounds(program: Program) -> Program:
    """The program in which waves end where a loop with vector loads would begin its second round."""
    instructions = program.instructions
    loading = [position for position, instruction in enumerate(instructions) if loads(instruction)]
    ends = {last for first, last in Ways(program).loops() if any(first <= position <= last for position in loading)}
    if not ends:
        return program
    end = opcode("s_endpgm")
    items: list[Item] = []
    position = 0
    for item in program.items:
        if isinstance(item, Instruction):
            if position in ends:
                item = Instruction(end, end.forms[0], (), address=item.address, size=item.size)
            position += 1
        items.append(item)
    return program.with_items(items)


def loads(instruction: Instruction) -> bool:
    """Whether it loads from device memory into vector registers or LDS."""
    row = instruction.opcode.memory
    return row is not None and row.space in VECTOR_SPACES and (row.kind == "load" or row.returns)


class _LoadWatcher:
    """A segments.Watcher and a state.MemoryWatcher."""

    def __init__(self, trace: FirstLoads, machine: Machine) -> None:
        self.trace, self.machine = trace, machine
        self.starts = [interval.start for interval in machine.memory.intervals]

    def __call__(self, step: Step) -> Action | None:
        """Nothing runs before a step."""
        return None

    def memory(self, group: Group, instruction: Instruction, memory_name: str, addresses: NDArray[np.int64], counts: NDArray[np.int64],
               size: int, low: int, high: int) -> None:
        """Note the first line of each lane of a load; `low` to `high` is in one interval but for wrong code."""
        taking = np.broadcast_to(counts > 0, addresses.shape)
        if memory_name in ("LDS", "private memory") or not loads(instruction) or not taking.any():
            return
        start = self.starts[bisect_right(self.starts, int(addresses[taking].min())) - 1]
        lines = (addresses // LINE).view(np.uint64) * _MIX
        lines ^= lines >> _SHIFT
        sums = np.where(taking, lines * _MIX, np.uint64(0)).sum(axis=1, dtype=np.uint64)
        found = self.trace.lines.get(start)
        if found is None:
            found = self.trace.lines[start] = FirstLines(np.zeros(self.trace.workgroups, np.int64),
                                                         np.zeros(self.trace.workgroups, np.uint64))
        workgroups = self.machine.first_workgroup + self.machine.workgroup[group.waves]
        np.add.at(found.counts, workgroups, taking.sum(axis=1))
        np.add.at(found.sums, workgroups, sums)
