"""From the clk of one compute unit to the time of a whole kernel on a named GPU.

Workgroups run in rounds over the compute units, every round as long as the one that was timed. The clock falls with the density of matrix
work on a line between the table's two points. There is no cache model here: what the data's level returns is in the clk already.
"""

from __future__ import annotations

from dataclasses import dataclass

from asmgen.isa.timing import Timing
from asmgen.model.profile import Profile

_FAR = 0.15
"""A loop that is so much above its binding bound is limited by what its waves wait for, not by that unit."""
_LATENCY = frozenset({"wait vm", "wait lgkm", "barrier", "dependency"})
_UNIT_OF = {"return": "l1", "lds bus": "lds", "memory port": "memory_port", "matrix core": "matrix", "fetch": "issue",
            "arbitration": "issue"}


@dataclass(frozen=True)
class Estimate:
    """Predicted time of a launch: rounds of workgroups over the compute units, the clock in MHz, what limits."""

    workgroups: int
    resident: int
    rounds: int
    clock: float
    seconds: float
    tflops: float
    limit: str


def estimate(found: Profile, workgroups: int, resident: int) -> Estimate:
    """The time of `workgroups` of which `resident` were timed together on a compute unit."""
    timing = found.timing
    rounds = -(-workgroups // (timing.clocks("compute_units") * resident))
    clock = sustained_clock(timing, found.matrix_busy)
    running = rounds * found.cycles / (clock * 1e6)
    seconds = running + timing["launch"] * 1e-6
    flops = found.flops * workgroups / resident
    return Estimate(workgroups, resident, rounds, clock, seconds, flops / seconds / 1e12, _limit(found, running, timing))


def sustained_clock(timing: Timing, density: float) -> float:
    """MHz at a share of time in which the matrix cores work."""
    share = min(1.0, density / timing["dense_at"])
    return timing["clock_idle"] + share * (timing["clock_dense"] - timing["clock_idle"])


def _limit(found: Profile, running: float, timing: Timing) -> str:
    if running < timing["launch"] * 1e-6:
        return "launch"
    loop = found.main_loop
    if loop is None or loop.total < found.cycles / 2:
        return "latency"
    if loop.bounds.verdict != "compute" and loop.bounds.memory > max(loop.bounds.clocks.values()):
        return found.level if loop.bounds.verdict == "bandwidth" else "latency"
    if loop.distance <= _FAR or not loop.stalls:
        return loop.bounds.binding
    cause = max(loop.stalls, key=lambda name: loop.stalls[name])
    return "latency" if cause in _LATENCY else _UNIT_OF[cause]
