"""Mathematics on register tiles: each operation expands to instructions at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from asmgen.author.fragments import MatrixShape
from asmgen.author.steps import operation
from asmgen.author.tiles import Tile, TileError
from asmgen.author.views import k_order
from asmgen.isa.opcodes.mfma import F8F6F4_FORMATS, MfmaRow

if TYPE_CHECKING:
    from asmgen.author.tilebuilder import TileBuilder


def zero(k: TileBuilder, *tiles: Tile) -> None:
    """Every register of the tiles 0."""
    for tile in tiles:
        with k.operation(f"zero {tile.name}"):
            for reg in tile.registers:
                k.emit("v_accvgpr_write_b32" if reg.file == "a" else "v_mov_b32", reg, 0)


def mma(k: TileBuilder, c: Tile, a: Tile, b: Tile, first: bool = False) -> None:
    """C += A B, with A named by (i, k), B by (j, k) and C by (i, j); `first` takes C as 0, by the inline constant.

    A or B that is named the other way round (k first) goes in as `views.turned(tile)`. Consecutive instructions use one accumulator. Where
    C's fragments are turned (`M.d.T`), the operands change places. Their k may stand in any order that both share (`views.as_operand`).
    Raises TileError for shapes or fragments that do not fit.
    """
    left, right = _check(k, c, a, b)
    row = c.fragment.row
    turned = c.fragment.transposed
    formats = _formats(row, left, right)
    with operation(k, f"mma {c.name} += {a.name} {b.name}", [c.index, a.index, b.index], reads=a.registers.mask | b.registers.mask,
                   writes=c.registers.mask):
        for i, j in c.places():
            accumulator = c.base(i, j)
            for depth in range(a.across):
                one, other = (b.base(j, depth), a.base(i, depth)) if turned else (a.base(i, depth), b.base(j, depth))
                k.emit(row.name, accumulator, one, other, 0 if first and depth == 0 else accumulator, **formats)


def _formats(row: MfmaRow, left: Tile, right: Tile) -> dict[str, Any]:
    if not row.f8f6f4:
        return {}
    return {"cbsz": F8F6F4_FORMATS.index(left.dtype), "blgp": F8F6F4_FORMATS.index(right.dtype)}


def _check(k: TileBuilder, c: Tile, a: Tile, b: Tile) -> tuple[Tile, Tile]:
    """The operands in the instruction's order."""
    if c.rows != a.rows or c.columns != b.rows or a.columns != b.columns:
        raise TileError(f"mma: {c} is not {a} times {b}: C is rows of A x rows of B, and A and B have as many columns; "
                        "turned(tile) exchanges rows and columns", k.place())
    row = c.fragment.row
    left, right = (b, a) if c.fragment.transposed else (a, b)
    if row.f8f6f4 and not {left.dtype, right.dtype} <= set(F8F6F4_FORMATS):
        raise TileError(f"mma: {row.name} takes {', '.join(F8F6F4_FORMATS)}, not {left.dtype} and {right.dtype}", k.place())
    shape = MatrixShape(row, next(iter(row.archs)), *_formats(row, left, right).values())
    orders = []
    for tile, wanted in ((left, shape.a), (right, shape.b)):
        order = k_order(tile.fragment, wanted) if tile.dtype == wanted.dtype else None
        if order is None:
            raise TileError(f"mma: {tile} with fragments {tile.fragment} cannot be operand {wanted.operand} of {row.name}; fragments of "
                            f"{row.name} {wanted.operand} can", k.place())
        orders.append(order)
    if orders[0] != orders[1]:
        raise TileError(f"mma: {left} and {right} hold k in different orders; make the fragment of the one with in_order_of(M.a, ...) or "
                        "in_order_of(M.b, ...) of the other's", k.place())
    return left, right
