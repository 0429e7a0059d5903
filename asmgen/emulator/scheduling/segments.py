"""Straight-line code as lists of functions: what a group of waves runs without looking left or right.

A segment ends where control may go elsewhere, where waves wait or change what later instructions mean, before every
label, where other waves may join, and where it gets long. Arrival checks and other watchers are woven in when a segment is made, so that
nothing asks for them at every step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from asmgen.emulator.arrival.arrival import FLAT, LDS, VM, Counters, RegisterArrival, RegisterTouch
from asmgen.emulator.arrival.boundstep import Action, Late, Step
from asmgen.emulator.arrival.ldsraces import LdsArrival
from asmgen.emulator.binding.decode import Decoder
from asmgen.emulator.binding.runs import Run, Spin
from asmgen.emulator.machine.state import M0, MODE_GPR_INDEX, Group
from asmgen.emulator.memory.addresses import waves_in_lds
from asmgen.emulator.memory.ldsops import LdsRead
from asmgen.emulator.memory.vmem import Deliveries
from asmgen.emulator.semantics.matrix import Product
from asmgen.emulator.semantics.scalarstate import CHANGES_STATE, hardware_register
from asmgen.emulator.shadow.undefined import UndefinedWatcher
from asmgen.isa.opcode import is_lds_dma
from asmgen.isa.registers import Reg
from asmgen.program.program import Instruction

LONGEST, LONGEST_ALONE = 16, 64
"""Instructions of a segment at most, and of one whose group runs alone: groups that run at the same time take turns after a segment."""
Watcher = Callable[[Step], Action | None]
"""Looks at a step when it is bound; what it returns runs before every execution of the step."""

_STOPS = frozenset({"s_barrier", "s_sleep", "s_sethalt", "s_trap", "s_setkill", "s_sendmsghalt", "s_endpgm", "s_endpgm_saved",
                    "s_endpgm_ordered_ps_done"})


@dataclass
class RunSegment:
    """Positions `first` to `last`, and how the group leaves: `leave` returns whether it goes on as one group."""

    first: int
    last: int
    actions: tuple[Action, ...]
    positions: tuple[int, ...]  # of the instructions that are really issued
    leave: Callable[[Group], bool]
    spin: Spin | None = None  # goes round a loop that this segment is, while all waves do
    accesses: int = 0  # of memory and LDS
    executed: int = 0
    length: int = field(init=False)

    def __post_init__(self) -> None:
        self.length = len(self.positions)


@dataclass(frozen=True)
class ArrivalModel:
    """The arrival model as the segments need it. `registers` is None where checks are off.

    `watchers` may look at anything; when a matrix instruction or a read of LDS comes, the `checkers` look at no register's value but an
    address. One of them is the `follower` of undefined values.
    """

    counters: Counters
    deliveries: Deliveries
    registers: RegisterArrival | None
    lds: LdsArrival | None = None
    watchers: Sequence[Watcher] = ()
    checkers: Sequence[Watcher] = ()
    follower: UndefinedWatcher | None = None


class Segments:
    """Makes segments when they are first entered, for each MODE and relative index that waves enter them with."""

    def __init__(self, decoder: Decoder, arrival: ArrivalModel, checking: bool,
                 branches: Callable[[Instruction, int, int], Callable[[Group], bool]]) -> None:
        self.decoder = decoder
        self.arrival = arrival
        self.made: dict[tuple[int, int, int, bool], RunSegment] = {}
        self._branches = branches
        self._labels = frozenset(decoder.program.labels.values())
        self._checking = checking
        # Without checks only LDS-DMA asks when its data is due.
        self._dma = any(is_lds_dma(instruction.opcode, instruction.form) for instruction in decoder.program.instructions)

    def make(self, position: int, mode: int, index: int, alone: bool = False) -> RunSegment:
        """The segment from `position` on, for a group that runs `alone` or takes turns. Raises EmulatorError where none begins."""
        instructions = self.decoder.program.instructions
        actions: list[Action] = []
        issued: list[int] = []
        first, longest = position, LONGEST_ALONE if alone else LONGEST
        run = Run(self.decoder.machine, mode, self.arrival.follower)
        accesses = 0
        checked = 0  # registers that a step of this segment has looked at already: they have arrived
        while True:
            instruction = instructions[position]
            step = self.decoder.step(position, mode, index)
            if step is not None:
                run = self._weave(step, checked, actions, run)
                checked = checked | step.touch.reads | step.touch.writes
                if step.queue is not None:
                    checked &= ~step.touch.writes
                    accesses += 1
                issued.append(position)
            if self._ends(instruction, position, mode) or position - first >= longest - 1:
                break
            position += 1
        spins = not actions and instruction.is_branch and self.decoder.program.labels.get(instruction.target or "") == first
        spin = run.spin(instruction) if spins else None
        actions += run.actions()
        segment = RunSegment(first, position, tuple(actions), tuple(issued), self._branches(instruction, position, mode), spin,
                             accesses)
        self.made[first, mode, index, alone] = segment
        return segment

    def _ends(self, instruction: Instruction, position: int, mode: int) -> bool:
        if instruction.is_branch or instruction.name in _STOPS or changes_state(instruction, mode):
            return True
        return position + 1 in self._labels or not self.decoder.code.flows(position + 1)

    def _fills_lds(self, step: Step) -> bool:
        """Whether bytes of LDS may get other values. LDS-DMA that a full counter lets arrive at its issue is none: it may arrive before."""
        if isinstance(step.run, LdsRead):
            return False
        return step.queue in (LDS, FLAT) or self._dma and step.wait is not None and step.wait.vmcnt is not None

    def _weave(self, step: Step, checked: int, actions: list[Action], run: Run) -> Run:
        """Put a step after `actions` and the `run` that is being gathered, with what the arrival model and the watchers want.

        Returns the run that goes on. What is no arithmetic comes before the arithmetic that has been gathered, where they share no
        registers: memory is accessed in the program's order, and the arrival model's books know no arithmetic.
        """
        arrival, registers = self.arrival, self.arrival.registers
        watching = [action for watcher in arrival.watchers if (action := watcher(step)) is not None]
        checking = {watcher: action for watcher in arrival.checkers if (action := watcher(step)) is not None}
        straight = isinstance(step.run, Product | LdsRead)
        within = checking.pop(arrival.follower, None) if arrival.follower is not None and not straight and run.takes(step) else None
        # Whether something of it comes before the run.
        ahead = bool(watching) or bool(checking) and not straight
        ahead = ahead or step.run is not None and not run.takes(step)
        late = isinstance(step.run, LdsRead) and bool(step.touch.reads & run.writes)  # it looks at where it goes
        late = late or straight and bool(checking) and not run.before_followed(step)
        if late or ahead and not run.before(step) or run.reads_lds and self._fills_lds(step):
            actions += run.actions()
            run = Run(run.machine, run.mode, run.follower)
        actions += watching
        actions += checking.values()
        if registers is not None:
            wanted = registers.loaded & ~checked
            touch = step.touch
            reads, writes = touch.reads & wanted, touch.writes & wanted
            if reads | writes:
                actions.append(_before(registers, RegisterTouch(touch.position, reads, writes, touch.queue, touch.kept)))
        if step.queue is not None and (self._checking or self._dma and step.queue == VM):
            actions.append(_issue(arrival, step))
        if isinstance(step.run, LdsRead):
            actions.append(step.run.look)
        if step.wait is not None:
            if self._checking or self._dma and step.wait.vmcnt is not None:
                actions.append(_wait(arrival, step))
        elif step.run is not None and not run.add(step, within):
            actions.append(step.run.bound if isinstance(step.run, Late) else step.run)
        return run


def changes_state(instruction: Instruction, mode: int) -> bool:
    """Whether instructions after this one may mean something else: MODE changes, or M0 while registers are relative to it."""
    name = instruction.name
    if name in CHANGES_STATE:
        return not name.startswith("s_setreg") or hardware_register(instruction.operands[0]).number == 1
    if not mode & MODE_GPR_INDEX:
        return False
    return any(writes and isinstance(operand, Reg) and operand.file == "s" and operand.index <= M0 <= operand.last
               for _, operand, _, writes in instruction.accesses)


def _before(registers: RegisterArrival, touch: RegisterTouch) -> Action:
    return lambda group: registers.before(group, touch)


def _issue(arrival: ArrivalModel, step: Step) -> Action:
    counters, deliveries, queue, touch = arrival.counters, arrival.deliveries, step.queue, step.touch
    assert queue is not None
    registers = arrival.registers if touch.writes else None
    if queue == FLAT:
        in_lds = waves_in_lds(step.instruction, deliveries.machine)

        def issue_flat(group: Group) -> None:
            some, within = in_lds(group)
            tickets = counters.issue_flat(group, some)
            if registers is not None:
                registers.issue_flat(group, touch, tickets, within)

        return issue_flat

    def issue(group: Group) -> None:
        tickets = counters.issue(group, queue)
        if registers is not None:
            registers.issue(group, touch, tickets)
        if counters.hold(group, queue) and queue == VM and deliveries.waiting:
            deliveries.deliver()

    return issue


def _wait(arrival: ArrivalModel, step: Step) -> Action:
    counters, deliveries, wait, lds, registers = arrival.counters, arrival.deliveries, step.wait, arrival.lds, arrival.registers
    assert wait is not None
    delivers = wait.vmcnt is not None

    def settle(group: Group) -> None:
        counters.wait(group, wait)
        if delivers and deliveries.waiting:
            deliveries.deliver()
        if lds is not None:
            lds.waited()
        if registers is not None:
            registers.waited()

    return settle
