"""gemm-fp8 with all its variants. The first variant of an architecture is its default."""

from asmgen.kernels.gemm_fp8.family import GEMM
from asmgen.kernels.gemm_fp8.tiled import tiled  # isort: split

from asmgen.kernels.gemm_fp8.blocks import blocks  # isort: split

# The architecture whose variants are declared first is the default, and so is its first variant.

from asmgen.kernels.gemm_fp8.cdna3 import cdna3  # isort: split

from asmgen.kernels.gemm_fp8.direct import direct_tiles  # isort: split

from asmgen.kernels.gemm_fp8.deep import deep  # isort: split

from asmgen.kernels.gemm_fp8.dots import dots  # isort: split

__all__ = ["GEMM", "blocks", "cdna3", "deep", "direct_tiles", "dots", "tiled"]
