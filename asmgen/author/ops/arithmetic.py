"""Mathematics on register tiles: each operation expands to instructions at once."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from asmgen.author.ops.scales import Scales, dwords_of
from asmgen.author.step.iterations import operation
from asmgen.author.tiles.fragments import MatrixShape
from asmgen.author.tiles.tiles import Tile, TileError
from asmgen.author.tiles.views import k_orders
from asmgen.isa.layouts_mfma import element_type
from asmgen.isa.opcodes.mfma import F8F6F4_FORMATS, MfmaRow
from asmgen.isa.registers import Reg
from asmgen.regalloc.sets import join

if TYPE_CHECKING:
    from asmgen.author.builders.tilebuilder import TileBuilder

_BLOCK = 32  # registers of the result of v_mfma_f32_32x32x4_2b_f16

def zero(k: TileBuilder, *tiles: Tile) -> None:
    """Every register of the tiles 0.

    The matrix core does it 32 registers at a time, 0 x 0 + 0, where there are as many side by side: it takes half of the time of as many
    moves, and leaves the issue to other code.
    """
    parts = [part[first:min(first + _BLOCK, part.count) - 1] for part in join([reg for tile in tiles for reg in tile.registers])
             for first in range(0, part.count, _BLOCK)]
    wide = [part for part in parts if part.count == _BLOCK]
    with k.operation(f"zero {', '.join(tile.name for tile in tiles)}"), ExitStack() as held:
        if wide:
            nothing = held.enter_context(k.scratch("nothing", 2))
            for reg in nothing[0], nothing[1]:
                k.v_mov_b32(reg, 0)
        for part in wide:
            k.v_mfma_f32_32x32x4_2b_f16(part, nothing, nothing, 0)
        for reg in [part[number] for part in parts if part.count < _BLOCK for number in range(part.count)]:
            k.emit("v_accvgpr_write_b32" if reg.file == "a" else "v_mov_b32", reg, 0)


def mma(k: TileBuilder, c: Tile, a: Tile, b: Tile, first: bool | Tile = False) -> None:
    """C += A B, with A named by (i, k), B by (j, k) and C by (i, j); `first` takes C as 0, by the inline constant, or, a row of C's
    fragments, begins every row with that.

    A or B with k as its rows goes in as `views.transposed(tile)`. Consecutive instructions use one accumulator. Where
    C's fragments are transposed (`M.d.T`), the operands are exchanged. Their k may stand in any order that both share (`views.as_operand`);
    a fragment may hold several instructions' k (`views.deep`).
    Raises TileError for shapes or fragments that do not fit.
    """
    left, right, parts = _check(k, c, a, b)
    row = c.fragment.row
    transposed = c.fragment.transposed
    formats = _formats(row, left, right)
    begin = first if isinstance(first, Tile) else None
    if begin is not None and (not begin.fragment.same_coordinates(c.fragment) or (begin.down, begin.across) != (1, c.across)):
        raise TileError(f"mma: {begin} is no row of the fragments of {c}, with which its rows could begin", k.here())
    reads = a.registers.mask | b.registers.mask | (begin.registers.mask if begin is not None else 0)
    with operation(k, f"mma {c.name} += {a.name} {b.name}", [c.index, a.index, b.index], reads=reads, writes=c.registers.mask):
        for i, j in c.positions():
            accumulator = c.base(i, j)
            before: Reg | int = accumulator if not first else 0 if begin is None else begin.base(0, j)
            for depth, (one, other) in enumerate(zip(_along_k(a, i, parts), _along_k(b, j, parts), strict=True)):
                k.emit(row.name, accumulator, *((other, one) if transposed else (one, other)), accumulator if depth else before, **formats)


def _along_k(tile: Tile, row: int, parts: int) -> list[Reg]:
    """The operands of a row of fragments, one an instruction; a fragment has `parts` of them."""
    size = tile.fragment.registers // parts
    return [tile.base(row, depth)[part * size:part * size + size - 1] for depth in range(tile.across) for part in range(parts)]


def mma_scaled(k: TileBuilder, c: Tile, a: Tile, b: Tile, scale_a: Scales, scale_b: Scales, first: bool = False) -> None:
    """C += (A scaled) (B scaled) by v_mfma_scale_*, each 32 k of a row times 2^(its byte - 127); else as `mma`. A fragment of several
    instructions' k (`views.deep`) has a byte for each of them.

    Raises TileError also for an instruction without scales or scales of another tile's size.
    """
    row = c.fragment.row
    if not row.scaled:
        raise TileError(f"mma_scaled: {row.name} takes no scales; v_mfma_scale_f32_16x16x128_f8f6f4 and _32x32x64_f8f6f4 do", k.here())
    left, right, parts = _check(k, c, a, b)
    for tile, held in ((a, scale_a), (b, scale_b)):
        if not held.fits(tile):
            raise TileError(f"mma_scaled: {held.name} has {held.registers.count} registers, and {tile} wants a byte for each of its "
                            f"{tile.down * tile.across * parts} fragments: {dwords_of(tile, held.order)} in that order",
                            k.here())
    transposed = c.fragment.transposed
    formats = _formats(row, left, right)
    reads = a.registers.mask | b.registers.mask | scale_a.registers.mask | scale_b.registers.mask
    with operation(k, f"mma {c.name} += {a.name} {b.name}, scaled", [c.index, a.index, b.index, scale_a.index, scale_b.index], reads=reads,
                   writes=c.registers.mask):
        for i, j in c.positions():
            accumulator = c.base(i, j)
            for depth, operands in enumerate(zip(_along_k(a, i, parts), _along_k(b, j, parts), strict=True)):
                pair = (operands[0], scale_a.location(a, i, depth)), (operands[1], scale_b.location(b, j, depth))
                (one, (low, low_byte)), (other, (high, high_byte)) = pair[::-1] if transposed else pair
                k.emit(row.name, accumulator, one, other, 0 if first and depth == 0 else accumulator, low, high,
                       op_sel=(low_byte & 1, high_byte & 1, 0), op_sel_hi=(low_byte >> 1, high_byte >> 1, 0), **formats)


def _formats(row: MfmaRow, left: Tile, right: Tile) -> dict[str, Any]:
    if not row.f8f6f4:
        return {}
    return {"cbsz": F8F6F4_FORMATS.index(left.dtype), "blgp": F8F6F4_FORMATS.index(right.dtype)}


def _check(k: TileBuilder, c: Tile, a: Tile, b: Tile) -> tuple[Tile, Tile, int]:
    """The operands in the instruction's order, and how many instructions a fragment of them feeds."""
    if c.rows != a.rows or c.columns != b.rows or a.columns != b.columns:
        raise TileError(f"mma: {c} is not {a} times {b}: C is rows of A x rows of B, and A and B have as many columns; "
                        "transposed(tile) exchanges rows and columns", k.here())
    row = c.fragment.row
    if c.fragment.operand != "d" or c.dtype != element_type(row, "d", 0):
        raise TileError(f"mma: {c} with fragments {c.fragment} is no accumulator; make it with M.d or M.d.T, which are of "
                        f"{element_type(row, 'd', 0)}, and convert(k, ...) it afterwards", k.here())
    left, right = (b, a) if c.fragment.transposed else (a, b)
    if row.f8f6f4 and not {left.dtype, right.dtype} <= set(F8F6F4_FORMATS):
        raise TileError(f"mma: {row.name} takes {', '.join(F8F6F4_FORMATS)}, not {left.dtype} and {right.dtype}", k.here())
    shape = MatrixShape(row, next(iter(row.archs)), *_formats(row, left, right).values())
    orders = []
    for tile, wanted in ((left, shape.a), (right, shape.b)):
        order = k_orders(tile.fragment, wanted) if tile.dtype == wanted.dtype else None
        if order is None:
            raise TileError(f"mma: {tile} with fragments {tile.fragment} cannot be operand {wanted.operand} of {row.name}; fragments of "
                            f"{row.name} {wanted.operand} can", k.here())
        orders.append(order)
    if orders[0] != orders[1]:
        raise TileError(f"mma: {left} and {right} hold k in different orders; make the fragment of the one with in_order_of(M.a, ...) or "
                        "in_order_of(M.b, ...) of the other's", k.here())
    return left, right, len(orders[0])
