"""Waves that leave the end of a pipeline before the others, as their last iterations change nothing that they store (tiles behind a mask).

Barriers are for all waves, and LDS is filled by all. So a wave may leave where every operation behind it belongs to an iteration that
it can do without, but for its *duties*: what fills LDS, and what that is made of. A way of its own takes it through duties and barriers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from asmgen.author.schedule.schedules import Sync
from asmgen.author.step.effects import Unit
from asmgen.isa.records import dataclass
from asmgen.isa.registers import scc
from asmgen.program.program import TokenUse

Entries = Sequence[Sync | Unit]


@dataclass(frozen=True)
class Leave:
    """In front of entry `at` of copy `copy` a wave may leave that can do without the last `idle` iterations; `way` is what it still does:
    duties, barriers and wait points. `read` are, by place in the way, barriers with what others read of LDS behind them."""

    copy: int
    at: int
    idle: int
    way: tuple[Unit | Sync, ...]
    read: Mapping[int, tuple[TokenUse, ...]]


def leaves(copies: Sequence[Entries], offsets: Mapping[int, int], first: int) -> list[Leave]:
    """The places where waves may leave copies of a step up to the end of a loop: behind a barrier, the earliest for each number of
    iterations that they can do without.

    `offsets` are iterations by ordinal; iterations of copy `first` and before it are never done without.
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
    return [_leave(flat, duties, idle, place) for idle, place in found.items()]


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


def _leave(flat: Sequence[tuple[int, int, Sync | Unit]], duties: set[int], idle: int, place: int) -> Leave:
    """What is done from a place on, and what others read there that a wave that leaves does not."""
    way: list[Unit | Sync] = []
    read: dict[int, dict[TokenUse, None]] = {}
    for number in range(place, len(flat)):
        entry = flat[number][2]
        if isinstance(entry, Sync):
            if entry.kind == "barrier":
                read[len(way)] = {}
            way.append(entry)
        elif number in duties:
            way.append(entry)
        elif read:
            read[max(read)] |= {use: None for instruction in entry.instructions for use in instruction.tokens}
    copy, at, _ = flat[place]
    return Leave(copy, at, idle, tuple(way), {number: tuple(uses) for number, uses in read.items() if uses})
