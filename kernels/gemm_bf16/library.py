"""gemm-bf16 as the library offers it: the family with its variants, the first of an architecture being the default."""

from asmgen.kernels.gemm_bf16.family import GEMM
from asmgen.kernels.gemm_bf16.tiled import tiled  # isort: split

# The architecture whose variants are declared first is the default, the first of its variants too.

from asmgen.kernels.gemm_bf16.roles import roles  # isort: split

__all__ = ["GEMM", "roles", "tiled"]
