"""Waves that leave the end of a pipeline before the others, as their last iterations change nothing that they store (tiles behind a mask).

Barriers are for all waves, and LDS is filled by all. So a wave may leave where every operation behind it belongs to an iteration that
it can do without, but for its *duties*: what fills LDS, and what that is made of. A way of its own takes it through duties and barriers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from asmgen.author.effects import Unit
from asmgen.author.schedules import Sync
from asmgen.isa.records import dataclass
from asmgen.isa.registers import scc

Entries = Sequence[Sync | Unit]


@dataclass(frozen=True)
class Leave:
    """In front of entry `at` of copy `copy` a wave may leave that can do without the last `idle` iterations; `way` is what it still does:
    duties, barriers, and each wait point with whether fills of memory have to have landed there."""

    copy: int
    at: int
    idle: int
    way: tuple[Unit | Sync, ...]
    landed: frozenset[int]


def leaves(copies: Sequence[Entries], offsets: Mapping[int, int], first: int, apart: int) -> list[Leave]:
    """The places where waves may leave copies of a step up to the end of a loop: behind a barrier, the earliest for each number of
    iterations that they can do without.

    `offsets` are iterations by ordinal; iterations of copy `first` and before it are never done without. `apart` is the number of barriers
    between the wait for a fill of LDS and a read of it by other waves.
    """
    flat = [(copy, at, entry) for copy, entries in enumerate(copies) for at, entry in enumerate(entries)]
    duties = _duties([entry for _, _, entry in flat])
    found: dict[int, int] = {}
    earliest, tested = len(copies), False  # iteration; whether what SCC holds is still to be read
    for place in reversed(range(len(flat))):
        copy, _, entry = flat[place]
        if isinstance(entry, Unit):
            if place in duties and entry.is_block:
                break
            if place not in duties:
                earliest = min(earliest, copy + offsets[entry.tag.ordinal])
            if earliest <= first:
                break
            tested = bool(entry.effects.reads & scc.mask) or tested and not entry.effects.writes & scc.mask
        if _behind_barrier(flat, place) and earliest < len(copies) and not tested:
            found[len(copies) - earliest] = place
    return [_leave(flat, duties, idle, place, apart) for idle, place in found.items()]


def _behind_barrier(flat: Sequence[tuple[int, int, Sync | Unit]], place: int) -> bool:
    before = flat[place - 1][2] if place else Sync("barrier")
    return isinstance(before, Sync) and before.kind in ("barrier", "level")


def _duties(entries: Entries) -> set[int]:
    """The places of units that fill LDS, or write registers that such a unit behind them reads."""
    found: set[int] = set()
    needed = 0
    for place in reversed(range(len(entries))):
        unit = entries[place]
        if not isinstance(unit, Unit):
            continue
        effects = unit.effects
        if effects.writes & needed or any(access.space == "lds" and access.write for access in effects.memory):
            found.add(place)
            needed = (needed if effects.keeps else needed & ~effects.writes) | effects.reads
    return found


def _leave(flat: Sequence[tuple[int, int, Sync | Unit]], duties: set[int], idle: int, place: int, apart: int) -> Leave:
    """What is done from a place on, with the wait points at which fills must have landed: for each read of the others the last one that
    is far enough in front of it."""
    way: list[Unit | Sync] = []
    landed: set[int] = set()
    points: list[tuple[int, int]] = []  # wait points in the way, with how many barriers stand before them
    barriers = 0
    for number in range(place, len(flat)):
        entry = flat[number][2]
        if isinstance(entry, Sync):
            if entry.kind == "wait":
                points.append((len(way), barriers))
            barriers += entry.kind == "barrier"
            way.append(entry)
            continue
        if any(access.space == "lds" and not access.write for access in entry.effects.memory):
            landed |= set([at for at, before in points if barriers - before >= apart][-1:])
        if number in duties:
            way.append(entry)
    copy, at, _ = flat[place]
    return Leave(copy, at, idle, tuple(way), frozenset(landed))
