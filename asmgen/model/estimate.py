"""From the clk of one compute unit to the time of a whole kernel on a named GPU.

Workgroups run in rounds over the compute units, every round as long as the one that was timed; where several are on a unit, the ends of one
go on beside the others' loops. If more fit on a unit than were timed together, they fill each other's gaps as far as a run of some of them
beside each other says and the unit's bounds allow. Workgroups of unequal length (`unequal`) go to the units one by one. The clock of a
round falls with the share of the GPU's matrix cores that work, on a line between the table's two points, for loops with transcendental
instructions by that of the loop; what leaves the cores idle runs at the boost clock. L2 with its fabric, last-level cache and HBM each need
their time for the bytes that a round loads: a round is no shorter than that and those clk of its ends that pass without loads
(`loadfreeends`). HBM needs its time for what is stored too. Workgroup n goes to XCD n mod 8, wave after wave, and a unit's next one begins
some time after one has ended. Times are the device's, from its begin of a launch on; the host sees some more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from asmgen.isa.timing import Timing
from asmgen.model.farmemory import read_rates
from asmgen.model.profile import FAR, LoopProfile, Profile
from asmgen.model.runsummary import RunSummary, summary_of
from asmgen.model.traffic import Traffic
from asmgen.model.unequal import Steps, last_end
from asmgen.model.usage import ResourceBounds, UnitLoad

_AT_THE_CAP = 1.05
"""Matrix cores that run at no more than this times the clock of dense work are limited by power."""
_SETTLED = 4
"""So often the clock of a round that waits for loads is computed again from its time: it moves by less than 0.1 % then."""
_LATENCY = frozenset({"wait vm", "wait lgkm", "barrier", "dependency"})
_UNIT_OF = {"return": "l1", "lds bus": "lds", "memory port": "memory_port", "matrix core": "matrix", "fetch": "issue",
            "arbitration": "issue"}
LIMITS = ("matrix", "power", "lds", "memory_port", "l1", "issue", "valu", "latency", "l2", "llc", "hbm", "launch")
"""What a whole kernel may be limited by."""


@dataclass(frozen=True)
class Estimate:
    """Predicted time of a launch: rounds of workgroups over the compute units, the clock in MHz, what limits. `resident` workgroups were
    timed together, `together` of them are on a unit. `parts` are the seconds that compute units, l2, llc, hbm and the launch would need
    alone."""

    workgroups: int
    resident: int
    together: int
    rounds: int
    clock: float
    seconds: float
    tflops: float
    limit: str
    parts: dict[str, float]
    traffic: Traffic | None = None
    host_seconds: float = 0.0


def estimate(found: Profile, workgroups: int, resident: int, moved: Traffic | None = None, fitting: int = 0,
             load: Callable[[], UnitLoad] | None = None, steps: Steps | None = None, few: Profile | None = None) -> Estimate:
    """The time of `workgroups` of which `resident` were timed together on a compute unit, and which move so many bytes.

    `fitting` is how many a unit holds; `load` gives what the timed ones ask of its parts, for more of them than were timed.
    `steps`: how long each is, where they are not all as long as the timed ones. `few`: the same workgroups timed with the loads of those
    of the last round alone.
    """
    return estimate_run(summary_for(found, workgroups, resident, fitting, load, steps, few), workgroups, resident, moved, fitting, steps)


def summary_for(found: Profile, workgroups: int, resident: int, fitting: int, load: Callable[[], UnitLoad] | None,
                steps: Steps | None = None, few: Profile | None = None) -> RunSummary:
    """What `estimate_run` reads; the arguments are those of `estimate`."""
    needed = load is not None and copies_of(found.timing, workgroups, resident, fitting) > 1
    summary = summary_of(found, load() if needed and load is not None else None)
    return summary if few is None else replace(summary, last_round=_run(summary_of(few), steps) / _run(summary, steps))


def copies_of(timing: Timing, workgroups: int, resident: int, fitting: int) -> int:
    """How often the workgroups that were timed together are on a compute unit, of which `fitting` workgroups fit on one."""
    return max(1, min(fitting, -(-workgroups // timing.clocks("compute_units"))) // resident)


def estimate_run(found: RunSummary, workgroups: int, resident: int, moved: Traffic | None = None, fitting: int = 0,
                 steps: Steps | None = None) -> Estimate:
    """As `estimate`, from a summary; without a load in it those that were timed have the unit for themselves."""
    timing, load = found.timing, found.load
    units = timing.clocks("compute_units")
    copies = copies_of(timing, workgroups, resident, fitting) if load is not None else 1
    together = resident * copies
    alike = steps is not None and steps.equal
    ends = found.prologue + found.epilogue if found.main_loop is not None else 0.0
    run = _run(found, steps)
    run += timing["traced_loops"] * (run - ends) if found.mixed else 0.0
    loop, trips = found.main_loop, float(steps.trips(found)[0]) if steps is not None and alike else 0.0
    bounds = _together(load, loop, trips, copies).bounds(timing, found.far) if copies > 1 and load is not None else None
    between = timing["workgroup_gap"]
    full, last = divmod(workgroups, units * together)
    rounds = full + (last > 0)
    usual_round = _Round(run, found.beside if copies > 1 else 1.0, bounds, ends, between, together)
    left = -(-last // (units * resident)) if last else copies  # copies on a unit in the last round
    fewer = _together(load, loop, trips, left).bounds(timing, found.far) if left > 1 and load is not None else None
    last_round = _Round(run, found.beside if left > 1 else 1.0, fewer, ends, between, resident * left)
    first, further = usual_round.first, usual_round.further
    more = trips * loop.matrix_busy * loop.cycles if loop is not None else 0.0
    work = (found.matrix_busy * found.cycles + more) * copies  # clk of a SIMD's matrix core in a round
    far = _far_seconds(timing, moved, found.level) if moved is not None else {}
    in_loop = loop.matrix_busy * copies * run / first if found.mixed and loop is not None else None
    clocked = _Clocked(timing, max(far.values(), default=0.0) * 1e6, found.products, in_loop,
                       timing["clock_odd_xcds"] if found.mixed else 0.0)
    whole, part = units * together / workgroups, last / (units * together)
    free = found.load_free_ends
    of_first, of_further, of_last = _Loads(free), _Loads(free + between, together), _Loads(free + between, resident * left)
    usual = clocked.timed(further if rounds > 1 else first, work, whole, of_further if rounds > 1 else of_first)
    clk, loads = (last_round.further, of_last) if full else (last_round.first, of_first)
    final = clocked.timed(clk * found.last_round, work * part, whole * part, loads, part)
    spans = [clocked.at(first, usual.clock, whole, of_first)] * (full > 0) + [usual] * (full - 1) + [final] * (last > 0)
    flops = steps.total_flops(found) if steps is not None else found.flops * workgroups / resident
    if steps is not None and not alike:
        clks = steps.cycles(found) * first / found.cycles
        others = max(0.0, 1 - units * together / workgroups)  # but the first of each unit
        clk, cores = last_end(clks + between * others, units * together, timing.clocks("xcds")), work / copies / found.flops * flops
        busy = (float(clks.sum()) + between * others * workgroups) / (units * together) / clk  # units with a workgroup
        spans = [clocked.timed(clk, cores / units, 1, of_first, busy)]
    running = sum(one.micros for one in spans)
    clock = sum(one.clock * one.micros for one in spans) / running
    dense = spans[0].clock
    dispatched = timing["wave_dispatch"] * found.waves / resident / timing["xcds"]  # clk until the next workgroup can begin
    running += (found.cold + dispatched * min(workgroups, units * together)) / dense
    if moved is not None and found.stores_at_the_end:
        each, most = moved.stored / workgroups / (steps.items if steps is not None else 1), units * together  # of its last item
        usual_end, at_last = (_write_back(timing, each, count, found.storing, dense) for count in (most, last or most))
        running += usual_end / together * (rounds - 1) + at_last
    parts = {"compute units": running * 1e-6, "dispatch": workgroups * dispatched / timing["clock_idle"] * 1e-6, **far}
    if moved is not None:
        parts["hbm"] = (moved.hbm + moved.stored) / (read_rates(timing, found.level)["hbm"] * 1e12)
    longest = max(parts, key=lambda name: parts[name])
    parts["launch"] = timing["launch_device"] * 1e-6
    seconds = parts[longest] + parts["launch"]
    limit = longest
    if longest == "compute units":
        limit = _limit(found, bounds if bounds is not None and usual_round.bound > usual_round.run else None, run)
        if any(one.far for one in spans):
            limit = max(far, key=lambda name: far[name])
        elif limit == "matrix" and dense <= _AT_THE_CAP * _dense_clock(timing, found.products):
            limit = "power"
    if parts["launch"] > parts[longest] or longest == "dispatch":
        limit = "launch"
    needed = found.needed_flops or flops
    host = seconds + (timing["launch"] - timing["launch_device"]) * 1e-6
    return Estimate(workgroups, resident, together, rounds, clock, seconds, needed / seconds / 1e12, limit, parts, moved, host)


def _run(found: RunSummary, steps: Steps | None) -> float:
    """The clk of a workgroup, where all are alike; else of the timed one."""
    return float(steps.cycles(found)[0]) if steps is not None and steps.equal else float(found.cycles)


@dataclass(frozen=True)
class _Round:
    """clk of workgroups that are together on a unit: of one `alone`, which takes `beside` times as long among the others, and no less than
    the bounds of all. The `ends` of one of `together` pass beside the loops of the others; by itself it has them, and the gap `between` it
    and the one before."""

    alone: float
    beside: float
    bounds: ResourceBounds | None
    ends: float
    between: float
    together: int

    @property
    def bound(self) -> float:
        """Of all that the unit's parts do; 0 where one workgroup is there."""
        return self.bounds.least if self.bounds is not None else 0.0

    @property
    def run(self) -> float:
        """Of a workgroup among the others."""
        return self.alone * self.beside

    @property
    def first(self) -> float:
        """Of a first round."""
        return max(self.run, self.bound)

    @property
    def further(self) -> float:
        """Of a round after the first one."""
        ends = min(self.ends, self.alone)  # of fewer steps than were timed
        return max(self.first - ends * (1 - 1 / self.together) + self.between / self.together, self.bound)


