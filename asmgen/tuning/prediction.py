"""What the cycle model says of a launch whose first workgroups were traced."""

from __future__ import annotations

from dataclasses import dataclass, replace

from asmgen.emulator.scheduling.trace import WaveTrace
from asmgen.isa.arch import SIMDS
from asmgen.isa.errors import AsmgenError
from asmgen.isa.timing import Timing
from asmgen.model.costs import CostKind, costs_of
from asmgen.model.cycles import simulate
from asmgen.model.estimate import Estimate, copies_of, estimate_run, summary_for
from asmgen.model.farmemory import far_memory
from asmgen.model.profile import Profile, profile, whole_load
from asmgen.model.runsummary import RunSummary
from asmgen.model.traffic import Traffic, traffic
from asmgen.model.unequal import Steps
from asmgen.program.program import Program
from asmgen.tuning.traced import Traced

_BESIDE = 8
"""Waves, two on each SIMD, that are timed beside each other where more workgroups fit on a compute unit."""
_NEAR = 0.02
"""A clock that differs by so little from the one that far memory was timed at changes nothing."""


@dataclass(frozen=True)
class Prediction:
    """A launch: the clk of its first workgroups on a compute unit, of which `fitting` fit on one, and the time of all. `needed` are the
    bytes that it moves if memory gives and takes each byte once, `clock` the MHz by which far memory was timed."""

    name: str
    profile: Profile
    estimate: Estimate
    run: RunSummary
    fitting: int
    steps: Steps | None = None
    needed: float = 0.0
    clock: float = 0.0

    def with_run(self, run: RunSummary) -> Estimate:
        """The time of the same launch, had its workgroups run so."""
        whole = self.estimate
        return estimate_run(run, whole.workgroups, whole.resident, whole.traffic, self.fitting, self.steps)

    @property
    def peak_tflops(self) -> float:
        """What the GPU's matrix cores reach at the peak clock with the main loop's instructions; 0 where these are not matrix ones."""
        found = self.profile
        loop, costs = found.main_loop, found.timeline.costs
        code = costs[loop.first:loop.last + 1] if loop is not None else costs
        rate = max((cost.flops / cost.occupancy for cost in code if cost.kind is CostKind.MATRIX), default=0.0)
        return rate * SIMDS * found.timing["compute_units"] * found.timing["clock_idle"] * 1e-6

    @property
    def peak_gbytes(self) -> float:
        """What HBM moves at most."""
        return self.profile.timing["hbm_peak"] * 1e3

    @property
    def share_of_peak(self) -> float:
        """Of the matrix cores' peak; of HBM's where there are no matrix instructions."""
        return self.estimate.tflops / self.peak_tflops if self.peak_tflops else self.gbytes_per_second / self.peak_gbytes

    @property
    def gbytes_per_second(self) -> float:
        """Rate of the bytes that the launch needs."""
        return self.needed / self.estimate.seconds * 1e-9

    @property
    def cycles(self) -> float:
        """clk of the first workgroup, with the steps that were left out of the timed one."""
        return self.profile.cycles + (int(self.steps.missing[0]) * self.steps.clk_of_step(self.profile) if self.steps is not None else 0)


def predict(traced: Traced, chosen: Timing, level: str, workgroups: int, spans: bool = False) -> Prediction:
    """Time what was traced. Raises AsmgenError for more workgroups than fit on a compute unit."""
    if workgroups > traced.trace.fitting:
        raise AsmgenError(f"{workgroups} workgroups of {traced.name} do not fit on a compute unit: registers, wave slots and LDS have room "
                          f"for {traced.trace.fitting}")
    launch, clock = _TracedRun.of(traced, chosen, level, spans), chosen["clock_dense"]
    found = launch.timed(traced.workgroups, clock)
    beside = launch.beside(found)
    _, expected = launch.estimated(found, beside)
    if level == "grid" and abs(expected.clock / clock - 1) > _NEAR:
        clock = expected.clock
        found = launch.timed(traced.workgroups, clock)
    last, loop = traced.workgroups % (chosen.clocks("compute_units") * expected.together) // expected.together, found.main_loop
    waits = level == "grid" and last and expected.rounds > 1 and loop is not None and loop.distance > _NEAR
    run, whole = launch.estimated(found, beside, launch.timed(last, clock) if waits else None, launch.cold(found))
    return Prediction(traced.name, found, whole, run, traced.trace.fitting, traced.steps, launch.needed_bytes, clock)


@dataclass(frozen=True)
class _TracedRun:
    """A launch whose first workgroups were traced, and what it moves."""

    traced: Traced
    timing: Timing
    level: str
    spans: bool
    waves: tuple[WaveTrace, ...]
    program: Program
    moved: Traffic

    @classmethod
    def of(cls, traced: Traced, timing: Timing, level: str, spans: bool) -> _TracedRun:
        """Reads the trace."""
        waves, program, steps = tuple(traced.trace.waves()), traced.trace.program, traced.steps
        assert program is not None
        longer = float(steps.each.mean()) / steps.traced if steps is not None else 1.0
        moved = traffic(costs_of(program, timing), waves, level, traced.workgroups, timing, traced.trace.arguments, traced.order,
                        traced.footprint, longer)
        return cls(traced, timing, level, spans, waves, program, moved)

    @property
    def needed_bytes(self) -> float:
        """Each byte that is read once, and what is stored."""
        sizes = {argument.name: argument.nbytes for argument in self.traced.trace.arguments}
        touched = sum(min(one.loaded, sizes.get(one.name, one.loaded)) for one in self.moved.arguments)
        return min(self.moved.l2, touched if self.traced.footprint is None else self.traced.footprint) + self.moved.stored

    def timed(self, loading: int, clock: float) -> Profile:
        """With so many compute units that load at once. What far memory gives in a clk goes by the clock."""
        loads = self.moved.loads(min(self.timing.clocks("compute_units"), loading))
        return profile(self.program, self.waves, self.timing, self.level, self.spans, far_memory(self.timing, self.level, loads, clock))

    def cold(self, found: Profile) -> float:
        """By how many clk an empty instruction cache makes the first workgroups longer."""
        return max(0.0, float(simulate(self.program, self.waves, self.timing, self.level, far=found.far, cold=True).cycles - found.cycles))

    def estimated(self, found: Profile, beside: float, few: Profile | None = None, cold: float = 0.0) -> tuple[RunSummary, Estimate]:
        """The run and the whole launch; `few` as in `estimate`."""
        traced, fitting = self.traced, self.traced.trace.fitting
        resident = len({wave.workgroup for wave in self.waves})
        run = summary_for(found, traced.workgroups, resident, fitting, lambda: whole_load(found, self.waves), traced.steps, few)
        run = replace(run, needed_flops=traced.flops, cold=cold, beside=beside)
        return run, estimate_run(run, traced.workgroups, resident, self.moved, fitting, traced.steps)

    def beside(self, found: Profile) -> float:
        """How many times as long as timed the workgroups take with others of their kind beside them: by a run of a part of those that are
        on a unit, which all are so many times, with at most _BESIDE waves."""
        resident = len({wave.workgroup for wave in self.waves})
        copies = copies_of(self.timing, self.traced.workgroups, resident, self.traced.trace.fitting)
        count = max((one for one in range(2, copies + 1) if copies % one == 0 and one * len(self.waves) <= _BESIDE), default=1)
        if count == 1 or not found.cycles:
            return 1.0
        waves = [replace(wave, workgroup=wave.workgroup + resident * copy) for copy in range(count) for wave in self.waves]
        return max(1.0, simulate(self.program, waves, self.timing, self.level, far=found.far).cycles / found.cycles)
