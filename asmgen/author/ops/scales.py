"""E8M0 scales of operands for v_mfma_scale_*: a byte for each row and 32 k, in registers of the lanes that the instruction reads.

    SA = k.tile("SA", 1, 64 * count, scale_words(M, 4), stages=2)    # dwords as they lie in memory, four a lane side by side
    mma_scaled(k, C, A, B, as_scales(SA[t], ROWS_BY_K), ...)

A dword of a lane has the bytes of four fragments of the operand's tile. `ScaleOrder` says of which: as many rows of fragments by as many
columns. Scales shuffled for AITER's kernels are `ROWS_BY_K`; four steps along K of one row of fragments are `ALONG_K`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from asmgen.author.tiles.fragments import Fragment, MatrixShape
from asmgen.author.tiles.tiles import Tile, TileError
from asmgen.author.tiles.views import block_fragment, with_dtype
from asmgen.isa.arch import LANES
from asmgen.isa.records import dataclass
from asmgen.isa.registers import Reg
from asmgen.regalloc.sets import RegisterSet

if TYPE_CHECKING:
    from asmgen.author.builders.tilebuilder import TileBuilder

_BYTES = 4


@dataclass(frozen=True)
class ScaleOrder:
    """A dword has the bytes of `rows` x `columns` fragments, from its lowest byte on row after row, or, with `down_first`, column after
    column. Dwords follow each other row after row; where the tile ends inside of one, its other bytes are not used. A dword's first
    fragment has byte `first`."""

    rows: int = 1
    columns: int = 4
    down_first: bool = False
    first: int = 0

    def count(self, down: int, across: int) -> int:
        """Dwords of a tile of so many fragments."""
        return -(-down // self.rows) * -(-across // self.columns)

    def location(self, across: int, row: int, column: int) -> tuple[int, int]:
        """(dword, byte) of a fragment of a tile that is so many fragments wide."""
        (block, r), (along, c) = divmod(row, self.rows), divmod(column, self.columns)
        return block * -(-across // self.columns) + along, self.first + (r + self.rows * c if self.down_first else r * self.columns + c)


ROWS_BY_K = ScaleOrder(2, 2, True)
"""Byte 2 * (step along K) + (row of fragments): docs/facts/blockscales.md section 2."""
ALONG_K = ScaleOrder(1, 4)
"""Four steps along K of a row of fragments."""


@dataclass(frozen=True)
class Scales:
    """The scales of an operand's tile. Without an order, register n holds the bytes of fragments 4 n to 4 n + 3, row after row."""

    name: str
    registers: RegisterSet
    index: Any = None
    order: ScaleOrder | None = None

    def location(self, tile: Tile, row: int, column: int) -> tuple[Reg, int]:
        """(register, byte) of the scales of a fragment of the operand's tile; `column` counts the parts of deep ones."""
        across = tile.across * parts_of(tile)
        dword, byte = divmod(row * across + column, _BYTES) if self.order is None else self.order.location(across, row, column)
        return self.registers.items[dword], byte

    def fits(self, tile: Tile) -> bool:
        """Whether there are as many registers as the tile's scales take."""
        return self.registers.count == dwords_of(tile, self.order)


def parts_of(tile: Tile) -> int:
    """The instructions along K that a fragment of an operand feeds: more than one for `views.deep`."""
    return max(1, tile.fragment.columns // tile.fragment.row.k)


def dwords_of(tile: Tile, order: ScaleOrder | None = None) -> int:
    """The registers that the scales of a tile take."""
    across = tile.across * parts_of(tile)
    return -(-(tile.down * across) // _BYTES) if order is None else order.count(tile.down, across)


def scales(k: TileBuilder, name: str, tile: Tile, at: Reg | Sequence[Reg] | None = None, order: ScaleOrder | None = None) -> Scales:
    """Registers for the scales of an operand's tile. Raises TileError for `at` of another size, and an order of more than four bytes."""
    count = dwords_of(tile, _checked(k, order))
    held: Reg | RegisterSet = k.registers.vgprs(count, name) if at is None else \
        k.registers.pin(name, at if isinstance(at, Reg) else tuple(at))
    registers = held if isinstance(held, RegisterSet) else RegisterSet((held,))
    if registers.count != count or any(reg.file != "v" for reg in registers):
        wanted = tile.down * tile.across * parts_of(tile)
        raise TileError(f"scales {name} of {tile} take {count} VGPRs, a byte for each of its {wanted} fragments, not {registers}", k.here())
    return Scales(name, registers, order=order)


def _checked(k: TileBuilder, order: ScaleOrder | None) -> ScaleOrder | None:
    if order is not None and (order.rows < 1 or order.columns < 1 or order.rows * order.columns > _BYTES):
        raise TileError(f"a dword of scales has {_BYTES} bytes, and {order} wants {order.rows * order.columns}", k.here())
    return order


def scale_words(shape: MatrixShape, dwords: int = 1) -> Fragment:
    """The fragment of tiles that hold scales as they lie in registers: 1 row, 64 columns of i32 for each register, lane after lane; with
    several `dwords` (2 or 4) a lane has as many neighbours, which move by one instruction.

    Such a tile has stages, is loaded and moved as any other (of a matrix whose rows hold the dwords in that order), and `as_scales` of it
    goes into `mma_scaled`.
    """
    return block_fragment(with_dtype(shape.d, "i32"), 1, dwords, LANES)


def as_scales(words: Tile, order: ScaleOrder | None = None) -> Scales:
    """The scales in a tile of `scale_words`: its registers row after row. Raises TileError for any other tile."""
    if words.dtype != "i32" or words.fragment.rows != 1 or words.fragment.columns != LANES * words.fragment.registers:
        raise TileError(f"{words} holds no scales as dwords of lanes; make it with fragment scale_words(M), 64 columns a register")
    return Scales(words.name, words.registers, words.index, order)
