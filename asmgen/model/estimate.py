"""From the clk of one compute unit to the time of a whole kernel on a named GPU.

Workgroups run in rounds over the compute units, every round as long as the one that was timed; where several are on a unit, the ends of
one go on beside the others' loops. The clock of a round falls with the share of the GPU's matrix cores that work, on a line between the
table's two points, for loops with transcendental instructions on attention's line; what leaves the cores idle runs at the boost clock. L2,
last-level cache and HBM each need their time for the launch's bytes: the longest of all counts, and the launch's cost comes on top.
"""

from __future__ import annotations

from dataclasses import dataclass

from asmgen.isa.timing import Timing
from asmgen.model.profile import LoopProfile, Profile
from asmgen.model.traffic import Traffic

_FAR = 0.15
"""A loop that is so much above its binding bound is limited by what its waves wait for, not by that unit."""
_AT_THE_CAP = 1.05
"""Matrix cores that run at no more than this times the clock of dense work are limited by power."""
_LATENCY = frozenset({"wait vm", "wait lgkm", "barrier", "dependency"})
_UNIT_OF = {"return": "l1", "lds bus": "lds", "memory port": "memory_port", "matrix core": "matrix", "fetch": "issue",
            "arbitration": "issue"}
LIMITS = ("matrix", "power", "lds", "memory_port", "l1", "issue", "valu", "latency", "l2", "llc", "hbm", "launch")
"""What a whole kernel may be limited by."""


@dataclass(frozen=True)
class Estimate:
    """Predicted time of a launch: rounds of workgroups over the compute units, the clock in MHz, what limits. `parts` are the seconds
    that compute units, l2, llc, hbm and the launch would need alone."""

    workgroups: int
    resident: int
    rounds: int
    clock: float
    seconds: float
    tflops: float
    limit: str
    parts: dict[str, float]
    traffic: Traffic | None = None


def estimate(found: Profile, workgroups: int, resident: int, moved: Traffic | None = None) -> Estimate:
    """The time of `workgroups` of which `resident` were timed together on a compute unit, and which move so many bytes."""
    timing = found.timing
    full, last = divmod(workgroups, timing.clocks("compute_units") * resident)
    rounds, mixed = full + (last > 0), transcendental(found)
    further = found.cycles - (found.prologue + found.epilogue) * (1 - 1 / resident)  # clk of a round behind the first
    dense = sustained_clock(timing, found.matrix_busy * (found.cycles / further if rounds > 1 else 1.0), mixed)
    sparse = sustained_clock(timing, found.matrix_busy * last / (timing["compute_units"] * resident), mixed)
    clk = found.cycles + (rounds - 1) * further
    rest = 0.0 if not last else further if full else found.cycles
    running = (clk - rest) / dense + rest / sparse  # us
    clock = clk / running
    parts = {"compute units": running * 1e-6}
    if moved is not None:
        for name, amount in (("l2", moved.l2), ("llc", moved.llc), ("hbm", moved.hbm + moved.stored)):
            parts[name] = amount / (timing[f"{name}_read"] * 1e12)
    longest = max(parts, key=lambda name: parts[name])
    parts["launch"] = timing["launch"] * 1e-6
    seconds = parts[longest] + parts["launch"]
    limit = _limit(found, dense if full else sparse) if longest == "compute units" else longest
    if parts["launch"] > parts[longest]:
        limit = "launch"
    flops = found.flops * workgroups / resident
    return Estimate(workgroups, resident, rounds, clock, seconds, flops / seconds / 1e12, limit, parts, moved)


def sustained_clock(timing: Timing, density: float, with_transcendental: bool = False) -> float:
    """MHz at a share of time in which the matrix cores work. Attention's line, where a GPU has one, is for loops that mix both."""
    if with_transcendental and timing["clock_attention"]:
        return min(timing["clock_idle"], timing["clock_attention"] - timing["clock_attention_slope"] * 100 * min(1.0, density))
    share = min(1.0, density / timing["dense_at"])
    return timing["clock_idle"] + share * (timing["clock_dense"] - timing["clock_idle"])


def transcendental(found: Profile) -> bool:
    """Whether the main loop has both matrix and transcendental instructions."""
    loop = found.main_loop
    if loop is None:
        return False
    classes = {one for instruction in found.program.instructions[loop.first:loop.last + 1] for one in instruction.opcode.classes}
    return {"mfma", "trans"} <= classes


def _limit(found: Profile, clock: float) -> str:
    loop = found.main_loop
    if loop is None or loop.total < found.cycles / 2:
        return "latency"
    limit = _loop_limit(loop, found.level)
    return "power" if limit == "matrix" and clock <= _AT_THE_CAP * found.timing["clock_dense"] else limit


def _loop_limit(loop: LoopProfile, level: str) -> str:
    if loop.bounds.verdict != "compute" and loop.bounds.memory > max(loop.bounds.clocks.values()):
        return ("hbm" if level == "hbm" else "l2") if loop.bounds.verdict == "bandwidth" else "latency"
    if loop.distance <= _FAR or not loop.stalls:
        return loop.bounds.binding
    cause = max(loop.stalls, key=lambda name: loop.stalls[name])
    return "latency" if cause in _LATENCY else _UNIT_OF[cause]
