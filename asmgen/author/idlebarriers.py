"""Which barriers of straight-line steps order nothing: behind the last fill a loop's barriers guard LDS that nobody fills any more."""

from __future__ import annotations

from collections.abc import Sequence

from asmgen.author.effects import MemoryAccess, Unit
from asmgen.author.schedules import Sync


def idle_barriers(entries: Sequence[Sync | Unit], stagger: int = 0) -> set[int]:
    """The places of barriers between which and the next one no LDS is written, and only data read that was read before.

    What was read before has landed for every wave. `entries` is code without a branch up to the end of a loop: code behind it that fills
    LDS anew brings a barrier of its own. Every barrier before LDS accesses that name no token stays. With a `stagger` barriers also hold
    half of the waves behind, so those alone are idle behind which no other one is needed.
    """
    needs = set(_needs(entries))
    idle: set[int] = set()
    needed = False
    for place in reversed(range(len(entries))):
        if place in needs:
            needed = True
        if entries[place] == Sync("barrier"):
            if not needed:
                idle.add(place)
            elif not stagger:
                needed = False
    return idle


def _needs(entries: Sequence[Sync | Unit]) -> list[int]:
    """The places of LDS accesses that a barrier stands before: writes, and reads of what was not read before."""
    found: list[int] = []
    landed: list[MemoryAccess] = []
    for place, entry in enumerate(entries):
        for access in () if isinstance(entry, Sync) else entry.effects.memory:
            if access.space != "lds":
                continue
            if access.write:
                landed = [other for other in landed if not access.conflicts(other)]
            elif access.part and any(other.low <= access.low and access.high <= other.high for other in landed):
                continue
            elif access.part:
                landed.append(access)
            found.append(place)
    return found
