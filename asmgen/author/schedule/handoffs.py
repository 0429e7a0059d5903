"""Where LDS changes hands in a step, and the barriers for it.

Waves read what all of them wrote. So between a write and a read of those bytes stands a barrier, after the write has settled; and between
a read and the write that refills the bytes stands a barrier, after the read's data have arrived. A *hold* is a stretch of time within which
one of the step's barriers must stand, for accesses whose times are known. A fill is free to move: each set of barriers gives it a range
(`barrierchoice`). Times are ticks; those of an access lie in its copy, or before it where the access leads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from asmgen.author.step.effects import MemoryAccess, Unit


class Handoff(NamedTuple):
    """A write of LDS and a read of the same bytes, ordinals, the read `copies` after the write. `fresh`: the read wants what is written;
    else it is the last one of the old bytes, and `copies` is negative or 0."""

    write: int
    read: int
    copies: int
    fresh: bool


def handoffs(phases: Sequence[Sequence[Unit]], offsets: Mapping[int, int]) -> list[Handoff]:
    """The handoffs of a step in any phase: for each write the nearest reads of each kind."""
    steps = 2 * len(phases) + 4
    reads: list[tuple[int, int, int, MemoryAccess]] = []
    writes: list[tuple[int, int, int, MemoryAccess]] = []
    for step in range(steps):
        for unit in phases[step % len(phases)]:
            index = step + offsets[unit.tag.ordinal]
            for access in unit.effects.memory:
                if access.space == "lds":
                    (writes if access.write else reads).append((step, index, unit.tag.ordinal, access))
    found: dict[tuple[int, int, bool], int] = {}
    for step, index, write, access in writes:
        if not len(phases) <= step - 2 < 2 * len(phases):
            continue
        for other_step, other_index, read, reading in reads:
            if reading.low < access.high and access.low < reading.high and other_index <= index:
                key = write, read, other_index == index
                copies = other_step - step
                nearest = min if key[2] else max
                found[key] = nearest(found.get(key, copies), copies)
    return [Handoff(write, read, copies, fresh) for (write, read, fresh), copies in found.items()]
