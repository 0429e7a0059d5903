"""Epilogues: accumulator tiles to memory, converted, with bounds.

A lane holds runs of neighbouring columns of a row (`M.d.T`: four, `deep(M.d.T, 2)`: eight), which wide stores move; of 16-bit types lanes
with runs of four side by side trade them first where gfx950 can (`lanetrades`), so that a lane has eight columns. Rows
beyond the matrix are dropped by the descriptor. Where columns may be cut or rows do not begin at a multiple of four elements, a second
path stores element by element under EXEC; both paths are in the code, and a scalar branch chooses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from asmgen.author.address.addressing import WaveIndex, emit_address
from asmgen.author.epilogue.lanetrades import LINE_BIT, Trade, trade_of
from asmgen.author.ops.conversions import convert, doubted, narrowing
from asmgen.author.ops.elementwise import move
from asmgen.author.ops.tilememory import store_tile
from asmgen.author.tiles.globals import Rows, most_stride
from asmgen.author.tiles.tiles import Tile, TileError
from asmgen.author.tiles.views import with_dtype
from asmgen.isa.bufferformats import MOST_RECORDS
from asmgen.isa.records import dataclass
from asmgen.isa.registers import Reg, exec_, vcc
from asmgen.regalloc.sets import RegisterSet

if TYPE_CHECKING:
    from asmgen.author.builders.tilebuilder import TileBuilder

_STORE = {1: "buffer_store_dword", 2: "buffer_store_dwordx2", 4: "buffer_store_dwordx4"}
_WIDEST = max(_STORE)
_TYPES = ("bf16", "f16", "f32")
_LOWER_HALVES = 0x00FF00FF  # lanes 0 to 7 of each row of 16
_TRADED = 4  # items of a run that a trade makes twice as long: the widest store moves eight of 16 bits


@dataclass(frozen=True)
class Corner:
    """One accumulator tile of a wave and where it stands in the workgroup's tile, the wave's own part left out."""

    tile: Tile
    row: int
    column: int


@dataclass(frozen=True)
class ColumnRun:
    """A run of columns of one fragment: its registers, and its corner from the lane's first element on."""

    registers: tuple[Reg, ...]
    row: int
    column: int


@dataclass(frozen=True)
class LaneCoordinates:
    """Where a lane's first element stands: VGPRs with its row in the workgroup's tile and its column in the matrix."""

    row: Reg
    column: Reg


Change = Callable[[ColumnRun, Sequence[Reg]], None]
"""Emits what the values of a run (VGPRs, in the run's order) go through on their way to memory, in place."""


def accumulator_coordinates(k: TileBuilder, name: str, first: Tile, column0: Reg, rows: WaveIndex | None,
                            columns: WaveIndex) -> LaneCoordinates:
    """The places of the lanes' first elements; the wave (r, c) has each tile at (r * tile.rows, c * tile.columns) from its corner, or,
    where `rows` is None, at its corner's row."""
    at = first.fragment.table[0]
    row = emit_address(k, f"{name}_row", lambda lane, **wave: at[lane][0] + sum(wave.values()) * first.rows, k.lane,
                       (rows,) if rows is not None else ())
    column = emit_address(k, f"{name}_column", lambda lane, **wave: at[lane][1] + wave[columns.name] * first.columns, k.lane, (columns,))
    k.v_add_u32(column, column0, column)
    return LaneCoordinates(row, column)


def store(k: TileBuilder, target: Rows, column0: Reg, corners: Sequence[Corner], rows: WaveIndex | None, columns: WaveIndex,
          width: int, add: bool = False) -> None:
    """Store the accumulators into rows of a matrix, rounded to nearest as its bf16, f16 or f32; with `add` memory adds them, atomically.

    The wave (r, c) has each tile at (corner.row + r * tile.rows, corner.column + c * tile.columns), or, where `rows` is None and the
    target is the wave's own, at corner.row; `column0` is an SGPR, `width` the columns of the workgroup's tile. Raises TileError for
    fragments whose lanes hold no runs of columns, or a matrix of another type.
    """
    if add:
        _add(k, target, column0, corners, rows, columns)
        return
    if rows is not None and not target.fits():
        _store_own(k, target, column0, corners, rows, columns, width)
        return
    with storing(k, target, column0, corners, rows, columns, width) as one:
        one.store()


