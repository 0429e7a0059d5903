"""gemm-fp8 for gfx942: the step of four quadrants that the products share. A row of 128 8-bit floats takes the bytes and clk of 64 bf16.

A read of 16 bytes a lane feeds two v_mfma_f32_16x16x32.
"""

from __future__ import annotations

from collections.abc import Sequence

import asmgen as ag
from asmgen.kernels.gemm_fp8.family import GEMM
from asmgen.kernels.gemm_fp8.scaling import load_factors, with_alpha
from asmgen.kernels.gemm_fp8.shapes import narrow_shape, wide_shape
from asmgen.kernels.products.contract import ELEMENTS
from asmgen.kernels.products.epilogue import ProductEpilogue
from asmgen.kernels.products.layouts import BY_ROWS
from asmgen.kernels.products.quadrants import quadrants
from asmgen.kernels.products.split import epilogue_of


@GEMM.variant("gfx942", tile=(128, 128, 128), waves=(2, 4), schedule=ELEMENTS, occupancy=2, last_resort=True, stages=1)
@GEMM.variant("gfx942", tile=(128, 128, 128), waves=(2, 2), schedule="interleave", occupancy=2, stages=1)
@GEMM.variant("gfx942", tile=(256, 256, 128), waves=(2, 4), schedule="ping-pong", occupancy=2, stages=1, **BY_ROWS)
@GEMM.variant("gfx942", tile=(256, 256, 128), waves=(2, 2), schedule="interleave", occupancy=1, stages=1)
def cdna3(k: ag.TileBuilder) -> None:
    """One of the tiles above."""
    M = narrow_shape(k)
    quadrants(k, M, ag.deep(M.b, 2), ag.deep(M.a, 2), _ends)


@GEMM.variant("gfx950", tile=(128, 128, 128), waves=(2, 4), schedule=ELEMENTS, occupancy=2, last_resort=True, stages=1)
def by_elements(k: ag.TileBuilder) -> None:
    """The same step, whose elements are loaded one by one."""
    M, _, _ = wide_shape(k)
    quadrants(k, M, M.b, M.a, _ends)


def _ends(k: ag.TileBuilder, corners: Sequence[ag.Corner], row0: ag.Reg, column0: ag.Reg, wm: ag.WaveIndex,
          wn: ag.WaveIndex, overlaps: bool) -> ProductEpilogue:
    """The epilogue. Scales of rows and columns are loaded after the loop, which leaves no registers for them."""
    def loaded_epilogue(overlaps: bool) -> ProductEpilogue:
        factors = load_factors(k, corners, row0, column0, wm, wn)
        with_alpha(factors)
        return epilogue_of(k)(k, corners, row0, column0, wm, wn, factors, overlaps)

    if k.p.scales == "tensor":
        return loaded_epilogue(overlaps)
    return ProductEpilogue(None, None, lambda: loaded_epilogue(overlaps=False).follow(k))
