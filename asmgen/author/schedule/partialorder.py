"""An order under way: the ticks of the units that stand, the resources that they take, and the bounds of all others."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from asmgen.author.schedule.reservations import Reservations
from asmgen.author.schedule.stepfacts import StepFacts
from asmgen.author.schedule.unitcosts import UnitKind

FREE, VECTOR, BUS, LDS, MEMORY, APART = "issue", "vector", "bus", "lds", "memory", "apart"
"""Resources of the reservation table; APART is what reads that stand apart take of each other."""


class PartialOrder:
    """One order of a step, of `length` ticks. Runs of packed f32 stand `delay` gaps after the one that their share of the work asks for."""

    def __init__(self, step: StepFacts, length: int, delay: int = 0, exact: bool = True, spread: bool = False) -> None:
        self.step, self.length, self.delay, self.exact, self.spread = step, length, delay, exact, spread
        self.preferred: frozenset[int] = frozenset()
        self.table = Reservations(length)
        self.at: dict[int, int] = {}
        self._place_matrix()
        self.earliest = self.bounds(forward=True)
        self.latest = self.bounds(forward=False)
        self.waits: set[int] = set()

    def stand(self, number: int, tick: int, resource: str) -> None:
        cost = self.step.costs[number]
        self.at[number] = tick
        self.table.take(FREE, tick, min(cost.issue, self.step.room))
        self.table.take(BUS, tick, cost.bus)
        self.table.take(resource, tick, cost.busy)

    # ---- matrix units and windows ----

    def _place_matrix(self) -> None:
        """The matrix units over the length, by their durations. The last ticks are for the loop's scalar code and branch."""
        step = self.step
        durations = [max(step.costs[number].busy, step.costs[number].issue) for number in step.matrix]
        self._stretch(durations, [0] * len(durations))
        if step.groups:
            paused = [list[tuple[int, ...]]() for _ in durations]
            earliest, latest = self.bounds(forward=True), self.bounds(forward=False)
            for group, share in zip(step.groups, step.shares, strict=True):
                paused[self._gap_of(share, earliest[group[0]], latest[group[-1]])].append(group)
            self._stretch(durations, [sum(map(step.pause, groups)) for groups in paused])
            for number, groups in zip(step.matrix, paused, strict=True):
                tick = self.at[number] + step.costs[number].busy + step.hazard
                for one in itertools.chain(*groups):
                    self.at[one] = tick
                    tick += max(step.costs[one].busy, 1)
        for number in self.at:
            issue = step.costs[number].issue
            self.table.take(FREE, self.at[number], issue)
            self.table.take(VECTOR, self.at[number], max(issue, 0 if step.kinds[number] is UnitKind.MATRIX else step.costs[number].busy))
        self.table.take(FREE, self.length - step.ends, step.ends)

    def _stretch(self, durations: Sequence[int], pauses: Sequence[int]) -> None:
        """Matrix units over the length without pauses, by their durations, each followed by its pause."""
        whole, room = sum(durations), self.length - sum(pauses)
        done = paused = 0
        for number, duration, pause in zip(self.step.matrix, durations, pauses, strict=True):
            self.at[number] = done * room // whole + paused
            done += duration
            paused += pause

    def _gap_of(self, share: float, earliest: int, latest: int) -> int:
        """The gap, by the number of the matrix unit before it, where a share of the stream's work is done and a run may stand."""
        matrix = self.step.matrix
        ends = [self.at[number] + self.step.costs[number].busy + self.step.hazard for number in matrix]
        allowed = [gap for gap, end in enumerate(ends) if earliest <= end <= latest] or [min(range(len(ends)), key=lambda gap: abs(
            ends[gap] - earliest))]
        return min(min(allowed, key=lambda gap: abs((gap + 1) / len(matrix) - share)) + self.delay, allowed[-1])

    def bounds(self, forward: bool) -> dict[int, int]:
        """By unit, its earliest (`forward`) or latest tick, from the ticks that stand and the dependences."""
        step, length, at = self.step, self.length, self.at
        leads = (UnitKind.LDS_READ, UnitKind.LOAD)
        found = {}
        for number, kind in step.kinds.items():
            found[number] = at.get(number, (-length if kind in leads else 0) if forward else length - 1)
        edges, fixed = step.edges, self.at
        for _ in range(len(step.units)):
            changed = False
            for before, after, latency, distance in edges if forward else reversed(edges):
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
