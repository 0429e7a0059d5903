"""What the cycle model says of a launch whose first workgroups were traced."""

from __future__ import annotations

from dataclasses import dataclass

from asmgen.isa.errors import AsmgenError
from asmgen.isa.timing import Timing
from asmgen.model.costs import costs_of
from asmgen.model.estimate import Estimate, estimate
from asmgen.model.farmemory import far_memory
from asmgen.model.profile import Profile, profile, whole_load
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
    fitting: int
    steps: Steps | None = None
    needed: float = 0.0

    @property
    def gbytes_per_second(self) -> float:
        """Rate of the bytes that the launch needs."""
        return self.needed / self.estimate.seconds * 1e-9

    @property
    def cycles(self) -> float:
        """clk of the first workgroup, with the steps that were left out of the timed one."""
        return self.profile.cycles + (int(self.steps.missing[0]) * self.steps.clk_of_step(self.profile) if self.steps is not None else 0)


def predict(traced: Traced, chosen: Timing, level: str, workgroups: int, spans: bool = False, timed: Profile | None = None) -> Prediction:
    """Time what was traced, unless that is in `timed` already. Raises AsmgenError for more workgroups than fit on a compute unit."""
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

    def whole(found: Profile, few: Profile | None = None) -> Estimate:
        """The whole launch; `few` as in `estimate`."""
        load = lambda: whole_load(found, waves)  # noqa: E731
        return estimate(found, traced.workgroups, resident, moved, traced.trace.fitting, load, traced.steps, few)

    loaded_once = moved.l2 if traced.footprint is None else min(moved.l2, traced.footprint)
    if timed is not None:
        return Prediction(traced.name, timed, whole(timed), traced.trace.fitting, traced.steps, loaded_once + moved.stored)
    clock = chosen["clock_dense"]
    found = timed_with(traced.workgroups, clock)
    expected = whole(found)
    if level == "grid" and abs(expected.clock / clock - 1) > _NEAR:
        clock = expected.clock
        found = timed_with(traced.workgroups, clock)
    last, loop = traced.workgroups % (units * expected.together) // expected.together, found.main_loop
    waits = level == "grid" and last and expected.rounds > 1 and loop is not None and loop.distance > _NEAR
    few = timed_with(last, clock) if waits else None
    return Prediction(traced.name, found, whole(found, few), traced.trace.fitting, traced.steps, loaded_once + moved.stored)
