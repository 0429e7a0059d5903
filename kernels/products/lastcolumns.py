"""The columns of K after the last whole step: each wave loads its own fragments of them, without LDS, and multiplies them after the loop.

    k.pipeline(step, steps, schedule, empty=takes_any_k(k.parameters), then=after_last_columns(k, ends, LastColumns(...)))

The step is that of the loop, with zeros in the columns that A and B do not have; nothing there is read. So D has the bits that a step of
zeros would give, in the same order of K. Rows are loaded as wide as columns allow, lines of matrices stored by columns by elements.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import asmgen as ag
from asmgen.kernels.products.anyk import takes_any_k
from asmgen.kernels.products.epilogue import ProductEpilogue
from asmgen.kernels.products.feed import Feed
from asmgen.kernels.products.prologue import operand
from asmgen.kernels.products.sides import side
from asmgen.kernels.products.split import all_steps, from_column, is_split, own_part, steps_of_each

_TOGETHER = 8  # elements that are in flight beside those that already stand where they are multiplied
_LOAD = {8: "buffer_load_ubyte", 16: "buffer_load_ushort"}


@dataclass(frozen=True)
class LastColumns:
    """What multiplies: accumulators [half of M][half of N], registers of a half of A and of B as the loop has them, their feeds, the tile's
    first row and column, and the waves along both."""

    C: ag.TileGrid
    A: ag.Tile
    B: ag.Tile
    feeds: tuple[Feed, Feed]
    first: tuple[ag.Reg, ag.Reg]
    waves: tuple[ag.WaveIndex, ag.WaveIndex]

    def multiply(self, k: ag.TileBuilder, left: ag.Reg, column: ag.Reg) -> None:
        """C += A B^T of the `left` columns from `column` on."""
        A = k.tile("A_left", self.A.rows, self.A.columns, self.A.fragment, note="a half of the K tail at a time")
        B = [k.tile(f"B{half}_left", self.B.rows, self.B.columns, self.B.fragment) for half in range(2)]
        a, b = (from_last_columns(k, name, tile.dtype, left, column) for name, tile in (("a", A), ("b", B[0])))
        for number in range(2):
            self._load(k, 1, B[number], b, number, left)
        for half in range(2):
            self._load(k, 0, A, a, half, left)
            for number in range(2):
                ag.mma(k, self.C[half, number], A, B[number])
        k.registers.release(A.registers, *(one.registers for one in B))

    def _load(self, k: ag.TileBuilder, number: int, tile: ag.Tile, matrix: ag.Matrix, half: int, left: ag.Reg) -> None:
        feed = self.feeds[number]
        if feed.transposes:
            load_lines(k, tile, matrix, self.first[number], half * feed.rows, self.waves[number], left)
        else:
            rows = matrix.rows(self.first[number], 2 * feed.rows).halves()[half]
            ag.load(k, tile, rows, rows=self.waves[number], limit=left, order=feed.order)


@dataclass(frozen=True)
class AfterLastColumns:
    """The epilogue of a product that takes any k: nothing overlaps the last step."""

    multiply: LastColumns
    then: ProductEpilogue

    @property
    def overlapped(self) -> None:
        """Nothing."""

    def follow(self, k: ag.TileBuilder) -> None:
        """Multiply what is left of K, if this workgroup has it, and store."""
        where_columns_are_left(k, self.multiply.multiply)
        self.then.follow(k)


def after_last_columns(k: ag.TileBuilder, then: ProductEpilogue, columns: LastColumns) -> ProductEpilogue | AfterLastColumns:
    """What follows the loop of a product, whose epilogue overlaps nothing where it takes any k."""
    return AfterLastColumns(columns, then) if takes_any_k(k.parameters) else then


def by_last_wave(k: ag.TileBuilder, C: ag.Tile, fragments: tuple[ag.Fragment, ag.Fragment], first: tuple[ag.Reg, ag.Reg]) -> None:
    """C += A B^T of the K tail, in the last wave alone, of products whose waves share K; A and B are stored by rows."""
    def multiply(k: ag.TileBuilder, left: ag.Reg, column: ag.Reg) -> None:
        tiles = []
        for name, fragment, rows, row in zip("ab", fragments, k.variant.tile, first, strict=False):
            tile = k.tile(f"{name.upper()}_left", rows, k.variant.tile[2], fragment, note="columns after the last whole step")
            ag.load(k, tile, from_last_columns(k, name, tile.dtype, left, column).rows(row, tile.rows), limit=left)
            tiles.append(tile)
        ag.mma(k, C, *tiles)
        k.registers.release(*(tile.registers for tile in tiles))

    where_columns_are_left(k, multiply, k.wave)


def where_columns_are_left(k: ag.TileBuilder, multiply: Callable[[ag.TileBuilder, ag.Reg, ag.Reg], None],
                        wave: ag.WaveIndex | None = None) -> None:
    """Call `multiply(k, left, column)` for code that is passed by where K is whole steps, or where another workgroup has its last columns;
    or another wave than the last `wave`, if that is given."""
    depth = k.variant.tile[2]
    without = k.fresh("k_is_done")
    left, column = k.registers.sgprs(1, "k_left", note="columns of the K tail"), k.registers.sgprs(1, "k_done")
    if wave is not None:
        k.s_cmp_lg_u32(wave.register, wave.count - 1)
        k.s_cbranch_scc1(without)
    if is_split(k.parameters):
        with k.scratch("all_steps", file="s") as steps, k.scratch("each", file="s") as each:
            all_steps(k, steps)
            steps_of_each(k, each, steps)
            own_part(k, left)
            k.s_add_u32(left, left, 1)
            k.s_mul_i32(each, each, left)
            k.s_cmp_lt_u32(each, steps)
            k.s_cbranch_scc1(without)
    k.s_and_b32(left, k.argument("k"), depth - 1)
    k.s_cbranch_scc0(without)
    k.s_sub_u32(column, k.argument("k"), left)
    with k.apart():
        multiply(k, left, column)
    k.label(without)
    k.registers.release("k_left")
    k.registers.release("k_done")


def from_last_columns(k: ag.TileBuilder, name: str, dtype: str, left: ag.Reg, column: ag.Reg) -> ag.Matrix:
    """A or B of what the kernel's code computes from a column of K on, of which there are `left`."""
    return from_column(k, operand(k, name, dtype), column, left, "any_k")


