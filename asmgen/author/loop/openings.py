"""The parts of a prologue: what the steps before step 0 do for iterations from 0 on, and the waits and barriers that this needs.

A copy of the step in the loop leaves these to the copies around it. So an opening has a wait and 1 + stagger barriers after its fills, and
barriers between reads that run early and the refills of step 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from asmgen.author.loop.stepunits import CopySpan, StepUnits
from asmgen.author.schedule.handoffs import BARRIER, barriers_apart, barriers_missing, fills_lds, reads_lds
from asmgen.author.schedule.schedules import Sync
from asmgen.author.step.effects import Unit, depends
from asmgen.isa.records import dataclass

Entries = Sequence[Sync | Unit]


@dataclass(frozen=True)
class Opening:
    """The parts of a prologue.

    `placed`: units in emission order, step by step, each step with whether sources advance after it. `settled`: the wait and the barriers
    for their fills. `early`: units after those, and `early_at` the steps of its entries. `copies`: copies in the schedule's order;
    `spans` says which iterations they keep.
    """

    placed: list[tuple[list[Unit], CopySpan, bool]]
    settled: list[Sync]
    early: list[Sync | Unit]
    early_at: list[int]
    spans: list[CopySpan]
    copies: list[list[Sync | Unit]]

    @property
    def entries(self) -> list[Sync | Unit]:
        """All entries before the copies, with the opening of the stagger."""
        return [*(unit for units, _, _ in self.placed for unit in units), *self.settled, Sync("open"), *self.early]

    @property
    def path(self) -> list[Sync | Unit]:
        """All entries, with the copies."""
        return [*self.entries, *(entry for copy in self.copies for entry in copy)]


def opening_of(units: StepUnits, spans: Sequence[CopySpan], first: CopySpan, stagger: int,
               advances: Callable[[CopySpan], bool]) -> Opening:
    """The opening of the steps before step 0, whose copies keep `spans`; `first` is the span of step 0. `advances` says whether sources
    advance after a copy.

    Operations that read LDS or run a copy early stand after the barriers, as their data must have arrived. If read data is used or its
    bytes are refilled before step 0, the schedule's order and synchronisation begin with the first such read.
    """
    order, lead, apart = units.shape.arrangement.order, units.shape.arrangement.lead, barriers_apart(stagger)
    plain = _plain(units, spans)
    early: list[Sync | Unit] = []
    early_at: list[int] = []
    placed: list[tuple[list[Unit], CopySpan, bool]] = []
    for step, span in enumerate(spans[:plain], -len(spans)):
        kept = units.kept(span)
        early += [unit for unit in kept if reads_lds(unit)]
        early_at += [step] * (len(early) - len(early_at))
        placed.append(([unit for unit in kept if not reads_lds(unit)], span, advances(span)))
    copies = [units.entries(span) for span in spans[plain:]]
    # Units that lead stand in the copy before; those of the first copy in the schedule's order have none before it.
    of_first = {unit.tag.ordinal: unit for unit in units.kept([*spans, first][plain])}
    led = [of_first[entry] for entry in order if isinstance(entry, int) and entry in lead and entry in of_first]
    if copies:
        cut = next(number for number, entry in enumerate(copies[0]) if isinstance(entry, Unit)
                   and (reads_lds(entry) or any(depends(entry, one) for one in led)))
        placed.append(([entry for entry in copies[0][:cut] if isinstance(entry, Unit)], spans[plain], False))
        copies[0] = copies[0][cut:]
    early += led
    early_at += [plain - len(spans)] * (len(early) - len(early_at))
    if not copies and early and Sync("wait") in order:
        early.append(Sync("wait"))  # as copies wait for the reads of the next one; else each round of the loop has that wait
    early += [BARRIER] * (barriers_missing(early, units.entries(first), apart) if not copies else 0)
    early_at += [0] * (len(early) - len(early_at))
    filled = any(fills_lds(unit) for kept, _, _ in placed for unit in kept)
    settled = [Sync("wait"), *[BARRIER] * apart] if filled else []
    return Opening(placed, settled, early, early_at, list(spans[plain:]), copies)


def _plain(units: StepUnits, spans: Sequence[CopySpan]) -> int:
    """How many copies stand in emission order: those before the first LDS read whose data is used, or whose bytes are refilled, before step
    0. Without such a read: all."""
    reads: list[Unit] = []
    found = len(spans)
    for number, span in enumerate(spans):
        for unit in units.kept(span):
            if reads_lds(unit):
                found = number if not reads else found
                reads.append(unit)
            elif any(depends(unit, read) for read in reads):
                return found
    return len(spans)
