"""The effects of a unit of code on registers, LDS and memory. Merge and the schedulers use no other source for them.

A *unit* is what merge places as one: an instruction, or a block (one entry, one exit, its own branches, no barrier). Registers are bits of
`Reg.mask`. A block may skip its instructions. So an earlier definition of a register that it writes stays valid.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import NamedTuple

from asmgen.isa.opcode import is_lds_dma
from asmgen.isa.records import cached_property, dataclass
from asmgen.isa.registers import SGPR_BIT, exec_
from asmgen.program.program import Instruction, Item, Label

_VECTOR = (1 << SGPR_BIT) - 1
_FENCES = frozenset({"branch", "barrier", "end", "setreg", "setvskip", "cache", "rfe"})
_IN_PLACE = frozenset({"wait", "nop", "other"})  # instruction-mix groups
_WHOLE = (0, 1 << 32)


@dataclass(frozen=True)
class MemoryAccess:
    """One access of a space ("lds" or "global"): bytes `low` to `high` - 1 if a token names them, else all bytes.

    `part` is the token's name. Two writes that are parts of one fill may be reordered.
    """

    space: str
    write: bool
    low: int = _WHOLE[0]
    high: int = _WHOLE[1]
    part: str = ""

    def conflicts(self, other: MemoryAccess) -> bool:
        """Whether the two may not be reordered. Of global memory `part` is the argument: memory of two arguments is not the same."""
        if self.space != other.space or not (self.write or other.write) or self.low >= other.high or other.low >= self.high:
            return False
        if self.space == "global":
            return not (self.part and other.part) or self.part == other.part
        return not (self.write and other.write and self.part and self.part == other.part and self.low == other.low)


class Tag(NamedTuple):
    """Where an author emitted an item: its stream, block ("" outside of blocks) and stage of the step, and its number in the step.

    `condition` is that of `with t.first:`, `t.later` or `t.masked`, "" without one. `cold` marks items of a cold block
    (`asmgen.author.emit.coldblocks`). `phase` is that of the copy of the step.
    """

    stream: str
    block: str = ""
    stage: int = 0
    ordinal: int = 0
    condition: str = ""
    cold: bool = False
    phase: int = 0

    @property
    def seldom(self) -> bool:
        """Whether a plain copy of the step does not have the item."""
        return self.condition in ("first", "masked")


@dataclass(frozen=True)
class Unit:
    """What merge places as one. `number` counts in emission order; `tag` is the tag of the first item."""

    number: int
    items: tuple[Item, ...]
    tag: Tag

    @property
    def stream(self) -> str:
        """The name of its stream."""
        return self.tag.stream

    @cached_property
    def instructions(self) -> tuple[Instruction, ...]:
        """Its instructions, without labels."""
        return tuple(item for item in self.items if isinstance(item, Instruction))

    @property
    def first(self) -> Instruction:
        """The instruction that errors name."""
        return self.instructions[0]

    @property
    def is_block(self) -> bool:
        """Whether it is more than one instruction."""
        return len(self.items) > 1

    @cached_property
    def effects(self) -> Effects:
        """The effects of all its instructions together. A register that a block may leave as it is counts as read. Instructions before
        its first branch or label always run."""
        if not self.is_block:
            return effects_of(self.first)
        reads = writes = always = 0
        memory: list[MemoryAccess] = []
        straight = True
        for item in self.items:
            straight = straight and isinstance(item, Instruction) and not item.is_branch
            if isinstance(item, Instruction):
                part = effects_of(item)
                reads, writes = reads | part.reads & ~always, writes | part.writes
                always |= part.writes & ~part.masked if straight and not part.keeps else 0
                memory += part.memory
        return Effects(reads | writes & ~always, writes, masked=writes & _VECTOR, keeps=True, memory=tuple(memory))

    def again(self, number: int, tag: Tag) -> Unit:
        """The same code with another number and tag. It keeps the cached properties."""
        made = object.__new__(Unit)
        made.__dict__.update(self.__dict__, number=number, tag=tag)
        return made

    def renamed(self, items: tuple[Item, ...]) -> Unit:
        """The same code with other labels. It keeps its effects."""
        made = Unit(self.number, items, self.tag)
        made.__dict__["effects"] = self.effects
        return made

    def __str__(self) -> str:
        return f"block {self.tag.block!r}" if self.is_block else self.first.text


@dataclass(frozen=True)
class Effects:
    """Registers read and written, as bits.

    `masked`: registers written only in the lanes of EXEC. `keeps`: a part of the written registers keeps its old value. No unit moves
    across a `fence`. No unit of its stream moves across a unit that is `in_place`.
    """

    reads: int
    writes: int
    masked: int = 0
    keeps: bool = False
    memory: tuple[MemoryAccess, ...] = field(default=())
    fence: bool = False
    in_place: bool = False


def effects_of(instruction: Instruction) -> Effects:
    """The effects of one instruction."""
    known: Effects | None = instruction.shared.get("effects")
    if known is None:
        known = instruction.shared["effects"] = _effects(instruction)
    return known


def _effects(instruction: Instruction) -> Effects:
    opcode = instruction.opcode
    classes = opcode.classes
    if classes & _FENCES:
        return Effects(instruction.reads, instruction.writes, fence=True)
    writes = instruction.writes
    masked = writes & _VECTOR if instruction.reads & exec_.mask else 0
    in_place = opcode.group in _IN_PLACE or "getreg" in classes
    return Effects(instruction.reads, writes, masked, bool(masked & instruction.reads), tuple(_memory(instruction)), in_place=in_place)


def depends(later: Unit, earlier: Unit) -> bool:
    """Whether two units may not be reordered: one writes registers or memory that the other reads or writes."""
    one, other = earlier.effects, later.effects
    return bool(one.writes & (other.reads | other.writes) or one.reads & other.writes
                or any(access.conflicts(more) for access in one.memory for more in other.memory))


def _memory(instruction: Instruction) -> Iterable[MemoryAccess]:
    memory = instruction.opcode.memory
    dma = is_lds_dma(instruction.opcode, instruction.form)
    if memory is None and not dma:
        return
    lds = dma or memory is not None and memory.space in ("lds", "flat")
    if lds:
        writes = dma or memory is not None and memory.kind != "load"
        named = [use for use in instruction.tokens if writes or use.action == "read"]
        for use in named:
            yield MemoryAccess("lds", use.action == "write", use.low, use.high, use.name)
        if not named:
            yield MemoryAccess("lds", writes)
    if memory is not None and memory.space not in ("lds", "scalar"):
        yield MemoryAccess("global", memory.kind != "load", part=instruction.argument)


def units_of(items: Sequence[Item], tags: Sequence[Tag]) -> list[Unit]:
    """The units of items in emission order; neighbours of one block are one unit. Raises ValueError for a label outside of a block."""
    found: list[Unit] = []
    first = 0
    while first < len(items):
        tag, end = tags[first], first + 1
        while tag.block and end < len(items) and (tags[end].stream, tags[end].block) == (tag.stream, tag.block):
            end += 1
        item = items[first]
        if not tag.block and not isinstance(item, Instruction):
            raise ValueError(f"{_item_name(item)} stands in a section outside of a block")
        found.append(Unit(len(found), tuple(items[first:end]), tag))
        first = end
    return found


def _item_name(item: Item) -> str:
    return f"label {item.name!r}" if isinstance(item, Label) else type(item).__name__.lower()
