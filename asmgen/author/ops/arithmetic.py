"""Mathematics on register tiles: each operation expands to instructions at once."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from asmgen.author.step.iterations import operation
from asmgen.author.tiles.fragments import Fragment, MatrixShape
from asmgen.author.tiles.tiles import Tile, TileError
from asmgen.author.tiles.views import block_fragment, k_orders, with_dtype
from asmgen.isa.arch import LANES
from asmgen.isa.layouts_mfma import element_type
from asmgen.isa.opcodes.mfma import F8F6F4_FORMATS, MfmaRow
from asmgen.isa.records import dataclass
from asmgen.isa.registers import Reg
from asmgen.regalloc.sets import RegisterSet, join

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


@dataclass(frozen=True)
class Scales:
    """E8M0 scales of an operand for v_mfma_scale_*: a byte for each row and 32 k, in the lane that the instruction reads it from.

    Register n holds the bytes of fragments 4 n to 4 n + 3 of the operand's tile, row after row, from its lowest byte on.
    """

    name: str
    registers: RegisterSet
    index: Any = None

    def location(self, fragment: int) -> tuple[Reg, int]:
        """(register, byte) of the scales of a fragment."""
        return self.registers.items[fragment // 4], fragment % 4


def scales(k: TileBuilder, name: str, tile: Tile, at: Reg | Sequence[Reg] | None = None) -> Scales:
    """Registers for the scales of an operand's tile. Raises TileError for `at` of another size."""
    count = -(-(tile.down * tile.across) // 4)
    held: Reg | RegisterSet = k.registers.vgprs(count, name) if at is None else \
        k.registers.pin(name, at if isinstance(at, Reg) else tuple(at))
    registers = held if isinstance(held, RegisterSet) else RegisterSet((held,))
    if registers.count != count or any(reg.file != "v" for reg in registers):
        raise TileError(f"scales {name} of {tile} take {count} VGPRs, a byte for each of its {tile.down * tile.across} fragments, not "
                        f"{registers}", k.here())
    return Scales(name, registers)


def scale_words(shape: MatrixShape) -> Fragment:
    """The fragment of tiles that hold scales as they lie in registers, a dword a lane: 1 row, 64 columns of i32 for each register.

    Such a tile has stages, is loaded and moved as any other (of a matrix whose rows hold the dwords in that order), and `as_scales` of it
    goes into `mma_scaled`.
    """
    return block_fragment(with_dtype(shape.d, "i32"), 1, 1, LANES)


def as_scales(words: Tile) -> Scales:
    """The scales in a tile of `scale_words`. Raises TileError for any other tile."""
    if words.dtype != "i32" or (words.rows, words.fragment.columns, words.fragment.registers) != (1, LANES, 1):
        raise TileError(f"{words} holds no scales as dwords of lanes; make it with fragment scale_words(M), 1 row, 64 columns a register")
    return Scales(words.name, words.registers, words.index)


def mma_scaled(k: TileBuilder, c: Tile, a: Tile, b: Tile, scale_a: Scales, scale_b: Scales, first: bool = False) -> None:
    """C += (A scaled) (B scaled) by v_mfma_scale_*, each 32 k of a row times 2^(its byte - 127); else as `mma`.

    Raises TileError also for an instruction without scales or scales of another tile's size.
    """
    row = c.fragment.row
    if not row.scaled:
        raise TileError(f"mma_scaled: {row.name} takes no scales; v_mfma_scale_f32_16x16x128_f8f6f4 and _32x32x64_f8f6f4 do", k.here())
    left, right, parts = _check(k, c, a, b)
    if parts > 1:
        raise TileError(f"mma_scaled: {a} and {b} have fragments of {parts} instructions' k; scales belong to fragments of one", k.here())
    for tile, held in ((a, scale_a), (b, scale_b)):
        if held.registers.count != -(-(tile.down * tile.across) // 4):
            raise TileError(f"mma_scaled: {held.name} has {held.registers.count} registers, and {tile} wants a byte for each of its "
                            f"{tile.down * tile.across} fragments", k.here())
    transposed = c.fragment.transposed
    formats = _formats(row, left, right)
    reads = a.registers.mask | b.registers.mask | scale_a.registers.mask | scale_b.registers.mask
    with operation(k, f"mma {c.name} += {a.name} {b.name}, scaled", [c.index, a.index, b.index, scale_a.index, scale_b.index], reads=reads,
                   writes=c.registers.mask):
        for i, j in c.positions():
            accumulator = c.base(i, j)
            for depth in range(a.across):
                pair = ((a.base(i, depth), scale_a.location(i * a.across + depth)),
                        (b.base(j, depth), scale_b.location(j * b.across + depth)))
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
