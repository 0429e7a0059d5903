"""What stands after a mnemonic, read by the grammar isa/assembly.lark: typed operands and modifiers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedInput, UnexpectedToken, VisitError

from asmgen.isa.arch import COUNTER_MAX
from asmgen.isa.errors import AsmgenError
from asmgen.isa.modifiers import FLAGS, parse_format, parse_swizzle
from asmgen.isa.operands import (
    GPR_IDX_NAMES,
    HWREG_NAMES,
    MESSAGE_NAMES,
    OFF,
    SPECIAL_SOURCES,
    GprIdx,
    HwReg,
    Literal,
    Operand,
    SendMsg,
    Special,
    Symbol,
    Waitcnt,
)
from asmgen.isa.registers import AGPR_COUNT, NAMED, SGPR_COUNT, TTMP_BASE, TTMP_COUNT, VGPR_COUNT, Modified, Reg

MAX_OPERAND_TEXT = 2000
"""Characters: more than any instruction has, few enough that no line can keep the parser busy for long."""

# First register and number of registers that a prefix names (source: LLVM 22's parser; acc is its other spelling of a).
_FILES = {"v": ("v", 0, VGPR_COUNT), "a": ("a", 0, AGPR_COUNT), "acc": ("a", 0, AGPR_COUNT), "s": ("s", 0, SGPR_COUNT),
          "ttmp": ("s", TTMP_BASE, TTMP_COUNT)}
# A register, a range, or a list of registers in brackets.
_REGISTERS = re.compile(r"(?<![\w.$@])(?:(?:ttmp|acc|[vas])(?:\d+(?![\w.$@])|\[[ \t]*\d+[ \t]*(?::[ \t]*\d+[ \t]*)?\])"
                        r"|\[[ \t]*(?:ttmp|acc|[vas])\d+(?:[ \t]*,[ \t]*(?:ttmp|acc|[vas])\d+)*[ \t]*\])", re.ASCII)
_REGISTER = re.compile(r"([a-z]+)\[?\s*(\d+)(?:\s*:\s*(\d+))?", re.ASCII)
_HOLE = "%"
# INT, KEY INT and lit(INT) of the grammar.
_NUMBER_WORD = re.compile(r"(?:(?P<key>[a-z][a-z0-9_]*:)|(?P<literal>lit\())?"
                          r"(?P<number>-?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|[0-9]+))(?(literal)\))", re.ASCII)
_MOST_KEPT = 1 << 14
"""How many words and shapes an OperandTextReader remembers."""
_HWREG_NUMBERS = {name: number for number, name in HWREG_NAMES.items()}
# Messages with operations (source: LLVM 22's names for the gfx9 family).
_MESSAGES = {name: number for number, name in MESSAGE_NAMES.items()} | {"MSG_GS": 2, "MSG_GS_DONE": 3, "MSG_SYSMSG": 15}
_OPERATIONS = {"GS_OP_NOP": 0, "GS_OP_CUT": 1, "GS_OP_EMIT": 2, "GS_OP_EMIT_CUT": 3, "SYSMSG_OP_ECC_ERR_INTERRUPT": 1,
               "SYSMSG_OP_REG_RD": 2, "SYSMSG_OP_TTRACE_PC": 4}
_SPECIAL_ALIASES = {"vccz": "src_vccz", "execz": "src_execz", "shared_base": "src_shared_base", "shared_limit": "src_shared_limit",
                    "private_base": "src_private_base", "private_limit": "src_private_limit",
                    "pops_exiting_wave_id": "src_pops_exiting_wave_id", "scc": "src_scc"}
# The other names of registers (LLVM 22).
_REGISTER_ALIASES = {"src_flat_scratch_lo": "flat_scratch_lo", "src_flat_scratch_hi": "flat_scratch_hi"}
_EMPTY = Reg("", 0, 0)  # stands for a register that is filled in later
_KEPT_AS_TEXT = frozenset({"dst_sel", "src0_sel", "src1_sel", "dst_unused"})


class SyntaxFault(AsmgenError):
    """Text that the grammar does not have; `column` counts characters from 0 in what was given."""

    def __init__(self, sentence: str, column: int = 0) -> None:
        super().__init__(sentence)
        self.column = column


@dataclass(frozen=True)
class OperandText:
    """Operands and modifiers in the order of the text."""

    operands: tuple[Operand, ...] = ()
    modifiers: Mapping[str, Any] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    """Flags that the text says are not set: `nont`."""


@dataclass(frozen=True)
class _Setting:
    """A modifier on its way into OperandText.modifiers."""

    name: str
    value: Any


@dataclass(frozen=True)
class _Counter:
    """One field of an s_waitcnt."""

    name: str
    value: int | None


class OperandTextReader:
    """Reads operand texts, remembering the last words and shapes that it met."""

    def __init__(self) -> None:
        self._shapes: dict[str, _Shape] = {}
        self._words: dict[str, OperandText | None] = {}

    def read(self, text: str) -> OperandText:
        """Operands and modifiers of one instruction, without its mnemonic and comments.

        Raises SyntaxFault for what the grammar does not have and for registers, messages and the like that do not exist.

        >>> OperandTextReader().read("v0, -|v1|, 1.0 clamp").operands[0]
        Reg(file='v', index=0, count=1)
        """
        if len(text) > MAX_OPERAND_TEXT:
            raise SyntaxFault(f"an instruction of {len(text)} characters; {MAX_OPERAND_TEXT} are the most")
        return self._joined(text) or self._parsed(text)

    def _joined(self, text: str) -> OperandText | None:
        """The operand text as its words one by one, where each of them stands for itself; None where the grammar must see the whole.

        The grammar has an operand text as a row of items with a comma or nothing between, so words that are items each make it up.
        """
        operands: tuple[Operand, ...] = ()
        modifiers: dict[str, Any] = {}
        words = self._words
        for part in text.split(", "):
            items = [word for word in part.split(" ") if word]
            if not items:
                return None  # nothing at all, or a comma too many
            for word in items:
                try:
                    listed = words[word]
                except KeyError:
                    listed = self._remember(word)
                if listed is None:
                    return None
                if listed.modifiers:
                    for name in listed.modifiers:
                        if name in modifiers:
                            return None
                    modifiers.update(listed.modifiers)
                operands += listed.operands
        return OperandText(operands, modifiers)

    def _remember(self, word: str) -> OperandText | None:
        """What a word is by itself; None for a part of something larger, for counters, which belong together, for faults, for nothing."""
        try:
            listed: OperandText | None = _number_word(word) or self._parsed(word)
        except SyntaxFault:
            listed = None
        if listed == OperandText() or listed is not None and any(isinstance(operand, Waitcnt) for operand in listed.operands):
            listed = None
        if len(self._words) >= _MOST_KEPT:
            self._words.clear()
        self._words[word] = listed
        return listed

    def _parsed(self, text: str) -> OperandText:
        key = _REGISTERS.sub(_HOLE, text)
        shape = self._shapes.get(key)
        if shape is None:
            if len(self._shapes) >= _MOST_KEPT:
                self._shapes.clear()
            shape = self._shapes[key] = _shape(text, key)
        if not shape.holes:
            return shape.listed
        registers = [register(name) for name in _REGISTERS.findall(text)]
        if shape.plain:
            return OperandText(tuple(registers), shape.listed.modifiers, shape.listed.unset)
        operands = list(shape.listed.operands)
        for position, found in zip(shape.holes, registers, strict=True):
            template = operands[position]
            operands[position] = replace(template, value=found) if isinstance(template, Modified) else found
        return OperandText(tuple(operands), shape.listed.modifiers, shape.listed.unset)


@dataclass(frozen=True)
class _Shape:
    """An operand text whose registers are still to be filled in, at the operand positions `holes`; `plain` where it has nothing else."""

    listed: OperandText
    holes: tuple[int, ...]
    plain: bool


def _number_word(word: str) -> OperandText | None:
    """A number, a modifier with a number or a literal, which come with any number: what the grammar's rules make of them."""
    match = _NUMBER_WORD.fullmatch(word)
    if match is None:
        return None
    value = _integer(match["number"])
    if match["key"]:
        return OperandText((), {match["key"][:-1]: value})
    return OperandText((_lit((value,)) if match["literal"] else value,))


