"""The fastest of some candidates, without judging those that cannot be it.

What a candidate's loads find in the caches is the dear part of an estimate. Two lower bounds of its time are cheap: what handing out its
workgroups takes, and what they take where nothing is loaded or stored. A candidate is estimated where its bounds are below the best time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asmgen.author.contract.contract import KernelContract
    from asmgen.author.family.family import Family
    from asmgen.isa.timing import Timing
    from asmgen.model.estimate import Estimate
    from asmgen.tuning.candidates import Candidate
    from asmgen.tuning.figures import VariantFigures

Bound = Callable[[int], float]
"""Seconds that candidate number so much takes at least."""

_ROUNDED = 1 - 1e-9
"""Of a bound, for its last digits: it is computed in another order than the estimate."""


def soonest(count: int, bounds: Sequence[Bound], seconds: Bound) -> int:
    """The number of the candidate, of so many, that takes the fewest seconds; the first of equals. Each bound is asked before the next one,
    and `seconds` at last, of candidates whose bounds so far are not above all that is known of another."""
    judges = (*bounds, seconds)
    queue = [(0.0, 0, number) for number in range(count)]
    heapify(queue)
    while True:
        _, asked, number = heappop(queue)
        if asked == len(judges):
            return number
        heappush(queue, (judges[asked](number), asked + 1, number))


@dataclass(frozen=True)
class Contest:
    """The candidates of a family's request, each with the figures of its launches."""

    library: Family
    arch: str
    timing: Timing
    candidates: Sequence[Candidate]
    figures: Sequence[Sequence[VariantFigures]]

    def fastest(self) -> int:
        """The number of the candidate that takes the shortest time."""
        return soonest(len(self.candidates), (self.dispatch, self.computing), self.seconds)

    def seconds(self, number: int) -> float:
        """Of all launches of a candidate."""
        return sum(one.seconds for one in self.estimates(number))

    def estimates(self, number: int) -> tuple[Estimate, ...]:
        """Of each launch of a candidate."""
        from asmgen.kernels.ownsizes import memory_bounds_its_loop, with_data_at
        from asmgen.model.farmemory import far_memory

        figures, own = self._of_the_problem(number), self._own(number)
        found = self._estimated(number, figures)
        moved = found[own].traffic
        if moved is None or not moved.l2 or not memory_bounds_its_loop(figures[own]):
            return found
        loads = moved.loads(min(self.timing.clocks("compute_units"), found[own].workgroups))
        its = with_data_at(figures[own], far_memory(self.timing, "grid", loads, found[own].clock), self.figures[number][own])
        return found if its is figures[own] else self._estimated(number, [*figures[:own], its, *figures[own + 1:]])

    def dispatch(self, number: int) -> float:
        """What handing out the workgroups of the candidate's own kernel takes. Parts of K without steps are not counted: some part of
        each tile has steps."""
        one, timing = self.candidates[number], self.timing
        contract, its = self._contracts[number], self.figures[number][self._own(number)]
        workgroups = math.prod(contract.grid_of(one.parameters)) // int(one.build.get("split_k", 1))
        clk = workgroups * timing["wave_dispatch"] * its.run.waves / its.moved.together / timing["xcds"]
        return clk / timing["clock_idle"] * 1e-6 * _ROUNDED

    def computing(self, number: int) -> float:
        """What the launches take where nothing is loaded or stored, by the highest clock: cores that wait for loads leave power to it."""
        from asmgen.kernels.ownsizes import memory_bounds_its_loop, with_data_at
        from asmgen.model.farmemory import far_memory

        figures, own = self._of_the_problem(number), self._own(number)
        if memory_bounds_its_loop(figures[own]):
            figures[own] = with_data_at(figures[own], far_memory(self.timing, "l2"), self.figures[number][own])
        nothing = [replace(one, arguments=(), moved=replace(one.moved, loaded=(0.0,), stored=(0.0,))) for one in figures]
        return sum(self._at_the_highest_clock(one) for one in self._estimated(number, nothing)) * _ROUNDED

    def _estimated(self, number: int, figures: Sequence[VariantFigures]) -> tuple[Estimate, ...]:
        from asmgen.tuning.figures import quick_estimates

        return quick_estimates(self.library, self.arch, self.timing, self.candidates[number], figures)

    @cached_property
    def _contracts(self) -> list[KernelContract]:
        """Of each candidate's own kernel."""
        builds = [one.build for one in self.candidates]
        return [self.library.contract_of(self.library.select(self.arch, build), build) for build in builds]

    def _own(self, number: int) -> int:
        """Which launch of a candidate is that of its own kernel."""
        return self._contracts[number].launches.index(self._contracts[number])

    def _of_the_problem(self, number: int) -> list[VariantFigures]:
        """The figures of each launch, with what the candidate's own kernel loads of the problem's rows and columns."""
        from asmgen.kernels.ownsizes import of_the_problem

        figures, own = list(self.figures[number]), self._own(number)
        figures[own] = of_the_problem(figures[own], self.candidates[number].parameters)
        return figures

    def _at_the_highest_clock(self, found: Estimate) -> float:
        launch, slower = self.timing["launch_device"] * 1e-6, self.timing["clock_odd_xcds"]
        share = min(1.0, (found.clock - slower) / (self.timing["clock_idle"] - slower))
        return (found.seconds - launch) * share + launch
