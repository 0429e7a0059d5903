"""Launches whose workgroups are not alike: the clk of each from its number of steps, and when the last one ends.

The hardware hands workgroups to the XCDs in turn, and each XCD the next one to the first compute unit that is free.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from asmgen.model.profile import Profile
from asmgen.model.runsummary import RunSummary


@dataclass(frozen=True)
class Steps:
    """The steps of the workgroup that was timed, of every workgroup of the grid in order, and the flops of a whole step. A workgroup makes
    so many `items` one after another, on average, and stores each. `pieces` are how many sums the first workgroup makes
    by themselves, and how many the timed one did, where that is known."""

    traced: int
    each: NDArray[np.int64]
    flops: float
    items: float = 1.0
    pieces: tuple[int, int] | None = None

    @property
    def equal(self) -> bool:
        """Whether all workgroups have the same number of steps."""
        return bool((self.each == self.each[0]).all())

    @property
    def missing(self) -> NDArray[np.int64]:
        """How many steps each workgroup has more than the timed one."""
        return np.asarray(self.each - self.traced, np.int64)

    def clk_of_step(self, found: Profile | RunSummary) -> float:
        """Of a step of the main loop; of the whole run's steps where there is no loop."""
        loop = found.main_loop
        if loop is None or not loop.flops:
            return found.cycles / self.traced
        return loop.cycles * self.flops / loop.flops

    def cycles(self, found: Profile | RunSummary) -> NDArray[np.float64]:
        """clk of each workgroup, at least those of its ends that no step can shorten."""
        clks = found.cycles + self.missing * self.clk_of_step(found) + self._more_pieces() * self._between(found)
        return np.asarray(np.maximum(clks, found.load_free_ends), np.float64)

    def _more_pieces(self) -> NDArray[np.float64]:
        """How many pieces each workgroup has more than the timed one."""
        if self.pieces is None:
            return np.zeros(len(self.each))
        of_first, timed = self.pieces
        return np.asarray(self.each * (of_first / self.each[0]) - timed, np.float64)

    def _between(self, found: Profile | RunSummary) -> float:
        """clk from a piece's last step to the next one's first, as the timed workgroup had them; 0 where that had one piece."""
        if self.pieces is None or self.pieces[1] <= 1:
            return 0.0
        inside = found.cycles - found.prologue - found.epilogue - self.traced * self.clk_of_step(found)
        return max(0.0, inside / (self.pieces[1] - 1))

    def trips(self, found: Profile | RunSummary) -> NDArray[np.float64]:
        """How often each workgroup goes more than the timed one through the code of the main loop; 0 where there is none."""
        loop = found.main_loop
        return np.asarray(self.missing * (self.flops / loop.flops if loop is not None and loop.flops else 0.0), np.float64)

    def flops_of_each(self, found: Profile | RunSummary) -> NDArray[np.float64]:
        """Of each workgroup."""
        return np.asarray(found.flops + self.missing * self.flops, np.float64)

    def total_flops(self, found: Profile | RunSummary) -> float:
        """Of the whole launch."""
        return float(self.flops_of_each(found).sum())


def last_end(cycles: NDArray[np.float64], units: int, xcds: int) -> float:
    """When the last workgroup ends, for so many compute units of all XCDs, each of which has one workgroup after the other."""
    ends = [0.0]
    for xcd in range(xcds):
        free = [0.0] * max(1, units // xcds)
        for clocks in cycles[xcd::xcds].tolist():
            heapq.heapreplace(free, free[0] + clocks)
        ends.append(max(free))
    return max(ends)
