"""Runs the resident waves: groups split where control diverges, meet again where they stand together, and wait at barriers.

Which group runs when is the order's business (`orders`); what straight-line code does is the segments'.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.arrival.arrival import Counters
from asmgen.emulator.arrival.findings import Finding, Findings
from asmgen.emulator.binding.decode import Decoder
from asmgen.emulator.binding.runs import Spin
from asmgen.emulator.machine.state import M0, MODE_CSP, MODE_GPR_INDEX, Group, Machine
from asmgen.emulator.memory.vmem import Deliveries
from asmgen.emulator.races.globalraces import GlobalArrival
from asmgen.emulator.scheduling.budget import ACCESS, Budget, Pause, Runaway, loop_end
from asmgen.emulator.scheduling.orders import LEAD, Order
from asmgen.emulator.scheduling.progress import Spins, Watch, WatchedDecoder
from asmgen.emulator.scheduling.segments import ArrivalModel, RunSegment, Segments, changes_state
from asmgen.emulator.scheduling.trace import Trace
from asmgen.emulator.semantics.control import NOWHERE, Branch, bind_branch
from asmgen.program.program import Instruction

Waves = NDArray[np.int64]
Leave = Callable[[Group], bool]
Stand = tuple[Waves, int, int, int, int]
"""Waves of one MODE and index before a position: what Order.add takes."""

_PATIENCE = 4000
"""Backward branches without a barrier or an end, after which waves may be waiting for workgroups that have not started."""
_LONG = 16 * _PATIENCE
"""Backward branches with barriers between them but without an end, after which it is time to look whether waves get anywhere."""
_ASLEEP = 20
"""How many of these an s_sleep counts for: who sleeps waits for somebody."""
_SLEEP_CYCLES = 64
"""Cycles of the clock for one unit of s_sleep's operand (CDNA3 ISA, S_SLEEP)."""
_INDEX_BITS = 0xF0FF  # of M0: the relative index and which operands it moves


