"""Tensors that the library's functions take: what and where they are, whether two share elements, and whose GPU holds them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from asmgen.isa.errors import AsmgenError
from asmgen.isa.quote import printable, quoted
from asmgen.isa.timing import DEFAULT_GPU, GPUS
from asmgen.kernels.stridesapart import blocks_are_apart
from asmgen.launch.external import GPU, External, dense_strides, external_of, is_external
from asmgen.launch.hip import HipDevice


class TensorError(AsmgenError):
    """A function of the library does not take a tensor: which one, what it is, and what would work."""


Facts = tuple[tuple[int, ...], tuple[int, ...], str]
"""Shape, strides in elements and type of a tensor, as the kernel gets it. A plan depends on these."""


IN_HOST_MEMORY = "in host memory"


def plain_name(dtype: str) -> str:
    return dtype.removeprefix("torch.")


def numpy_type(name: str) -> Any:
    """numpy's type of a plain name, or what ml_dtypes adds to it."""
    if name in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"):
        import ml_dtypes

        return getattr(ml_dtypes, name)
    return np.dtype(name)


def located(name: str, tensor: Any, of: str = "gemm.bf16") -> tuple[int | None, Facts]:
    """The address of a tensor (None for an array that the launch moves), and its facts."""
    if isinstance(tensor, np.ndarray):  # launches move it in C order
        return None, (tensor.shape, dense_strides(tensor.shape), str(tensor.dtype))
    if hasattr(tensor, "data_ptr"):
        try:
            return tensor.data_ptr(), (tuple(tensor.shape), tuple(tensor.stride()), str(tensor.dtype))
        except RuntimeError as error:  # PyTorch raises it for sparse tensors and the like
            raise TensorError(f"{name} of {of} must be a dense tensor with memory of its own: {printable(str(error))}") from error
    if not is_external(tensor):
        raise TensorError(f"{of} takes tensors, got a {type(tensor).__name__} as {name}")
    found = external_of(tensor, f"{name} of {of}")
    return found.address, (found.shape, found.strides, found.dtype)


def kind_of(value: Any) -> str:
    """A value of the wrong kind, as errors show it."""
    return f"the str {quoted(value)}" if isinstance(value, str) else f"a {type(value).__name__}"


def gpu_named(name: str, arch: str) -> str:
    """Whose timing table speaks for a device: that of the GPU that its name has in it, or the architecture's default."""
    return next((gpu for gpu, its in GPUS.items() if its == arch and gpu in name), DEFAULT_GPU[arch])


def check_writable(out: Any, of: str = "gemm.bf16") -> None:
    """Raises TensorError for an `out` that numpy marks as read-only, or whose elements share memory."""
    if not isinstance(out, np.ndarray):
        return
    if not out.flags.writeable:
        raise TensorError(f"out of {of} is read-only; an array whose flags.writeable is True would work")
    if not has_own_elements(out.shape, out.strides):
        raise TensorError(f"out of {of} must have memory of its own for each element, and its strides are {list(out.strides)}; "
                          "a contiguous array would work")


def is_dense(facts: Facts) -> bool:
    """Whether a tensor is an array in C order without gaps."""
    return facts[1] == dense_strides(facts[0])


def has_own_elements(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether no two elements of an array overlap; strides are of any unit."""
    return 0 in shape or blocks_are_apart(((abs(stride), count) for stride, count in zip(strides, shape, strict=True)), 1)


class MemorySpan:
    """An array of elements of so many bytes for numpy, which computes with the addresses and reads nothing."""

    def __init__(self, address: int, shape: tuple[int, ...], strides: tuple[int, ...], size: int = 2) -> None:
        self.__array_interface__ = {"data": (address, True), "shape": shape, "strides": tuple(size * stride for stride in strides),
                                    "typestr": f"<u{size}", "version": 3}


def gpu_of(a: Any, of: str = "gemm.bf16") -> HipDevice:
    """The GPU of a tensor. Raises TensorError for one in host memory."""
    found: External | None = external_of(a, f"a of {of}") if hasattr(a, "data_ptr") or _is_on_gpu(a) else None
    if found is None or found.where != GPU:
        raise TensorError(f"a of {of} is in host memory; move it to a GPU, or pass device=EmulatedDevice('gfx950') to run on the "
                          "emulator")
    return _opened(found.index)


def _is_on_gpu(a: Any) -> bool:
    return hasattr(a, "__dlpack_device__") and int(a.__dlpack_device__()[0]) != 1


@cache
def _opened(index: int) -> HipDevice:
    """One device for each GPU, open as long as the process lives."""
    return HipDevice(index=index)


def shares(tensor: Any, out: Any, one: tuple[int | None, Facts], other: tuple[int | None, Facts]) -> bool:
    """Whether a tensor has an element in common with `out`; `one` and `other` are what `located` says of them. Arrays that the launch moves
    share nothing with tensors that are used where they are."""
    if not one[0] or not other[0]:
        return isinstance(tensor, np.ndarray) and isinstance(out, np.ndarray) and np.shares_memory(tensor, out)
    first, second = (np.asarray(MemorySpan(address or 0, *found[:2], _SIZES.get(plain_name(found[2]), 1)))
                     for address, found in (one, other))
    return np.may_share_memory(first, second) and np.shares_memory(first, second)


def location_of(tensor: Any, what: str) -> str:
    """Where a tensor is, for errors: "in host memory" or "on GPU 0"; `what` names it in those of its library."""
    found = None if isinstance(tensor, np.ndarray) or not is_external(tensor) else external_of(tensor, what)
    return f"on {found.location}" if found is not None and found.where == GPU else IN_HOST_MEMORY


def span_of(tensor: Any, place: tuple[int | None, Facts]) -> tuple[int, int]:
    """Addresses of the first byte of a tensor and of the byte after its last one; `place` is what `located` says of it."""
    address, (shape, strides, dtype) = place
    if isinstance(tensor, np.ndarray):
        return np.lib.array_utils.byte_bounds(tensor) if tensor.size else (0, 0)
    last = sum((count - 1) * stride for count, stride in zip(shape, strides, strict=True)) if 0 not in shape else -1
    return address or 0, (address or 0) + (last + 1) * _SIZES.get(plain_name(dtype), 1)


_SIZES = {"bfloat16": 2, "bfloat": 2, "float16": 2, "float32": 4}
"""Bytes of an element of types that have more than one."""
