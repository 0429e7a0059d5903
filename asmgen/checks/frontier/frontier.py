"""The frontier: what is in flight at one point of a program that is being written. Counters, wait states and tokens, kept incrementally.

    frontier = Frontier("gfx950")
    frontier.issue(k.emit(...))
    frontier.need(candidate).waits          # {"vmcnt": 2}: what would have to stand before the candidate
    other = frontier.copy()                 # a scheduler tries something else

It passes each instruction by the same steps as insertion and verification (`counters.waitsteps`, `waitstates.statesteps`), the waits and
wait states that are needed taken as standing. What is not placed yet it cannot know: inside an unfinished loop it answers for the way in
(`need(...).path` says so). Loops that are closed are solved as a whole (`Frontier.after`). Waits are counted as insertion has them
without its rounding up: it may drain where a partial count would cost another wait later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from asmgen.checks.counters.flow import WaitFlow
from asmgen.checks.counters.ledger import COUNTERS, Ledger, Operation, operation_of
from asmgen.checks.counters.points import POINT
from asmgen.checks.counters.tokens import due_at_barrier
from asmgen.checks.counters.waitsteps import Arrival, WaitNeed, WaitSteps
from asmgen.checks.waitstates.match import HazardFacts, hazard_model
from asmgen.checks.waitstates.passes import ages_after, reasons
from asmgen.checks.waitstates.statesteps import Ages, HazardSteps, HazardTable, Lack, Producers, join
from asmgen.isa.arch import architecture
from asmgen.program.program import Instruction, Item, Label, Program, TokenUse

_TIDY = 256  # instructions after which those that nobody asks about any more are forgotten


@dataclass(frozen=True)
class Needed:
    """What one instruction needs before it where it would be issued next: `waits` by counter with the arrivals that ask for them,
    `wait_states` with a sentence each. `stalls` are counters that may be full. `path` is "" or says which way the answer is for."""

    waits: dict[str, int]
    because: tuple[Arrival, ...]
    wait_states: int
    state_reasons: tuple[str, ...]
    stalls: tuple[str, ...]
    path: str = ""


@dataclass
class _Barriers:
    """The barriers passed, by ordinal from 1 on: who reads other waves' data waits before one of them, not at the read.

    `born` has the number of barriers before each operation in flight, `fills` token fills by the number of barriers before them,
    `asked` whether waits are inserted at a barrier.
    """

    passed: int = 0
    born: dict[int, int] = field(default_factory=dict)
    fills: tuple[tuple[int, TokenUse], ...] = ()
    asked: dict[int, bool] = field(default_factory=dict)

    def copy(self) -> _Barriers:
        return _Barriers(self.passed, dict(self.born), self.fills, dict(self.asked))

    def before(self, source: int, stagger: int) -> int | None:
        """The barrier at which what an operation does must have settled for an instruction here; None where none stands between."""
        first = max(self.born.get(source, self.passed) + 1, self.passed - stagger)
        return first if first <= self.passed else None

    def uncovered(self, uses: Sequence[TokenUse], barrier: int) -> set[TokenUse]:
        """The uses whose bytes were not filled anew after a barrier."""
        fills = [fill for ordinal, fill in self.fills if ordinal >= barrier]
        return {use for use in uses if not any(fill.low <= use.low and use.high <= fill.high for fill in fills)}

    def join(self, other: _Barriers) -> None:
        """Take in another way here."""
        self.passed = max(self.passed, other.passed)
        self.born = {**other.born, **self.born}
        self.fills = tuple(dict.fromkeys((*self.fills, *other.fills)))
        self.asked = {**other.asked, **self.asked}


class Frontier:
    """What is in flight after the instructions issued so far; `position` is the number of the next one."""

    def __init__(self, arch: str, stagger: int = 0, table: HazardTable | None = None) -> None:
        self.arch = arch
        self.stagger = stagger
        self.position = 0
        self.instructions: dict[int, Instruction] = {}  # those in flight, by position
        self.operations: dict[int, Operation] = {}
        self._touches: dict[int, int] = {}
        self._samples: dict[int, HazardFacts] = {}
        self.ledger = Ledger()
        self.table = table or HazardTable(hazard_model(arch), open_ended=True)
        self._steps = WaitSteps(architecture(arch), stagger, self.operations, self._touches, self._automatic)
        self.limits = self._steps.limits
        self._hazards = HazardSteps(self.table, self.instructions, self._samples)
        self._producers = Producers([])
        self._barriers = _Barriers()
        self._point = -1  # the last wait slot
        self._placed: frozenset[str] = frozenset()  # labels
        self._open: tuple[str, ...] = ()  # labels that no branch has named yet
        self._ahead: dict[str, Frontier] = {}  # what branches bring to labels that are not placed yet
        self._reached = True

    def copy(self) -> Frontier:
        """An independent copy, in the time that what is in flight takes."""
        self._tidy()
        other = Frontier(self.arch, self.stagger, self.table)
        other.position = self.position
        other.instructions.update(self.instructions)
        other.operations.update(self.operations)
        other._samples.update(self._samples)
        other.ledger, other._producers, other._barriers = self.ledger.copy(), self._producers.copy(), self._barriers.copy()
        other._steps.tokens = self._steps.tokens
        other._point, other._placed, other._open, other._reached = self._point, self._placed, self._open, self._reached
        other._ahead = dict(self._ahead)
        return other

    @classmethod
    def after(cls, program: Program) -> Frontier:
        """The frontier at the end of a program, its loops solved as a whole."""
        found = cls(program.arch, program.stagger)
        found.position = len(program)
        if not program.instructions:
            return found
        flow = WaitFlow(program, lambda position: program.instructions[position].waits in ("", "auto"))
        ages = ages_after(program, found.table)
        before, barriers = [], 0
        for operation in flow.operations:
            before.append(barriers)
            barriers += operation.barrier
        found._placed = frozenset(program.labels)
        named = {instruction.target for instruction in program.instructions if instruction.is_branch}
        found._open = tuple(name for name in program.labels if name not in named)
        points = [position for position, instruction in enumerate(program.instructions) if instruction.waits == POINT]

        def enter(frontier: Frontier, number: int) -> None:
            frontier.position = len(program)
            ledger = flow.after(flow.flow.blocks[number])
            for position in {*ledger.vm.births, *ledger.lgkm.births, *ledger.settled, *ages[number]}:
                instruction = program.instructions[position]
                frontier._hold(position, instruction, flow.operations[position])
                frontier._barriers.born[position] = before[position]
            frontier.ledger = ledger
            frontier._producers = frontier._hazards.entering(ages[number])
            frontier._point = points[-1] if points else -1
            frontier._barriers.passed = barriers
            frontier._steps.tokens = flow.tokens
            for position, operation in enumerate(flow.operations):
                if operation.barrier:
                    frontier._barriers.asked[before[position] + 1] = flow.automatic(position)
                if operation.fills and before[position] >= barriers - program.stagger:
                    frontier._barriers.fills += tuple((before[position], fill) for fill in operation.fills)

        for block in flow.flow.blocks:
            target = program.instructions[block.last].target
            if target is not None and target not in program.labels:
                branching = cls(program.arch, program.stagger, found.table)
                enter(branching, block.number)
                found._await(target, branching)
        found._reached = not program.instructions[-1].ends_block
        if found._reached:
            enter(found, flow.flow.blocks[-1].number)
        return found

    def closes_loop(self, item: Item) -> bool:
        """Whether an item branches back, to a label that was placed: then `after` has to solve the program anew."""
        return isinstance(item, Instruction) and item.is_branch and item.target in self._placed

    def need(self, instruction: Instruction) -> Needed:
        """What the instruction would need if it were issued next. Nothing changes."""
        position = self.position
        operation = self._try(instruction)
        try:
            ledger = self._due_before(operation)
            need = self._certain(self._steps.need(ledger, position), instruction)
            lacking = self._hazards.lacking(self._producers, position) if self._producers.entries else []
            stalls = tuple(counter for counter, weight in operation.weight.items()
                           if ledger[counter].outstanding + weight > self.limits[counter])
            return Needed(need.counts if need is not None else {}, tuple(need.because) if need is not None else (), _missing(lacking),
                          reasons(self.instructions, lacking) if lacking else (), stalls, self.path())
        finally:
            self._drop(position)

    def issue(self, instruction: Instruction) -> None:
        """Pass an instruction, with the waits and wait states that it needs before it where waits are inserted."""
        position = self.position
        operation = self._try(instruction)
        if operation.fills or operation.uses:
            self._steps.tokens = True
        self.ledger = self._due_before(operation)
        self._steps.step(self.ledger, position, None)
        if self._producers.entries:
            self._producers.clock += _missing(self._hazards.lacking(self._producers, position))
        self._hazards.issue(self._producers, position)
        self._count_barriers(operation, position)
        if instruction.waits == POINT:
            self._point = position
        self._touches.clear()
        self.position += 1
        if instruction.is_branch or instruction.ends_block:
            self._leave(instruction)
        elif self.position % _TIDY == 0:
            self._tidy()

    def place(self, item: Item) -> None:
        """Pass an item of a program: issue an instruction, join what branches bring to a label."""
        if isinstance(item, Instruction):
            self.issue(item)
        elif isinstance(item, Label):
            self._placed |= {item.name}
            coming = self._ahead.pop(item.name, None)
            if coming is None:
                self._open = (*self._open, item.name)
                self._start_block()
            else:
                if not self._reached:
                    self._start_block()
                    self._barriers, self._point = coming._barriers.copy(), coming._point
                self._join(coming)

    def path(self) -> str:
        """"" where all that leads here is placed; else a sentence on the way that the answers are for."""
        if not self._reached:
            return "nothing that is placed so far leads here"
        if not self._open:
            return ""
        names = ", ".join(self._open[-3:])
        return f"for the way in from above: no branch to {names} is placed yet, and what a back-edge would bring is not known"

    def in_flight(self) -> list[tuple[int, str, int]]:
        """(position, counter, newer) of everything outstanding, oldest first."""
        return self.ledger.in_flight()

    # ---- inside ----

    def _automatic(self, position: int) -> bool:
        return self.instructions[position].waits in ("", "auto")

    def _certain(self, need: WaitNeed | None, instruction: Instruction) -> WaitNeed | None:
        """Where no wait is inserted, LDS data that no token names is its author's business."""
        if need is None or instruction.waits in ("", "auto"):
            return need
        return need.without("lds", self._steps)

    def _try(self, instruction: Instruction) -> Operation:
        operation = operation_of(instruction)
        self._hold(self.position, instruction, operation)
        self._touches[self.position] = instruction.reads | instruction.writes
        return operation

    def _hold(self, position: int, instruction: Instruction, operation: Operation) -> None:
        (sample,) = self.table.model.samples((instruction,))
        self.table.meet(sample)
        self.instructions[position], self.operations[position], self._samples[position] = instruction, operation, sample

    def _drop(self, position: int) -> None:
        for held in (self.instructions, self.operations, self._touches, self._samples):
            held.pop(position, None)

    def _due_before(self, operation: Operation) -> Ledger:
        """The ledger before an instruction, once waits that it asks for at earlier places (barriers, wait slots) stand there."""
        ledger = self.ledger
        if (operation.fills or operation.uses) and self._barriers.passed:
            ledger = self._settled_at_barriers(operation)
        if self._point >= 0:
            need = self._steps.need(ledger, self.position)
            old = {arrival.producer for arrival in need.because if arrival.producer < self._point} if need is not None else set()
            if old:
                ledger = ledger.copy()
                ledger.drop(old, self.operations)
        return ledger

    def _settled_at_barriers(self, operation: Operation) -> Ledger:
        ledger = self.ledger
        for counter in COUNTERS:
            for source in sorted(ledger[counter].births, key=ledger[counter].newer):
                tokens = self.operations[source]
                if not (tokens.fills or tokens.uses):
                    continue
                barrier = self._barriers.before(source, self.stagger)
                if barrier is None or source not in ledger[counter].births:
                    continue
                ahead = (set(operation.fills), self._barriers.uncovered(operation.uses, barrier))
                if due_at_barrier(tokens, ahead):
                    if ledger is self.ledger:
                        ledger = ledger.copy()
                    if self._barriers.asked.get(barrier, True):
                        newer = ledger[counter].newer(source)
                        ledger.settle(counter, newer if tokens.ordered else 0, self.operations)
                    else:
                        ledger.drop({source}, self.operations)
        return ledger

    def _count_barriers(self, operation: Operation, position: int) -> None:
        barriers = self._barriers
        if operation.barrier:
            barriers.passed += 1
            barriers.asked[barriers.passed] = self._automatic(position)
            barriers.fills = tuple(entry for entry in barriers.fills if entry[0] >= barriers.passed - self.stagger)
        if operation.fills or operation.uses:
            barriers.born[position] = barriers.passed
            barriers.fills += tuple((barriers.passed, fill) for fill in operation.fills)

    def _start_block(self) -> None:
        if not self._reached:
            self.ledger, self._producers, self._reached = Ledger(), Producers([]), True
        else:
            self.ledger.forget(self.limits, self.operations)

    def _leave(self, branch: Instruction) -> None:
        self.ledger.forget(self.limits, self.operations)
        target = branch.target
        if target is not None and target not in self._placed:
            self._await(target, self.copy())
        if branch.ends_block:
            self._reached = False
            self.ledger, self._producers = Ledger(), Producers([])

    def _await(self, label: str, branching: Frontier) -> None:
        known = self._ahead.get(label)
        if known is not None:
            branching._join(known)
        branching._ahead = {}
        self._ahead[label] = branching

    def _join(self, other: Frontier) -> None:
        """Take in another way to this place."""
        for position, instruction in other.instructions.items():
            if position not in self.instructions:
                self._hold(position, instruction, other.operations[position])
        self.ledger = self.ledger.copy()
        self.ledger.forget(self.limits, self.operations)
        self.ledger.merge(other.ledger.copy())
        ages: Ages = self._hazards.ages(self._producers)
        join(ages, other._hazards.ages(other._producers))
        self._producers = self._hazards.entering(ages)
        self._barriers.join(other._barriers)
        self._steps.tokens |= other._steps.tokens
        self._point = min(self._point, other._point)

    def _tidy(self) -> None:
        ledger = self.ledger
        wanted = {*ledger.vm.births, *ledger.lgkm.births, *ledger.settled, *self._hazards.ages(self._producers)}
        for position in [position for position in self.instructions if position not in wanted]:
            self._drop(position)
        self._producers = self._producers.copy()
        barriers = self._barriers
        barriers.born = {position: count for position, count in barriers.born.items() if position in wanted}
        oldest = min((barriers.passed - self.stagger, *barriers.born.values()))
        barriers.asked = {ordinal: asked for ordinal, asked in barriers.asked.items() if ordinal >= oldest}


def _missing(lacking: Sequence[Lack]) -> int:
    return max((need.states - age for _, age, needs in lacking for need in needs), default=0)
