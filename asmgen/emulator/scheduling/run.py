"""One emulated launch, from a kernel's code and descriptor to its findings."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from asmgen.codeobject.descriptor import KernelDescriptor
from asmgen.emulator.arrival.arrival import Counters
from asmgen.emulator.arrival.boundstep import touched_registers
from asmgen.emulator.arrival.findings import Finding, Findings, allowed_checks, allowing, chosen_checks
from asmgen.emulator.binding.decode import Decoder
from asmgen.emulator.carried.tracker import Tracker
from asmgen.emulator.machine.codemap import CodeMap
from asmgen.emulator.machine.devicememory import Memory
from asmgen.emulator.machine.dispatch import Dispatch, HostBlocks, start_waves
from asmgen.emulator.machine.errors import EmulatorError
from asmgen.emulator.machine.state import LANES, Machine
from asmgen.emulator.memory.ldsops import BankCount, BankedAccess, LdsContext
from asmgen.emulator.memory.vmem import Context, Deliveries
from asmgen.emulator.scheduling.budget import Budget, Pause, Runaway
from asmgen.emulator.scheduling.checkers import Resettable, Watching, with_address_makers
from asmgen.emulator.scheduling.orders import order_of
from asmgen.emulator.scheduling.progress import Spins
from asmgen.emulator.scheduling.scheduler import Scheduler
from asmgen.emulator.scheduling.segments import ArrivalModel, Watcher
from asmgen.emulator.scheduling.trace import Trace
from asmgen.isa.arch import Architecture
from asmgen.program.program import Program

RESIDENT_WAVES = 1024
"""Waves that run together. The grid's remaining workgroups start, in order, when these have ended."""
RESIDENT_BYTES = 1 << 28
"""Vector registers and private memory of the waves that run together."""
WORKGROUP_BYTES = 1 << 30
"""Vector registers and private memory of one workgroup."""
TOTAL_BYTES = 1 << 31
"""Vector registers and private memory of all waves that have started and not ended, where the first wait for later ones."""
KEPT, KEPT_BYTES = 6, 1 << 27
"""Launches, and vector registers of their waves, that stay when they have ended for next launches of the same code: binding it takes
a fifth of a launch's time."""
ROOMY_BYTES = 1 << 24
"""Vector registers of waves that are emptied in no time: they serve launches of fewer workgroups too."""
VISITS = 32
"""Backward branches of the first look at whether waves get anywhere (progress.Window). Each later look lasts twice as long and comes after
twice as many rounds of thousands, so that looking takes the same small part of a long launch."""
DYNAMIC_STACK = 16384
"""Bytes of private memory a lane for kernels whose stack's size the compiler does not know."""


UNWRITTEN = 0x4B5A5A5B
"""A word that is finite in each format of floats, no small number as an integer, and right by chance nowhere."""


@dataclass(frozen=True)
class Options:
    """What a launch models besides the results: `checks`, the `order` of waves, counting LDS bank conflicts.

    `checks` are all (True), those that cost nothing (False), or the names of some (findings.CHECKS). `allow` {"races"}: races between
    different values are warnings, not errors.

    `watchers` see every instruction when it is bound (segments.Watcher).
    `trace` notes what the waves of the first workgroups execute; only these run then, and nothing is computed that the trace does not need.
    `domains` carry a second value beside each value (carried.tracker); they belong to the memory that the launch runs in.
    `unwritten` is what registers, LDS, private memory and workspaces hold before something is written there, in each word.
    `preload` False is firmware that does not preload kernel arguments: it starts waves at the compatibility entry.
    """

    checks: bool | Collection[str] = True
    order: str = "lockstep"
    count_banks: bool = False
    preload: bool = True
    instruction_budget: int = 2_000_000_000
    watchers: tuple[Watcher, ...] = ()
    trace: Trace | None = None
    allow: Collection[str] = ()
    domains: tuple[Tracker, ...] = ()
    unwritten: int = 0


