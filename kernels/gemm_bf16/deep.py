"""gemm-bf16 for few rows or columns in any layout, gfx950: LDS holds many steps, which LDS-DMA fills long before they are read.

Facts: what far memory gives in a clk has to be in flight for its whole latency; a compute unit that holds one workgroup needs tens of KiB
for that, which registers of one wave do not hold beside a tile. A step is two products of a half of A with all of B (`twohalves`). No two
waves share K, so sums have one order: these tiles serve `invariant` too.
"""

from __future__ import annotations

import asmgen as ag
from asmgen.kernels.gemm_bf16.family import GEMM
from asmgen.kernels.products.anyk import takes_any_k
from asmgen.kernels.products.feeds import feed_of
from asmgen.kernels.products.lastcolumns import LastColumns, after_last_columns
from asmgen.kernels.products.persistent import ONE_TILE
from asmgen.kernels.products.prologue import begin_feeds, corners_of, place
from asmgen.kernels.products.split import epilogue_of
from asmgen.kernels.products.twohalves import two_halves


@GEMM.variant("gfx950", tile=(32, 32, 64), waves=(1, 1), schedule="interleave", occupancy=1, stages=8, ahead=6, depth=32, **ONE_TILE)
@GEMM.variant("gfx950", tile=(64, 32, 64), waves=(2, 1), schedule="interleave", occupancy=1, stages=6, ahead=5, depth=32, **ONE_TILE)
@GEMM.variant("gfx950", tile=(64, 64, 64), waves=(2, 2), schedule="interleave", occupancy=2, stages=4, ahead=3, depth=32, **ONE_TILE)
def deep(k: ag.TileBuilder) -> None:
    """One of the tiles above."""
    tm, tn, tk = k.variant.tile
    down, across = k.variant.waves
    M = k.matrix_shape(f"f32_16x16x{k.variant.depth}_{k.p.dtype}")

    # register plan
    C = k.tile("C", tm // 2 // down, tn // 2 // across, M.d.T, grid=(2, 2), file="a", note="[half of M][half of N]")
    A = k.tile("A", tm // 2 // down, tk, M.a, grid=(2,), note="[half of M]")
    B = k.tile("B", tn // 2 // across, tk, M.b, grid=(2,), note="[half of N]")
    steps = k.registers.sgprs(1, "steps")
    row0, column0 = k.registers.sgprs(1, "row0"), k.registers.sgprs(1, "column0")

    # LDS map
    stages, ahead = k.variant.stages, k.variant.ahead
    of_a, of_b = feed_of(k, "a", "A", M.a, tm, stages), feed_of(k, "b", "B", M.b, tn, stages)

    wm, wn = k.wave_grid(down, across)
    ag.zero(k, *C)  # while the arguments are in flight
    place(k, row0, column0)
    begin_feeds(k, steps, (k.p.dtype, k.p.dtype), (of_a, of_b), row0, column0)

    step = two_halves(k, C, (A[0], A[1]), B, of_a, of_b, wm, wn, ahead)
    any_k = takes_any_k(k.parameters)
    ends = epilogue_of(k)(k, corners_of(k, C), row0, column0, wm, wn)
    k.pipeline(step, steps, ag.Modulo(), empty=any_k,
               then=after_last_columns(k, ends, LastColumns(C, A[0], B[0], (of_a, of_b), (row0, column0), (wm, wn))))