@dataclass(frozen=True)
class _Span:
    """Some rounds: their microseconds and MHz, and whether loads of the whole GPU take longer than the loop."""

    micros: float
    clock: float
    far: bool


@dataclass(frozen=True)
class _Loads:
    """What a round takes beside its bytes: a workgroup has `free` clk without loads. In a first round all workgroups begin together, so the
    round has them too. Later those of one of the `beside` workgroups on a unit may pass while the others load."""

    free: float
    beside: int = 1

    def least(self, clock: float, micros: float) -> float:
        """Microseconds of a round at a clock, whose bytes take so many: of all its bytes, and of one workgroup by itself."""
        return max(micros, self.free / clock + micros / self.beside)


@dataclass(frozen=True)
class _Clocked:
    """What turns the clk of a round into time. A round is no shorter than its loads, for which the caches and memory of the GPU need their
    share of `far`, the microseconds of the whole launch's. Where loops mix matrix and transcendental instructions, the clock is that of the
    density `in_loop`, and not of the launch, and the slowest XCDs run by `slower` MHz below it."""

    timing: Timing
    far: float
    products: str
    in_loop: float | None
    slower: float = 0.0

    def at(self, clk: float, clock: float, share: float, loads: _Loads) -> _Span:
        """A round at a clock that is known."""
        slowest = clock - self.slower
        alone, loaded = clk / slowest, loads.least(slowest, self.far * share)
        return _Span(max(alone, loaded), clock, loaded > alone)

    def timed(self, clk: float, work: float, share: float, loads: _Loads, busy: float = 1.0) -> _Span:
        """A round in which each matrix core works for `work` clk, and so many units, of 1, have workgroups."""
        density = work / clk if self.in_loop is None else self.in_loop
        span = self.at(clk, self._clock(density, busy), share, loads)
        for _ in range(_SETTLED if span.far else 0):  # cores that wait for loads leave power to the clock
            span = self.at(clk, self._clock(density * clk / (span.micros * span.clock), busy), share, loads)
        return span

    def _clock(self, density: float, busy: float) -> float:
        return sustained_clock(self.timing, density, self.in_loop is not None, self.products, busy)


