"""The scales of a workgroup's rows: LDS-DMA fills them beside the elements, and each wave reads those of its lanes.

They lie in memory as dwords of lanes: as AITER has shuffled them, or as `arranging` has made them. In LDS the dwords of one lane for all
rows of a wave are neighbours, so one read gives the scales of a step.
"""

from __future__ import annotations

from dataclasses import dataclass

import asmgen as ag
from asmgen.kernels.gemm_mx.depth import Depth
from asmgen.kernels.gemm_mx.formats import DEEP, arranged, group_rows, is_quantised
from asmgen.kernels.products.split import own_matrix

_HALVES = 2
_WORD = 4
_BY_ROWS = ag.ScaleOrder(4, 1)
"""Four rows of fragments, one step along K."""


@dataclass(frozen=True)
class StepScales:
    """The scales of A or B for a step. `tile` holds dwords of each half, the first half's first, in two stages, or three where LDS has
    three: products use one up to the last instruction of a step, and the next one's first instruction wants the other. `jump` is what
    `Depth` says of jumps."""

    k: ag.TileBuilder
    name: str
    tile: ag.TileGrid
    shared: ag.SharedTile
    source: ag.Rows
    waves: ag.WaveIndex
    order: ag.ScaleOrder
    jump: ag.Reg

    def fill(self, t: ag.StepIndex) -> None:
        """Memory to LDS."""
        with t.first:
            ag.fill(self.k, self.shared[t], self.source.k(t), jump=self.jump)
        with t.later:
            ag.fill(self.k, self.shared[t], self.source.k(t))

    def read(self, t: ag.StepIndex) -> None:
        """LDS to registers."""
        tile = self.tile[t]
        each = tile.registers.count // _HALVES
        ag.read(self.k, tile, self.shared[t].part(ag.PartOf(self.waves.count, wave=self.waves, strided=True, run=each)))

    def half(self, t: ag.StepIndex, number: int) -> ag.Scales:
        """Those of a half of the tile."""
        tile = self.tile[t]
        registers = list(tile.registers)
        each = len(registers) // _HALVES
        return ag.Scales(tile.name, ag.RegisterSet(tuple(registers[number * each:(number + 1) * each])), tile.index, self.order)

    def prepare(self) -> None:
        """Make the registers of fills, and release those that only they follow from."""
        ag.prepare_fill(self.k, self.shared, self.source)
        self.k.registers.release(*(f"scale_{what}_{self.name}" for what in ("groups", "group0", "columns")))


def scales_of(k: ag.TileBuilder, shape: ag.MatrixShape, depth: Depth, row0: ag.Reg, column0: ag.Reg, wm: ag.WaveIndex,
              wn: ag.WaveIndex, stages: int) -> dict[str, StepScales]:
    """Those of A, unless the kernel makes them, and of B."""
    width: ag.Reg | None = None
    if arranged(k.parameters):
        width = k.registers.sgprs(1, "scale_width", note="dwords of all steps")
        k.s_lshl_b32(width, depth.total, ag.LANES.bit_length() - 1)
    found = {}
    for axis, (name, first, waves) in enumerate((("a", row0, wm), ("b", column0, wn))):
        if name == "b" or not is_quantised(k.parameters):
            found[name] = _scales(k, name, axis, shape, depth, first, "mn"[axis], waves, width, stages)
            found[name].prepare()
    return found


def _scales(k: ag.TileBuilder, name: str, axis: int, shape: ag.MatrixShape, depth: Depth, first: ag.Reg, size: str, waves: ag.WaveIndex,
            width: ag.Reg | None, stages: int) -> StepScales:
    """Groups of rows whose scales of a step are 64 dwords."""
    plan, tile, rows = k.registers, k.variant.tile, group_rows(k.variant.tile, axis)
    groups_of_tile = tile[axis] // rows
    own = groups_of_tile // waves.count
    lanes = ag.block_fragment(ag.with_dtype(shape.d, "i32"), own, 1, ag.LANES)
    copies = 3 if stages == 3 else 2  # so that a loop has as many copies of a step as LDS has stages
    held = k.tile(f"S{name.upper()}", own, ag.LANES, lanes, stages=copies)
    shared = k.shared(f"S{name.upper()}s", "i32", groups_of_tile, ag.LANES, stages=stages,
                      serves=(ag.FragmentRead(lanes), ag.DmaFill(_WORD)), placement=ag.Placement(_by_lanes(own // _HALVES, waves.count)))
    groups, group0 = (plan.sgprs(1, f"scale_{what}_{name}") for what in ("groups", "group0"))
    k.s_add_u32(groups, k.argument(size), rows - 1)
    k.s_lshr_b32(groups, groups, rows.bit_length() - 1)
    k.s_lshr_b32(group0, first, rows.bit_length() - 1)
    pointer, most = k.argument(f"{name}_scale" if width is None else f"{name}_words"), (k.limits("k")[1] or 0) // tile[2] * ag.LANES
    if width is not None:
        _to_own_words(k, pointer, groups, width)
    if width is None:  # as many dwords as a row's scales and their pads are bytes, times 8
        width = k.argument(f"lds{name}")
        k.s_lshl_b32(width, width, 3)
        most = 8 * (k.limits(f"lds{name}")[1] or 0)
    columns = plan.sgprs(1, f"scale_columns_{name}", note="dwords of a group of rows, with those of a step before")
    k.s_mov_b32(columns, width)
    depth.begin(pointer, _WORD * ag.LANES)
    depth.shift(columns, ag.LANES)
    matrix = ag.Matrix(f"{name}_scale", "i32", pointer, groups, columns, width, ag.LANES, most)
    order = _BY_ROWS if tile[2] != DEEP else ag.ROWS_BY_K if shape.d.rows < rows else ag.ALONG_K
    return StepScales(k, name, held, shared, matrix.rows(group0, groups_of_tile), waves, order, depth.jump(_WORD * ag.LANES))


def _to_own_words(k: ag.TileBuilder, pointer: ag.Reg, groups: ag.Reg, width: ag.Reg) -> None:
    """The pointer to the dwords of all matrices of a batch goes to those of the workgroup's, of so many groups of rows."""
    with own_matrix(k) as matrix, k.scratch("words_apart", 2, "s") as apart, k.scratch("words_high", file="s") as high:
        k.s_mul_i32(high, groups, matrix)  # below 2^32: each of them has 256 bytes and more in memory
        k.s_mul_i32(apart[0], high, width)
        k.s_mul_hi_u32(apart[1], high, width)
        k.s_lshl_b64(apart, apart, _WORD.bit_length() - 1)
        k.s_add_u32(pointer[0], pointer[0], apart[0])
        k.s_addc_u32(pointer[1], pointer[1], apart[1])


def _by_lanes(each: int, waves: int) -> ag.Layout:
    """(row, column) of dwords to bytes: those that a lane (a column) of a wave reads are neighbours. Row = [half][wave][each]."""
    rows = [("each", each), ("wave", waves), ("half", _HALVES)]
    order, placed = ag.identity("byte", "byte", 4) * ag.identity("column", "column", ag.LANES), ag.identity("byte", "offset", 4)
    for axis, count in rows:
        if count > 1:
            order = order * ag.identity("row", axis, count)
    for axis, count in (rows[0], rows[2], ("column", ag.LANES), rows[1]):
        if count > 1:
            placed = placed * ag.identity(axis, "offset", count)
    return order.then(placed)
