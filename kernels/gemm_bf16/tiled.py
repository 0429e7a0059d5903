"""gemm-bf16 for both architectures: the step of four quadrants that the products of the library share.

A read of 16 bytes a lane feeds one v_mfma_f32_16x16x32 of gfx950, or two v_mfma_f32_16x16x16 of gfx942. The small tiles of gfx942 ask
`early` and hold several steps of rows in registers (`Refills.steps_ahead`), where LDS-DMA serves those of gfx950 (`deep`).
"""

from __future__ import annotations

from typing import Any

import asmgen as ag
from asmgen.kernels.gemm_bf16.family import GEMM
from asmgen.kernels.products.contract import ELEMENTS
from asmgen.kernels.products.persistent import ONE_TILE
from asmgen.kernels.products.quadrants import quadrants
from asmgen.kernels.products.split import epilogue_of

CDNA4: dict[str, Any] = {"depth": 32, "stages": 2}  # depth of a matrix instruction along K; buffers in LDS
CDNA3: dict[str, Any] = {"depth": 16, "stages": 1}


@GEMM.variant("gfx950", tile=(128, 128, 64), waves=(2, 2), schedule="interleave", occupancy=2, **CDNA4)
@GEMM.variant("gfx950", tile=(256, 256, 64), waves=(4, 2), schedule="ping-pong", occupancy=2, **CDNA4)
@GEMM.variant("gfx950", tile=(128, 256, 64), waves=(2, 4), schedule="ping-pong", occupancy=2, **CDNA4)
@GEMM.variant("gfx950", tile=(256, 128, 64), waves=(4, 2), schedule="ping-pong", occupancy=2, **CDNA4)
@GEMM.variant("gfx950", tile=(192, 256, 64), waves=(2, 4), schedule="ping-pong", occupancy=2, **CDNA4)
@GEMM.variant("gfx950", tile=(256, 256, 64), waves=(2, 2), schedule="interleave", occupancy=1, **CDNA4)
@GEMM.variant("gfx950", tile=(192, 256, 64), waves=(2, 2), schedule="interleave", occupancy=1, **CDNA4)
@GEMM.variant("gfx950", tile=(128, 256, 64), waves=(2, 2), schedule="interleave", occupancy=1, **CDNA4)
@GEMM.variant("gfx950", tile=(256, 128, 64), waves=(2, 2), schedule="interleave", occupancy=1, **CDNA4)
@GEMM.variant("gfx950", tile=(64, 256, 64), waves=(2, 2), schedule="interleave", occupancy=2, **CDNA4)
@GEMM.variant("gfx950", tile=(128, 128, 64), waves=(2, 4), schedule=ELEMENTS, occupancy=2, last_resort=True, depth=32, stages=1, **ONE_TILE)
@GEMM.variant("gfx942", tile=(128, 128, 64), waves=(2, 2), schedule="interleave", occupancy=2, **CDNA3)
@GEMM.variant("gfx942", tile=(256, 256, 64), waves=(2, 4), schedule="ping-pong", occupancy=2, **CDNA3)
@GEMM.variant("gfx942", tile=(256, 256, 64), waves=(2, 2), schedule="interleave", occupancy=1, **CDNA3, **ONE_TILE)
@GEMM.variant("gfx942", tile=(64, 64, 64), waves=(1, 2), schedule="interleave", occupancy=1, early=True, **CDNA3, **ONE_TILE)
@GEMM.variant("gfx942", tile=(32, 32, 64), waves=(1, 1), schedule="interleave", occupancy=1, early=True, **CDNA3, **ONE_TILE)
@GEMM.variant("gfx942", tile=(128, 128, 64), waves=(2, 4), schedule=ELEMENTS, occupancy=2, last_resort=True, **CDNA3, **ONE_TILE)
def tiled(k: ag.TileBuilder) -> None:
    """One of the tiles above."""
    M = k.matrix_shape(f"f32_16x16x{k.variant.depth}_{k.p.dtype}")
    fa, fb = (ag.deep(operand, 32 // k.variant.depth) for operand in (M.a, M.b))
    quadrants(k, M, fa, fb, epilogue_of(k))
