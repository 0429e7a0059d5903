"""gemm-fp8 for at most four rows: B in whole lines (`products/dots.py`)."""

from __future__ import annotations

from typing import Any

import asmgen as ag
from asmgen.kernels.gemm_fp8.family import GEMM
from asmgen.kernels.gemm_fp8.scaling import early_factors
from asmgen.kernels.gemm_fp8.shapes import narrow_shape
from asmgen.kernels.products.contract import DOTS
from asmgen.kernels.products.dots import dot_products
from asmgen.kernels.products.layouts import BY_ROWS
from asmgen.kernels.products.persistent import ONE_TILE

FIXED: dict[str, Any] = {"schedule": DOTS, "split_k": 1, "invariant": False, **BY_ROWS, **ONE_TILE}


@GEMM.variant("gfx950", tile=(1, 4, 1024), waves=2, stages=3, **FIXED)
@GEMM.variant("gfx950", tile=(1, 4, 2048), waves=2, stages=3, **FIXED)
@GEMM.variant("gfx950", tile=(1, 8, 1024), waves=4, stages=3, **FIXED)
@GEMM.variant("gfx950", tile=(4, 8, 1024), waves=1, stages=3, worth_from=2, **FIXED)
@GEMM.variant("gfx950", tile=(4, 4, 1024), waves=1, stages=5, worth_from=2, **FIXED)
@GEMM.variant("gfx950", tile=(4, 16, 1024), waves=2, stages=3, worth_from=2, **FIXED)
@GEMM.variant("gfx942", tile=(1, 2, 2048), waves=1, stages=3, **FIXED)
@GEMM.variant("gfx942", tile=(1, 4, 1024), waves=2, stages=3, **FIXED)
@GEMM.variant("gfx942", tile=(1, 4, 2048), waves=2, stages=3, **FIXED)
@GEMM.variant("gfx942", tile=(4, 8, 1024), waves=1, stages=3, worth_from=2, **FIXED)
@GEMM.variant("gfx942", tile=(4, 16, 1024), waves=2, stages=3, worth_from=2, **FIXED)
def dots(k: ag.TileBuilder) -> None:
    """One of the tiles above."""
    dot_products(k, narrow_shape(k), False, *early_factors(k))
