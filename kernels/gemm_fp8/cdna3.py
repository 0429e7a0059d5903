"""gemm-fp8 for gfx942: the step of four quadrants that the products share. A row of 128 8-bit floats takes the bytes and clk of 64 bf16.

A read of 16 bytes a lane feeds two v_mfma_f32_16x16x32.
"""

from __future__ import annotations

import asmgen as ag
from asmgen.kernels.gemm_fp8.family import GEMM
from asmgen.kernels.gemm_fp8.scaling import loaded_epilogue
from asmgen.kernels.gemm_fp8.shapes import narrow_shape, wide_shape
from asmgen.kernels.products.contract import ELEMENTS
from asmgen.kernels.products.persistent import ONE_TILE
from asmgen.kernels.products.quadrants import quadrants


@GEMM.variant("gfx942", tile=(128, 128, 128), waves=(2, 4), schedule=ELEMENTS, occupancy=2, last_resort=True, stages=1, **ONE_TILE)
@GEMM.variant("gfx942", tile=(128, 128, 128), waves=(2, 2), schedule="interleave", occupancy=2, stages=1)
@GEMM.variant("gfx942", tile=(256, 256, 128), waves=(2, 4), schedule="ping-pong", occupancy=2, stages=1, **ONE_TILE)
@GEMM.variant("gfx942", tile=(256, 256, 128), waves=(2, 2), schedule="interleave", occupancy=1, stages=1, **ONE_TILE)
@GEMM.variant("gfx942", tile=(64, 64, 128), waves=(1, 2), schedule="interleave", occupancy=1, stages=1, early=True, **ONE_TILE)
@GEMM.variant("gfx942", tile=(32, 32, 128), waves=(1, 1), schedule="interleave", occupancy=1, stages=1, early=True, **ONE_TILE)
def cdna3(k: ag.TileBuilder) -> None:
    """One of the tiles above."""
    M = narrow_shape(k)
    quadrants(k, M, ag.deep(M.b, 2), ag.deep(M.a, 2), loaded_epilogue)


@GEMM.variant("gfx950", tile=(128, 128, 128), waves=(2, 4), schedule=ELEMENTS, occupancy=2, last_resort=True, stages=1, **ONE_TILE)
def by_elements(k: ag.TileBuilder) -> None:
    """The same step, whose elements are loaded one by one."""
    M, _, _ = wide_shape(k)
    quadrants(k, M, M.b, M.a, loaded_epilogue)
