"""The main loop on the cycle model, for `asmgen inspect --html`: as a run executed it, or, without a run, from its code alone.

Without a run every wave that may come to the loop starts at its first instruction together with the others, goes round it a few times,
finds its data in L2 and no bank conflict. Barriers that only some waves pass before put these out of phase. Inner branches fall through.
Waves that go round a sister of the loop meanwhile do so (`sisterloops`).
With a run the waves of the first workgroup are timed as they ran.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from asmgen.emulator.scheduling.trace import LINE, Trace, WaveTrace, has_cost
from asmgen.isa.timing import Timing, gpu_of, timing
from asmgen.model.costs import CostKind, costs_of
from asmgen.model.cycles import ModelError, WaveTimes
from asmgen.model.profile import Profile, profile
from asmgen.program.program import Program
from asmgen.tools.inspection.codefigures import waves_text
from asmgen.tools.inspection.inspection import KernelReport, LoopReport
from asmgen.tools.inspection.sisterloops import LoopWaves, barriers_in, loops_together

ROUNDS = 8
"""So many times at least each wave goes round a loop that is timed from its code alone."""


_MOST_ROUNDS = 4 * ROUNDS  # of a loop beside one with far more barriers a round


@dataclass(frozen=True)
class RoundRow:
    """One instruction of the loop, of one wave in one round: clk of its issue from the round's begin on (-1: not executed in it), and clk
    of stalls by cause for one execution, the mean of all waves and rounds."""

    position: int
    issued: int
    stalls: dict[str, float]


@dataclass(frozen=True)
class LoopTimeline:
    """A round in the middle of a loop: clk `begin` to `end` of the profile's timeline. `sisters` are loops that other waves go round."""

    loop: LoopReport
    profile: Profile
    begin: int
    end: int
    rows: tuple[RoundRow, ...]
    assumed: str
    sisters: tuple[LoopReport, ...] = ()

    @property
    def clocks(self) -> int:
        """Of the round."""
        return self.end - self.begin


def loop_timeline(kernel: KernelReport, spec: Path | None = None, chosen: Timing | None = None) -> LoopTimeline | None:
    """The round of the kernel's main loop; None without a loop, or where no wave goes round it. Raises AsmgenError as a launch does."""
    loop = kernel.main_loop
    if loop is None:
        return None
    table = chosen or timing(gpu_of(kernel.program.arch))
    if spec is not None:
        # Only a run needs the emulator, whose import takes longer than a page.
        from asmgen.emulator.scheduling.run import Options
        from asmgen.launch.specrun import trace_launch_spec

        trace = Trace(1)
        name = kernel.program.name
        trace_launch_spec(spec, lambda launched: Options(checks=False, trace=trace if launched == name else None))
        assert trace.program is not None
        found = profile(trace.program, list(trace.waves()), table, "grid", spans=True)
        made = _round(loop, found, "the waves of the first workgroup as the run executed them, data in the L2-friendly mix of a whole grid")
        if made is not None:
            return made
    try:
        together = loops_together(kernel, loop)
        traces = _traces(kernel.program, together, table) if together else []
        sisters = tuple(one.loop for one in together if one.loop is not loop)
        return _round(loop, profile(kernel.program, traces, table, "l2", spans=True), _assumed(together), sisters) if traces else None
    except ModelError:
        return None


def _traces(program: Program, together: Sequence[LoopWaves], table: Timing) -> list[WaveTrace]:
    """Some rounds of each loop by its waves: barriers keep them in step, so that a loop with twice as many a round has half the rounds."""
    costs, passed = costs_of(program, table), [barriers_in(program, one.body) for one in together]
    meetings = min(ROUNDS * max(passed), _MOST_ROUNDS * min((each for each in passed if each), default=0))
    traces = []
    for one, each in zip(together, passed, strict=True):
        rounds = -(-meetings // each) if each else ROUNDS
        accesses = tuple(costs[position].lds_ideal if costs[position].kind is CostKind.LDS else max(1, costs[position].bytes // LINE)
                         for position in one.body if has_cost(program.instructions[position]))
        traces += [WaveTrace(0, wave, (*one.before[wave], *one.body * rounds), accesses * rounds) for wave in one.waves]
    return sorted(traces, key=lambda trace: trace.wave)


def _assumed(together: Sequence[LoopWaves]) -> str:
    """What is taken for given where nothing ran."""
    said = "all waves begin the loop together, but for barriers that only some of them pass before; no bank conflicts, data in L2"
    for one in together[1:]:
        said += f"; waves {waves_text(one.waves)} go round instructions {one.loop.first} to {one.loop.last} meanwhile" \
            if one.loop != together[0].loop else f"; waves {waves_text(one.waves)} go their own way in it"
        said += " (a guess: the code does not say which waves these are)" if one.guessed else ""
    return said


def _round(loop: LoopReport, found: Profile, assumed: str, sisters: tuple[LoopReport, ...] = ()) -> LoopTimeline | None:
    """A round in the middle of the first wave's visit that has the most."""
    best: tuple[int, WaveTimes, list[int]] | None = None
    for wave in found.timeline.waves:
        heads = [at for at, position in enumerate(wave.positions) if position == loop.first]
        if len(heads) > 1 and (best is None or len(heads) > best[0]):
            best = len(heads), wave, heads
    if best is None:
        return None
    _, wave, heads = best
    middle = (len(heads) - 1) // 2
    first, last = heads[middle], heads[middle + 1]
    begin, end = wave.issued[first], wave.issued[last]
    issued = {wave.positions[at]: wave.issued[at] - begin for at in reversed(range(first, last))}
    stalls = {row.position: {cause: clocks / row.executed for cause, clocks in row.stalls.items()} for row in found.instructions}
    rows = tuple(RoundRow(position, issued.get(position, -1), stalls.get(position, {})) for position in range(loop.first, loop.last + 1))
    return LoopTimeline(loop, found, begin, end, rows, assumed, sisters)

