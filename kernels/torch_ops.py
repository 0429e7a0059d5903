"""The library's functions as PyTorch operators, so that torch.compile keeps them whole: `import asmgen.kernels.torch_ops`, then

    d = torch.ops.asmgen.rms_norm(x, weight)             # layer_norm, softmax, rope, quantize and more: torch_rows.py
    d = torch.ops.asmgen.gemm_bf16(a, b)                 # a [M, K], b [N, K] as torch.nn.Linear holds weights
    torch.ops.asmgen.gemm_bf16_out(a, b, out)            # into out [M, N]
    d = torch.ops.asmgen.gemm_fp8(a, b, a_scale, b_scale)        # float8, as gemm.fp8; gemm_fp8_out(a, b, out, ...) too
    d = torch.ops.asmgen.gemm_mx(a, a_scale, b, b_scale)         # microscaled; as gemm.mx, options by name
    torch.ops.asmgen.gemm_mx_out(a, a_scale, b, b_scale, out)
    d = torch.ops.asmgen.matmul(a, b)                    # a @ b of [..., M, K] and [..., K, N], as gemm.matmul, each type and layout
    o, lse = torch.ops.asmgen.attention(q, k, v)         # and its gradients: attention_ops has all arguments

On tensors of a ROCm GPU they launch there. On host tensors they run on the emulator (gfx950; float8 with fnuz on gfx942), which is slow;
its time says nothing about a GPU. No machine that tests this has PyTorch on ROCm: the operators were tested on host tensors.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

from numpy import broadcast_shapes

from asmgen.isa.errors import AsmgenError
from asmgen.kernels import attention_ops, gemm

HOST_ARCH, FNUZ_ARCH = "gfx950", "gfx942"
_PRODUCT = "(Tensor a, Tensor b{}, Tensor? a_scale=None, Tensor? b_scale=None, Tensor? bias=None, Tensor? c=None, *, float alpha=1.0, " \
    "float beta=0.0, bool invariant=False) -> {}"
_MICROSCALED = "(Tensor a, Tensor? a_scale, Tensor b, Tensor? b_scale{}, Tensor? c=None, Tensor? bias=None, *, str a_dtype='', " \
    "str b_dtype='', str scale_order='plain', str b_order='plain', str quantise_to='fp4', str rounding='even', float alpha=1.0, " \
    "float beta=0.0, str fp6_storage='string') -> {}"  # PyTorch takes no tensors by name alone


def register() -> None:
    """Define the operators. Raises AsmgenError if torch is not installed."""
    from asmgen.kernels import torch_rows

    try:
        torch: Any = importlib.import_module("torch")
    except ImportError:
        raise AsmgenError("asmgen.kernels.torch_ops needs PyTorch, and no torch is installed here; asmgen.kernels.gemm takes numpy arrays "
                          "and anything that speaks DLPack") from None
    torch_rows.define(torch, _device)
    product = torch.library.custom_op("asmgen::gemm_bf16", _product, mutates_args=(), schema="(Tensor a, Tensor b) -> Tensor")
    product.register_fake(lambda a, b: a.new_empty((a.shape[0], b.shape[0])))
    into = torch.library.custom_op("asmgen::gemm_bf16_out", _product_into, mutates_args=("out",),
                                   schema="(Tensor a, Tensor b, Tensor(a!) out) -> ()")
    into.register_fake(lambda a, b, out: None)
    scaled_into = torch.library.custom_op("asmgen::gemm_mx_out", _microscaled_into, mutates_args=("out",),
                                          schema=_MICROSCALED.format(", Tensor(a!) out", "()"))
    scaled_into.register_fake(lambda a, a_scale, b, b_scale, out, c=None, bias=None, **options: None)
    scaled = torch.library.custom_op("asmgen::gemm_mx", _microscaled, mutates_args=(), schema=_MICROSCALED.format("", "Tensor"))
    scaled.register_fake(lambda a, a_scale, b, b_scale, c=None, bias=None, **options: gemm.made_by_mx(a, b))

    def made(a: Any, b: Any, n: int) -> Any:
        shape = (*broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[n])
        return a.new_empty(shape, dtype=torch.bfloat16) if "float8" in str(a.dtype) else a.new_empty(shape)

    for name, run, n in (("matmul", _general, -1), ("gemm_fp8", _eights, -2)):
        general = torch.library.custom_op(f"asmgen::{name}", run, mutates_args=(), schema=_PRODUCT.format("", "Tensor"))
        general.register_fake(lambda a, b, *more, n=n, **options: made(a, b, n))
    eights_into = torch.library.custom_op("asmgen::gemm_fp8_out", _eights_into, mutates_args=("out",),
                                          schema=_PRODUCT.format(", Tensor(a!) out", "()"))
    eights_into.register_fake(lambda a, b, out, *more, **options: None)
    attention_ops.register(torch, _device)


def _microscaled_into(a: Any, a_scale: Any, b: Any, b_scale: Any, out: Any, c: Any = None, bias: Any = None, **options: Any) -> None:
    gemm.mx(a, a_scale, b, b_scale, out, c=c, bias=bias, device=_device(a), **options)


def _microscaled(a: Any, a_scale: Any, b: Any, b_scale: Any, c: Any = None, bias: Any = None, **options: Any) -> Any:
    return gemm.mx(a, a_scale, b, b_scale, c=c, bias=bias, device=_device(a), **options)


def _general(a: Any, b: Any, a_scale: Any = None, b_scale: Any = None, bias: Any = None, c: Any = None, **options: Any) -> Any:
    return gemm.matmul(a, b, a_scale=a_scale, b_scale=b_scale, bias=bias, c=c, device=_device(a), **options)


def _eights(a: Any, b: Any, a_scale: Any = None, b_scale: Any = None, bias: Any = None, c: Any = None, **options: Any) -> Any:
    return gemm.fp8(a, b, a_scale=a_scale, b_scale=b_scale, bias=bias, c=c, device=_device(a), **options)


def _eights_into(a: Any, b: Any, out: Any, a_scale: Any = None, b_scale: Any = None, bias: Any = None, c: Any = None,
                 **options: Any) -> None:
    gemm.fp8(a, b, out, a_scale=a_scale, b_scale=b_scale, bias=bias, c=c, device=_device(a), **options)


def _product(a: Any, b: Any) -> Any:
    return gemm.bf16(a, b, device=_device(a))


def _product_into(a: Any, b: Any, out: Any) -> None:
    gemm.bf16(a, b, out, device=_device(a))


def _device(tensor: Any) -> Any:
    """The emulated device for a host tensor; None for a GPU tensor, which names its device."""
    return _emulator(FNUZ_ARCH if "fnuz" in str(tensor.dtype) else HOST_ARCH) if tensor.device.type == "cpu" else None


@cache
def _emulator(arch: str) -> Any:
    from asmgen.launch.emulated import EmulatedDevice

    return EmulatedDevice(arch)


register()
