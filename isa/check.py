"""Which form of a mnemonic the given operands make, and why none where they make none.

Sources: docs/facts/instructions.md section 5, and LLVM 22's assembler, against which tests/isa/test_operand_check.py compares every
verdict. Refused here although LLVM takes it: MUBUF offsets beyond 4095 and other immediates that it cuts; A or B of a matrix
instruction overlapping a wide D; what it drops or miscodes (|x| of v_div_scale, modifiers of v_pk_fmac_f16, nt of buffer_wbl2 and
buffer_inv, sc1 of returning f64 atomics with AGPRs, constants as first source of v_cvt_scalef32_sr_pk_fp4_f32, float literals in
16-bit integers and s_setreg_imm32); cbsz and blgp beyond 4 of f8f6f4; sources of another width under DPP; special sources
(src_scc and the like) where a register is written, as an SGPR address and as C of a matrix instruction.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from asmgen.isa.arch import COUNTER_MAX
from asmgen.isa.encodings import element
from asmgen.isa.errors import OperandError
from asmgen.isa.modifiers import DPP_CONTROLS, ZERO_UNSAID, is_set, modifier_fault
from asmgen.isa.opcode import Form, Opcode, OperandSpec
from asmgen.isa.operands import (
    SPECIAL_SOURCES,
    GprIdx,
    HwReg,
    Literal,
    Operand,
    SendMsg,
    Special,
    Symbol,
    Waitcnt,
    float_bits,
    format_operand,
    is_inline,
)
from asmgen.isa.registers import SGPR_COUNT, TTMP_BASE, TTMP_COUNT, Modified, Reg, exec_, m0, vcc

_BUS = frozenset({"VOP1", "VOP2", "VOPC", "VOP3", "VOP3P", "SDWA", "DPP"})
_MEMORY = frozenset({"DS", "MUBUF", "MTBUF", "FLAT", "GLOBAL", "SCRATCH"})
_LONG = frozenset({"VOP3", "VOP3P", "MAI"})
_SHORT = frozenset({"VOP1", "VOP2", "VOPC"})
_NARROW = frozenset({"f16", "bf16", "i16", "u16", "b16"})
_M0, _EXEC_LO, _EXEC_HI, _VCC = m0.index, exec_.index, exec_.index + 1, vcc.index
_WIDE_D = 4  # registers of D up to which the matrix core reads all of A, B and C before it writes

_SLOTS = {"v": "a VGPR", "a": "an AGPR", "s": "a scalar register", "S": "a scalar register other than exec and m0",
           "M": "a scalar register other than m0", "c": "vcc", "i": "an inline constant", "l": "a literal", "k": "a literal",
           "p": "a special source", "o": "off", "b": "a branch target", "w": "counts to wait for", "h": "a hardware register",
           "t": "a message", "g": "gpr_idx"}
_PLURALS = {"v": "VGPRs", "a": "AGPRs", "s": "scalar registers", "S": "scalar registers other than exec and m0",
            "M": "scalar registers other than m0"}


def resolve(opcode: Opcode, operands: Sequence[Operand], modifiers: Mapping[str, Any], arch: str, suffix: str = "") -> Form:
    """The first form, in the assembler's order of preference, that takes these operands and modifiers on `arch`.

    With a suffix ("_e64") only forms of that suffix count. Raises OperandError with what the form that came nearest expects.
    """
    key = _alike(opcode, operands, modifiers, arch, suffix)
    known = _RESOLVED.get(key)
    if known is not None and known[0] is opcode and not (known[1].encoding == "MAI" and _matrix_fault(known[1], operands)):
        return known[1]
    if arch not in opcode.archs:
        raise OperandError(f"{opcode.name} does not exist on {arch}, only on {', '.join(sorted(opcode.archs))}")
    given = modifiers
    if modifiers and not all(is_set(value) for value in modifiers.values()):
        given = {name: value for name, value in modifiers.items() if is_set(value)}
    best: tuple[int, Form | None, str] = (-1_000_000, None, "")
    for form in opcode.forms:
        if suffix and not _has_suffix(form, suffix):
            continue
        score, reason = _fault(opcode, form, operands, given, arch)
        if not reason:
            if key is not None and (form.encoding != "MAI" or best[1] is None):  # else another one might do where nothing overlaps
                if len(_RESOLVED) == _MOST_RESOLVED:
                    _RESOLVED.clear()
                _RESOLVED[key] = opcode, form
            return form
        if score > best[0]:
            best = score, form, reason
    if best[1] is None:
        has = ", ".join(form.suffix or "one without suffix" for form in opcode.forms)
        raise OperandError(f"{opcode.name} has no form {suffix}; its forms are: {has}")
    raise OperandError(f"{opcode.name}{suffix or best[1].suffix if best[1].suffix in ('_dpp', '_sdwa') else suffix}: {best[2]}")


_RESOLVED: dict[Hashable, tuple[Opcode, Form]] = {}
"""The form that took operands like these: a kernel asks for a few hundred kinds of instruction thousands of times."""
_MOST_RESOLVED = 4096


def _alike(opcode: Opcode, operands: Sequence[Operand], modifiers: Mapping[str, Any], arch: str, suffix: str) -> Hashable:
    """What decides the form: of vector registers the file, the count and whether they begin at an even number, of other operands all.

    Of matrix instructions it is not all, as their registers may not overlap. None where something cannot be a key.
    """
    shapes = tuple([(operand.file, operand.count, operand.index & 1) if isinstance(operand, Reg) and operand.file in "va"
                    else (float, repr(operand)) if isinstance(operand, float | Modified)  # 0.0 equals -0.0, and 1 equals 1.0
                    else (type(operand), operand) for operand in operands])
    key = opcode.name, arch, suffix, shapes, tuple([(name, type(value), value) for name, value in modifiers.items()]) if modifiers else ()
    try:
        hash(key)
    except TypeError:
        return None
    return key


def _has_suffix(form: Form, suffix: str) -> bool:
    """A form without suffix answers to the one of its encoding's length, as in the assembler."""
    if form.suffix:
        return form.suffix == suffix
    return suffix == "_e64" and form.encoding in _LONG or suffix == "_e32" and form.encoding in _SHORT


