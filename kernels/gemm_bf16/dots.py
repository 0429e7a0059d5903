"""gemm-bf16 for at most four rows: B in whole lines (`products/dots.py`)."""

from __future__ import annotations

from typing import Any

import asmgen as ag
from asmgen.kernels.gemm_bf16.family import GEMM
from asmgen.kernels.products.contract import DOTS
from asmgen.kernels.products.dots import dot_products
from asmgen.kernels.products.layouts import BY_ROWS
from asmgen.kernels.products.persistent import ONE_TILE
from asmgen.kernels.products.split import epilogue_of

FIXED: dict[str, Any] = {"schedule": DOTS, "split_k": 1, "invariant": False, **BY_ROWS, **ONE_TILE}


@GEMM.variant("gfx950", tile=(1, 4, 1024), waves=2, stages=3, depth=32, **FIXED)
@GEMM.variant("gfx950", tile=(1, 8, 1024), waves=4, stages=3, depth=32, **FIXED)
@GEMM.variant("gfx950", tile=(4, 8, 512), waves=1, stages=3, depth=32, worth_from=2, **FIXED)
@GEMM.variant("gfx950", tile=(4, 4, 512), waves=1, stages=5, depth=32, worth_from=2, **FIXED)
@GEMM.variant("gfx942", tile=(1, 2, 1024), waves=1, stages=3, depth=16, **FIXED)
@GEMM.variant("gfx942", tile=(1, 4, 512), waves=2, stages=3, depth=16, **FIXED)
@GEMM.variant("gfx942", tile=(1, 4, 1024), waves=2, stages=3, depth=16, **FIXED)
@GEMM.variant("gfx942", tile=(4, 4, 512), waves=1, stages=3, depth=16, worth_from=2, **FIXED)
@GEMM.variant("gfx942", tile=(4, 8, 512), waves=1, stages=3, depth=16, worth_from=2, **FIXED)
def dots(k: ag.TileBuilder) -> None:
    """One of the tiles above."""
    M = k.matrix_shape(f"f32_16x16x{k.variant.depth}_{k.p.dtype}")
    dot_products(k, M, True, epilogue_of(k))
