"""The checkers of a launch: which are asked for, what the program says of them before it runs, and how they hang together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from asmgen.codeobject.descriptor import KernelDescriptor
from asmgen.emulator.arrival.alignment import CHECK as MISALIGNED
from asmgen.emulator.arrival.alignment import Alignment
from asmgen.emulator.arrival.arrival import Counters, RegisterArrival
from asmgen.emulator.arrival.boundstep import queue_of, touch_of
from asmgen.emulator.arrival.findings import Finding, Findings
from asmgen.emulator.arrival.ldsraces import LdsArrival
from asmgen.emulator.arrival.ldsvalues import Contents
from asmgen.emulator.arrival.tooearly import CHECK as WAIT_STATE
from asmgen.emulator.arrival.tooearly import Pair, WaitStateWatcher, close_pairs
from asmgen.emulator.machine.devicememory import Memory
from asmgen.emulator.machine.dispatch import Dispatch
from asmgen.emulator.machine.kept import kept
from asmgen.emulator.machine.state import LANES, Machine
from asmgen.emulator.machine.ways import Ways
from asmgen.emulator.races.globalraces import CHECK as GLOBAL_RACE
from asmgen.emulator.races.globalraces import GlobalArrival, stores
from asmgen.emulator.races.workgroupraces import CHECK as WORKGROUP_RACE
from asmgen.emulator.races.workgroupraces import Traces, WorkgroupRaces
from asmgen.emulator.scheduling.segments import Watcher
from asmgen.emulator.shadow.undefined import READ, USED, UndefinedWatcher, Uses
from asmgen.emulator.shadow.undefineduses import ADDRESSES, defined_at_start
from asmgen.isa.registers import Reg
from asmgen.program.program import Instruction, Program

_REGISTERS = frozenset({"read-before-wait", "overwrite-before-wait"})
_UNDEFINED = frozenset({READ, USED})
_LDS = frozenset({"lds-race", "lds-dma-before-wait", "uninitialised-lds-read", USED, MISALIGNED})


class Resettable(Protocol):
    """What is emptied when other waves take the residents' places."""

    def reset(self) -> None: ...


@dataclass(frozen=True)
class Checkers:
    """Those of one resident; None where not asked for, or where the program has nothing to check."""

    registers: RegisterArrival | None
    lds: LdsArrival | None
    memory: GlobalArrival | None
    states: WaitStateWatcher | None
    undefined: UndefinedWatcher | None
    alignment: Alignment | None
    workgroups: WorkgroupRaces | None

    @property
    def watchers(self) -> tuple[Watcher, ...]:
        """Those that look at every step."""
        return tuple(part for part in (self.states, self.undefined, self.alignment, self.workgroups) if part is not None)

    @property
    def serve_again(self) -> bool:
        """Whether another launch may have them, after one without findings: no undefined bits that it stored are left in memory."""
        return self.undefined is None or self.undefined.unmarked

    def renew(self, watching: Watching) -> None:
        """Serve another launch of the same `Watching.shape`."""
        if self.memory is not None:
            self.memory.renew(watching.traces.raced if watching.traces is not None else None)
        if self.workgroups is not None and watching.traces is not None:
            self.workgroups.traces = watching.traces

    def parts(self) -> list[Resettable]:
        """Those that remember something."""
        return [part for part in (self.registers, self.lds, self.memory, self.states, self.undefined) if part is not None]


