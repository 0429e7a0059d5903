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

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from asmgen.author.address.addressing import emit_address
from asmgen.author.step.iterations import operation
from asmgen.author.tiles.fragments import Fragment
from asmgen.author.tiles.immediates import DS_IMMEDIATES, split_immediates
from asmgen.author.tiles.shared import SharedPart
from asmgen.author.tiles.swizzles import LaneAccess, Places
from asmgen.author.tiles.tiles import Tile, TileError
from asmgen.isa.arch import LANES
from asmgen.isa.layout import LayoutError
from asmgen.isa.layouts_lds import transposing_items, transposing_read
from asmgen.isa.records import dataclass
from asmgen.isa.registers import Reg

if TYPE_CHECKING:
    from asmgen.author.builders.tilebuilder import TileBuilder

_READS = {16: "ds_read_b64_tr_b16", 8: "ds_read_b64_tr_b8", 4: "ds_read_b64_tr_b4", 6: "ds_read_b96_tr_b6"}


@functools.cache
def transposed_pieces(fragment: Fragment) -> tuple[tuple[tuple[int, int], ...], ...]:
    """For each read of a fragment (rows i, columns k), the (stored row k, stored column i) of what each lane's address names.

    Raises LayoutError for a type without such a read, or a fragment whose lanes do not take 16 neighbours of a stored row at a time.
    """
    op = _READS.get(fragment.bits)
    if op is None:
        raise LayoutError(f"{fragment} has elements of {fragment.bits} bits; transposing reads move 16, 8, 6 and 4 bits")
    count, source = transposing_items(op), transposing_read(op)
    if fragment.items % count:
        raise LayoutError(f"a lane of {fragment} has {fragment.items} items, of which {op} brings {count} at a time")
    reads = []
    for first in range(0, fragment.items, count):
        named: dict[tuple[int, int], tuple[int, int]] = {}
        for item in range(count):
            for lane in range(LANES):
                place = source(item=item, lane=lane)
                row, k = fragment.table[first + item][lane]
                named[place["source_lane"], place["source_item"]] = k, row
        for (lane, item), (k, row) in named.items():
            start = named[lane, 0]
            if (k, row) != (start[0], start[1] + item):
                raise LayoutError(f"{op} cannot bring items {first} to {first + count - 1} of {fragment}: what lane {lane} would name is "
                                  "no run of a stored row")
        reads.append(tuple(named[lane, 0] for lane in range(LANES)))
    return tuple(reads)


@dataclass(frozen=True)
class TransposedRead:
    """Transposing reads as an access that a shared tile serves; the fragment's rows are the stored tile's columns."""

    fragment: Fragment
    line: int = 0

    def instructions(self, places: Places) -> Iterator[LaneAccess]:
        """Every fragment of the stored tile. Raises LayoutError where an access would be torn."""
        f, op = self.fragment, _READS[self.fragment.bits]
        width = 96 if f.bits == 6 else 64
        rows, step = places.columns * _elements(f), f.rows
        for k in range(0, places.rows - f.columns + 1, f.columns):
            for row in range(0, rows - step + 1, step):
                for lanes in transposed_pieces(f):
                    yield LaneAccess(op, tuple(_address(places, f, k + a, row + b) for a, b in lanes), width)


def _elements(fragment: Fragment) -> int:
    """Elements in a stored column: 1, or those of a byte where the tile counts bytes (6 bits: 4 elements in 3 bytes, see `_address`)."""
    return 1 if fragment.bits % 8 == 0 else 8 // fragment.bits


