"""The families of the library by name, and those of users' own files. A family's file is loaded at the first use."""

from __future__ import annotations

from importlib import import_module

from asmgen.author.contract.contract import did_you_mean
from asmgen.author.family.family import Family
from asmgen.author.family.userfile import families_of, family_of_file, names_a_file
from asmgen.isa.errors import AsmgenError
from asmgen.isa.quote import quoted

_MODULES = {
    "01-vector-add": "asmgen.kernels.examples.01_vector_add",
    "02-row-sum": "asmgen.kernels.examples.02_row_sum",
    "03-transpose": "asmgen.kernels.examples.03_transpose",
    "04-mfma-tile": "asmgen.kernels.examples.04_mfma_tile",
    "activation": "asmgen.kernels.activation.library",
    "attention-backward": "asmgen.kernels.attention_backward.library",
    "attention-forward": "asmgen.kernels.attention_forward.library",
    "gemm-bf16": "asmgen.kernels.gemm_bf16.library",
    "gemm-fp8": "asmgen.kernels.gemm_fp8.library",
    "gemm-mx": "asmgen.kernels.gemm_mx.library",
    "norm": "asmgen.kernels.norm.library",
    "norm-backward": "asmgen.kernels.norm_backward.library",
    "quantize": "asmgen.kernels.quantize.library",
    "rope": "asmgen.kernels.rope.library",
    "softmax": "asmgen.kernels.softmax.library",
}
CODE_SUFFIXES = (".s", ".S", ".asm", ".amdgcn", ".co", ".o", ".hsaco")


def names() -> list[str]:
    """The names of all families."""
    return sorted(_MODULES)


def family(name: str) -> Family:
    """The family of that name, or of FILE.py:NAME. Raises AsmgenError, with the nearest names, for an unknown one."""
    if names_a_file(name):
        return family_of_file(name)
    if name.endswith(CODE_SUFFIXES):
        raise AsmgenError(f"{quoted(name)} names a file of code, where a kernel of the library or FILE.py:NAME is wanted; lint, inspect, "
                          "diff, explain and prove read such a file; launch, profile and banks run it as a launch specification "
                          "(SPEC.json) says")
    if name not in _MODULES:
        raise AsmgenError(f"there is no kernel {quoted(name)}; {did_you_mean(name, names())}; a file of your own is named FILE.py:NAME")
    return next(found for found in families_of(vars(import_module(_MODULES[name]))).values() if found.name == name)
