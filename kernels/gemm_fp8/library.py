"""gemm-fp8 as the library offers it: the family with its variants, the first of an architecture being the default."""

from asmgen.kernels.gemm_fp8.family import GEMM
from asmgen.kernels.gemm_fp8.tiled import tiled

__all__ = ["GEMM", "tiled"]
