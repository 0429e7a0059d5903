"""Epilogue overlap: the epilogue of a pipeline stands among the products of its last step.

A kernel that stores its accumulators and ends need not wait for the last of them: those of the first products are complete long before.
So the last copy of the step stands twice, and in one of the two the code behind the loop fills the windows behind matrix instructions,
each instruction as soon as what it reads is there.

    k.pipeline(step, steps, schedule, epilogue=Epilogue(guard, body))
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from asmgen.author.schedule.schedulereport import occupancy
from asmgen.author.schedule.schedules import Sync, clocks, is_matrix
from asmgen.author.step.effects import Unit
from asmgen.isa.records import dataclass
from asmgen.isa.registers import scc

if TYPE_CHECKING:
    from asmgen.author.emit.builder import Builder

_SETTLED = 4  # matrix instructions, the last writer among them, behind which a result is there: 48 clk, and 4 passes want 7 states of 4


@dataclass(frozen=True)
class Epilogue:
    """`guard(label)` emits scalar code that branches to `label` where the epilogue does not serve; it stands in front of the last step.
    `body()` emits straight code, without labels or barriers, behind which the kernel ends. What follows the pipeline serves the others;
    `again` is a label there, to which waves go for which the body early_exits VCC other than 0.
    """

    guard: Callable[[str], None]
    body: Callable[[], None]
    again: str | None = None

    def end_kernel(self, k: Builder) -> None:
        """What stands behind the body."""
        if self.again is not None:
            k.s_cbranch_vccnz(self.again)
        k.s_endpgm()


def overlapped(copy: Sequence[Sync | Unit], epilogue: Sequence[Unit], arch: str) -> list[Sync | Unit]:
    """The last copy of a step with the units of an epilogue in its windows, both in their orders; what finds no room follows.

    A window has as many slots as its matrix instruction keeps the core busy for, less its own. A unit of the epilogue stands behind all of
    the copy's that it depends on.
    """
    rest = _Rest(copy)
    pending = deque(epilogue)
    order: list[Sync | Unit] = []
    matrix: list[int] = []  # places of the matrix units that are placed
    room = 0
    for place, entry in enumerate(copy):
        while isinstance(entry, Sync) and pending and pending[0].effects.reads & scc.mask:
            order.append(pending.popleft())  # a branch of the schedule may not come between it and what it tests
        order.append(entry)
        if isinstance(entry, Sync):
            continue
        if is_matrix(entry):
            matrix.append(place)
            room = occupancy(next(one for one in entry.instructions if one.opcode.group == "matrix"), arch) // clocks("slot") - 1
        else:
            room -= 1
        if place + 1 < len(copy) and not _is_matrix(copy[place + 1]):
            continue  # the window has more of its own to come
        settled = matrix[-_SETTLED + 1] if len(matrix) >= _SETTLED - 1 else 0
        while pending and room > 0 and rest.allows(pending[0], place + 1, settled):
            order.append(pending.popleft())
            room -= 1
    return [*order, *pending]


def _is_matrix(entry: Sync | Unit) -> bool:
    return isinstance(entry, Unit) and is_matrix(entry)


class _Rest:
    """What a copy still does from each of its places on: registers read and written, and accesses of memory."""

    def __init__(self, copy: Sequence[Sync | Unit]) -> None:
        self.copy = copy
        self.reads, self.writes = [0], [0]
        for entry in reversed(copy):
            effects = None if isinstance(entry, Sync) else entry.effects
            self.reads.append(self.reads[-1] | (effects.reads if effects is not None else 0))
            self.writes.append(self.writes[-1] | (effects.writes if effects is not None else 0))
        self.reads.reverse()
        self.writes.reverse()

    def allows(self, unit: Unit, place: int, settled: int) -> bool:
        """Whether a unit may stand in front of what the copy has from `place` on; results of `settled` and later are not there yet."""
        effects = unit.effects
        if effects.writes & (self.reads[place] | self.writes[place]) or effects.reads & self.writes[settled]:
            return False
        return not effects.memory or not any(
            access.conflicts(other) for entry in self.copy[place:] if isinstance(entry, Unit)
            for other in entry.effects.memory for access in effects.memory)
