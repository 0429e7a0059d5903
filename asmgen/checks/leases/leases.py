"""Lifetimes judged on placed code: whoever reads a register under one lease of the plan reads no value that another owner left there.

A lease is one holding of registers by one name (`regalloc.ranges`); operands carry it. Views of a range are one *family* with it, as they
are the same bits; a share, and whoever holds the registers before or after, is another owner. The plan dates leases by emission
order, which says nothing any more once streams are merged, or around a loop: here the writes that reach a read over all paths decide.

Registers that the hardware fills or that nobody writes are no business of this check, nor are operands without a lease (and registers
written implicitly): they belong to anyone. A write ends what was there before whatever EXEC is, and also where it keeps
a part of the register, so that a half-word load may begin a new value.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from operator import or_
from typing import NamedTuple

from asmgen.isa.records import dataclass
from asmgen.isa.registers import SCC_BIT, Modified, mask_names
from asmgen.program.controlflow import ControlFlow, control_flow
from asmgen.program.program import Instruction, Program
from asmgen.regalloc.dataflow import solve_masks
from asmgen.regalloc.ranges import OwnedReg, PlanError, Range, short_file

_ANYONE = -1


@dataclass(frozen=True)
class StaleRead:
    """`reader` (a position) reads the registers of `mask` under a lease, where what `writer` wrote under another owner's may still be."""

    reader: int
    writer: int
    mask: int
    read_as: Range
    written_as: Range


_Accesses = tuple[tuple[OwnedReg, ...], tuple[OwnedReg, ...], int]
"""What an instruction reads and writes under leases of the plan, and what else it writes of the plan's registers, as bits."""
_Step = tuple[int, _Accesses]
"""An instruction's position, and that."""


class _Doubt(NamedTuple):
    """A read of which something in its block says no good: by family the registers that others wrote there, and the registers of which
    the way into the block decides."""

    position: int
    read: OwnedReg
    strange: dict[int, int]
    entering: int


