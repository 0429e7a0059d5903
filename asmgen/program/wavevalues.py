"""What is known of registers before a kernel runs: values that follow from constants and from the number of the work-item.

Constant propagation, each wave of a workgroup for itself: a scalar register has a value for each wave, a vector register for each lane of
each wave, or is unknown. A lane mask, EXEC too, is its two words, as in the hardware, whatever wrote them. Branches whose condition is
known are followed by the waves that take them, so that code for some waves only shows as such. Where paths meet that bring different
values, as a buffer's number that a loop changes, the register is unknown. Arithmetic is of integers, in 32 bits, and of masks; whatever
else writes a register makes it unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from asmgen.isa.arch import LANES
from asmgen.isa.registers import NAMED, SCC_BIT
from asmgen.program.controlflow import ControlFlow
from asmgen.program.knowncalls import CALLS
from asmgen.program.program import Program
from asmgen.program.wavestate import EXEC_BIT, VCC_BIT, WORD, State, Value, constant
from asmgen.program.wavesteps import ANYWHERE, step

_DECIDING = 1 << SCC_BIT | NAMED["vcc"].mask | NAMED["exec"].mask
_BRANCHES: dict[str, tuple[int, int]] = {  # the register whose value decides, and which value takes the branch
    "s_cbranch_scc0": (SCC_BIT, 0), "s_cbranch_scc1": (SCC_BIT, 1), "s_cbranch_vccz": (VCC_BIT, 0), "s_cbranch_vccnz": (VCC_BIT, 1),
    "s_cbranch_execz": (EXEC_BIT, 0), "s_cbranch_execnz": (EXEC_BIT, 1)}


class WaveValues:
    """The values of a program, solved once. `block` is the size of the workgroup in x, y and z, None where not known: then the first wave
    is followed alone, and v0 is unknown. Lanes beyond its end are taken for there. At the start v0 holds x, y << 10 and z << 20 of the
    work-item (LLVM AMDGPUUsage, "Initial Kernel Execution State").

    `wanted` are the registers that are asked for; what they and the branches do not depend on is passed over. `takes[block]` says which
    waves come to a block [waves], `ways[block]` the blocks that follow it with the waves that go there.
    """

    def __init__(self, program: Program, flow: ControlFlow, block: tuple[int, int, int] | None = None, wanted: int = 0) -> None:
        self.program = program
        self.flow = flow
        self._matters = mattering(program, wanted)
        self._mattering = [[program.instructions[position] for position in range(block.first, block.last + 1) if self._matters[position]]
                           for block in flow.blocks]
        self.block = block
        self.waves = waves_of(block)
        self._entries: list[State | None] = [None for _ in flow.blocks]
        self.ways: list[list[tuple[int, NDArray[np.bool_]]]] = [[] for _ in flow.blocks]
        self._solve()
        none = np.zeros(self.waves, bool)
        self.takes = [none if state is None else state.waves for state in self._entries]

    def _solve(self) -> None:
        flow, program = self.flow, self.program
        if not flow.blocks:
            return
        starts = {0: first_state(self.block, program.workitem_dims)}
        if program.entry:
            starts[flow.block_of[program.labels[program.entry]]] = first_state(self.block, program.workitem_dims)
        if flow.indirect or any(instruction.name in CALLS or instruction.name == "s_setpc_b64" for instruction in program.instructions):
            for position in program.labels.values():
                if position < len(flow.block_of) and flow.block_of[position] not in starts:
                    starts[flow.block_of[position]] = State(np.ones(self.waves, bool))
        queue: list[int] = []
        for number, state in starts.items():
            self._entries[number] = state
            heappush(queue, number)
        waiting = set(queue)
        while queue:
            number = heappop(queue)
            waiting.discard(number)
            entry = self._entries[number]
            assert entry is not None
            state = entry.copy()
            for instruction in self._mattering[number]:
                step(state, instruction)
            self.ways[number] = ways_after(program, flow, number, state)
            for successor, waves in self.ways[number]:
                if waves.any() and self._meet(successor, state.narrowed(waves)) and successor not in waiting:
                    waiting.add(successor)
                    heappush(queue, successor)

    def _meet(self, number: int, state: State) -> bool:
        """Take in what comes over an edge; whether that is new."""
        old = self._entries[number]
        if old is None:
            self._entries[number] = state.copy()
            return True
        both = old.waves & state.waves
        known: dict[int, Value] = {}
        for bit, value in old.known.items():
            other = state.known.get(bit)
            if other is value:
                known[bit] = value
            elif other is not None and np.array_equal(value[both], other[both]):
                mask = old.waves if value.ndim == 1 else old.waves[:, None]
                known[bit] = np.where(mask, value, other)
        waves = old.waves | state.waves
        if len(known) == len(old.known) and np.array_equal(waves, old.waves):
            return False
        self._entries[number] = State(waves, known)
        return True

    def at(self, positions: Iterable[int]) -> Iterator[tuple[int, State]]:
        """What holds right before instructions (ascending positions) that some wave comes to; a state is good until the next one."""
        state: State | None = None
        number, here = -1, 0
        for position in positions:
            if self.flow.block_of[position] != number:
                number = self.flow.block_of[position]
                entry, here = self._entries[number], self.flow.blocks[number].first
                state = None if entry is None else entry.copy()
            if state is None:
                continue
            for passed in range(here, position):
                if self._matters[passed]:
                    step(state, self.program.instructions[passed])
            here = position
            yield position, state


def waves_of(block: tuple[int, int, int] | None) -> int:
    """How many waves a workgroup has; 1 where its size is not known."""
    return 1 if block is None else max(1, min(16, -(-block[0] * block[1] * block[2] // LANES)))


def first_state(block: tuple[int, int, int] | None, dims: int = 2) -> State:
    """What all waves hold where a kernel begins: v0 has the work-item's x, of `dims` 1 its y above, of 2 its z too (AMDGPUUsage, "Initial
    Kernel Execution State"; what the descriptor does not ask for is 0)."""
    waves = waves_of(block)
    known = dict.fromkeys((EXEC_BIT, EXEC_BIT + 1), constant(WORD, waves))
    if block is not None:
        x, y, _ = block
        number = np.arange(waves * LANES, dtype=np.int64).reshape(waves, LANES)
        known[0] = number % x | (number // x % y << 10 if dims else 0) | (number // (x * y) << 20 if dims > 1 else 0)
    return State(np.ones(waves, bool), known)


def ways_after(program: Program, flow: ControlFlow, number: int, state: State) -> list[tuple[int, NDArray[np.bool_]]]:
    """The blocks that follow a block, with the waves that go there, by what they hold at its end; all, where that does not tell."""
    block = flow.blocks[number]
    last = program.instructions[block.last]
    deciding = _BRANCHES.get(last.name)
    value = state.deciding(deciding[0]) if deciding is not None else None
    if deciding is None or value is None or len(block.successors) != 2:
        return [(successor, state.waves) for successor in block.successors]
    taken = (value != 0) == bool(deciding[1])
    target = flow.block_of[program.labels[last.target]] if last.target is not None else -1
    return [(successor, state.waves & (taken if successor == target else ~taken)) for successor in block.successors]


def mattering(program: Program, wanted: int) -> list[bool]:
    """By position, whether branches or the registers in `wanted` may depend on an instruction."""
    return _slice(program, wanted | _DECIDING)


def _slice(program: Program, wanted: int) -> list[bool]:
    """By position, whether registers in `wanted` may depend on an instruction, wherever it stands."""
    matters = [instruction.opcode.name in ANYWHERE for instruction in program.instructions]
    # The last first: most of what an instruction needs stands before it, so that two or three rounds find everything.
    left = [(instruction.writes, instruction.reads, position)
            for position, instruction in enumerate(program.instructions) if instruction.writes][::-1]
    while True:
        rest = []
        for entry in left:
            if entry[0] & wanted:
                wanted |= entry[1]
                matters[entry[2]] = True
            else:
                rest.append(entry)
        if len(rest) == len(left):
            return matters
        left = rest