@dataclass(frozen=True)
class LaunchResult:
    """What came of a launch. `counts` are executions by position in `program`, over all waves; `seconds` the emulator's own."""

    findings: tuple[Finding, ...]
    wave_instructions: int
    seconds: float
    counts: tuple[int, ...]
    bank_accesses: dict[int, BankedAccess]
    program: Program

    @property
    def bank_conflicts(self) -> dict[int, int]:
        """Cycles that LDS bank conflicts cost all waves, by instruction position, where they are counted."""
        return {position: access.extra for position, access in self.bank_accesses.items()}

    @property
    def errors(self) -> list[Finding]:
        """The findings that make the result worthless."""
        return [finding for finding in self.findings if finding.severity == "error"]


def run_launch(program: Program, descriptor: KernelDescriptor, arch: Architecture, dispatch: Dispatch, memory: Memory,
               options: Options) -> LaunchResult:
    """Run every workgroup of a dispatch. Raises EmulatorError where the emulator cannot go on."""
    began, allowed = time.perf_counter(), allowed_checks(options.allow)
    program = options.trace.code(program) if options.trace is not None else program
    launch = _Launch(program, descriptor, arch, dispatch, memory, options)
    host = HostBlocks.make(memory, descriptor, dispatch)
    marked = len(memory.shadow.marks) if memory.shadow is not None else 0
    ended = True
    try:
        with np.errstate(all="ignore"):  # the arithmetic wraps and overflows on purpose
            launch.run(host)
    except Runaway:
        ended = False  # it is among the findings
    finally:
        host.free(memory)
    if memory.shadow is not None:
        for finding in memory.shadow.findings(marked):
            launch.findings.add(finding)
    launch.watching.conclude(memory, launch.findings, ended)
    counts = np.zeros(len(program), np.int64)
    for resident in launch.residents:
        counts += resident.scheduler.counts()
    for tracker in options.domains:
        tracker.release()
    launch.leave(ended)
    findings = tuple(allowing(with_address_makers(program, launch.findings.all()), allowed))
    return LaunchResult(findings, launch.budget.executed, time.perf_counter() - began, tuple(counts.tolist()),
                        launch.banks.accesses, program)


