"""The main loop on the cycle model, for `asmgen inspect --html`: as a run executed it, or, without a run, from its code alone.

Without a run every wave that may come to the loop starts at its first instruction together with the others, goes round it a few times,
finds its data in L2 and no bank conflict. Barriers that only some waves pass before put these out of phase. Inner branches fall through.
With a run the waves of the first workgroup are timed as they ran.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from asmgen.emulator.scheduling.trace import LINE, Trace, WaveTrace, has_cost
from asmgen.isa.timing import Timing, gpu_of, timing
from asmgen.model.costs import CostKind, costs_of
from asmgen.model.cycles import ModelError, WaveTimes
from asmgen.model.profile import Profile, profile
from asmgen.program.controlflow import control_flow
from asmgen.program.program import Program
from asmgen.tools.inspection import KernelReport, LoopReport

ROUNDS = 8
"""So many times each wave goes round a loop that is timed from its code alone."""
_MOST_STEPS = 4  # times the loop's length: a walk through its code that does not come back is given up
_WAVES = 4  # where the workgroup's size is not known


@dataclass(frozen=True)
class RoundRow:
    """One instruction of the loop, of one wave in one round: clk of its issue from the round's begin on (-1: not executed in it), and clk
    of stalls by cause for one execution, the mean of all waves and rounds."""

    position: int
    issued: int
    stalls: dict[str, float]


@dataclass(frozen=True)
class LoopTimeline:
    """A round in the middle of a loop: clk `begin` to `end` of the profile's timeline."""

    loop: LoopReport
    profile: Profile
    begin: int
    end: int
    rows: tuple[RoundRow, ...]
    assumed: str

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
        from asmgen.tools.launch_command import trace_launch_spec

        trace = Trace(1)
        trace_launch_spec(spec, Options(checks=False, trace=trace))
        assert trace.program is not None
        found = profile(trace.program, list(trace.waves()), table, "grid", spans=True)
        made = _round(loop, found, "the waves of the first workgroup as the run executed them, data in the L2-friendly mix of a whole grid")
        if made is not None:
            return made
    try:
        traces = _traces(kernel, loop, table)
        assumed = "all waves begin the loop together, but for barriers that only some of them pass before; no bank conflicts, data in L2"
        return _round(loop, profile(kernel.program, traces, table, "l2", spans=True), assumed) if traces else None
    except ModelError:
        return None


def _traces(kernel: KernelReport, loop: LoopReport, table: Timing) -> list[WaveTrace]:
    program = kernel.program
    body = _body(program, loop)
    if not body:
        return []
    costs = costs_of(program, table)
    accesses = []
    for position in body:
        instruction, cost = program.instructions[position], costs[position]
        if has_cost(instruction):
            accesses.append(cost.lds_ideal if cost.kind is CostKind.LDS else max(1, cost.bytes // LINE))
    numbers = loop.waves if loop.waves else range(min(kernel.waves or _WAVES, 16))
    apart = _barriers_apart(kernel, loop)
    return [WaveTrace(0, wave, (*apart.get(wave, ()), *tuple(body) * ROUNDS), tuple(accesses) * ROUNDS) for wave in numbers]


def _barriers_apart(kernel: KernelReport, loop: LoopReport) -> dict[int, list[int]]:
    """By wave, barriers before the loop that only a part of the waves comes to: they put waves out of phase, as ping-pong wants it."""
    program = kernel.program
    barriers = [position for position in range(loop.first) if program.instructions[position].name == "s_barrier"]
    if kernel.block is None or not barriers:
        return {}
    from asmgen.program.wavevalues import WaveValues

    flow = control_flow(program)
    takes = WaveValues(program, flow, kernel.block).takes
    found: dict[int, list[int]] = {}
    for position in barriers:
        waves = takes[flow.block_of[position]].tolist()
        for wave, comes in enumerate(waves):
            if comes and not all(waves):
                found.setdefault(wave, []).append(position)
    return found


def _body(program: Program, loop: LoopReport) -> list[int]:
    """The positions of one round; empty where the walk does not come from the first instruction to the last."""
    body, position = [], loop.first
    for _ in range(_MOST_STEPS * loop.code.instructions):
        body.append(position)
        if position == loop.last:
            return body
        instruction = program.instructions[position]
        position += 1
        if instruction.ends_block:
            target = program.labels.get(instruction.target or "", -1)
            if not loop.first <= target <= loop.last:
                return []
            position = target
    return []


def _round(loop: LoopReport, found: Profile, assumed: str) -> LoopTimeline | None:
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
    return LoopTimeline(loop, found, begin, end, rows, assumed)

