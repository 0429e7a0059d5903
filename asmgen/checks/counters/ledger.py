"""What is in flight: the ledger of outstanding memory operations at one point of a program.

Rules (docs/facts/instructions.md section 4): vector memory completes in order, loads and stores in one queue; LDS operations
complete in order among themselves; scalar loads and messages complete in any order; a flat operation counts on both
counters and keeps the order of neither. So an in-order operation has arrived once at most `newer` operations are
outstanding, `newer` being how many in-order operations of its counter were issued since; all others arrive at 0. That holds for an
LDS operation after or before scalar loads too: whatever else is outstanding only adds to the count, so at most `newer`
outstanding operations cannot include it.

A load that overwrites what an older load of the same vector-memory queue will write needs no wait, the two land in order
(measured: si-insert-waitcnts of LLVM 22 leaves global_load over global_load alone, d16 halves too, and waits for ds_read over ds_read).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import field
from functools import cache

from asmgen.isa.arch import Architecture
from asmgen.isa.opcode import is_lds_dma
from asmgen.isa.operands import Waitcnt
from asmgen.isa.records import dataclass
from asmgen.isa.registers import VGPR_COUNT
from asmgen.isa.table import opcode as opcode_row
from asmgen.program.knowncalls import CALLS
from asmgen.program.program import Instruction, Program, TokenUse, operand_mask

VM, LGKM = "vmcnt", "lgkmcnt"
COUNTERS = (VM, LGKM)
MOST_ROUNDS = 3
"""How many earlier executions of one load into LDS are told apart: deeper than any buffering that LDS has room for."""
RETURNS = frozenset({"s_setpc_b64"})
_MARKS = frozenset({"s_waitcnt", "s_barrier"}) | CALLS | RETURNS
"""Instructions without a counter that the ledger has to know."""
_V_FILE = (1 << VGPR_COUNT) - 1
_A_FILE = _V_FILE << VGPR_COUNT


@dataclass(frozen=True)
class Operation:
    """What the ledger must know of one instruction, wherever it stands."""

    counters: tuple[str, ...] = ()  # on which it counts
    weight: dict[str, int] = field(default_factory=dict)  # by how much, on each
    ordered: bool = False
    queue: str = ""  # "vm" or "lds" where it is in order
    arrives: int = 0  # mask of registers that arrive with it
    sources: int = 0  # mask of registers that it reads; what a load only overwrites is not among them
    fills: tuple[TokenUse, ...] = ()
    uses: tuple[TokenUse, ...] = ()
    awaits: tuple[TokenUse, ...] = ()  # what the wave's own LDS-DMA must have filled before: all it uses, and fills out of order with it
    fills_lds: bool = False  # writes LDS (ds_write, LDS-DMA, LDS atomics), with or without a token
    fence: bool = False  # it may be there for the sake of whatever has arrived: a call, a cache operation, a scalar store
    wait: Waitcnt | None = None
    barrier: bool = False
    relied: tuple[TokenUse, ...] = ()  # what waves that go another way read after a barrier
    leaves: str = ""  # "call", "return" or ""

    @classmethod
    def of(cls, instruction: Instruction, reads: int, writes: int) -> Operation:
        """The ledger's view of an instruction that is not plain and reads and writes those registers."""
        opcode = instruction.opcode
        if not (opcode.vmcnt or opcode.lgkmcnt):
            name = opcode.name
            operand = instruction.operands[0] if name == "s_waitcnt" else None
            wait = operand if isinstance(operand, Waitcnt) else Waitcnt.decode(operand) if isinstance(operand, int) else None
            leaves = "call" if name in CALLS else "return" if name in RETURNS else ""
            relied = tuple(use for use in instruction.tokens if use.action == "read") if name == "s_barrier" else ()
            return cls(fence=bool(leaves), wait=wait, barrier=name == "s_barrier", relied=relied, leaves=leaves)
        traits = _traits(opcode.name, is_lds_dma(opcode, instruction.form))
        # The part of a register that a d16 load keeps is read, but not before the load writes.
        sources = reads & ~writes if traits.keeps and not _overlaps(instruction) else reads
        fills = tuple(use for use in instruction.tokens if use.action == "write") if instruction.tokens else ()
        uses = tuple(use for use in instruction.tokens if use.action == "read") if instruction.tokens else ()
        # A write of LDS may overtake a DMA issued before it; another DMA lands after that one (docs/facts/instructions.md section 4).
        awaits = uses if traits.queue == "vm" else uses + fills
        return cls(traits.counters, traits.weight, bool(traits.queue), traits.queue, writes, sources, fills, uses, awaits,
                   traits.fills_lds, "cache" in opcode.classes or opcode.encoding == "SMEM" and not writes)

    @property
    def lasting(self) -> bool:
        """Whether someone may have to wait for it: it brings registers or LDS data, or it reads a buffer that will be refilled."""
        return bool(self.arrives or self.fills or self.uses or self.fills_lds)


