"""Matrix products of the library on tensors: `matmul(a, b)` of any types, layouts and batches (kernels/matmul.py),
`asmgen.kernels.gemm.bf16(a, b)`, `asmgen.kernels.gemm.fp8(a, b)`, `asmgen.kernels.gemm.mx(a, a_scale, b, b_scale, out)`.

A tensor is a PyTorch tensor, an object with DLPack, or a numpy array. PyTorch and DLPack tensors are used where they are, with their
strides. A numpy array is moved to the device row by row without gaps, so that any view works; `out` is moved back into the elements that
its view covers. No machine that tests this has PyTorch on ROCm. It was tested on the emulator, and on stand-ins for GPU tensors through
hip-python on the emulated runtime.
"""

from __future__ import annotations

from typing import Any

from asmgen.kernels.matmul import matmul, product
from asmgen.kernels.microscaled import made_by_mx, mx
from asmgen.kernels.productplan import EIGHTS, Called
from asmgen.kernels.tensors import TensorError, located, plain_name

__all__ = ["TensorError", "bf16", "fp8", "made_by_mx", "matmul", "mx"]

_SHAPES = {"a": "[M, K]", "b": "[N, K]", "out": "[M, N]"}


def bf16(a: Any, b: Any, out: Any = None, device: Any = None, stream: Any = None) -> Any:
    """a @ b.T in bfloat16 with float32 accumulation: `a` is [M, K], `b` is [N, K] as torch.nn.Linear holds weights, `out` is [M, N].

    M, N and K are 1 or more. A tensor has its rows, or its columns, side by side, with any stride between them; a numpy array may be any
    view. PyTorch copies an `a` or `b` that lies otherwise (every second column, an expanded row) on its current stream, so that such a view
    is refused with a `stream`. Such an `out`, and such a tensor of another library, are refused. The function returns `out`, which must not
    share elements with `a` or `b`. Without `out` it makes one like `a`.

    The kernel is the variant that is predicted the fastest for these sizes (`asmgen tune --why` shows from which figures). Where a
    stride or an address is no multiple of 16 bytes, a slower one loads element by element. Where workgroups share the steps of a tile
    (`split_k`), two kernels run one after the other; the device keeps a workspace for each stream, which the first launch of a size makes.

    `a`, `b` and `out` may be lists of such matrices, as `matmul` takes them.

    `device` is the GPU of the tensors by default; tensors in host memory need an EmulatedDevice. The kernel runs on `stream`, by default on
    PyTorch's current stream, and may still run when the function returns. Raises TensorError or ContractError, which name the argument,
    before any launch. Raises LaunchError if the emulator finds an error in the launch.
    """
    given = {"a": a, "b": b} | ({} if out is None else {"out": out})
    for name, tensor in ((name, one) for name, some in given.items() for one in (some if isinstance(some, list | tuple) else [some])):
        _, (shape, _, dtype) = located(name, tensor)
        letters = _SHAPES[name]
        if plain_name(dtype) not in ("bfloat16", "bfloat"):
            raise TensorError(f"{name} of gemm.bf16 must be bfloat16, got {plain_name(dtype)}")
        if len(shape) != 2:
            raise TensorError(f"{name} of gemm.bf16 must be a matrix {letters}, got the shape {list(shape)}")
        if 0 in shape:
            raise TensorError(f"{name} of gemm.bf16 has no {'rows' if not shape[0] else 'columns'}: {letters} is {list(shape)}; 1 and more "
                              "would work")
    return product(Called("gemm.bf16", b_by_rows=True), a, b, out, {}, 1.0, 0.0, None, False, device, stream)


def fp8(a: Any, b: Any, out: Any = None, device: Any = None, stream: Any = None, *, a_scale: Any = None, b_scale: Any = None,
        bias: Any = None, c: Any = None, alpha: float = 1.0, beta: float = 0.0, out_dtype: Any = None, invariant: bool = False) -> Any:
    """alpha a @ b.T + beta c + bias of float8 with float32 accumulation: `a` is [..., M, K], `b` is [..., N, K] as torch.nn.Linear holds
    weights, each of a type of float8 that the GPU has (float8_e4m3fn, float8_e5m2 on gfx950; with fnuz on gfx942).

    Scales are float32, one for a tensor, for each row of `a` and of `b`, or, on gfx950, for 1 x 128 of `a` and 128 x 128 of `b`. They, what
    is made without `out`, and all else, lists and empty axes too, are as for `matmul`. Raises TensorError or ContractError, which name the
    argument, before any launch.
    """
    for name, one in (("a", a), ("b", b)):
        for tensor in one if isinstance(one, list | tuple) else [one]:
            dtype = plain_name(located(name, tensor, "gemm.fp8")[1][2])
            if dtype not in EIGHTS:
                raise TensorError(f"{name} of gemm.fp8 must be one of {', '.join(EIGHTS)}, got {dtype}")
    more = {"c": c, "bias": bias, "a_scale": a_scale, "b_scale": b_scale}
    return product(Called("gemm.fp8", b_by_rows=True), a, b, out, more, alpha, beta, out_dtype, invariant, device, stream)