def _shape(text: str, key: str) -> _Shape:
    if _HOLE in text:
        raise SyntaxFault(f"{_HOLE!r} is not expected", text.index(_HOLE))
    if not key:
        return _Shape(OperandText(), (), False)
    try:
        listed = _parser().parse(key)
    except VisitError as error:
        if isinstance(error.orig_exc, SyntaxFault):
            raise error.orig_exc from None
        raise SyntaxFault("its operands cannot be read") from error
    except UnexpectedInput as error:
        ended = isinstance(error, UnexpectedToken) and error.token.type == "$END"
        at = len(text) if ended else _column(text, key, error)
        raise SyntaxFault(f"{text[at:at + 20]!r} is not expected" if at < len(text) else "the operands end too early", at) from None
    assert isinstance(listed, OperandText)
    holes = tuple(position for position, operand in enumerate(listed.operands)
                  if operand is _EMPTY or isinstance(operand, Modified) and operand.value is _EMPTY)
    if len(holes) != key.count(_HOLE):
        raise SyntaxFault("it has a register where none can stand")
    return _Shape(listed, holes, all(operand is _EMPTY for operand in listed.operands))


def _column(text: str, key: str, error: UnexpectedInput) -> int:
    """Where in the text the parser stopped: registers are one character of the key, and more of the text."""
    at = error.pos_in_stream if isinstance(error.pos_in_stream, int) and error.pos_in_stream >= 0 else len(key)
    matches = list(_REGISTERS.finditer(text))
    before = key.count(_HOLE, 0, at)
    if not before:
        return at
    return matches[before - 1].end() + at - key.rindex(_HOLE, 0, at) - 1