@dataclass(frozen=True)
class Watching:
    """What is known of a launch's checks before it runs."""

    program: Program
    wanted: frozenset[str]
    pairs: tuple[Pair, ...]
    uses: Uses | None
    traces: Traces | None

    @property
    def shape(self) -> tuple[object, ...]:
        """Launches of a program that agree in this are watched by the same code, with other traces; it holds while this object lives."""
        return self.wanted, id(self.pairs), id(self.uses), self.traces is not None and self.traces.on

    @classmethod
    def of(cls, program: Program, descriptor: KernelDescriptor, dispatch: Dispatch, wanted: frozenset[str], in_memory: bool) -> Watching:
        """Walk the program for the checks in `wanted`. `in_memory`: device memory holds undefined bytes already."""
        pairs = kept(program, "_close_pairs", (), lambda: tuple(close_pairs(program))) if WAIT_STATE in wanted else ()
        uses = None
        if wanted & _UNDEFINED:
            entry = program.labels[program.entry] if program.entry and dispatch.preload else 0
            full = dispatch.work_items % LANES == 0
            given = descriptor.accum_offset, defined_at_start(descriptor, dispatch), entry, full, in_memory
            uses = kept(program, "_uses", given, lambda: Uses.of(program, *given))
        traces = Traces(program, dispatch.workgroups) if WORKGROUP_RACE in wanted and dispatch.workgroups > 1 and stores(program) else None
        return cls(program, wanted, pairs, uses, traces)

    def checkers(self, machine: Machine, counters: Counters, findings: Findings, contents: Contents) -> Checkers:
        """The checkers of one resident; `contents` tells what its LDS holds."""
        program, wanted = self.program, self.wanted
        registers = lds = memory = states = undefined = None
        alignment = Alignment(machine, program, findings) if MISALIGNED in wanted else None
        if wanted & _REGISTERS:
            loaded = kept(program, "_loaded", (machine.accum_offset,), lambda: _loaded(program, machine))
            registers = RegisterArrival(machine, counters, program, findings, loaded)
        if self.uses is not None and self.uses.matter:
            undefined = UndefinedWatcher(machine, program, findings, self.uses)
        if wanted & _LDS and machine.lds_bytes:
            lds = LdsArrival(machine, counters, program, findings, contents, alignment, undefined.taint if undefined is not None else None)
            machine.memory_watchers.append(lds.flat)
        if GLOBAL_RACE in wanted and stores(program) and machine.waves > machine.workgroups:
            memory = GlobalArrival(machine, counters, program, findings, self.traces.raced if self.traces is not None else None)
            machine.memory_watchers.append(memory.note)
        workgroups = WorkgroupRaces(machine, program, self.traces) if self.traces is not None and self.traces.on else None
        if workgroups is not None:
            machine.memory_watchers.append(workgroups.note)
            machine.scalar_watchers.append(workgroups.note_scalar)
        if alignment is not None:
            machine.memory_watchers.append(alignment.in_memory)
        if self.pairs:
            states = WaitStateWatcher(machine, program, findings, self.pairs)
        return Checkers(registers, lds, memory, states, undefined, alignment, workgroups)

    def conclude(self, memory: Memory, findings: Findings, ended: bool) -> None:
        """Add what can be said only now that the launch is over; `ended`: all of its workgroups have."""
        if self.traces is None:
            return
        racing = {frozenset((id(finding.producer), id(finding.consumer))) for finding in findings.found.values()
                  if finding.check == GLOBAL_RACE and finding.severity == "error"}
        for finding in self.traces.findings(memory, ended):
            if frozenset((id(finding.producer), id(finding.consumer))) not in racing:
                findings.add(finding)


def _loaded(program: Program, machine: Machine) -> int:
    """The registers that loads write."""
    loaded = 0
    for instruction in program.instructions:
        if queue_of(instruction) is not None:
            loaded |= touch_of(0, instruction, machine, None).writes
    return loaded


def with_address_makers(program: Program, findings: Sequence[Finding]) -> list[Finding]:
    """Findings about one address name the instruction that made it too, where one stands before them in the same straight-line code."""
    return [replace(finding, producer=_maker(program, finding.consumer))
            if finding.producer is None and finding.consumer is not None and finding.check in ("access-outside-registry", MISALIGNED)
            else finding for finding in findings]


def _maker(program: Program, consumer: Instruction) -> Instruction | None:
    """The nearest writer of an address register before `consumer` in its block."""
    position = next((position for position, other in enumerate(program.instructions) if other is consumer), None)
    if position is None:
        return None
    address = 0
    for location, operand, reading, _ in consumer.accesses:
        if reading and isinstance(operand, Reg) and location.name in ADDRESSES:
            address |= operand.mask
    ways = Ways(program)
    first = ways.pieces[ways.piece_of[position]].first
    for other in reversed(program.instructions[first:position]):
        if other.writes & address:
            return other
    return None
