"""Dataflow of the ledger over a program: at every instruction, what is in flight and which wait it needs.

One walk serves insertion, verification and explanation. Inserting, every needed wait is taken as standing where it is needed.
Verifying, an operation that somebody touches too early is reported there and then forgotten, so each mistake shows once; LDS data without
a token is not touched by a barrier, and stays in flight over it until a wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush

from asmgen.checks.counters.ledger import COUNTERS, LGKM, PLAIN, VM, Flight, Ledger, Operation, count_to_wait, limit_of, operations_of
from asmgen.checks.counters.points import wait_regions
from asmgen.checks.counters.tokens import TooEarly, due_at_barrier, shared, tokens_ahead, too_early
from asmgen.isa.arch import architecture
from asmgen.isa.registers import mask_names
from asmgen.program.controlflow import Block, ControlFlow, Loop, control_flow
from asmgen.program.program import Program

_SETTLE_ROUNDS = 4


@dataclass(frozen=True)
class Arrival:
    """One operation that must have arrived: `newer` in-order operations were issued behind it, `what` arrives.

    `kind` is "register" (read or overwritten), "lds-order" (an LDS load overwritten by another one, in order anyway),
    "own-dma" (the wave's own LDS-DMA), "token" (other waves' data at a barrier), "lds" (LDS data without a token at a barrier),
    "entry" (whatever a caller left in flight) or "return".
    """

    producer: int
    counter: str
    newer: int
    what: str
    kind: str


@dataclass
class Need:
    """The wait that one instruction needs before it issues: counts per counter (None: none) and why, a clause each.

    `partial` holds the count that in-order operations alone would allow, where others are outstanding too.
    """

    position: int
    counts: dict[str, int] = field(default_factory=dict)
    partial: dict[str, int] = field(default_factory=dict)
    because: list[Arrival] = field(default_factory=list)

    def add(self, count: int, arrival: Arrival) -> None:
        """Ask for one more arrival."""
        counter = arrival.counter
        self.counts[counter] = min(self.counts.get(counter, count), count)
        self.because.append(arrival)


@dataclass(frozen=True)
class LoopState:
    """Whether a loop is in its steady state from its first round on; `sentence` says what a back-edge brings besides."""

    loop: Loop
    steady: bool
    sentence: str


Visit = Callable[[int, Ledger, "Need | None", list[TooEarly], list[str]], None]
"""What a walk hears at each instruction that is not plain: position, ledger before it, its need, tokens too early, full counters."""


class WaitFlow:
    """The ledgers of a program, solved once.

    `automatic` says at which positions needed waits count as standing (True: everywhere, False: nowhere). `watching` also keeps
    whose wait let what arrive, for notes on waits that are too strict. `partial` are the positions that wait for no more than they need
    (None: all) although others (scalar loads, flat) are outstanding on the same counter, or at a barrier: elsewhere the wait is
    then 0, which spares the next one.
    """

    def __init__(self, program: Program, automatic: bool | Callable[[int], bool] = True, watching: bool = False,
                 partial: frozenset[int] | None = None) -> None:
        self.program = program
        self.arch = architecture(program.arch)
        self.automatic: Callable[[int], bool] = automatic if callable(automatic) else lambda position: bool(automatic)
        self.watching = watching
        self.partial = partial
        self.flow: ControlFlow = control_flow(program)
        self.operations, self.touches = operations_of(program)
        self.limits = {counter: limit_of(self.arch, counter) for counter in COUNTERS}
        self.ahead = tokens_ahead(self.flow, self.operations, program.stagger)
        self.tokens = any(operation.fills or operation.uses for operation in self.operations)
        self.unknown_entries = frozenset(self._unknown_entries())
        self.regions = wait_regions(program, self.flow, self.operations, self.touches)
        self._special = [operation is not PLAIN for operation in self.operations]
        self.needed_by: dict[tuple[int, str], int] = {}
        self.entries = self._solve()

    def _unknown_entries(self) -> Iterator[int]:
        """Blocks at which callers begin: functions behind the kernel, and the first block of a callable function."""
        instructions = self.program.instructions
        kernel = any(instruction.opcode.name == "s_endpgm" for instruction in reversed(instructions))
        returns = any(operation.leaves == "return" for operation in self.operations)
        indirect = bool(self.flow.indirect) or any(operation.leaves for operation in self.operations)
        labelled = set(self.program.labels.values())
        entry = self.program.labels.get(self.program.entry, 0) if self.program.entry else 0
        for block in self.flow.blocks:
            if block.first in (0, entry):
                if not kernel and returns:
                    yield block.number
            elif not block.predecessors and (not indirect or block.first in labelled):
                yield block.number

    def _entry_of(self, block: Block) -> Ledger:
        ledger = Ledger(self.watching)
        if block.number in self.unknown_entries:
            ledger.vm.unknown = ledger.lgkm.unknown = True
        return ledger

    def _solve(self) -> list[Ledger]:
        """Ledgers at block entries, to a fixed point.

        Verifying is a plain union of paths. Inserting, a stricter wait on one path can empty what a looser one left, so the transfer is not
        monotone; after a few visits entries only grow, which ends it and is at worst a wait too strict.
        """
        blocks = self.flow.blocks
        entries = [self._entry_of(block) for block in blocks]
        exits: list[Ledger | None] = [None for _ in blocks]
        visits = [0 for _ in blocks]
        order = list(range(len(blocks)))  # a heap: earlier blocks first
        pending = set(order)
        while order:
            number = heappop(order)
            pending.remove(number)
            block = blocks[number]
            visits[number] += 1
            entry = entries[number].copy() if visits[number] > _SETTLE_ROUNDS else self._entry_of(block)
            for predecessor in block.predecessors:
                left = exits[predecessor]
                if left is not None:
                    entry.merge(left)
            if exits[number] is not None and entry.same(entries[number]):
                continue
            entries[number] = entry
            after = self._run(block, entry.copy(), None)
            before = exits[number]
            if before is None or not after.same(before):
                exits[number] = after
                for successor in block.successors:
                    if successor not in pending:
                        pending.add(successor)
                        heappush(order, successor)
        return entries

    def _run(self, block: Block, ledger: Ledger, visit: Visit | None) -> Ledger:
        """Go through a block; the ledger behind it, its clocks at 0."""
        touches, special = self.touches, self._special
        hot = ledger.hot
        entering = block.number in self.unknown_entries
        for position in range(block.first, block.last + 1):
            if special[position] or touches[position] & hot or entering or position in self.regions:
                self._step(ledger, position, visit, entering)
                hot = ledger.hot
                entering = False
        ledger.forget(self.limits, self.operations)
        return ledger

    def _step(self, ledger: Ledger, position: int, visit: Visit | None, entering: bool = False) -> None:
        operation = self.operations[position]
        need = self.need(ledger, position)
        automatic = self.automatic(position)
        if automatic and entering:
            need = self._entry_need(ledger, position, need)
        if ledger.waited and (self.touches[position] & ledger.waited_mask or operation.fence or operation.barrier or operation.uses):
            self._use(ledger, operation, position)
        early = too_early(ledger, operation, self.operations, 1 + self.program.stagger) if operation.fills or operation.uses else []
        full: list[str] = []
        if visit is not None:
            full = [counter for counter, weight in operation.weight.items()
                    if ledger[counter].outstanding + weight > self.limits[counter]]
            visit(position, ledger, need, early, full)
        if need is not None:
            if automatic:
                for counter, count in need.counts.items():
                    ledger.settle(counter, count, self.operations)
            else:
                # A barrier takes LDS data that is in flight nowhere: nobody knows yet whether it was too early.
                ledger.drop({arrival.producer for arrival in need.because if arrival.producer >= 0 and arrival.kind != "lds"},
                            self.operations)
        for other in early:
            ledger.settled.pop(other.other, None)
        if operation.wait is not None:
            for counter, given in ((VM, operation.wait.vmcnt), (LGKM, operation.wait.lgkmcnt)):
                if given is not None and given < self.limits[counter]:
                    self._pass_wait(ledger, counter, given, position)
        if operation.barrier:
            ledger.barrier(1 + self.program.stagger)
        elif operation.leaves:
            ledger.call()
        elif operation.counters:
            ledger.issue(operation, self.limits, self.operations)

    def _pass_wait(self, ledger: Ledger, counter: str, count: int, position: int) -> None:
        arrived = ledger.settle(counter, count, self.operations, position)
        if self.watching:
            for producer, newer in arrived:
                operation = self.operations[producer]
                # Who waits for a store or for LDS data without a token has a reason that no register shows.
                if not operation.arrives and not operation.fills and not operation.uses:
                    self._justify(position, counter, operation, newer)

    def _justify(self, wait: int, counter: str, operation: Operation, newer: int) -> None:
        count = count_to_wait(operation, newer, counter, self.arch)
        self.needed_by[wait, counter] = min(self.needed_by.get((wait, counter), count), count)

    def _use(self, ledger: Ledger, operation: Operation, position: int) -> None:
        """Waits that stood for what this instruction uses were needed."""
        touches, uses, barrier = self.touches[position], operation.uses, operation.barrier
        fence = operation.fence or barrier and not self.tokens
        used = []
        for key, newer in ledger.waited.items():
            source = self.operations[key[0]]
            if fence or source.arrives & touches or uses and shared(source.fills, uses) or \
                    barrier and (due_at_barrier(source, self.ahead.get(position, (set(), set()))) or _untokened(source)):
                used.append(key)
                self._justify(key[1], key[2], source, newer)
        if used:
            for key in used:
                del ledger.waited[key]
            mask = 0
            for key in ledger.waited:
                mask |= self.operations[key[0]].arrives
            ledger.waited_mask = mask

    def need(self, ledger: Ledger, position: int) -> Need | None:
        """The wait that the instruction at a position needs where this ledger holds before it, or None."""
        if position in self.regions:
            return self._need_at_point(ledger, position)
        operation = self.operations[position]
        touches = self.touches[position]
        vm, lgkm = touches & ledger.vm.mask, touches & ledger.lgkm.mask
        if not (vm or lgkm or operation.barrier or operation.uses or operation.leaves == "return"):
            return None
        found = Need(position)
        for counter, flight, mask in ((VM, ledger.vm, vm), (LGKM, ledger.lgkm, lgkm)):
            if not (mask or operation.barrier or operation.uses or operation.leaves):
                continue
            for producer, birth in flight.births.items():
                source = self.operations[producer]
                kind, what = self._due(source, operation, counter, touches)
                if kind:
                    newer = flight.clock - birth
                    found.add(count_to_wait(source, newer, counter, self.arch), Arrival(producer, counter, newer, what, kind))
            if found.counts.get(counter) and self.partial is not None and self._better_drained(found, counter, flight):
                found.partial[counter] = found.counts[counter]
                if position not in self.partial:
                    found.counts[counter] = 0
        return found if found.counts else None

    def _need_at_point(self, ledger: Ledger, position: int) -> Need | None:
        """What must have arrived at a wait point: all that anything before the next points would wait for."""
        region = self.regions[position]
        found = Need(position)
        for counter in COUNTERS:
            flight = ledger[counter]
            for producer, birth in flight.births.items():
                source = self.operations[producer]
                due = ("register", ", ".join(mask_names(source.arrives))) if source.arrives & region.touches else \
                    next((due for due in (self._due(source, self.operations[other], counter, 0) for other in region.meeting) if due[0]),
                         ("", ""))
                if due[0]:
                    newer = flight.clock - birth
                    found.add(count_to_wait(source, newer, counter, self.arch), Arrival(producer, counter, newer, due[1], due[0]))
        return found if found.counts else None

    def _better_drained(self, need: Need, counter: str, flight: Flight) -> bool:
        """Whether a wait for everything often spares the next one: beside scalar loads, which come in any order, and at a barrier
        where no token names the LDS data, as compilers drain all of it there."""
        return any(arrival.kind == "lds" and arrival.counter == counter for arrival in need.because) or \
            not all(self.operations[producer].ordered for producer in flight.births)

    def _due(self, source: Operation, operation: Operation, counter: str, touches: int) -> tuple[str, str]:
        """Why an operation in flight must have arrived before another one: (kind, what arrives), or ("", "")."""
        if source.arrives & touches:
            alike = source.queue == operation.queue and operation.queue
            if alike and not source.arrives & operation.sources:
                return ("", "") if operation.queue == "vm" else ("lds-order", ", ".join(mask_names(source.arrives)))
            return "register", ", ".join(mask_names(source.arrives))
        if operation.barrier:
            due = due_at_barrier(source, self.ahead.get(operation.position, (set(), set()))) if self.tokens else []
            if due:
                return "token", ", ".join(due)
            return ("lds", "LDS data for other waves") if _untokened(source) else ("", "")
        if operation.uses and counter == VM:
            # The wave's own DMA: LDS operations are in order among themselves, a DMA is not one of them.
            names = shared(source.fills, operation.uses)
            return ("own-dma", ", ".join(names)) if names else ("", "")
        if operation.leaves == "return" and source.lasting:
            return "return", ", ".join(mask_names(source.arrives)) or "LDS data"
        return "", ""

    def _entry_need(self, ledger: Ledger, position: int, need: Need | None) -> Need | None:
        """A callable function waits for whatever its caller left in flight (docs/facts/instructions.md section 4)."""
        found = need or Need(position)
        for counter in COUNTERS:
            if ledger[counter].unknown:
                found.add(0, Arrival(-1, counter, 0, "whatever a caller left in flight", "entry"))
        return found if found.counts else None

    def visit(self, visit: Visit) -> None:
        """Call `visit` for every instruction that touches what is in flight, waits, issues or meets others, in program order."""
        self.needed_by.clear()
        for block in self.flow.blocks:
            self._run(block, self.entries[block.number].copy(), visit)

    def needs(self) -> dict[int, Need]:
        """The need of every instruction that has one."""
        found: dict[int, Need] = {}

        def note(position: int, ledger: Ledger, need: Need | None, early: list[TooEarly], full: list[str]) -> None:
            if need is not None:
                found[position] = need

        self.visit(note)
        return found

    def before(self, position: int) -> Ledger:
        """The ledger right before an instruction. Raises IndexError outside of the program."""
        block = self.flow.blocks[self.flow.block_of[position]]
        ledger = self.entries[block.number].copy()
        for earlier in range(block.first, position):
            self._step(ledger, earlier, None, earlier == block.first and block.number in self.unknown_entries)
        return ledger

    def loops(self) -> list[LoopState]:
        """Each loop's steady state, back-edge against entry."""
        exits = {}
        found = []
        for loop in self.flow.loops():
            head = self.flow.blocks[self.flow.block_of[loop.first]]
            tail = self.flow.block_of[loop.last]
            outer = Ledger(self.watching)
            for number in (*head.predecessors, tail):
                if number not in exits:
                    exits[number] = self._run(self.flow.blocks[number], self.entries[number].copy(), None)
                if number != tail and number not in loop.blocks:
                    outer.merge(exits[number])
            found.append(_compare(loop, outer, exits[tail], self.program))
        return found


def _untokened(source: Operation) -> bool:
    """Whether it fills LDS that no token names."""
    return source.fills_lds and not source.fills


def _compare(loop: Loop, outer: Ledger, back: Ledger, program: Program) -> LoopState:
    """A loop is steady where what is on its way over both edges has as many newer operations behind it: what only one edge brings
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
