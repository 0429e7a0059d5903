"""Matrix products of the library on tensors: `asmgen.kernels.gemm.bf16(a, b)`.

A tensor is PyTorch's, anything that speaks DLPack, or a numpy array (for the emulator). Tensors are used where they are. No machine that
tests this has PyTorch on ROCm: it was tested on the emulator, and on stand-ins for GPU tensors through hip-python on the emulated runtime.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from asmgen.codeobject.load import KernelRecord
from asmgen.isa.errors import AsmgenError
from asmgen.kernels.built import code_object
from asmgen.kernels.registry import family as find_family
from asmgen.launch.external import GPU, External, external_of, is_external
from asmgen.launch.hip import HipDevice

_ALIGNMENT = 16  # bytes of an address that 16-byte loads take


class TensorError(AsmgenError):
    """A tensor is not what a function of the library takes: which, what it is, and what would work."""


@dataclass(frozen=True)
class _Plan:
    """A launch for one shape: everything but the pointers."""

    kernel: KernelRecord
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    numbers: tuple[int | float | str, ...]
    unread: int  # pointers behind the numbers, of C and bias, which are not read


def bf16(a: Any, b: Any, out: Any = None, device: Any = None, stream: Any = None) -> Any:
    """a @ b.T in bfloat16 with float32 accumulation: `a` is [M, K], `b` is [N, K] as torch.nn.Linear holds weights, `out` is [M, N].

    K is a multiple of 64; rows may be apart by any multiple of 8 elements. `out` is made like `a` where it is not given, and returned.
    `device` is where it runs: the GPU of the tensors where it is not given; tensors in host memory need an EmulatedDevice. It runs on
    `stream`, or else on PyTorch's current stream, and has not finished when the function returns. Raises TensorError or ContractError,
    which name the argument, before anything is launched.
    """
    if out is None:
        out = _empty(a, b)
    key = _facts(a), _facts(b), _facts(out)
    if device is None:
        device = _gpu(a)
    plan = _plan(device.arch, *key)
    for name, tensor in (("a", a), ("b", b)):
        _check_address(name, tensor)
    plan.kernel.launch(device, plan.grid, plan.block, (a, b, out, *plan.numbers, *[out] * plan.unread), 0, stream)
    return out


def _facts(tensor: Any) -> tuple[tuple[int, ...], tuple[int, ...], str]:
    """Shape, strides in elements, type: what a plan depends on."""
    if hasattr(tensor, "data_ptr"):
        return tuple(tensor.shape), tuple(tensor.stride()), str(tensor.dtype)
    if hasattr(tensor, "strides") and hasattr(tensor, "itemsize"):
        return tuple(tensor.shape), tuple(stride // tensor.itemsize for stride in tensor.strides), str(tensor.dtype)
    if not is_external(tensor):
        raise TensorError(f"gemm.bf16 takes tensors, got a {type(tensor).__name__}")
    found = external_of(tensor, "a tensor of gemm.bf16")
    return found.shape, found.strides, found.dtype


@cache
def _plan(arch: str, a: tuple[Any, ...], b: tuple[Any, ...], out: tuple[Any, ...]) -> _Plan:
    """Check the contract, choose and build the kernel. The default variant serves every shape as long as there is no selection."""
    for name, letters, (shape, strides, dtype) in (("a", "[M, K]", a), ("b", "[N, K]", b), ("out", "[M, N]", out)):
        if dtype.removeprefix("torch.") not in ("bfloat16", "bfloat"):
            raise TensorError(f"{name} of gemm.bf16 must be bfloat16, got {dtype.removeprefix('torch.')}")
        if len(shape) != 2:
            raise TensorError(f"{name} of gemm.bf16 must be a matrix {letters}, got the shape {list(shape)}")
        if strides[1] != 1 and shape[1] != 1:
            raise TensorError(f"{name} of gemm.bf16 must have its rows' elements side by side (stride 1), got the strides {list(strides)}: "
                              "pass a contiguous one")
    (m, k), (n, other), made = a[0], b[0], out[0]
    if other != k:
        raise TensorError(f"b of gemm.bf16 must be [N, K] with K = {k}, as a has it, got {list(b[0])}")
    if made != (m, n):
        raise TensorError(f"out of gemm.bf16 must be [M, N] = {[m, n]}, got {list(made)}")
    family = find_family("gemm-bf16")
    arch = family.check_arch(arch)
    contract = family.contract(arch, _variant(arch, m, n))
    rows = {name: strides[0] if shape[0] > 1 else shape[1] for name, (shape, strides, _) in (("lda", a), ("ldb", b), ("ldd", out))}
    values = contract.resolve_run({"m": m, "n": n, "k": k, **rows})
    build = {name: values[name] for name in values if contract.parameter(name).kind == "build"}
    pointers = sum(argument.type == "pointer" for argument in contract.arguments)
    numbers = tuple(values[argument.name] for argument in contract.arguments if argument.type != "pointer")
    return _Plan(code_object(family, arch, build).kernel(), contract.grid_of(values), contract.workgroup, numbers, pointers - 3)


def _variant(arch: str, m: int, n: int) -> dict[str, str]:
    """The tile and schedule for a size: the largest tile that still gives every compute unit (256 of them) some work."""
    if arch == "gfx950" and -(-m // 256) * -(-n // 256) >= 256:
        return {"tile": "256x256x64", "schedule": "ping-pong"}
    return {}


def _check_address(name: str, tensor: Any) -> None:
    address = tensor.data_ptr() if hasattr(tensor, "data_ptr") else 0
    if address % _ALIGNMENT:
        raise TensorError(f"{name} of gemm.bf16 must begin at a multiple of {_ALIGNMENT} bytes, and it begins at {address:#x}")


def _empty(a: Any, b: Any) -> Any:
    """A matrix for the result, of the kind that `a` is."""
    rows, columns = _facts(a)[0][:1], _facts(b)[0][:1]
    if hasattr(a, "new_empty"):
        return a.new_empty((*rows, *columns))
    import numpy as np

    if isinstance(a, np.ndarray):
        return np.empty((*rows, *columns), a.dtype)
    raise TensorError(f"out of gemm.bf16 must be given where a is a {type(a).__name__}")


def _gpu(a: Any) -> HipDevice:
    """The GPU of a tensor. Raises TensorError for one in host memory."""
    found: External | None = external_of(a, "a of gemm.bf16") if hasattr(a, "data_ptr") or _is_on_gpu(a) else None
    if found is None or found.where != GPU:
        raise TensorError("a of gemm.bf16 is in host memory; move it to a GPU, or pass device=EmulatedDevice('gfx950') to run on the "
                          "emulator")
    return _opened(found.index)


def _is_on_gpu(a: Any) -> bool:
    return hasattr(a, "__dlpack_device__") and int(a.__dlpack_device__()[0]) != 1


@cache
def _opened(index: int) -> HipDevice:
    """One device for each GPU, open as long as the process lives."""
    return HipDevice(index=index)
