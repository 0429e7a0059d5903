"""Tiles whose columns end at a limit: `load` and `store_tile` with a `limit` that may cut a fragment anywhere.

Wide accesses stay as they are without a limit; a lane of which one would move a column at the limit or beyond it names an offset beyond the
descriptor, where a load gives 0 and a store does nothing. What such lanes still have before the limit, in the one fragment that the
limit cuts, moves in a cold block: loads by dwords and at last by what is left of one, stores by elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import groupby
from typing import TYPE_CHECKING, Protocol

from asmgen.author.address.addressing import WaveIndex
from asmgen.author.ops.masks import lane_coordinate
from asmgen.author.ops.tilepieces import LOADS, STORES, TilePiece
from asmgen.author.tiles.globals import Matrix
from asmgen.author.tiles.tiles import Tile
from asmgen.isa.bufferformats import MOST_RECORDS
from asmgen.isa.records import dataclass
from asmgen.isa.registers import Reg, exec_, vcc

if TYPE_CHECKING:
    from asmgen.author.builders.tilebuilder import TileBuilder

OUTSIDE = 0xFFFFE000  # beyond a descriptor of up to 4 GiB less 8 KiB, with room for an immediate and 16 bytes
BEYOND = MOST_RECORDS + 1 - OUTSIDE  # bytes that a descriptor does not show where some lanes name an offset beyond it
_NO_COLUMN = 0xC0000000  # as a signed number far below every column
_DWORD = 32
_TOGETHER = 3  # rows whose cut dwords are loaded at once: two scratch registers each


@dataclass(frozen=True)
class Bound:
    """Columns that exist from the wave's first one on, in signed SGPRs: `left` for single elements, `wide` for accesses of several, which
    has none where rows begin inside of dwords. `lane` is a VGPR with the lane's first column in a fragment; `known` is `left` where the
    build knows it."""

    left: Reg
    wide: Reg
    lane: Reg
    known: int | None

    def cuts(self, tile: Tile, number: int) -> bool:
        """Whether the limit may cut fragments of that column of fragments, as far as the build knows."""
        size = tile.fragment.columns
        return self.known is None or number * size < self.known and (self.wide != self.left or self.known < (number + 1) * size)


class Move(Protocol):
    """Emits an access of registers at a piece's address plus an offset in bytes; `instead` is the register with the address."""

    def __call__(self, op: str, registers: Reg, piece: TilePiece, more: int = 0, instead: Reg | None = None) -> None:
        """The access."""


Base = Callable[[TilePiece], Reg]
"""The register with a piece's address, but for an immediate."""


@contextmanager
def bounded(k: TileBuilder, tile: Tile, columns: WaveIndex | None, limit: Reg | int) -> Iterator[Bound]:
    """The bound that a limit is for the wave's part of the columns."""
    with lane_coordinate(k, tile.fragment, 1) as lane, k.scratch("columns_left", file="s") as left:
        k.s_mov_b32(left, limit)
        if columns is not None:
            with k.scratch("first_column_of_wave", file="s") as corner:
                k.s_mul_i32(corner, columns.register, tile.columns)
                k.s_sub_u32(left, left, corner)
        yield Bound(left, left, lane, limit if isinstance(limit, int) and columns is None else None)


@contextmanager
def unless_odd(k: TileBuilder, bound: Bound, matrix: Matrix, column: Reg | int) -> Iterator[Bound]:
    """The bound with no columns for wide accesses where the matrix's rows, from `column` on, do not begin at multiples of 4 bytes."""
    size, stride = matrix.bits // 8, matrix.stride_bytes(k)
    with k.scratch("wide_columns_left", file="s") as wide:
        if isinstance(column, Reg):
            k.s_lshl_b32(wide, column, size.bit_length() - 1)
            k.s_or_b32(wide, wide, stride)
        else:
            k.s_or_b32(wide, stride, column * size % 4)
        k.s_or_b32(wide, wide, matrix.pointer[0])
        k.s_and_b32(wide, wide, 3)
        k.s_cselect_b32(wide, _NO_COLUMN, bound.left)
        yield Bound(bound.left, wide, bound.lane, bound.known)


