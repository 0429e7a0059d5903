"""Additions to memory: what `store_tile(add=True)` emits in place of stores.

f32 adds element by element; bf16 and f16 add two neighbours at once, which begin at multiples of 4 bytes. gfx942 has packed bf16 by
global instructions alone: those know no end of a buffer, so EXEC keeps lanes out of what the descriptor does not show.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Protocol

from asmgen.author.ops.tilepieces import TilePiece
from asmgen.author.tiles.globals import Matrix
from asmgen.author.tiles.tiles import Tile, TileError
from asmgen.isa.registers import Reg, exec_, vcc
from asmgen.isa.table import opcode

if TYPE_CHECKING:
    from asmgen.author.builders.tilebuilder import TileBuilder

_ADDS = {"f32": "buffer_atomic_add_f32", "f16": "buffer_atomic_pk_add_f16", "bf16": "buffer_atomic_pk_add_bf16"}
_GLOBAL = {"bf16": "global_atomic_pk_add_bf16"}
_DWORD = 32


class Adder(Protocol):
    """Emits the addition of one register at an offset (a VGPR) and an immediate."""

    def __call__(self, register: Reg, here: Reg, offset: int) -> None:
        """The addition."""


def added_pieces(k: TileBuilder, tile: Tile, matrix: Matrix, pieces: Sequence[TilePiece], column: Reg | int,
                 limit: Reg | int | None, multiple: int) -> list[TilePiece]:
    """The pieces of a store as single registers; `multiple` divides the limit.

    Raises TileError for a type that memory does not add, single 16-bit elements, and a limit or rows that may part two of them.
    """
    if tile.dtype not in _ADDS:
        raise TileError(f"store: memory adds {', '.join(_ADDS)}, not {tile.dtype}; convert(k, ...) {tile} first", k.here())
    parted = _parted(tile, matrix, pieces, column, limit, multiple)
    if parted:
        raise TileError(f"store: additions of {tile.dtype} go two columns at a time, and {parted} may part two; even numbers that the "
                        "build knows, a fragment with neighbours in a lane (M.d.T), or f32 would do", k.here())
    return [TilePiece(piece.registers[number:number], 0, _DWORD, piece.row, piece.column + number * _DWORD // tile.fragment.bits)
            for piece in pieces for number in range(max(1, piece.bits // _DWORD))]


def _parted(tile: Tile, matrix: Matrix, pieces: Sequence[TilePiece], column: Reg | int, limit: Reg | int | None,
            multiple: int) -> str:
    """What may part two columns of a register, "" where nothing does as far as the build knows."""
    if tile.fragment.bits == _DWORD:
        return ""
    if any(piece.bits < _DWORD for piece in pieces):
        return "a lane with single columns"
    if isinstance(column, int) and column % 2:
        return f"a first column of {column}"
    if isinstance(matrix.stride, int) and matrix.stride % 2:
        return f"rows of {matrix.stride} elements"
    even = limit % 2 == 0 if isinstance(limit, int) else limit == matrix.columns_register and matrix.multiple % 2 == 0
    return "" if limit is None or even or multiple % 2 == 0 else f"a limit of {limit}"


@contextmanager
def adding(k: TileBuilder, dtype: str, descriptor: Reg, advance: Reg | int, nontemporal: bool) -> Iterator[Adder]:
    """What adds registers of that type to the buffer."""
    op = _ADDS[dtype]
    if k.arch in opcode(op).archs:
        def add_in_range(register: Reg, here: Reg, offset: int) -> None:
            k.emit(op, register, here, descriptor, advance, offen=True, offset=offset, nt=nontemporal)

        yield add_in_range
        return
    with ExitStack() as stack:
        base, records = descriptor[0:1], descriptor[2]
        if isinstance(advance, Reg):
            base = stack.enter_context(k.scratch("base_of_step", 2, "s"))
            records = stack.enter_context(k.scratch("bytes_of_step", file="s"))
            k.s_add_u32(base[0], descriptor[0], advance)
            k.s_addc_u32(base[1], descriptor[1], 0)
            k.s_sub_u32(records, descriptor[2], advance)
        end = stack.enter_context(k.scratch("last_byte"))

        def add(register: Reg, here: Reg, offset: int) -> None:
            with k.block("add", nested=True):
                k.v_add_u32(end, offset + _DWORD // 8 - 1, here)
                k.v_cmp_gt_u32(vcc, records, end)
                k.s_mov_b64(exec_, vcc)
                k.emit(_GLOBAL[dtype], here, register, base, offset=offset, nt=nontemporal)
                k.s_mov_b64(exec_, -1)

        yield add
