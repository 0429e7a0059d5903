"""A predicted launch, timed again with another timing table. A trace with few rounds of the main loop serves for that: its time with the
table itself is the prediction's within 0.02 %.
"""

from __future__ import annotations

from dataclasses import replace

from asmgen.isa.timing import Timing
from asmgen.model.cycles import simulate
from asmgen.model.estimate import estimate_run, summary_for
from asmgen.model.farmemory import FarMemory, far_memory
from asmgen.model.profile import profile, whole_load
from asmgen.model.runsummary import RunSummary
from asmgen.model.shortened import shortened
from asmgen.tuning.prediction import Prediction
from asmgen.tuning.traced import Traced


class LaunchAgain:
    """What was traced and what was predicted of it."""

    def __init__(self, traced: Traced, found: Prediction) -> None:
        self.traced, self.found = traced, found
        self.program = found.profile.program
        self.short = shortened(self.program, list(traced.trace.waves()))

    def seconds(self, table: Timing) -> float:
        """Of the launch with this table. What an empty instruction cache costs stays as it was."""
        return self.seconds_of(self.run(table, self.far(table)))

    def far(self, timing: Timing) -> FarMemory:
        """Where its data is with this table."""
        found, moved = self.found, self.found.estimate.traffic
        if found.profile.level != "grid" or moved is None:
            return far_memory(timing, found.profile.level)
        loading = min(timing.clocks("compute_units"), self.traced.workgroups)
        return far_memory(timing, "grid", moved.loads(loading), found.clock)

    def run(self, timing: Timing, far: FarMemory, cold: bool = False) -> RunSummary:
        """With all rounds. That a last round with fewer workgroups is faster stays as it was, and that workgroups beside each other are
        slower; so does what an empty instruction cache costs, unless it is to be timed too."""
        found, whole, traced, usual = self.found, self.found.estimate, self.traced, self.found.run
        run = profile(self.program, self.short.traces, timing, found.profile.level, far=far)
        summary = summary_for(run, traced.workgroups, whole.resident, found.fitting, lambda: whole_load(run, self.short.traces),
                              traced.steps)
        longer = usual.cold
        if cold and usual.cold:
            started = simulate(self.program, self.short.traces, timing, found.profile.level, far=far, cold=True)
            longer = max(0.0, float(started.cycles - run.cycles))
        return replace(_lengthened(summary, self.short.rounds), last_round=usual.last_round, cold=longer, needed_flops=usual.needed_flops,
                       beside=usual.beside)

    def seconds_of(self, run: RunSummary) -> float:
        """Of the launch whose workgroups run so."""
        found, whole, traced = self.found, self.found.estimate, self.traced
        return estimate_run(run, traced.workgroups, whole.resident, whole.traffic, found.fitting, traced.steps).seconds


def _lengthened(run: RunSummary, rounds: int) -> RunSummary:
    """The run with so many rounds more."""
    loop = run.main_loop
    if loop is None or not rounds:
        return run
    cycles = run.cycles + rounds * loop.cycles
    busy = (run.matrix_busy * run.cycles + loop.matrix_busy * loop.cycles * rounds) / cycles
    return replace(run, cycles=cycles, matrix_busy=busy, flops=run.flops + rounds * loop.flops,
                   main_loop=replace(loop, total=loop.total + rounds * loop.cycles),
                   load=run.load.grown(loop.load, rounds) if run.load is not None else None)
