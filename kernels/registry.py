"""The kernels of the library by name. A kernel's file is loaded only when it is asked for."""

from __future__ import annotations

from importlib import import_module

from asmgen.author.contract import did_you_mean
from asmgen.author.library import LibraryKernel
from asmgen.isa.errors import AsmgenError
from asmgen.isa.quote import quoted

_MODULES = {"gemm-bf16": "asmgen.kernels.gemm_bf16.library"}


def names() -> list[str]:
    """Every kernel's name."""
    return sorted(_MODULES)


def kernel(name: str) -> LibraryKernel:
    """The kernel of that name. Raises AsmgenError, with the nearest names, for an unknown one."""
    if name not in _MODULES:
        raise AsmgenError(f"there is no kernel {quoted(name)}; {did_you_mean(name, names())}")
    found = import_module(_MODULES[name]).KERNEL
    assert isinstance(found, LibraryKernel)
    return found