Operations = Sequence[Operation] | Mapping[int, Operation]
"""Operations by position: of a whole program, or those alone that are in flight."""
PLAIN = Operation()
"""What all instructions are that the ledger knows by their registers alone."""


def _overlaps(instruction: Instruction) -> bool:
    """Whether a source that it only reads is one of its destinations too."""
    return any(reading and not writing and operand_mask(operand) & instruction.writes
               for _, operand, reading, writing in instruction.accesses)


@dataclass(frozen=True)
class _Traits:
    """What all instructions of a mnemonic share."""

    counters: tuple[str, ...]
    weight: dict[str, int]
    queue: str
    keeps: bool
    fills_lds: bool


@cache
def _traits(name: str, dma: bool) -> _Traits:
    row = opcode_row(name)
    weight = {counter: count for counter, count in ((VM, row.vmcnt), (LGKM, row.lgkmcnt)) if count}
    queue = "" if len(weight) > 1 else "vm" if "vmem" in row.classes else "lds" if "lds" in row.classes else ""
    memory = row.memory
    fills = dma or memory is not None and memory.space == "lds" and memory.kind in ("store", "atomic")
    return _Traits(tuple(weight), weight, queue, "keep" in row.flags, fills)


def split_of(program: Program) -> int | None:
    """From which v# on the AGPRs are named; None where that is not known, or where no a# is named that a v# could meet."""
    return program.accum_offset if program.registers & _A_FILE else None


def unified(mask: int, split: int) -> int:
    """A register mask with v# at and above the split of the unified file renamed to the AGPRs that they are."""
    high = (mask & _V_FILE) >> split
    return mask & ~(high << split) | high << VGPR_COUNT if high else mask


def operation_of(instruction: Instruction) -> Operation:
    """The ledger's view of an instruction."""
    known: Operation | None = instruction.shared.get("operation")
    if known is None:
        known = instruction.shared["operation"] = _operation(instruction, instruction.reads, instruction.writes)
    return known


def _operation(instruction: Instruction, reads: int, writes: int) -> Operation:
    """The ledger's view of an instruction that reads and writes those registers."""
    opcode = instruction.opcode
    if opcode.vmcnt or opcode.lgkmcnt or opcode.name in _MARKS:
        return Operation.of(instruction, reads, writes)
    return PLAIN


def operations_of(program: Program) -> tuple[list[Operation], list[int]]:
    """Every instruction's operation, and the registers that must have arrived before it issues, by position."""
    split = split_of(program)
    operations = [instruction.shared.get("operation") or operation_of(instruction) for instruction in program.instructions]
    if split is None:
        return operations, program.touched
    high, touches = _V_FILE >> split << split, list(program.touched)
    for position, touched in enumerate(program.touched):
        if touched & high:
            instruction = program.instructions[position]
            reads, writes = unified(instruction.reads, split), unified(instruction.writes, split)
            operations[position] = _operation(instruction, reads, writes)
            touches[position] = reads | writes
    return operations, touches


class Flight:
    """One counter: program position -> birth of the operations outstanding on some path.

    `clock` counts in-order issues, so an operation has clock - birth newer ones; merged paths keep the fewest. `mask` holds the
    registers on their way (exact whenever something has settled). `outstanding` is the most that the counter may show,
    `unknown` whether a caller may have left anything in flight. `rounds` holds, for instructions that fill LDS without a token, the
    births of their earlier executions that are outstanding too, newest first: who deletes a wait of a loop lets one more round be there.
    """

    __slots__ = ("births", "clock", "mask", "outstanding", "rounds", "unknown")

    def __init__(self) -> None:
        self.births: dict[int, int] = {}
        self.clock = 0
        self.mask = 0
        self.outstanding = 0
        self.unknown = False
        self.rounds: dict[int, tuple[int, ...]] = {}

    def copy(self) -> Flight:
        """An independent copy whose clock stands at 0."""
        other = Flight()
        other.births, other.clock = dict(self.births), self.clock
        other.mask, other.outstanding, other.unknown = self.mask, self.outstanding, self.unknown
        other.rounds = dict(self.rounds)
        other.rewind()
        return other

    def rewind(self) -> None:
        """Set the clock to 0, births with it."""
        clock = self.clock
        if clock:
            self.births = {position: birth - clock for position, birth in self.births.items()}
            if self.rounds:
                self.rounds = {position: tuple(birth - clock for birth in rounds) for position, rounds in self.rounds.items()}
            self.clock = 0

    def merge(self, other: Flight) -> None:
        """Take in another path; both clocks stand at 0."""
        births = self.births
        for position, birth in other.births.items():
            if births.get(position, birth - 1) < birth:
                births[position] = birth
        for position, rounds in other.rounds.items():
            mine = self.rounds.get(position, ())
            self.rounds[position] = (*map(max, mine, rounds), *mine[len(rounds):], *rounds[len(mine):])
        self.mask |= other.mask
        self.outstanding = max(self.outstanding, other.outstanding)
        self.unknown |= other.unknown

    def same(self, other: Flight) -> bool:
        """Whether the two, both with clocks at 0, say the same."""
        return self.births == other.births and self.outstanding == other.outstanding and self.unknown == other.unknown and \
            self.rounds == other.rounds

    def land_rounds(self, last: int) -> list[tuple[int, int]]:
        """Earlier executions born at `last` or before arrive: (operation, newer) of each."""
        landed = []
        for position, rounds in list(self.rounds.items()):
            left = tuple(birth for birth in rounds if birth > last)
            landed += [(position, self.clock - birth) for birth in rounds[len(left):]]
            if left:
                self.rounds[position] = left
            else:
                del self.rounds[position]
        return landed

    def newer(self, position: int) -> int:
        """How many in-order operations were issued after one that is outstanding."""
        return self.clock - self.births[position]