@dataclass(frozen=True)
class Storing:
    """A `store` whose addresses are there: what it does to its corners can stand in a loop, in which they go down the matrix."""

    k: TileBuilder
    address: _StoreAddress
    column0: Reg
    corners: Sequence[Corner]
    width: int

    def store(self, last: bool = False) -> None:
        """Store the accumulators. Whole tiles end the wave if nothing comes after (`last`): its code is straight then."""
        k, address = self.k, self.address
        slow, done = k.fresh("cut_columns"), k.fresh("stored")
        unless_whole(k, address.target, self.column0, self.corners, self.width, slow)
        runs = list(runs_of(self.corners, run_length(self.corners[0].tile)))
        _wide(k, address, self.corners[0].tile, runs)
        if last:
            k.s_endpgm()
        else:
            k.s_branch(done)
        k.label(slow)
        _cut(k, address, runs)
        if not last:
            k.label(done)

    def down(self, rows: int) -> None:
        """The corners' next place is so many rows below."""
        move_down(self.k, self.address.offset, self.address.offset, self.address.stride, rows)


@contextmanager
def storing(k: TileBuilder, target: Rows, column0: Reg, corners: Sequence[Corner], rows: WaveIndex | None, columns: WaveIndex,
            width: int) -> Iterator[Storing]:
    """The addresses of `store`, whose arguments these are."""
    with _store_address(k, target, column0, corners, rows, columns) as address:
        yield Storing(k, address, column0, corners, width)


def _add(k: TileBuilder, target: Rows, column0: Reg, corners: Sequence[Corner], rows: WaveIndex | None, columns: WaveIndex) -> None:
    """A corner after the other, columns beyond the last one left out. A fragment whose lanes have single columns (M.d) adds whole lines of
    f32 at a time; 16-bit types take two columns of a lane."""
    matrix = target.matrix
    for corner in corners:
        count = corner.tile.rows * (rows.count if rows is not None else 1)
        part = Rows(matrix, target.first, target.offset + corner.row, count, near=target.near)
        with k.scratch("columns_from_corner", file="s") as left, k.scratch("corner_column", file="s") as column:
            k.s_add_u32(column, column0, corner.column)
            k.s_sub_u32(left, matrix.columns_register, column)
            with ExitStack() as stack:
                tile = corner.tile
                if matrix.dtype != "f32":
                    tile = stack.enter_context(_narrow(k, tile, matrix.dtype))
                store_tile(k, part, tile, rows, columns, column, left, add=True, multiple=2 if matrix.multiple % 2 == 0 else 1)


@contextmanager
def _narrow(k: TileBuilder, tile: Tile, dtype: str) -> Iterator[Tile]:
    """The tile as another type in temporaries."""
    fragment = with_dtype(tile.fragment, dtype)
    with k.scratch("narrow", fragment.registers * tile.down * tile.across) as held:
        narrow = Tile(f"{tile.name}_{dtype}", tile.rows, tile.columns, fragment, RegisterSet((held,)), tile.index)
        source = tile
        if any(register.file == "a" for register in tile.registers):
            with k.scratch("moved", tile.registers.count) as moved:
                source = replace(tile, registers=RegisterSet((moved,)))
                move(k, source, tile)
                convert(k, narrow, source)
        else:
            convert(k, narrow, source)
        yield narrow


def _store_own(k: TileBuilder, target: Rows, column0: Reg, corners: Sequence[Corner], rows: WaveIndex, columns: WaveIndex,
               width: int) -> None:
    """`store` where one descriptor may not reach all rows of the target: a wave's of a corner have one of their own."""
    target.matrix.stride_bytes(k)  # before the branches
    for at, group in groupby(sorted(corners, key=lambda corner: corner.row), key=lambda corner: corner.row):
        own, beyond = [Corner(corner.tile, 0, corner.column) for corner in group], k.fresh("beyond_the_last_row")
        with k.scratch("own_row", file="s") as row:
            k.s_mul_i32(row, rows.register, own[0].tile.rows)
            k.s_add_u32(row, row, target.first)
            k.s_add_u32(row, row, target.offset + at)
            k.s_cmp_ge_u32(row, target.matrix.rows_register)
            k.s_cbranch_scc1(beyond)
            store(k, Rows(target.matrix, row, 0, own[0].tile.rows), column0, own, None, columns, width)
            k.label(beyond)


