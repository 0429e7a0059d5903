"""gemm-mx for gfx950: one step of 256 columns, which two v_mfma_scale_f32_16x16x128_f8f6f4 cover.

A workgroup computes a tm x tn tile of D. The tile is 2 x 2 quadrants; each of four waves has a part of each quadrant. LDS-DMA fills A, B
and their scales `stages` steps before they are read. With two stages LDS has room for halves of matrices that are refilled one by one, and
the second half of A follows a step later.
"""

from __future__ import annotations

import asmgen as ag
from asmgen.kernels.gemm_mx.family import GEMM
from asmgen.kernels.gemm_mx.formats import cells_of
from asmgen.kernels.gemm_mx.scaling import shuffled_scales
from asmgen.kernels.products.epilogue import product_epilogue
from asmgen.kernels.products.prologue import corners_of, place, tiles


@GEMM.variant("gfx950", tile=(128, 128, 256), waves=(2, 2), schedule="interleave", occupancy=1, stages=4)
@GEMM.variant("gfx950", tile=(256, 256, 256), waves=(2, 2), schedule="interleave", occupancy=1, stages=2)
def tiled(k: ag.TileBuilder) -> None:
    """One of the tiles above."""
    tm, tn, tk = k.variant.tile
    down, across = k.variant.waves
    of_a, of_b = k.p.a_dtype, k.p.b_dtype
    M = k.matrix_shape("scale_f32_16x16x128_f8f6f4", cbsz=ag.F8F6F4_FORMATS.index(of_b), blgp=ag.F8F6F4_FORMATS.index(of_a))

    # register plan
    C = k.tile("C", tm // 2 // down, tn // 2 // across, M.d.T, grid=(2, 2), file="a", note="[half of M][half of N]")
    A = k.tile("A", tm // 2 // down, tk, M.b, grid=(2,), note="[half of M]")
    B = k.tile("B", tn // 2 // across, tk, M.a, grid=(2,), note="[half of N]")
    steps = k.registers.sgprs(1, "steps")
    row0, column0 = k.registers.sgprs(1, "row0"), k.registers.sgprs(1, "column0")

    # LDS map
    stages = k.variant.stages
    cells = cells_of(k.variant)
    As = k.shared("As", of_a, tm // cells, tk, stages=stages, grid=(cells,), serves=(ag.FragmentRead(M.b), ag.DmaFill()))
    Bs = k.shared("Bs", of_b, tn // cells, tk, stages=stages, grid=(cells,), serves=(ag.FragmentRead(M.a), ag.DmaFill()))

    wm, wn = k.wave_grid(down, across)
    ag.zero(k, *C)  # while the arguments are in flight
    place(k, row0, column0)
    corners = corners_of(k, C)
    a, b = (rows.parts(cells) for rows in tiles(k, steps, row0, column0, of_a, of_b))
    of_rows = shuffled_scales(k, "a", M, row0, tm, "m", wm)
    of_columns = shuffled_scales(k, "b", M, column0, tn, "n", wn)
    memory, matrix = k.streams("memory", "matrix")

    def half(S: ag.SharedTile, t: ag.StepIndex, number: int, wave: ag.WaveIndex) -> ag.SharedPart:
        if cells == 2:
            return S[t, number].part(wave)
        return S[t, 0].part(ag.PartOf(2 * wave.count, first=number * wave.count, wave=wave))

    def step(t: ag.StepIndex) -> None:
        with k.stage(), memory:
            of_rows.read(t)
            of_columns.read(t)
            ag.read(k, A[0], half(As, t, 0, wm))
            ag.read(k, B[0], half(Bs, t, 0, wn))
            ag.read(k, B[1], half(Bs, t, 1, wn))
            if cells == 2:
                ag.fill(k, As[t + stages - 1, 1], a[1].k(t + stages - 1))
        with k.stage(), matrix:
            for j in range(2):
                ag.mma_scaled(k, C[0, j], A[0], B[j], of_rows.half(t, 0), of_columns.half(t, j))
        with k.stage(), memory:
            ag.read(k, A[1], half(As, t, 1, wm))
            ag.fill(k, As[t + stages, 0], a[0].k(t + stages))
            for cell, part in enumerate(b):
                ag.fill(k, Bs[t + stages, cell], part.k(t + stages))
            of_rows.fill(t + stages)
            of_columns.fill(t + stages)
        with k.stage(), matrix:
            for j in range(2):
                ag.mma_scaled(k, C[1, j], A[1], B[j], of_rows.half(t, 1), of_columns.half(t, j))

    k.pipeline(step, steps, ag.Modulo(), then=product_epilogue(k, corners, row0, column0, wm, wn,
                                                               frees=("A", "B", *of_rows.frees, *of_columns.frees)))
