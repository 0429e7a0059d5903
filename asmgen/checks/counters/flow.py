"""Dataflow of the ledger over a program: at every instruction, what is in flight and which wait it needs.

One walk serves insertion, verification and explanation. Inserting, every needed wait is taken as standing where it is needed.
Verifying, an operation that somebody touches too early is reported there and then forgotten, so each mistake shows once; LDS data without
a token is not touched by a barrier, and stays in flight over it until a wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from functools import cached_property
from heapq import heappop, heappush

from asmgen.checks.counters.ledger import COUNTERS, PLAIN, Ledger, Operation, operation_of, operations_of
from asmgen.checks.counters.points import wait_regions
from asmgen.checks.counters.roles import meetings
from asmgen.checks.counters.tokens import tokens_ahead
from asmgen.checks.counters.waitsteps import Arrival as Arrival  # for those who read needs
from asmgen.checks.counters.waitsteps import Visit, WaitSteps
from asmgen.checks.counters.waitsteps import WaitNeed as WaitNeed
from asmgen.isa.arch import architecture
from asmgen.isa.records import dataclass
from asmgen.isa.registers import mask_names
from asmgen.program.controlflow import Block, ControlFlow, Loop, control_flow
from asmgen.program.knowncalls import Calls
from asmgen.program.program import Program

_SETTLE_ROUNDS = 4


@dataclass(frozen=True)
class LoopState:
    """Whether a loop is in its steady state from its first round on; `sentence` says what a back-edge brings besides."""

    loop: Loop
    steady: bool
    sentence: str


class WaitFlow(WaitSteps):
    """The ledgers of a program, solved once.

    `automatic` says at which positions needed waits count as standing (True: everywhere, False: nowhere). `watching` also keeps
    whose wait let what arrive, for notes on waits that are too strict. `partial` are the positions that wait for no more than they need
    (None: all) although others (scalar loads, flat) are outstanding on the same counter, or at a barrier: elsewhere the wait is
    then 0, which spares the next one. `own` says of which operations a barrier asks nothing, as no other wave touches their bytes: it is
    asked once, where a barrier would ask.
    """

    def __init__(self, program: Program, automatic: bool | Callable[[int], bool] = True, watching: bool = False,
                 partial: frozenset[int] | None = None, own: Callable[[ControlFlow, Sequence[Operation]], frozenset[int]] | None = None
                 ) -> None:
        operations, touches = operations_of(program)
        super().__init__(architecture(program.arch), program.stagger, operations, touches,
                         automatic if callable(automatic) else lambda position: bool(automatic), watching, partial)
        self.program = program
        self.flow: ControlFlow = control_flow(program)
        self._own = own
        self.operations: list[Operation] = operations
        self.touches: list[int] = touches
        self.told: list[Operation] = [operation for operation in operations if operation is not PLAIN]
        """The operations of which there is something to tell, for questions whether there is one of some sort."""
        self.tokens = any(operation.fills or operation.uses for operation in self.told)
        self.ahead = tokens_ahead(self.flow, operations, program.stagger) if self.tokens else {}
        self.meetings = meetings(program, self.flow, operations)
        for barrier, others in self.meetings.after.items():
            fills, uses = self.ahead.get(barrier, (set(), set()))
            self.ahead[barrier] = (fills.union(*(operations[other].fills for other in others)),
                                   uses.union(*(operations[other].uses for other in others)))
        self.unknown_entries = frozenset(self._unknown_entries())
        self.calls = Calls(program, self.flow)
        self._follow_calls()
        self.regions = wait_regions(program, self.flow, operations, touches)
        self._special = [operation is not PLAIN for operation in operations]
        self._needs: list[dict[int, WaitNeed]] = [{} for _ in self.flow.blocks]  # by block, as it was last gone through
        self.entries, self._exits = self._solve()

    @cached_property
    def own_bytes(self) -> frozenset[int]:
        """The positions of operations whose bytes no other wave touches, as far as `own` knows."""
        return frozenset() if self._own is None else self._own(self.flow, self.operations)

    def _due_at_barrier(self, producer: int, barrier: int) -> list[str]:
        found = super()._due_at_barrier(producer, barrier)
        return [] if found and producer in self.own_bytes else found

    def _unknown_entries(self) -> Iterator[int]:
        """Blocks at which callers begin: functions after the kernel, and the first block of a callable function."""
        instructions = self.program.instructions
        kernel = any(instruction.opcode.name == "s_endpgm" for instruction in reversed(instructions))
        returns = any(operation.leaves == "return" for operation in self.told)
        indirect = bool(self.flow.indirect) or any(operation.leaves for operation in self.told)
        labelled = set(self.program.labels.values())
        entry = self.program.labels.get(self.program.entry, 0) if self.program.entry else 0
        for block in self.flow.blocks:
            if block.first in (0, entry):
                if not kernel and returns:
                    yield block.number
            elif not block.predecessors and (not indirect or block.first in labelled):
                yield block.number

    def _follow_calls(self) -> None:
        """Known callers go on with what a function leaves in flight; unknown ones, where there are any, wait for what they issued alone."""
        blocks, calls = self.flow.blocks, self.calls
        self._issued: dict[int, frozenset[int]] = {
            number: frozenset(position for inside in call.inside for position in range(blocks[inside].first, blocks[inside].last + 1)
                              if self.operations[position].counters) for number, call in calls.into.items()}
        """By block that ends with a call that is followed, the memory operations of the code that it runs."""
        if not calls.into and not calls.jumps:
            return
        self.followed = frozenset(blocks[number].last for number in (*calls.into, *calls.returning, *calls.jumps))
        unknown = any(operation.leaves == "call" and position not in self.followed for position, operation in enumerate(self.operations))
        self.leftover = {blocks[number].last: frozenset().union(*(self._issued[call.block] for call in into if unknown))
                         for number, into in calls.returning.items()} | {blocks[number].last: frozenset() for number in calls.jumps}

    def _entry_of(self, block: Block) -> Ledger:
        ledger = Ledger(self.watching)
        if block.number in self.unknown_entries:
            ledger.vm.unknown = ledger.lgkm.unknown = True
        return ledger

    def _solve(self) -> tuple[list[Ledger], list[Ledger]]:
        """Ledgers at block entries and after blocks, to a fixed point."""
        entries = [self._entry_of(block) for block in self.flow.blocks]
        exits: list[Ledger | None] = [None for _ in self.flow.blocks]
        self._settle(entries, exits, range(len(self.flow.blocks)))
        return entries, [left for left in exits if left is not None]

    def _settle(self, entries: list[Ledger], exits: list[Ledger | None], blocks: Iterable[int]) -> set[int]:
        """Go through some blocks, and on to a fixed point from those ledgers, which change; returns which blocks were gone through.

        Verifying is a plain union of paths. Inserting, a stricter wait on one path can empty what a looser one left, so the transfer is not
        monotone; after a few visits entries only grow, which ends it and is at worst a wait too strict.
        """
        visits = [0 for _ in self.flow.blocks]
        order = sorted(blocks)  # a heap: earlier blocks first
        pending, due = set(order), set(order)
        found: set[int] = set()
        while order:
            number = heappop(order)
            pending.remove(number)
            block = self.flow.blocks[number]
            visits[number] += 1
            entry = entries[number].copy() if visits[number] > _SETTLE_ROUNDS else self._entry_of(block)
            for predecessor in self.calls.predecessors(block):
                for left in self._left(predecessor, number, exits):
                    entry.merge(left)
            if number not in due and entry.same(entries[number]):
                continue
            due.discard(number)
            entries[number] = entry
            found.add(number)
            after = self._run(block, entry.copy(), None)
            before = exits[number]
            if before is None or not after.same(before):
                exits[number] = after
                for _, successor in self.calls.edges(block):
                    if successor not in pending:
                        pending.add(successor)
                        heappush(order, successor)
        return found

    def _left(self, number: int, successor: int, exits: Sequence[Ledger | None]) -> Iterator[Ledger]:
        """What a block brings to its successor; after a call, what the called code's returns bring of what the call or that code issued."""
        before, call = exits[number], self.calls.call(number, successor)
        if before is None:
            return
        if call is None:
            yield before
            return
        issued = before.known
        for end in call.returns:
            left = exits[end]
            if left is not None:
                yield left.only(issued | self._issued[number], self.operations)
        if not call.whole:
            unknown = Ledger(self.watching)
            unknown.enter()
            yield unknown

    def weakened(self, program: Program, position: int) -> tuple[WaitFlow, set[int]]:
        """The flow of a program with another instruction at one position: a wait for less than this one's, or something plain instead of a
        wait or a barrier; and the blocks in which anything differs. It is solved there alone: nothing arrives earlier than in this one,
        which must be a verification, of a program without roles where it is a barrier."""
        other = copy(self)
        other.program, other.needed_by, other._at_barrier = program, {}, {}
        other.operations = [*self.operations]
        other.operations[position] = operation_of(program.instructions[position])
        other._special = [operation is not PLAIN for operation in other.operations]
        blocks = {self.flow.block_of[position]}
        if self.operations[position].barrier and self.tokens:
            other.ahead = tokens_ahead(self.flow, other.operations, program.stagger)
            blocks |= {self.flow.block_of[barrier] for barrier, tokens in other.ahead.items() if tokens != self.ahead[barrier]}
        exits: list[Ledger | None] = [*self._exits]
        other.entries = [*self.entries]
        blocks = other._settle(other.entries, exits, blocks)
        other._exits = [left for left in exits if left is not None]
        return other, blocks

    def _run(self, block: Block, ledger: Ledger, visit: Visit | None) -> Ledger:
        """Go through a block; the ledger after it, its clocks at 0."""
        touches, special = self.touches, self._special
        needs = self._needs[block.number] = {}
        hot = ledger.hot
        entering = block.number in self.unknown_entries
        for position in range(block.first, block.last + 1):
            if special[position] or touches[position] & hot or entering or position in self.regions:
                need = self.step(ledger, position, visit, entering)
                if need is not None:
                    needs[position] = need
                hot = ledger.hot
                entering = False
        ledger.forget(self.limits, self.operations)
        return ledger

    def visit(self, visit: Visit, blocks: Iterable[int] | None = None) -> None:
        """Call `visit` for every instruction (of some blocks) that touches what is in flight, waits, issues or meets others, in program
        order."""
        self.needed_by.clear()
        for number in range(len(self.flow.blocks)) if blocks is None else sorted(blocks):
            self._run(self.flow.blocks[number], self.entries[number].copy(), visit)

    def needs(self) -> dict[int, WaitNeed]:
        """The need of every instruction that has one."""
        return {position: need for needs in self._needs for position, need in needs.items()}

    def before(self, position: int) -> Ledger:
        """The ledger right before an instruction. Raises IndexError outside of the program."""
        block = self.flow.blocks[self.flow.block_of[position]]
        ledger = self.entries[block.number].copy()
        for earlier in range(block.first, position):
            self.step(ledger, earlier, None, earlier == block.first and block.number in self.unknown_entries)
        return ledger

    def after(self, block: Block) -> Ledger:
        """The ledger after a block."""
        return self._exits[block.number].copy()

    def loops(self) -> list[LoopState]:
        """Each loop's steady state, back-edge against entry."""
        found = []
        for loop in self.flow.loops():
            head = self.flow.blocks[self.flow.block_of[loop.first]]
            latch = self.flow.block_of[loop.last]
            outer, back = Ledger(self.watching), Ledger(self.watching)
            for number in head.predecessors:
                if number == latch or number not in loop.blocks:
                    for left in self._left(number, head.number, self._exits):
                        (back if number == latch else outer).merge(left)
            found.append(_compare(loop, outer, back, self.program))
        return found


