"""Scales that waves load straight into registers: shuffled ones as the dwords that they are, plain ones byte by byte."""

from __future__ import annotations

from dataclasses import dataclass

import asmgen as ag
from asmgen.kernels.gemm_mx.depth import Depth
from asmgen.kernels.gemm_mx.formats import BLOCK, FRAGMENT_ROWS, GROUP_ROWS
from asmgen.kernels.gemm_mx.streamloads import LanePiece, StepLoads, step_loads

_WORD = 4
_EACH = ag.ScaleOrder(1, 1)
"""A register for each fragment."""


@dataclass(frozen=True)
class StreamScales:
    """The scales of A or B. `tiles` has stages, and as many `tiles` of registers as loads, a dword of which serves all halves where there
    is one. `odd` is how far a dword is shifted down where its 32 rows are more than the tile has."""

    k: ag.TileBuilder
    tiles: ag.TileGrid
    loads: StepLoads
    orders: tuple[ag.ScaleOrder, ...]
    count: int
    odd: ag.Reg | None = None

    def load(self, t: ag.StepIndex) -> None:
        """Memory to registers."""
        for half in range(self.count):
            self.loads.load(self.tiles[t, half], t, half)

    def half(self, t: ag.StepIndex, number: int) -> ag.Scales:
        """Those of a half of the tile, or of all of it."""
        tile = self.tiles[t, number % self.count]
        if self.odd is not None:
            with ag.operation(self.k, f"rows of {tile.name}", [tile.index], reads=tile.registers.mask, writes=tile.registers.mask):
                for register in tile.registers:
                    self.k.v_lshrrev_b32(register, self.odd, register)
        return ag.Scales(tile.name, tile.registers, tile.index, self.orders[number])


def stream_scales(k: ag.TileBuilder, shape: ag.MatrixShape, depth: Depth, stages: int, name: str, first: ag.Reg, halves: int,
                  waves: ag.WaveIndex) -> StreamScales:
    """Those of A or B, of whose `halves` (1 or 2) each wave has an equal part."""
    axis = "ab".index(name)
    make = _plain if k.p.scale_order == "plain" else _shuffled
    return make(k, shape, depth, stages, name, "mn"[axis], first, k.variant.tile[axis], halves, waves)


def _tiles(k: ag.TileBuilder, shape: ag.MatrixShape, name: str, count: int, halves: int, stages: int) -> ag.TileGrid:
    words = ag.block_fragment(ag.with_dtype(shape.d, "i32"), 1, 1, ag.LANES)
    found: ag.TileGrid = k.tile(f"S{name.upper()}", count, ag.LANES, words, grid=(halves,), stages=stages)
    return found


def _shuffled(k: ag.TileBuilder, shape: ag.MatrixShape, depth: Depth, stages: int, name: str, size: str, first: ag.Reg, edge: int,
              halves: int, waves: ag.WaveIndex) -> StreamScales:
    """A dword of a lane serves two fragments of rows: both halves, those that a wave has of one, or one of them where there are no more."""
    plan, step = k.registers, _WORD * ag.LANES
    together = edge <= GROUP_ROWS
    groups, group0, width, columns = (plan.sgprs(1, f"scale_{what}_{name}") for what in ("groups", "group0", "width", "columns"))
    k.s_add_u32(groups, k.argument(size), GROUP_ROWS - 1)
    k.s_lshr_b32(groups, groups, GROUP_ROWS.bit_length() - 1)
    k.s_lshr_b32(group0, first, GROUP_ROWS.bit_length() - 1)
    k.s_lshl_b32(width, k.argument(f"lds{name}"), GROUP_ROWS.bit_length() - 1)
    k.s_mov_b32(columns, width)
    pointer = k.argument(f"{name}_scale")
    depth.begin(pointer, step)
    depth.shift(columns, step)
    most = GROUP_ROWS * (k.limits(f"lds{name}")[1] or 0)
    rows = ag.Matrix(f"{name}_scale", "i8", pointer, groups, columns, width, step, most).rows(group0, max(1, edge // GROUP_ROWS))
    count = 1 if together else halves
    loads = step_loads(k, rows, step, (LanePiece(0, 0, 1, 0),), _WORD, waves, None, depth.jump(step), count, 1)
    odd = None
    if edge < GROUP_ROWS:
        odd = plan.sgprs(1, f"scale_shift_{name}", note="bits below the byte of the tile's rows")
        k.s_lshr_b32(odd, first, 1)
        k.s_and_b32(odd, odd, FRAGMENT_ROWS // 2)
    orders = tuple(ag.ScaleOrder(2, 2, True, half if together else 0) for half in range(halves))
    return StreamScales(k, _tiles(k, shape, name, 1, count, stages), loads, orders, count, odd)


def _plain(k: ag.TileBuilder, shape: ag.MatrixShape, depth: Depth, stages: int, name: str, size: str, first: ag.Reg, edge: int,
           halves: int, waves: ag.WaveIndex) -> StreamScales:
    """A byte of a row for each fragment."""
    plan, scales = k.registers, k.variant.tile[2] // BLOCK
    down, across = edge // halves // waves.count // FRAGMENT_ROWS, scales // 4
    stride, columns = (plan.sgprs(1, f"scale_{what}_{name}") for what in ("stride", "columns"))
    k.s_mov_b32(stride, k.argument(f"lds{name}"))
    k.s_lshr_b32(columns, k.argument("k"), BLOCK.bit_length() - 1)
    limit, pointer = depth.limit(columns, scales), k.argument(f"{name}_scale")
    depth.begin(pointer, scales)
    depth.shift(columns, scales)
    most = k.limits(f"lds{name}")[1]
    rows = ag.Matrix(f"{name}_scale", "i8", pointer, k.argument(size), columns, stride, 1, most).rows(first, edge)
    pieces = tuple(LanePiece(row, row * across + along, 0, 4 * along) for row in range(down) for along in range(across))
    loads = step_loads(k, rows, scales, pieces, 1, waves, limit, depth.jump(scales), halves)
    return StreamScales(k, _tiles(k, shape, name, len(pieces), halves, stages), loads, (_EACH,) * halves, halves)
