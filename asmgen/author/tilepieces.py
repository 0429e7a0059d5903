"""Pieces of register tiles: what one instruction moves between memory and a wave's registers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from asmgen.author.globals import Rows
from asmgen.author.immediates import BUFFER_IMMEDIATES
from asmgen.author.tiles import Tile, TileError
from asmgen.isa.records import dataclass
from asmgen.isa.registers import Reg

if TYPE_CHECKING:
    from asmgen.author.tilebuilder import TileBuilder

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


def pieces_of(k: TileBuilder, what: str, tile: Tile, rows: Rows, bounded: bool) -> list[TilePiece]:
    f = tile.fragment
    if tile.dtype != rows.matrix.dtype:
        raise TileError(f"{what}: {tile} and {rows.matrix.name} ({rows.matrix.dtype}) are not of one type; convert(k, ...) the tile",
                        k.place())
    if f.bits % 8:
        raise TileError(f"{what}: {tile} has elements of {f.bits} bits; move it as bytes, {what}(k, ... as_bytes({tile.name}) ...), of a "
                        "matrix of i8", k.place())
    return [TilePiece(_part(tile.base(row, column), item * f.bits // 32, size), item * f.bits % 32 // 16, size,
                  row * f.rows + f.table[item][0][0] - f.table[0][0][0], column * f.columns + f.table[item][0][1] - f.table[0][0][1])
            for row, column in tile.places() for item, size in _runs(k, what, tile, bounded, 32 if what == "load" else 16)]


def _part(base: Reg, first: int, bits: int) -> Reg:
    return base[first:first + max(1, bits // 32) - 1]


def _runs(k: TileBuilder, what: str, tile: Tile, bounded: bool, least: int) -> Iterator[tuple[int, int]]:
    """(first item, bits) of what one instruction moves in each fragment."""
    f = tile.fragment
    widest = max(f.bits if f.bits >= 16 else 32, least) if bounded else 128
    places = [line[0] for line in f.table]
    item = 0
    while item < len(places):
        run = 1
        while item + run < len(places) and places[item + run] == (places[item][0], places[item][1] + run):
            run += 1
        most = min(run * f.bits, widest)
        size = next((size for size in (128, 64, 32, 16) if least <= size <= most and item * f.bits % min(size, 32) == 0), 0)
        if not size:
            raise TileError(f"{what}: a lane of {tile} holds {run} neighbour of a row at a time, {run * f.bits} bits, and the least that "
                            f"moves is {least}; take a fragment with more of them (M.d.T), or go through LDS", k.place())
        yield item, size
        item += size // f.bits
