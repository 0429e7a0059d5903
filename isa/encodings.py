"""From a row of the tables in isa/opcodes to an Opcode: what all encodings share. `expand` is the way in."""

from __future__ import annotations

from functools import cache

from asmgen.isa.opcode import Form, OperandSpec, dwords
from asmgen.isa.records import dataclass

BOTH = frozenset({"gfx942", "gfx950"})
NO_FLAGS: frozenset[str] = frozenset()
FLOATS = frozenset({"f16", "f32", "f64", "bf16", "v2f16", "v2bf16", "v2f32"})
"""Element types whose sources may carry neg and abs."""


@dataclass(frozen=True)
class Row:
    """A table row taken apart; `section` is the encoding it stands under."""

    name: str
    section: str
    types: tuple[str, ...]
    flags: frozenset[str]

    def value(self, key: str) -> str | None:
        """The x of a flag `key=x`."""
        for flag in self.flags:
            if flag.startswith(key + "="):
                return flag[len(key) + 1:]
        return None

    @property
    def classes(self) -> frozenset[str]:
        """The x of every flag `class=x`."""
        return frozenset(flag[6:] for flag in self.flags if flag.startswith("class="))

    @property
    def archs(self) -> frozenset[str]:
        """The architectures of the row."""
        return frozenset(flag[1:] for flag in self.flags if flag[0] == "@") or BOTH

    @property
    def floating(self) -> bool:
        """Whether any operand is a float."""
        return any(element(kind) in FLOATS for kind in self.types)


def spread(pattern: str) -> list[tuple[str, tuple[str, ...]]]:
    """The names that a pattern with {x,y} alternatives stands for, each with what was chosen."""
    head, brace, rest = pattern.partition("{")
    if not brace:
        return [(pattern, ())]
    parts, _, after = rest.partition("}")
    rests = spread(after)
    return [(head + part + rest, (part, *chosen)) for part in parts.split(",") for rest, chosen in rests]


def parse_row(name: str, section: str, rest: str, chosen: tuple[str, ...]) -> Row:
    """A row of text with the choices of its name put in for $1, $2."""
    for number, part in enumerate(chosen, 1):
        rest = rest.replace(f"${number}", part)
    types, *flags = rest.split()
    return Row(name, section, () if types == "-" else tuple(types.split(",")), frozenset(flags))


@cache
def element(operand_type: str) -> str:
    """The element type: "16v2f16" (16 registers of two f16) is "v2f16"."""
    return operand_type.lstrip("0123456789")


@cache
def spec(name: str, operand_type: str, accepts: str, reads: bool = True, writes: bool = False, low: int = 0, high: int = 0) -> OperandSpec:
    """An operand slot; the same one is the same object, as thousands of forms share them."""
    return OperandSpec(name, operand_type, dwords(operand_type), accepts, reads, writes, low, high)


def destination(name: str, operand_type: str, accepts: str, also_read: bool = False) -> OperandSpec:
    """A place that is written."""
    return spec(name, operand_type, accepts, also_read, True)


def form(encoding: str, suffix: str, operands: list[OperandSpec], modifiers: frozenset[str] = NO_FLAGS, **when: bool) -> Form:
    """A form; `when` names modifiers that must have the given value (they are legal modifiers too)."""
    conditions = tuple((name, (value,)) for name, value in when.items())
    return Form(encoding, suffix, tuple(operands), modifiers | {name for name, value in when.items() if value}, conditions)
