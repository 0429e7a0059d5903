"""Scales that waves load straight into registers: shuffled ones as the dwords that they are, plain ones byte by byte."""

from __future__ import annotations

from dataclasses import dataclass

import asmgen as ag
from asmgen.kernels.gemm_mx.depth import Depth
from asmgen.kernels.gemm_mx.formats import BLOCK, GROUP_ROWS
from asmgen.kernels.gemm_mx.streamloads import LanePiece, StepLoads, step_loads

_WORD = 4
_EACH = ag.ScaleOrder(1, 1)
"""A register for each fragment."""


@dataclass(frozen=True)
class StreamScales:
    """The scales of A or B. `tiles` has stages, and halves where both do not lie in one dword."""

    tiles: ag.TileGrid
    loads: StepLoads
    orders: tuple[ag.ScaleOrder, ag.ScaleOrder]
    together: bool

    def load(self, t: ag.StepIndex) -> None:
        """Memory to registers."""
        for half in range(1 if self.together else 2):
            self.loads.load(self.tiles[t, half], t, half)

    def half(self, t: ag.StepIndex, number: int) -> ag.Scales:
        """Those of a half of the tile."""
        tile = self.tiles[t, 0 if self.together else number]
        return ag.Scales(tile.name, tile.registers, tile.index, self.orders[number])


def stream_scales(k: ag.TileBuilder, shape: ag.MatrixShape, depth: Depth, stages: int, row0: ag.Reg, column0: ag.Reg,
                  wn: ag.WaveIndex) -> tuple[StreamScales, StreamScales]:
    """Those of A, of which all waves have both fragments, and of B."""
    tm, tn, _ = k.variant.tile
    one = ag.WaveIndex("one", 0, 1)
    make = _plain if k.p.scale_order == "plain" else _shuffled
    return (make(k, shape, depth, stages, "a", "m", row0, tm, one), make(k, shape, depth, stages, "b", "n", column0, tn, wn))


def _tiles(k: ag.TileBuilder, shape: ag.MatrixShape, name: str, count: int, halves: int, stages: int) -> ag.TileGrid:
    words = ag.block_fragment(ag.with_dtype(shape.d, "i32"), 1, 1, ag.LANES)
    found: ag.TileGrid = k.tile(f"S{name.upper()}", count, ag.LANES, words, grid=(halves,), stages=stages)
    return found


def _shuffled(k: ag.TileBuilder, shape: ag.MatrixShape, depth: Depth, stages: int, name: str, size: str, first: ag.Reg, edge: int,
              waves: ag.WaveIndex) -> StreamScales:
    """A dword of a lane serves two fragments of rows: both halves of A, or those that a wave has of a half of B."""
    plan, step = k.registers, _WORD * ag.LANES
    groups_of_tile, together = edge // GROUP_ROWS, edge == GROUP_ROWS
    groups, group0, width, columns = (plan.sgprs(1, f"scale_{what}_{name}") for what in ("groups", "group0", "width", "columns"))
    k.s_add_u32(groups, k.argument(size), GROUP_ROWS - 1)
    k.s_lshr_b32(groups, groups, GROUP_ROWS.bit_length() - 1)
    k.s_lshr_b32(group0, first, GROUP_ROWS.bit_length() - 1)
    k.s_lshl_b32(width, k.argument(f"lds{name}"), GROUP_ROWS.bit_length() - 1)
    k.s_add_u32(columns, width, step)
    most = GROUP_ROWS * (k.limits(f"lds{name}")[1] or 0)
    rows = ag.Matrix(f"{name}_scale", "i8", _back(k, name, step), groups, columns, width, step, most).rows(group0, groups_of_tile)
    jump = plan.sgprs(1, f"all_scales_{name}", note="bytes of all steps")
    k.s_lshl_b32(jump, depth.steps, step.bit_length() - 1)
    loads = step_loads(k, rows, step, (LanePiece(0, 0, 1, 0),), _WORD, waves, None, jump, 1 if together else 2, 1)
    orders = tuple(ag.ScaleOrder(2, 2, True, half if together else 0) for half in range(2))
    return StreamScales(_tiles(k, shape, name, 1, 1 if together else 2, stages), loads, (orders[0], orders[1]), together)


def _plain(k: ag.TileBuilder, shape: ag.MatrixShape, depth: Depth, stages: int, name: str, size: str, first: ag.Reg, edge: int,
           waves: ag.WaveIndex) -> StreamScales:
    """A byte of a row for each fragment."""
    plan, scales = k.registers, k.variant.tile[2] // BLOCK
    down, across = edge // 2 // waves.count // 16, scales // 4
    stride, columns, limit, jump = (plan.sgprs(1, f"scale_{what}_{name}") for what in ("stride", "columns", "limit", "jump"))
    k.s_mov_b32(stride, k.argument(f"lds{name}"))
    k.s_lshr_b32(limit, k.argument("k"), BLOCK.bit_length() - 1)
    k.s_add_u32(columns, limit, scales)
    k.s_lshl_b32(jump, depth.steps, scales.bit_length() - 1)
    k.s_sub_u32(limit, columns, jump)
    most = k.limits(f"lds{name}")[1]
    rows = ag.Matrix(f"{name}_scale", "i8", _back(k, name, scales), k.argument(size), columns, stride, 1, most).rows(first, edge)
    pieces = tuple(LanePiece(row, row * across + along, 0, 4 * along) for row in range(down) for along in range(across))
    loads = step_loads(k, rows, scales, pieces, 1, waves, limit, jump, 2)
    return StreamScales(_tiles(k, shape, name, len(pieces), 2, stages), loads, (_EACH, _EACH), False)


def _back(k: ag.TileBuilder, name: str, step: int) -> ag.Reg:
    """The address of the scales a step before the first, as `Depth` has those of A and B."""
    pointer = k.argument(f"{name}_scale")
    k.s_sub_u32(pointer[0], pointer[0], step)
    k.s_subb_u32(pointer[1], pointer[1], 0)
    return pointer
