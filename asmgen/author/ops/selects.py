"""Comparisons and selections, element by element.

    where(k, x, compare(bits, ">=", threshold, unsigned=True), x, 0)     # dropout
    where(k, y, compare(x, ">", low) & compare(x, "<", high), x, nan)

A comparison is a value that says what to compare; `where` emits it, a few registers at a time, so that no comparison waits for the one
before it and no mask is held for long. Relations are those of Python: all but != are false where a side is NaN.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from asmgen.author.ops.constants import constant, word_of
from asmgen.author.ops.packedpairs import is_inline
from asmgen.author.ops.tileoperands import Target, TileSource, element_operation, operands_of, targets_of
from asmgen.author.ops.vectors import Vector
from asmgen.author.step.iterations import StepIndex
from asmgen.author.tiles.tiles import Tile, TileError
from asmgen.isa.records import dataclass
from asmgen.isa.registers import Reg

if TYPE_CHECKING:
    from asmgen.author.builders.tilebuilder import TileBuilder

_Value = Reg | int | float
_RELATIONS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
_TOGETHER = 4  # comparisons that are made before the first selection


@dataclass(frozen=True)
class Comparison:
    """Elements of which `a relation b` holds; a and b are tiles, vectors, SGPRs or numbers, at least one a tile or vector."""

    a: TileSource
    relation: str
    b: TileSource
    unsigned: bool = False

    def __and__(self, other: Condition) -> Combined:
        return Combined("s_and_b64", self, other)

    def __or__(self, other: Condition) -> Combined:
        return Combined("s_or_b64", self, other)


@dataclass(frozen=True)
class Combined:
    """Elements of both conditions, or of one of them."""

    op: str
    one: Condition
    other: Condition

    def __and__(self, other: Condition) -> Combined:
        return Combined("s_and_b64", self, other)

    def __or__(self, other: Condition) -> Combined:
        return Combined("s_or_b64", self, other)


Condition = Comparison | Combined


def compare(a: TileSource, relation: str, b: TileSource, unsigned: bool = False) -> Comparison:
    """The elements of which `a relation b` holds, for `where`: f32 or i32, the latter also `unsigned`. Emits nothing. Raises TileError for
    another relation than <, <=, >, >=, == and !=."""
    if relation not in _RELATIONS:
        raise TileError(f"compare knows {', '.join(_RELATIONS)}, not {relation!r}")
    return Comparison(a, relation, b, unsigned)


def where(k: TileBuilder, out: Target, condition: Condition, a: TileSource, b: TileSource, at: StepIndex | None = None) -> None:
    """`a` where the condition holds, else `b`, of 32-bit elements. Raises TileError where what is compared or chosen does not fit `out`."""
    if out.registers.count and _bits(out) != 32:
        raise TileError(f"where: {out} has elements of {_bits(out)} bits; masks select whole registers, so convert(k, ...) to f32 or i32",
                        k.here())
    leaves = list(_leaves(condition))
    held = [source for one in leaves for source in (one.a, one.b)]
    with element_operation(k, "where", out, (*held, a, b), at), ExitStack() as stack:
        chosen = [_chosen(k, stack, operands_of(k, "where", out, source)) for source in (b, a)]
        sides = [_sides(k, stack, out, one) for one in leaves]
        group = max(1, _TOGETHER // len(leaves))
        masks = stack.enter_context(k.scratch("holds", 2 * group * len(leaves), "s"))
        targets = targets_of(k, "where", out)
        for first in range(0, len(targets), group):
            numbers = range(first, min(first + group, len(targets)))
            for number in numbers:
                for leaf, (one, (left, right)) in enumerate(zip(leaves, sides, strict=True)):
                    at_mask = 2 * ((number - first) * len(leaves) + leaf)
                    _compare(k, masks[at_mask:at_mask + 1], one, left[number], right[number])
            for number in numbers:
                start = 2 * (number - first) * len(leaves)
                pairs = [masks[start + 2 * leaf:start + 2 * leaf + 1] for leaf in range(len(leaves))]
                mask = _combined(k, condition, iter(pairs))
                k.v_cndmask_b32(targets[number], chosen[0][number], chosen[1][number], mask)


def _bits(out: Target) -> int:
    return out.tile.fragment.bits if isinstance(out, Vector) else out.fragment.bits


def _leaves(condition: Condition) -> Iterator[Comparison]:
    if isinstance(condition, Comparison):
        yield condition
        return
    yield from _leaves(condition.one)
    yield from _leaves(condition.other)


def _combined(k: TileBuilder, condition: Condition, pairs: Iterator[Reg]) -> Reg:
    if isinstance(condition, Comparison):
        return next(pairs)
    one, other = _combined(k, condition.one, pairs), _combined(k, condition.other, pairs)
    k.emit(condition.op, one, one, other)
    return one


def _chosen(k: TileBuilder, stack: ExitStack, values: Sequence[_Value]) -> list[_Value]:
    """Values as v_cndmask takes them, whose mask is its only scalar."""
    found: dict[_Value, Reg] = {}
    for value in dict.fromkeys(values):
        if isinstance(value, Reg) and value.file == "s" or not isinstance(value, Reg) and not is_inline(value):
            found[value] = stack.enter_context(k.scratch("chosen"))
            k.v_mov_b32(found[value], value if isinstance(value, Reg) else word_of(value))
    return [found.get(value, value) for value in values]


def _sides(k: TileBuilder, stack: ExitStack, out: Target, one: Comparison) -> tuple[Sequence[_Value], Sequence[_Value]]:
    types = {side.dtype for side in (one.a, one.b) if isinstance(side, (Tile, Vector))}
    if len(types) != 1 or not types <= {"f32", "i32"} or one.unsigned and types != {"i32"}:
        raise TileError(f"compare: {one.a} {one.relation} {one.b} compares {' with '.join(sorted(types)) or 'no tile'}"
                        f"{' as unsigned numbers' if one.unsigned else ''}; tiles and vectors of f32, or of i32, with each other, SGPRs or "
                        "numbers would do", k.here())
    dtype = types.pop()
    left, right = (operands_of(k, "compare", out, side, dtype=dtype) for side in (one.a, one.b))
    numbers = dict.fromkeys(value for value in (*left, *right) if not isinstance(value, Reg) and not is_inline(value))
    held: dict[_Value, _Value] = {value: stack.enter_context(constant(k, "bound", word_of(value if dtype == "i32" else float(value))))
                                  for value in numbers}
    return [held.get(value, value) for value in left], [held.get(value, value) for value in right]


def _compare(k: TileBuilder, mask: Reg, one: Comparison, left: _Value, right: _Value) -> None:
    """What is no VGPR stands first."""
    relation = one.relation
    if not (isinstance(right, Reg) and right.file == "v"):
        left, right, relation = right, left, _MIRRORED[relation]
    whole = next(side.dtype for side in (one.a, one.b) if isinstance(side, (Tile, Vector))) == "i32"
    name = _RELATIONS[relation] if whole or relation != "!=" else "neq"
    k.emit(f"v_cmp_{name}_{('u32' if one.unsigned else 'i32') if whole else 'f32'}", mask, left, right)
