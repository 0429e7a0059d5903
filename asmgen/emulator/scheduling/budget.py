"""How long waves may run: the budget of a launch, why waves stopped, and the loop that they go round."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from asmgen.isa.operands import Symbol
from asmgen.program.program import Program

ACCESS = 128
"""Wave instructions that an access to memory or LDS counts in the budget, by however few waves: about what its time is worth."""


@dataclass
class Budget:
    """How many wave instructions a launch may execute, and has. `spent`: the same, but for accesses to memory and LDS (ACCESS)."""

    limit: int
    executed: int = 0
    spent: int = 0


class Runaway(Exception):
    """Waves go round without end, or the budget is spent: the launch is over."""


def loop_end(program: Program, position: int) -> tuple[int, int] | None:
    """The first backward branch from `position` on that goes to it or before it: where it goes and where it stands."""
    for at in range(position, len(program)):
        instruction = program.instructions[at]
        if instruction.is_branch:
            for operand in instruction.operands:
                target = program.labels.get(operand.name) if isinstance(operand, Symbol) else None
                if target is not None and target <= position:
                    return target, at
    return None


class Pause(Enum):
    """Why waves stopped running."""

    ENDED = "all have ended"
    WAITING = "they go round without a barrier or an end, and may be waiting for others to start"
    BUSY = "they go round for long, but pass barriers"
