"""Register tiles from and to memory: buffer loads and stores through the descriptor of a matrix's rows.

    load(k, R[t + 1], rows.k(t + 1), rows=wm)          # the wave's rows, columns of iteration t + 1
    store_tile(k, target, P, column=column0, rows=wm, columns=wn, nontemporal=True)

A lane's neighbours in a row move by one instruction of up to 128 bits. Rows beyond the matrix read as 0 and are not written: the descriptor
ends after them. Columns have no such end; `limit` bounds them to the element, and only the fragment that it cuts moves by less
(`cutcolumns`). Loads want pointer, stride and first column to be multiples of 4 bytes, stores too except for those with a `limit`, which
go by elements where they are not.
A vector moves as a row of elements along its axis, whatever lanes share them: from a `k.line(...)` or one row of a matrix, which ends
where its columns end. Of the lanes with the same elements one stores.
Tiles of 4 and 6 bits move as bytes, from and to matrices of their type, and `column` and `limit` count elements: they stand between two
elements of 4 bits, or four of 6. From matrices of i8, `views.as_bytes(tile)` moves, and all counts bytes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from asmgen.author.address.addressing import WaveIndex, emit_address
from asmgen.author.emit.kernel import Kept
from asmgen.author.ops.cutcolumns import BEYOND, bounded, lanes_inside, load_rest, send_outside, store_rest, unless_odd
from asmgen.author.ops.masks import lane_coordinate
from asmgen.author.ops.tileatomics import added_pieces, adding
from asmgen.author.ops.tilepieces import LOADS, PAGE, STORES, TilePiece, pieces_of
from asmgen.author.ops.vectors import Vector
from asmgen.author.step.iterations import StepIndex, operation
from asmgen.author.tiles.globals import Rows, Slice, elements_to_bytes, identity_of
from asmgen.author.tiles.tiles import Tile, TileError
from asmgen.author.tiles.views import as_bytes
from asmgen.isa.arch import LANES
from asmgen.isa.layouts_mfma import element_bits
from asmgen.isa.registers import Reg, vcc

if TYPE_CHECKING:
    from asmgen.author.builders.tilebuilder import TileBuilder


def load(k: TileBuilder, tile: Tile | Vector, source: Slice | Rows, rows: WaveIndex | None = None, columns: WaveIndex | None = None,
         column: Reg | int = 0, limit: Reg | int | None = None, nontemporal: bool = False, at: StepIndex | None = None,
         order: Callable[[int], int] | None = None, spread: bool = False) -> None:
    """Memory to registers: the tile's rows from the source's first on (those of the wave, where `rows` is given), its columns from
    `column` on. `order` says which row of the source each one is, and is a permutation of the bits of its number. Loads that are `spread`,
    before a pipeline, stand among the code up to it, so that the wave need not stand still until their data return.

    The offsets stand in registers that are computed once, before a loop; one a row that a lane holds. `limit` (a number or an SGPR)
    counts the matrix's columns from `column` on that exist (signed); others become 0, and nothing of them is read. Raises TileError where
    types differ or a lane's elements are narrower than an instruction moves.
    """
    part = source if isinstance(source, Slice) else Slice(source, None)
    if isinstance(tile, Vector):
        limit = _end_of_line(k, tile, part.rows, column) if limit is None else limit
        tile, rows, columns = _in_rows(k, "load", tile, part.rows, rows, columns)
    tile, column, limit = _counted_in_bytes(k, "load", tile, part.rows, column, limit)
    pieces = pieces_of(k, "load", tile, part.rows)
    first = _offsets(k, tile, part.rows, rows, columns, column, pieces, order)

    def address(piece: TilePiece) -> tuple[Reg, int]:
        down, offset = _page(part.rows, piece, tile.fragment.bits, order)
        return first[down], offset

    with operation(k, f"load {tile.name} from {part}", [tile.index, part.index], writes=tile.registers.mask, at=at), ExitStack() as stack:
        part.rows.check_reach(k, 0, 0 if limit is None else BEYOND)
        descriptor = part.rows.resource(k)
        advance = k.advance(part, tile.columns)

        def move(op: str, registers: Reg, piece: TilePiece, more: int = 0, instead: Reg | None = None) -> None:
            base, offset = address(piece)
            made = k.emit(op, registers, instead or base, descriptor, advance, offen=True, offset=offset + more, nt=nontemporal)
            if spread and instead is None and k.copy is None:
                k.to_spread.append(made)

        if k.copy is None and not spread:  # later loads of this shape can make their own
            stack.callback(k.registers.spare, *first.values())
        if limit is None:
            for piece in pieces:
                move(LOADS[piece.bits], piece.registers, piece)
            return
        bound = stack.enter_context(bounded(k, tile, columns, limit))
        for _, group in groupby(sorted(pieces, key=lambda one: (one.column, one.row)), key=lambda one: one.column):
            for number, piece in enumerate(group):
                if not number:
                    lanes_inside(k, bound, tile.fragment.bits, piece)
                with k.scratch("bounded") as offset:
                    send_outside(k, offset, address(piece)[0])
                    move(LOADS[piece.bits], piece.registers, piece, 0, offset)
        load_rest(k, tile, bound, pieces, move, lambda piece: address(piece)[0])


def store_tile(k: TileBuilder, target: Slice | Rows, tile: Tile | Vector, rows: WaveIndex | None = None, columns: WaveIndex | None = None,
               column: Reg | int = 0, limit: Reg | int | None = None, nontemporal: bool = False, at: StepIndex | None = None,
               add: bool = False, multiple: int = 1) -> None:
    """Registers to memory, of any element type, as `load` the other way round; AGPRs too. Columns from `limit` on are not written.

    With `add` memory adds what it gets, atomically, in any order: f32, and bf16 and f16 two columns at a time (see `tileatomics`), whose
    limit must be even: `multiple` is what the author knows that divides it.
    Offsets are those of a load of the same shape, else they are computed where the store stands; in a step before the loop.
    """
    part = target if isinstance(target, Slice) else Slice(target, None)
    if isinstance(tile, Vector):
        limit = _end_of_line(k, tile, part.rows, column) if limit is None else limit
        tile, rows, columns = _in_rows(k, "store", tile, part.rows, rows, columns)
    tile, column, limit = _counted_in_bytes(k, "store", tile, part.rows, column, limit)
    pieces = pieces_of(k, "store", tile, part.rows)
    if add:
        pieces = added_pieces(k, tile, part.rows.matrix, pieces, column, limit, multiple)
    title = f"{'add' if add else 'store'} {tile.name}"
    with operation(k, title, [tile.index, part.index], reads=tile.registers.mask, at=at), ExitStack() as stack:
        repeated = _repeated_lanes(tile)
        part.rows.check_reach(k, 0, 0 if limit is None and not repeated else BEYOND)
        descriptor = part.rows.resource(k)
        advance = k.advance(part, tile.columns)
        reach = stack.enter_context(_reaching(k, tile, part.rows, rows, columns, column, pieces))

        def move(op: str, registers: Reg, piece: TilePiece, more: int = 0, instead: Reg | None = None) -> None:
            here, offset = reach(piece)
            k.emit(op, registers, instead or here, descriptor, advance, offen=True, offset=offset + more, nt=nontemporal)

        bound = stack.enter_context(bounded(k, tile, columns, limit)) if limit is not None else None
        if bound is not None and not add and any(32 > tile.fragment.bits < piece.bits for piece in pieces):
            bound = stack.enter_context(unless_odd(k, bound, part.rows.matrix, column))
        once = stack.enter_context(_once(k, repeated)) if repeated else None
        outside = stack.enter_context(k.scratch("bounded")) if bound is not None or once is not None else None
        adder = stack.enter_context(adding(k, tile.dtype, descriptor, advance, nontemporal)) if add else None
        last: tuple[int, int] | None = None  # the row and page of which `outside` is, where it is not different for each piece
        for piece in sorted(pieces, key=lambda one: (one.row, one.column)):
            here, _ = reach(piece)
            if outside is not None and (bound is not None or last != _page(part.rows, piece, tile.fragment.bits)[0]):
                if bound is not None:
                    lanes_inside(k, bound, tile.fragment.bits, piece)
                if once is not None:
                    k.emit("s_mov_b64" if bound is None else "s_and_b64", vcc, *([] if bound is None else [vcc]), once)
                send_outside(k, outside, here)
                last = _page(part.rows, piece, tile.fragment.bits)[0]
            if adder is not None:
                adder(piece.registers, outside or here, reach(piece)[1])
            else:
                move(STORES[piece.bits][piece.half], piece.registers, piece, 0, outside)
        if bound is not None and not add:
            store_rest(k, tile, bound, pieces, move, lambda piece: reach(piece, True))


def _counted_in_bytes(k: TileBuilder, what: str, tile: Tile, rows: Rows, column: Reg | int, limit: Reg | int | None) \
        -> tuple[Tile, Reg | int, Reg | int | None]:
    """A tile of 4- or 6-bit elements, its first column and its limit, as bytes, where the matrix is one of them."""
    bits, m = tile.fragment.bits, rows.matrix
    if bits % 8 == 0 or m.of != tile.dtype:
        return tile, column, limit
    parted = next((one for one in (column, limit) if isinstance(one, int) and one * bits % 8), None)
    if parted is not None:
        raise TileError(f"{what}: column {parted} of {m.name} stands inside of a byte; a multiple of {8 // math.gcd(8, bits)} elements of "
                        f"{tile.dtype} does not", k.here())
    return as_bytes(tile), elements_to_bytes(k, m.name, column, bits), None if limit is None else elements_to_bytes(k, m.name, limit, bits)


def _end_of_line(k: TileBuilder, vector: Vector, source: Rows, column: Reg | int) -> Reg | int | None:
    """The limit of a vector whose last dword the end of the row may cut, which a descriptor would cut whole."""
    m = source.matrix
    if element_bits(vector.dtype) >= 32 or m.multiple * m.bits % 32 == 0:
        return None
    if column == 0:
        return m.columns_register
    if isinstance(column, int) and isinstance(m.columns_register, int):
        return m.columns_register - column
    left = k.registers.sgprs(1, k.registers.unused(f"{m.name}_left"), note="elements of the line from the first one that is moved on")
    k.s_sub_u32(left, m.columns_register, column)
    return left


def _in_rows(k: TileBuilder, what: str, tile: Vector, matrix: Rows, rows: WaveIndex | None, columns: WaveIndex | None) \
        -> tuple[Tile, None, WaveIndex | None]:
    """A vector as the tile of one row that memory has of it, and the waves along that row."""
    along, other = (rows, columns) if tile.axis == "row" else (columns, rows)
    if other is not None:
        raise TileError(f"{what}: {tile} has no {'columns' if tile.axis == 'row' else 'rows'} that waves could share; {tile.axis}s= says "
                        "which part of it a wave has", k.here())
    if matrix.count != 1:
        raise TileError(f"{what}: {tile} is one row in memory, and {matrix.count} rows of {matrix.matrix.name} are not; k.line(...) or "
                        "rows(first, 1) of a matrix would do", k.here())
    return tile.tile, None, along


def _repeated_lanes(tile: Tile) -> int:
    """The bits of a lane's number in which lanes differ that hold the same elements."""
    places = tile.fragment.table[0]
    return sum(1 << bit for bit in range(LANES.bit_length() - 1) if places[1 << bit] == places[0])