def _far_seconds(timing: Timing, moved: Traffic, level: str) -> dict[str, float]:
    """What each level of far memory needs for the loads of the launch."""
    rates = read_rates(timing, level)
    return {name: amount / (rates[name] * 1e12) for name, amount in (("l2", moved.l2), ("llc", moved.llc), ("hbm", moved.hbm))}


def sustained_clock(timing: Timing, density: float, with_transcendental: bool = False, products: str = "",
                    busy: float = 1.0) -> float:
    """MHz at a share of time in which the matrix cores work, on a class of products as `product_class` names them. Attention's line, where
    a GPU has one, is for loops that mix matrix and transcendental instructions; its density is the loop's, and a
    share `busy` of the units runs it. Below the density at which vector instructions bind these, the clock is between theirs and the idle
    one."""
    idle, vector = timing["clock_idle"], timing["clock_vector"]
    if with_transcendental and timing["clock_attention"]:
        line = timing["clock_attention"] - timing["clock_attention_slope"] * 100 * min(1.0, density * busy)
        return min(line, idle - min(1.0, density / timing["vector_at"]) * busy * (idle - vector))
    share = min(1.0, density / timing["dense_at"])
    return idle + share * (_dense_clock(timing, products) - idle)


def _dense_clock(timing: Timing, products: str) -> float:
    return timing["clock_dense"] * (timing[f"clock_{products}"] if products else 1)


