"""Where LDS changes hands in a step, and the barriers for it.

Waves read what all of them wrote. So between a write and a read of those bytes stands a barrier, after the write has settled; and between
a read and the write that refills the bytes stands a barrier, after the read's data have arrived. A *hold* is a stretch of time within which
one of the step's barriers must stand, for accesses whose times are known. A fill is free to move: each set of barriers gives it a range.
Times are ticks; those of an access lie in its copy, or before it where the access leads.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from operator import or_
from typing import NamedTuple

from asmgen.author.step.effects import MemoryAccess, Unit

Ticks = tuple[int, int]
"""The first and the last tick of a range."""


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


class FillKind(NamedTuple):
    """What decides the range of a fill: when the old bytes are read for the last time, their data there, and the new ones for the first
    time; how long the fill takes to settle; and the ticks that it keeps free at the end of the step."""

    old: int
    new: int
    settle: int
    spare: int = 0

    def range_of(self, barrier: int, length: int) -> Ticks:
        """The ticks that one barrier allows."""
        ahead = barrier + length * ((self.new - 1 - barrier) // length)
        return max(0, barrier + length * ((self.old - barrier) // length + 1)), min(length - 1 - self.spare, ahead - self.settle)


class BarrierChoice(NamedTuple):
    """Barriers by tick, and the range of each kind of fill."""

    barriers: tuple[int, ...]
    ranges: tuple[Ticks, ...]


def choose_barriers(kinds: Sequence[FillKind], fills: Sequence[int], holds: Sequence[Ticks], grid: Sequence[int], length: int, count: int,
                    cover: int) -> BarrierChoice | None:
    """The `count` barriers on the grid that serve all holds and leave most slack to the narrowest range of a fill; None if none do.

    `fills` are numbers of kinds, one for each fill; `cover` are the ticks from one fill to the next. The range of several barriers begins
    with the earliest tick and ends with the latest one that one of them allows. So the ranges of all barriers from a grid position on
    bound each choice among them.
    """
    alone = [[kind.range_of(barrier, length) for kind in kinds] for barrier in grid]
    served = [frozenset(number for number, hold in enumerate(holds) if _stands_in(barrier, hold, length)) for barrier in grid]
    every = frozenset(range(len(holds)))
    spans_left = list(itertools.accumulate(reversed(alone), _union))[::-1]
    serves_left = list(itertools.accumulate(reversed(served), or_))[::-1]
    best: tuple[int, BarrierChoice] | None = None

    def search(position: int, chosen: tuple[int, ...], spans: Sequence[Ticks], serving: frozenset[int]) -> None:
        nonlocal best
        if len(chosen) == count:
            if serving == every and _fits(fills, spans, cover):
                best = _slack(spans), BarrierChoice(chosen, tuple(spans))
            return
        for at in range(position, len(grid) - (count - len(chosen)) + 1):
            least = -1 if best is None else best[0]
            if serving | serves_left[at] != every or _slack(_union(spans, spans_left[at]) if chosen else spans_left[at]) <= least:
                return
            wider = _union(spans, alone[at]) if chosen else alone[at]
            if len(chosen) + 1 < count or _slack(wider) > least:
                search(at + 1, (*chosen, grid[at]), wider, serving | served[at])

    search(0, (), [], frozenset())
    return None if best is None else best[1]


def _stands_in(barrier: int, hold: Ticks, length: int) -> bool:
    """Whether a barrier of some copy stands in a hold."""
    following = (hold[0] - barrier) // -length * -length + barrier  # the first one from the hold's beginning on
    return hold[0] <= following <= hold[1]


def _union(one: Sequence[Ticks], other: Sequence[Ticks]) -> list[Ticks]:
    return [(min(first, begin), max(last, end)) for (first, last), (begin, end) in zip(one, other, strict=True)]


def _slack(spans: Sequence[Ticks]) -> int:
    """The free ticks of the narrowest range; negative if one is empty."""
    return min([last - first for first, last in spans], default=0)


def _fits(fills: Sequence[int], spans: Sequence[Ticks], cover: int) -> bool:
    """Whether the fills fit into the ranges of their kinds, `cover` apart; the earliest deadline goes first."""
    deadlines = [(last, first) for first, last in spans]
    at = 0
    for kind in sorted(fills, key=deadlines.__getitem__):
        last, first = deadlines[kind]
        at = max(at, first)
        if at > last or first > last:
            return False
        at += cover
    return True