def _compare(loop: Loop, outer: Ledger, back: Ledger, program: Program) -> LoopState:
    """A loop is steady where what is on its way over both edges has as many newer operations after it: what only one edge brings
    is served by a wait for that one, without loss for the other."""
    differing = []
    for counter in COUNTERS:
        one, other = _by_target(outer, counter, program), _by_target(back, counter, program)
        differing += [what for what in sorted(one.keys() & other.keys()) if one[what] != other[what]]
    if not differing:
        return LoopState(loop, True, "what is in flight at the loop's entry and what its back-edge brings ask for the same counts")
    shown = ", ".join(differing[:4]) + (f" and {len(differing) - 4} more" if len(differing) > 4 else "")
    return LoopState(loop, False, f"entry and back-edge differ in what is in flight ({shown}): waits in the loop serve both")


def _by_target(ledger: Ledger, counter: str, program: Program) -> dict[str, int]:
    """What is on its way, by register or token name, with the fewest newer operations."""
    found: dict[str, int] = {}
    for position, name, newer in ledger.in_flight():
        instruction = program.instructions[position]
        what = ", ".join(mask_names(instruction.writes)) or ", ".join(str(use) for use in instruction.tokens)
        if name == counter and what:
            found[what] = min(found.get(what, newer), newer)
    return found