def lanes_inside(k: TileBuilder, bound: Bound, bits: int, piece: TilePiece) -> None:
    """VCC: the lanes of which a piece, of elements of `bits`, has all columns before the limit."""
    _before(k, vcc, bound.left if piece.bits == bits else bound.wide, piece.column + piece.bits // bits - 1, bound.lane)


def send_outside(k: TileBuilder, out: Reg, offset: Reg) -> None:
    """The offset in lanes of VCC, one outside of the descriptor in others."""
    k.v_mov_b32(out, OUTSIDE)  # v_cndmask reads a mask, so it takes no literal
    k.v_cndmask_b32(out, out, offset, vcc)


def load_rest(k: TileBuilder, tile: Tile, bound: Bound, pieces: Sequence[TilePiece], move: Move, base: Base) -> None:
    """What `send_outside` kept wide loads from, before the limit: all of it in registers that these loads have set to 0."""
    bits = tile.fragment.bits
    together = max(1, _DWORD // bits)
    for number in range(tile.across):
        groups = _groups(tile, number, pieces)
        if not bound.cuts(tile, number) or all(piece.bits == bits for group in groups for piece in group):
            continue
        with _cut(k, f"cut_load_{tile.name}", bound, tile, number):
            _load_dwords(k, bound, bits, groups, move)
            if together > 1:
                _load_parts(k, bound, bits, together, groups, move, base)


def store_rest(k: TileBuilder, tile: Tile, bound: Bound, pieces: Sequence[TilePiece], move: Move,
               reach: Callable[[TilePiece], object]) -> None:
    """What `send_outside` kept wide stores from, before the limit. `reach` is called before the moves of each piece, all lanes on."""
    bits = tile.fragment.bits
    for number in range(tile.across):
        of_column = sorted((piece for group in _groups(tile, number, pieces) for piece in group if piece.bits > bits),
                           key=lambda piece: (piece.row, piece.column))
        if not of_column or not bound.cuts(tile, number):
            continue
        with _cut(k, f"cut_store_{tile.name}", bound, tile, number), k.scratch("stored", 2, "s") as stored, \
                k.scratch("inside", 2, "s") as inside:
            for piece in of_column:
                count = piece.bits // bits
                k.s_mov_b64(exec_, -1)
                reach(piece)
                _before(k, stored, bound.wide, piece.column + count - 1, bound.lane)
                for item in range(count):
                    k.s_mov_b64(exec_, -1)
                    _before(k, inside, bound.left, piece.column + item, bound.lane)
                    _store_element(k, piece, item, bits, move, inside, stored)


def _groups(tile: Tile, number: int, pieces: Sequence[TilePiece]) -> list[list[TilePiece]]:
    """The pieces of one column of fragments, those of the same columns together."""
    size = tile.fragment.columns
    mine = sorted((piece for piece in pieces if piece.column // size == number), key=lambda piece: (piece.column, piece.bits))
    return [list(group) for _, group in groupby(mine, key=lambda piece: (piece.column, piece.bits))]


@contextmanager
def _cut(k: TileBuilder, name: str, bound: Bound, tile: Tile, number: int) -> Iterator[None]:
    """A block that is entered where the limit cuts a column of fragments, or wide accesses did nothing for it. It leaves all lanes on."""
    size = tile.fragment.columns
    with k.block(name, cold=True, nested=True):
        uncut = k.fresh("uncut")
        k.s_cmp_ge_i32(bound.wide, (number + 1) * size)
        k.s_cbranch_scc1(uncut)
        k.s_cmp_le_i32(bound.left, number * size)
        k.s_cbranch_scc1(uncut)
        yield
        k.s_mov_b64(exec_, -1)
        k.label(uncut)


def _before(k: TileBuilder, lanes: Reg, left: Reg, column: int, lane: Reg, op: str = "v_cmp_gt_i32") -> None:
    """`lanes` (SGPRs): those whose own column and `column` more are less than `left`, or as `op` compares."""
    if not column:
        k.emit(op, lanes, left, lane)
        return
    with k.scratch("last_column", file="s") as last:
        k.s_sub_u32(last, left, column)
        k.emit(op, lanes, last, lane)


def _load_dwords(k: TileBuilder, bound: Bound, bits: int, groups: list[list[TilePiece]], move: Move) -> None:
    """Dwords of the cut pieces, or elements that are longer."""
    size = max(_DWORD, bits)
    count = size // bits
    with k.scratch("loaded", 2, "s") as loaded, k.scratch("inside", 2, "s") as inside:
        for group in groups:
            column, items = group[0].column, group[0].bits // bits
            if items == count:
                continue  # loaded whole or not at all
            k.s_mov_b64(exec_, -1)
            _before(k, loaded, bound.wide, column + items - 1, bound.lane)
            k.s_not_b64(exec_, loaded)
            _clear(k, [piece.registers for piece in group])
            for first in range(0, items, count):
                k.s_mov_b64(exec_, -1)
                _before(k, inside, bound.left, column + first + count - 1, bound.lane)
                k.s_andn2_b64(exec_, inside, loaded)
                for piece in group:
                    move(LOADS[size], _part(piece, first * bits, size), piece, first * bits // 8)


def _clear(k: TileBuilder, registers: Sequence[Reg]) -> None:
    """Set registers to 0 after the loads that are still on their way to them: "auto" puts the waits for these before them. Loads return in
    order, so what follows would land after them without; but a register with two loads in flight is what checks warn of."""
    with k.waits("auto"):
        for register in (tuples[number] for tuples in registers for number in range(tuples.count)):
            k.emit("v_accvgpr_write_b32" if register.file == "a" else "v_mov_b32", register, 0)


def _load_parts(k: TileBuilder, bound: Bound, bits: int, together: int, groups: list[list[TilePiece]], move: Move, base: Base) -> None:
    """The dword that the limit cuts: one half, or one to three bytes; what is not loaded stays 0."""
    done = k.fresh("no_part")
    k.s_mov_b64(exec_, -1)
    with k.scratch("part", file="s") as part, k.scratch("cut_dword", file="s") as cut:
        k.s_and_b32(part, bound.left, together - 1)
        k.s_cbranch_scc0(done)
        k.s_sub_u32(cut, bound.left, part)
        for group in groups:
            for at in range(0, len(group), _TOGETHER):
                _load_part(k, bound, bits, (part, cut), group[at:at + _TOGETHER], move, base)
        k.label(done)


def _load_part(k: TileBuilder, bound: Bound, bits: int, where: tuple[Reg, Reg], pieces: Sequence[TilePiece], move: Move,
               base: Base) -> None:
    """The elements of a cut dword, `where` (their number, the dword's first column), of pieces of the same columns: into registers of their
    own, then into that of the piece which has the dword. No load writes a half and keeps the other where SRAM ECC is on (LLVM 22), so three
    bytes are put together."""
    part, cut = where
    column, items, size = pieces[0].column, pieces[0].bits // bits, bits // 8
    with ExitStack() as stack:
        first = stack.enter_context(k.scratch("part_bytes"))
        inside, number = stack.enter_context(k.scratch("inside", 2, "s")), stack.enter_context(k.scratch("of_part", file="s"))
        halves = [stack.enter_context(k.scratch("low_half")) for _ in pieces]
        bytes_ = [stack.enter_context(k.scratch("third_byte")) for _ in pieces] if size == 1 else []
        k.s_mov_b64(exec_, -1)
        if column:
            k.s_sub_u32(number, cut, column)
        k.v_sub_u32(first, number if column else cut, bound.lane)
        k.v_cmp_gt_u32(inside, items, first)
        if size > 1:
            k.v_lshlrev_b32(first, size.bit_length() - 1, first)
        _clear(k, [*halves, *bytes_])
        k.s_mov_b64(exec_, inside)
        one_byte, even = k.fresh("one_byte"), k.fresh("even_bytes")
        if size == 1:
            k.s_bitcmp1_b32(part, 1)
            k.s_cbranch_scc0(one_byte)
        for piece, half in zip(pieces, halves, strict=True):
            k.v_add_u32(half, base(piece), first)
            move(LOADS[16], half, piece, 0, half)
        if size == 1:
            k.label(one_byte)
            k.s_and_b32(number, part, 2)
            k.s_bitcmp1_b32(part, 0)
            k.s_cbranch_scc0(even)
            for piece, byte in zip(pieces, bytes_, strict=True):
                k.v_add3_u32(byte, base(piece), first, number)
                move(LOADS[8], byte, piece, 0, byte)
            k.label(even)
            k.s_lshl_b32(number, number, 3)
            with k.waits("auto"):
                for half, byte in zip(halves, bytes_, strict=True):
                    k.v_lshl_or_b32(half, byte, number, half)
        for at in range(0, items * bits, _DWORD):
            k.s_mov_b64(exec_, inside)
            k.v_cmp_eq_u32(vcc, at // 8, first)
            k.s_mov_b64(exec_, vcc)
            with k.waits("auto"):  # after the loads that are still on their way to the piece, as in `_clear`
                for piece, half in zip(pieces, halves, strict=True):
                    target = _part(piece, at, _DWORD)
                    k.emit("v_accvgpr_write_b32" if target.file == "a" else "v_mov_b32", target, half)


def _store_element(k: TileBuilder, piece: TilePiece, item: int, bits: int, move: Move, inside: Reg, stored: Reg) -> None:
    """One element of the lanes `inside` whose piece was not `stored`. All lanes are on before, and some after."""
    at = piece.half * 16 + item * bits
    register = _part(piece, at // _DWORD * _DWORD, max(bits, _DWORD))
    ops = STORES[bits]
    if at % 16 == 0:
        k.s_andn2_b64(exec_, inside, stored)
        move(ops[at % _DWORD // 16], register, piece, item * bits // 8)
        return
    with k.scratch("odd_bytes") as odd:  # stores take the lowest byte of a half
        if register.file == "a":
            k.v_accvgpr_read_b32(odd, register)
        k.v_lshrrev_b32(odd, 8, odd if register.file == "a" else register)
        k.s_andn2_b64(exec_, inside, stored)
        move(ops[at % _DWORD // 16], odd, piece, item * bits // 8)


def _part(piece: TilePiece, first: int, bits: int) -> Reg:
    """The registers of `bits` bits of a piece from bit `first` on."""
    return piece.registers[first // _DWORD:first // _DWORD + bits // _DWORD - 1]
