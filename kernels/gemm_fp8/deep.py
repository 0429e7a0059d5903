"""gemm-fp8 for few rows or columns in any layout, gfx950: the step of `tiled` with many steps in LDS, as gemm-bf16 has it (`deep`)."""

from __future__ import annotations

import asmgen as ag
from asmgen.kernels.gemm_fp8.family import GEMM
from asmgen.kernels.gemm_fp8.tiled import tiled
from asmgen.kernels.products.persistent import ONE_TILE


@GEMM.variant("gfx950", tile=(32, 32, 128), waves=(1, 1), schedule="interleave", occupancy=1, stages=8, ahead=6, **ONE_TILE)
@GEMM.variant("gfx950", tile=(64, 32, 128), waves=(2, 1), schedule="interleave", occupancy=1, stages=6, ahead=4, **ONE_TILE)
def deep(k: ag.TileBuilder) -> None:
    """One of the tiles above."""
    tiled(k)
