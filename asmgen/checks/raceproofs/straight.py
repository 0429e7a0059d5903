"""Whether nothing speaks against a way that a race needs: after ways have joined, no branch on it is decided by what is not known.

A branch after a join may be one that the way taken before it decides, as in code that tests one condition twice. It is none where all that
may follow comes to the access without another barrier, as after loads under masks.
"""

from __future__ import annotations

from collections.abc import Set

from asmgen.checks.raceproofs.lifetimes import Key, Lifetimes
from asmgen.checks.raceproofs.valuepaths import ValuePaths
from asmgen.regalloc.dataflow import reached

_LONGEST = 2000


def straight(paths: ValuePaths, barrier: Key, access: Key, flying: bool, alive: Lifetimes, waves: int) -> bool:
    """Whether such a way leads from a barrier (or a begin) to an access before the next one, or from an access that is `flying` there to a
    barrier, with no wait for it between."""
    if flying:
        carrying = {number for number, living in enumerate(alive.at_exit) if access in living}
        if _leads(paths, access, barrier, waves, set(), carrying, access[0] in carrying):
            return True
    passed = barrier[1] if barrier[0] == access[0] and barrier[1] < access[1] else -1
    if any(number == access[0] and passed < position < access[1] for number, position in alive.at_barrier):
        return False
    passing = {node.number for node in paths.nodes} - {number for number, _ in alive.at_barrier}
    leaves = not any(number == barrier[0] and position > barrier[1] for number, position in alive.at_barrier)
    return _leads(paths, barrier, access, waves, _inevitable(paths, access, alive, waves), passing, leaves)


def _inevitable(paths: ValuePaths, access: Key, alive: Lifetimes, waves: int) -> set[int]:
    """The nodes from which every way comes to an access of the same bytes, if loops end, before it passes a barrier."""
    ends, same = paths.nodes[access[0]], _same(paths, access)
    barred = {number for number, position in alive.at_barrier
              if number not in same or paths.nodes[number].block == ends.block and position < access[1]}
    same -= barred
    leading: list[list[int]] = [[] for _ in paths.nodes]
    missing = set(barred)
    for node in paths.nodes:
        if node.waves & waves and node.number not in same:
            ways = [way for way in node.ways if paths.nodes[way].waves & waves]
            for way in () if node.number in barred else ways:
                leading[way].append(node.number)
            if not ways:
                missing.add(node.number)
    return {node.number for node in paths.nodes} - reached(leading, sorted(missing))


def _same(paths: ValuePaths, access: Key) -> set[int]:
    """The nodes in which the instruction of an access touches the same bytes."""
    ends = paths.nodes[access[0]]
    return {node.number for node in paths.nodes if node.block == ends.block and node.touched.get(access[1]) == ends.touched[access[1]]}


def _leads(paths: ValuePaths, start: Key, end: Key, waves: int, sure: set[int], passing: set[int], leaves: bool) -> bool:
    """Whether a way leads from one place to another, through nodes in `passing` alone and, with `leaves`, out of the first one; a node in
    `sure` comes there by all ways."""
    if start[0] == end[0] and start[1] < end[1]:
        return True
    if not leaves:
        return False
    counts = [0 for _ in paths.nodes]
    for node in paths.nodes:
        for way in node.ways:
            counts[way] += paths.nodes[way].waves & waves != 0
    waiting, seen = [(start[0], False)], set[tuple[int, bool]]()
    while waiting and len(seen) < _LONGEST:
        number, joined = waiting.pop()
        ways = [way for way in paths.nodes[number].ways if paths.nodes[way].waves & waves]
        if number in sure and number != start[0]:
            return True
        if joined and len(ways) > 1:
            continue
        for way in ways:
            if way == end[0]:
                return True
            state = way, joined or counts[way] > 1
            if way in passing and state not in seen:
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


def elected(paths: ValuePaths, blocks: frozenset[int], one: Key, other: Key, waves: tuple[int, int]) -> bool:
    """Whether two waves, each of which decides for itself at the ends of `blocks`, come to an access each by such decisions alone, and none
    of these parts them: one wave may be all that ever goes there, as the one that has drawn a ticket."""
    mine, theirs = (_needed(paths, blocks, _same(paths, access), wave) for access, wave in zip((one, other), waves, strict=True))
    parted = any(mine[block].isdisjoint(theirs[block]) for block in mine.keys() & theirs.keys())
    return not parted and all(_free(paths, needed.keys(), wave) for needed, wave in zip((mine, theirs), waves, strict=True))


def _free(paths: ValuePaths, blocks: Set[int], wave: int) -> bool:
    """Whether it is not known how a wave goes on from one of some blocks."""
    nodes = paths.nodes
    return any(sum(nodes[way].waves & wave != 0 for way in node.ways) > 1 for node in nodes if node.block in blocks and node.waves & wave)


def _needed(paths: ValuePaths, blocks: frozenset[int], ends: set[int], wave: int) -> dict[int, set[int]]:
    """By block, the blocks after it through which each way of a wave to some nodes goes."""
    nodes = paths.nodes
    ways = [[way for way in node.ways if nodes[way].waves & wave] for node in nodes]
    starts = [start for start in paths.starts if nodes[start].waves & wave]
    found: dict[int, set[int]] = {}
    for block in blocks:
        here = {node.number for node in nodes if node.block == block}
        for side in {nodes[way].block for number in here for way in ways[number]}:
            others = [[way for way in onward if nodes[way].block != side] if number in here else onward
                      for number, onward in enumerate(ways)]
            if ends.isdisjoint(reached(others, starts)):
                found.setdefault(block, set()).add(side)
    return found
