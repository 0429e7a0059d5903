"""Bits and whole numbers element by element: shifts, logic, numbers of rows and columns.

    shift_left(k, x, x, 16)
    xor(k, x, x, y)                       # y a tile, a vector, an SGPR or a number
    indices(k, number, rows=128, columns=1, first=s)   # 128 row + column + s

Shifts and `indices` are of i32, logic takes the registers of any type. `add`, `sub` and `mul` of i32 wrap around, so they serve unsigned
numbers too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from asmgen.author.address.addressing import emit_address
from asmgen.author.ops.constants import word_of
from asmgen.author.ops.tileoperands import Target, TileSource, element_operation, no_such, operands_of, targets_of
from asmgen.author.step.iterations import StepIndex
from asmgen.author.tiles.tiles import Tile, TileError
from asmgen.isa.registers import Reg

if TYPE_CHECKING:
    from asmgen.author.builders.tilebuilder import TileBuilder


def shift_left(k: TileBuilder, out: Target, a: TileSource, count: TileSource, at: StepIndex | None = None) -> None:
    """a * 2^count; the low 5 bits of the count decide. i32 only."""
    _shift(k, "shift left", "v_lshlrev_b32", out, a, count, at)


def shift_right(k: TileBuilder, out: Target, a: TileSource, count: TileSource, signed: bool = False, at: StepIndex | None = None) -> None:
    """a / 2^count, rounded down: of an unsigned number, or of a `signed` one. i32 only."""
    _shift(k, "shift right", "v_ashrrev_i32" if signed else "v_lshrrev_b32", out, a, count, at)


def and_(k: TileBuilder, out: Target, a: TileSource, b: TileSource, at: StepIndex | None = None) -> None:
    """The bits that both have."""
    _logic(k, "and", "v_and_b32", out, a, b, at)


def or_(k: TileBuilder, out: Target, a: TileSource, b: TileSource, at: StepIndex | None = None) -> None:
    """The bits that one of them has."""
    _logic(k, "or", "v_or_b32", out, a, b, at)


def xor(k: TileBuilder, out: Target, a: TileSource, b: TileSource, at: StepIndex | None = None) -> None:
    """The bits in which they differ."""
    _logic(k, "xor", "v_xor_b32", out, a, b, at)


def indices(k: TileBuilder, out: Tile, rows: int = 0, columns: int = 1, first: Reg | int = 0, at: StepIndex | None = None) -> None:
    """Element (r, c) becomes r * rows + c * columns + first (an SGPR or a number), modulo 2^32. i32 only; the factors are positive.

    Raises TileError for another type or a negative factor.
    """
    if out.dtype != "i32" or rows < 0 or columns < 0:
        raise TileError(f"indices: {out} with factors {rows} and {columns}; i32 and factors from 0 on would do, convert(k, ...) the result",
                        k.here())
    f = out.fragment
    origin = f.table[0][0]

    def more(row: int, column: int, item: int) -> int:
        down, across = f.table[item][0]
        return (row * f.rows + down - origin[0]) * rows + (column * f.columns + across - origin[1]) * columns

    with element_operation(k, "indices", out, (), at):
        lane = _lane_number(k, tuple(row * rows + column * columns for row, column in f.table[0]))
        with k.scratch("first_index") as base:
            if first != 0:
                k.v_add_u32(base, first, lane)
            for row, column in out.positions():
                for item, register in enumerate(targets_of(k, "indices", out.part(row * f.rows, column * f.columns, f.rows, f.columns))):
                    k.v_add_u32(register, more(row, column, item) & 0xFFFFFFFF, base if first != 0 else lane)


def _lane_number(k: TileBuilder, values: tuple[int, ...]) -> Reg:
    """The VGPR of a number that each lane has of its own, made once."""
    key = "lane number", values
    made = k.made.get(key)
    if made is None:
        made = k.made[key] = k.hoist(lambda: emit_address(k, k.registers.unused("lane_index"), lambda lane: values[lane], k.lane))
    assert isinstance(made, Reg)
    return made


def _shift(k: TileBuilder, name: str, op: str, out: Target, a: TileSource, count: TileSource, at: StepIndex | None) -> None:
    if out.dtype != "i32":
        raise no_such(k, name, out.dtype, ["i32"])
    with element_operation(k, name, out, (a, count), at):
        lists = [operands_of(k, name, out, source) for source in (count, a)]
        for target, amount, value in zip(targets_of(k, name, out), *lists, strict=True):
            k.emit(op, target, amount, value)


def _logic(k: TileBuilder, name: str, op: str, out: Target, a: TileSource, b: TileSource, at: StepIndex | None) -> None:
    with element_operation(k, name, out, (a, b), at):
        lists = [operands_of(k, name, out, source) for source in (a, b)]
        for target, one, other in zip(targets_of(k, name, out), *lists, strict=True):
            left, right = (value if isinstance(value, (Reg, int)) else word_of(value) for value in (one, other))
            k.emit(op, target, *((left, right) if isinstance(right, Reg) and right.file == "v" else (right, left)))