def stale_reads(program: Program, ranges: Sequence[Range], flow: ControlFlow | None = None) -> list[StaleRead]:
    """Every read that another owner's value may reach, in program order, one a reader and owner. `ranges` are the plan's, by lease."""
    families = _families(ranges)
    flow = flow or control_flow(program)
    by_block: list[list[_Step]] = [[] for _ in flow.blocks]
    for step in _steps(program, ranges):
        by_block[flow.block_of[step[0]]].append(step)
    walked = [_walk(block, families) for block in by_block]
    wanted = _union(doubt.entering for doubts, _ in walked for doubt in doubts)
    left = [_by_family(owners, wanted) for _, owners in walked]
    numbers = {family: number for number, family in enumerate(sorted({family for masks in left for family in masks if family != _ANYONE}))}
    # Whole bytes a family, so that all of them are cut out of a set in one go.
    size = -(-wanted.bit_length() // 8)
    width = 8 * size
    everyone = sum(1 << number * width for number in numbers.values())
    adds = [sum(mask << numbers[family] * width for family, mask in masks.items() if family != _ANYONE) for masks in left]
    ends = [everyone * _union(masks.values()) for masks in left]
    entering = solve_masks([block.predecessors for block in flow.blocks], [0] * len(flow.blocks), adds, ends).at_entry
    found = []
    for (doubts, _), entered in zip(walked, entering, strict=True):
        text = entered.to_bytes(size * len(numbers), "little") if doubts else b""
        held = {family: mask for family, number in numbers.items()
                if (mask := int.from_bytes(text[number * size:(number + 1) * size], "little"))}
        every, shared = _union(held.values()), _shared(held.values())
        for position, read, strange, open_ in doubts:
            own = families[read.lease]
            if not strange and not open_ & every & (shared | ~held.get(own, 0)):
                continue  # what enters is the reader's own, and nobody else's
            for family in sorted({*strange, *held} - {own}):
                mask = strange.get(family, 0) | held.get(family, 0) & open_
                if mask:
                    writer, written_as = _nearest(by_block, flow, families, position, family, mask)
                    found.append(StaleRead(position, writer, mask, ranges[read.lease], ranges[written_as]))
    return found


def check_leases(program: Program, ranges: Sequence[Range]) -> None:
    """Raises PlanError, at the reader's line, for the first read that another owner's value may reach."""
    for found in stale_reads(program, ranges):
        raise PlanError(sentence(found, program), program.instructions[found.reader].where())


def sentence(found: StaleRead, program: Program) -> str:
    """What is wrong, with both instructions, both names and what would mend it."""
    reader, writer = program.instructions[found.reader], program.instructions[found.writer]
    location = reader.where()
    wrote = short_file(writer.where(), location) if writer.source is not None else writer.where()
    return f"{reader.text} reads {', '.join(mask_names(found.mask))} as {_named(found.read_as, location)}, where it may still find what " \
           f"{writer.text} ({wrote}) wrote as {_named(found.written_as, location)}: write {found.read_as.name!r} first on every path, " \
           f"or declare it a view (plan.view) if it is to read the same bits"


def _named(held: Range, location: str) -> str:
    return f"{held.name!r} ({held.reg}, {short_file(held.taken, location)})"


def _families(ranges: Sequence[Range]) -> list[int]:
    """By lease, the number of its family: a view's is that of all that it looks into."""
    family = list(range(len(ranges)))

    def root(lease: int) -> int:
        while family[lease] != lease:
            lease = family[lease]
        return lease

    for held in ranges:
        if held.kind == "view":
            for parent in held.parents:
                family[root(held.lease)] = root(parent)
    return [root(lease) for lease in range(len(ranges))]


def _steps(program: Program, ranges: Sequence[Range]) -> list[_Step]:
    """Every instruction that reads or writes registers of the plan."""
    planned = _union(held.reg.mask for held in ranges)
    found = []
    known: dict[int, _Accesses] = {}  # copies of a step share their instructions
    for position, instruction in enumerate(program.instructions):
        accesses = known.get(id(instruction))
        if accesses is None:
            accesses = known[id(instruction)] = _accesses(instruction, len(ranges), planned)
        if accesses[0] or accesses[1] or accesses[2]:
            found.append((position, accesses))
    return found


def _accesses(instruction: Instruction, leases: int, planned: int) -> _Accesses:
    """(reads, writes, other writes) of one instruction."""
    reads, writes = [], []
    others = instruction.writes & planned
    for location, operand in zip(instruction.form.operands, instruction.operands, strict=True):
        owned = operand.value if isinstance(operand, Modified) else operand
        if not isinstance(owned, OwnedReg) or not 0 <= owned.lease < leases:
            continue
        # A load that fills half of a register "reads" the other half: nothing that it computes with.
        if location.reads and not (location.writes and "keep" in instruction.opcode.flags):
            reads.append(owned)
        if location.writes:
            writes.append(owned)
            others &= ~owned.mask
    return tuple(reads), tuple(writes), others


def _walk(steps: Iterable[_Step], families: Sequence[int]) -> tuple[list[_Doubt], list[int | None]]:
    """The reads of a block that its own family did not write there, and who wrote each register last (None: nobody in the block)."""
    owners: list[int | None] = [None] * (SCC_BIT + 1)
    doubts = []
    for position, (reads, writes, others) in steps:
        for read in reads:
            end = read.mask.bit_length()
            last = owners[end - read.count:end]
            family = families[read.lease]
            if last.count(family) == read.count:
                continue
            strange: dict[int, int] = {}
            if last.count(None) == read.count:
                doubts.append(_Doubt(position, read, strange, read.mask))
                continue
            entering = 0
            for bit, owner in enumerate(last, end - read.count):
                if owner is None:
                    entering |= 1 << bit
                elif owner not in (family, _ANYONE):
                    strange[owner] = strange.get(owner, 0) | 1 << bit
            if strange or entering:
                doubts.append(_Doubt(position, read, strange, entering))
        for write in writes:
            end = write.mask.bit_length()
            owners[end - write.count:end] = [families[write.lease]] * write.count
        while others:
            low = others & -others
            owners[low.bit_length() - 1] = _ANYONE
            others ^= low
    return doubts, owners


def _by_family(owners: Sequence[int | None], wanted: int) -> dict[int, int]:
    """By family, the wanted registers that it wrote last."""
    found: dict[int, int] = {}
    for bit, owner in enumerate(owners):
        if owner is not None and wanted >> bit & 1:
            found[owner] = found.get(owner, 0) | 1 << bit
    return found


def _shared(masks: Iterable[int]) -> int:
    """What at least two of the masks have."""
    once = twice = 0
    for mask in masks:
        twice |= once & mask
        once |= mask
    return twice


def _union(masks: Iterable[int]) -> int:
    return functools.reduce(or_, masks, 0)


def _nearest(by_block: Sequence[Sequence[_Step]], flow: ControlFlow, families: Sequence[int], reader: int, family: int, mask: int) \
        -> tuple[int, int]:
    """The nearest writer of a family, and its lease, that reaches the reader with some register of `mask`."""
    waiting = [(flow.block_of[reader], mask, reader)]
    seen: dict[int, int] = {}
    while waiting:
        number, left, end = waiting.pop(0)
        for position, (_, writes, others) in reversed(by_block[number]):
            if position < end:
                for write in writes:
                    if families[write.lease] == family and write.mask & left:
                        return position, write.lease
                    left &= ~write.mask
                left &= ~others
        for predecessor in flow.blocks[number].predecessors if left else ():
            if left & ~seen.get(predecessor, 0):
                seen[predecessor] = seen.get(predecessor, 0) | left
                waiting.append((predecessor, left, len(flow.block_of)))
    raise AssertionError("no write reaches the read that was said to be reached")
