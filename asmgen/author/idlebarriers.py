"""Which barriers of straight-line steps order nothing: behind the last fill a loop's barriers guard LDS that nobody fills any more."""

from __future__ import annotations

from collections.abc import Sequence

from asmgen.author.effects import MemoryAccess, Unit
from asmgen.author.schedules import Sync


def idle_barriers(entries: Sequence[Sync | Unit]) -> set[int]:
    """The places of barriers between which and the next one no LDS is written, and only data read that was read before.

    What was read before has landed for every wave. `entries` is code without a branch up to the end of a loop: code behind it that fills
    LDS anew brings a barrier of its own. Every barrier before LDS accesses that name no token stays. All waves run together (no stagger).
    """
    idle: set[int] = set()
    landed: list[MemoryAccess] = []
    barrier: int | None = None
    needed = True
    for place, entry in enumerate(entries):
        if isinstance(entry, Sync):
            if entry.kind == "barrier":
                if barrier is not None and not needed:
                    idle.add(barrier)
                barrier, needed = place, False
            continue
        for access in entry.effects.memory:
            if access.space != "lds":
                continue
            if access.write:
                landed = [other for other in landed if not access.conflicts(other)]
                needed = True
            elif not access.part:
                needed = True
            elif not any(other.low <= access.low and access.high <= other.high for other in landed):
                landed.append(access)
                needed = True
    if barrier is not None and not needed:
        idle.add(barrier)
    return idle