@cache
def _parser() -> Lark:
    grammar = Path(__file__).with_name("assembly.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", lexer="contextual", transformer=_Reader(), maybe_placeholders=False)


class _Reader(Transformer[Token, OperandText]):
    """Rules of the grammar to values."""

    def start(self, items: list[Any]) -> OperandText:
        operands: list[Operand] = []
        modifiers: dict[str, Any] = {}
        counters: dict[str, int | None] = {}
        for item in items:
            if type(item) is _Setting:
                if item.name in modifiers:
                    raise SyntaxFault(f"the modifier {item.name} stands twice")
                modifiers[item.name] = item.value
            elif type(item) is _Counter:
                counters[item.name] = item.value
            else:
                operands.append(item)
        if counters:
            operands.append(Waitcnt(**counters))
        unset = tuple(name for name, value in modifiers.items() if value is False)
        for name in unset:
            del modifiers[name]
        return OperandText(tuple(operands), modifiers, unset)

    def register(self, items: list[Token]) -> Reg:
        return _EMPTY

    def name(self, items: list[Token]) -> Operand | _Setting:
        return _named(str(items[0]))

    def integer(self, items: list[Token]) -> int:
        return _integer(str(items[0]))

    def number(self, items: list[Token]) -> float:
        value = float(items[0])
        if math.isinf(value):
            raise SyntaxFault(f"{items[0]} is beyond all floats")
        return value

    def expression(self, items: list[Token]) -> Symbol:
        return Symbol(str(items[0]))

    def string(self, items: list[Token]) -> str:
        return str(items[0])[1:-1]

    def negative(self, items: list[Any]) -> Operand:
        value = items[0]
        if isinstance(value, int | float):
            if str(value).startswith("-"):  # "--4.0": the assembler computes one of the signs and codes the other
                raise SyntaxFault(f"-{value} has two signs")
            return -value
        return _modified(value, neg=True)

    def absolute(self, items: list[Any]) -> Modified:
        return _modified(items[0], abs=True)

    def negative_absolute(self, items: list[Any]) -> Modified:
        return _modified(items[0], neg=True, abs=True)

    def number_modifier(self, items: list[Token]) -> _Setting:
        return _Setting(str(items[0][:-1]), _integer(str(items[1])))

    def word_modifier(self, items: list[Token]) -> _Setting:
        name, value = str(items[0][:-1]), str(items[1])
        if name not in _KEPT_AS_TEXT and name != "format":
            raise SyntaxFault(f"{name} has a number, not {value}")
        return _Setting(name, _buffer_format(value) if name == "format" else value)

    def list_modifier(self, items: list[Token]) -> _Setting:
        name = str(items[0][:-1])
        if name == "format":
            return _Setting(name, _buffer_format(f"[{','.join(items[1:])}]"))
        return _Setting(name, tuple(_integer(str(item)) for item in items[1:]))

    def call_modifier(self, items: list[Any]) -> _Setting:
        key, function, *arguments = items
        if (key, function) != ("offset:", "swizzle("):
            raise SyntaxFault(f"{key}{function}...) is no modifier")
        return _Setting("offset", _swizzle(arguments))

    def call(self, items: list[Any]) -> Operand | _Counter:
        function, *arguments = items
        name = function[:-1]
        counter = name.removesuffix("_sat")
        if counter in COUNTER_MAX:
            (value,), most = _numbers(name, arguments, 1), COUNTER_MAX[counter]
            if name == counter and value > most:
                raise SyntaxFault(f"{name} counts up to {most}, got {value}")
            # A count at the field's limit waits for nothing; it is kept where it was written, so that lint can say so.
            return _Counter(counter, value if name == counter or value < most else None)
        made = _CALLS.get(name)
        if made is None:
            raise SyntaxFault(f"{name}(...) is no operand; known are {', '.join([*COUNTER_MAX, *_CALLS])}")
        return made(arguments)