@contextmanager
def _once(k: TileBuilder, repeated: int) -> Iterator[Reg]:
    """One lane of those that hold the same elements, as a mask."""
    with k.scratch("once", 2, "s") as once, k.scratch("repeated_lane") as lane:
        k.v_and_b32(lane, repeated, k.lane)
        k.v_cmp_eq_u32(once, 0, lane)
        yield once


def _page(source: Rows, piece: TilePiece, bits: int, order: Callable[[int], int] | None = None) -> tuple[tuple[int, int], int]:
    """Which address register serves a piece, as a row and a page of immediates, and its immediate. Rows of a stride that the build knows
    are bytes like any others."""
    fixed, offset = source.matrix.fixed, piece.column * bits // 8
    if fixed is None:
        page, offset = divmod(offset, PAGE)
        return (piece.row, page), offset
    page, offset = divmod(offset + (piece.row if order is None else order(piece.row)) * fixed, PAGE)
    return (0, page), offset


@contextmanager
def _reaching(k: TileBuilder, tile: Tile, target: Rows, rows: WaveIndex | None, columns: WaveIndex | None, column: Reg | int,
              pieces: list[TilePiece]) -> Iterator[Callable[..., tuple[Reg, int]]]:
    """Addresses of a store's pieces: those that a load has, or temporaries, one row after the other."""
    bits = tile.fragment.bits
    held = _offsets(k, tile, target, rows, columns, column, pieces, None) if k.copy is not None else \
        _known_offsets(k, tile, target, rows, columns, column, pieces, None)
    if held is not None:
        offsets = held

        def known(piece: TilePiece, again: bool = False) -> tuple[Reg, int]:
            down, offset = _page(target, piece, bits)
            return offsets[down], offset

        yield known
        return
    base = _first_offset(k, "tile_offset", tile, target, rows, columns, column)
    with k.scratch("row_offset") as here, k.scratch("row_jump", file="s") as jump:
        last: list[tuple[int, int]] = []  # the row and page that `here` has

        def computed(piece: TilePiece, again: bool = False) -> tuple[Reg, int]:
            down, offset = _page(target, piece, bits)
            if down == (0, 0):
                return base, offset
            if again or last != [down]:
                _jump(k, here, base, jump, target, *down)
                last[:] = [down]
            return here, offset

        yield computed
    k.registers.release(base)