class _Launch:
    """A dispatch under way: residents that run parts of the grid, one after the other.

    A second resident starts only while the first spins without progress: its waves may wait for workgroups that
    have not started, as semaphores between workgroups do (docs/facts/semantics.md section 15).
    """

    def __init__(self, program: Program, descriptor: KernelDescriptor, arch: Architecture, dispatch: Dispatch, memory: Memory,
                 options: Options) -> None:
        self.program = program
        self.descriptor = descriptor
        self.arch = arch
        self.dispatch = dispatch
        self.memory = memory
        self.options = options
        self.findings, self.banks = Findings(chosen_checks(options.checks)), BankCount()
        self.watching = Watching.of(program, descriptor, dispatch, self.findings.wanted,
                                    memory.shadow is not None and bool(memory.shadow.bits))
        self.budget = Budget(options.instruction_budget)
        self.code = CodeMap.of(program, dispatch.code_base)
        private = descriptor.private_segment_fixed_size + DYNAMIC_STACK * descriptor.uses_dynamic_stack
        wave_bytes = (max(1, descriptor.vgprs) * 4 + private) * LANES
        _check_room(wave_bytes * dispatch.waves_per_workgroup, descriptor, arch, dispatch)
        fitting = max(1, min(RESIDENT_WAVES, RESIDENT_BYTES // wave_bytes) // dispatch.waves_per_workgroup)
        self.workgroups = min(dispatch.workgroups, (options.trace.workgroups if options.trace is not None else 0) or dispatch.workgroups)
        self.together = min(fitting, self.workgroups)
        self.most = max(1, TOTAL_BYTES // (wave_bytes * self.together * dispatch.waves_per_workgroup))
        self.residents: list[_Resident] = []
        if options.trace is not None:
            options.trace.program, options.trace.fitting = program, _fitting(descriptor, arch, dispatch)

    def run(self, host: HostBlocks) -> None:
        """Run the whole grid. Raises Runaway where it never ends."""
        following = fruitless = 0
        waiting = True  # nobody runs who could get on without workgroups that have not started
        spinning: list[_Resident] = []
        free: list[_Resident] = []
        while spinning or following < self.workgroups:
            if waiting and following < self.workgroups and len(spinning) < self.most:
                resident = free.pop() if free else self._resident()
                count = min(self.together, self.workgroups - following)
                resident.start(self, following, count, host)
                following += count
                spinning.append(resident)
            pauses = [(resident, resident.scheduler.run()) for resident in spinning]
            ended = [resident for resident, pause in pauses if pause is Pause.ENDED]
            spinning = [resident for resident, pause in pauses if pause is not Pause.ENDED]
            free += ended
            room = following < self.workgroups and len(spinning) < self.most
            waiting = all(pause is not Pause.BUSY for _, pause in pauses)
            fruitless = 0 if ended or waiting and room else fruitless + 1
            if fruitless and not fruitless & (fruitless - 1) and (spins := self._spins(spinning, VISITS * fruitless)):
                if not room:
                    for resident, loops in zip(spinning, spins, strict=True):
                        resident.scheduler.endless(loops, self.workgroups - following)
                    raise Runaway
                waiting, fruitless = True, 0

    def _spins(self, spinning: list[_Resident], visits: int) -> list[Spins]:
        """The loops that the waves of each resident never leave; empty where some wave may get on."""
        alone = sum(resident.scheduler.running() for resident in spinning) == 1
        found: list[Spins] = []
        for resident in spinning:
            loops = resident.scheduler.spins(visits, alone)
            if not loops:
                return []
            found.append(loops)
        return found

    def _resident(self) -> _Resident:
        kept: list[_Resident] = self.memory.residents
        fits = self.shape and not self.residents
        able = [one for one in kept if one.made_for == self.shape and one.serves(self.together)] if fits else []
        if able:
            left = min(able, key=lambda one: one.machine.workgroups)
            kept.remove(left)
            left.renew(self)
            self.residents.append(left)
            return left
        resident = _Resident(self)
        self.residents.append(resident)
        return resident

    @property
    def shape(self) -> tuple[object, ...]:
        """Launches of which this is equal can have the same resident, one after the other; () where it serves no other launch."""
        options, dispatch, watching = self.options, self.dispatch, self.watching
        if options.count_banks or options.watchers or options.trace is not None:
            return ()
        return (id(self.program), self.descriptor, self.arch.name, dispatch.waves_per_workgroup, dispatch.dynamic_lds, dispatch.code_base,
                *map(id, options.domains), *watching.shape)

    def leave(self, ended: bool) -> None:
        """The launch is over: what a next one can use stays with the memory, of the last launches."""
        kept: list[_Resident] = self.memory.residents
        if len(self.residents) == 1 and ended and not self.findings.found and self.residents[0].serves_again:
            kept.append(self.residents[0])
            while len(kept) > KEPT or sum(one.nbytes for one in kept) > KEPT_BYTES:
                kept.pop(0).scheduler.forget()
            return
        for resident in self.residents:
            resident.scheduler.forget()


def _check_room(workgroup_bytes: int, descriptor: KernelDescriptor, arch: Architecture, dispatch: Dispatch) -> None:
    """EmulatorError for a descriptor that asks for more than there is: LDS of the architecture, or private memory of this machine."""
    lds = descriptor.group_segment_fixed_size + dispatch.dynamic_lds
    if lds > arch.lds_bytes:
        raise EmulatorError(f"the kernel's descriptor asks for {lds} bytes of LDS; a workgroup of {arch.name} has {arch.lds_bytes}")
    if workgroup_bytes > WORKGROUP_BYTES:
        raise EmulatorError(f"the kernel's descriptor asks for {descriptor.private_segment_fixed_size} bytes of private memory a "
                            f"work-item, with the registers {workgroup_bytes} bytes a workgroup; the emulator gives it {WORKGROUP_BYTES}")


def _fitting(descriptor: KernelDescriptor, arch: Architecture, dispatch: Dispatch) -> int:
    """How many workgroups a compute unit has room for by registers, wave slots and LDS; at least the one that runs."""
    lds = descriptor.group_segment_fixed_size + dispatch.dynamic_lds
    return max(1, arch.workgroups_per_cu(descriptor.vgprs, lds, dispatch.waves_per_workgroup))


class _Resident:
    """Room for some workgroups at once: their registers and LDS, what has arrived, and the code bound to them."""

    def __init__(self, launch: _Launch) -> None:
        waves = launch.together * launch.dispatch.waves_per_workgroup
        descriptor, options, program, findings = launch.descriptor, launch.options, launch.program, launch.findings
        lds_bytes = descriptor.group_segment_fixed_size + launch.dispatch.dynamic_lds
        machine = Machine(launch.arch, waves, launch.together, descriptor.vgprs, descriptor.accum_offset, lds_bytes, launch.memory)
        machine.touched = touched_registers(program, machine)
        machine.scratch_bytes = descriptor.private_segment_fixed_size + DYNAMIC_STACK * descriptor.uses_dynamic_stack
        counters = Counters(waves)
        deliveries = Deliveries(machine, counters)
        checkers = launch.watching.checkers(machine, counters, findings, deliveries.contents)
        decoder = Decoder(program, launch.code, machine, Context(machine, counters, findings, deliveries, checkers.lds),
                          LdsContext(machine, counters, checkers.lds, launch.banks if options.count_banks else None, findings),
                          options.trace.idle(program) if options.trace is not None else frozenset())
        traced: tuple[Watcher, ...] = ()
        if options.trace is not None:
            watcher = options.trace.watcher(machine)
            machine.memory_watchers.append(watcher.memory)
            traced = (watcher,)
        followers = tuple(tracker.attach(machine) for tracker in options.domains)
        arrival = ArrivalModel(counters, deliveries, checkers.registers, checkers.lds, (*options.watchers, *followers, *traced),
                               checkers.watchers, checkers.undefined)
        self.machine = machine
        self.program, self.findings, self.made_for = program, findings, launch.shape
        self._checkers = checkers
        self._watching = launch.watching  # `made_for` has ids of its parts
        self.scheduler = Scheduler(machine, decoder, counters, deliveries, findings, order_of(options.order)(machine, program), arrival,
                                   launch.budget, checkers.memory, options.trace)
        self._emptied: list[Resettable] = [machine, counters, *checkers.parts(), *followers]
        self._followers = followers
        self._fresh = True

    @property
    def serves_again(self) -> bool:
        """Whether a launch of the same shape may begin where it has been."""
        return bool(self.made_for) and self.scheduler.plain and self._checkers.serve_again and self.nbytes <= KEPT_BYTES

    @property
    def nbytes(self) -> int:
        """Of vector registers."""
        return self.machine.vector_file.nbytes

    def serves(self, workgroups: int) -> bool:
        """Whether a launch that runs so many workgroups at once may take its place."""
        room = self.machine.workgroups
        return room == workgroups or room > workgroups and self.nbytes <= ROOMY_BYTES

    def renew(self, launch: _Launch) -> None:
        """Serve another launch, of the same shape; the one before had no findings."""
        launch.findings, self.machine.clock = self.findings, 0
        self._checkers.renew(launch.watching)
        self._watching = launch.watching
        for tracker, follower in zip(launch.options.domains, self._followers, strict=True):
            tracker.followers.append(follower)
        self.scheduler.renew(launch.budget, order_of(launch.options.order)(self.machine, self.program))

    def start(self, launch: _Launch, first: int, workgroups: int, host: HostBlocks) -> None:
        """Workgroups `first` and up start here; nobody else may be running."""
        if not self._fresh:
            for part in self._emptied:
                part.reset()
        self._fresh = False
        self.machine.fill(launch.options.unwritten)
        start_waves(self.machine, launch.descriptor, launch.dispatch, first, host)
        for follower in self._followers:
            follower.begin(launch.descriptor, launch.dispatch)
        program = launch.program
        entry = program.labels[program.entry] if program.entry and launch.dispatch.preload else 0
        self.scheduler.start(workgroups * launch.dispatch.waves_per_workgroup, entry)
