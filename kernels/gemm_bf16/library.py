"""gemm-bf16 as the library offers it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from asmgen.author.kernel import Kernel
from asmgen.author.library import LibraryKernel, Parameters
from asmgen.kernels.gemm_bf16.contract import CONTRACT

if TYPE_CHECKING:
    from asmgen.author.library import Problem


def build(arch: str, parameters: Parameters) -> Kernel:
    """The variant of an architecture; only its file is loaded."""
    if CONTRACT.check_arch(arch) == "gfx950":
        from asmgen.kernels.gemm_bf16 import dma

        return dma.build(arch, bool(parameters["preload"]))
    from asmgen.kernels.gemm_bf16 import staged

    return staged.build(arch, bool(parameters["preload"]))


def make_problem(parameters: Parameters, seed: int) -> Problem:
    """Random normal data; numpy is loaded only here."""
    from asmgen.kernels.gemm_bf16.problem import make_problem as make

    return make(parameters, seed)


KERNEL = LibraryKernel(CONTRACT, build, make_problem)