@lru_cache(1 << 14)
def register(text: str) -> Reg:
    """The register or range that "v[0:3]", "s4", "ttmp[2:3]" or "[v4, v5]" names. Raises SyntaxFault where there is none."""
    parts = [_range(part) for part in text.strip("[] \t").split(",")] if text.startswith("[") else [_range(text)]
    first = parts[0]
    if any(part != Reg(first.file, first.index + number) for number, part in enumerate(parts)) and len(parts) > 1:
        raise SyntaxFault(f"{text} is no list of consecutive registers")
    return Reg(first.file, first.index, len(parts)) if len(parts) > 1 else first


def _range(text: str) -> Reg:
    match = _REGISTER.match(text.strip())
    assert match is not None
    file, base, size = _FILES[match[1]]
    # More digits than any register has would only cost time.
    first = int(match[2][:6])
    last = first if match[3] is None else int(match[3][:6])
    if not first <= last < size:
        raise SyntaxFault(f"{text} is outside of {match[1]}0 to {match[1]}{size - 1}")
    return Reg(file, base + first, last - first + 1)


@lru_cache(1 << 12)
def _named(text: str) -> Operand | _Setting:
    if text in FLAGS:
        return _Setting(text, True)
    if text.startswith("no") and text[2:] in FLAGS:
        return _Setting(text[2:], False)
    if text == "off":
        return OFF
    special = _SPECIAL_ALIASES.get(text, text)
    if special in SPECIAL_SOURCES:
        return Special(special)
    return NAMED.get(_REGISTER_ALIASES.get(text, text)) or Symbol(text)


@lru_cache(1 << 14)
def _integer(text: str) -> int:
    sign = -1 if text.startswith("-") else 1
    digits = text.lstrip("-").lower()
    if len(digits) > 1 and digits[0] == "0" and digits.isdigit():
        try:
            return sign * int(digits, 8)  # as the assembler reads a leading 0
        except ValueError:
            raise SyntaxFault(f"{text} is no octal number") from None
    try:
        return sign * int(digits, 0)
    except ValueError:
        raise SyntaxFault(f"{text[:20]!r} is no number") from None


def _modified(value: Any, neg: bool = False, abs: bool = False) -> Modified:
    if not isinstance(value, Reg | int | float):
        raise SyntaxFault(f"{value} takes no sign and no absolute value")
    return Modified(value, neg, abs)


