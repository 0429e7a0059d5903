"""gemm-mx for few rows of A: each wave loads what it multiplies straight into registers, without LDS and without a barrier.

Loads run some steps of 256 columns ahead: memory decides how long such a product takes, and bytes in flight hide its latency. Waves of a
workgroup have the same rows, so all but one find A in the L1 cache. Of bf16 or f16 each wave quantises the A
that it multiplies. Where one row of tiles reads B, once, `b_nontemporal` says so to the caches.

streamed: two waves side by side. basic: one wave for 16 x 16 of D, so that small products have many workgroups. whole-k: all of K, of two
steps at most, is asked for before the first product.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import asmgen as ag
from asmgen.kernels.gemm_mx.depth import depth_of
from asmgen.kernels.gemm_mx.family import GEMM
from asmgen.kernels.gemm_mx.formats import BASIC, FRAGMENT_ROWS, GROUP_ROWS, STREAMED, WHOLE_K, is_quantised, multiplied
from asmgen.kernels.gemm_mx.operandloads import operand_loads
from asmgen.kernels.gemm_mx.operands import rows_of
from asmgen.kernels.gemm_mx.quantised import QuantisedRows, quantised_rows, raw_fragment
from asmgen.kernels.gemm_mx.streamscales import stream_scales
from asmgen.kernels.products.prologue import place
from asmgen.kernels.products.split import epilogue_of

_HELD = {"a": 128, "b": 200}
"""Registers for A (VGPRs, which addresses share) and B (AGPRs, which sums share) of all steps in flight."""
_MOST_AHEAD = 6


@GEMM.variant("gfx950", tile=(32, 128, 256), waves=(1, 2), schedule=STREAMED, occupancy=1, stages=1)
@GEMM.variant("gfx950", tile=(16, 64, 256), waves=(1, 2), schedule=STREAMED, occupancy=1, stages=1)
@GEMM.variant("gfx950", tile=(16, 16, 256), waves=(1, 1), schedule=BASIC, occupancy=1, stages=1)
@GEMM.variant("gfx950", tile=(16, 32, 256), waves=(1, 1), schedule=WHOLE_K, occupancy=1, stages=1)
def streamed(k: ag.TileBuilder) -> None:
    """One of the tiles above."""
    tm, tn, tk = k.variant.tile
    down, across = k.variant.waves
    of_a, of_b, scaled = multiplied(k.parameters), k.p.b_dtype, k.p.scales != "none"
    M = k.matrix_shape(f"{'scale_' if scaled else ''}f32_16x16x128_f8f6f4", cbsz=ag.F8F6F4_FORMATS.index(of_b),
                       blgp=ag.F8F6F4_FORMATS.index(of_a))
    halves = {"a": tm // FRAGMENT_ROWS // down, "b": max(1, tn // across // GROUP_ROWS)}  # a dword of scales serves 32 columns
    fa = raw_fragment(k, M.b)
    sizes = {"a": tm // 16 * tk // 128 * fa.registers, "b": tn // 16 // across * tk // 128 * M.a.registers}
    stages = min(_MOST_AHEAD, *(_HELD[name] // size for name, size in sizes.items()))

    # register plan
    C = k.tile("C", tm // halves["a"] // down, tn // halves["b"] // across, M.d.T, grid=tuple(halves.values()), file="a",
               note="[half of M][half of N]")
    A = k.tile("A", tm // halves["a"] // down, tk, fa, grid=(halves["a"],), stages=stages, note="[half of M]")
    B = k.tile("B", tn // halves["b"] // across, tk, M.a, grid=(halves["b"],), stages=stages, file="a", note="[half of N]")
    row0, column0 = k.registers.sgprs(1, "row0"), k.registers.sgprs(1, "column0")

    wm, wn = k.wave_grid(down, across)
    ag.zero(k, *C)  # while the arguments are in flight
    place(k, row0, column0)
    k.end_brief_arguments()
    k.registers.release("workgroup_x", "workgroup_y", "kernarg")
    corners = [ag.Corner(C[i, j], i * tm // halves["a"], j * tn // halves["b"]) for i in range(halves["a"]) for j in range(halves["b"])]
    depth = depth_of(k)
    a = operand_loads(k, rows_of(k, depth, "a", k.p.a_dtype, row0), A.tiles[0], halves["a"], wm, k.p.a_dtype)
    b = [replace(one, nontemporal=k.p.b_nontemporal)
         for one in operand_loads(k, rows_of(k, depth, "b", of_b, column0), B.tiles[0], halves["b"], wn, of_b)]
    one = ag.WaveIndex("one", 0, 1)
    of_rows: QuantisedRows | None = quantised_rows(k, M.b, tm // halves["a"] // down, halves["a"]) if is_quantised(k.parameters) else None
    of_scales = [stream_scales(k, M, depth, stages, name, first, halves[name], waves)
                 for name, first, waves in (("a", row0, one), ("b", column0, wn)) if scaled and (name == "b" or of_rows is None)]
    memory, matrix = k.streams("memory", "matrix")

    def step(t: ag.StepIndex) -> None:
        ahead = t + stages - 1
        with k.stage(), memory:
            for half in range(2):
                for loads, tiles, count in ((a, A, halves["a"]), (b, B, halves["b"])):
                    if half < count:
                        for part in loads:
                            part.load(tiles[ahead, half], ahead, half)
            for found in of_scales:
                found.load(ahead)
        with k.stage(), matrix:
            left: list[tuple[ag.Tile, ag.Scales | None]]
            if of_rows is not None:
                left = [of_rows.make(A[t, i], i) for i in range(halves["a"])]
            else:
                left = [(A[t, i], of_scales[0].half(t, i) if scaled else None) for i in range(halves["a"])]
            right = [(B[t, j], of_scales[-1].half(t, j) if scaled else None) for j in range(halves["b"])]
            for (i, (x, of_x)), (j, (y, of_y)) in itertools.product(enumerate(left), enumerate(right)):
                if of_x is not None and of_y is not None:
                    ag.mma_scaled(k, C[i, j], x, y, of_x, of_y)
                else:
                    ag.mma(k, C[i, j], x, y)

    epilogue = epilogue_of(k)(k, corners, row0, column0, wm, wn, overlaps=False)
    k.pipeline(step, depth.steps, ag.InOrder(), then=epilogue, few=True)
