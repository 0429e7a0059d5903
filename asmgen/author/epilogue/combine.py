"""What accumulators go through before they are stored: alpha AB + beta C + bias, scales of rows and columns, in f32, in their registers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import TYPE_CHECKING

from asmgen.author.address.addressing import WaveIndex
from asmgen.author.epilogue.stores import (
    ColumnRun,
    Corner,
    accumulator_coordinates,
    move_down,
    run_length,
    runs_of,
    span,
    unless_whole,
)
from asmgen.author.ops.conversions import widening
from asmgen.author.tiles.globals import Rows
from asmgen.isa.bufferformats import RAW_BUFFER
from asmgen.isa.records import dataclass
from asmgen.isa.registers import Reg, exec_, vcc

if TYPE_CHECKING:
    from asmgen.author.builders.tilebuilder import TileBuilder

ONE = 0x3F800000  # of f32
_FAR = 1 << 24
_SIZE = {"f32": 4, "f16": 2, "bf16": 2}
_LOAD = {1: "buffer_load_dword", 2: "buffer_load_dwordx2", 4: "buffer_load_dwordx4"}
_WIDEST = max(_LOAD)
_TOGETHER = 16  # elements that are asked for before the first of them is used

Load = Callable[[Sequence[ColumnRun], Sequence[Reg]], None]
"""Emits what brings the numbers of runs of a row into VGPRs, as many for each run as it has columns."""


def scale_and_add(k: TileBuilder, corners: Sequence[Corner], c: Rows, column0: Reg, rows: WaveIndex | None, columns: WaveIndex,
                  alpha: Reg | None, beta: Reg) -> None:
    """Accumulators become alpha times themselves plus beta times C, whose rows are `c`; `alpha` and `beta` are SGPRs of f32, None is 1.

    Nothing is done where alpha is 1 and beta 0, and C is not read where beta is 0, nor beyond its last column: it may be D, where other
    waves store. Places as for `store`.
    """
    general, done = k.fresh("alpha_beta"), k.fresh("combined")
    unless_plain(k, alpha, beta, general)
    k.s_branch(done)
    k.label(general)
    with combining(k, corners, c, column0, rows, columns, alpha, beta) as one:
        one.combine(done)
    k.label(done)


@dataclass(frozen=True)
class Combining:
    """A `scale_and_add` whose addresses are there: what it does to its corners can stand in a loop, in which they go down the matrix.

    VGPRs: `offset` is where a lane's first element stands, `column` its column, `at` and `left` are free. `factors` are pairs of SGPRs.
    """

    k: TileBuilder
    corners: Sequence[Corner]
    c: Rows
    descriptor: Reg
    column0: Reg
    columns: WaveIndex
    offset: Reg
    column: Reg
    at: Reg
    left: Reg
    held: Reg
    factors: tuple[Reg | None, Reg]

    def combine(self, done: str) -> None:
        """Accumulators become alpha times themselves plus beta times C; the end is at the label `done`, which the caller sets."""
        k, matrix, tile = self.k, self.c.matrix, self.corners[0].tile
        cut = k.fresh("cut_columns_of_c")
        with k.scratch("own_column", file="s") as own:  # of other waves columns may be cut
            k.s_mul_i32(own, self.columns.register, tile.columns)
            k.s_add_u32(own, own, self.column0)
            unless_whole(k, self.c, own, self.corners, max(corner.column for corner in self.corners) + tile.columns, cut)
        self._add_runs(lambda runs, parts: _load_whole(k, runs, parts, self.at, self.descriptor, matrix.dtype))
        k.s_branch(done)
        k.label(cut)
        k.v_sub_u32(self.left, matrix.columns_register, self.column)
        for number in range(self.held.count):
            k.v_mov_b32(self.held[number], 0)  # what is not loaded is added too, to what is not stored
        self._add_runs(lambda runs, parts: _load_cut(k, runs, parts, self.at, self.descriptor, matrix.dtype, self.left))

    def scale(self) -> None:
        """Accumulators become alpha times themselves."""
        alphas, _ = self.factors
        for run in runs_of(self.corners, run_length(self.corners[0].tile)) if alphas is not None else ():
            with changed(self.k, run) as accumulators:
                for pair in range(0, len(accumulators), 2):
                    two = span(accumulators[pair:pair + 2])
                    self.k.v_pk_mul_f32(two, two, alphas)

    def down(self, rows: int) -> None:
        """The corners' next place is so many rows below."""
        move_down(self.k, self.offset, self.offset, self.c.matrix.stride_bytes(self.k), rows)

    def _add_runs(self, load: Load) -> None:
        for group in _by_row(self.corners):
            move_down(self.k, self.at, self.offset, self.c.matrix.stride_bytes(self.k), group[0].row)
            _add(self.k, group, self.held, load, self.factors)


