"""gemm-bf16 as the library offers it: the family with its variants, the first of an architecture being the default."""

from asmgen.kernels.gemm_bf16.family import GEMM
from asmgen.kernels.gemm_bf16.tiled import tiled

__all__ = ["GEMM", "tiled"]
