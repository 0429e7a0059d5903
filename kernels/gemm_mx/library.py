"""gemm-mx with all its variants. The first variant is the default."""

from asmgen.kernels.gemm_mx.family import GEMM
from asmgen.kernels.gemm_mx.tiled import tiled  # isort: split

__all__ = ["GEMM", "tiled"]
