"""What the cycle model says of a launch whose first workgroups were traced."""

from __future__ import annotations

from dataclasses import dataclass, replace

from asmgen.isa.errors import AsmgenError
from asmgen.isa.timing import Timing
from asmgen.model.costs import CostKind, costs_of
from asmgen.model.cycles import SIMDS
from asmgen.model.estimate import Estimate, estimate_run, summary_for
from asmgen.model.farmemory import far_memory
from asmgen.model.profile import Profile, profile, whole_load
from asmgen.model.runsummary import RunSummary
from asmgen.model.traffic import traffic
from asmgen.model.unequal import Steps
from asmgen.tuning.traced import Traced

_NEAR = 0.02
"""A clock that differs by so little from the one that far memory was timed at changes nothing."""


@dataclass(frozen=True)
class Prediction:
    """A launch: the clk of its first workgroups on a compute unit, of which `fitting` fit on one, and the time of all. `needed` are the
    bytes that it moves if memory gives and takes each byte once."""

    name: str
    profile: Profile
    estimate: Estimate
    run: RunSummary
    fitting: int
    steps: Steps | None = None
    needed: float = 0.0

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
    waves = list(traced.trace.waves())
    program = traced.trace.program
    assert program is not None
    resident = len({wave.workgroup for wave in waves})
    longer = float(traced.steps.each.mean()) / traced.steps.traced if traced.steps is not None else 1.0
    moved = traffic(costs_of(program, chosen), waves, level, traced.workgroups, chosen, traced.trace.arguments, traced.order,
                    traced.footprint, longer)
    units = chosen.clocks("compute_units")

    def timed_with(loading: int, clock: float) -> Profile:
        """With so many compute units that load at once. What far memory gives in a clk goes by the clock."""
        return profile(program, waves, chosen, level, spans, far_memory(chosen, level, moved.loads(min(units, loading)), clock))

    def whole(found: Profile, few: Profile | None = None) -> tuple[RunSummary, Estimate]:
        """The run and the whole launch; `few` as in `estimate`."""
        run = summary_for(found, traced.workgroups, resident, traced.trace.fitting, lambda: whole_load(found, waves), traced.steps, few)
        run = replace(run, needed_flops=traced.flops)
        return run, estimate_run(run, traced.workgroups, resident, moved, traced.trace.fitting, traced.steps)

    def predicted(found: Profile, few: Profile | None = None) -> Prediction:
        run, launch = whole(found, few)
        sizes = {argument.name: argument.nbytes for argument in traced.trace.arguments}
        touched = sum(min(one.loaded, sizes.get(one.name, one.loaded)) for one in moved.arguments)
        loaded_once = min(moved.l2, touched if traced.footprint is None else traced.footprint)
        return Prediction(traced.name, found, launch, run, traced.trace.fitting, traced.steps, loaded_once + moved.stored)

    clock = chosen["clock_dense"]
    found = timed_with(traced.workgroups, clock)
    _, expected = whole(found)
    if level == "grid" and abs(expected.clock / clock - 1) > _NEAR:
        clock = expected.clock
        found = timed_with(traced.workgroups, clock)
    last, loop = traced.workgroups % (units * expected.together) // expected.together, found.main_loop
    waits = level == "grid" and last and expected.rounds > 1 and loop is not None and loop.distance > _NEAR
    return predicted(found, timed_with(last, clock) if waits else None)
