"""Program: the one intermediate form of placed code, written by the builder and the reader, read by everything else.

A Program never changes: a pass takes one and returns another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from functools import cache
from typing import Any

from asmgen.isa.modifiers import format_modifiers
from asmgen.isa.opcode import Form, Opcode, OperandSpec, implicit_reads, reads_destination, roles
from asmgen.isa.operands import SPECIAL_SOURCES, Operand, Special, Symbol, format_operand
from asmgen.isa.records import cached_property, dataclass
from asmgen.isa.registers import NAMED, Modified, Reg

IMPLICIT_MASKS = {name: reg.mask for name, reg in NAMED.items()}


@dataclass(frozen=True)
class SourceLine:
    """Where an author wrote an instruction: his Python or assembly file."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class TokenUse:
    """What an instruction does to a token: `action` "write" fills LDS bytes low..high-1 of that name, "read" reads them."""

    action: str
    name: str
    low: int
    high: int

    def __str__(self) -> str:
        return f"lds {self.action} {self.name} {self.low:#x}:{self.high:#x}"


@dataclass(frozen=True)
class Label:
    """A place in the code that branches name."""

    name: str
    source: SourceLine | None = None


@dataclass(frozen=True)
class Align:
    """Padding with s_nop up to a multiple of `bytes` (a power of two) from the kernel's start."""

    bytes: int


@dataclass(frozen=True)
class Region:
    """Here a named part of the kernel begins: a column of the register map, a heading in the text."""

    name: str


class _MaskProperty:
    """Instruction.reads or .writes: the mask of every register read or written, implicit ones (exec, vcc, scc, m0) too.

    AGPRs stand at bit 256 and above. Every analysis asks for both, so the first question computes and keeps the two.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, instruction: Instruction, owner: type[Instruction]) -> int:
        reads, writes = _named(implicit_reads(instruction.opcode, instruction.form)), _named(instruction.opcode.writes)
        keeps = reads_destination(instruction.form, instruction.modifiers)
        for location, operand in zip(instruction.form.operands, instruction.operands, strict=True):
            mask = operand.mask if isinstance(operand, Reg) else 0 if isinstance(operand, int) else operand_mask(operand)
            if location.writes:
                writes |= mask
                if keeps or location.reads:
                    reads |= mask
            elif location.reads:
                reads |= mask
        kept = instruction.__dict__
        kept["reads"], kept["writes"] = reads, writes
        return reads if self.name == "reads" else writes


class _Shared:
    """Instruction.shared: what analyses remember of an instruction's text, one dictionary for all places where a reader met the text or a
    pipeline put a copy."""

    def __get__(self, instruction: Instruction, owner: type[Instruction]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        instruction.__dict__["shared"] = made
        return made


@dataclass(frozen=True)
class Instruction:
    """One placed instruction.

    `operands` stand in the order of `form.operands`; registers carry the lease under which the author holds them. Its origin: `source`
    is the author's line, `helper` the line of another file that the author called and that wrote it, `operations` the chain of tile
    operations that emitted it, `reason` why a pass inserted it ("" where the author wrote it); `comment` is the author's. `address` is
    its byte offset in the text section, where it was read from a code object.
    `waits` is the mode of the block that it was written in: auto, verify, off, or "" for the kernel's. `argument` names the memory that it
    accesses, where its author said it: an argument of the kernel, or those that may share memory.
    """

    opcode: Opcode
    form: Form
    operands: tuple[Operand, ...]
    modifiers: Mapping[str, Any] = field(default_factory=dict)
    suffix: str = ""
    source: SourceLine | None = None
    reason: str = ""
    comment: str = ""
    tokens: tuple[TokenUse, ...] = ()
    address: int | None = None
    size: int = 0
    waits: str = ""
    helper: SourceLine | None = None
    operations: tuple[str, ...] = ()
    argument: str = ""

    @property
    def name(self) -> str:
        """The ISA mnemonic, without encoding suffix."""
        return self.opcode.name

    @cached_property
    def text(self) -> str:
        """The instruction as the assembler reads it, without comments."""
        operands = ", ".join(format_operand(operand) for operand in self.operands)
        return f"{self.opcode.name}{self.suffix}{' ' if operands else ''}{operands}{format_modifiers(self.modifiers)}"

    def __str__(self) -> str:
        return self.text

    def in_mode(self, waits: str) -> Instruction:
        """The same instruction in a block of that mode; what was computed of it is not computed again, nor what is for all its copies."""
        made = object.__new__(Instruction)
        made.__dict__.update(self.__dict__, waits=waits, shared=self.shared, text=self.text)
        return made

    @property
    def inserted(self) -> bool:
        """Whether a pass put it there."""
        return bool(self.reason)

    @cached_property
    def accesses(self) -> tuple[tuple[OperandSpec, Operand, bool, bool], ...]:
        """(place, operand, reads, writes) of each operand, as this instruction's modifiers decide."""
        return tuple((spec, operand, *role) for spec, operand, role in
                     zip(self.form.operands, self.operands, roles(self.form, self.modifiers), strict=True))

    @cached_property
    def read_registers(self) -> tuple[Reg, ...]:
        """Explicit source registers, whatever modifiers they carry."""
        return tuple(reg for _, operand, reads, _ in self.accesses if reads for reg in _registers(operand))

    @cached_property
    def written_registers(self) -> tuple[Reg, ...]:
        """Explicit destination registers."""
        return tuple(reg for _, operand, _, writes in self.accesses if writes for reg in _registers(operand))

    reads = _MaskProperty("reads")
    writes = _MaskProperty("writes")
    shared = _Shared()

    @property
    def target(self) -> str | None:
        """The label that a branch names."""
        if not self.is_branch:
            return None
        for location, operand in enumerate(self.operands):
            if isinstance(operand, Symbol) and "b" in self.form.operands[location].accepts:
                return operand.name
        return None

    @property
    def is_branch(self) -> bool:
        """Whether it may continue elsewhere than after itself."""
        return "branch" in self.opcode.classes

    @property
    def ends_block(self) -> bool:
        """Whether nothing flows from it to the next instruction."""
        return self.name in NO_FALL_THROUGH

    def placed(self, source: SourceLine | None, address: int | None, size: int) -> Instruction:
        """The same instruction at another place, with all that is known of it already: readers meet most texts many times."""
        other = object.__new__(Instruction)
        kept = self.__dict__.copy()
        kept["source"], kept["address"], kept["size"] = source, address, size
        object.__setattr__(other, "__dict__", kept)
        return other

    def where(self) -> str:
        """Its author's line (and the helper's, where another file wrote it), its address, or "" when neither is known."""
        if self.source is not None:
            return f"{self.source} (by {self.helper})" if self.helper is not None else str(self.source)
        return f"address {self.address:#x}" if self.address is not None else ""