def load_lines(k: ag.TileBuilder, tile: ag.Tile, matrix: ag.Matrix, first: ag.Reg, further: int, wave: ag.WaveIndex, left: ag.Reg) -> None:
    """Load the wave's rows of a tile, from `first` + `further` on, from a matrix whose lines have neighbouring rows of one column of K. Of
    `left` lines; other columns become 0. Rows that the matrix does not have show others, and nothing of them is used."""
    size, fragment = matrix.bits // 8, tile.fragment
    stride, places = matrix.stride_bytes(k), fragment.table
    descriptor = k.registers.sgprs(4, k.registers.unused("lines_left"), align=4)
    edge = matrix.columns_register
    with k.scratch("first_element", file="s") as at, k.scratch("last_element", file="s") as last:
        k.s_sub_u32(last, edge, 1)
        k.s_add_u32(at, first, further)
        k.s_min_u32(at, at, last)
        k.s_sub_u32(last, edge, at)
        k.s_mul_i32(last, last, size)
        k.s_sub_u32(descriptor[2], left, 1)
        k.s_mul_i32(descriptor[2], descriptor[2], stride)
        k.s_add_u32(descriptor[2], descriptor[2], last)
        k.s_mul_hi_u32(last, at, size)
        k.s_mul_i32(at, at, size)
        k.s_add_u32(descriptor[0], matrix.pointer[0], at)
        k.s_addc_u32(descriptor[1], matrix.pointer[1], last)
        k.s_mov_b32(descriptor[3], ag.RAW_BUFFER)
    k.shows(descriptor, k.argument(side(k.parameters, matrix.name)))
    column = ag.emit_address(k, k.registers.unused("column_of_lane"), lambda lane: places[0][lane][1], k.lane)
    offset = ag.emit_address(k, k.registers.unused("element_offset"), lambda lane, **waves: size * (places[0][lane][0] + tile.rows *
                             sum(waves.values())), k.lane, (wave,))
    with k.scratch("along_k") as along:
        k.v_mul_lo_u32(along, column, stride)
        k.v_add_u32(offset, along, offset)
    together = 32 // fragment.bits
    dwords = [(across, dword) for across in range(tile.across) for dword in range(fragment.registers)]
    count = _TOGETHER // (together - 1)
    with k.scratch("inside") as inside, k.scratch("bytes_on", file="s") as on, k.scratch("lines_left", file="s") as lines, \
            k.scratch("parts", _TOGETHER) as parts:
        for across, dword in dwords:
            for begin in range(0, tile.down, count):
                some = range(begin, min(tile.down, begin + count))
                held = {(row, part): parts[number] for number, (row, part) in enumerate(
                    (row, part) for row in some for part in range(1, together))}
                for part in range(together):
                    more = places[dword * together + part][0][1] - places[0][0][1] + across * fragment.columns
                    k.s_sub_u32(lines, left, more)
                    k.v_cmp_gt_i32(ag.vcc, lines, column)
                    ag.send_outside(k, inside, offset)
                    k.s_mul_i32(on, stride, more)
                    k.s_min_u32(on, on, descriptor[2])  # what an offset beyond the end does is not documented; no lane loads there
                    for row in some:
                        target = held[row, part] if part else tile.base(row, across)[dword]
                        k.emit(_LOAD[fragment.bits], target, inside, descriptor, on, offen=True, offset=row * fragment.rows * size)
                for row in some:
                    target = tile.base(row, across)[dword]
                    for part in range(1, together):
                        k.v_lshl_or_b32(target, held[row, part], part * fragment.bits, target)
    k.registers.release(column)
    k.registers.release(offset)
    k.registers.release(descriptor)