class Scheduler:
    """Runs the resident waves of a launch."""

    def __init__(self, machine: Machine, decoder: Decoder, counters: Counters, deliveries: Deliveries, findings: Findings, order: Order,
                 arrival: ArrivalModel, budget: Budget, memory_races: GlobalArrival | None = None, trace: Trace | None = None) -> None:
        self.machine = machine
        self.decoder = decoder
        self.program = decoder.program
        self.counters = counters
        self.deliveries = deliveries
        self.findings = findings
        self.order = order
        self.lds = arrival.lds
        self.memory_races = memory_races
        self.trace = trace
        self.halted: dict[int, Instruction] = {}  # waves that will never run again though they are live, and where
        self.budget = budget
        self.checking = arrival.registers is not None or arrival.lds is not None or memory_races is not None
        self.segments = Segments(decoder, arrival, self.checking, self._branches)
        self.living = np.zeros(machine.workgroups, np.int64)  # live waves of each workgroup
        self.arrived = np.zeros(machine.workgroups, np.int64)  # of these, how many wait at a barrier
        self.parked: list[Stand] = []  # waves at a barrier: where they go on, order, MODE, index
        self.repeating: list[Stand] = []  # under watch: waves known to repeat, which need not run any more
        self.patience = _PATIENCE
        self.idle = 0  # backward branches since the last barrier
        self.rounds = 0  # those before it
        self.watch: Watch | None = None  # while waves are watched
        self._watched: tuple[WatchedDecoder, Segments] | None = None

    def start(self, waves: int, entry: int) -> None:
        """The first `waves` waves of the machine stand before the instruction at position `entry`; the others do not exist."""
        machine = self.machine
        machine.live[:waves], machine.live[waves:] = True, False
        self.living[:] = np.bincount(machine.workgroup[:waves], minlength=machine.workgroups)
        self.arrived[:] = 0
        self.idle = self.rounds = 0
        self.halted = {}
        everyone = np.arange(waves, dtype=np.int64)
        self.order.meet(everyone)
        if entry >= len(self.program):
            self._past_the_end(everyone, None)
        else:
            self._put(everyone, entry, 0)

    def run(self) -> Pause:
        """Run until all waves have ended, or long enough to ask whether they get anywhere.

        Raises EmulatorError for an instruction without semantics, Runaway when the budget is spent.
        """
        order, machine, budget, trace = self.order, self.machine, self.budget, self.trace
        made, make = self.segments.made, self.segments.make
        while len(order):
            group = order.take()
            while True:
                spot = group.position, group.mode, group.index, not len(order)
                segment = made.get(spot) or make(*spot)
                size, length = group.size, segment.length
                segment.executed += size
                budget.executed += size * length
                budget.spent += size * length
                if segment.accesses and size < ACCESS:
                    budget.spent += segment.accesses * (ACCESS - size)
                if budget.spent > budget.limit:
                    self._spent(group)
                machine.clock += 4 * length
                if trace is not None:
                    trace.entered(machine, group.waves, segment.positions)
                for action in segment.actions:
                    action(group)
                if segment.spin is not None and self.watch is None and trace is None and not len(order):
                    self._go_round(segment, segment.spin, group)
                if not segment.leave(group):
                    break
                if len(order) and not order.stays(group):
                    order.add(group.waves, group.position, group.order, group.mode, group.index)
                    break
            if self.idle > self.patience:
                self.idle = self.rounds = 0
                return Pause.WAITING
            if self.rounds > _LONG:
                self.rounds = 0
                return Pause.BUSY
        if self.parked and self.watch is None:
            self._deadlock()
        return Pause.ENDED

    def _go_round(self, segment: RunSegment, spin: Spin, group: Group) -> None:
        """A group that is alone goes round a loop of one segment as often as all of its waves do, within budget and patience."""
        each, budget = group.size * segment.length, self.budget
        rounds = spin(group, min(self.patience - self.idle, (budget.limit - budget.spent) // each))
        segment.executed += rounds * group.size
        budget.executed += rounds * each
        budget.spent += rounds * each
        self.machine.clock += 4 * segment.length * rounds
        self.idle += rounds
        group.order += rounds

    def running(self) -> int:
        """How many waves can run: they have not ended or halted and do not wait at a barrier."""
        return int(np.count_nonzero(~self._resting()))

    def spins(self, visits: int, alone: bool) -> Spins:
        """The waves that can run, by the loops that they will never leave unless others change memory.

        Empty where `visits` backward branches do not prove it for all of them. `alone`: no other wave of the launch can run.
        """
        watch = Watch(self.machine, visits, self._resting(), alone)
        if self._watched is None:
            decoder = WatchedDecoder(self.decoder, watch)
            self._watched = decoder, Segments(decoder, self.segments.arrival, self.checking, self._branches)
        plain, (decoder, watched) = self.segments, self._watched
        on_their_way = self._on_their_way()
        decoder.open(watch)
        self.watch, self.segments, self.patience = watch, watched, 0  # every backward branch pauses
        try:
            while not watch.over:
                if self.run() is Pause.ENDED and not self._go_on():
                    break
        finally:
            self.watch, self.segments, self.patience = None, plain, _PATIENCE
            decoder.close()
            self._go_on()
        return watch.loops() if watch.stuck and self._on_their_way() == on_their_way else {}

    def counts(self) -> NDArray[np.int64]:
        """Executions by instruction position, over all waves."""
        counts = np.zeros(len(self.program), np.int64)
        for segments in (self.segments,) if self._watched is None else (self.segments, self._watched[1]):
            for segment in segments.made.values():
                counts[list(segment.positions)] += segment.executed
        return counts

    def renew(self, budget: Budget, order: Order) -> None:
        """Another launch of the same code begins."""
        self.budget, self.order = budget, order
        for segment in self.segments.made.values():
            segment.executed = 0

    @property
    def plain(self) -> bool:
        """Whether waves were never watched: nothing but the bound code is left after then."""
        return self._watched is None and not self.parked and not self.repeating

    def forget(self) -> None:
        """Drop the code that was bound, when the launch is over: it stands in circles, which Python would find late and at some cost."""
        for segments in (self.segments,) if self._watched is None else (self.segments, self._watched[1]):
            segments.made.clear()
        self._watched = None
        self.machine.memory_watchers.clear()
        self.machine.scalar_watchers.clear()

    def _go_on(self) -> bool:
        """Let waves run again that are known to repeat: others may wait for them at a barrier. Returns whether there are any."""
        repeating, self.repeating = self.repeating, []
        for stand in repeating:
            self.order.add(*stand)
        return bool(repeating)

    def _resting(self) -> NDArray[np.bool_]:
        resting = ~self.machine.live
        resting[list(self.halted)] = True
        for waves, *_ in self.parked:
            resting[waves] = True
        return resting

    def _on_their_way(self) -> int:
        """How many words of LDS-DMA have not been delivered."""
        return sum(int(delivery.counts.sum()) for delivery in self.deliveries.waiting)

    # How a group leaves a segment: each returns whether the group goes on.

    def _branches(self, instruction: Instruction, position: int, mode: int) -> Leave:
        name, following = instruction.name, position + 1
        if instruction.is_branch:
            branch = bind_branch(instruction, position, self.program, self.decoder.code, self.machine)
            return self._branch(branch, instruction, position)
        if name.startswith("s_endpgm"):
            return lambda group: self._end(group.waves)
        if name == "s_barrier":
            return lambda group: self._barrier(group, following)
        if name in ("s_sleep", "s_sethalt", "s_trap", "s_setkill", "s_sendmsghalt"):
            return self._stopping(instruction, following)
        if changes_state(instruction, mode):
            return lambda group: self._restate(group, following)
        return self._onward(instruction, following)

    def _onward(self, instruction: Instruction, following: int) -> Leave:
        """To the next instruction, if one stands there."""
        if not self.decoder.code.flows(following):
            return lambda group: self._past_the_end(group.waves, instruction)

        def onward(group: Group) -> bool:
            group.position = following
            return True

        return onward

    def _branch(self, branch: Branch, instruction: Instruction, position: int) -> Leave:
        code, end = self.decoder.code, len(self.program)
        fork = instruction.name in ("s_cbranch_g_fork", "s_cbranch_i_fork", "s_cbranch_join")
        falls = instruction.name.startswith("s_cbranch")  # others may name the first instruction beyond a gap

        def leave(group: Group) -> bool:
            going = branch(group)
            if fork:
                self._put_each(group.waves, np.broadcast_to(going, group.size), position, instruction, group.order)
                return False
            if isinstance(going, int):
                if going <= position:
                    if going == NOWHERE:
                        return self._astray(group.waves, instruction)
                    group.order += 1
                    self.idle += 1
                    if self.idle > self.patience:  # a group that spins alone must come back too: it may be waiting for workgroups to start
                        self._again((group.waves, going, group.order, group.mode, group.index), position)
                        return False
                elif falls and going == position + 1 and not code.flows(going) or going >= end:
                    return self._past_the_end(group.waves, instruction)
                group.position = going
                return True
            self._put_each(group.waves, going, position, instruction, group.order, group.mode, group.index)
            return False

        return leave

    def _put_each(self, waves: Waves, going: NDArray[np.int64], position: int, instruction: Instruction, order: int,
                  mode: int | None = None, index: int = 0) -> None:
        """Waves go to places of their own."""
        for spot in np.unique(going).tolist():
            some = waves[going == spot]
            if spot == NOWHERE:
                self._astray(some, instruction)
            elif spot == position + 1 and not self.decoder.code.flows(spot) or spot >= len(self.program):
                self._past_the_end(some, instruction)
            elif spot > position:
                self._put(some, spot, order) if mode is None else self.order.add(some, spot, order, mode, index)
            else:
                self.idle += 1
                for stand in self._stands(some, spot, order + 1) if mode is None else [(some, spot, order + 1, mode, index)]:
                    self._again(stand, position)

    def _again(self, stand: Stand, branch: int) -> None:
        """Waves have gone backwards and can run again. Under watch, those that are known to repeat are set apart, so that others run."""
        if self.watch is not None and self.watch.visit(stand[0], stand[1], branch):
            self.repeating.append(stand)
        else:
            self.order.add(*stand)

    def _stopping(self, instruction: Instruction, following: int) -> Leave:
        """s_sleep yields; halting, killing and trapping stop a wave for good."""
        name = instruction.name
        value = next((operand for operand in instruction.operands if isinstance(operand, int)), 0)
        onward = self._onward(instruction, following)
        if name == "s_sleep":

            def sleep(group: Group) -> bool:
                group.order += LEAD + 1
                self.idle += _ASLEEP
                self.machine.clock += _SLEEP_CYCLES * (value & 0x7F)
                if not onward(group):
                    return False
                self.order.add(group.waves, group.position, group.order, group.mode, group.index)
                return False

            return sleep
        if name in ("s_sethalt", "s_setkill") and not value & 1 or name == "s_trap" and value == 3:
            return onward  # trap 3 is a breakpoint: it does nothing without a debugger
        if name in ("s_sethalt", "s_sendmsghalt"):

            def halt(group: Group) -> bool:
                self.halted.update(dict.fromkeys(group.waves.tolist(), instruction))
                return self._finding("halt", "the wave halts here, and nothing wakes it", instruction, group.waves)

            return halt
        what = "the kernel traps here (an assertion or unreachable code)" if name == "s_trap" else "the wave kills itself here"

        def stop(group: Group) -> bool:
            self._finding("trap" if name == "s_trap" else "kill", what, instruction, group.waves)
            return self._end(group.waves)

        return stop

    def _restate(self, group: Group, following: int) -> bool:
        """After an instruction that changes MODE or M0: waves that differ now go on apart."""
        if not self.decoder.code.flows(following):
            return self._past_the_end(group.waves, self.program.instructions[following - 1])
        modes, indices = self._state(group.waves)
        if (modes == modes[0]).all() and (indices == indices[0]).all():
            group.position, group.mode, group.index = following, int(modes[0]), int(indices[0])
            return True
        self._put(group.waves, following, group.order)
        return False

    def _state(self, waves: Waves) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        modes = self.machine.mode[waves] & np.uint32(~MODE_CSP & 0xFFFFFFFF)
        indexed = (modes & np.uint32(MODE_GPR_INDEX)) != 0
        return modes, np.where(indexed, self.machine.scalar[M0, waves] & np.uint32(_INDEX_BITS), np.uint32(0))

    def _put(self, waves: Waves, position: int, order: int) -> None:
        """Waves of any MODE and index stand before `position`."""
        for stand in self._stands(waves, position, order):
            self.order.add(*stand)

    def _stands(self, waves: Waves, position: int, order: int) -> list[Stand]:
        modes, indices = self._state(waves)
        both = modes.astype(np.uint64) << np.uint64(32) | indices
        return [(waves[both == state], position, order, state >> 32, state & 0xFFFFFFFF) for state in np.unique(both).tolist()]

    # Barriers and ends.

    def _barrier(self, group: Group, following: int) -> bool:
        """s_barrier counts arrivals of the workgroup's live waves, wherever in the program they come from."""
        if not self.decoder.code.flows(following):
            return self._past_the_end(group.waves, self.program.instructions[following - 1])
        self.rounds += self.idle
        self.idle = 0
        machine = self.machine
        homes = machine.workgroup[group.waves]
        counts = np.bincount(homes, minlength=machine.workgroups)
        if not self.parked and (counts == self.living)[homes].all():
            self._released(np.flatnonzero(counts))
            group.position = following
            if self.rounds <= _LONG:
                return True
            self.order.add(group.waves, following, group.order, group.mode, group.index)
            return False
        self.arrived += counts
        self.parked.append((group.waves, following, group.order, group.mode, group.index))
        self._release()
        return False

    def _released(self, workgroups: NDArray[np.int64]) -> None:
        """Tell the arrival model that a new barrier interval begins: for waves that have ended too, whose data has arrived."""
        if self.lds is not None:
            self.lds.release(workgroups)
        if self.memory_races is not None:
            self.memory_races.release(workgroups)
        chosen = np.zeros(self.machine.workgroups, bool)
        chosen[workgroups] = True
        self.counters.release(np.flatnonzero(chosen[self.machine.workgroup]))

    def _release(self) -> None:
        """Let go every workgroup whose live waves have all arrived."""
        full = (self.arrived > 0) & (self.arrived == self.living)
        if not full.any():
            return
        going, staying = [], []
        for waves, position, order, mode, index in self.parked:
            free = full[self.machine.workgroup[waves]]
            if free.any():
                going.append((waves[free], position, order, mode, index))
            if not free.all():
                staying.append((waves[~free], position, order, mode, index))
        self.parked = staying
        self.arrived[full] = 0
        self._released(np.flatnonzero(full))
        self.order.meet(np.concatenate([waves for waves, *_ in going]))
        for part in going:
            self.order.add(*part)
            if self.watch is not None:
                self.watch.released(part[0])

    def _end(self, waves: Waves) -> bool:
        """Waves end; those who wait for them at a barrier may go on."""
        self.idle = self.rounds = 0
        self.machine.live[waves] = False
        self.living -= np.bincount(self.machine.workgroup[waves], minlength=self.machine.workgroups)
        self.counters.complete(waves)
        self.deliveries.deliver()
        if self.memory_races is not None:
            homes = self.machine.workgroup[waves]
            self.memory_races.release(np.unique(homes[self.living[homes] == 0]))
        if self.parked:
            self._release()
        return False

    # Findings.

    def _finding(self, check: str, message: str, instruction: Instruction | None, waves: Waves, other: Instruction | None = None) -> bool:
        wave = int(waves[0])
        self.findings.add(Finding(check, "error", message, other, instruction, wave, int(self.machine.workgroup[wave])))
        return False

    def _past_the_end(self, waves: Waves, instruction: Instruction | None) -> bool:
        self._finding("past-the-end", "execution runs past the end of the code", instruction, waves)
        return self._end(waves)

    def _astray(self, waves: Waves, instruction: Instruction) -> bool:
        self._finding("jump-outside-code", "the address that it jumps to holds no instruction of the program", instruction, waves)
        return self._end(waves)

    def _deadlock(self, running: Instruction | None = None) -> None:
        """Nobody can run, and some wait at a barrier: others of their workgroup have halted, or run without end (`running`)."""
        machine = self.machine
        for waves, position, _, _, _ in self.parked:
            for home in np.unique(machine.workgroup[waves]).tolist():
                mine = waves[machine.workgroup[waves] == home]
                others = [wave for wave in self.halted if machine.workgroup[wave] == home]
                where = running if running is not None or not others else self.halted[others[0]]
                numbers = ", ".join(str(number) for number in machine.wave_in_group[mine].tolist())
                message = f"{self.arrived[home]} of {self.living[home]} live waves wait, here {numbers}, and no other can arrive"
                self._finding("barrier-deadlock", message, self.program.instructions[position - 1], mine, where)
        self.parked = []

    def endless(self, spins: Spins, unstarted: int) -> None:
        """Findings for waves that will never leave their loops (`spins` gives them), while `unstarted` workgroups have no room."""
        for (spot, position), waves in spins.items():
            reads = next((instruction for instruction in self.program.instructions[spot:position]
                          if instruction.opcode.memory is not None and instruction.opcode.memory.kind != "store"), None)
            number = f"{len(waves)} waves go" if len(waves) > 1 else "the wave goes"
            message = number + " round the loop from {} to here for ever: the registers come back to what they were"
            message += f", and nobody changes what `{reads.text}` reads" if reads is not None else ""
            message += f"; {unstarted} workgroups cannot start before others end" if unstarted else ""
            self._runaway(waves, spot, position, message)

    def _spent(self, group: Group) -> None:
        """The budget does not cover the instructions before which `group` stands: name the loop that its waves go round, if they do."""
        limit, here = self.budget.limit, group.position
        spent = f"after {limit} wave instructions "
        if self.budget.executed <= limit:
            spent = f"after {self.budget.executed} wave instructions, whose accesses to memory and LDS cost as much as {limit}, "
        branch = loop_end(self.program, here) if group.order else None
        if branch is not None:
            self._runaway(group.waves, *branch, spent + "waves still go round the loop from {} to here")
        else:
            started = f"workgroup {self.machine.first_workgroup + int(self.machine.workgroup[group.waves[0]])} has come only to here"
            instruction = self.program.instructions[here]
            self._finding("runaway", f"the budget is spent: {spent}{started}", instruction, group.waves)
            self._deadlock(instruction)
        raise Runaway

    def _runaway(self, waves: Waves, spot: int, position: int, message: str) -> None:
        """Name a loop in `message` (it has a place for the first instruction), and those who wait at a barrier for its waves."""
        start, branch = self.program.instructions[spot], self.program.instructions[position]
        where = f" ({start.where()})" if start.where() else ""
        self._finding("runaway", message.format(f"`{start.text}`{where}"), branch, waves, start)
        self._deadlock(branch)
