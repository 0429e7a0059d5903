"""Which barriers of straight-line steps nobody needs: they order no LDS data, and without them no halves of a workgroup compute at once.

Data: with a stagger of n, what other waves fill is waited for at least 1 + n barriers before it is read, and reads so before the place is
filled anew. Wherever that wait stands, it stands before the last 1 + n barriers in front of the access: those stay, for the first access
of its kind to those bytes. What was read before has landed for every wave, and what is being filled anew is read no more.
A prologue that sets halves apart waits in front of 1 + n barriers of its own: what code before the pipeline does stands in order by those.

Matrix cores: while halves run n barriers apart, one half is where the other was n barriers before. A barrier stays that keeps MFMAs of
both places apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from asmgen.author.schedule.schedules import Sync, is_matrix
from asmgen.author.step.effects import MemoryAccess, Unit
from asmgen.isa.registers import scc

Entries = Sequence[Sync | Unit]
_BARRIER = Sync("barrier")


def idle_barriers(entries: Entries, stagger: int = 0, ways: Mapping[int, Entries] | None = None) -> dict[int, Sync | None]:
    """The places in `entries` of the barriers that may go, each with what takes its place, if anything.

    `entries` is code without a branch up to the end of a loop: code behind it that fills LDS anew brings a barrier of its own. `ways` are
    the places where paths enter it, each with what that path does in front; left out, one path from unknown code to the first entry. A
    path that sets half of the waves behind says so by a Sync("open"); on other paths they are behind already. Where that is the only path,
    this may wait: a Sync("open") takes the place of the last barrier that goes in front of all that stay. A Sync("level"), by which the
    halves come level again, takes that of the first that goes behind them. Every barrier before LDS accesses that name no token stays.
    """
    entered: Mapping[int, Entries] = {0: ()} if ways is None else ways
    needed: set[int] = set()
    for place, front in entered.items():
        needed |= {place - len(front) + at for at in _ordering([*front, *entries[place:]], 1 + stagger) if at >= len(front)}
    barriers = [place for place, entry in enumerate(entries) if entry == _BARRIER]
    if not stagger:
        return dict.fromkeys(sorted({*barriers} - needed))
    tested = _tested(entries)
    level = next((place for place in barriers if place > max(needed, default=-1) and place not in tested), len(entries))
    idle = {place for place in barriers if place >= level}
    paths = [_marks(front, -len(front)) + _marks(entries[place:level], place) for place, front in entered.items() if place < level]
    meetings = [_meetings(path, idle, stagger) for path in paths]
    for place in reversed(barriers):
        if place < level and place not in needed:
            without = [_meetings(path, idle | {place}, stagger) for path in paths]
            if all(after <= before for after, before in zip(without, meetings, strict=True)):
                idle.add(place)
                meetings = without
    found: dict[int, Sync | None] = dict.fromkeys(sorted(idle))
    first = next((place for place in barriers if place not in idle), 0)
    falls = max((place for place in idle if place < first and place not in tested), default=None)
    if falls is not None and [*entered] == [0] and Sync("open") in entered[0]:
        found[falls] = Sync("open")
    if level in idle:
        found[level] = Sync("level")
    return found


def _ordering(entries: Entries, count: int) -> set[int]:
    """The places of the last `count` barriers in front of each first access of LDS bytes; but where all since the beginning is known, and
    with it so many barriers in front of everything, the first access of all is ordered by those."""
    found: set[int] = set()
    barriers: list[int] = []
    done: list[MemoryAccess] = []  # in whose order others stand too
    before: list[MemoryAccess] = []
    known = False
    for place, entry in enumerate(entries):
        if isinstance(entry, Sync):
            barriers += [place] if entry == _BARRIER else []
            known |= entry.kind == "open" and len(barriers) >= count
            continue
        for access in entry.effects.memory:
            if access.space != "lds":
                continue
            if not access.part:
                found.update(barriers)
            elif not any(_covers(other, access) for other in done):
                done = [*(other for other in done if not access.conflicts(other)), access]
                if not known or any(access.conflicts(other) for other in before):
                    found.update(barriers[-count:])
                before.append(access)
    return found


def _tested(entries: Entries) -> set[int]:
    """The places at which SCC holds what is still to be read, so that no branch for one half fits in."""
    found: set[int] = set()
    held = False
    for place in reversed(range(len(entries))):
        entry = entries[place]
        if isinstance(entry, Unit):
            held = bool(entry.effects.reads & scc.mask) or held and not entry.effects.writes & scc.mask
        elif held:
            found.add(place)
    return found


def _covers(one: MemoryAccess, other: MemoryAccess) -> bool:
    """Whether what orders one access orders the other, later one too."""
    return one.low <= other.low and other.high <= one.high and not one.conflicts(other)


def _marks(entries: Entries, first: int) -> list[tuple[str, int]]:
    """What counts for the matrix cores, with its place: "barrier", "open" or "matrix"."""
    found = []
    for place, entry in enumerate(entries, first):
        if isinstance(entry, Sync):
            found += [(entry.kind, place)] if entry.kind in ("barrier", "open") else []
        elif is_matrix(entry):
            found.append(("matrix", place))
    return found


def _meetings(path: Iterable[tuple[str, int]], idle: set[int], stagger: int) -> int:
    """How often both halves compute between the same two barriers."""
    computed = [False] * (stagger + 1)  # behind each of the last barriers
    found = 0
    for kind, place in path:
        if kind == "open":
            computed = [False] * (stagger + 1)
        elif kind == "matrix":
            found += computed[0] and not computed[-1]
            computed[-1] = True
        elif place not in idle:
            computed = [*computed[1:], False]
    return found
