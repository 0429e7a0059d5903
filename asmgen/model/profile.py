"""From a timeline to what `asmgen profile` says: loops in their steady state with bounds and stalls, and each instruction's clk."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from asmgen.emulator.scheduling.trace import WaveTrace
from asmgen.isa.arch import SIMDS
from asmgen.isa.timing import Timing
from asmgen.model.costs import CostKind, IssueCost
from asmgen.model.cycles import Timeline, WaveTimes, simulate
from asmgen.model.farmemory import FarMemory, far_memory
from asmgen.model.loadfreeends import load_free_ends
from asmgen.model.usage import ResourceBounds, UnitLoad, Usage, accesses_by_execution, usage
from asmgen.program.controlflow import Loop, control_flow
from asmgen.program.program import Program

DROPPED = 2
"""Rounds at either end of a visit to a loop that are not its steady state."""


FAR = 0.15
"""A loop that is so much above its binding bound is limited by what its waves wait for, not by that unit."""
_MOST_COPIES = 8
"""Of a step in an unrolled loop."""
_CONCURRENT = 0.75
"""A wave that goes round a loop for so much of the time in which any of its SIMD does goes round it beside the others."""


@dataclass(frozen=True)
class Visit:
    """Rounds of a loop by one wave, one after the other: the executions at which they begin, and where the last one ends."""

    wave: int
    heads: tuple[int, ...]

    @property
    def rounds(self) -> int:
        """How many."""
        return len(self.heads) - 1

    def steady(self) -> Visit:
        """Without the first and last rounds, as far as there are enough."""
        drop = min(DROPPED, (self.rounds - 1) // 2)
        return Visit(self.wave, self.heads[drop:len(self.heads) - drop])


@dataclass(frozen=True)
class LoopProfile:
    """A loop's steady state, predicted. `cycles` and `stalls` (mean of its waves) are of one trip through the code from `first` to `last`;
    `unroll` says how often the trip repeats the same work. `steady` is False where there were not enough rounds to drop the ends."""

    first: int
    last: int
    unroll: int
    rounds: int
    waves: int
    steady: bool
    cycles: float
    matrix_busy: float
    bounds: ResourceBounds
    stalls: dict[str, float]
    flops: float
    total: float  # clk that a wave spends in it, all rounds
    load: UnitLoad  # of one trip

    @property
    def distance(self) -> float:
        """How far above the binding bound: 0.05 is 5 % more clk."""
        bound = self.bounds.clocks[self.bounds.binding]
        return self.cycles / bound - 1 if bound else 0.0

    @property
    def memory_verdict(self) -> str:
        """What vector memory is to the loop. Waves that wait for one load before they ask for the next leave its pipeline empty: latency,
        whatever bytes in flight would allow."""
        waiting = max(self.stalls, key=lambda cause: self.stalls[cause], default="") == "wait vm"
        return "latency" if waiting and self.cycles > (1 + FAR) * self.bounds.least else self.bounds.verdict


@dataclass(frozen=True)
class InstructionProfile:
    """One instruction, over all waves: executions, clk in which it held its place, clk of stalls by cause."""

    position: int
    executed: int
    issue: int
    stalls: dict[str, int]


@dataclass(frozen=True)
class Profile:
    """What the model says of the workgroups on one compute unit. `prologue` and `epilogue` are the clk before and after the loop that
    takes longest, the mean of its waves; without a loop all is prologue. `load_free_ends`
    and `first_loads` are as `RunSummary` has them."""

    program: Program
    timing: Timing
    level: str
    far: FarMemory
    timeline: Timeline
    loops: tuple[LoopProfile, ...]
    instructions: tuple[InstructionProfile, ...]
    prologue: float
    epilogue: float
    flops: float
    load_free_ends: float
    first_loads: tuple[int, ...]
    main_loop: LoopProfile | None
    """The loop that takes longest, of those that any wave goes round more than once where there are some: one that is gone through
    once has another in it, or is none. Of loops that share code, and so go round one in the other, it is the inner one if that takes
    most of the time. Where some waves load and others multiply beside them, it is the loop of those that multiply."""

    @property
    def cycles(self) -> int:
        """Of the whole run."""
        return self.timeline.cycles

    @cached_property
    def matrix_busy(self) -> float:
        """Share of the whole run in which matrix cores work, the mean of the SIMDs."""
        costs = self.timeline.costs
        busy = sum(costs[position].occupancy for wave in self.timeline.waves for position in wave.positions)
        return busy / SIMDS / self.cycles if self.cycles else 0.0


def _longest(loops: Sequence[LoopProfile], blocks: Sequence[frozenset[int]], costs: Sequence[IssueCost]) -> LoopProfile | None:
    """The main loop of a profile. `blocks` are those of code that each loop has."""
    of_each = {(loop.first, loop.last): its for loop, its in zip(loops, blocks, strict=True)}
    repeated = [loop for loop in loops if loop.rounds > 1] or loops
    longest = _innermost(max(repeated, key=lambda loop: loop.total, default=None), repeated, of_each)
    if longest is None or _multiplies(longest, costs):
        return longest
    beside = [loop for loop in repeated if loop.total >= _CONCURRENT * longest.total and _multiplies(loop, costs)
              and (loop.last < longest.first or longest.last < loop.first)]
    return max(beside, key=lambda loop: loop.total, default=longest)


def _innermost(main: LoopProfile | None, loops: Sequence[LoopProfile],
               blocks: Mapping[tuple[int, int], frozenset[int]]) -> LoopProfile | None:
    """The loop in it that takes most of its time, and in that one again, as far as there is one. Its code may stand before that of the
    one around it, where a workgroup takes one item after another."""
    while main is not None:
        around = blocks[main.first, main.last]
        inner = [one for one in loops if around & blocks[one.first, one.last] and one.cycles < main.cycles and 2 * one.total > main.total]
        if not inner:
            break
        main = max(inner, key=lambda loop: loop.total)
    return main


def _multiplies(loop: LoopProfile, costs: Sequence[IssueCost]) -> bool:
    return any(cost.kind is CostKind.MATRIX for cost in costs[loop.first:loop.last + 1])


def profile(program: Program, traces: Sequence[WaveTrace], timing: Timing, level: str = "grid", spans: bool = False,
            far: FarMemory | None = None) -> Profile:
    """Time the traced waves on one compute unit and sum up. Raises as `simulate` does."""
    timeline = simulate(program, traces, timing, level, spans, far)
    far = far or far_memory(timing, level)
    analysis = _Analysis(program, traces, timing, far, timeline)
    profiled = [(found, loop.blocks) for loop in control_flow(program).loops() if (found := analysis.loop(loop)) is not None]
    loops = tuple(found for found, _ in profiled)
    main = _longest(loops, [blocks for _, blocks in profiled], timeline.costs)
    before, after = analysis.ends(main)
    flops = sum(timeline.costs[position].flops for wave in timeline.waves for position in wave.positions)
    free, first_loads = load_free_ends(timeline.bursts, before, after, timeline.cycles)
    return Profile(program, timing, level, far, timeline, loops, analysis.instructions(), before, after, flops, free, first_loads, main)


def whole_load(found: Profile, traces: Sequence[WaveTrace]) -> UnitLoad:
    """What all executions of a profile's waves ask of the parts of a compute unit."""
    load, costs = UnitLoad(), found.timeline.costs
    for wave, trace in zip(found.timeline.waves, traces, strict=True):
        accesses = accesses_by_execution(costs, trace)
        load.by_simd[wave.simd].append(usage(costs, trace, accesses, 0, len(trace.positions), found.timing, found.far))
    return load


