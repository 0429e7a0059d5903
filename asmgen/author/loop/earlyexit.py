"""Early exit: a wave leaves the end of a pipeline before the others, as its last iterations do not change what it stores.

That is so for tiles that a mask hides from the wave. All waves fill LDS, and all pass each barrier. So some units stay *required* after
the exit: those that fill LDS, and those that compute what is filled. A wave exits where all units after it are required or belong to an
iteration that the wave skips. It then runs code of its own: the required units, the barriers and the wait slots.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from asmgen.author.schedule.handoffs import read_by_others
from asmgen.author.schedule.schedules import Sync
from asmgen.author.step.effects import Unit
from asmgen.isa.records import dataclass
from asmgen.isa.registers import scc
from asmgen.program.program import TokenUse

Entries = Sequence[Sync | Unit]


@dataclass(frozen=True)
class EarlyExit:
    """A wave that skips the last `skipped` iterations may exit before entry `at` of copy `copy`, after `units` of its units. `code` is what
    it still executes; `steps` says of each entry how many copies after that one it comes from.

    `reads` holds, for positions of barriers in `code`, the LDS bytes that other waves read after that barrier.
    """

    copy: int
    at: int
    skipped: int
    units: int
    code: tuple[Unit | Sync, ...]
    steps: tuple[int, ...]
    reads: Mapping[int, tuple[TokenUse, ...]]


def early_exits(copies: Sequence[Entries], offsets: Mapping[int, int], first: int) -> list[EarlyExit]:
    """The early exits from copies of a step up to the end of a loop: for each number of skipped iterations the earliest one.

    An exit stands after a barrier. `offsets` are iterations by ordinal. No wave skips iterations of copy `first` or an earlier one.
    """
    flat = [(copy, at, entry) for copy, entries in enumerate(copies) for at, entry in enumerate(entries)]
    required = _required([entry for _, _, entry in flat])
    found: dict[int, int] = {}
    earliest, tested = len(copies), False  # iteration; whether a later unit reads the SCC of this position
    for position in reversed(range(len(flat))):
        copy, _, entry = flat[position]
        if isinstance(entry, Unit):
            if position in required and entry.is_block:
                break
            if position not in required:
                earliest = min(earliest, copy + offsets[entry.tag.ordinal])
            if earliest <= first:
                break
            tested = bool(entry.effects.reads & scc.mask) or tested and not entry.effects.writes & scc.mask
        if _follows_barrier(flat, position) and earliest < len(copies) and not tested:
            found[len(copies) - earliest] = position
    return [_early_exit(flat, required, skipped, position) for skipped, position in found.items()]


def _follows_barrier(flat: Sequence[tuple[int, int, Sync | Unit]], position: int) -> bool:
    before = flat[position - 1][2] if position else Sync("barrier")
    return isinstance(before, Sync) and before.kind in ("barrier", "level")


def _required(entries: Entries) -> set[int]:
    """The positions of the units that fill LDS, and of those that write registers which a required unit reads later."""
    found: set[int] = set()
    needed = 0
    for position in reversed(range(len(entries))):
        unit = entries[position]
        if not isinstance(unit, Unit):
            continue
        effects = unit.effects
        if effects.writes & needed or any(access.space == "lds" and access.write for access in effects.memory):
            found.add(position)
            needed = (needed if effects.keeps else needed & ~effects.writes) | effects.reads
    return found


def _early_exit(flat: Sequence[tuple[int, int, Sync | Unit]], required: set[int], skipped: int, position: int) -> EarlyExit:
    """The early exit at a position: the code that the wave still executes, and what other waves read meanwhile."""
    copy, at, _ = flat[position]
    kept = [number for number in range(position, len(flat)) if isinstance(flat[number][2], Sync) or number in required]
    code, steps = [flat[number][2] for number in kept], [flat[number][0] - copy for number in kept]
    read = read_by_others([entry for _, _, entry in flat[position:]], {number - position for number in required})
    units = sum(isinstance(entry, Unit) and number == copy for number, _, entry in flat[:position])
    return EarlyExit(copy, at, skipped, units, tuple(code), tuple(steps),
                     {kept.index(position + number): uses for number, uses in read.items()})
