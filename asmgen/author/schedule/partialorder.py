"""An order under way: the ticks of the units that stand, the resources that they take, and the bounds of all others."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from functools import cached_property

from asmgen.author.schedule.reservations import Reservations
from asmgen.author.schedule.stepfacts import StepFacts
from asmgen.author.schedule.unitcosts import UnitKind
from asmgen.author.step.merge import described

FREE, VECTOR, BUS, LDS, MEMORY, PORT, APART, GAP = "issue", "vector", "bus", "lds", "memory", "port", "apart", "gap"
"""Resources of the reservation table. MEMORY is taken until data come back at the rate of memory, PORT while the cache's port is. APART is
what reads that stand apart take of each other, GAP all ticks between two matrix units: of those that stand alone there, none is late if an
earlier one waits for a bus."""


class PartialOrder:
    """One order of a step, of `length` ticks. Runs of packed f32 stand `delay` gaps after the one that their share of the work asks for.
    The last `ends` ticks are kept free.
    """

    def __init__(self, step: StepFacts, length: int, delay: int = 0, exact: bool = True, spread: bool = False, ends: int = 0) -> None:
        self.step, self.length, self.delay, self.exact, self.spread, self.ends = step, length, delay, exact, spread, ends
        self.preferred: frozenset[int] = frozenset()
        self.table = Reservations(length)
        self.at: dict[int, int] = {}
        self.earliest: dict[int, int] = {}
        self.latest: dict[int, int] = {}
        self.waits: set[int] = set()
        self.ranges: dict[int, tuple[int, int]] = {}  # of fills, between barriers

    def copy(self, exact: bool, spread: bool) -> PartialOrder:
        """The same, to be gone on with alone."""
        made = PartialOrder(self.step, self.length, self.delay, exact, spread, self.ends)
        made.preferred, made.table, made.at, made.waits = self.preferred, self.table.copy(), dict(self.at), set(self.waits)
        made.earliest, made.latest, made.ranges = self.earliest, self.latest, self.ranges
        return made

    def bound(self) -> None:
        """All bounds anew."""
        self.earliest, self.latest = self.bounds(forward=True), self.bounds(forward=False)

    def stand(self, number: int, tick: int, resource: str) -> None:
        cost = self.step.costs[number]
        self.at[number] = tick
        self.take_issue(tick, min(cost.issue, self.step.room))
        self.table.take(BUS, tick, cost.bus)
        self.table.take(resource, tick, cost.busy)
        self.table.take(PORT, tick, cost.port)

    def take_issue(self, tick: int, ticks: int = 1) -> None:
        """Ticks in which the wave issues, and with them the gap between two matrix units."""
        self.table.take(FREE, tick, ticks)
        begins = self.begins
        number = bisect_right(begins, tick % self.length) - 1
        begin = begins[number]
        self.table.take(GAP, begin, (begins[0] + self.length if number + 1 == len(begins) else begins[max(number, -1) + 1]) - begin)

    def beside(self, choices: Iterable[int]) -> int | None:
        """Where vector work binds the step, the first tick of some in which it holds the port and something else may issue."""
        if not self.step.vector_bound:
            return None
        return self.table.first([tick for tick in choices if tick % self.length in self.preferred], (FREE, 1))

    @cached_property
    def begins(self) -> list[int]:
        """The ticks of the matrix units."""
        return sorted(self.at[number] for number in self.step.matrix)

    def bounds(self, forward: bool) -> dict[int, int]:
        """By unit, its earliest (`forward`) or latest tick, from the ticks that stand and the dependences."""
        step, length, at = self.step, self.length, self.at
        found = {}
        for number, kind in step.kinds.items():
            found[number] = at.get(number, (-length if kind is UnitKind.LDS_READ else 0) if forward else length - 1)
        edges, fixed = step.edges, self.at
        for _ in range(len(step.units)):
            changed = False
            for before, after, latency, distance, _ in edges if forward else reversed(edges):
                if forward and after not in fixed:
                    tick = found[before] + latency - distance * length
                    if tick > found[after]:
                        found[after], changed = tick, True
                elif not forward and before not in fixed:
                    tick = found[after] - latency + distance * length
                    if tick < found[before]:
                        found[before], changed = tick, True
            if not changed:
                break
        return found

    def asks(self, number: int, forward: bool, ticks: Mapping[int, int]) -> str:
        """The unit whose dependence makes another one's earliest (`forward`) or latest tick what it is, where `ticks` stand, in words."""
        step, length, asking = self.step, self.length, []
        for edge in step.before[number] if forward else step.after[number]:
            other = edge.before if forward else edge.after
            if other != number:
                tick = {**(self.earliest if forward else self.latest), **ticks}.get(other, 0)
                distance = edge.latency - edge.distance * length
                asking.append((-(tick + distance) if forward else tick - distance, other))
        return described(step.units[min(asking)[1]]) if asking else "the end of the step"
