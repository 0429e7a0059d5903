"""Products of few rows or columns: each wave takes a part of K, and its operands go from memory straight to registers.

Facts: a workgroup computes a tm x tn tile of D; its steps of tk along K are dealt to its waves, neighbouring ones to each. A wave asks for
its fragments of A and B `ahead` steps before it multiplies them, without LDS and without a barrier, so that as much is in flight as a
compute unit holds. At the end LDS exchanges the sums of all waves: `adders` waves, in rows and columns of the tile, add those of their
part in the order of K and store it. So D has the same bits in whatever order waves run.
"""

from __future__ import annotations

from collections.abc import Callable

import asmgen as ag
from asmgen.kernels.products.epilogue import ProductEpilogue
from asmgen.kernels.products.prologue import place, tiles
from asmgen.kernels.products.split import KEEP_SUBNORMAL


def direct(k: ag.TileBuilder, M: ag.MatrixShape, fa: ag.Fragment, fb: ag.Fragment, make_epilogue: Callable[..., ProductEpilogue]) -> None:
    """The kernel with A and B in fragments `fa` and `fb`, of their types. `make_epilogue` takes the arguments of `product_epilogue` except
    the factors."""
    tm, tn, tk = k.variant.tile
    down, across = k.variant.adders
    waves, ahead = k.variant.wave_count, k.variant.stages - 1

    # register plan
    C = k.tile("C", tm, tn, M.d.T, note="the wave's part of K")
    A, B = k.tile("A", tm, tk, fa, stages=ahead + 1), k.tile("B", tn, tk, fb, stages=ahead + 1)
    steps = k.registers.sgprs(1, "steps")
    row0, column0 = k.registers.sgprs(1, "row0"), k.registers.sgprs(1, "column0")

    # LDS map
    Cs = k.shared("Cs", "f32", waves * tm, tn, serves=(ag.FragmentRead(M.d.T), ag.FragmentRead(M.d.T, write=True)))

    wave = k.wave
    ag.zero(k, C)  # while the arguments are in flight
    place(k, row0, column0)
    a, b = tiles(k, steps, row0, column0, fa.dtype, fb.dtype)
    memory, matrix = k.streams("memory", "matrix")

    def step(t: ag.StepIndex) -> None:
        with k.stage(), memory:
            ag.load(k, A[t + ahead], a.k(t + ahead))
            ag.load(k, B[t + ahead], b.k(t + ahead))
        with k.stage(), matrix:
            ag.mma(k, C, A[t], B[t])

    k.pipeline(step, steps, ag.InOrder(), empty=True)

    # the sums of all waves, in the order of K
    k.registers.release("A", "B")
    ag.write(k, Cs[()].part(wave), C)
    k.s_barrier()
    if down * across < waves:
        adds = k.fresh("adds")
        k.s_cmp_lt_u32(wave.register, down * across)
        k.s_cbranch_scc1(adds)
        k.s_endpgm()
        k.label(adds)
    wave_row, wave_column = k.registers.sgprs(1, "wave_row"), k.registers.sgprs(1, "wave_column")
    k.s_lshr_b32(wave_row, wave.register, (across - 1).bit_length())
    k.s_and_b32(wave_column, wave.register, across - 1)
    wm, wn = ag.WaveIndex("wave_row", wave_row, down), ag.WaveIndex("wave_column", wave_column, across)
    P = k.tile("P", tm // down, tn // across, M.d.T, grid=(waves,), note="[wave]")
    for number, part in enumerate(P):
        ag.read(k, part, Cs[()].part(ag.PartOf(waves * down, number * down, wm), wn))
    k.s_setreg_imm32_b32(KEEP_SUBNORMAL, 3)
    for part in list(P)[1:]:
        ag.add(k, P[0], P[0], part)
    make_epilogue(k, [ag.Corner(P[0], 0, 0)], row0, column0, wm, wn, overlaps=False).follow(k)