def _address(places: Places, fragment: Fragment, k: int, row: int) -> int:
    column = row if fragment.bits % 8 == 0 else row * fragment.bits // 8
    address = places(k, column)
    size = 12 if fragment.bits == 6 else 8
    step = max(1, fragment.bits // 8)
    if places(k, column + size // step - 1) != address + size - step or address % (16 if size == 12 else 8):
        raise LayoutError(f"{size} bytes of row {k} from element {row} on are no aligned neighbours in LDS")
    return address


def read_transposed(k: TileBuilder, tile: Tile, source: SharedPart) -> None:
    """LDS to registers, turned: the tile's rows are the shared tile's columns.

    Raises TileError on gfx942, which has no such read, and where shapes, types or layouts do not fit, LayoutError for a torn access.
    """
    f, stored = tile.fragment, source.tile
    if k.arch != "gfx950":
        raise TileError(f"read_transposed: {k.arch} has no transposing reads; store {stored.name} turned, as {tile.rows} x {tile.columns} "
                        "(change_layout of blocks, by columns), and use read(k, ...)", k.place())
    width, rest = divmod(tile.rows * f.bits, 8) if f.bits % 8 else (tile.rows, 0)
    kind = "i8" if f.bits % 8 else tile.dtype
    if (source.rows, stored.columns, stored.dtype) != (tile.columns, width, kind) or rest:
        raise TileError(f"read_transposed: {source} is {source.rows} x {stored.columns} {stored.dtype}, and {tile} is read from "
                        f"{tile.columns} x {width} {kind}", k.place())
    key = ("transposed", stored, source.wave, f, tile.rows, tile.columns)
    made = k.made.get(key)
    try:
        if made is None:
            made = k.made[key] = k.hoist(lambda: _addresses(k, tile, source))
    except LayoutError as error:
        raise TileError(f"read_transposed: {error.sentence}", k.place()) from None
    assert isinstance(made, _Transposed)
    op, step = _READS[f.bits], (96 if f.bits == 6 else 64) // 32
    with operation(k, f"read {tile.name} turned from {source}", [source.index, tile.index], writes=tile.registers.mask):
        for row, column in tile.places():
            base = tile.base(row, column)
            with k.scratch("odd_triples", 4 * (f.bits == 6) or 1) as spare:
                moves: list[tuple[Reg, Reg]] = []
                for piece in range(len(transposed_pieces(f))):
                    register, offset = made.places[source.number, row, column, piece]
                    target = base[piece * step:piece * step + step - 1]
                    if step == 3 and target.index % 2:
                        moves += [(target[number], spare[number]) for number in range(3)]
                        target = spare[0:2]
                    k.emit(op, target, made.registers[register], offset=offset, uses=source.range)
                for target, held in moves:
                    k.v_mov_b32(target, held)


@dataclass(frozen=True)
class _Transposed:
    registers: tuple[Reg, ...]
    places: dict[tuple[int, int, int, int], tuple[int, int]]  # (cell, fragment row, fragment column, piece)


def _addresses(k: TileBuilder, tile: Tile, source: SharedPart) -> _Transposed:
    stored, f, wave = source.tile, tile.fragment, source.wave
    at = Places(stored.placement, stored.rows, stored.columns)
    waves = range(wave.count if wave is not None else 1)
    keys, vectors = [], []
    for row, column in tile.places():
        for number, lanes in enumerate(transposed_pieces(f)):
            vector = [_address(at, f, w * source.rows + column * f.columns + a, row * f.rows + b) for w in waves for a, b in lanes]
            for cell, low in enumerate(stored.lows):
                keys.append((cell, row, column, number))
                vectors.append([address + low for address in vector])
    split = split_immediates(vectors, DS_IMMEDIATES)
    registers = []
    for number, base in enumerate(split.bases):
        name = f"{stored.name}_{tile.name.partition('[')[0]}_turned{number or ''}"
        if wave is None:
            registers.append(emit_address(k, name, lambda lane, of=base: of[lane], k.lane))
        else:
            registers.append(emit_address(k, name, lambda of=base, by=wave.name, **values: of[values[by] * LANES + values["lane"]], k.lane,
                                          (wave,)))
    return _Transposed(tuple(registers), dict(zip(keys, split.places, strict=True)))
