"""gemm-bf16 as the library offers it: the family with its variants, the first of an architecture being the default."""

from asmgen.kernels.gemm_bf16.dma import dma
from asmgen.kernels.gemm_bf16.family import GEMM
from asmgen.kernels.gemm_bf16.staged import staged

__all__ = ["GEMM", "dma", "staged"]
