"""The matrix instructions of gemm-fp8. They compute D transposed, so B is the first operand."""

from __future__ import annotations

import asmgen as ag
from asmgen.kernels.gemm_fp8.operands import ELEMENTS


def wide_shape(k: ag.TileBuilder) -> tuple[ag.MatrixShape, str, str]:
    """The shape of gfx950, 128 deep, with the types of A and B."""
    of_a, of_b = ELEMENTS[k.p.a_dtype], ELEMENTS[k.p.b_dtype]
    return k.matrix_shape("f32_16x16x128_f8f6f4", cbsz=ag.F8F6F4_FORMATS.index(of_b), blgp=ag.F8F6F4_FORMATS.index(of_a)), of_a, of_b


def narrow_shape(k: ag.TileBuilder) -> ag.MatrixShape:
    """The shape of gfx942, 32 deep."""
    return k.matrix_shape(f"f32_16x16x32_{ELEMENTS[k.p.b_dtype]}_{ELEMENTS[k.p.a_dtype]}")
