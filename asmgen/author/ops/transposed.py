"""Transposing reads of gfx950: fragments of a shared tile that is stored the other way round, such as V in attention.

    V = k.tile("V", 128, 64, in_order_of(M.a, P.fragment))     # V^T: rows d, columns keys
    read_transposed(k, V, Vs[t])                               # Vs is stored keys x d
    Vs = k.shared("Vs", "bf16", 64, 128, serves=(TransposedRead(V.fragment), DmaFill()))

Each lane names 8 bytes (12 for 6-bit types) of a stored row; 16 lanes exchange elements so that each gets a column's.
4- and 6-bit types are stored as bytes: the shared tile is of i8, its columns count bytes. A 6-bit read brings three registers, which
begin at an even one, so every second one costs three v_mov_b32 and waits for its data; it wants 12 bytes at multiples of 16, as
DMA of 12 bytes writes them and pads of 4 bytes every 12 place them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from asmgen.author.ops.ldsbases import lds_bases, wave_values
from asmgen.author.ops.movement import PartAddresses, at_number
from asmgen.author.step.iterations import StepIndex, operation
from asmgen.author.tiles.shared import SharedPart
from asmgen.author.tiles.swizzles import TileAddresses
from asmgen.author.tiles.tiles import Tile, TileError
from asmgen.author.tiles.transposing import READS, address_of, transposed_pieces
from asmgen.isa.layout import LayoutError
from asmgen.isa.registers import Reg

if TYPE_CHECKING:
    from asmgen.author.builders.tilebuilder import TileBuilder



def read_transposed(k: TileBuilder, tile: Tile, source: SharedPart, at: StepIndex | None = None) -> None:
    """LDS to registers, transposed: the tile's rows are the shared tile's columns.

    Raises TileError on gfx942, which has no such read, and where shapes, types or layouts do not fit, LayoutError for a torn access.
    """
    f, stored = tile.fragment, source.tile
    if k.arch != "gfx950":
        raise TileError(f"read_transposed: {k.arch} has no transposing reads; store {stored.name} transposed, as {tile.rows} x "
                        f"{tile.columns} (change_layout of blocks, by columns), and use read(k, ...)", k.here())
    width, rest = divmod(tile.rows * f.bits, 8) if f.bits % 8 else (tile.rows, 0)
    kind = "i8" if f.bits % 8 else tile.dtype
    if (source.rows, source.columns, stored.dtype) != (tile.columns, width, kind) or rest:
        raise TileError(f"read_transposed: {source} is {source.rows} x {source.columns} {stored.dtype}, and {tile} is read from "
                        f"{tile.columns} x {width} {kind}", k.here())
    key = ("transposed", stored, source.of_rows, source.of_columns, f, tile.rows, tile.columns)
    made = k.made.get(key)
    try:
        if made is None:
            made = k.made[key] = k.hoist(lambda: _addresses(k, tile, source))
    except LayoutError as error:
        raise TileError(f"read_transposed: {error.sentence}", k.here()) from None
    assert isinstance(made, dict)
    op, step = READS[f.bits], (96 if f.bits == 6 else 64) // 32
    with operation(k, f"read {tile.name} transposed from {source}", [source.index, tile.index], writes=tile.registers.mask, at=at):
        for row, column in tile.positions():
            base = tile.base(row, column)
            with k.scratch("odd_triples", 4 * (f.bits == 6) or 1) as spare:
                moves: list[tuple[Reg, Reg]] = []
                for piece in range(len(transposed_pieces(f))):
                    register, offset = at_number(source, lambda cell, at=(row, column, piece): made[cell, *at])
                    target = base[piece * step:piece * step + step - 1]
                    if step == 3 and target.index % 2:
                        moves += [(target[number], spare[number]) for number in range(3)]
                        target = spare[0:2]
                    k.emit(op, target, register, offset=offset, uses=source.range)
                for target, held in moves:
                    k.v_mov_b32(target, held)


def _addresses(k: TileBuilder, tile: Tile, source: SharedPart) -> dict[tuple[int, int, int, int], tuple[Reg, int]]:
    """The address register and the immediate by cell, fragment row, fragment column and piece."""
    stored, f = source.tile, tile.fragment
    whole = TileAddresses(stored.placement, stored.rows, stored.columns)
    parts = [PartAddresses(whole, source, values) for values in wave_values(source.waves)]
    keys, vectors = [], []
    for row, column in tile.positions():
        for number, lanes in enumerate(transposed_pieces(f)):
            vector = [address_of(at, f, column * f.columns + a, row * f.rows + b) for at in parts for a, b in lanes]
            for cell, low in enumerate(stored.lows):
                keys.append((cell, row, column, number))
                vectors.append([address + low for address in vector])
    found = lds_bases(k, f"{stored.name}_{tile.name.partition('[')[0]}_transposed", vectors, source.waves)
    return dict(zip(keys, found, strict=True))
