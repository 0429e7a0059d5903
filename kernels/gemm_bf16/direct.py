"""gemm-bf16 for few rows or columns: the waves of a workgroup share K (`products/direct.py`)."""

from __future__ import annotations

from typing import Any

import asmgen as ag
from asmgen.kernels.gemm_bf16.family import GEMM
from asmgen.kernels.products.contract import DEALT, DEALT_WAVES, FEW_ROWS
from asmgen.kernels.products.direct import Direct, direct
from asmgen.kernels.products.layouts import BY_ROWS
from asmgen.kernels.products.persistent import ONE_TILE
from asmgen.kernels.products.split import epilogue_of

FIXED: dict[str, Any] = {"waves": DEALT_WAVES, "schedule": DEALT, "worth_from": FEW_ROWS + 1, **ONE_TILE}


@GEMM.variant("gfx950", tile=(32, 32, 64), adders=(2, 2), stages=2, depth=32, **FIXED)
@GEMM.variant("gfx950", tile=(16, 16, 64), adders=(1, 1), stages=3, depth=32, **BY_ROWS, **FIXED)
@GEMM.variant("gfx950", tile=(16, 32, 64), adders=(1, 2), stages=3, depth=32, **FIXED)
@GEMM.variant("gfx950", tile=(32, 64, 32), adders=(2, 2), stages=3, depth=32, **FIXED)
@GEMM.variant("gfx950", tile=(64, 64, 32), adders=(2, 2), stages=2, depth=32, **FIXED)
@GEMM.variant("gfx942", tile=(32, 32, 64), adders=(2, 2), stages=2, depth=16, **FIXED)
@GEMM.variant("gfx942", tile=(16, 32, 64), adders=(1, 2), stages=3, depth=16, **FIXED)
@GEMM.variant("gfx942", tile=(32, 64, 32), adders=(2, 2), stages=3, depth=16, **FIXED)
def direct_tiles(k: ag.TileBuilder) -> None:
    """One of the tiles above."""
    M = k.matrix_shape(f"f32_16x16x{k.variant.depth}_{k.p.dtype}")
    fa, fb = (ag.deep(operand, 32 // k.variant.depth) for operand in (M.a, M.b))
    direct(k, M, fa, fb, Direct(epilogue_of(k)))