def _fault(opcode: Opcode, form: Form, operands: Sequence[Operand], modifiers: Mapping[str, Any], arch: str) -> tuple[int, str]:
    """(nearness, reason) of a form; the reason is "" where it fits."""
    slots = form.operands
    if form.archs and arch not in form.archs:
        return -40, f"the form that loads into LDS exists on {', '.join(sorted(form.archs))} only, not on {arch}"
    score, reason = 0, ""
    if modifiers:
        score, reason = _modifier_faults(opcode, form, modifiers)
    for name, values in form.when:
        if modifiers.get(name, False) not in values:
            score -= 2 if isinstance(values[0], bool) else 4
            reason = reason or _condition(name, values, modifiers)
    if form.encoding == "DPP" and "DPP" not in reason:
        controls = [name for name in modifiers if name in DPP_CONTROLS]
        if len(controls) != 1:
            score -= 10
            reason = reason or f"a DPP form takes exactly one of {', '.join(DPP_CONTROLS)}, got {', '.join(controls) or 'none'}"
    if len(slots) != len(operands):
        names = ", ".join(slot.name for slot in slots) or "none"
        return score - 100 * abs(len(slots) - len(operands)), f"it takes {len(slots)} operands ({names}), got {len(operands)}"
    for slot, operand in zip(slots, operands, strict=True):
        code = _operand_fault(slot, operand)
        if code:
            score -= 3
            reason = reason or _describe(form, slot, operand, code)
    if not reason:
        reason = _joint_fault(opcode, form, operands)
        score -= bool(reason)
    return score, reason


