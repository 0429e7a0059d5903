"""Whether a place with too few wait states is sound all the same: what stands between may take longer than it counts.

The rows count instructions. A matrix instruction between two others counts as one wait state, yet the next one cannot begin
before the matrix core is free. A scalar instruction that rewrites an SGPR waits for the vector instruction that wrote it, so who
reads the SGPR after it does not meet the hazard. Kernels that were written on the hardware rely on both. Nothing here changes how
many wait states are asked for or inserted; it decides how bad a lack is. How long a branch takes is no such excuse: no document says.
"""

from __future__ import annotations

from collections.abc import Sequence

from asmgen.checks.waitstates.match import VECTOR_FILE, HazardFacts, HazardModel, PairNeed
from asmgen.isa.records import dataclass
from asmgen.program.controlflow import Block
from asmgen.program.knowncalls import Calls
from asmgen.program.program import Instruction

MOST_STEPS = 1000
"""Instructions looked at between a producer and its consumer, over all paths; where that is not enough, nothing is excused."""


@dataclass(frozen=True)
class Excuse:
    """What holds on every path that is too short.

    `slots` is how many issue slots lie between at least. `rewritten` are the registers that a scalar instruction writes between.
    """

    slots: int
    rewritten: int

    def covers(self, need: PairNeed) -> bool:
        """Whether the time that passes is what the row asks for."""
        return self.slots >= need.states

    def supersedes(self, need: PairNeed) -> bool:
        """Whether what the row is about was rewritten."""
        return bool(need.mask) and not need.mask & (VECTOR_FILE | ~self.rewritten)


@dataclass(frozen=True)
class WalkedCode:
    """A program as the paths through it are walked: instructions, samples of what they are (HazardModel.samples), blocks and
    calls."""

    model: HazardModel
    instructions: Sequence[Instruction]
    facts: Sequence[HazardFacts]
    blocks: Sequence[Block]
    block_of: Sequence[int]
    calls: Calls


def excuse(code: WalkedCode, producer: int, consumer: int, states: int) -> Excuse:
    """What holds between two positions on every path that has fewer than `states` wait states."""
    paths = _paths(code, producer, consumer, states)
    if not paths:
        return Excuse(0, 0)
    rewritten = ~0
    for path in paths:
        written = 0
        for position in path:
            if "salu" in code.instructions[position].opcode.classes:
                written |= code.instructions[position].writes
        rewritten &= written
    return Excuse(min(_slots(code, producer, path) for path in paths), rewritten)


def _paths(code: WalkedCode, producer: int, consumer: int, states: int) -> list[tuple[int, ...]]:
    """The positions between the two in program order, for each path that is too short; none where a look at all takes too long."""
    found: list[tuple[int, ...]] = []
    stack: list[tuple[int, int, tuple[int, ...]]] = [(consumer, 0, ())]
    for _ in range(MOST_STEPS):
        if not stack:
            return found
        position, age, path = stack.pop()
        block = code.blocks[code.block_of[position]]
        before = (position - 1,) if position > block.first else tuple(code.blocks[number].last for number in code.calls.before(block))
        for previous in before:
            if previous == producer:
                found.append(path)
            elif age + code.facts[previous].states < states:
                stack.append((previous, age + code.facts[previous].states, (previous, *path)))
    return []


def _slots(code: WalkedCode, producer: int, path: Sequence[int]) -> int:
    """Issue slots between a producer and what stands after a path, at least."""
    core_free = code.model.passes(code.facts[producer])
    now = 1
    for position in path:
        facts = code.facts[position]
        passes = code.model.passes(facts)
        if passes:
            now = max(now, core_free)
            core_free = now + passes
        now += facts.states
    return now - 1
