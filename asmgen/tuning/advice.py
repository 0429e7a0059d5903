"""What a kernel would gain most by, as sentences with the predicted gain."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from asmgen.emulator.scheduling.trace import WaveTrace
from asmgen.model.changes import CONFLICTS, LoopChange, loop_changes
from asmgen.model.costs import CostKind
from asmgen.model.estimate import Estimate
from asmgen.model.profile import LoopProfile, Profile
from asmgen.model.runsummary import RunSummary
from asmgen.model.shortened import shortened
from asmgen.tuning.again import LaunchAgain
from asmgen.tuning.origins import Origin
from asmgen.tuning.prediction import Prediction
from asmgen.tuning.traced import Traced

_TRIED = 3  # changes of the loop
_LEAST_GAIN = 0.01
_RATE_OF = {"l2": "l2_read", "llc": "llc_read", "hbm": "hbm_read"}
"""The parameter that is the rate of a level of memory."""
_AT_ONCE = 1e6  # times that rate
_ALL = 0.95  # of the bytes that a launch moves
MOST = 3
"""Sentences of a report."""


@dataclass(frozen=True)
class Advice:
    """A change, the seconds that the launch is predicted to take less with it alone, and the instructions that it is about."""

    text: str
    gain: float
    positions: tuple[int, ...] = ()
    origin: Origin | None = None

    def as_json(self, seconds: float) -> dict[str, Any]:
        """JSON values; `gain` is a share of the launch's seconds."""
        return {"text": self.text, "gain_seconds": self.gain, "gain": self.gain / seconds, "positions": list(self.positions),
                **({"line": self.origin.line, "operation": self.origin.operation or None} if self.origin is not None else {})}


def advise(found: Prediction, traced: Traced, where: Sequence[Origin] = ()) -> list[Advice]:
    """The changes that gain most, the best first. `traced` is what was timed, `where` has its instructions' origins."""
    advice = [*_of_the_loads(found, traced), *_of_the_launch(found.run, found.estimate, found.with_run),
              *_of_the_loop(found, list(traced.trace.waves()), where)]
    return sorted((one for one in advice if one.gain >= _LEAST_GAIN * found.estimate.seconds), key=lambda one: -one.gain)[:MOST]


def _of_the_loads(found: Prediction, traced: Traced) -> list[Advice]:
    """What a level of memory takes that limits the launch: all that it would gain if that gave its bytes at once."""
    whole, table = found.estimate, found.run.timing
    level = whole.limit
    if level not in _RATE_OF or level not in whole.parts:
        return []
    rate = "grid_load" if level == "l2" and found.profile.level == "grid" else _RATE_OF[level]
    free = table.found(rate, table[rate] * _AT_ONCE).found("xcd_read", table["xcd_read"] * _AT_ONCE)
    rest = LaunchAgain(traced, found).seconds(free)
    moved = whole.traffic
    once = level == "hbm" and moved is not None and found.needed >= _ALL * (moved.hbm + moved.stored)
    how = "each byte goes once, so that only smaller types, or work done beside it, move fewer" if once else \
        "load fewer bytes of it, by larger tiles or an order of tiles that finds more in caches (asmgen grid --search)"
    needs = f"{level} gives the launch's bytes in {whole.parts[level] * 1e6:.1f} us, and without that all takes {rest * 1e6:.1f} us"
    return [Advice(f"{needs}: {how}", whole.seconds - rest)]


def _of_the_launch(run: RunSummary, whole: Estimate, again: Callable[[RunSummary], Estimate]) -> list[Advice]:
    units = run.timing.clocks("compute_units")
    full = whole.workgroups / (whole.rounds * whole.together * units)
    found = []
    time = whole.parts["compute units"]
    if full < 1:
        last = whole.workgroups - (whole.rounds - 1) * whole.together * units
        which = f"the last of {whole.rounds} rounds" if whole.rounds > 1 else "the only round"
        found.append(Advice(f"{which} has {last} workgroups, where {whole.together * units} run at once: another size or number of "
                            "workgroups that fills rounds", time * (1 - full)))
    outside = run.prologue + run.epilogue
    if run.main_loop is not None and outside:
        bare = again(replace(run, prologue=0.0, epilogue=0.0, cycles=run.cycles - outside,
                             matrix_busy=min(1.0, run.matrix_busy * run.cycles / (run.cycles - outside))))
        ends = f"{run.prologue:.0f} clk before and {run.epilogue:.0f} after the main loop"
        several = f"{ends} in each of {whole.rounds} rounds: overlap them with the loop of another workgroup"
        found.append(Advice(several if whole.rounds > 1 else f"{ends}: shorten them", whole.seconds - bare.seconds))
    return found


def _of_the_loop(found: Prediction, traces: Sequence[WaveTrace], where: Sequence[Origin]) -> list[Advice]:
    def group(position: int) -> object:
        return (where[position].line, where[position].awaited) if where else position

    timed = found.profile
    loop = timed.main_loop
    if loop is None:
        return []
    advice = []
    for change in loop_changes(timed, shortened(timed.program, traces).traces, _TRIED, group):
        if change.saved > 0:
            origin = where[change.positions[0]] if where else None
            gain = found.estimate.seconds - found.with_run(_faster(found.run, loop, change.saved)).seconds
            advice.append(Advice(_sentence(timed, loop, change, origin), gain, change.positions, origin))
    return advice


def _faster(run: RunSummary, loop: LoopProfile, saved: float) -> RunSummary:
    """The run with so many clk less in each round of its loop."""
    cycles = run.cycles - saved * loop.total / loop.cycles
    faster = replace(loop, cycles=loop.cycles - saved, total=loop.total - saved * loop.total / loop.cycles,
                     matrix_busy=min(1.0, loop.matrix_busy * loop.cycles / (loop.cycles - saved)))
    return replace(run, cycles=cycles, matrix_busy=min(1.0, run.matrix_busy * run.cycles / cycles), main_loop=faster)


def _sentence(found: Profile, loop: LoopProfile, change: LoopChange, origin: Origin | None) -> str:
    costs = found.timeline.costs[loop.first:loop.last + 1]
    barriers = sum(cost.kind is CostKind.BARRIER for cost in costs)
    at = str(origin) if origin is not None else found.program.instructions[change.positions[0]].text
    times = f" and {len(change.positions) - 1} more" if len(change.positions) > 1 else ""
    price = f"{change.cause} {at}{times} costs {change.stalled / loop.unroll:.0f} clk a step"
    if change.cause == CONFLICTS:
        return f"{price}: a swizzle without conflicts (asmgen banks)"
    if change.cause == "barrier":
        return f"{price}: waves come to it up to {change.longest:.0f} clk apart; give those that come last less to do before it"
    stages = math.ceil(change.longest * barriers / loop.cycles)
    return f"{price}: ask for it {f'{stages} stage' + 's' * (stages > 1) if barriers else f'{change.longest:.0f} clk'} earlier"