def _modifier_faults(opcode: Opcode, form: Form, modifiers: Mapping[str, Any]) -> tuple[int, str]:
    score, reason = 0, ""
    for name, value in modifiers.items():
        if name not in form.modifiers:
            if value == 0 and name in ZERO_UNSAID:
                continue
            score -= 10
            reason = reason or f"it has no modifier {name}" + _elsewhere(opcode, name)
            continue
        sources = sum(slot.name[:3] == "src" for slot in form.operands)
        fault = modifier_fault(opcode.name, name, value, form.encoding, sources)
        if fault:
            score -= 2
            reason = reason or fault
    if "mul" in modifiers and "div" in modifiers:
        score, reason = score - 2, reason or "mul and div exclude each other"
    return score, reason


def _elsewhere(opcode: Opcode, name: str) -> str:
    suffixes = sorted({form.suffix for form in opcode.forms if name in form.modifiers and form.suffix})
    return f" in this form; {', '.join(suffixes)} has it" if suffixes else ""


def _condition(name: str, values: tuple[Any, ...], modifiers: Mapping[str, Any]) -> str:
    if values == (True,):
        return f"these operands need the modifier {name}"
    if values == (False,):
        return f"the modifier {name} does not go with these operands"
    return f"operands of these widths need {name} {' or '.join(map(str, values))}, got {modifiers.get(name, 0)}"


def _operand_fault(slot: OperandSpec, operand: Operand) -> str:
    """What keeps an operand from its place, as a word for `_describe`; "" where it fits."""
    if isinstance(operand, Reg):
        return _register_fault(slot, operand)
    kind = type(operand)
    accepts = slot.accepts
    if kind is int or kind is Literal:
        return _integer_fault(slot, operand)  # type: ignore[arg-type]
    if kind is float:
        if "i" in accepts and is_inline(operand, element(slot.type)):  # type: ignore[arg-type]
            return ""
        if ("l" in accepts or "k" in accepts) and _literal_float(operand, element(slot.type)):  # type: ignore[arg-type]
            return ""
        return "literal" if "i" in accepts else "kind"
    if isinstance(operand, Modified):
        return _modified_fault(slot, operand)
    if isinstance(operand, Special):
        if operand.name == "off":
            return "" if "o" in accepts else "kind"
        return "" if "p" in accepts and operand.name in SPECIAL_SOURCES else "kind"
    if isinstance(operand, Symbol):
        return "" if any(letter in accepts for letter in "blkn") else "kind"
    if isinstance(operand, Waitcnt):
        return _waitcnt_fault(operand) if "w" in accepts else "kind"
    if isinstance(operand, HwReg):
        if "h" not in accepts:
            return "kind"
        return "" if operand.number in range(64) and operand.offset in range(32) and operand.size in range(1, 33) else "hwreg"
    if isinstance(operand, SendMsg):
        return "" if "t" in accepts and 0 <= operand.simm16 <= slot.high else "kind"
    if isinstance(operand, GprIdx):
        return "" if "g" in accepts and operand.modes in range(16) else "kind"
    return "type"


def _register_fault(slot: OperandSpec, operand: Reg) -> str:
    accepts, file, index, count = slot.accepts, operand.file, operand.index, operand.count
    if file == "v" or file == "a":
        if file not in accepts:
            return "kind"
        if count != slot.width:
            return "width"
        return "even" if count > 1 and index & 1 else ""
    if file != "s":
        return "kind"
    if "c" in accepts:
        return "" if index == _VCC and count == 2 else "kind"
    if "s" not in accepts:
        if "S" in accepts:
            if index in (_M0, _EXEC_LO, _EXEC_HI):
                return "kind"
        elif "M" not in accepts or index == _M0:
            return "kind"
    if count != slot.width:
        return "width"
    if count > 1 and index & (1 if count == 2 else 3):
        return "even" if count == 2 else "four"
    if index + count > SGPR_COUNT:
        ttmp = index >= TTMP_BASE and index + count <= TTMP_BASE + TTMP_COUNT
        if not ttmp and (count > 2 or index < SGPR_COUNT or index == _M0 + 1 or index + count > _EXEC_HI + 1):
            return "range"
    return ""


