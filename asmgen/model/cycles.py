"""The cycle model of one compute unit: when each wave issues each of its instructions, and what it waited for.

Waves issue in order. Every 4 clk each of the four SIMDs looks at its waves, higher s_setprio first, then the older one, and issues at
most one instruction a wave and one a category; internal instructions have none. A matrix instruction has the slot for itself and
nothing issues on its SIMD while operands are read: other waves wait for that time to pass.
Wave w of a workgroup runs on SIMD w % 4. What the model leaves out is in `LEFT_OUT` and docs/CYCLE_MODEL.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from asmgen.emulator.scheduling.trace import NO_ARGUMENT, WaveTrace
from asmgen.isa.arch import SIMDS
from asmgen.isa.errors import AsmgenError
from asmgen.isa.timing import Timing
from asmgen.model.costs import CostKind, IssueCost, costs_of
from asmgen.model.farmemory import LEVELS, FarMemory, far_memory
from asmgen.model.icache import InstructionCache, left_by
from asmgen.model.loadfreeends import LoadBurst
from asmgen.model.units import NEVER, Lds, UnitAccess, VectorMemory
from asmgen.program.program import Program

CAUSES = ("wait vm", "wait lgkm", "barrier", "matrix core", "dependency", "lds bus", "memory port", "return", "fetch", "arbitration")
"""Why a wave could not issue. "return" is a full vector memory queue, "matrix core" a busy core or its operand read."""
LEFT_OUT = ("register-file ports of three-source VALU", "bank conflicts between waves", "the lanes' EXEC in VALU time",
            "hits of a compute unit's vector cache")

_VALU = (CostKind.MATRIX, CostKind.VALU)
_BESIDE = ("memory", "scalar")
"""Categories of other waves that may issue early after a scaled matrix instruction."""


class ModelError(AsmgenError):
    """The model cannot time this."""


@dataclass
class WaveTimes:
    """What became of one wave: clk of each issue, in order, and stalls as (number of the execution, cause, clk)."""

    workgroup: int
    wave: int
    simd: int
    positions: tuple[int, ...]
    issued: list[int] = field(default_factory=list)
    stalls: list[tuple[int, str, int]] = field(default_factory=list)
    end: int = 0

    def stall_spans(self, costs: Sequence[IssueCost]) -> list[tuple[int, str, int, int]]:
        """Stalls as (number of the execution, cause, clk from, clk to): those of one execution one after the other before its issue,
        but a barrier's after it."""
        spans = []
        execution, until = -1, 0
        for at, cause, clocks in reversed(self.stalls):
            if cause == "barrier":
                end = self.issued[at] + costs[self.positions[at]].hold + clocks
            else:
                if at != execution:
                    execution, until = at, self.issued[at] if at < len(self.issued) else self.end
                end, until = until, until - clocks
            spans.append((at, cause, end - clocks, end))
        return spans[::-1]


@dataclass(frozen=True)
class Timeline:
    """A run: its clk, the waves', how long banks and vector cache were busy, and spans of accesses for a trace."""

    cycles: int
    waves: tuple[WaveTimes, ...]
    costs: tuple[IssueCost, ...]
    lds_busy: int
    vmem_busy: int
    accesses: tuple[tuple[str, int, int, int], ...]  # unit, position, from, to
    bursts: tuple[LoadBurst, ...] = ()


@dataclass(slots=True)
class _Pending:
    """A register result under way: its mask, and when readers of each sort may have it."""

    mask: int
    ready: int
    scalar_ready: int
    matrix: bool
    forward: int
    same: str


class _Wave:
    def __init__(self, number: int, trace: WaveTrace, times: WaveTimes) -> None:
        self.number, self.times, self.positions, self.access_costs = number, times, trace.positions, trace.costs
        self.arguments = trace.arguments
        self.at = self.accesses = self.priority = 0
        self.retry = self.mark = 0  # when to look again; up to when its time is accounted for
        self.cause = "fetch"
        self.pending: list[_Pending] = []
        self.vm: deque[UnitAccess] = deque()
        self.counted = 0  # by vmcnt, of all it has issued
        self.loads: deque[tuple[int, LoadBurst]] = deque()  # of far memory, that it has not waited for, with their counts
        self.lgkm: list[UnitAccess] = []
        self.scalar_base = 0  # when its first scalar load is back
        self.drained = 0  # when its stores and vector instructions are done
        self.line = -1  # of the instruction cache, that it has come to

    def stalled(self, cause: str, retry: int) -> bool:
        self.cause, self.retry = cause, retry
        return False


