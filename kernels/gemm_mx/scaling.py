"""The scales of a workgroup's rows: LDS-DMA fills them beside the elements, and each wave reads those of its lanes.

Shuffled scales lie as dwords of lanes already, one for 32 rows. In LDS the dwords of one lane for all rows of a wave are neighbours, so one
read gives the scales of a step.
"""

from __future__ import annotations

from dataclasses import dataclass

import asmgen as ag
from asmgen.kernels.gemm_mx.formats import GROUP_COLUMNS, GROUP_ROWS

_HALVES = 2


@dataclass(frozen=True)
class StepScales:
    """The scales of A or B for a step. `tile` holds a register for 32 rows of each half, the first half's first, in two stages: products
    use one up to the last instruction of a step, and the next one's first instruction wants the other."""

    k: ag.TileBuilder
    name: str
    tile: ag.TileGrid
    shared: ag.SharedTile
    source: ag.Rows
    waves: ag.WaveIndex
    order: ag.ScaleOrder

    def fill(self, t: ag.StepIndex) -> None:
        """Memory to LDS."""
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

    @property
    def frees(self) -> tuple[str, ...]:
        """The registers that nothing uses after the loop."""
        return (f"S{self.name.upper()}", *(f"scale_{what}_{self.name}" for what in ("groups", "group0", "width")),
                f"{self.name}_scale_buffer")


def shuffled_scales(k: ag.TileBuilder, name: str, shape: ag.MatrixShape, first: ag.Reg, edge: int, size: str,
                    waves: ag.WaveIndex) -> StepScales:
    """AITER's order: groups of 32 rows; 256 columns of a group are 64 dwords."""
    plan, groups_of_tile, per = k.registers, edge // GROUP_ROWS, ag.LANES // GROUP_COLUMNS
    own = groups_of_tile // waves.count
    lanes = ag.block_fragment(ag.with_dtype(shape.d, "i32"), own, 1, ag.LANES)
    tile = k.tile(f"S{name.upper()}", own, ag.LANES, lanes, stages=2)
    shared = k.shared(f"S{name.upper()}s", "i32", groups_of_tile, ag.LANES, stages=k.variant.stages,
                      serves=(ag.FragmentRead(lanes), ag.DmaFill(4)), placement=ag.Placement(_by_lanes(own // _HALVES, waves.count)))
    groups, group0, width = (plan.sgprs(1, f"scale_{what}_{name}") for what in ("groups", "group0", "width"))
    k.s_add_u32(groups, k.argument(size), GROUP_ROWS - 1)
    k.s_lshr_b32(groups, groups, GROUP_ROWS.bit_length() - 1)
    k.s_lshr_b32(group0, first, GROUP_ROWS.bit_length() - 1)
    k.s_lshl_b32(width, k.argument(f"lds{name}"), per.bit_length() - 1)
    most = k.limits(f"lds{name}")[1] or 0
    matrix = ag.Matrix(f"{name}_scale", "i32", k.argument(f"{name}_scale"), groups, width, width, GROUP_COLUMNS * per, most * per)
    return StepScales(k, name, tile, shared, matrix.rows(group0, groups_of_tile), waves, ag.ROWS_BY_K)


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
