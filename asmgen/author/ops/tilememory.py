"""Register tiles from and to memory: buffer loads and stores through the descriptor of a matrix's rows.

    load(k, R[t + 1], rows.k(t + 1), rows=wm)          # the wave's rows, columns of iteration t + 1
    store_tile(k, target, P, column=column0, rows=wm, columns=wn, nontemporal=True)

A lane's neighbours in a row move by one instruction of up to 128 bits. Rows beyond the matrix read as 0 and are not written: the descriptor
ends after them. Columns have no such end; `limit` bounds them to the element, and only the fragment that it cuts moves by less
(`cutcolumns`). Loads want pointer, stride and first column to be multiples of 4 bytes, stores too except for those with a `limit`, which
go by elements where they are not.
Tiles of 4 and 6 bits move as bytes: `views.as_bytes(tile)`. Their columns and their `limit` count bytes, so a limit stands between two
elements of 4 bits, or four of 6.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import ExitStack
from itertools import groupby
from typing import TYPE_CHECKING

from asmgen.author.address.addressing import WaveIndex, emit_address
from asmgen.author.ops.cutcolumns import BEYOND, bounded, lanes_inside, load_rest, send_outside, store_rest, unless_odd
from asmgen.author.ops.masks import lane_coordinates
from asmgen.author.ops.tilepieces import LOADS, PAGE, STORES, TilePiece, pieces_of
from asmgen.author.step.iterations import StepIndex, operation
from asmgen.author.tiles.globals import Rows, Slice
from asmgen.author.tiles.tiles import Tile, TileError
from asmgen.isa.registers import Reg

if TYPE_CHECKING:
    from asmgen.author.builders.tilebuilder import TileBuilder


def load(k: TileBuilder, tile: Tile, source: Slice | Rows, rows: WaveIndex | None = None, columns: WaveIndex | None = None,
         column: Reg | int = 0, limit: Reg | int | None = None, nontemporal: bool = False, at: StepIndex | None = None,
         order: Callable[[int], int] | None = None) -> None:
    """Memory to registers: the tile's rows from the source's first on (those of the wave, where `rows` is given), its columns from
    `column` on. `order` says which row of the source each one is, and is a permutation of the bits of its number.

    The offsets stand in registers that are computed once, before a loop; one a row that a lane holds. `limit` (a number or an SGPR)
    counts the matrix's columns from `column` on that exist (signed); others become 0, and nothing of them is read. Raises TileError where
    types differ or a lane's elements are narrower than an instruction moves.
    """
    part = source if isinstance(source, Slice) else Slice(source, None)
    pieces = pieces_of(k, "load", tile, part.rows)
    first = _offsets(k, tile, part.rows, rows, columns, column, pieces, order)

    def address(piece: TilePiece) -> tuple[Reg, int]:
        page, offset = divmod(piece.column * tile.fragment.bits // 8, PAGE)
        return first[piece.row, page], offset

    with operation(k, f"load {tile.name} from {part}", [tile.index, part.index], writes=tile.registers.mask, at=at), ExitStack() as stack:
        part.rows.check_reach(k, 0, 0 if limit is None else BEYOND)
        descriptor = part.rows.resource(k)
        advance = k.advance(part, tile.columns)

        def move(op: str, registers: Reg, piece: TilePiece, more: int = 0, instead: Reg | None = None) -> None:
            base, offset = address(piece)
            k.emit(op, registers, instead or base, descriptor, advance, offen=True, offset=offset + more, nt=nontemporal)

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
        load_rest(k, tile, bound, pieces, move)


def store_tile(k: TileBuilder, target: Rows, tile: Tile, rows: WaveIndex | None = None, columns: WaveIndex | None = None,
               column: Reg | int = 0, limit: Reg | int | None = None, nontemporal: bool = False, at: StepIndex | None = None) -> None:
    """Registers to memory, of any element type, as `load` the other way round; AGPRs too. Offsets are computed where it stands. Columns
    from `limit` on are not written."""
    pieces = pieces_of(k, "store", tile, target)
    bits = tile.fragment.bits
    with operation(k, f"store {tile.name}", [tile.index], reads=tile.registers.mask, at=at), ExitStack() as stack:
        target.check_reach(k, 0, 0 if limit is None else BEYOND)
        descriptor = target.resource(k)
        stride = target.matrix.stride_bytes(k)
        base, here = (stack.enter_context(k.scratch(name)) for name in ("tile_offset", "row_offset"))
        jump = stack.enter_context(k.scratch("row_jump", file="s"))
        _base(k, base, tile, target, rows, columns, column)
        last: list[tuple[int, int]] = []  # the row and page that `here` has

        def address(piece: TilePiece) -> int:
            page, offset = divmod(piece.column * bits // 8, PAGE)
            if last != [(piece.row, page)]:
                k.s_mul_i32(jump, stride, piece.row)
                if page:
                    k.s_add_u32(jump, jump, page * PAGE)
                k.v_add_u32(here, jump, base)
                last[:] = [(piece.row, page)]
            return offset

        def reach_again(piece: TilePiece) -> None:
            last.clear()
            address(piece)

        def move(op: str, registers: Reg, piece: TilePiece, more: int = 0, instead: Reg | None = None) -> None:
            offset = address(piece) + more
            k.emit(op, registers, instead or here, descriptor, 0, offen=True, offset=offset, nt=nontemporal)

        bound = stack.enter_context(bounded(k, tile, columns, limit)) if limit is not None else None
        if bound is not None and any(32 > bits < piece.bits for piece in pieces):
            bound = stack.enter_context(unless_odd(k, bound, target.matrix, column))
        for piece in sorted(pieces, key=lambda one: (one.row, one.column)):
            op = STORES[piece.bits][piece.half]
            if bound is None:
                move(op, piece.registers, piece)
                continue
            address(piece)
            lanes_inside(k, bound, bits, piece)
            with k.scratch("bounded") as offset:
                send_outside(k, offset, here)
                move(op, piece.registers, piece, 0, offset)
        if bound is not None:
            store_rest(k, tile, bound, pieces, move, reach_again)


def _offsets(k: TileBuilder, tile: Tile, source: Rows, rows: WaveIndex | None, columns: WaveIndex | None, column: Reg | int,
             pieces: list[TilePiece], order: Callable[[int], int] | None) -> dict[tuple[int, int], Reg]:
    """The VGPR of each row of a lane and page of immediates, made once."""
    key = ("load", source.matrix, tile.fragment, tile.rows, tile.columns, rows, columns, column, order)
    made = k.made.get(key)
    if made is None:
        wanted = sorted({(piece.row, piece.column * tile.fragment.bits // 8 // PAGE) for piece in pieces})
        if order is not None:
            _check_order(k, tile, rows, {row for row, _ in wanted}, order)
        made = k.made[key] = k.hoist(lambda: _new_offsets(k, tile, source, rows, columns, column, wanted, order))
    assert isinstance(made, dict)
    return made


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
    number = sum(isinstance(one, tuple) and one[0] == "load" for one in k.made)
    name = f"{source.matrix.name}_{tile.name.partition('[')[0]}_offset{number or ''}"
    stride = source.matrix.stride_bytes(k)
    for index, (down, page) in enumerate(wanted):
        held[down, page] = k.registers.vgprs(1, f"{name}_{index}")
        if index == 0:
            _base(k, held[down, page], tile, source, rows, columns, column, order)
            continue
        with k.scratch("row_jump", file="s") as jump:
            k.s_mul_i32(jump, stride, down if order is None else order(down))
            if page:
                k.s_add_u32(jump, jump, page * PAGE)
            k.v_add_u32(held[down, page], jump, held[wanted[0]])
    return held


def _base(k: TileBuilder, out: Reg, tile: Tile, rows_of: Rows, rows: WaveIndex | None, columns: WaveIndex | None,
          column: Reg | int, order: Callable[[int], int] | None = None) -> None:
    """The byte of the lane's first element, from the descriptor's base on."""
    row, lane_column = lane_coordinates(k, tile.fragment)
    size = tile.fragment.bits // 8
    with ExitStack() as stack:
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
        k.v_mul_lo_u32(out, row, rows_of.matrix.stride_bytes(k))
        k.v_add_u32(first, column, lane_column)
        if columns is not None:
            with k.scratch("first_column_of_wave", file="s") as corner:
                k.s_mul_i32(corner, columns.register, tile.columns)
                k.v_add_u32(first, corner, first)
        k.v_lshl_add_u32(out, first, size.bit_length() - 1, out)
