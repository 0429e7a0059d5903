"""Lifetimes judged on placed code: whoever reads a register under one lease of the plan reads no value that another owner left there.

A lease is one holding of registers by one name (`regalloc.ranges`); operands carry it. Views of a range are one *family* with it, as they
are the same bits; a share, and whoever holds the registers before or after, is another owner. The plan dates leases by emission
order, which says nothing any more once streams are merged, or around a loop: here the writes that reach a read over all paths decide.

Registers that the hardware fills or that nobody writes are no business of this check, nor are operands without a lease (and registers
written implicitly): they belong to anyone. A write ends what was there before whatever EXEC is, and also where it keeps
a part of the register, so that a half-word load may begin a new value.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from asmgen.isa.operands import Modified
from asmgen.isa.records import dataclass
from asmgen.isa.registers import mask_names
from asmgen.program.controlflow import ControlFlow, control_flow
from asmgen.program.program import Instruction, Program
from asmgen.regalloc.dataflow import solve_masks
from asmgen.regalloc.ranges import OwnedReg, PlanError, Range, short_place

_ANYONE = -1


@dataclass(frozen=True)
class StaleRead:
    """`reader` (a position) reads the registers of `mask` under a lease, where what `writer` wrote under another owner's may still be."""

    reader: int
    writer: int
    mask: int
    read_as: Range
    written_as: Range


class _Access(NamedTuple):
    """Registers of one operand, the family that holds them (or _ANYONE) and the lease itself."""

    mask: int
    family: int
    lease: int


class _Step(NamedTuple):
    """What an instruction reads, then writes, of the registers that matter."""

    position: int
    reads: tuple[_Access, ...]
    writes: tuple[_Access, ...]


