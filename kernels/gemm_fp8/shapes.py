"""The matrix instructions of gemm-fp8. They compute D transposed, so B is the first operand."""

from __future__ import annotations

import asmgen as ag
from asmgen.kernels.gemm_fp8.operands import ELEMENTS
from asmgen.kernels.products.sides import side


def element_of(k: ag.TileBuilder, name: str) -> str:
    """The type of A or B of what the kernel's code computes."""
    return ELEMENTS[str(k.parameters[side(k.parameters, f"{name}_dtype")])]


def wide_shape(k: ag.TileBuilder) -> tuple[ag.MatrixShape, str, str]:
    """The shape of gfx950, 128 deep, with the types of A and B."""
    of_a, of_b = (element_of(k, name) for name in "ab")
    return k.matrix_shape("f32_16x16x128_f8f6f4", cbsz=ag.F8F6F4_FORMATS.index(of_b), blgp=ag.F8F6F4_FORMATS.index(of_a)), of_a, of_b


def narrow_shape(k: ag.TileBuilder) -> ag.MatrixShape:
    """The shape of gfx942, 32 deep."""
    of_a, of_b = (element_of(k, name) for name in "ab")
    return k.matrix_shape(f"f32_16x16x32_{of_b}_{of_a}")
