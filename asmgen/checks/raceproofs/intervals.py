"""What waves may do between two barriers: the ways from a barrier to the next ones, by what is decided where others decide alike.

Between barriers, accesses of all ways with the same decisions are taken together. What two waves with code of their own compute alike
(`alikecode`) is told in the same row as what they decide, so that each can be compared with the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from asmgen.checks.counters.ledger import Operation
from asmgen.checks.raceproofs.alikecode import AlikeWays
from asmgen.checks.raceproofs.lifetimes import Key, Lifetimes
from asmgen.checks.raceproofs.outcome import CannotTell
from asmgen.checks.raceproofs.valuepaths import ValuePaths
from asmgen.isa.records import dataclass

_MOST_WAYS = 600
"""Ways between two barriers that are told apart: a bound of the work."""
END: Key = (-1, -1)
"""Where a wave has ended."""
Decision = tuple[int | str, int]
"""The block that a branch ends, and the block that follows. In code of a wave's own: what is computed, or that SCC decides, and its bit."""
_ON_SCC = "SCC decides"


@dataclass(frozen=True)
class Way:
    """From one barrier (or the begin) to another, or to END: what is decided, and the accesses on it."""

    decisions: tuple[Decision, ...]
    accesses: frozenset[Key]
    after: Key


class Intervals:
    """The ways of the waves in `waves` (a bit each, all of which go the same ways as far as is known), where they decide and compute as
    others do what is in `alike`. A barrier is named by node and position; the begin of a node by position -1."""

    def __init__(self, paths: ValuePaths, operations: Sequence[Operation], alive: Lifetimes, accesses: frozenset[int], waves: int,
                 alike: AlikeWays) -> None:
        self._paths, self._alive, self._waves, self._alike = paths, alive, waves, alike
        self._events = [[position for position in range(block.first, block.last + 1)
                         if position in accesses or operations[position].barrier or position in alike.computed]
                        for block in paths.flow.blocks]
        self._accesses, self._operations = accesses, operations
        self._known: dict[Key, tuple[Way, ...]] = {}
        self._left = frozenset[Key]().union(*(keys for number, keys in alive.at_end.items() if paths.nodes[number].waves & waves == waves))

    def ways(self, barrier: Key) -> tuple[Way, ...]:
        """All ways from a barrier on; of a wave that has ended, to stay so. Raises CannotTell for too many."""
        known = self._known.get(barrier)
        if known is None:
            known = self._known[barrier] = (Way((), frozenset(), END),) if barrier == END else tuple(self._found(barrier))
        return known

    def alive(self, barrier: Key) -> frozenset[Key]:
        """What may be alive as these waves pass a barrier, or as they end."""
        return self._left if barrier == END else self._alive.at_barrier.get(barrier, frozenset())

    def followers(self, number: int) -> list[int]:
        """The nodes that may follow a node."""
        return [way for way in self._paths.nodes[number].ways if self._paths.nodes[way].waves & self._waves == self._waves]

    def _found(self, barrier: Key) -> Iterable[Way]:
        found: dict[tuple[tuple[Decision, ...], Key], frozenset[Key]] = {}
        waiting: list[tuple[list[Key], tuple[Decision, ...], frozenset[Key]]] = [([barrier], (), frozenset())]
        while waiting:
            starts, decisions, before = waiting.pop()
            accesses, stops, deciding = self._closure(starts)
            accesses |= before
            for stop in stops:
                found[decisions, stop] = found.get((decisions, stop), frozenset()) | accesses
            waiting += [(targets, (*decisions, decision), accesses) for decision, targets in deciding.items()]
            if len(found) + len(waiting) > _MOST_WAYS:
                raise CannotTell("there are too many ways between two barriers", max(0, barrier[1]))
        return [Way(decisions, accesses, stop) for (decisions, stop), accesses in found.items()]

    def _closure(self, starts: Iterable[Key]) -> tuple[frozenset[Key], set[Key], Mapping[Decision, list[Key]]]:
        """What is reached without a decision: accesses, barriers (or END), and by decision where ways go on."""
        accesses, stops, deciding = set[Key](), set[Key](), dict[Decision, list[Key]]()
        waiting, seen = list(starts), set(starts)
        while waiting:
            number, start = waiting.pop()
            ends = self._through(number, start, accesses, deciding)
            if ends is not None:
                stops.update(ends)
                continue
            for way in self.followers(number):
                decision = self._decided(number, way)
                if decision is not None:
                    deciding.setdefault(decision, []).append((way, -1))
                elif (way, -1) not in seen:
                    seen.add((way, -1))
                    waiting.append((way, -1))
        return frozenset(accesses), stops, deciding

    def _through(self, number: int, start: int, accesses: set[Key], deciding: dict[Decision, list[Key]]) -> set[Key] | None:
        """Go through a node from a position on; where the way ends there, if it does not go on to the node's followers."""
        node = self._paths.nodes[number]
        for position in self._events[node.block]:
            if position <= start:
                continue
            if self._operations[position].barrier:
                return {(number, position)}
            if position in self._accesses:
                accesses.add((number, position))
            elif number in self._alike.inside:
                deciding.setdefault((self._paths.program.instructions[position].text, 0), []).append((number, position))
                return set()
        return None if node.ways else {END}

    def _decided(self, number: int, way: int) -> Decision | None:
        """What a wave decides that goes from one node to another, where it decides as others do."""
        block, target = self._paths.nodes[number].block, self._paths.nodes[way].block
        if block in self._alike.branches:
            return block, target
        taken = self._alike.decided.get(block) if number in self._alike.inside else None
        return None if taken is None else (_ON_SCC, int(taken[0] == target) ^ taken[1])