def _jump(k: TileBuilder, out: Reg, base: Reg, jump: Reg, source: Rows, row: int, page: int) -> None:
    """An offset so many rows and pages on."""
    if not row:
        k.v_add_u32(out, page * PAGE, base)
        return
    k.s_mul_i32(jump, source.matrix.stride_bytes(k), row)
    if page:
        k.s_add_u32(jump, jump, page * PAGE)
    k.v_add_u32(out, jump, base)


def _known_offsets(k: TileBuilder, tile: Tile, source: Rows, rows: WaveIndex | None, columns: WaveIndex | None, column: Reg | int,
                   pieces: list[TilePiece], order: Callable[[int], int] | None) -> dict[tuple[int, int], Reg] | None:
    """Those that an operation of the same shape and stride has made, if they serve the pieces and still hold."""
    made = k.made.get(_offsets_key(tile, source, rows, columns, column, order))
    if made is None:
        return None
    assert isinstance(made, Kept) and isinstance(made.value, dict)
    found: dict[tuple[int, int], Reg] = made.value
    inputs = [one for one in (source.matrix.stride, column, *(wave.register for wave in (rows, columns) if wave is not None))
              if isinstance(one, Reg)]
    if any(_page(source, piece, tile.fragment.bits, order)[0] not in found for piece in pieces):
        return None
    if not k.holds_since(made.position, [*found.values(), *inputs]):
        return None
    k.registers.keep(*found.values())
    return found