class _Analysis:
    def __init__(self, program: Program, traces: Sequence[WaveTrace], timing: Timing, far: FarMemory, timeline: Timeline) -> None:
        self.program, self.traces, self.timing, self.far, self.timeline = program, traces, timing, far, timeline
        self.waves = timeline.waves
        self.accesses = [accesses_by_execution(timeline.costs, trace) for trace in traces]
        self.heads: dict[int, list[list[int]]] = {}

    def loop(self, loop: Loop) -> LoopProfile | None:
        """What is to be said of a loop; None where no wave came to it. Visits of one round count only where there are no others."""
        visits = [visit for number in range(len(self.waves)) for visit in self._visits(number, loop)]
        if not visits:
            return None
        visits = [visit for visit in visits if visit.rounds > 1] or visits
        steady = [visit.steady() for visit in visits]
        waves = sorted({visit.wave for visit in steady})
        cycles = sum(self._clocks(visit) for visit in steady) / sum(visit.rounds for visit in steady)
        load, busy, flops = UnitLoad(), [0.0] * SIMDS, 0.0
        during = _union([self._span(visit) for visit in steady])
        together = [_union([self._span(visit) for visit in steady if self.waves[visit.wave].simd == simd]) for simd in range(SIMDS)]
        for number, wave in enumerate(self.waves):
            mine = [visit for visit in steady if visit.wave == number]
            concurrent = mine and sum(self._clocks(visit) for visit in mine) >= _CONCURRENT * _length(together[wave.simd])
            trip = self._trip(number, mine) if concurrent else self._beside(number, during, cycles)
            load.by_simd[wave.simd].append(trip)
            busy[wave.simd] += trip.matrix / cycles
            flops += trip.flops
        stalls: Counter[str] = Counter()
        for visit in steady:
            for at, cause, clocks in self.waves[visit.wave].stalls:
                if visit.heads[0] <= at < visit.heads[-1]:
                    stalls[cause] += clocks
        rounds = sum(visit.rounds for visit in steady)
        total = sum(self._clocks(visit) for visit in visits) / len(waves)
        return LoopProfile(loop.first, loop.last, self._unroll(loop), max(visit.rounds for visit in visits), len(waves),
                           all(visit.rounds > 2 * DROPPED for visit in visits), cycles, sum(busy) / SIMDS,
                           load.bounds(self.timing, self.far), {cause: clocks / rounds for cause, clocks in stalls.most_common()},
                           flops, total, load)

    def ends(self, main: LoopProfile | None) -> tuple[float, float]:
        """clk before the first round and after the last one of the main loop."""
        if main is None:
            return float(self.timeline.cycles), 0.0
        before, after = [], []
        for number, wave in enumerate(self.waves):
            visits = self._visits(number, Loop(main.first, main.last, frozenset()))
            if visits:
                before.append(self._time(number, visits[0].heads[0]))
                after.append(wave.end - self._time(number, visits[-1].heads[-1]))
        return sum(before) / len(before), sum(after) / len(after)

    def instructions(self) -> tuple[InstructionProfile, ...]:
        """Every instruction that was executed."""
        executed: Counter[int] = Counter()
        stalls: dict[int, Counter[str]] = defaultdict(Counter)
        for wave in self.waves:
            executed.update(wave.positions)
            for at, cause, clocks in wave.stalls:
                if at < len(wave.positions):
                    stalls[wave.positions[at]][cause] += clocks
        costs = self.timeline.costs
        return tuple(InstructionProfile(position, executed[position],
                                        executed[position] * (costs[position].hold + costs[position].lead * (
                                            costs[position].kind is CostKind.MATRIX)), dict(stalls.get(position, {})))
                     for position in sorted(executed))

    def _visits(self, number: int, loop: Loop) -> list[Visit]:
        """The visits of a wave to a loop: rounds are linked by the back-edge, and no wave leaves the loop within one."""
        positions = self.waves[number].positions
        found: list[Visit] = []
        heads: list[int] = []
        for at in self._locations(number, loop.first):
            if heads and positions[at - 1] == loop.last and not _left(positions, heads[-1], at, loop):
                heads.append(at)
            else:
                self._close(found, number, heads, loop)
                heads = [at]
        self._close(found, number, heads, loop)
        return found

    def _locations(self, number: int, position: int) -> list[int]:
        known = self.heads.get(position)
        if known is None:
            known = self.heads[position] = [[at for at, one in enumerate(wave.positions) if one == position] for wave in self.waves]
        return known[number]

    def _close(self, found: list[Visit], number: int, heads: list[int], loop: Loop) -> None:
        """The last round ends after the branch, or where the wave leaves the loop's code."""
        if not heads:
            return
        positions = self.waves[number].positions
        at = heads[-1]
        while at < len(positions) and loop.first <= positions[at] <= loop.last:
            at += 1
        found.append(Visit(number, (*heads, at)))

    def _time(self, number: int, at: int) -> int:
        """When a wave issued its execution number `at`; its end for one after the last."""
        wave = self.waves[number]
        return wave.issued[at] if at < len(wave.issued) else wave.end

    def _span(self, visit: Visit) -> tuple[int, int]:
        return self._time(visit.wave, visit.heads[0]), self._time(visit.wave, visit.heads[-1])

    def _clocks(self, visit: Visit) -> int:
        begin, end = self._span(visit)
        return end - begin

    def _usage(self, number: int, first: int, last: int) -> Usage:
        return usage(self.timeline.costs, self.traces[number], self.accesses[number], first, last, self.timing, self.far)

    def _trip(self, number: int, visits: Sequence[Visit]) -> Usage:
        """What one round asks for, the mean of the steady ones."""
        trip, rounds = Usage(), sum(visit.rounds for visit in visits)
        for visit in visits:
            trip.add(self._usage(number, visit.heads[0], visit.heads[-1]), 1 / rounds)
        return trip

    def _beside(self, number: int, during: Sequence[tuple[int, int]], cycles: float) -> Usage:
        """What a wave that is elsewhere, be it for a part of the time, asks for in the time of a round."""
        issued, share = self.waves[number].issued, Usage()
        for begin, end in during:
            share.add(self._usage(number, bisect_left(issued, begin), bisect_left(issued, end)), cycles / _length(during))
        return share

    def _unroll(self, loop: Loop) -> int:
        """How often the loop's text repeats the same sequence of matrix, memory and barrier instructions with all of its barriers.

        A loop without barriers between copies, or without matrix instructions, is taken as it stands: its repetition may be the step's.
        So are parts that have no accumulator in common, as the halves of a tile in ping-pong.
        """
        parts = [(instruction, cost.kind) for instruction, cost in
                 zip(self.program.instructions[loop.first:loop.last + 1], self.timeline.costs[loop.first:loop.last + 1], strict=True)
                 if cost.kind in (CostKind.MATRIX, CostKind.LDS, CostKind.VMEM, CostKind.BARRIER)]
        names = [instruction.name for instruction, _ in parts]
        if not {CostKind.MATRIX, CostKind.VMEM} <= {kind for _, kind in parts}:
            return 1
        accumulators = [instruction.writes if kind is CostKind.MATRIX else 0 for instruction, kind in parts]

        def repeated(times: int) -> bool:
            """Whether the loop is so many copies of one sequence that accumulate in the same registers."""
            size, rest = divmod(len(names), times)
            common = -1
            for begin in range(0, len(names), size):
                copy = 0
                for one in accumulators[begin:begin + size]:
                    copy |= one
                common &= copy
            return not rest and bool(common) and names == names[:size] * times

        return next(times for times in range(min(_MOST_COPIES, len(names)), 0, -1) if times == 1 or repeated(times))


def _left(positions: Sequence[int], begin: int, end: int, loop: Loop) -> bool:
    """Whether a wave leaves a loop between two executions of its head: it comes back no later in the text than it went. From a block that
    stands apart it comes back later."""
    if end - begin <= loop.last - loop.first + 1:
        return False
    inside = loop.first
    for at in range(begin, end):
        position = positions[at]
        if loop.first <= position <= loop.last:
            if position <= inside and at > begin and not loop.first <= positions[at - 1] <= loop.last:
                return True
            inside = position
    return False


def _union(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The clk that lie in any of the spans, as spans apart from each other."""
    joined: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if joined and begin <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((begin, end))
    return joined


def _length(spans: Sequence[tuple[int, int]]) -> int:
    return sum(end - begin for begin, end in spans)


def wave_label(wave: WaveTimes) -> str:
    """For people."""
    return f"workgroup {wave.workgroup} wave {wave.wave}"
