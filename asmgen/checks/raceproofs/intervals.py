"""What waves may do between two barriers: the ways from a barrier to the next ones, by what is decided where others decide alike.

Between barriers, accesses of all ways with the same decisions are taken together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from asmgen.checks.counters.ledger import Operation
from asmgen.checks.raceproofs.lifetimes import Key, Lifetimes
from asmgen.checks.raceproofs.outcome import CannotTell
from asmgen.checks.raceproofs.valuepaths import ValuePaths
from asmgen.isa.records import dataclass

_MOST_WAYS = 600
"""Ways between two barriers that are told apart: a bound of the work."""
END: Key = (-1, -1)
"""Where a wave has ended."""
Decision = tuple[int, int]
"""The block that a branch ends, and the block that follows."""


@dataclass(frozen=True)
class Way:
    """From one barrier (or the begin) to another, or to END: what is decided, and which accesses are alive at some time meanwhile."""

    decisions: tuple[Decision, ...]
    accesses: frozenset[Key]
    after: Key


class Intervals:
    """The ways of the waves in `waves` (a bit each, all of which go the same ways as far as is known), where those in blocks `common`
    decide as others do. A barrier is named by node and position; the begin of a node by position -1."""

    def __init__(self, paths: ValuePaths, operations: Sequence[Operation], alive: Lifetimes, accesses: frozenset[int], waves: int,
                 common: frozenset[int]) -> None:
        self._paths, self._alive, self._waves, self._common = paths, alive, waves, common
        self._events = [[(position, position in accesses) for position in range(block.first, block.last + 1)
                         if position in accesses or operations[position].barrier] for block in paths.flow.blocks]
        self._known: dict[Key, tuple[Way, ...]] = {}
        self.left = frozenset[Key]().union(*(keys for number, keys in alive.at_end.items() if paths.nodes[number].waves & waves == waves))
        """What may be alive as these waves end."""

    def ways(self, barrier: Key) -> tuple[Way, ...]:
        """All ways from a barrier on. Raises CannotTell for too many."""
        known = self._known.get(barrier)
        if known is None:
            known = self._known[barrier] = tuple(self._found(barrier))
        return known

    def followers(self, number: int) -> list[int]:
        """The nodes that may follow a node."""
        return [way for way in self._paths.nodes[number].ways if self._paths.nodes[way].waves & self._waves == self._waves]

    def _found(self, barrier: Key) -> Iterable[Way]:
        found: dict[tuple[tuple[Decision, ...], Key], frozenset[Key]] = {}
        flying = self._alive.at_barrier.get(barrier, frozenset())
        waiting: list[tuple[list[Key], tuple[Decision, ...], frozenset[Key]]] = [([barrier], (), flying)]
        while waiting:
            starts, decisions, before = waiting.pop()
            accesses, stops, deciding = self._closure(starts)
            accesses |= before
            for stop in stops:
                found[decisions, stop] = found.get((decisions, stop), frozenset()) | accesses
            for block, nodes in deciding.items():
                onward: dict[int, list[Key]] = {}
                for node in nodes:
                    for way in self.followers(node):
                        onward.setdefault(self._paths.nodes[way].block, []).append((way, -1))
                waiting += [(targets, (*decisions, (block, target)), accesses) for target, targets in onward.items()]
            if len(found) + len(waiting) > _MOST_WAYS:
                raise CannotTell("there are too many ways between two barriers", max(0, barrier[1]))
        return [Way(decisions, accesses, stop) for (decisions, stop), accesses in found.items()]

    def _closure(self, starts: Iterable[Key]) -> tuple[frozenset[Key], set[Key], Mapping[int, list[int]]]:
        """What is reached without a common decision: accesses, barriers (or END), and by block the nodes that end in such a decision."""
        accesses, stops, deciding = set[Key](), set[Key](), dict[int, list[int]]()
        waiting, seen = list(starts), set(starts)
        while waiting:
            number, start = waiting.pop()
            node = self._paths.nodes[number]
            for position, access in self._events[node.block]:
                if position <= start:
                    continue
                if not access:
                    stops.add((number, position))
                    break
                accesses.add((number, position))
            else:
                followers = self.followers(number)
                if not node.ways:
                    stops.add(END)
                elif node.block in self._common:
                    deciding.setdefault(node.block, []).append(number)
                else:
                    for way in followers:
                        if (way, -1) not in seen:
                            seen.add((way, -1))
                            waiting.append((way, -1))
        return frozenset(accesses), stops, deciding
