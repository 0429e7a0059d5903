"""Wait slots: places that a schedule names, where one s_waitcnt serves all that is due before the next one.

What is due at a point is whatever its *region* asks for: the instructions after it on any path, up to the next points. Counts are
then the loosest that let it all arrive; verification judges a point's wait by the same rule.
"""

from __future__ import annotations

from collections.abc import Sequence

from asmgen.checks.counters.ledger import Operation
from asmgen.isa.records import dataclass
from asmgen.program.controlflow import ControlFlow
from asmgen.program.program import Program

POINT = "point"
"""The mode (`Instruction.waits`) of a wait slot."""


@dataclass(frozen=True)
class WaitSpan:
    """What lies between a wait slot and the next ones: registers touched, as bits, and positions of barriers and token uses and fills.

    Those for LDS operations before the slot end where an instruction waits for an LDS operation of the region itself: LDS operations are in
    order, so its wait serves what comes after it too.
    """

    touches: int
    meeting: tuple[int, ...]
    lds_touches: int
    lds_meeting: tuple[int, ...]


def wait_regions(program: Program, flow: ControlFlow, operations: Sequence[Operation], touches: Sequence[int]) -> dict[int, WaitSpan]:
    """The region of every wait slot of a program."""
    points = frozenset(position for position, instruction in enumerate(program.instructions) if instruction.waits == POINT)
    return {point: _region(point, points, flow, operations, touches) for point in points}


def _region(point: int, points: frozenset[int], flow: ControlFlow, operations: Sequence[Operation], touches: Sequence[int]) -> WaitSpan:
    mask, meeting = 0, []
    lds_mask, lds_meeting = 0, []
    used = _own_lds_used(point, points, flow.blocks[flow.block_of[point]].last, operations, touches)
    waiting = [(point + 1, flow.block_of[point])]
    seen: set[int] = set()
    while waiting:
        start, number = waiting.pop()
        block = flow.blocks[number]
        for position in range(start, block.last + 1):
            if position in points:
                break
            before = used is None or number == flow.block_of[point] and point < position < used
            meets = [position] if operations[position].barrier or operations[position].awaits else []
            mask |= touches[position]
            meeting += meets
            lds_mask |= touches[position] if before else 0
            lds_meeting += meets if before else []
        else:
            for successor in block.successors:
                if successor not in seen:
                    seen.add(successor)
                    waiting.append((flow.blocks[successor].first, successor))
    return WaitSpan(mask, tuple(sorted(meeting)), lds_mask, tuple(sorted(lds_meeting)))


def _own_lds_used(point: int, points: frozenset[int], last: int, operations: Sequence[Operation], touches: Sequence[int]) -> int | None:
    """The first instruction in the rest of a point's block, up to the next point, that waits for an LDS operation after the point."""
    brought = 0
    for position in range(point + 1, last + 1):
        if position in points:
            return None
        if brought & touches[position]:
            return position
        brought |= operations[position].arrives if operations[position].queue == "lds" else 0
    return None
