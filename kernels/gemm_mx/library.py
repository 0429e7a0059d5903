"""gemm-mx with all its variants. The first variant is the default."""

from asmgen.kernels.gemm_mx.family import GEMM
from asmgen.kernels.gemm_mx.tiled import tiled  # isort: split

from asmgen.kernels.gemm_mx.streamed import streamed  # isort: split

# The kernel that is launched before some of them.

from asmgen.kernels.gemm_mx.arranging import arrange  # isort: split

__all__ = ["GEMM", "arrange", "streamed", "tiled"]
