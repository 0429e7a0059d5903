"""The library's functions as PyTorch operators, so that torch.compile keeps them whole: `import asmgen.kernels.torch_ops`, then

    d = torch.ops.asmgen.rms_norm(x, weight)             # layer_norm, softmax, rope, quantize and more: torch_rows.py
    d = torch.ops.asmgen.gemm_bf16(a, b)                 # a [M, K], b [N, K] as torch.nn.Linear holds weights
    torch.ops.asmgen.gemm_bf16_out(a, b, out)            # into out [M, N]
    d = torch.ops.asmgen.gemm_mx(a, a_scale, b, b_scale)         # microscaled; as gemm.mx, options by name
    torch.ops.asmgen.gemm_mx_out(a, a_scale, b, b_scale, out)
    d = torch.ops.asmgen.matmul(a, b)                    # a @ b of [..., M, K] and [..., K, N], bfloat16 or float16, each layout
    o, lse = torch.ops.asmgen.attention(q, k, v)         # and its gradients: attention_ops has all arguments

On tensors of a ROCm GPU they launch there. On host tensors they run on the emulator (gfx950), which is slow; its time says nothing about a
GPU. No machine that tests this has PyTorch on ROCm: the operators were tested on host tensors.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

from numpy import broadcast_shapes

from asmgen.isa.errors import AsmgenError
from asmgen.kernels import attention_ops, gemm

HOST_ARCH = "gfx950"
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

    general = torch.library.custom_op("asmgen::matmul", _general, mutates_args=(), schema="(Tensor a, Tensor b) -> Tensor")
    general.register_fake(lambda a, b: a.new_empty((*broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])))
    attention_ops.register(torch, _device)


def _microscaled_into(a: Any, a_scale: Any, b: Any, b_scale: Any, out: Any, c: Any = None, bias: Any = None, **options: Any) -> None:
    gemm.mx(a, a_scale, b, b_scale, out, c=c, bias=bias, device=_device(a), **options)


def _microscaled(a: Any, a_scale: Any, b: Any, b_scale: Any, c: Any = None, bias: Any = None, **options: Any) -> Any:
    return gemm.mx(a, a_scale, b, b_scale, c=c, bias=bias, device=_device(a), **options)


def _general(a: Any, b: Any) -> Any:
    return gemm.matmul(a, b, device=_device(a))


def _product(a: Any, b: Any) -> Any:
    return gemm.bf16(a, b, device=_device(a))


def _product_into(a: Any, b: Any, out: Any) -> None:
    gemm.bf16(a, b, out, device=_device(a))


def _device(tensor: Any) -> Any:
    """The emulated device for a host tensor; None for a GPU tensor, which names its device."""
    return _emulator() if tensor.device.type == "cpu" else None


@cache
def _emulator() -> Any:
    from asmgen.launch.emulated import EmulatedDevice

    return EmulatedDevice(HOST_ARCH)


register()