def _write_back(timing: Timing, each: float, workgroups: int, storing: float, clock: float) -> float:
    """By how many microseconds the stores of so many workgroups, `each` bytes in `storing` clk or more, outlast those of one compute unit.
    L2 keeps what it has room for, and writes back what comes after that while more is stored. Each round is asked by itself: L2 is taken
    to be clean again when its stores begin, which no source says."""
    stored, kept = each * workgroups, timing["l2_dirty"] * timing["xcds"]
    if stored <= kept:
        return 0.0
    rate = min(timing["write_back"], timing["xcds"] * timing["xcd_write"]) * 1e6
    port = each * -(-workgroups // timing.clocks("compute_units")) / timing["vmem_store_rate"]
    return max(0.0, (1 - kept / stored) * (stored / rate - max(storing, port) / clock))


def _together(load: UnitLoad, loop: LoopProfile | None, trips: float, copies: int) -> UnitLoad:
    """Of so many copies of what was timed, each with more trips through the main loop."""
    return (load.grown(loop.load, trips) if loop is not None and trips else load).times(copies)


def _limit(found: RunSummary, full: ResourceBounds | None, run: float) -> str:
    """`full`: the bounds of workgroups that together need all of some part of the unit. `run` is the clk of the whole run."""
    if full is not None:
        return _far_limit(full, found.level) or full.binding
    loop = found.main_loop
    if loop is None or loop.total + run - found.cycles < run / 2:
        return "latency"
    far = _far_limit(loop.bounds, found.level)
    if far or loop.distance <= FAR or not loop.stalls:
        return far or loop.bounds.binding
    cause = max(loop.stalls, key=lambda name: loop.stalls[name])
    return "latency" if cause in _LATENCY else _UNIT_OF[cause]


def _far_limit(bounds: ResourceBounds, level: str) -> str:
    """What the memory pipeline limits, "" where it does not."""
    if bounds.verdict == "compute" or bounds.memory <= max(bounds.clocks.values()):
        return ""
    return "latency" if bounds.verdict == "latency" else "hbm" if level == "hbm" else "l2"