def _offsets_key(tile: Tile, source: Rows, rows: WaveIndex | None, columns: WaveIndex | None, column: Reg | int,
                 order: Callable[[int], int] | None) -> tuple[object, ...]:
    m = source.matrix
    return "load", identity_of(m.stride), m.bits, tile.fragment, tile.rows, tile.columns, rows, columns, identity_of(column), order


def _offsets(k: TileBuilder, tile: Tile, source: Rows, rows: WaveIndex | None, columns: WaveIndex | None, column: Reg | int,
             pieces: list[TilePiece], order: Callable[[int], int] | None) -> dict[tuple[int, int], Reg]:
    """The VGPR of each row of a lane and page of immediates, made once for all tensors of one stride."""
    known = _known_offsets(k, tile, source, rows, columns, column, pieces, order)
    if known is not None:
        return known
    if order is not None:
        _check_order(k, tile, rows, {piece.row for piece in pieces}, order)
    wanted = sorted({_page(source, piece, tile.fragment.bits, order)[0] for piece in pieces})
    return k.hoist(lambda: _new_offsets(k, tile, source, rows, columns, column, wanted, order))


def _check_order(k: TileBuilder, tile: Tile, rows: WaveIndex | None, of_pieces: set[int], order: Callable[[int], int]) -> None:
    """A lane's row addresses are its first row's plus constants; so the other rows must come after the first in the source."""
    lanes = {row for row, _ in tile.fragment.table[0]}
    for wave in range(rows.count if rows is not None else 1):
        for lane, piece in itertools.product(lanes, of_pieces):
            first = wave * tile.rows + lane
            if order(first + piece) != order(first) + order(piece):
                raise TileError(f"load: the order of {tile}'s rows is no permutation of the bits of their numbers: it takes row {first} to "
                                f"{order(first)} and {piece} to {order(piece)}, but {first + piece} to {order(first + piece)}", k.here())


