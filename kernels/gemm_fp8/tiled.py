"""gemm-fp8 for gfx950: one step function, scheduled as ping-pong (8 waves) or interleave (4 waves).

Facts: a workgroup computes a tm x tn tile of D in steps of tk = 128 along K, which one v_mfma_f32_16x16x128_f8f6f4 covers. The tile is
2 x 2 quadrants; each wave has a part of each quadrant. A step is two products of a half of A with all of B (`twohalves`). LDS-DMA fills
both matrices `ahead` steps before they are read, and the second half of A one step later. With two buffers, a half is requested as soon as
its last reader has passed. Ping-pong tiles below 256 x 256 read equal parts in both memory stages.
"""

from __future__ import annotations

from functools import partial

import asmgen as ag
from asmgen.kernels.gemm_fp8.family import GEMM
from asmgen.kernels.gemm_fp8.scaling import load_factors, loaded_epilogue, with_alpha
from asmgen.kernels.gemm_fp8.shapes import wide_shape
from asmgen.kernels.products.anyk import takes_any_k
from asmgen.kernels.products.contract import is_persistent
from asmgen.kernels.products.feeds import feed_of
from asmgen.kernels.products.lastcolumns import LastColumns, after_last_columns
from asmgen.kernels.products.persistent import ONE_TILE, Tiles
from asmgen.kernels.products.prologue import begin_feeds, corners_of, place
from asmgen.kernels.products.split import epilogue_of
from asmgen.kernels.products.streamed import first_item, make_items
from asmgen.kernels.products.twohalves import even_halves, halves_of_b, is_even, two_halves

SCHEDULES: dict[str, ag.Schedule] = {"ping-pong": ag.PingPong(), "interleave": ag.Modulo(beside=__file__)}


@GEMM.variant("gfx950", tile=(128, 128, 128), waves=(2, 2), schedule="interleave", occupancy=1, stages=2, ahead=2)
@GEMM.variant("gfx950", tile=(256, 256, 128), waves=(2, 4), schedule="ping-pong", occupancy=2, stages=2, ahead=2)
@GEMM.variant("gfx950", tile=(128, 256, 128), waves=(2, 4), schedule="ping-pong", occupancy=2, stages=2, ahead=2)
@GEMM.variant("gfx950", tile=(256, 128, 128), waves=(4, 2), schedule="ping-pong", occupancy=2, stages=2, ahead=2)
@GEMM.variant("gfx950", tile=(256, 256, 128), waves=(2, 2), schedule="interleave", occupancy=1, stages=2, ahead=2)
@GEMM.variant("gfx950", tile=(128, 256, 128), waves=(2, 2), schedule="interleave", occupancy=1, stages=2, ahead=2)
@GEMM.variant("gfx950", tile=(256, 128, 128), waves=(2, 2), schedule="interleave", occupancy=1, stages=2, ahead=2)
@GEMM.variant("gfx950", tile=(64, 64, 128), waves=(2, 2), schedule="interleave", occupancy=1, stages=8, ahead=6, **ONE_TILE)
def tiled(k: ag.TileBuilder) -> None:
    """One of the tiles above."""
    tm, tn, tk = k.variant.tile
    down, across = k.variant.waves
    interleaved = k.variant.schedule == "interleave"
    M, type_a, type_b = wide_shape(k)

    # register plan: accumulators keep their registers; with two waves on a SIMD there is room for one half of A
    C = k.tile("C", tm // 2 // down, tn // 2 // across, M.d.T, grid=(2, 2), file="a" if interleaved else "v", note="[half of M][half of N]")
    A = k.tile("A", tm // 2 // down, tk, M.b, grid=(2 if interleaved else 1,), note="[half of M]" if interleaved else "for both halves")
    B = halves_of_b(k, tn // 2 // across, M.a)
    steps = k.registers.sgprs(1, "steps")
    group = None if interleaved else k.registers.sgprs(1, "group", note="waves 4 to 7 run a stage later")
    row0, column0 = k.registers.sgprs(1, "row0"), k.registers.sgprs(1, "column0")

    # LDS map
    stages, ahead = k.variant.stages, k.variant.ahead
    of_a, of_b = feed_of(k, "a", "A", M.b, tm, stages), feed_of(k, "b", "B", M.a, tn, stages)

    wm, wn = k.wave_grid(down, across)
    corners = corners_of(k, C)
    tiles: Tiles | None = None
    if is_persistent(k.parameters):
        tiles = first_item(k, C, row0, column0, steps)
    else:
        ag.zero(k, *C)  # while the arguments are in flight
        place(k, row0, column0)
    factors = load_factors(k, corners, row0, column0, wm, wn) if tiles is None or k.p.scales == "tensor" else None
    if group is not None:
        k.s_lshr_b32(group, k.wave.register, 2)
    begin_feeds(k, steps, (type_a, type_b), (of_a, of_b), row0, column0, tiles.columns if tiles is not None else None)
    any_k = takes_any_k(k.parameters)
    alone = tiles is None and not any_k  # then first loads are there for each count, and alpha is waited for among them
    if factors is not None and not alone:
        with_alpha(factors)

    step = even_halves(k, C, A[0], B, of_a, of_b, wm, wn, ahead) if is_even(k) else two_halves(
        k, C, (A[0], A[1 if interleaved else 0]), B, of_a, of_b, wm, wn, ahead)
    # transposing reads are twice as many, which leaves the simpler schedule no room for its fills
    schedule = ag.Modulo() if interleaved and (of_a.transposes or of_b.transposes) else SCHEDULES[k.variant.schedule]
    if tiles is not None:
        make_items(k, step, steps, schedule, group, tiles, corners, lambda onward: loaded_epilogue(
            k, corners, *tiles.own_first, wm, wn, factors, onward=onward),
            LastColumns(C, A[0], B[1], (of_a, of_b), tiles.own_first, (wm, wn), tiles,
                        idle=not interleaved and not is_even(k)))
        return
    ends = epilogue_of(k)(k, corners, row0, column0, wm, wn, factors)
    meanwhile = partial(with_alpha, factors) if factors is not None and alone else None
    k.pipeline(step, steps, schedule, groups=group, empty=any_k, meanwhile=meanwhile,
               then=after_last_columns(k, ends, LastColumns(C, A[0], B[1], (of_a, of_b), (row0, column0), (wm, wn))))
