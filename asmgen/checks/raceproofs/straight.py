"""Whether nothing speaks against a way that a race needs: after ways have joined, no branch on it is decided by what is not known.

A branch after a join may be one that the way taken before it decides, as in code that tests one condition twice.
"""

from __future__ import annotations

from asmgen.checks.raceproofs.lifetimes import Key, Lifetimes
from asmgen.checks.raceproofs.valuepaths import ValuePaths
from asmgen.regalloc.dataflow import reached

_LONGEST = 2000


def straight(paths: ValuePaths, barrier: Key, access: Key, alive: Lifetimes, waves: int) -> bool:
    """Whether such a way leads from a barrier (or a begin) to an access after it, or from an access to a barrier over which it lives."""
    flying = access in alive.at_barrier.get(barrier, frozenset())
    return flying and _leads(paths, access, barrier, waves) or _leads(paths, barrier, access, waves)


def _leads(paths: ValuePaths, start: Key, end: Key, waves: int) -> bool:
    if start[0] == end[0] and start[1] < end[1]:
        return True
    counts = [0 for _ in paths.nodes]
    for node in paths.nodes:
        for way in node.ways:
            counts[way] += paths.nodes[way].waves & waves != 0
    waiting, seen = [(start[0], False)], set[tuple[int, bool]]()
    while waiting and len(seen) < _LONGEST:
        number, joined = waiting.pop()
        ways = [way for way in paths.nodes[number].ways if paths.nodes[way].waves & waves]
        if joined and len(ways) > 1:
            continue
        for way in ways:
            if way == end[0]:
                return True
            state = way, joined or counts[way] > 1
            if state not in seen:
                seen.add(state)
                waiting.append(state)
    return False


def contrary(paths: ValuePaths, blocks: frozenset[int], one: tuple[Key, Key], other: tuple[Key, Key], waves: tuple[int, int]) -> bool:
    """Whether two waves, which decide alike at the ends of `blocks`, would have to decide one of these in contrary ways to come from a
    barrier (or a begin) to an access each."""
    mine, theirs = (_decisions(paths, blocks, start, end, wave) for (start, end), wave in zip((one, other), waves, strict=True))
    return any(not mine[block] & theirs[block] for block in mine.keys() & theirs.keys())


def _decisions(paths: ValuePaths, blocks: frozenset[int], start: Key, end: Key, wave: int) -> dict[int, set[int]]:
    """By block, the blocks that may follow it on ways from one place to another."""
    nodes = paths.nodes
    ways = [[way for way in node.ways if nodes[way].waves & wave] for node in nodes]
    leading: list[list[int]] = [[] for _ in nodes]
    for number, onward in enumerate(ways):
        for way in onward:
            leading[way].append(number)
    between = reached(ways, [start[0]]) & reached(leading, [end[0]])
    found: dict[int, set[int]] = {}
    for number in between if start[0] != end[0] or start[1] >= end[1] else ():
        if nodes[number].block in blocks and number != end[0]:
            found.setdefault(nodes[number].block, set()).update(nodes[way].block for way in ways[number] if way in between)
    return found