def _new_offsets(k: TileBuilder, tile: Tile, source: Rows, rows: WaveIndex | None, columns: WaveIndex | None, column: Reg | int,
                 wanted: list[tuple[int, int]], order: Callable[[int], int] | None) -> dict[tuple[int, int], Reg]:
    held: dict[tuple[int, int], Reg] = {}
    name = f"{source.matrix.name}_{tile.name.partition('[')[0]}_offset"
    first = _first_offset(k, name, tile, source, rows, columns, column, order)
    with k.scratch("row_jump", file="s") as jump:
        for down, page in wanted:
            if (down, page) == (0, 0):
                held[down, page] = first
                continue
            held[down, page] = k.registers.vgprs(1, k.registers.unused(name))
            _jump(k, held[down, page], first, jump, source, down if order is None else order(down), page)
    k.made[_offsets_key(tile, source, rows, columns, column, order)] = Kept(held, len(k.items))
    return held


def _first_offset(k: TileBuilder, name: str, tile: Tile, source: Rows, rows: WaveIndex | None, columns: WaveIndex | None,
                  column: Reg | int, order: Callable[[int], int] | None = None) -> Reg:
    """The byte of the lane's first element, from the descriptor's base on, in a VGPR of that name."""
    name = k.registers.unused(name)
    if source.matrix.fixed is not None:
        return _fixed_offset(k, name, tile, source.matrix.fixed, rows, columns, column, order)
    out = k.registers.vgprs(1, name)
    with ExitStack() as stack:
        row, lane_column = (stack.enter_context(lane_coordinate(k, tile.fragment, axis)) for axis in range(2))
        first = stack.enter_context(k.scratch("first_column"))
        if order is not None:
            at, ordered = [line for line, _ in tile.fragment.table[0]], order
            row = emit_address(k, "ordered_row", lambda lane, **wave: ordered(at[lane] + sum(wave.values()) * tile.rows), k.lane,
                               (rows,) if rows is not None else ())
            stack.callback(k.registers.release, row)
        elif rows is not None:
            with k.scratch("first_row", file="s") as corner:
                k.s_mul_i32(corner, rows.register, tile.rows)
                k.v_add_u32(out, corner, row)
            row = out
        k.v_mul_lo_u32(out, row, source.matrix.stride_bytes(k))
        k.v_add_u32(first, column, lane_column)
        if columns is not None:
            with k.scratch("first_column_of_wave", file="s") as corner:
                k.s_mul_i32(corner, columns.register, tile.columns)
                k.v_add_u32(first, corner, first)
        k.v_lshl_add_u32(out, first, (tile.fragment.bits // 8).bit_length() - 1, out)
    return out


def _fixed_offset(k: TileBuilder, name: str, tile: Tile, stride: int, rows: WaveIndex | None, columns: WaveIndex | None,
                  column: Reg | int, order: Callable[[int], int] | None) -> Reg:
    """The same where the build knows the stride: a function of lane and wave, and the byte of an SGPR's column."""
    places, size = tile.fragment.table[0], tile.fragment.bits // 8
    number = column if isinstance(column, int) else 0

    def address(lane: int, **wave: int) -> int:
        row, at = places[lane]
        row += wave.get("down", 0) * tile.rows
        return (row if order is None else order(row)) * stride + (at + wave.get("across", 0) * tile.columns + number) * size

    waves = [replace(wave, name=way) for way, wave in (("down", rows), ("across", columns)) if wave is not None]
    found = emit_address(k, name, address, k.lane, waves)
    if isinstance(column, Reg):
        k.v_lshl_add_u32(found, column, size.bit_length() - 1, found)
    return found