@contextmanager
def combining(k: TileBuilder, corners: Sequence[Corner], c: Rows, column0: Reg, rows: WaveIndex | None, columns: WaveIndex,
              alpha: Reg | None, beta: Reg) -> Iterator[Combining]:
    """The addresses of `scale_and_add`, whose arguments these are."""
    matrix = c.matrix
    descriptor, stride = c.resource(k), matrix.stride_bytes(k)
    ask_zero(k, beta)
    k.s_cselect_b32(descriptor[2], descriptor[2], 0)  # no bytes: loads give 0
    lanes = accumulator_coordinates(k, "c", corners[0].tile, column0, rows, columns)
    together = min(_TOGETHER, run_length(corners[0].tile) * max(map(len, _by_row(corners))))
    with k.scratch("c_offset") as offset, k.scratch("at") as at, k.scratch("columns_left") as left, \
            _pair(k, "alpha_pair", alpha) as alphas, _pair(k, "beta_pair", beta) as betas, k.scratch("c_values", together) as held:
        assert betas is not None
        k.v_mul_lo_u32(offset, lanes.row, stride)
        k.v_lshl_add_u32(offset, lanes.column, (matrix.bits // 8).bit_length() - 1, offset)
        yield Combining(k, corners, c, descriptor, column0, columns, offset, lanes.column, at, left, held, (alphas, betas))
    k.registers.release(lanes.row, lanes.column)


def _by_row(corners: Sequence[Corner]) -> list[list[ColumnRun]]:
    """The runs of each row."""
    return [list(group) for _, group in groupby(runs_of(corners, run_length(corners[0].tile)), key=lambda one: one.row)]


@contextmanager
def _pair(k: TileBuilder, name: str, number: Reg | None) -> Iterator[Reg | None]:
    """A number twice, as packed instructions want it."""
    if number is None:
        yield None
        return
    with k.scratch(name, 2, "s") as both:
        for half in range(2):
            k.s_mov_b32(both[half], number)
        yield both


def unless_plain(k: TileBuilder, alpha: Reg | None, beta: Reg, label: str) -> None:
    """To the label where alpha is not 1 (as None is), or beta not 0."""
    with k.scratch("factors", file="s") as factors:
        ask_plain(k, alpha, beta, factors)
    k.s_cbranch_scc1(label)


def ask_plain(k: TileBuilder, alpha: Reg | None, beta: Reg, out: Reg) -> None:
    """The SGPR `out` becomes 0 where alpha is 1 (as None is) and beta 0, SCC 1 where it does not."""
    k.s_lshl_b32(out, beta, 1)  # without its sign
    if alpha is not None:
        with k.scratch("factor", file="s") as factor:
            k.s_xor_b32(factor, alpha, ONE)
            k.s_or_b32(out, out, factor)


def ask_zero(k: TileBuilder, number: Reg) -> None:
    """SCC becomes 1 where an SGPR holds another f32 than 0, 0 where it is 0 of either sign."""
    with k.scratch("magnitude", file="s") as magnitude:
        k.s_lshl_b32(magnitude, number, 1)


@dataclass(frozen=True)
class Numbers:
    """A vector in memory: its name, a 64-bit address in SGPRs, the type, how many (an SGPR)."""

    name: str
    address: Reg
    dtype: str
    size: Reg


def add_along_columns(k: TileBuilder, corners: Sequence[Corner], vector: Numbers, column0: Reg, rows: WaveIndex | None,
                      columns: WaveIndex) -> None:
    """Every accumulator plus the number of its column. Places as for `store`."""
    run = run_length(corners[0].tile)
    with _columns_of(k, corners, vector, column0, rows, columns) as load, k.scratch("vector_values", run) as held:
        for column, group in groupby(sorted(runs_of(corners, run), key=lambda one: one.column), key=lambda one: one.column):
            load(held, column)
            widen(k, held, vector.dtype)
            for one in group:
                with changed(k, one) as accumulators:
                    add_to_run(k, accumulators, held)


def add_to_run(k: TileBuilder, values: Sequence[Reg], numbers: Reg, shadow: bool = False) -> None:
    """Neighbouring values plus as many numbers; in the `shadow` of matrix instructions one by one, as nothing packed issues there."""
    if shadow:
        for number, value in enumerate(values):
            k.v_add_f32(value, numbers[number], value)
        return
    for pair in range(0, len(values), 2):
        two = span(values[pair:pair + 2])
        k.v_pk_add_f32(two, two, numbers[pair:pair + 1])


def load_columns(k: TileBuilder, corners: Sequence[Corner], vector: Numbers, column0: Reg, rows: WaveIndex | None,
                 columns: WaveIndex) -> dict[int, Reg]:
    """The numbers of a lane's runs of columns by the run's column, in VGPRs of the name of `vector`; `widen` makes them f32."""
    run = run_length(corners[0].tile)
    columns_held = sorted({one.column for one in runs_of(corners, run)})
    held = k.registers.vgprs(run * len(columns_held), vector.name, align=2)
    with _columns_of(k, corners, vector, column0, rows, columns) as load:
        for number, column in enumerate(columns_held):
            load(held[run * number:run * number + run - 1], column)
    return {column: held[run * number:run * number + run - 1] for number, column in enumerate(columns_held)}


@contextmanager
def _columns_of(k: TileBuilder, corners: Sequence[Corner], vector: Numbers, column0: Reg, rows: WaveIndex | None,
                columns: WaveIndex) -> Iterator[Callable[[Reg, int], None]]:
    """What loads the numbers of a lane's columns from one of the workgroup's on."""
    bytes_ = _SIZE[vector.dtype]
    lanes = accumulator_coordinates(k, "along_columns", corners[0].tile, column0, rows, columns)
    with k.scratch("vector_buffer", 4, "s") as descriptor:
        k.s_mov_b64(descriptor[0:1], vector.address)
        k.s_mul_i32(descriptor[2], vector.size, bytes_)
        k.s_mov_b32(descriptor[3], RAW_BUFFER)
        k.v_lshlrev_b32(lanes.column, bytes_.bit_length() - 1, lanes.column)
        yield lambda held, column: _load(k, held, lanes.column, descriptor, vector.dtype, column)
    k.registers.release(lanes.row, lanes.column)


def load_rows(k: TileBuilder, corners: Sequence[Corner], vector: Numbers, row0: Reg, rows: WaveIndex | None,
              columns: WaveIndex) -> dict[int, tuple[Reg, int]]:
    """The number of each of a lane's rows by the run's row: a pair of VGPRs, of the name of `vector`, and which one of them it is in.
    `widen` makes numbers of 16 bits f32.

    `row0` is an SGPR with the row of the matrix that row 0 of the workgroup's tile is.
    """
    held, found = _ask_for_rows(k, corners, vector, row0, rows, columns)
    return {row: (held[number // 2 * 2:number // 2 * 2 + 1], number % 2) for number, row in enumerate(found)}


def add_along_rows(k: TileBuilder, corners: Sequence[Corner], vector: Numbers, row0: Reg, rows: WaveIndex | None,
                   columns: WaveIndex) -> None:
    """Every accumulator plus the number of its row. Places as for `store`; `row0` as for `load_rows`."""
    held, found = _ask_for_rows(k, corners, vector, row0, rows, columns)
    for number, row in enumerate(found):
        widen(k, held[number:number], vector.dtype)
        for one in runs_of(corners, run_length(corners[0].tile)):
            if one.row == row:
                with changed(k, one) as accumulators:
                    add_number(k, accumulators, held[number])
    k.registers.release(vector.name)


def add_number(k: TileBuilder, values: Sequence[Reg], number: Reg) -> None:
    """One number to each of some values."""
    for value in values:
        k.v_add_f32(value, number, value)


def _ask_for_rows(k: TileBuilder, corners: Sequence[Corner], vector: Numbers, row0: Reg, rows: WaveIndex | None,
                  columns: WaveIndex) -> tuple[Reg, list[int]]:
    """VGPRs of the name of `vector`, whose loads are in flight, with the numbers of those rows of a lane's runs."""
    rows_held = sorted({one.row for one in runs_of(corners, run_length(corners[0].tile))})
    held = k.registers.vgprs(len(rows_held) + len(rows_held) % 2, vector.name, align=2)
    if len(rows_held) % 2:  # packed instructions read the whole pair
        k.v_mov_b32(held[len(rows_held)], 0)
    lanes = accumulator_coordinates(k, "along_rows", corners[0].tile, row0, rows, columns)
    size = _SIZE[vector.dtype]
    shift = size.bit_length() - 1
    with k.scratch("vector_buffer", 4, "s") as descriptor, k.scratch("high", file="s") as high:
        k.s_lshl_b32(descriptor[0], row0, shift)
        k.s_lshr_b32(high, row0, 32 - shift)
        k.s_add_u32(descriptor[0], vector.address[0], descriptor[0])
        k.s_addc_u32(descriptor[1], vector.address[1], high)
        k.s_sub_u32(descriptor[2], vector.size, row0)
        k.s_cselect_b32(descriptor[2], 0, descriptor[2])  # a wave's own rows may all lie beyond the last one
        k.s_min_u32(descriptor[2], descriptor[2], _FAR)  # a tile ends before that, and its bytes are 32 bits
        k.s_lshl_b32(descriptor[2], descriptor[2], shift)
        k.s_mov_b32(descriptor[3], RAW_BUFFER)
        k.v_lshlrev_b32(lanes.row, shift, lanes.row)
        for number, row in enumerate(rows_held):
            _load(k, held[number:number], lanes.row, descriptor, vector.dtype, row)
    k.registers.release(lanes.row, lanes.column)
    return held, rows_held


def _add(k: TileBuilder, runs: Sequence[ColumnRun], held: Reg, load: Load, factors: tuple[Reg | None, Reg]) -> None:
    """The runs of one row, a few at a time."""
    length = len(runs[0].registers)
    alphas, betas = factors
    many = held.count // length
    for first in range(0, len(runs), many):
        some = runs[first:first + many]
        parts = [held[length * number:length * number + length - 1] for number in range(len(some))]
        load(some, parts)
        for one, part in zip(some, parts, strict=True):
            with changed(k, one) as accumulators:
                for pair in range(0, length, 2):
                    two = span(accumulators[pair:pair + 2])
                    if alphas is not None:
                        k.v_pk_mul_f32(two, two, alphas)
                    k.v_pk_fma_f32(two, part[pair:pair + 1], betas, two)


def _load_whole(k: TileBuilder, runs: Sequence[ColumnRun], parts: Sequence[Reg], at: Reg, descriptor: Reg, dtype: str) -> None:
    """Whole runs that begin at multiples of what a load takes, as f32: narrower ones go through the last registers of their parts."""
    size = _SIZE[dtype]
    words = [part[part.count - part.count * size // 4:part.count - 1] for part in parts]
    for run, part in zip(runs, words, strict=True):
        for first in range(0, part.count, _WIDEST):
            some = part[first:min(first + _WIDEST, part.count) - 1]
            k.emit(_LOAD[some.count], some, at, descriptor, 0, offen=True, offset=size * run.column + 4 * first)
    if dtype != "f32":
        for part, narrow in zip(parts, words, strict=True):
            widening(k, dtype)([part[number] for number in range(part.count)], [narrow[number] for number in range(narrow.count)])


def _load_cut(k: TileBuilder, runs: Sequence[ColumnRun], parts: Sequence[Reg], at: Reg, descriptor: Reg, dtype: str, left: Reg) -> None:
    """Element by element, as f32. Runs come by columns: lanes that have none `left` (a VGPR) stay switched off until all are loaded."""
    for run, part in zip(runs, parts, strict=True):
        for number in range(part.count):
            k.v_cmp_lt_i32(vcc, run.column + number, left)
            k.s_mov_b64(exec_, vcc)  # v_cmpx would want wait states before the load
            _load(k, part[number], at, descriptor, dtype, run.column + number)
    k.s_mov_b64(exec_, -1)
    for part in parts:
        widen(k, part, dtype)


def _load(k: TileBuilder, held: Reg, at: Reg, descriptor: Reg, dtype: str, column: int) -> None:
    """Neighbouring elements, a register each: they may begin at any multiple of their size."""
    op, size = ("buffer_load_dword", 4) if dtype == "f32" else ("buffer_load_ushort", 2)
    for number in range(held.count):
        k.emit(op, held[number], at, descriptor, 0, offen=True, offset=size * (column + number))


def widen(k: TileBuilder, held: Reg, dtype: str) -> None:
    """Elements of bf16, f16 or f32 that lie in a register each become f32."""
    for number in range(held.count):
        if dtype == "bf16":
            k.v_lshlrev_b32(held[number], 16, held[number])
        elif dtype == "f16":
            k.v_cvt_f32_f16(held[number], held[number])


@contextmanager
def changed(k: TileBuilder, run: ColumnRun) -> Iterator[Sequence[Reg]]:
    """VGPRs with the run's accumulators, which get what these hold after it."""
    if run.registers[0].file == "v":
        yield run.registers
        return
    with k.scratch("moved", len(run.registers)) as moved:
        values = [moved[number] for number in range(moved.count)]
        for value, register in zip(values, run.registers, strict=True):
            k.v_accvgpr_read_b32(value, register)
        yield values
        for value, register in zip(values, run.registers, strict=True):
            k.v_accvgpr_write_b32(register, value)
