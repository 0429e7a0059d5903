"""gemm-bf16 with all its variants. The first variant of an architecture is its default."""

from asmgen.kernels.gemm_bf16.family import GEMM
from asmgen.kernels.gemm_bf16.tiled import tiled  # isort: split

# The architecture whose variants are declared first is the default, and so is its first variant.

from asmgen.kernels.gemm_bf16.roles import roles  # isort: split

from asmgen.kernels.gemm_bf16.direct import direct_tiles  # isort: split

from asmgen.kernels.gemm_bf16.deep import deep  # isort: split

from asmgen.kernels.gemm_bf16.dots import dots  # isort: split

__all__ = ["GEMM", "deep", "direct_tiles", "dots", "roles", "tiled"]