def unless_whole(k: TileBuilder, target: Rows, column0: Reg, corners: Sequence[Corner], width: int, label: str,
                 other: Reg | None = None) -> None:
    """To the label where the tile's `width` columns are cut, or rows do not begin at a multiple of what a wide store moves, or may lie
    so far apart that one descriptor does not show the target's; and where an `other` SGPR is not 0."""
    matrix, stride = target.matrix, target.matrix.stride_bytes(k)
    misplaced = matrix.bits // 8 * min(run_length(corners[0].tile), _TRADED) - 1
    with k.scratch("left", file="s") as left, k.scratch("odd", file="s") as odd:
        k.s_sub_u32(left, matrix.columns_register, column0)
        k.s_cmp_lt_i32(left, width)
        k.s_cbranch_scc1(label)
        if target.fits():
            k.s_or_b32(odd, stride, matrix.pointer[0])
            k.s_and_b32(odd, odd, misplaced)
        else:
            near = 1 << (most_stride(target.count, 8) + 1).bit_length() - 1  # bytes, a power of two
            target.near = True
            k.s_and_b32(odd, matrix.pointer[0], misplaced)
            k.s_or_b32(odd, odd, stride)
            k.s_and_b32(odd, odd, MOST_RECORDS & -near | misplaced)
        if other is not None:
            k.s_or_b32(odd, odd, other)
        k.s_cbranch_scc1(label)


def store_whole(k: TileBuilder, target: Rows, column0: Reg, corners: Sequence[Corner], rows: WaveIndex, columns: WaveIndex,
                change: Change | None = None, doubtful: bool = False) -> None:
    """`store` for what `unless_whole` lets through: straight code, a corner after the other, for an epilogue.

    Where rounding is `doubted` and may be `doubtful`, VCC is left with the lanes that may have lost a NaN, and accumulators as they are but
    for the change of those in VGPRs: what follows may store them again.
    """
    length = run_length(corners[0].tile)
    runs = [run for corner in corners for run in runs_of([corner], length)]
    with _store_address(k, target, column0, corners, rows, columns) as address, ExitStack() as stack:
        doubt = stack.enter_context(k.scratch("doubt")) if doubtful and doubted(k, target.matrix.dtype) else None
        if doubt is not None:
            k.v_mov_b32(doubt, 0)
        _wide(k, address, corners[0].tile, runs, change, doubt)
        if doubt is not None:
            k.v_cmp_u_f32(vcc, doubt, doubt)


@dataclass(frozen=True)
class _StoreAddress:
    """Where a lane's first element stands in memory: its offset in bytes and its column (VGPRs)."""

    target: Rows
    descriptor: Reg
    stride: Reg
    offset: Reg
    column: Reg