def _integer_fault(slot: OperandSpec, value: int) -> str:
    accepts = slot.accepts
    if type(value) is Literal and "l" not in accepts and "k" not in accepts:
        return "literal"
    if "n" in accepts or "b" in accepts:
        return "" if slot.low <= value <= slot.high else "number"
    if "i" in accepts:
        kind = element(slot.type)
        if is_inline(value, kind) or "l" in accepts and _literal_integer(value, kind):
            return ""
        return "literal"
    if "k" in accepts:
        return "" if _literal_integer(value, element(slot.type)) else "literal"
    return "kind"


def _literal_integer(value: int, kind: str) -> bool:
    return -0x8000 <= value <= 0xFFFF if kind in _NARROW else -0x80000000 <= value <= 0xFFFFFFFF


def _literal_float(value: float, kind: str) -> bool:
    """Whether a float has a literal: half precision must hold its magnitude; in 16- and 64-bit integers LLVM encodes 0 or refuses."""
    if kind in ("b64", "u64", "i64", "b16", "u16", "i16"):
        return False
    try:
        struct.pack("<d" if kind == "f64" else "<e" if kind == "f16" else "<f", value)
    except OverflowError:
        return False
    return True


def _modified_fault(slot: OperandSpec, operand: Modified) -> str:
    accepts = slot.accepts
    if operand.sext and ("x" not in accepts or operand.neg or operand.abs):
        return "modifier"
    if (operand.neg or operand.abs) and "m" not in accepts and ("N" not in accepts or operand.abs):
        return "modifier"
    if isinstance(operand.value, Reg):
        return _register_fault(slot, operand.value)
    return "" if "i" in accepts and is_inline(operand.value, element(slot.type)) else "literal" if "i" in accepts else "kind"


def _waitcnt_fault(operand: Waitcnt) -> str:
    given = {name: getattr(operand, name) for name in COUNTER_MAX}
    return "" if all(value is None or 0 <= value <= COUNTER_MAX[name] for name, value in given.items()) else "counts"


def _describe(form: Form, slot: OperandSpec, operand: Operand, code: str) -> str:
    """The sentence of an operand's fault."""
    register = operand.value if isinstance(operand, Modified) else operand
    text = f"{operand!r}" if code == "type" else format_operand(operand)
    if code == "width":
        count = register.count if isinstance(register, Reg) else 0
        return f"{slot.name} expects {slot.width} register{'s' * (slot.width > 1)}, got {text} ({count})"
    expected = {
        "even": "a range that starts at an even register", "four": "a range that starts at a multiple of 4",
        "range": "a range inside s0 to s101 or of one special register", "number": f"a number from {slot.low} to {slot.high}",
        "counts": ", ".join(f"{name} up to {most}" for name, most in COUNTER_MAX.items()),
        "hwreg": "a register number up to 63, first bit up to 31, size 1 to 32",
        "modifier": f"{_expected(slot)} without the modifier",
        "literal": f"{_expected(slot)}: {text} needs a literal which this form cannot hold",
    }.get(code, _expected(slot))
    halves = "; neg_lo= and neg_hi= negate the halves of packed sources" if code == "modifier" and "neg_lo" in form.modifiers else ""
    return f"{slot.name} expects {expected}" + ("" if code == "literal" else f", got {text}{halves}")


def _expected(slot: OperandSpec) -> str:
    """What may stand in a place, in words."""
    words = [f"a number from {slot.low} to {slot.high}"] if "n" in slot.accepts else []
    for letter in slot.accepts:
        word = _SLOTS.get(letter)
        if word is None or word in words:
            continue
        if slot.width > 1 and letter in "vasSM":
            word = f"{slot.width} {_PLURALS[letter]}"
        words.append(word)
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _joint_fault(opcode: Opcode, form: Form, operands: Sequence[Operand]) -> str:
    """What two operands cannot be together."""
    encoding = form.encoding
    if encoding in _BUS:
        return _bus_fault(opcode, form, operands)
    if encoding == "MAI":
        return _matrix_fault(form, operands)
    if encoding in _MEMORY:
        return _data_fault(opcode, form, operands)
    literals = literals_of(form, operands)
    if len(literals) > 1:
        return f"only one literal fits, got {' and '.join(format_operand(value) for value in literals.values())}"
    return ""