def stale_reads(program: Program, ranges: Sequence[Range], flow: ControlFlow | None = None) -> list[StaleRead]:
    """Every read that another owner's value may reach, in program order, one a reader and owner. `ranges` are the plan's, by lease."""
    steps = _contested(_steps(program, _families(ranges)))
    if not steps:
        return []
    flow = flow or control_flow(program)
    by_block: list[list[_Step]] = [[] for _ in flow.blocks]
    for step in steps:
        by_block[flow.block_of[step.position]].append(step)
    families = {family: number for number, family in enumerate(
        sorted({access.family for step in steps for access in step.writes if access.family != _ANYONE}))}
    # Whole bytes a family, so that all of them are cut out of a set in one go.
    size = -(-max(access.mask for step in steps for access in (*step.reads, *step.writes)).bit_length() // 8)
    width = 8 * size
    everyone = sum(1 << number * width for number in families.values())
    adds, ends = [], []
    for block in by_block:
        left: dict[int, int] = {}
        written = 0
        for step in block:
            _pass(step, left)
            written |= _union(step.writes)
        adds.append(sum(mask << families[family] * width for family, mask in left.items()))
        ends.append(everyone * written)
    entering = solve_masks([block.predecessors for block in flow.blocks], [0] * len(flow.blocks), adds, ends).entering
    found = []
    for block, entered in zip(by_block, entering, strict=True):
        text = entered.to_bytes(size * len(families), "little")
        held = {family: mask for family, number in families.items()
                if (mask := int.from_bytes(text[number * size:(number + 1) * size], "little"))}
        shared = _shared(held.values())
        for step in block:
            for read in step.reads:
                if not read.mask & (shared | ~held.get(read.family, 0)):
                    continue  # all of it is the reader's own, and nobody else's
                for family, mask in held.items():
                    if family != read.family and mask & read.mask:
                        writer, written_as = _nearest(steps, flow, step.position, family, mask & read.mask)
                        found.append(StaleRead(step.position, writer, mask & read.mask, ranges[read.lease], ranges[written_as]))
            _pass(step, held, shared)
    return found


def check_leases(program: Program, ranges: Sequence[Range]) -> None:
    """Raises PlanError, at the reader's line, for the first read that another owner's value may reach."""
    for found in stale_reads(program, ranges):
        raise PlanError(sentence(found, program), program.instructions[found.reader].where())


def sentence(found: StaleRead, program: Program) -> str:
    """What is wrong, with both instructions, both names and what would mend it."""
    reader, writer = program.instructions[found.reader], program.instructions[found.writer]
    place = reader.where()
    wrote = short_place(writer.where(), place) if writer.source is not None else writer.where()
    return f"{reader.text} reads {', '.join(mask_names(found.mask))} as {_named(found.read_as, place)}, where it may still find what " \
           f"{writer.text} ({wrote}) wrote as {_named(found.written_as, place)}: write {found.read_as.name!r} first on every path, " \
           f"or declare it a view (plan.view) if it is to read the same bits"


def _named(held: Range, place: str) -> str:
    return f"{held.name!r} ({held.reg}, {short_place(held.taken, place)})"


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


def _steps(program: Program, families: Sequence[int]) -> list[_Step]:
    """Every instruction that reads or writes registers."""
    found = []
    known: dict[int, tuple[tuple[_Access, ...], tuple[_Access, ...]]] = {}  # copies of a step share their instructions
    for position, instruction in enumerate(program.instructions):
        accesses = known.get(id(instruction))
        if accesses is None:
            accesses = known[id(instruction)] = _accesses(instruction, families)
        if accesses[0] or accesses[1]:
            found.append(_Step(position, *accesses))
    return found


def _accesses(instruction: Instruction, families: Sequence[int]) -> tuple[tuple[_Access, ...], tuple[_Access, ...]]:
    """(reads, writes) of one instruction."""
    reads, writes = [], []
    others = instruction.writes
    for place, operand in zip(instruction.form.operands, instruction.operands, strict=True):
        owned = operand.value if isinstance(operand, Modified) else operand
        if isinstance(owned, OwnedReg) and 0 <= owned.lease < len(families):
            access = _Access(owned.mask, families[owned.lease], owned.lease)
            # A load that fills half of a register "reads" the other half: nothing that it computes with.
            if place.reads and not (place.writes and "keep" in instruction.opcode.flags):
                reads.append(access)
            if place.writes:
                writes.append(access)
                others &= ~access.mask
    if others:
        writes.append(_Access(others, _ANYONE, _ANYONE))
    return tuple(reads), tuple(writes)


def _contested(steps: Sequence[_Step]) -> list[_Step]:
    """The steps with those registers alone that some family reads and another one writes."""
    read: dict[int, int] = {}
    written: dict[int, int] = {}
    # By identity, here and below: copies of a step share what is known of their instructions.
    every_read = {id(step.reads): step.reads for step in steps}
    every_write = {id(step.writes): step.writes for step in steps}
    for every, masks in ((every_read, read), (every_write, written)):
        for access in chain.from_iterable(every.values()):
            masks[access.family] = masks.get(access.family, 0) | access.mask
    once = twice = 0  # written by one family at least, by two
    for family, mask in written.items():
        if family != _ANYONE:
            twice |= once & mask
            once |= mask
    contested = 0
    for family, mask in read.items():
        contested |= mask & (twice | once & ~written.get(family, 0))
    cut = {number: _within(accesses, contested) for number, accesses in (every_read | every_write).items()}
    found = []
    for step in steps:
        reads, writes = cut[id(step.reads)], cut[id(step.writes)]
        if reads or writes:
            found.append(_Step(step.position, reads, writes))
    return found


def _within(accesses: Iterable[_Access], mask: int) -> tuple[_Access, ...]:
    return tuple([access if not access.mask & ~mask else _Access(access.mask & mask, access.family, access.lease)
                  for access in accesses if access.mask & mask])


def _pass(step: _Step, held: dict[int, int], shared: int = 0) -> None:
    """What each family's writes have left, behind an instruction; `shared` covers the registers of which several hold something."""
    for access in step.writes:
        if not access.mask & ~held.get(access.family, 0) and not access.mask & shared:
            continue  # what was its own stays its own
        for family, mask in list(held.items()):
            if mask & access.mask:
                left = mask & ~access.mask
                if left:
                    held[family] = left
                else:
                    del held[family]
        if access.family != _ANYONE:
            held[access.family] = held.get(access.family, 0) | access.mask


def _shared(masks: Iterable[int]) -> int:
    """What at least two of the masks have: a write leaves its registers to one family, so behind a block's entry there is no more of it."""
    once = twice = 0
    for mask in masks:
        twice |= once & mask
        once |= mask
    return twice


def _union(accesses: Iterable[_Access]) -> int:
    mask = 0
    for access in accesses:
        mask |= access.mask
    return mask


def _nearest(steps: Sequence[_Step], flow: ControlFlow, reader: int, family: int, mask: int) -> tuple[int, int]:
    """The nearest writer of a family, and its lease, that reaches the reader with some register of `mask`."""
    by_block: dict[int, list[_Step]] = {}
    for step in steps:
        by_block.setdefault(flow.block_of[step.position], []).append(step)
    start = flow.block_of[reader]
    waiting = [(start, mask, reader)]
    seen: dict[int, int] = {}
    while waiting:
        number, left, end = waiting.pop(0)
        for step in reversed(by_block.get(number, [])):
            if step.position < end:
                for access in step.writes:
                    if access.family == family and access.mask & left:
                        return step.position, access.lease
                    left &= ~access.mask
        for predecessor in flow.blocks[number].predecessors if left else ():
            if left & ~seen.get(predecessor, 0):
                seen[predecessor] = seen.get(predecessor, 0) | left
                waiting.append((predecessor, left, len(flow.block_of)))
    raise AssertionError("no write reaches the read that was said to be reached")
