"""Epilogues: accumulator tiles to memory, converted, with bounds.

A lane holds runs of neighbouring columns of a row (`M.d.T`: four), which one wide store moves. Rows beyond the matrix are
dropped by the descriptor. Where columns may be cut or rows do not begin at a multiple of a run's bytes, a second path stores element
by element under EXEC; both paths are in the code, and a scalar branch chooses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from asmgen.author.addressing import WaveIndex, emit_address
from asmgen.author.convert import to_bf16_pairs
from asmgen.author.globals import Rows
from asmgen.author.tiles import Tile, TileError
from asmgen.isa.registers import Reg, exec_

if TYPE_CHECKING:
    from asmgen.author.tilebuilder import TileBuilder

_STORE = {2: "buffer_store_dword", 4: "buffer_store_dwordx2", 8: "buffer_store_dwordx4"}


@dataclass(frozen=True)
class Corner:
    """One accumulator tile of a wave and where it stands in the workgroup's tile, the wave's own part left out."""

    tile: Tile
    row: int
    column: int


def store(k: TileBuilder, target: Rows, column0: Reg, corners: Sequence[Corner], rows: WaveIndex, columns: WaveIndex, width: int) -> None:
    """Store the accumulators as bf16 into rows of a matrix.

    The wave (r, c) has each tile at (corner.row + r * tile.rows, corner.column + c * tile.columns); `column0` is an SGPR, `width` the
    columns of the workgroup's tile. Raises TileError for fragments whose lanes hold no runs of columns.
    """
    first = corners[0].tile
    run = _run(first)
    matrix = target.matrix
    descriptor = target.resource(k)
    table = first.fragment.table
    row = emit_address(k, "d_row", lambda lane, **wave: table[0][lane][0] + wave[rows.name] * first.rows, k.lane, (rows,))
    column = emit_address(k, "d_column", lambda lane, **wave: table[0][lane][1] + wave[columns.name] * first.columns, k.lane, (columns,))
    plan = k.registers
    offset = plan.vgprs(1, "d_offset")
    k.v_add_u32(column, column0, column)
    k.v_mul_lo_u32(offset, row, matrix.stride_bytes(k))
    k.v_lshl_add_u32(offset, column, 1, offset)
    plan.release(row)
    blocks = list(_blocks(corners, first, run))
    slow, done = k.fresh("cut_columns"), k.fresh("stored")
    with k.scratch("left", file="s") as left, k.scratch("odd", file="s") as odd:
        k.s_sub_u32(left, matrix.columns_register, column0)
        k.s_cmp_lt_i32(left, width)
        k.s_cbranch_scc1(slow)
        k.s_or_b32(odd, matrix.stride_bytes(k), matrix.pointer[0])
        k.s_and_b32(odd, odd, 2 * run - 1)
        k.s_cbranch_scc1(slow)
    _whole(k, blocks, offset, descriptor, matrix.stride_bytes(k), run)
    k.s_branch(done)
    k.label(slow)
    _cut(k, blocks, offset, column, descriptor, matrix.columns_register, matrix.stride_bytes(k), run)
    k.label(done)
    plan.release(column, offset)


@dataclass(frozen=True)
class _Block:
    """A run of columns of one fragment: its registers, and its corner from the lane's first element on."""

    registers: tuple[Reg, ...]
    row: int
    column: int


def _run(tile: Tile) -> int:
    """How many neighbouring columns of one row a lane holds side by side in its registers."""
    table = tile.fragment.table
    run = 1
    while run < len(table) and table[run][0] == (table[0][0][0], table[0][0][1] + run):
        run += 1
    if run not in _STORE or tile.dtype != "f32":
        raise TileError(f"store: {tile} has runs of {run} columns in a lane, and stores want 2, 4 or 8 of f32; use M.d.T as its fragment")
    return run


def _blocks(corners: Sequence[Corner], first: Tile, run: int) -> Iterator[_Block]:
    fragment = first.fragment
    origin = fragment.table[0][0]
    for corner in corners:
        for row, column in corner.tile.places():
            base = corner.tile.base(row, column)
            for item in range(0, fragment.items, run):
                r, c = fragment.table[item][0]
                yield _Block(tuple(base[item + number] for number in range(run)), corner.row + row * fragment.rows + r - origin[0],
                             corner.column + column * fragment.columns + c - origin[1])


def _whole(k: TileBuilder, blocks: Sequence[_Block], offset: Reg, descriptor: Reg, stride: Reg, run: int) -> None:
    """Wide stores: a vector offset for each row, since a scalar one could pass the descriptor's end, columns by immediates."""
    with k.scratch("row_offset", file="s") as jump, k.scratch("at") as at:
        last = None
        for block in sorted(blocks, key=lambda block: (block.row, block.column)):
            if block.row != last:
                k.s_mul_i32(jump, stride, block.row)
                k.v_add_u32(at, jump, offset)
                last = block.row
            with _values(k, block.registers) as values:
                k.emit(_STORE[run], to_bf16_pairs(k, values), at, descriptor, 0, offen=True, offset=2 * block.column)


@contextmanager
def _values(k: TileBuilder, registers: Sequence[Reg]) -> Iterator[Sequence[Reg]]:
    """VGPRs with the values: accumulators in AGPRs are moved, as no VALU instruction reads those."""
    if registers[0].file == "v":
        yield registers
        return
    with k.scratch("moved", len(registers)) as moved:
        for number, register in enumerate(registers):
            k.v_accvgpr_read_b32(moved[number], register)
        yield [moved[number] for number in range(moved.count)]


def _cut(k: TileBuilder, blocks: Sequence[_Block], offset: Reg, column: Reg, descriptor: Reg, columns: Reg, stride: Reg, run: int) -> None:
    """Element by element, the lanes beyond the last column switched off."""
    for block in blocks:
        with _values(k, block.registers) as values:
            words = to_bf16_pairs(k, values)
            for number in range(words.count if block.registers[0].file == "a" else 0):
                k.v_accvgpr_write_b32(block.registers[number], words[number])
    with k.scratch("row_offset", file="s") as jump, k.scratch("inside", 2, "s") as inside, k.scratch("at") as at, \
            k.scratch("limit", file="s") as limit:
        for start in sorted({block.column for block in blocks}):
            for number in range(run):
                k.s_sub_u32(limit, columns, start + number)
                k.v_cmp_gt_i32(inside, limit, column)
                k.s_mov_b64(exec_, inside)
                for block in (block for block in blocks if block.column == start):
                    k.s_mul_i32(jump, stride, block.row)
                    k.v_add_u32(at, jump, offset)
                    k.emit("buffer_store_short_d16_hi" if number % 2 else "buffer_store_short", block.registers[number // 2], at,
                           descriptor, 0, offen=True, offset=2 * (start + number))
                k.s_mov_b64(exec_, -1)
