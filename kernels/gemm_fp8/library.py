"""gemm-fp8 as the library offers it: the family with its variants, the first of an architecture being the default."""

from asmgen.kernels.gemm_fp8.family import GEMM
from asmgen.kernels.gemm_fp8.tiled import tiled  # isort: split

from asmgen.kernels.gemm_fp8.blocks import blocks  # isort: split

# The architecture whose variants are declared first is the default, the first of its variants too.

from asmgen.kernels.gemm_fp8.cdna3 import cdna3  # isort: split

__all__ = ["GEMM", "blocks", "cdna3", "tiled"]
