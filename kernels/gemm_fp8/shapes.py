"""The matrix instructions of gemm-fp8. D is made turned, so B is the instruction's first operand."""

from __future__ import annotations

from asmgen.author.builders.tilebuilder import TileBuilder
from asmgen.author.tiles.fragments import MatrixShape
from asmgen.isa.opcodes.mfma import F8F6F4_FORMATS
from asmgen.kernels.gemm_fp8.operands import ELEMENTS


def wide_shape(k: TileBuilder) -> tuple[MatrixShape, str, str]:
    """gfx950's, 128 deep, with the types of A and B."""
    of_a, of_b = ELEMENTS[k.p.a_dtype], ELEMENTS[k.p.b_dtype]
    return k.matrix_shape("f32_16x16x128_f8f6f4", cbsz=F8F6F4_FORMATS.index(of_b), blgp=F8F6F4_FORMATS.index(of_a)), of_a, of_b


def narrow_shape(k: TileBuilder) -> MatrixShape:
    """gfx942's, 32 deep."""
    return k.matrix_shape(f"f32_16x16x32_{ELEMENTS[k.p.b_dtype]}_{ELEMENTS[k.p.a_dtype]}")