@dataclass
class _Simd:
    waves: list[_Wave]
    blocked: int = 0  # until when nothing issues, but memory and scalar instructions from `beside` on
    beside: int = 0
    valu_free: int = 0
    memory_free: int = 0
    scalar_free: int = 0
    branch_free: int = 0
    core_free: int = 0
    last_matrix_end: int = -NEVER
    last_memory: int = -1  # when it last had the way to LDS or vector memory
    number: int = 0


@dataclass
class _Workgroup:
    waves: list[_Wave]
    alive: int = 0
    arrived: list[_Wave] = field(default_factory=list)


def simulate(program: Program, traces: Sequence[WaveTrace], timing: Timing, level: str = "grid", spans: bool = False,
             far: FarMemory | None = None, cold: bool = False) -> Timeline:
    """Time the waves of workgroups that are together on one compute unit from clk 0 on. `spans`: keep the accesses for a trace. `far`:
    where their data is, in place of what the level says of any launch. `cold`: the instruction cache is empty, in place of holding what
    such workgroups leave there.

    Raises ModelError for no waves, a level that is not in LEVELS, or waves that wait for each other for ever.
    """
    if not traces or level not in LEVELS:
        raise ModelError("there is no wave to time" if not traces else f"data is in one of {', '.join(LEVELS)}, not in {level!r}")
    return _Simulation(program, traces, timing, far or far_memory(timing, level), spans, cold).run()