class Ledger:
    """Both counters; `settled` are token fills and uses waited for: position -> barriers passed since, at most the cap.

    `waited` remembers whose wait let which operation arrive: (operation, wait, counter) -> newer, until somebody uses what
    arrived. It is kept only where `watching`.
    """

    __slots__ = ("lgkm", "settled", "vm", "waited", "waited_mask", "watching")

    def __init__(self, watching: bool = False) -> None:
        self.vm = Flight()
        self.lgkm = Flight()
        self.settled: dict[int, int] = {}
        self.watching = watching
        self.waited: dict[tuple[int, int, str], int] = {}
        self.waited_mask = 0

    def __getitem__(self, counter: str) -> Flight:
        return self.vm if counter == VM else self.lgkm

    @property
    def hot(self) -> int:
        """Registers that an instruction cannot touch without consequence."""
        return self.vm.mask | self.lgkm.mask | self.waited_mask

    def copy(self) -> Ledger:
        """An independent copy whose clocks stand at 0."""
        other = Ledger(self.watching)
        other.vm, other.lgkm = self.vm.copy(), self.lgkm.copy()
        other.settled, other.waited, other.waited_mask = dict(self.settled), dict(self.waited), self.waited_mask
        return other

    def merge(self, other: Ledger) -> None:
        """Take in another path's ledger (clocks at 0): the union, with the smaller figures."""
        self.vm.merge(other.vm)
        self.lgkm.merge(other.lgkm)
        for position, barriers in other.settled.items():
            self.settled[position] = min(self.settled.get(position, barriers), barriers)
        if other.waited:
            for key, newer in other.waited.items():
                self.waited[key] = min(self.waited.get(key, newer), newer)
            self.waited_mask |= other.waited_mask

    def same(self, other: Ledger) -> bool:
        """Whether the two (clocks at 0) say the same."""
        return self.vm.same(other.vm) and self.lgkm.same(other.lgkm) and self.settled == other.settled and self.waited == other.waited

    def in_flight(self) -> list[tuple[int, str, int]]:
        """(position, counter, newer) of everything outstanding, oldest first; an operation once for each of its executions known."""
        found = [(position, counter, flight.clock - birth) for counter, flight in ((VM, self.vm), (LGKM, self.lgkm))
                 for position, newest in flight.births.items() for birth in (newest, *flight.rounds.get(position, ()))]
        return sorted(found, key=lambda entry: (entry[1] != VM, -entry[2], entry[0]))

    def settle(self, counter: str, count: int, operations: Operations, wait: int = -1) -> list[tuple[int, int]]:
        """Pass a wait (at position `wait`) for at most `count` outstanding operations; (operation, newer) of each that arrives.

        An operation of which several executions are outstanding is named for each that arrives.
        """
        flight = self[counter]
        births, clock = flight.births, flight.clock
        earlier = flight.land_rounds(clock - count) if flight.rounds else []
        if count == 0:
            flight.unknown = False
            gone = list(births.items())
        else:
            last = clock - count
            gone = [(position, birth) for position, birth in births.items() if birth <= last and operations[position].ordered]
        flight.outstanding = min(flight.outstanding, count)
        if not gone:
            return earlier
        for position, _ in gone:
            del births[position]
        flight.mask = _arriving(births, operations)
        arrived = [(position, clock - birth) for position, birth in gone]
        for position, newer in arrived:
            operation = operations[position]
            if (operation.fills or operation.uses) and not any(position in self[name].births for name in operation.counters):
                self.settled[position] = 0
            if self.watching and wait >= 0 and operation.lasting:
                self.waited[position, wait, counter] = newer
                self.waited_mask |= operation.arrives
        return arrived + earlier

    def drop(self, positions: Iterable[int], operations: Operations) -> None:
        """Forget operations on both counters, as if their own waits stood here."""
        for flight in (self.vm, self.lgkm):
            for position in positions:
                flight.births.pop(position, None)
                flight.rounds.pop(position, None)
            flight.mask = _arriving(flight.births, operations)
        for position in positions:
            if operations[position].fills or operations[position].uses:
                self.settled[position] = 0

    def only(self, positions: Container[int], operations: Operations) -> Ledger:
        """A copy in which other operations than those are nowhere."""
        other = self.copy()
        for flight in (other.vm, other.lgkm):
            flight.births = {position: birth for position, birth in flight.births.items() if position in positions}
            flight.rounds = {position: rounds for position, rounds in flight.rounds.items() if position in positions}
            flight.mask = _arriving(flight.births, operations)
        other.settled = {position: barriers for position, barriers in other.settled.items() if position in positions}
        other.waited = {key: newer for key, newer in other.waited.items() if key[0] in positions}
        other.waited_mask = _arriving((key[0] for key in other.waited), operations)
        return other

    @property
    def known(self) -> set[int]:
        """The operations of which it says anything."""
        return {*self.vm.births, *self.lgkm.births, *self.settled, *(key[0] for key in self.waited)}

    def enter(self) -> None:
        """Pass a call or a return to code that is known: nothing changes, except that no wait of its for everything is idle."""
        self.vm.unknown = self.lgkm.unknown = True

    def call(self) -> None:
        """Pass a call to unknown code: what was in flight the callee has waited for, what it leaves is not known."""
        for flight in (self.vm, self.lgkm):
            flight.births.clear()
            flight.rounds.clear()
            flight.mask, flight.unknown = 0, True
        self.settled.clear()
        self.waited.clear()
        self.waited_mask = 0

    def issue(self, position: int, limits: dict[str, int], operations: Operations) -> list[str]:
        """Pass the issue of the memory operation at a position (its own waits passed). The counters that may be full and make it stall."""
        full = []
        operation = operations[position]
        for counter, weight in operation.weight.items():
            flight = self.vm if counter == VM else self.lgkm
            births = flight.births
            if operation.ordered:
                flight.clock += 1
                if operation.fills_lds and not operation.fills and position in births:
                    flight.rounds[position] = (births[position], *flight.rounds.get(position, ()))[:MOST_ROUNDS]
            births[position] = flight.clock
            flight.mask |= operation.arrives
            limit = limits[counter]
            if flight.outstanding + weight > limit:
                full.append(counter)
            flight.outstanding = min(flight.outstanding + weight, limit)
            if len(births) > 2 * limit and flight.clock % limit == 0:
                _prune(flight, flight.clock - limit, operations)
        if self.settled:
            self.settled.pop(position, None)
        return full

    def forget(self, limits: dict[str, int], operations: Operations) -> None:
        """Drop what can no longer matter to anybody, so that ledgers stay small over many blocks, and set the clocks to 0."""
        for counter, flight in ((VM, self.vm), (LGKM, self.lgkm)):
            if len(flight.births) > limits[counter]:
                _prune(flight, flight.clock - limits[counter], operations)
            flight.rewind()

    def barrier(self, cap: int) -> None:
        """Pass a barrier: settled operations that have seen `cap` of them are safe and forgotten."""
        if self.settled:
            self.settled = {position: barriers + 1 for position, barriers in self.settled.items() if barriers + 1 < cap}


