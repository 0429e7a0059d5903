"""Random instructions from the table: legal ones of a given form, for tests and for tools that make programs nobody would write."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from asmgen.isa.check import resolve
from asmgen.isa.errors import OperandError
from asmgen.isa.modifiers import DPP_CONTROLS, FLAGS, MASKS, OFFSETS, SELECTORS, UNUSED, VALUES, format_modifiers
from asmgen.isa.opcode import Form, Opcode, OperandSpec
from asmgen.isa.operands import OFF, GprIdx, HwReg, Operand, SendMsg, Special, Symbol, Waitcnt, format_operand
from asmgen.isa.registers import Modified, Reg

SPECIALS = ("src_scc", "src_vccz", "src_execz", "src_shared_base", "src_private_limit")
INLINE = (0, 1, 64, -1, -16, 0.5, -4.0, 1.0)
SCALARS = (Reg("s", 106, 2), Reg("s", 106), Reg("s", 107), Reg("s", 126, 2), Reg("s", 126), Reg("s", 124), Reg("s", 102, 2), Reg("s", 104),
           Reg("s", 108), Reg("s", 110, 2), Reg("s", 112, 4), Reg("s", 123))


@dataclass
class Sample:
    """An instruction to be judged: what `resolve` is given, and the text that the assembler is given."""

    opcode: Opcode
    operands: list[Operand]
    modifiers: dict[str, Any] = field(default_factory=dict)
    suffix: str = ""

    def text(self, suffix: str | None = None) -> str:
        name = self.opcode.name + (self.suffix if suffix is None else suffix)
        return f"{name} {', '.join(format_operand(operand) for operand in self.operands)}{format_modifiers(self.modifiers)}"


def register(rng: random.Random, file: str, width: int) -> Reg:
    """A register range that is aligned as it must be."""
    if file == "s":
        step = 1 if width == 1 else 2 if width == 2 else 4
        if width <= 4 and rng.random() < 0.2:
            fitting = [reg for reg in SCALARS if reg.count == width]
            if fitting:
                return rng.choice(fitting)
        return Reg("s", rng.randrange(0, 102 - width, step), width)
    return Reg(file, rng.randrange(0, 256 - width, 1 if width == 1 else 2), width)


def operand(rng: random.Random, slot: OperandSpec) -> Operand:
    """An operand that may stand in the place by itself."""
    # A number of s_waitcnt with its unused bits set does not survive the disassembler, so the fields stand for it.
    letter = rng.choice([letter for letter in slot.accepts if letter not in "mNx" and not (letter == "n" and "w" in slot.accepts)])
    value: Operand
    if letter in "va":
        value = register(rng, letter, slot.width)
    elif letter in "sSM":
        value = register(rng, "s", slot.width)
        while letter != "s" and value.index in (124, 126, 127) and (letter == "S" or value.index == 124):
            value = register(rng, "s", slot.width)
    elif letter == "c":
        return Reg("s", 106, 2)
    elif letter == "i":
        # A float in a 16-bit integer disassembles as a pattern that the assembler does not take back.
        value = rng.choice(INLINE[:5] if slot.type in ("b16", "u16", "i16") else INLINE)
    elif letter in "lk":
        integer = slot.type in ("b64", "u64", "i64", "b16", "u16", "i16")
        return rng.choice((100, 0x7ABC) if integer else (100, 0x7ABC, 2.5))
    elif letter == "p":
        return Special(rng.choice(SPECIALS))
    elif letter == "o":
        return OFF
    elif letter == "b":
        return Symbol("target") if rng.random() < 0.5 else rng.randrange(0, 1000)
    elif letter == "n":
        return rng.choice((slot.low, slot.high, rng.randint(slot.low, slot.high)))
    elif letter == "w":
        return Waitcnt(rng.choice((None, 0, 17, 62)), rng.choice((None, 0, 6)), rng.choice((0, 3, 14)))
    elif letter == "h":
        return HwReg(rng.choice((1, 2, 20)), rng.randrange(16), rng.randint(1, 16))
    elif letter == "t":
        return SendMsg(1)
    else:
        return GprIdx(rng.randrange(1, 16))
    if isinstance(value, Reg) and rng.random() < 0.3:
        if "m" in slot.accepts:
            return Modified(value, neg=rng.random() < 0.6, abs=rng.random() < 0.5) if rng.random() < 0.8 else Modified(value, abs=True)
        if "N" in slot.accepts:
            return Modified(value, neg=True)
        if "x" in slot.accepts:
            return Modified(value, sext=True)
    return value


def modifier(rng: random.Random, name: str, form: Form) -> Any:
    """A legal value of a modifier in a form."""
    if name in FLAGS:
        return True
    if name == "offset":
        low, high = OFFSETS[form.encoding]
        return rng.choice((low, high, rng.randint(low, high), 16))
    if name in MASKS:
        count = 3 if form.encoding == "MAI" else sum(slot.name.startswith("src") for slot in form.operands)
        if form.encoding == "MAI" and name != "neg":
            return rng.randrange(2), rng.randrange(2), 0
        return tuple(rng.randrange(2) for _ in range(count + (name == "op_sel" and form.encoding == "VOP3")))
    if name == "quad_perm":
        return tuple(rng.randrange(4) for _ in range(4))
    if name == "dst_unused":
        return rng.choice(UNUSED)
    if name.endswith("_sel"):
        return rng.choice(SELECTORS)
    return rng.choice(list(VALUES[name]))


def modifiers(rng: random.Random, form: Form, share: float = 0.3) -> dict[str, Any]:
    """Legal modifiers of a form: those that it needs, and each other with probability `share`."""
    chosen: dict[str, Any] = {}
    bound = {name for name, _ in form.when}
    controls = [name for name in DPP_CONTROLS if name in form.modifiers]
    if controls:
        name = rng.choice(controls)
        chosen[name] = modifier(rng, name, form)
    for name in sorted(form.modifiers - bound - set(DPP_CONTROLS)):
        if rng.random() < share and not (name == "div" and "mul" in chosen or name == "mul" and "div" in chosen):
            chosen[name] = modifier(rng, name, form)
    for name, values in form.when:
        value = rng.choice(values)
        if value is not False:
            chosen[name] = value
    return chosen


def legal(rng: random.Random, opcode: Opcode, form: Form, arch: str, share: float = 0.3) -> Sample:
    """A sample that `resolve` places into just this form."""
    for _ in range(200):
        sample = Sample(opcode, [operand(rng, slot) for slot in form.operands], modifiers(rng, form, share), form.suffix)
        try:
            if resolve(opcode, sample.operands, sample.modifiers, arch, form.suffix) == form:
                return sample
        except OperandError:
            continue
    raise AssertionError(f"no legal sample of {opcode.name}{form.suffix} {form.operands} found")