class _Simulation:
    def __init__(self, program: Program, traces: Sequence[WaveTrace], timing: Timing, far: FarMemory, spans: bool,
                 cold: bool) -> None:
        self.costs = costs_of(program, timing)
        self.icache = InstructionCache(program, timing, () if cold else left_by(program, traces, timing))
        self.lines = self.icache.lines
        self.lds = Lds(timing)
        self.vmem = VectorMemory(timing, far, self.lds)
        self.slot, self.operand_read = timing.clocks("slot"), timing.clocks("mfma_operand_read")
        self.gap, self.packed_hazard = timing.clocks("mfma_gap"), timing.clocks("packed_hazard")
        self.valu_scalar, self.barrier_release = timing.clocks("valu_scalar_latency"), timing.clocks("barrier_release")
        self.branch_taken, self.branch_not_taken = timing.clocks("branch_taken"), timing.clocks("branch_not_taken")
        self.nop_beside, self.scaled_beside = timing["nop_beside"], timing.clocks("scaled_beside")
        self.kernarg, self.smem = timing.clocks("kernarg_latency"), timing.clocks("smem_latency")
        self.fetch_rate, self.fetch_room = timing["fetch_rate"], timing["fetch_buffer"]
        self.fetched, self.fetched_at = self.fetch_room, 0
        self.waves = [_Wave(number, trace, WaveTimes(trace.workgroup, trace.wave, trace.wave % SIMDS, trace.positions))
                      for number, trace in enumerate(traces)]
        self.simds = [_Simd([wave for wave in self.waves if wave.times.simd == simd], number=simd) for simd in range(SIMDS)]
        self.workgroups = {number: _Workgroup([wave for wave in self.waves if wave.times.workgroup == number])
                           for number in dict.fromkeys(trace.workgroup for trace in traces)}
        for workgroup in self.workgroups.values():
            workgroup.alive = len(workgroup.waves)
        self.spans: list[tuple[str, int, UnitAccess]] | None = [] if spans else None

    def run(self) -> Timeline:
        """Until every wave has ended."""
        for wave in self.waves:
            if not wave.positions:
                self._end(wave, 0)
        now = 0
        waves, simds, slot = self.waves, self.simds, self.slot
        while True:
            self.lds.advance(now)
            for simd in sorted(simds, key=lambda one: one.last_memory):  # they take turns on what they share
                self._serve(simd, simd.number, now)
            following = min([wave.retry for wave in waves])
            if following >= NEVER:
                break
            now = max(now + slot, -(-following // slot) * slot)
        if any(workgroup.alive for workgroup in self.workgroups.values()):
            raise ModelError("the waves of the trace wait at barriers for each other for ever")
        self.lds.advance(NEVER - 1)
        spans = tuple((unit, position, access.started, access.done) for unit, position, access in self.spans or ())
        return Timeline(max(slot, *(wave.times.end for wave in waves)), tuple(wave.times for wave in waves), self.costs, self.lds.busy,
                        self.vmem.busy, spans, tuple(self.vmem.bursts))

    def _serve(self, simd: _Simd, number: int, now: int) -> None:
        """One slot of a SIMD: first the vector category, as a matrix instruction has the slot for itself; then everything else."""
        ready = [wave for wave in simd.waves if wave.retry <= now]
        if not ready:
            return
        rest = []
        for wave in ready:
            self._account(wave, now)
            cost = self.costs[wave.positions[wave.at]]
            if cost.kind not in _VALU:
                rest.append((wave, cost))
            elif self._vector(simd, wave, cost, now) and cost.kind is CostKind.MATRIX:
                self._hold_others(simd, wave, "matrix core")
                return
        for wave, cost in rest:
            self._other(simd, number, wave, cost, now)

    def _hold_others(self, simd: _Simd, wave: _Wave, cause: str) -> None:
        """Other waves look again when the SIMD issues what they have next."""
        for other in simd.waves:
            if other is not wave and other.retry < simd.blocked:
                beside = self.costs[other.positions[other.at]].kind.category in _BESIDE
                other.retry, other.cause = max(other.retry, simd.beside if beside else simd.blocked), cause

    def _account(self, wave: _Wave, now: int) -> None:
        if now > wave.mark:
            wave.times.stalls.append((wave.at, wave.cause, now - wave.mark))
            wave.mark = now

    # Vector instructions.

    def _vector(self, simd: _Simd, wave: _Wave, cost: IssueCost, now: int) -> bool:
        need = self._dependence(wave, cost, now)
        if need > now:
            busy = cost.kind is CostKind.MATRIX and simd.core_free - cost.lead >= need
            return wave.stalled("matrix core" if busy else "dependency", need)
        if simd.valu_free > now:
            return wave.stalled("arbitration", simd.valu_free)
        if cost.kind is CostKind.MATRIX:
            return self._matrix(simd, wave, cost, now)
        if cost.packed and simd.last_matrix_end + self.packed_hazard > now:
            return wave.stalled("matrix core", simd.last_matrix_end + self.packed_hazard)
        if not self._fetch(wave, cost, now):
            return False
        simd.valu_free = now + cost.issue
        wave.drained = max(wave.drained, simd.valu_free)
        self._results(wave, cost, now)
        return self._issued(wave, now, cost.hold)

    def _matrix(self, simd: _Simd, wave: _Wave, cost: IssueCost, now: int) -> bool:
        start = simd.core_free - cost.lead
        if start >= now + self.slot:  # what is less than a slot away begins at its own clk
            return wave.stalled("matrix core", start // self.slot * self.slot)
        if not self._fetch(wave, cost, now):
            return False
        begin = max(now + cost.lead, simd.core_free)
        simd.core_free = begin + cost.occupancy + self.gap
        simd.last_matrix_end = begin + cost.occupancy
        wave.drained = max(wave.drained, simd.last_matrix_end)
        simd.valu_free = simd.blocked = now + cost.lead + self.operand_read
        simd.beside = now + min(self.scaled_beside, cost.lead + self.operand_read) if cost.lead else simd.blocked
        self._results(wave, cost, now)
        return self._issued(wave, now, simd.blocked - now)

    def _results(self, wave: _Wave, cost: IssueCost, now: int) -> None:
        if cost.writes:
            matrix = cost.kind is CostKind.MATRIX
            scalar = max(cost.ready, self.valu_scalar) if cost.kind is CostKind.VALU else cost.ready
            wave.pending.append(_Pending(cost.writes, now + cost.ready, now + scalar, matrix, now + cost.occupancy, cost.same))

    def _dependence(self, wave: _Wave, cost: IssueCost, now: int) -> int:
        """When the registers that an instruction touches are there."""
        pending = wave.pending
        if not pending:
            return 0
        need, stale = 0, False
        reads, writes, accumulator = cost.reads, cost.writes, cost.accumulator
        for one in pending:
            if one.scalar_ready <= now and one.ready <= now:
                stale = True
                continue
            if one.mask & reads:
                need = max(need, one.ready if cost.kind.category != "scalar" else one.scalar_ready)
            elif one.mask & accumulator:
                forwarded = one.matrix and one.same == cost.same and one.mask == accumulator
                need = max(need, one.forward if forwarded else one.ready)
            elif one.matrix and one.mask & writes and cost.kind is not CostKind.MATRIX:  # these write in order
                need = max(need, one.ready)
        if stale:
            wave.pending = [one for one in pending if one.ready > now or one.scalar_ready > now]
        return need

    # Everything else.

    def _other(self, simd: _Simd, number: int, wave: _Wave, cost: IssueCost, now: int) -> bool:
        kind = cost.kind
        if simd.blocked > now and kind.category not in _BESIDE:
            return wave.stalled("matrix core", simd.blocked)
        if kind is CostKind.WAIT:
            return self._wait(wave, cost, now)
        if cost.reads:
            need = self._dependence(wave, cost, now)
            if need > now:
                return wave.stalled("dependency", need)
        if kind.category == "memory":
            return self._memory(simd, number, wave, cost, now)
        if kind is CostKind.SCALAR or kind is CostKind.SMEM:
            if simd.scalar_free > now:
                return wave.stalled("arbitration", simd.scalar_free)
            if not self._fetch(wave, cost, now):
                return False
            simd.scalar_free = now + self.slot
            if kind is CostKind.SMEM:
                self._scalar_load(wave, cost, now)
            else:
                self._results(wave, cost, now)
            return self._issued(wave, now, cost.hold)
        if kind is CostKind.BRANCH and simd.branch_free > now:
            return wave.stalled("arbitration", simd.branch_free)
        if not self._fetch(wave, cost, now):
            return False
        if kind is CostKind.BRANCH:
            simd.branch_free = now + self.slot
            position, following = wave.positions[wave.at], wave.at + 1
            taken = following < len(wave.positions) and wave.positions[following] != position + 1
            self._results(wave, cost, now)
            self._issued(wave, now, cost.hold)
            return not wave.stalled("fetch", now + (self.branch_taken if taken else self.branch_not_taken)) if wave.retry < NEVER else True
        if kind is CostKind.PRIORITY:
            wave.priority = cost.priority
            simd.waves.sort(key=lambda one: (-one.priority, one.number))
        if kind is CostKind.BARRIER:
            return self._barrier(wave, now)
        self._issued(wave, now, cost.hold)
        if kind is CostKind.NOP and wave.retry < NEVER and any(other is not wave and other.retry < NEVER for other in simd.waves):
            return not wave.stalled("arbitration", now + round(cost.hold * self.nop_beside))
        return True

    def _scalar_load(self, wave: _Wave, cost: IssueCost, now: int) -> None:
        """The first one of a wave goes to host memory, and those issued meanwhile come no sooner."""
        if not wave.scalar_base:
            wave.scalar_base = now + self.kernarg
        access = UnitAccess(max(wave.scalar_base, now + self.smem), "wait lgkm", now, now)
        wave.lgkm += [access] * cost.lgkm

    def _memory(self, simd: _Simd, number: int, wave: _Wave, cost: IssueCost, now: int) -> bool:
        if simd.memory_free > now:
            return wave.stalled("memory port", simd.memory_free)
        if cost.kind is CostKind.VMEM:
            free = self.vmem.free_at(now)
            if free > now:
                return wave.stalled("return", free)
        else:
            free = self.lds.free_at(number, now)
            if free > now:
                return wave.stalled("lds bus", free)
        if not self._fetch(wave, cost, now):
            return False
        simd.memory_free, simd.last_memory = now + cost.issue, now
        amount, argument = 0, NO_ARGUMENT
        if cost.traced:
            if wave.accesses >= len(wave.access_costs):
                raise ModelError("the trace has fewer memory accesses than its instructions make")
            amount = wave.access_costs[wave.accesses]
            argument = wave.arguments[wave.accesses] if wave.arguments else NO_ARGUMENT
            wave.accesses += 1
        if cost.kind is CostKind.VMEM:
            access = self.vmem.issue(now, cost, amount, argument)
            wave.vm.extend([access] * cost.vm)
            wave.counted += cost.vm
            if access.burst is not None:
                wave.loads.append((wave.counted, access.burst))
            wave.drained = max(wave.drained, access.done if cost.store else 0)
        elif cost.kind is CostKind.LDS:
            access = self.lds.issue(number, now, cost, amount)
        else:
            access = self.lds.cross(number, now)
        wave.lgkm += [access] * cost.lgkm
        if self.spans is not None:
            self.spans.append(("vector memory" if cost.kind is CostKind.VMEM else f"LDS pair {number & 1}", wave.positions[wave.at],
                               access))
        return self._issued(wave, now, cost.hold)

    def _wait(self, wave: _Wave, cost: IssueCost, now: int) -> bool:
        """s_waitcnt issues when its counts are met, and takes a slot."""
        wait = cost.wait
        if wait is not None and wait.vmcnt is not None:
            vm = wave.vm
            while vm and vm[0].done <= now:
                vm.popleft()
            if len(vm) > wait.vmcnt:
                return wave.stalled("wait vm", vm[len(vm) - wait.vmcnt - 1].done)
        if wait is not None and wait.lgkmcnt is not None:
            wave.lgkm = [access for access in wave.lgkm if access.done > now]
            if len(wave.lgkm) > wait.lgkmcnt:
                done = sorted(access.done for access in wave.lgkm)[len(wave.lgkm) - wait.lgkmcnt - 1]
                retry = done if done < NEVER else max(now + self.slot, min(self.lds.next_start(), now + 64))
                return wave.stalled("wait lgkm", retry)
        if not self._fetch(wave, cost, now):
            return False
        if wait is not None and wait.vmcnt is not None:
            while wave.loads and wave.loads[0][0] <= wave.counted - wait.vmcnt:
                wave.loads.popleft()[1].awaited = now
        return self._issued(wave, now, cost.hold)

    def _barrier(self, wave: _Wave, now: int) -> bool:
        self._note(wave, now)
        wave.retry = NEVER
        workgroup = self.workgroups[wave.times.workgroup]
        workgroup.arrived.append(wave)
        self._release(workgroup, now)
        return True

    def _release(self, workgroup: _Workgroup, now: int) -> None:
        if len(workgroup.arrived) < workgroup.alive or not workgroup.arrived:
            return
        going, workgroup.arrived = workgroup.arrived, []
        free = now + self.barrier_release
        for wave in going:
            waited = free - wave.mark
            if waited > 0:
                wave.times.stalls.append((wave.at, "barrier", waited))
            wave.mark = wave.retry = free
            self._advance(wave, now)

    def _note(self, wave: _Wave, now: int) -> None:
        wave.times.issued.append(now)
        wave.mark = now + self.slot

    def _issued(self, wave: _Wave, now: int, hold: int) -> bool:
        wave.times.issued.append(now)
        wave.mark = wave.retry = now + hold
        self._advance(wave, now)
        return True

    def _advance(self, wave: _Wave, now: int) -> None:
        wave.at += 1
        wave.cause = "arbitration"
        if wave.at == len(wave.positions):
            self._end(wave, now)

    def _end(self, wave: _Wave, now: int) -> None:
        """A wave ends with its s_endpgm, when its stores and vector instructions are done; who waits for it at a barrier may go on."""
        wave.retry = NEVER
        wave.times.end = max(now, wave.drained)
        workgroup = self.workgroups[wave.times.workgroup]
        workgroup.alive -= 1
        self._release(workgroup, now)

    def _fetch(self, wave: _Wave, cost: IssueCost, now: int) -> bool:
        """Whether the instruction stands fetched: its line is there, and so many bytes a clk for all waves, some ahead."""
        line = self.lines[wave.positions[wave.at]]
        if line != wave.line:
            there = self.icache.ready(line, now)
            if there > now:
                return wave.stalled("fetch", there)
            wave.line = line
        if now > self.fetched_at:
            self.fetched = min(self.fetch_room, self.fetched + (now - self.fetched_at) * self.fetch_rate)
            self.fetched_at = now
        if self.fetched < cost.size:
            return wave.stalled("fetch", now + self.slot)
        self.fetched -= cost.size
        return True
