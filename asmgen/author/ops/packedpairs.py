"""Packed instructions: two neighbouring registers of f32 at once, and factors in the form that they and three-operand instructions take.

A factor for both results is a register of a pair that one name holds, else it is put into a pair for the length of the operation where
that saves instructions. Where the operation stays one by one, its first instruction says why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from asmgen.author.ops.constants import constant, constant_pair, word_of
from asmgen.isa.errata import PACKED_ODD_LOW
from asmgen.isa.errors import AsmgenError
from asmgen.isa.records import dataclass
from asmgen.isa.registers import Reg
from asmgen.regalloc.ranges import OwnedReg
from asmgen.regalloc.sets import join

if TYPE_CHECKING:
    from asmgen.author.builders.tilebuilder import TileBuilder

Value = Reg | int | float
PACKED = {"v_add_f32": "v_pk_add_f32", "v_sub_f32": "v_pk_add_f32", "v_mul_f32": "v_pk_mul_f32", "v_fma_f32": "v_pk_fma_f32"}
NEGATIVE: dict[str, Any] = {"neg_lo": (0, 1), "neg_hi": (0, 1)}  # the second source of a packed instruction
INLINE = (0, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 4.0, -4.0)
_INTEGERS = range(-16, 65)  # inline
_WITHOUT_LITERALS = ("v_fma_f32", "v_pk_fma_f32", "v_mul_lo_u32")
_LEAST = 3  # pairs of results that pay for the two copies of a factor
_MOST = 4  # factors of one operation that are copied


@dataclass(frozen=True)
class ElementOperation:
    """An operation on registers: what each of the `targets` is computed from, by source; `packed` says that pairs may be taken."""

    k: TileBuilder
    op: str
    targets: Sequence[Reg]
    lists: Sequence[Sequence[Value]]
    packed: bool

    def pair(self, number: int) -> bool:
        """Two neighbouring registers from that one on by one packed instruction, where that exists."""
        found = self._packed_at(number) if self.packed and self.op in PACKED else ""
        if isinstance(found, str):
            return False
        target, sources, low, high = found
        modifiers: dict[str, Any] = {}
        if any(low):
            modifiers["op_sel"] = tuple(low)
        if not all(high):
            modifiers["op_sel_hi"] = tuple(high)
        if self.op == "v_sub_f32":
            modifiers |= NEGATIVE
        self.k.emit(PACKED[self.op], target, *sources, **modifiers)
        return True

    def why_single(self) -> str:
        """Why not all registers that lie in twos are taken in pairs; "" where they are, or where pairs are not wanted."""
        if not self.packed or self.op not in PACKED:
            return ""
        number = 0
        while number + 1 < len(self.targets):
            found = self._packed_at(number)
            if isinstance(found, str):
                return f"not packed: {found}"
            number += 2
        return ""

    def _packed_at(self, number: int) -> tuple[Reg, list[Value], list[int], list[int]] | str:
        """(destination, sources, op_sel, op_sel_hi), or why there is none."""
        if number + 1 == len(self.targets):
            return "one register"
        target = joined(self.targets[number], self.targets[number + 1])
        if target is None:
            return f"{self.targets[number]} and {self.targets[number + 1]} are no aligned pair"
        sources: list[Value] = []
        low, high = [], []
        for values in self.lists:
            found = _twice(self.k, values[number], values[number + 1])
            if isinstance(found, str):
                return found
            sources.append(found[0])
            low.append(found[1])
            high.append(found[2])
        return target, sources, low, high


def _twice(k: TileBuilder, one: Value, other: Value) -> tuple[Value, int, int] | str:
    """(source, op_sel, op_sel_hi) for two results, or why there is no such source."""
    if not isinstance(one, Reg) or not isinstance(other, Reg):
        return (one, 0, 0) if one == other and one in INLINE else f"{one} is no inline constant"
    both = joined(one, other)
    if both is not None:
        return both, 0, 1
    if one != other or one.file not in "vs":
        return f"{one} and {other} are no aligned pair"
    both = _around(k, one)
    if both is None:
        return f"{one} is no half of a pair of one name"
    side = one.index - both.index
    if side and one.file == "v" and k.arch in PACKED_ODD_LOW.archs:
        return f"{one} is odd, which {k.arch} does not read for both ({PACKED_ODD_LOW.id})"
    return both, side, side


@contextmanager
def prepared(k: TileBuilder, op: str, targets: Sequence[Reg], lists: Sequence[Sequence[Value]], packed: bool) -> Iterator[ElementOperation]:
    """The operation with factors where its instructions take them: in pairs, and numbers and second scalars in registers."""
    with ExitStack() as stack:
        held: dict[Value, Reg] = {}
        if packed and op in PACKED:
            held = _copied(k, stack, targets, lists)
        if op in _WITHOUT_LITERALS:
            scalar: Value | None = next((one for one in held.values() if one.file == "s"), None)
            for value in dict.fromkeys(value for values in lists for value in values):
                if value in held or isinstance(value, Reg) and value.file != "s" or is_inline(value):
                    continue
                if scalar is None:
                    scalar = value
                    if not isinstance(value, Reg):
                        held[value] = stack.enter_context(constant(k, "factor", word_of(value)))
                elif value != scalar:
                    held[value] = stack.enter_context(k.scratch("factor"))
                    k.v_mov_b32(held[value], value if isinstance(value, Reg) else word_of(value))
        replaced = [[held.get(value, value) for value in values] for values in lists]
        yield ElementOperation(k, op, targets, replaced, packed)


def is_inline(value: Value) -> bool:
    """Whether every encoding takes the value: of numbers those without a literal; f32 or whole."""
    return value in INLINE or isinstance(value, int) and value in _INTEGERS


def _copied(k: TileBuilder, stack: ExitStack, targets: Sequence[Reg], lists: Sequence[Sequence[Value]]) -> dict[Value, Reg]:
    """Pairs in place of factors that are no part of one, as far as that saves instructions and registers are left."""
    uses: Counter[Value] = Counter()
    for number in range(0, len(targets) - 1, 2):
        if joined(targets[number], targets[number + 1]) is not None:
            alone = {values[number] for values in lists if values[number] == values[number + 1]
                     and isinstance(_twice(k, values[number], values[number + 1]), str)}
            uses.update(alone)
    held: dict[Value, Reg] = {}
    scalars = 0
    for value, count in uses.most_common(_MOST):
        if count < _LEAST or isinstance(value, Reg) and value in targets:
            continue
        try:
            if isinstance(value, Reg) and (value.file == "v" or scalars):
                held[value] = stack.enter_context(k.scratch("factor_pair", 2))
                for half in range(2):
                    k.v_mov_b32(held[value][half], value)
            elif isinstance(value, Reg):
                held[value] = stack.enter_context(k.scratch("factor_pair", 2, "s"))
                for half in range(2):
                    k.s_mov_b32(held[value][half], value)
                scalars += 1
            elif not scalars:
                held[value] = stack.enter_context(constant_pair(k, "factor_pair", word_of(value)))
                scalars += 1
        except AsmgenError:  # no registers for it
            continue
    return {value: pair[0] for value, pair in held.items()}


def joined(one: Reg, other: Reg) -> Reg | None:
    """Both as an aligned pair, None where they are none."""
    if one.file != other.file or other.index != one.index + 1 or one.index % 2:
        return None
    parts = join((one, other))
    return parts[0] if len(parts) == 1 else None


def _around(k: TileBuilder, one: Reg) -> Reg | None:
    """The aligned pair with the register in it, where the same lease holds both."""
    if not isinstance(one, OwnedReg):
        return None
    pair = one.moved(-(one.index % 2), 2)
    try:
        k.registers.check(pair)
    except AsmgenError:
        return None
    return pair
