"""The step of one instruction through a ledger of what is in flight: the wait that it needs, what arrives, what it issues.

Insertion, verification and explanation (`flow`) walk over a finished program with it, the frontier of a program that is being written
(`checks.frontier`) instruction by instruction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import lru_cache

from asmgen.checks.counters.ledger import COUNTERS, LGKM, PLAIN, VM, Flight, Ledger, Operation, Operations, count_to_wait, limit_of
from asmgen.checks.counters.points import WaitSpan
from asmgen.checks.counters.tokens import Ahead, TooEarly, due_at_barrier, shared, too_early
from asmgen.isa.arch import Architecture
from asmgen.isa.records import dataclass
from asmgen.isa.registers import mask_names


@dataclass(frozen=True)
class Arrival:
    """One operation that must have arrived: `newer` in-order operations were issued after it, `what` arrives.

    `kind` is "register" (read or overwritten), "lds-order" (an LDS load overwritten by another one, in order anyway),
    "own-dma" (the wave's own LDS-DMA), "own-write" (the wave's own LDS read or write, before a DMA of the same bytes), "token" (other
    waves' data at a barrier), "lds" (LDS data without a token at a barrier), "entry" (whatever a caller left in flight) or "return".
    """

    producer: int
    counter: str
    newer: int
    what: str
    kind: str


@dataclass
class WaitNeed:
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

    def without(self, kind: str, steps: WaitSteps) -> WaitNeed | None:
        """The need without arrivals of a kind, None where nothing is left."""
        left = WaitNeed(self.position)
        for arrival in self.because:
            if arrival.kind != kind:
                left.add(count_to_wait(steps.operations[arrival.producer], arrival.newer, arrival.counter, steps.arch), arrival)
        return left if left.counts else None


_STAYING = ("lds", "own-dma", "own-write")
Visit = Callable[[int, Ledger, "WaitNeed | None", list[TooEarly], list[str]], None]
"""What a walk hears at each instruction that is not plain: position, ledger before it, its need, tokens too early, full counters."""


class WaitSteps:
    """Passing instructions by a ledger, each by its position in `operations` and `touches`.

    `automatic` says at which positions needed waits count as standing. `ahead` has the tokens that are reached after each barrier,
    `regions` what is due at each wait slot. `watching` also keeps whose wait let what arrive. `partial` as in `flow.WaitFlow`.
    """

    def __init__(self, arch: Architecture, stagger: int, operations: Operations, touches: Sequence[int] | Mapping[int, int],
                 automatic: Callable[[int], bool], watching: bool = False, partial: frozenset[int] | None = None) -> None:
        self.arch = arch
        self.stagger = stagger
        self.operations = operations
        self.touches = touches
        self.automatic = automatic
        self.watching = watching
        self.partial = partial
        self.limits = {counter: limit_of(arch, counter) for counter in COUNTERS}
        self.ahead: Ahead = {}
        self.regions: Mapping[int, WaitSpan] = {}
        self.tokens = False
        self.followed: frozenset[int] = frozenset()  # calls and returns whose other side is known
        self.leftover: Mapping[int, frozenset[int]] = {}  # by return that is followed: what may not be in flight there all the same
        self.needed_by: dict[tuple[int, str], int] = {}
        self._at_barrier: dict[tuple[int, int], list[str]] = {}

    def step(self, ledger: Ledger, position: int, visit: Visit | None, entering: bool = False) -> WaitNeed | None:
        """Pass the instruction at a position; the wait that it needs before it."""
        operation = self.operations[position]
        if operation is PLAIN and not entering and position not in self.regions \
                and not self.touches[position] & (ledger.vm.mask | ledger.lgkm.mask):
            if self.touches[position] & ledger.waited_mask:
                self._use(ledger, operation, position, visit is not None)
            if visit is not None:
                visit(position, ledger, None, [], [])
            return None
        need = self.need(ledger, position)
        automatic = self.automatic(position)
        if automatic and entering:
            need = self._entry_need(ledger, position, need)
        meets = operation.fence or operation.barrier or operation.awaits or operation.fills
        if ledger.waited and (meets or self.touches[position] & ledger.waited_mask):
            self._use(ledger, operation, position, visit is not None)
        early = too_early(ledger, operation, self.operations, 1 + self.stagger) if operation.fills or operation.uses else []
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
                # A barrier takes LDS data that is in flight nowhere: nobody knows yet whether it was too early. Nor does what meets the
                # wave's own bytes: whether they were waited for other waves must know all the same. What a function leaves in flight may
                # be a mistake for its known callers too.
                ledger.drop({arrival.producer for arrival in need.because if arrival.producer >= 0 and arrival.kind not in _STAYING
                             and not (arrival.kind == "return" and position in self.followed)}, self.operations)
        for other in early:
            ledger.settled.pop(other.other, None)
        if operation.wait is not None:
            for counter, given in ((VM, operation.wait.vmcnt), (LGKM, operation.wait.lgkmcnt)):
                if given is not None and given < self.limits[counter]:
                    self._pass_wait(ledger, counter, given, position, visit is not None)
        if operation.barrier:
            ledger.barrier(1 + self.stagger)
        elif position in self.followed:
            ledger.enter()
        elif operation.leaves:
            ledger.call()
        elif operation.counters:
            ledger.issue(position, self.limits, self.operations)
        return need

    def _pass_wait(self, ledger: Ledger, counter: str, count: int, position: int, noting: bool) -> None:
        arrived = ledger.settle(counter, count, self.operations, position)
        if self.watching and noting:
            for producer, newer in arrived:
                operation = self.operations[producer]
                # Who waits for a store or for LDS data without a token has a reason that no register shows.
                if not operation.arrives and not operation.fills and not operation.uses:
                    self._justify(position, counter, operation, newer)

    def _justify(self, wait: int, counter: str, operation: Operation, newer: int) -> None:
        count = count_to_wait(operation, newer, counter, self.arch)
        self.needed_by[wait, counter] = min(self.needed_by.get((wait, counter), count), count)

    def _use(self, ledger: Ledger, operation: Operation, position: int, noting: bool) -> None:
        """Waits that stood for what this instruction uses were needed; `noting` keeps which."""
        touches, barrier = self.touches[position], operation.barrier
        awaits = operation.awaits + operation.fills if operation.queue == "vm" else operation.awaits
        fence = operation.fence or barrier and not self.tokens
        used = []
        for key, newer in ledger.waited.items():
            source = self.operations[key[0]]
            if fence or source.arrives & touches or awaits and shared(source.fills + source.uses, awaits) or \
                    barrier and (self._due_tokens(key[0], position) or untokened(source)):
                used.append(key)
                if noting:
                    self._justify(key[1], key[2], source, newer)
        if used:
            for key in used:
                del ledger.waited[key]
            mask = 0
            for key in ledger.waited:
                mask |= self.operations[key[0]].arrives
            ledger.waited_mask = mask

    def need(self, ledger: Ledger, position: int) -> WaitNeed | None:
        """The wait that the instruction at a position needs where this ledger holds before it, or None."""
        if position in self.regions:
            return self._need_at_point(ledger, position)
        operation = self.operations[position]
        touches = self.touches[position]
        vm, lgkm = touches & ledger.vm.mask, touches & ledger.lgkm.mask
        loads = operation.queue == "vm" and operation.fills  # a load into LDS
        if not (vm or lgkm or operation.barrier or operation.awaits or loads or operation.leaves == "return"):
            return None
        found = WaitNeed(position)
        for counter, flight, mask in ((VM, ledger.vm, vm), (LGKM, ledger.lgkm, lgkm)):
            if not (mask or operation.barrier or (operation.awaits if counter == VM else loads) or operation.leaves):
                continue  # LDS operations are in order among themselves, and so are loads into LDS
            for producer, birth in flight.births.items():
                source = self.operations[producer]
                kind, what = self._due(producer, position, counter, touches)
                if kind:
                    newer = flight.clock - birth
                    found.add(count_to_wait(source, newer, counter, self.arch), Arrival(producer, counter, newer, what, kind))
            if found.counts.get(counter) and self.partial is not None and self._better_drained(found, counter, flight):
                found.partial[counter] = found.counts[counter]
                if position not in self.partial:
                    found.counts[counter] = 0
        return found if found.counts else None

    def _need_at_point(self, ledger: Ledger, position: int) -> WaitNeed | None:
        """What must have arrived at a wait slot: all that anything before the next points would wait for."""
        region = self.regions[position]
        found = WaitNeed(position)
        for counter in COUNTERS:
            flight = ledger[counter]
            for producer, birth in flight.births.items():
                source = self.operations[producer]
                touches, meeting = (region.lds_touches, region.lds_meeting) if source.queue == "lds" else (region.touches, region.meeting)
                due = ("register", _named(source.arrives)) if source.arrives & touches else \
                    next((due for due in (self._due(producer, other, counter, 0) for other in meeting) if due[0]), ("", ""))
                if due[0]:
                    newer = flight.clock - birth
                    found.add(count_to_wait(source, newer, counter, self.arch), Arrival(producer, counter, newer, due[1], due[0]))
        return found if found.counts else None

    def _better_drained(self, need: WaitNeed, counter: str, flight: Flight) -> bool:
        """Whether a wait for everything often spares the next one: beside scalar loads, which come in any order, and at a barrier
        where no token names the LDS data, as compilers drain all of it there."""
        return any(arrival.kind == "lds" and arrival.counter == counter for arrival in need.because) or \
            not all(self.operations[producer].ordered for producer in flight.births)

    def _due(self, producer: int, position: int, counter: str, touches: int) -> tuple[str, str]:
        """Why an operation in flight must have arrived before the one at a position: (kind, what arrives), or ("", "")."""
        source, operation = self.operations[producer], self.operations[position]
        if source.arrives & touches:
            alike = source.queue == operation.queue and operation.queue
            if alike and not source.arrives & operation.sources:
                return ("", "") if operation.queue == "vm" else ("lds-order", _named(source.arrives))
            return "register", _named(source.arrives)
        if operation.barrier:
            due = self._due_tokens(producer, position) if self.tokens else []
            if due:
                return "token", ", ".join(due)
            return ("lds", "LDS data for other waves") if untokened(source) else ("", "")
        if operation.awaits and counter == VM:
            # The wave's own DMA: LDS operations are in order among themselves, a DMA is not one of them.
            names = shared(source.fills, operation.awaits)
            return ("own-dma", ", ".join(names)) if names else ("", "")
        if counter == LGKM and operation.queue == "vm" and operation.fills and (source.fills or source.uses):
            names = shared(source.fills + source.uses, operation.fills)
            return ("own-write", ", ".join(names)) if names else ("", "")
        if operation.leaves == "return" and source.lasting and producer in self.leftover.get(position, (producer,)):
            return "return", _named(source.arrives) or "LDS data"
        return "", ""

    def _due_tokens(self, producer: int, barrier: int) -> list[str]:
        """`_due_at_barrier`: walks ask for the same ones again and again."""
        source = self.operations[producer]
        if barrier not in self.ahead or not (source.fills or source.uses):
            return []
        found = self._at_barrier.get((producer, barrier))
        if found is None:
            found = self._at_barrier[producer, barrier] = self._due_at_barrier(producer, barrier)
        return found

    def _due_at_barrier(self, producer: int, barrier: int) -> list[str]:
        return due_at_barrier(self.operations[producer], self.ahead[barrier])

    def _entry_need(self, ledger: Ledger, position: int, need: WaitNeed | None) -> WaitNeed | None:
        """A callable function waits for whatever its caller left in flight (docs/facts/instructions.md section 4)."""
        found = need or WaitNeed(position)
        for counter in COUNTERS:
            if ledger[counter].unknown:
                found.add(0, Arrival(-1, counter, 0, "whatever a caller left in flight", "entry"))
        return found if found.counts else None


@lru_cache(maxsize=1024)
def _named(mask: int) -> str:
    """Registers by name: walks ask for the same ones again and again."""
    return ", ".join(mask_names(mask))


def untokened(source: Operation) -> bool:
    """Whether it fills LDS that no token names."""
    return source.fills_lds and not source.fills