def _buffer_format(text: str) -> int:
    try:
        return parse_format(text if text.startswith("[") else f"[{text}]")
    except ValueError:
        raise SyntaxFault(f"{text} is no buffer format") from None


def _numbers(name: str, arguments: Sequence[Any], count: int) -> list[int]:
    values = [item for item in arguments if type(item) is int]
    if len(values) != len(arguments) or len(values) != count:
        raise SyntaxFault(f"{name} takes {count} number{'s' * (count > 1)}, got ({', '.join(map(str, arguments))})")
    return values


def _one(name: str, arguments: Sequence[Any]) -> Any:
    if len(arguments) != 1:
        raise SyntaxFault(f"{name} takes one value, got {len(arguments)}")
    return arguments[0]


def _neg(arguments: Sequence[Any]) -> Modified:
    value = _one("neg", arguments)
    if isinstance(value, Modified) and value.abs and not value.neg:
        return Modified(value.value, True, True)
    return _modified(value, neg=True)


def _lit(arguments: Sequence[Any]) -> Operand:
    value = _one("lit", arguments)
    if isinstance(value, Symbol):
        return value
    # A negative one has as many bits as the place that it stands in, which only an assembler knows here.
    if type(value) is not int or not 0 <= value < 1 << 32:
        raise SyntaxFault(f"lit takes a number of 32 bits without a sign, got {value}")
    # Inline constants are -16 to 64 and bit patterns above: the signed value prints as the assembler wants it either way.
    return Literal(value - (1 << 32) if value >= 1 << 31 else value)


def _hwreg(arguments: Sequence[Any]) -> HwReg:
    if not arguments:
        raise SyntaxFault("hwreg takes a register")
    first, rest = arguments[0], _numbers("hwreg", arguments[1:], len(arguments) - 1)
    number = _HWREG_NUMBERS.get(first.name) if isinstance(first, Symbol) else first
    if type(number) is not int or len(rest) not in (0, 2):
        raise SyntaxFault(f"hwreg takes a register, first bit and size (or a register alone), got {', '.join(map(str, arguments))}")
    return HwReg(number, *rest)


def _sendmsg(arguments: Sequence[Any]) -> SendMsg:
    if not 1 <= len(arguments) <= 3:
        raise SyntaxFault("sendmsg takes a message, an operation and a stream")
    values = []
    for item, names in zip(arguments, (_MESSAGES, _OPERATIONS, {}), strict=False):
        value = names.get(item.name) if isinstance(item, Symbol) else item
        if type(value) is not int:
            raise SyntaxFault(f"{item} is no message, operation or stream that sendmsg knows")
        values.append(value)
    return SendMsg(*values)


def _gpr_idx(arguments: Sequence[Any]) -> GprIdx:
    modes = 0
    for item in arguments:
        if not isinstance(item, Symbol) or item.name not in GPR_IDX_NAMES:
            raise SyntaxFault(f"gpr_idx takes {', '.join(GPR_IDX_NAMES)}, got {item}")
        modes |= 1 << GPR_IDX_NAMES.index(item.name)
    return GprIdx(modes)


def _sext(arguments: Sequence[Any]) -> Modified:
    value = _one("sext", arguments)
    if not isinstance(value, Reg | int | float):
        raise SyntaxFault(f"sext takes a register, got {value}")
    return Modified(value, sext=True)


_CALLS: dict[str, Callable[[Sequence[Any]], Operand]] = {
    "neg": _neg, "abs": lambda arguments: _modified(_one("abs", arguments), abs=True), "sext": _sext, "lit": _lit, "hwreg": _hwreg,
    "sendmsg": _sendmsg, "gpr_idx": _gpr_idx,
}


def _swizzle(arguments: Sequence[Any]) -> int:
    """The offset of ds_swizzle_b32."""
    try:
        return parse_swizzle(f"swizzle({','.join(map(str, arguments))})")
    except ValueError as fault:
        raise SyntaxFault(str(fault)) from None
