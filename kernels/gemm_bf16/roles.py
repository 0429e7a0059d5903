"""gemm-bf16 for gfx950 with two roles (`producer-consumer`): four producer waves fill LDS, eight or twelve consumer waves multiply.

Facts: a workgroup computes a tm x tn tile of D in steps of tk = 64 along K. Producers fill one of two buffers of LDS while consumers read
the other one; a barrier in each step exchanges them. The tile is 2 x 2 quadrants. Each consumer has a part of each quadrant and reads one
half of A at a time. All waves have the registers that a consumer needs: 168 each with twelve waves, 128 each with sixteen. A tile of 256 x
256 does not fit. These variants exist to be compared with the schedules of `tiled`, in which each wave does both.
"""

from __future__ import annotations

import asmgen as ag
from asmgen.kernels.gemm_bf16.family import GEMM
from asmgen.kernels.products.feeds import feed_of
from asmgen.kernels.products.layouts import BY_ROWS
from asmgen.kernels.products.persistent import ONE_TILE
from asmgen.kernels.products.prologue import begin_feeds, corners_of, place
from asmgen.kernels.products.split import epilogue_of
from asmgen.kernels.products.twohalves import two_halves


@GEMM.variant("gfx950", tile=(128, 256, 64), waves=12, schedule="producer-consumer", occupancy=3, consumers=(2, 4), **ONE_TILE)
@GEMM.variant("gfx950", tile=(192, 256, 64), waves=16, schedule="producer-consumer", occupancy=4, consumers=(3, 4), **BY_ROWS, **ONE_TILE)
def roles(k: ag.TileBuilder) -> None:
    """One of the tiles above; `consumers` are the rows and columns of consumer waves."""
    tm, tn, tk = k.variant.tile
    down, across = k.variant.consumers
    M = k.matrix_shape(f"f32_16x16x32_{k.p.dtype}")

    # register plan: accumulators keep their registers; there is room for one half of A at a time
    C = k.tile("C", tm // 2 // down, tn // 2 // across, M.d.T, grid=(2, 2), note="[half of M][half of N]")
    A = k.tile("A", tm // 2 // down, tk, M.a, note="both halves share it")
    B = k.tile("B", tn // 2 // across, tk, M.b, grid=(2,), note="[half of N]")
    steps = k.registers.sgprs(1, "steps")
    row0, column0 = k.registers.sgprs(1, "row0"), k.registers.sgprs(1, "column0")

    # LDS map
    of_a, of_b = feed_of(k, "a", "A", M.a, tm, 2), feed_of(k, "b", "B", M.b, tn, 2)

    role = k.cast(k.variant.wave_count - down * across)
    wm, wn = k.wave_grid(down, across)
    ag.zero(k, *C)  # while the arguments are in flight
    place(k, row0, column0)
    begin_feeds(k, steps, (k.p.dtype, k.p.dtype), (of_a, of_b), row0, column0)

    step = two_halves(k, C, (A, A), B, of_a, of_b, wm, wn, 1, together=True)
    # the epilogue needs the registers of A and B, so it follows the loop
    k.pipeline(step, steps, ag.ProducerConsumer(), groups=role, then=epilogue_of(k)(
        k, corners_of(k, C), row0, column0, wm, wn, overlaps=False))