NO_FALL_THROUGH = frozenset({"s_endpgm", "s_endpgm_saved", "s_branch", "s_setpc_b64", "s_rfe_b64"})
"""Instructions after which control never falls through."""


def _registers(operand: Operand) -> tuple[Reg, ...]:
    if isinstance(operand, Modified):
        operand = operand.value
    if isinstance(operand, Reg):
        return (operand,)
    if isinstance(operand, Special):
        reg = SPECIAL_SOURCES.get(operand.name) or (NAMED["scc"] if operand.name == "src_scc" else None)
        return (reg,) if reg is not None else ()
    return ()


def operand_mask(operand: Operand) -> int:
    """The registers of an operand, be it one with modifiers or a special source."""
    mask = 0
    for reg in _registers(operand):
        mask |= reg.mask
    return mask


@cache
def _named(names: frozenset[str]) -> int:
    """The mask of registers by name."""
    mask = 0
    for name in names:
        mask |= IMPLICIT_MASKS.get(name, 0)
    return mask


Item = Instruction | Label | Align | Region


@dataclass(frozen=True)
class Program:
    """An ordered list of instructions and labels for one architecture.

    `stagger` is the number of barriers by which waves of a workgroup may run out of phase (docs/ARCHITECTURE.md section 4).
    `accum_offset` is where the unified register file is split, if known. `entry` is the label at which waves begin, ""
    for the first instruction: with preloaded kernel arguments the hardware starts after the compatibility entry. `roles` are labels
    at which code for some of a workgroup's waves each begins; barriers of one role meet those of the others in order. `workitem_dims` says
    how much of the packed work-item number v0 holds: 0 for x alone, 1 for y too, 2 for all, which is also taken where nothing says so.
    From the label `guessed` on stand functions that are part of it only because a call goes to an address that is not known.
    """

    name: str
    arch: str
    items: tuple[Item, ...]
    stagger: int = 0
    accum_offset: int | None = None
    entry: str = ""
    roles: tuple[str, ...] = ()
    workitem_dims: int = 2
    guessed: str = ""

    @cached_property
    def instructions(self) -> tuple[Instruction, ...]:
        """The instructions alone, in order: positions everywhere are indices into this tuple."""
        return tuple([item for item in self.items if isinstance(item, Instruction)])

    @cached_property
    def touched(self) -> list[int]:
        """The mask of the registers that each instruction reads or writes, by position."""
        return [instruction.reads | instruction.writes for instruction in self.instructions]

    @cached_property
    def registers(self) -> int:
        """The mask of every register that is read or written somewhere."""
        mask = 0
        for touched in self.touched:
            mask |= touched
        return mask

    @cached_property
    def labels(self) -> dict[str, int]:
        """The position of the instruction that each label stands before (or the number of instructions, at the end)."""
        positions: dict[str, int] = {}
        position = 0
        for item in self.items:
            if isinstance(item, Label):
                positions[item.name] = position
            elif isinstance(item, Instruction):
                position += 1
        return positions

    def with_items(self, items: Iterable[Item]) -> Program:
        """The same program with other contents."""
        return replace(self, items=tuple(items))

    def __len__(self) -> int:
        return len(self.instructions)

    def __iter__(self) -> Iterator[Item]:
        return iter(self.items)
