"""What an instruction is to the rows of waitrules.py: its kind, and where its registers of each role stand.

Both follow from its opcode and form, and from a few modifiers and operands (`deciding`): what is found for one instruction holds for all
that agree in these.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from asmgen.isa.opcode import Form, Opcode, OperandSpec, is_lds_dma
from asmgen.isa.opcodes.mfma import MFMA
from asmgen.isa.operands import HwReg, Operand, Special
from asmgen.isa.records import dataclass
from asmgen.isa.registers import NAMED, SGPR_BIT, Modified, Reg
from asmgen.isa.waitrules import (
    BYTE_DESTINATION,
    CARRY_IN,
    MODE_REGISTER,
    NO_OP_SEL,
    NOP_LIMIT,
    PACKED_LOW_DEFAULT,
    SHIFTED_ALWAYS,
    TRAPSTS_REGISTER,
    VSKIP_BIT,
    WIDE_DATA,
)

VECTOR_FILE = (1 << SGPR_BIT) - 1
"""Mask of every VGPR and AGPR."""
_EXEC, _VCC, _M0 = NAMED["exec"].mask, NAMED["vcc"].mask, NAMED["m0"].mask
_ZERO_FLAGS = {"src_vccz": _VCC, "src_execz": _EXEC}
_SCALAR_CLASSES = frozenset({"sendmsg", "ttracedata"})
_SCALAR_FILES = frozenset("sSMc")
"""Letters of OperandSpec.accepts that stand for scalar registers."""
_DECIDING_MODIFIERS = {"VOP3": ("op_sel",), "SDWA": ("dst_sel",), "VOP3P": ("op_sel_hi",), "MAI": ("cbsz", "blgp"), "DS": ("gds",)}
"""By encoding."""


class Subject(Protocol):
    """What the model looks at; asmgen.program.program.Instruction is one."""

    @property
    def opcode(self) -> Opcode: ...
    @property
    def form(self) -> Form: ...
    @property
    def operands(self) -> tuple[Operand, ...]: ...
    @property
    def modifiers(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True)
class Kind:
    """What the choice of rows depends on, besides registers: classes, matrix kind, passes and opcode, opcode and encoding of a dot
    product."""

    classes: frozenset[str]
    matrix: str
    passes: int
    dot: tuple[str, str] | None
    mnemonic: str = ""
    """Of a matrix instruction."""


class Role(NamedTuple):
    """The registers of one role: what `count` makes of each operand at `places`, and `always`."""

    slots: tuple[int, ...]
    count: Callable[[Operand], int]
    always: int = 0


Parts = Mapping[str, Role]
"""The registers of an instruction by role, without roles that it does not have."""
NOTHING = Kind(frozenset(), "", 0, None)
"""What no row is about."""


@dataclass(frozen=True)
class Deciding:
    """Which modifiers and operands decide, besides the form, what an instruction is to the rows."""

    form: Form
    modifiers: tuple[str, ...]
    slots: tuple[int, ...]

    def key(self, instruction: Subject) -> tuple[Hashable, ...]:
        """Equal for two instructions of the form that are the same to the rows, but for their registers."""
        key: tuple[Hashable, ...] = (id(self.form),)
        if self.modifiers:
            key += tuple([instruction.modifiers.get(name) for name in self.modifiers])
        if self.slots:
            key += tuple([_decisive(instruction.operands[slot]) for slot in self.slots])
        return key


def deciding(opcode: Opcode, form: Form) -> Deciding:
    """What `describe` and `states_of` look at besides opcode and form."""
    scalar = opcode.name.startswith("s_")
    slots = _slots(form, lambda slot: opcode.name == "s_nop" or slot.name == "soffset" or "h" in slot.accepts
                     or scalar and slot.writes)
    modifiers = tuple(name for name in _DECIDING_MODIFIERS.get(form.encoding, ()) if name in form.modifiers)
    return Deciding(form, modifiers, slots)


def _decisive(operand: Operand) -> Hashable:
    """What decides of an operand: whether it is a register, and M0; anything else as a whole."""
    if isinstance(operand, Reg):
        return "m0" if operand.mask & _M0 else "register"
    return operand


def describe(arch: str, instruction: Subject) -> tuple[Kind, Parts]:
    """Kind and register roles of an instruction."""
    opcode, form, modifiers, operands = instruction.opcode, instruction.form, instruction.modifiers, instruction.operands
    if "mfma" in opcode.classes:
        return _matrix(arch, opcode, form, modifiers)
    if opcode.name.startswith("v_"):
        return _vector(opcode, form, modifiers)
    if not opcode.name.startswith("s_"):
        return _memory(opcode, form, modifiers, operands)
    if opcode.encoding not in ("SMEM", "SOPP") or opcode.classes & _SCALAR_CLASSES:
        return _scalar(opcode, form, operands)
    return NOTHING, {}


def states_of(instruction: Subject) -> int:
    """How many wait states an instruction is itself."""
    if instruction.opcode.name != "s_nop":
        return 1
    count = instruction.operands[0]
    return (count & NOP_LIMIT - 1) + 1 if isinstance(count, int) else 1


def _slots(form: Form, wanted: Callable[[OperandSpec], object]) -> tuple[int, ...]:
    """The numbers of the operand slots that are wanted."""
    return tuple(number for number, slot in enumerate(form.operands) if wanted(slot))


def _mask(operand: Operand) -> int:
    """The registers that an operand names, without those after special sources."""
    if isinstance(operand, Reg):
        return operand.mask
    if isinstance(operand, Modified) and isinstance(operand.value, Reg):
        return operand.value.mask
    return 0


def _vector_mask(operand: Operand) -> int:
    return _mask(operand) & VECTOR_FILE


def _scalar_mask(operand: Operand) -> int:
    return _mask(operand) & ~VECTOR_FILE


def _whole_vcc(operand: Operand) -> int:
    return _VCC if _mask(operand) & _VCC else 0


def _zero_flag(operand: Operand) -> int:
    return _ZERO_FLAGS.get(operand.name, 0) if isinstance(operand, Special) else 0


def _hwreg(operand: Operand) -> HwReg:
    return operand if isinstance(operand, HwReg) else HwReg.decode(operand) if isinstance(operand, int) else HwReg(0)


def _hwreg_bit(operand: Operand) -> int:
    """Hardware registers are no registers of a file: a bit a number serves."""
    return 1 << _hwreg(operand).number


def _implicit(names: Iterable[str]) -> int:
    mask = 0
    for name in names:
        mask |= NAMED[name].mask
    return mask


def _matrix(arch: str, opcode: Opcode, form: Form, modifiers: Mapping[str, Any]) -> tuple[Kind, Parts]:
    row = MFMA[opcode.name]
    passes = row.passes_on(arch, int(modifiers.get("cbsz") or 0), int(modifiers.get("blgp") or 0))
    classes = {"mfma", "vector", "vector_or_dma", "not_trans", row.kind}
    if row.kind == "dgemm":
        classes.add("dgemm4" if row.m == 4 else "dgemm16")
    elif passes == 2:
        classes.add("two_pass")
    if row.kind != "xdl":
        classes.add("sdgemm")
    # D, A, B and C come first; a sparse one accumulates in D and has its index in the place of C.
    slots = tuple(range(len(form.operands)))
    accumulator = 0 if row.sparse else 3
    others = tuple(slot for slot in slots[1:] if slot != accumulator)
    inputs = (accumulator, *others)
    return Kind(frozenset(classes), row.kind, passes, None, opcode.name), {
        "write": Role((0,), _mask), "srcc": Role((accumulator,), _mask), "srcab": Role(others, _mask),
        "inputs": Role(inputs, _mask), "read": Role(inputs, _mask), "result": Role((0,), _mask), "touch": Role(slots, _mask),
        "exec": Role((), _mask, _EXEC),
    }


def _vector(opcode: Opcode, form: Form, modifiers: Mapping[str, Any]) -> tuple[Kind, Parts]:
    name, table = opcode.name, opcode.classes
    classes = {"valu", "vector", "vector_or_dma"}
    classes.add("trans" if "trans" in table else "not_trans")
    classes.add("dot" if "dot" in table else "valu_no_dot")
    lane_access = "readlane" in table or "writelane" in table
    if lane_access:
        classes.add("lane_access")
    if "readlane" in table:
        classes.add("read_lane")
    for ours, theirs in (("fma_f64", "fma64"), ("permlane_swap", "permlane_swap"), ("div_fmas", "div_fmas")):
        if theirs in table:
            classes.add(ours)
    if form.encoding == "DPP":
        classes.add("dpp")
    if name == "v_fma_mixhi_f16":
        classes.add("mixhi")
    if "partial_dst" in table and name.startswith("v_cvt_"):
        classes.add("part_convert")
    if _shifted(opcode, form, modifiers):
        classes.add("shifted")
    if form.encoding == "VOP3P" and not name.startswith(NO_OP_SEL):
        high = modifiers.get("op_sel_hi")
        if high[0] if high else not name.startswith(PACKED_LOW_DEFAULT):
            classes.add("packed_default")
    # What a partial write keeps of its destination (SDWA, op_sel) is no read to any row: overwriting is what they name.
    outputs, inputs = _slots(form, lambda slot: slot.writes), _slots(form, lambda slot: slot.reads)
    carry = _slots(form, lambda slot: slot.reads and (slot.name == "vcc" or slot.name == "src2" and name in CARRY_IN))
    lane = _slots(form, lambda slot: lane_access and slot.reads and slot.name == "src1")
    constant = tuple(number for number in inputs if number not in carry)
    written, carried = _implicit(opcode.writes), _VCC if "vcc" in opcode.reads else 0
    if written or any(_SCALAR_FILES.intersection(form.operands[number].accepts) for number in outputs):
        classes.add("valu_scalar")
    # The destination of DPP is a source as well: lanes that get nothing keep the old value.
    read = inputs + outputs if "dpp" in classes else inputs
    parts = {"write": Role(outputs, _mask, written), "read": Role(read, _vector_mask), "touch": Role(inputs + outputs, _vector_mask),
             "result": Role(outputs, _vector_mask),
             "constant": Role(constant, _scalar_mask), "carry": Role(carry, _scalar_mask, carried), "lane": Role(lane, _scalar_mask),
             "vcc": Role(inputs, _whole_vcc, carried), "zero_flag": Role(inputs, _zero_flag), "exec": Role((), _mask, _EXEC)}
    if "read_lane" in classes:
        parts["source"] = Role(read, _vector_mask)
    if "dpp" in classes:
        parts["dpp"] = Role(read, _vector_mask)
        parts["dpp_source"] = Role(_slots(form, lambda slot: slot.name == "src0"), _vector_mask)
    if "dot" in table:
        parts["srcab"] = Role(_slots(form, lambda slot: slot.name in ("src0", "src1")), _vector_mask)
        parts["srcc"] = Role(_slots(form, lambda slot: slot.reads and (slot.name == "src2" or slot.writes)), _vector_mask)
    dot = (name, form.encoding) if "dot" in table else None
    return Kind(frozenset(classes), "", 0, dot), parts


def _shifted(opcode: Opcode, form: Form, modifiers: Mapping[str, Any]) -> bool:
    """Whether the result goes to another place in the register than the unit makes it in."""
    if form.encoding == "SDWA":
        return "dst_sel" in form.modifiers and modifiers.get("dst_sel", "DWORD") != "DWORD"
    if form.encoding != "VOP3" or "op_sel" not in form.modifiers:
        return False
    if opcode.name.startswith(SHIFTED_ALWAYS):
        return True
    select = tuple(modifiers.get("op_sel") or ())
    if opcode.name.startswith(BYTE_DESTINATION):
        return any(select[2:])
    sources = sum(slot.name.startswith("src") for slot in form.operands)
    return any(select[sources:sources + 1])


def _scalar(opcode: Opcode, form: Form, operands: Sequence[Operand]) -> tuple[Kind, Parts]:
    table = opcode.classes
    outputs, hardware = _slots(form, lambda slot: slot.writes), _slots(form, lambda slot: "h" in slot.accepts)
    written = _implicit(opcode.writes)
    parts = {"write": Role(outputs, _mask, written), "hwreg": Role(hardware, _hwreg_bit)}
    classes: set[str] = {name for name in ("setreg", "getreg", "rfe", "setvskip") if name in table}
    for register in (_hwreg(operands[number]) for number in hardware):
        whole = register.offset == 0 and register.size == 32
        if "setreg" in table and register.number == MODE_REGISTER and not whole \
                and register.offset <= VSKIP_BIT < register.offset + register.size:
            classes.add("setreg_vskip")
    if any(mask & _M0 for mask in (written, *(_mask(operands[number]) for number in outputs))):
        classes.add("salu")
    if "setvskip" in table:
        parts["mode"] = Role((), _mask, 1 << MODE_REGISTER)
    if "rfe" in table:
        parts["trapsts"] = Role((), _mask, 1 << TRAPSTS_REGISTER)
    if table & {"sendmsg", "ttracedata", "movrel"}:
        classes.add("m0_reader")
        parts["m0"] = Role((), _mask, _M0)
    return (Kind(frozenset(classes), "", 0, None), parts) if classes else (NOTHING, {})


def _memory(opcode: Opcode, form: Form, modifiers: Mapping[str, Any], operands: Sequence[Operand]) -> tuple[Kind, Parts]:
    outputs, inputs = _slots(form, lambda slot: slot.writes), _slots(form, lambda slot: slot.reads)
    stores = opcode.memory is not None and opcode.memory.kind in ("store", "atomic")
    data = _slots(form, lambda slot: stores and slot.reads and slot.name == "vdata" and slot.width > WIDE_DATA)
    classes = {"memory"}
    parts = {"write": Role(outputs, _mask), "read": Role(inputs, _vector_mask), "scalar": Role(inputs, _scalar_mask),
             "data": Role(data, _mask), "touch": Role(inputs + outputs, _vector_mask)}
    if opcode.encoding != "DS":
        classes.add("vmem")
        parts["exec"] = Role((), _mask, _EXEC)
    if outputs:
        classes.add("load")
    if data:
        soffset = any(_mask(operands[number]) for number in _slots(form, lambda slot: slot.name == "soffset"))
        classes.add("wide_store_soffset" if soffset else "wide_store")
    dma = is_lds_dma(opcode, form)
    if dma:
        classes |= {"lds_dma", "vector_or_dma"}
    if dma or opcode.classes & {"m0_lds", "gws"} or modifiers.get("gds"):
        classes.add("buffer_dma" if dma and opcode.encoding == "MUBUF" else "m0_reader")
        parts["m0"] = Role((), _mask, _M0)
    return Kind(frozenset(classes), "", 0, None), parts