def _arriving(positions: Iterable[int], operations: Operations) -> int:
    """The registers that arrive with some operations."""
    mask = 0
    for position in positions:
        mask |= operations[position].arrives
    return mask


def _prune(flight: Flight, oldest: int, operations: Operations) -> None:
    """Forget, of what was born at `oldest` or before, what nobody can still wait for: stores, and LDS data without a token where newer
    such data is outstanding, whose wait covers the older."""
    newer_fill = False
    births = flight.births
    for position, birth in sorted(births.items(), key=lambda entry: -entry[1]):
        operation = operations[position]
        waitable = operation.arrives or operation.fills or operation.uses
        if birth <= oldest and not waitable and (newer_fill or not operation.fills_lds):
            del births[position]
            flight.rounds.pop(position, None)
        newer_fill = newer_fill or operation.fills_lds and not operation.fills


def count_to_wait(operation: Operation, newer: int, counter: str, arch: Architecture) -> int:
    """The loosest effective wait after which the operation has arrived; the field's largest value would wait for nothing."""
    return min(newer, limit_of(arch, counter) - 1) if operation.ordered else 0


def limit_of(arch: Architecture, counter: str) -> int:
    """The largest value of a counter: a wait for it waits for nothing, and one more outstanding operation stalls."""
    return arch.vmcnt_max if counter == VM else arch.lgkmcnt_max
