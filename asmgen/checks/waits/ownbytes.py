"""LDS operations with a token whose bytes no other wave touches: the wave's own order is all that they need.

LDS operations of one wave do not overtake each other (docs/facts/instructions.md section 4). So what one wave writes and reads again needs
neither a wait nor a barrier, also where the token's bytes are those of all waves. Loads into LDS are in no order with them, and have rules
of their own (`own-dma` and `own-write` in `counters.waitsteps`), which are about one wave.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from asmgen.checks.counters.ledger import Operation
from asmgen.checks.counters.tokens import shared
from asmgen.isa.arch import LANES
from asmgen.program.controlflow import ControlFlow
from asmgen.program.program import Program

if TYPE_CHECKING:
    from asmgen.checks.barrierraces.ldslocations import LdsBytes


def own_bytes(program: Program, flow: ControlFlow, operations: Sequence[Operation], block: tuple[int, int, int] | None) -> frozenset[int]:
    """The positions of those operations in workgroups of `block` work-items: LDS operations whose addresses are known, and those of all
    that is in conflict with them too; and all in a workgroup of one wave."""
    told = {position: operation for position, operation in enumerate(operations) if operation.fills or operation.uses}
    if block is None or not told:
        return frozenset()
    if block[0] * block[1] * block[2] <= LANES:
        return frozenset(told)
    from asmgen.checks.barrierraces.ldslocations import LdsLocations  # needs numpy

    known = LdsLocations(program, flow, block, told).known
    return frozenset(position for position, mine in told.items() if mine.queue == "lds" and
                     all(its.queue == "lds" and _apart(position, other, known) for other, its in told.items() if _conflict(mine, its)))


def _conflict(one: Operation, other: Operation) -> bool:
    """Whether one of the two fills what the other uses or fills."""
    return bool(shared(one.fills, other.fills + other.uses) or shared(one.uses, other.fills))


def _apart(one: int, other: int, known: Mapping[int, LdsBytes]) -> bool:
    """Whether two LDS operations of different waves touch no common byte."""
    if one not in known or other not in known:
        return False
    return not any(mine & its for wave, mine in enumerate(known[one].waves)
                   for rival, its in enumerate(known[other].waves) if wave != rival)
