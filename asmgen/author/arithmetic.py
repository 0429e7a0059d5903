"""Mathematics on register tiles: each operation expands to instructions at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from asmgen.author.fragments import Fragment
from asmgen.author.steps import operation
from asmgen.author.tiles import Tile, TileError

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

    Consecutive instructions use one accumulator. Where C's fragments are turned (`M.d.T`), the operands change places. Raises TileError
    for shapes or fragments that do not fit.
    """
    if c.rows != a.rows or c.columns != b.rows or a.columns != b.columns:
        raise TileError(f"mma: {c} is not {a} times {b}: C is rows of A x rows of B, and A and B have as many columns")
    row = c.fragment.row
    turned = c.fragment.transposed
    left, right = (b, a) if turned else (a, b)
    _check_operand(left.fragment, row.name, "a")
    _check_operand(right.fragment, row.name, "b")
    with operation(k, f"mma {c.name} += {a.name} {b.name}", [c.index, a.index, b.index], reads=a.registers.mask | b.registers.mask,
                   writes=c.registers.mask):
        for i, j in c.places():
            accumulator = c.base(i, j)
            for depth in range(a.across):
                one, other = (b.base(j, depth), a.base(i, depth)) if turned else (a.base(i, depth), b.base(j, depth))
                k.emit(row.name, accumulator, one, other, 0 if first and depth == 0 else accumulator)


def _check_operand(fragment: Fragment, name: str, operand: str) -> None:
    from asmgen.author.fragments import MatrixShape

    wanted = getattr(MatrixShape(fragment.row, next(iter(fragment.row.archs))), operand)
    if fragment.row.name != name or not fragment.same_places(wanted):
        raise TileError(f"mma: {fragment} cannot be operand {operand} of {name}; fragments of {name} {operand} can")
