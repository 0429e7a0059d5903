"""gemm-mx for few rows of A: each of two waves loads what it multiplies straight into registers, without LDS and without a barrier.

A workgroup computes 32 x 128 of D. Loads run some steps of 256 columns ahead: memory decides how long such a product takes, and bytes in
flight hide its latency. One of the two waves finds A in the L1 cache.
"""

from __future__ import annotations

import asmgen as ag
from asmgen.kernels.gemm_mx.depth import depth_of
from asmgen.kernels.gemm_mx.family import GEMM
from asmgen.kernels.gemm_mx.formats import ELEMENTS, FRAGMENT_ROWS, STREAMED
from asmgen.kernels.gemm_mx.operands import OperandRows, rows_of
from asmgen.kernels.gemm_mx.streamloads import LanePiece, StepLoads, step_loads
from asmgen.kernels.gemm_mx.streamscales import stream_scales
from asmgen.kernels.products.epilogue import product_epilogue
from asmgen.kernels.products.prologue import corners_of, place

_HELD = {"a": 120, "b": 200}
"""Registers for A (VGPRs, which addresses share) and B (AGPRs, which sums share) of all steps in flight."""
_MOST_AHEAD = 6


@GEMM.variant("gfx950", tile=(32, 128, 256), waves=(1, 2), schedule=STREAMED, occupancy=1, stages=1)
def streamed(k: ag.TileBuilder) -> None:
    """The tile above."""
    tm, tn, tk = k.variant.tile
    down, across = k.variant.waves
    of_a, of_b, scaled = k.p.a_dtype, k.p.b_dtype, k.p.scales != "none"
    M = k.matrix_shape(f"{'scale_' if scaled else ''}f32_16x16x128_f8f6f4", cbsz=ag.F8F6F4_FORMATS.index(of_b),
                       blgp=ag.F8F6F4_FORMATS.index(of_a))
    sizes = {"a": tm // 16 * tk // 128 * M.b.registers, "b": tn // 16 // across * tk // 128 * M.a.registers}
    stages = min(_MOST_AHEAD, *(_HELD[name] // size for name, size in sizes.items()))

    # register plan
    C = k.tile("C", tm // 2 // down, tn // 2 // across, M.d.T, grid=(2, 2), file="a", note="[half of M][half of N]")
    A = k.tile("A", tm // 2 // down, tk, M.b, grid=(2,), stages=stages, note="[half of M]")
    B = k.tile("B", tn // 2 // across, tk, M.a, grid=(2,), stages=stages, file="a", note="[half of N]")
    row0, column0 = k.registers.sgprs(1, "row0"), k.registers.sgprs(1, "column0")

    wm, wn = k.wave_grid(down, across)
    ag.zero(k, *C)  # while the arguments are in flight
    place(k, row0, column0)
    corners = corners_of(k, C)
    depth = depth_of(k)
    a = _operand(k, rows_of(k, depth, "a", of_a, row0), A, wm, of_a)
    b = _operand(k, rows_of(k, depth, "b", of_b, column0), B, wn, of_b)
    scales = stream_scales(k, M, depth, stages, row0, column0, wn) if scaled else None
    memory, matrix = k.streams("memory", "matrix")

    def step(t: ag.StepIndex) -> None:
        ahead = t + stages - 1
        with k.stage(), memory:
            for half in range(2):
                a.load(A[ahead, half], ahead, half)
                b.load(B[ahead, half], ahead, half)
            for one in scales or ():
                one.load(ahead)
        with k.stage(), matrix:
            for i in range(2):
                for j in range(2):
                    if scales is not None:
                        ag.mma_scaled(k, C[i, j], A[t, i], B[t, j], scales[0].half(t, i), scales[1].half(t, j))
                    else:
                        ag.mma(k, C[i, j], A[t, i], B[t, j])

    k.pipeline(step, depth.steps, ag.InOrder(), then=product_epilogue(k, corners, row0, column0, wm, wn, overlaps=False))


def _operand(k: ag.TileBuilder, operand: OperandRows, tiles: ag.TileGrid, waves: ag.WaveIndex, dtype: str) -> StepLoads:
    """The loads of A or B. A lane has 16 or 24 neighbouring bytes of each fragment, or, of 8 bits, 16 of each half of its columns. Shuffled
    weights are 1024 bytes for each of those 16, lane after lane."""
    tile, bits, together = tiles.tiles[0], ELEMENTS[dtype], operand.source.together
    bytes_ = tile.fragment.columns * bits // 8 * together
    lane = 24 if bits == 6 else 16
    parts = {4: ((0, 4, 0),), 6: ((0, 4, 0), (4, 2, 16)), 8: ((0, 4, 0), (4, 4, 64 * together))}[bits]
    pieces = tuple(LanePiece(row, number * tile.fragment.registers + first, count, column * bytes_ + more)
                   for number, (row, column) in enumerate(tile.positions()) for first, count, more in parts)
    return step_loads(k, operand.rows, operand.source.ahead, pieces, lane, waves, operand.source.limit, operand.source.jump, 2,
                      FRAGMENT_ROWS // together)