def literals_of(form: Form, operands: Sequence[Operand]) -> dict[int | str, Operand]:
    """The distinct literals by their bits (or symbol)."""
    found: dict[int | str, Operand] = {}
    for slot, operand in zip(form.operands, operands, strict=True):
        kind = element(slot.type)
        if isinstance(operand, Symbol):
            if "b" not in slot.accepts:
                found[operand.name] = operand
        elif isinstance(operand, float):
            if "k" in slot.accepts or not is_inline(operand, kind):
                bits = float_bits(operand, kind)
                found[bits >> 32 if kind == "f64" else bits] = operand
        elif isinstance(operand, int) and ("k" in slot.accepts or "l" in slot.accepts and not is_inline(operand, kind)):
            found[operand & (0xFFFF if kind in _NARROW else 0xFFFFFFFF)] = operand
    return found


def _bus_fault(opcode: Opcode, form: Form, operands: Sequence[Operand]) -> str:
    """The constant bus carries one scalar register, special source or literal to a vector instruction."""
    users: dict[object, str] = {}
    for slot, operand in zip(form.operands, operands, strict=True):
        value = operand.value if isinstance(operand, Modified) else operand
        if isinstance(value, Reg):
            # M0 as the lane of v_writelane has a path of its own.
            lane = value.index == _M0 and opcode.name == "v_writelane_b32" and slot.name == "src1"
            if value.file == "s" and slot.reads and not lane:
                users[value.index, value.count] = str(value)
        elif isinstance(value, Special) and value.name != "off":
            users[value.name] = value.name
    if "vcc" in opcode.reads:
        users[_VCC, 2] = "vcc (implicit)"
    for bits, literal in literals_of(form, operands).items():
        users["literal", bits] = format_operand(literal)
    if len(users) <= 1:
        return ""
    return f"a vector instruction reads at most one scalar register or literal, got {' and '.join(users.values())}"


def _matrix_fault(form: Form, operands: Sequence[Operand]) -> str:
    result = operands[0]
    assert isinstance(result, Reg)
    source = operands[3]
    if form.operands[3].width == result.count and isinstance(source, Reg) and form.operands[3].accepts != "v":
        if source.file != result.file:
            return f"vdst and src2 must be in one register file, got {result} and {source}"
        if result.count > _WIDE_D and source != result and source.overlaps(result):
            return f"src2 {source} must be vdst {result} itself or not overlap it"
    if result.count > _WIDE_D:
        for slot, operand in zip(form.operands[1:3], operands[1:3], strict=True):
            # The assembler does not look, but the first passes write D while A and B are still being read.
            if isinstance(operand, Reg) and operand.overlaps(result):
                return f"{slot.name} {operand} must not overlap vdst {result}: a result of more than {_WIDE_D} registers " \
                       "is written while the sources are still read"
    return ""


def _data_fault(opcode: Opcode, form: Form, operands: Sequence[Operand]) -> str:
    data = [(slot, operand) for slot, operand in zip(form.operands, operands, strict=True)
            if "a" in slot.accepts and isinstance(operand, Reg)]
    if "even" in opcode.flags:
        for slot, operand in data:
            if isinstance(operand, Reg) and operand.index & 1:
                return f"{slot.name} expects an even register, got {operand}"
    if len({operand.file for _, operand in data if isinstance(operand, Reg)}) > 1:
        return f"{' and '.join(slot.name for slot, _ in data)} must be in one register file, " \
               f"got {' and '.join(str(operand) for _, operand in data)}"
    return ""
