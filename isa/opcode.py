"""The shape of an instruction table's row: what the reader, the builder, the checkers and the emulator all read.

A table (isa/opcodes/*.py) lists a mnemonic with its encoding, operand types and flags; `encodings.expand` derives from
that the *forms*: every way in which the assembler accepts the mnemonic, each with its operand slots in assembly order.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any

from asmgen.isa.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

DWORDS = {"b96": 3, "b128": 4, "b160": 5, "b192": 6, "b256": 8, "b512": 16, "b1024": 32}


def dwords(operand_type: str) -> int:
    """How many registers a value of this type takes: "f32" 1, "u64" 2, "v2f32" 2, "v2f16" 1, "b128" 4, "16f32" (MFMA: 16 x f32) 16."""
    if operand_type in DWORDS:
        return DWORDS[operand_type]
    if operand_type[:1].isdigit():
        count, bits = operand_type.lstrip("0123456789"), operand_type
        number = int(bits[: len(bits) - len(count)])
        return number * (2 if count.endswith("64") else 1)
    if operand_type == "v2f32" or operand_type == "v2b32":
        return 2
    return 2 if operand_type.endswith("64") else 1


@dataclass(frozen=True)
class OperandSpec:
    """One operand slot.

    `accepts` lists what may stand there, a letter each: v VGPR, a AGPR, s scalar register (vcc, exec, m0 too), S scalar
    register without exec and m0, M scalar register without m0, c exactly vcc, i inline constant, l literal, k constant that
    is always encoded as a literal, p special source (src_scc, vccz, ...), o `off`, b branch target, n plain integer
    (`low`..`high`), w s_waitcnt fields, h hwreg, t sendmsg, g gpr_idx; and what may modify it: m -x and |x|, N -x alone,
    x sext(x).
    """

    name: str
    type: str
    width: int
    accepts: str
    reads: bool = True
    writes: bool = False
    low: int = 0
    high: int = 0


@dataclass(frozen=True)
class Form:
    """One way in which a mnemonic is written: an encoding, its operand slots, its modifiers.

    `suffix` is what llvm-objdump prints after the mnemonic. `when` names modifiers and the values that select
    this form (an absent modifier has the value 0 or False). `modifiers` are the legal ones' names. `archs` is empty where the
    form exists wherever its mnemonic does.
    """

    encoding: str
    suffix: str
    operands: tuple[OperandSpec, ...]
    modifiers: frozenset[str] = frozenset()
    when: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    archs: frozenset[str] = frozenset()


@dataclass(frozen=True)
class MemoryUse:
    """What a memory instruction touches: `space` lds, buffer, global, flat, scratch or scalar; `kind` load, store or atomic.

    `bytes` is what one lane (for scalar: the wave) moves; `type` the element as it lies in memory.
    """

    space: str
    kind: str
    bytes: int
    type: str
    returns: bool = False


@dataclass(frozen=True)
class Opcode:
    """One row: everything that asmgen knows of a mnemonic.

    `classes` are the hazard classes (isa/waitrules.py), `reads`/`writes` implicit registers by name (vcc, exec, scc, m0),
    `vmcnt`/`lgkmcnt` what issuing it adds to the wait counters, `group` the instruction-mix group of `asmgen inspect`.
    `flags`: keep (the unwritten half of the destination stays), hi (the upper half is meant), two (two elements at offset0 and
    offset1), st64 (those count 64 elements), tr (transposes), format (converts by the descriptor), compare (half of the data is compared
    with), swap, even (the data register is even), lds_dma (every form loads into LDS).
    """

    name: str
    encoding: str
    forms: tuple[Form, ...]
    archs: frozenset[str]
    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    vmcnt: int = 0
    lgkmcnt: int = 0
    classes: frozenset[str] = frozenset()
    group: str = "other"
    memory: MemoryUse | None = None
    flags: frozenset[str] = field(default_factory=frozenset)

    def __str__(self) -> str:
        return self.name


def is_lds_dma(opcode: Opcode, form: Form) -> bool:
    """Whether this form loads into LDS instead of registers."""
    return "lds_dma" in opcode.flags or ("lds", (True,)) in form.when


def group_of(opcode: Opcode, form: Form) -> str:
    """The instruction-mix group (docs/FORMATS.md section 2) of an opcode in this form."""
    return "lds_dma" if is_lds_dma(opcode, form) else opcode.group


def implicit_reads(opcode: Opcode, form: Form) -> frozenset[str]:
    """Names of registers that are read without being an operand; LDS-DMA reads M0 besides what the opcode always reads."""
    return opcode.reads | {"m0"} if is_lds_dma(opcode, form) else opcode.reads


def reads_destination(form: Form, modifiers: Mapping[str, Any]) -> bool:
    """Whether modifiers make an instruction keep part of its destination register, so that it reads vdst.

    DPP keeps lanes that have no source or that a mask leaves out; SDWA keeps the bytes that dst_sel does not name under
    UNUSED_PRESERVE, the assembler's default; op_sel of a VOP3 destination writes the upper half and keeps the lower.
    """
    if form.encoding == "DPP":
        full = modifiers.get("row_mask", 15) == 15 and modifiers.get("bank_mask", 15) == 15
        return not full or modifiers.get("bound_ctrl") is None
    if form.encoding == "SDWA":
        partial = "dst_sel" in form.modifiers and modifiers.get("dst_sel", "DWORD") != "DWORD"
        return partial and modifiers.get("dst_unused", "UNUSED_PRESERVE") == "UNUSED_PRESERVE"
    if form.encoding == "VOP3" and "op_sel" in form.modifiers:
        selected = modifiers.get("op_sel")
        if not selected:
            return False
        sources = sum(location.reads and not location.writes for location in form.operands)
        return len(selected) > sources and bool(selected[sources])
    return False


def roles(form: Form, modifiers: Mapping[str, Any]) -> tuple[tuple[bool, bool], ...]:
    """(reads, writes) of each operand slot, as the modifiers decide."""
    keeps = reads_destination(form, modifiers)
    return tuple((location.reads or keeps and location.writes, location.writes) for location in form.operands)
