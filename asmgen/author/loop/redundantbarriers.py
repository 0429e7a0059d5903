"""Redundant-barrier elimination for straight-line code.

A barrier goes if it orders no LDS access and its removal never lets both wave groups issue MFMAs together.

LDS: with a stagger of n, a wave waits for what other waves fill at least 1 + n barriers before it reads. It waits for its reads at least
1 + n barriers before other waves refill those bytes. Such a wait stands before the last 1 + n barriers before the access. So these
barriers stay for the first access of each kind to those bytes. A later access of the same kind needs no barriers of its own. A prologue
that staggers the groups waits before 1 + n barriers of its own; they order what code before the pipeline does.

Matrix cores: while the groups run n barriers apart, one group is where the other one was n barriers ago. A barrier stays if it keeps MFMAs
of the two groups apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import accumulate, chain
from typing import NamedTuple

from asmgen.author.schedule.handoffs import BARRIER, barriers_apart, ordering_barriers
from asmgen.author.schedule.schedules import Sync, is_matrix
from asmgen.author.step.effects import Unit
from asmgen.isa.registers import scc

Entries = Sequence[Sync | Unit]


class LoopBefore(NamedTuple):
    """A loop before code: what it goes on with as a rule, the entries of a round, and the paths that enter it, each with the place in
    what it runs before the code."""

    onward: Entries
    round: int
    ways: Sequence[tuple[int, Entries]] = ()


def loop_around(before: Sequence[Entries], onward: Sequence[Entries], unroll: int,
                ways: Iterable[tuple[int, Entries]]) -> tuple[Entries, LoopBefore]:
    """What a loop of `unroll` copies runs before code, and the loop; its copies go `onward` as a rule. Ways begin at one of the first."""
    begins = [0, *accumulate(map(len, before))]
    return [*chain(*before)], LoopBefore([*chain(*onward)], begins[unroll], [(begins[copy], front) for copy, front in ways])


def redundant_barriers(entries: Entries, stagger: int = 0, prefixes: Mapping[int, Entries] | None = None,
                       kept: Set[int] = frozenset(), loop: LoopBefore | None = None) -> dict[int, Sync | None]:
    """The positions in `entries` of the redundant barriers, each with its replacement (None: nothing).

    `entries` is code without a branch up to the end of a loop. Code after it that refills LDS has a barrier of its own. `prefixes` holds
    the positions at which paths enter the code, each with the entries that the path runs before. The default is one path of unknown code
    that enters at 0. The barriers in `kept` stay. With a `loop` the path that enters at 0 is that: its barriers stay, and it waits
    there for what it reads next, though `entries` do not read it, and for what paths into it make it wait for.

    A path that opens the stagger has a Sync("open"); on other paths the stagger is open already. If there is only that path, the opening
    may come later: a Sync("open") replaces the last redundant barrier before all barriers that stay. A Sync("level"), which closes the
    stagger, replaces the first redundant barrier after them. All barriers before an LDS access without a token stay.
    """
    entered: Mapping[int, Entries] = {0: ()} if prefixes is None else prefixes
    needed = kept | _needed(entries, stagger, entered, loop)
    barriers = [position for position, entry in enumerate(entries) if entry == BARRIER]
    if not stagger:
        return dict.fromkeys(sorted({*barriers} - needed))
    tested = _tested(entries)
    level = next((position for position in barriers if position > max(needed, default=-1) and position not in tested), len(entries))
    redundant = {position for position in barriers if position >= level}
    paths = [_marks(prefix, -len(prefix)) + _marks(entries[start:level], start) for start, prefix in entered.items() if start < level]
    overlaps = [_overlaps(path, redundant, stagger) for path in paths]
    for position in reversed(barriers):
        if position < level and position not in needed:
            without = [_overlaps(path, redundant | {position}, stagger) for path in paths]
            if all(after <= before for after, before in zip(without, overlaps, strict=True)):
                redundant.add(position)
                overlaps = without
    found: dict[int, Sync | None] = dict.fromkeys(sorted(redundant))
    first = next((position for position in barriers if position not in redundant), 0)
    falls = max((position for position in redundant if position < first and position not in tested), default=None)
    if falls is not None and [*entered] == [0] and Sync("open") in entered[0]:
        found[falls] = Sync("open")
    if level in redundant:
        found[level] = Sync("level")
    return found


def _needed(entries: Entries, stagger: int, entered: Mapping[int, Entries], loop: LoopBefore | None) -> set[int]:
    """The barriers that order LDS accesses on some path. A wait before one of them is as strict as any path needs it, so that later
    barriers of others may have nothing left to order."""
    needed: set[int] = set()
    waits: dict[int, int] = {}
    paths = [(position, position - len(prefix), [*prefix, *entries[position:]], *_of_loop(prefix, None if position else loop))
             for position, prefix in entered.items()]
    found = [ordering_barriers(path, barriers_apart(stagger), there, stays) for *_, path, there, stays in paths]
    for (position, first, *_), ordering in zip(paths, found, strict=True):
        for at, allowed in ordering.waits.items():
            if first + at >= position:
                waits[first + at] = min(allowed, waits.get(first + at, allowed))
    for (position, first, path, there, stays), ordering in zip(paths, found, strict=True):
        known = {at: waits[first + at] for at in ordering.barriers if first + at >= position and first + at in waits}
        stricter = not stagger and any(allowed < ordering.waits.get(at, allowed + 1) for at, allowed in known.items())
        barriers = ordering_barriers(path, 1, {**there, **known}, stays).barriers if stricter else ordering.barriers
        needed |= {first + at for at in barriers if first + at >= position}
    return needed


def _of_loop(copies: Entries, loop: LoopBefore | None) -> tuple[Mapping[int, int], Set[int]]:
    """The waits and the barriers of copies of a loop; nothing is known of other code. A wait of one round is one of all."""
    if loop is None:
        return {}, frozenset()
    waits: dict[int, int] = {}
    ways = ((start, front, [*front, *copies[start:]]) for start, front in loop.ways)
    for start, front, path in ((0, (), [*copies, *loop.onward]), *ways):  # what a way began is read in the copies before the code
        for at, allowed in ordering_barriers(path, barriers_apart(0)).waits.items():
            if at >= len(front):
                place = (at - len(front) + start) % loop.round
                waits[place] = min(allowed, waits.get(place, allowed))
    barriers = frozenset(at for at, entry in enumerate(copies) if entry == BARRIER)
    return {at: waits[at % loop.round] for at in barriers if at % loop.round in waits}, barriers


def barriers_between(before: Entries, after: Entries) -> tuple[set[int], set[int]]:
    """The positions in `before` and in `after` of the barriers that order LDS accesses if `after` follows `before`, without a stagger."""
    needed = ordering_barriers([*before, *after], barriers_apart(0)).barriers
    return {at for at in needed if at < len(before)}, {at - len(before) for at in needed if at >= len(before)}


def barriers_from(first: int, copies: Sequence[Entries]) -> set[int]:
    """The barriers of the copies from copy `first` on, numbered over all copies."""
    begin = sum(map(len, copies[:first]))
    return {at for at, entry in enumerate((entry for copy in copies[first:] for entry in copy), begin) if entry == BARRIER}


def where_needed(entries: Entries, holds: bool) -> list[Sync | Unit]:
    """The entries; if that `holds`, verification of the finished program says which of their barriers stay."""
    return [Sync("where_needed") if holds and entry == BARRIER else entry for entry in entries]


def _tested(entries: Entries) -> set[int]:
    """The positions at which a later unit still reads SCC: no branch for one wave group fits there."""
    found: set[int] = set()
    held = False
    for position in reversed(range(len(entries))):
        entry = entries[position]
        if isinstance(entry, Unit):
            held = bool(entry.effects.reads & scc.mask) or held and not entry.effects.writes & scc.mask
        elif held:
            found.add(position)
    return found


def _marks(entries: Entries, first: int) -> list[tuple[str, int]]:
    """The entries that matter for the matrix cores, each with its position: "barrier", "open" or "matrix"."""
    found = []
    for position, entry in enumerate(entries, first):
        if isinstance(entry, Sync):
            found += [(entry.kind, position)] if entry.kind in ("barrier", "open") else []
        elif is_matrix(entry):
            found.append(("matrix", position))
    return found


def _overlaps(path: Iterable[tuple[str, int]], redundant: set[int], stagger: int) -> int:
    """How often both wave groups compute between the same two barriers."""
    computed = [False] * (stagger + 1)  # after each of the last barriers
    found = 0
    for kind, position in path:
        if kind == "open":
            computed = [False] * (stagger + 1)
        elif kind == "matrix":
            found += computed[0] and not computed[-1]
            computed[-1] = True
        elif position not in redundant:
            computed = [*computed[1:], False]
    return found
