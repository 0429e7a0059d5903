"""Pieces of register tiles: what one instruction moves between memory and a wave's registers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from asmgen.author.tiles.globals import Rows
from asmgen.author.tiles.immediates import BUFFER_IMMEDIATES
from asmgen.author.tiles.tiles import Tile, TileError
from asmgen.isa.records import dataclass
from asmgen.isa.registers import Reg

if TYPE_CHECKING:
    from asmgen.author.builders.tilebuilder import TileBuilder

LOADS = {8: "buffer_load_ubyte", 16: "buffer_load_ushort", 32: "buffer_load_dword", 64: "buffer_load_dwordx2", 128: "buffer_load_dwordx4"}
"""By bits. Those of less than a dword set the register's other bits to 0."""
STORES = {8: ("buffer_store_byte", "buffer_store_byte_d16_hi"), 16: ("buffer_store_short", "buffer_store_short_d16_hi"),
          32: ("buffer_store_dword",), 64: ("buffer_store_dwordx2",), 128: ("buffer_store_dwordx4",)}
"""By bits; of less than a dword, from the register's lower and from its upper half."""
PAGE = BUFFER_IMMEDIATES[1] + 1
"""Bytes that immediates reach from one address register on."""


@dataclass(frozen=True)
class TilePiece:
    """What one instruction moves: its registers, which half of them (16 bits), bits, and its row and column from the lane's first on."""

    registers: Reg
    half: int
    bits: int
    row: int
    column: int


def pieces_of(k: TileBuilder, what: str, tile: Tile, rows: Rows) -> list[TilePiece]:
    """The pieces of a tile, as wide as a lane's neighbours allow. Raises TileError for another type than the matrix has, elements that are
    no whole bytes, and lanes whose neighbours are narrower than what moves."""
    f = tile.fragment
    if tile.dtype != rows.matrix.dtype:
        raise TileError(f"{what}: {tile} and {rows.matrix.name} ({rows.matrix.dtype}) are not of one type; convert(k, ...) the tile",
                        k.here())
    if f.bits % 8:
        raise TileError(f"{what}: {tile} has elements of {f.bits} bits; move it as bytes, {what}(k, ... as_bytes({tile.name}) ...), of a "
                        f"matrix of i8, or take a matrix of {tile.dtype}", k.here())
    return [TilePiece(_part(tile.base(row, column), item * f.bits // 32, size), item * f.bits % 32 // 16, size,
                  row * f.rows + f.table[item][0][0] - f.table[0][0][0], column * f.columns + f.table[item][0][1] - f.table[0][0][1])
            for row, column in tile.positions() for item, size in _runs(k, what, tile, 32 if what == "load" else 16)]


def _part(base: Reg, first: int, bits: int) -> Reg:
    return base[first:first + max(1, bits // 32) - 1]


def _runs(k: TileBuilder, what: str, tile: Tile, least: int) -> Iterator[tuple[int, int]]:
    """(first item, bits) of what one instruction moves in each fragment."""
    f = tile.fragment
    coordinates = [line[0] for line in f.table]
    item = 0
    while item < len(coordinates):
        run = 1
        while item + run < len(coordinates) and coordinates[item + run] == (coordinates[item][0], coordinates[item][1] + run):
            run += 1
        size = next((size for size in (128, 64, 32, 16) if least <= size <= run * f.bits and item * f.bits % min(size, 32) == 0), 0)
        if not size:
            raise TileError(f"{what}: a lane of {tile} holds {run} neighbour of a row at a time, {run * f.bits} bits, and the least that "
                            f"moves is {least}; take a fragment with more of them (M.d.T), or go through LDS", k.here())
        yield item, size
        item += size // f.bits