@contextmanager
def _store_address(k: TileBuilder, target: Rows, column0: Reg, corners: Sequence[Corner], rows: WaveIndex | None,
            columns: WaveIndex) -> Iterator[_StoreAddress]:
    matrix = target.matrix
    if matrix.dtype not in _TYPES:
        raise TileError(f"store: accumulators are stored as {', '.join(_TYPES)}, not as {matrix.dtype}", k.here())
    descriptor, stride = target.resource(k), matrix.stride_bytes(k)
    lanes = accumulator_coordinates(k, "d", corners[0].tile, column0, rows, columns)
    offset = k.registers.vgprs(1, "d_offset")
    k.v_mul_lo_u32(offset, lanes.row, stride)
    k.v_lshl_add_u32(offset, lanes.column, (matrix.bits // 8).bit_length() - 1, offset)
    k.registers.release(lanes.row)
    yield _StoreAddress(target, descriptor, stride, offset, lanes.column)
    k.registers.release(lanes.column, offset)


def _wide(k: TileBuilder, address: _StoreAddress, first: Tile, runs: Sequence[ColumnRun], change: Change | None = None,
          doubt: Reg | None = None) -> None:
    """Whole runs in the given order, of tiles like the `first`."""
    matrix = address.target.matrix
    trade = trade_of(first.fragment, [(run.row, run.column) for run in runs], _TRADED) \
        if k.arch == "gfx950" and matrix.bits == 16 and len(runs[0].registers) == _TRADED else None
    if trade is not None:
        _traded(k, runs, trade, address.offset, address.descriptor, matrix.dtype, address.stride, change)
    else:
        _whole(k, runs, address.offset, address.descriptor, matrix.dtype, address.stride, change, doubt)


def run_length(tile: Tile) -> int:
    """How many neighbouring columns of one row a lane holds side by side in its registers. Raises TileError where not 2, 4 or 8."""
    table = tile.fragment.table
    run = 1
    while run < len(table) and table[run][0] == (table[0][0][0], table[0][0][1] + run):
        run += 1
    if run not in (2, 4, 8) or tile.dtype != "f32":
        raise TileError(f"store: {tile} has runs of {run} columns in a lane, and stores want 2, 4 or 8 of f32; use M.d.T as its fragment")
    return run


def runs_of(corners: Sequence[Corner], length: int) -> Iterator[ColumnRun]:
    """The runs of all tiles, by row and column."""
    found = []
    for corner in corners:
        fragment = corner.tile.fragment
        origin = fragment.table[0][0]
        for row, column in corner.tile.positions():
            base = corner.tile.base(row, column)
            for item in range(0, fragment.items, length):
                r, c = fragment.table[item][0]
                found.append(ColumnRun(tuple(base[item + number] for number in range(length)),
                                       corner.row + row * fragment.rows + r - origin[0],
                                       corner.column + column * fragment.columns + c - origin[1]))
    yield from sorted(found, key=lambda run: (run.row, run.column))


def row_offsets(k: TileBuilder, runs: Sequence[ColumnRun], offset: Reg, stride: Reg, at: Reg) -> Iterator[ColumnRun]:
    """The runs, `at` being a vector offset of each one's row: a scalar one could pass the descriptor's end."""
    last = None
    for run in runs:
        if run.row != last:
            move_down(k, at, offset, stride, run.row)
            last = run.row
        yield run


def move_down(k: TileBuilder, at: Reg, offset: Reg, stride: Reg, row: int) -> None:
    """The vector offset of a lane's element `row` rows below that of `offset`."""
    if row == 0:
        k.v_mov_b32(at, offset)
        return
    with k.scratch("row_offset", file="s") as jump:
        k.s_mul_i32(jump, stride, row)
        k.v_add_u32(at, jump, offset)


def _whole(k: TileBuilder, runs: Sequence[ColumnRun], offset: Reg, descriptor: Reg, dtype: str, stride: Reg, change: Change | None,
           doubt: Reg | None) -> None:
    """A store for each run, columns by immediates; f32 that nothing changes goes out of AGPRs too. Without `doubt`
    values are narrowed in place."""
    size = 4 if dtype == "f32" else 2
    with k.scratch("at") as at, ExitStack() as stack:
        narrow = stack.enter_context(narrowing(k, dtype, doubt)) if dtype != "f32" else None
        packed = stack.enter_context(k.scratch("packed", len(runs[0].registers) // 2)) if doubt is not None else None
        for run in row_offsets(k, runs, offset, stride, at):
            with ExitStack() as held:
                words: Sequence[Reg] = run.registers
                if narrow is not None or change is not None:
                    words = held.enter_context(_values(k, (run,), change))
                if narrow is not None:
                    values = words
                    words = words[:len(words) // 2] if packed is None else [packed[number] for number in range(packed.count)]
                    narrow(words, values)
                for first in range(0, len(words), _WIDEST):
                    some = words[first:first + _WIDEST]
                    k.emit(_STORE[len(some)], span(some), at, descriptor, 0, offen=True, offset=size * run.column + 4 * first)


def _traded(k: TileBuilder, runs: Sequence[ColumnRun], trade: Trade, offset: Reg, descriptor: Reg, dtype: str, stride: Reg,
            change: Change | None) -> None:
    """Runs in pairs: a lane whose bit `trade.lane_bit` is 0 gets the left run of its pair and that run's neighbour, a lane whose bit is 1
    the right one's.

    With `trade.lines` two pairs trade again, lanes 0 to 7 of the right pair's rows for lanes 8 to 15 of the left one's: of 16 x 16
    fragments a store then has 8 rows of 128 bytes, whole lines, instead of 16 rows of 64 bytes, which take twice as long.
    """
    pairs = 2 if trade.lines else 1
    count = _TRADED * pairs
    with k.scratch("at", pairs) as at, k.scratch("pair_offset") as pair_offset, k.scratch("packed", count) as packed, \
            k.scratch("kept", _TRADED) as kept, k.scratch("eight_rows", file="s") as down, narrowing(k, dtype) as narrow:
        moved = emit_address(k, "trade", lambda lane: 2 * (trade.step - _TRADED) * (lane >> trade.lane_bit & 1), k.lane)
        k.v_add_u32(pair_offset, moved, offset)
        k.registers.release(moved)
        if trade.lines:
            _lines_down(k, pair_offset, stride, 2 * trade.step, down)
            for part in range(2):
                k.s_mov_b32(vcc[part], _LOWER_HALVES)
        words = [packed[number] for number in range(count)]
        last = -1
        for first_run, *others in zip(*[row_offsets(k, runs, pair_offset, stride, at[0])] * 2 * pairs, strict=True):
            if trade.lines and first_run.row != last:
                k.v_add_u32(at[1], down, at[0])
            last = first_run.row
            group = [first_run, *others]
            for pair in range(pairs):
                mine = words[_TRADED * pair:_TRADED * (pair + 1)]
                with _values(k, group[2 * pair:2 * pair + 2], change) as values:
                    narrow(mine, values)
            for number in [number for number in range(count) if number % _TRADED < _TRADED // 2]:
                k.emit(trade.swap, words[number], words[number + _TRADED // 2])
            if trade.lines:
                left, right = words[:_TRADED], words[_TRADED:]
                for number, (word, other) in enumerate(zip(left, right, strict=True)):
                    k.v_cndmask_b32_dpp(kept[number], other, word, vcc, row_ror=8, row_mask=15, bank_mask=15)
                for word, other in zip(left, right, strict=True):
                    k.v_mov_b32_dpp(other, word, row_ror=8, row_mask=15, bank_mask=0x3)
                words_of_pairs = [[kept[number] for number in range(_TRADED)], right]
            else:
                words_of_pairs = [words]
            for pair, four in enumerate(words_of_pairs):
                k.emit(_STORE[_TRADED], span(four), at[pair], descriptor, 0, offen=True, offset=2 * first_run.column)


def _lines_down(k: TileBuilder, offset: Reg, stride: Reg, columns: int, down: Reg) -> None:
    """Lanes 8 to 15 of each row of lanes move 8 rows up and so many columns, a pair's, to the right; `down` gets the bytes of 8 rows."""
    with k.scratch("upper_lanes") as upper, k.scratch("up", file="s") as up:
        k.s_lshl_b32(down, stride, LINE_BIT)
        k.s_sub_u32(up, 2 * columns, down)
        k.v_bfe_u32(upper, k.lane, LINE_BIT, 1)
        k.v_mul_lo_u32(upper, upper, up)
        k.v_add_u32(offset, upper, offset)


def span(registers: Sequence[Reg]) -> Reg:
    """Neighbouring registers as one operand."""
    from asmgen.regalloc.ranges import OwnedReg

    first, count = registers[0], len(registers)
    if isinstance(first, OwnedReg):
        return first.moved(0, count)
    return Reg(first.file, first.index, count)


@contextmanager
def _values(k: TileBuilder, runs: Sequence[ColumnRun], change: Change | None) -> Iterator[Sequence[Reg]]:
    """VGPRs with the changed values: accumulators in AGPRs are moved, as no VALU instruction reads those."""
    registers = [register for run in runs for register in run.registers]
    with ExitStack() as stack:
        values: Sequence[Reg] = registers
        if registers[0].file == "a":
            moved = stack.enter_context(k.scratch("moved", len(registers)))
            values = [moved[number] for number in range(moved.count)]
            for value, register in zip(values, registers, strict=True):
                k.v_accvgpr_read_b32(value, register)
        for number, run in enumerate(runs if change is not None else ()):
            assert change is not None
            change(run, values[number * len(run.registers):(number + 1) * len(run.registers)])
        yield values


def _cut(k: TileBuilder, address: _StoreAddress, runs: Sequence[ColumnRun]) -> None:
    """Element by element, the lanes beyond the last column switched off. Changes VCC."""
    offset, column, descriptor, stride = address.offset, address.column, address.descriptor, address.stride
    columns, dtype = address.target.matrix.columns_register, address.target.matrix.dtype
    short = dtype != "f32"
    if short:
        with narrowing(k, dtype) as narrow:
            for run in runs:
                with _values(k, (run,), None) as values:
                    words = values[:len(values) // 2]
                    narrow(words, values)
                    for number in range(len(words) if run.registers[0].file == "a" else 0):
                        k.v_accvgpr_write_b32(run.registers[number], words[number])
    size = 2 if short else 4
    further = sorted({run.row for run in runs} - {0})
    with k.scratch("columns_left") as left, k.scratch("row_offsets", max(1, len(further))) as offsets:
        at = {0: offset} | {row: offsets[number] for number, row in enumerate(further)}
        for row in further:
            move_down(k, at[row], offset, stride, row)
        k.v_sub_u32(left, columns, column)
        for start in sorted({run.column for run in runs}):  # lanes that have no column left stay switched off
            for number in range(len(runs[0].registers)):
                k.v_cmp_lt_i32(vcc, start + number, left)
                k.s_mov_b64(exec_, vcc)
                for run in (run for run in runs if run.column == start):
                    held = run.registers[number // 2 if short else number]
                    op = "buffer_store_dword" if not short else "buffer_store_short_d16_hi" if number % 2 else "buffer_store_short"
                    k.emit(op, held, at[run.row], descriptor, 0, offen=True, offset=size * (start + number))
        k.s_mov_b64(exec_, -1)
