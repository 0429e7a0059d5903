"""Arrays that others own: PyTorch tensors and whatever speaks DLPack, described without copying them or importing their libraries."""

from __future__ import annotations

import ctypes
import math
import sys
from dataclasses import dataclass
from typing import Any

from asmgen.codeobject.arguments import ArgumentError
from asmgen.isa.quote import printable

HOST, GPU = "host", "gpu"
# Source: dlpack.h, DLDeviceType. ROCm's pinned host memory has an address that both sides use.
_DLPACK_DEVICES = {1: HOST, 10: GPU, 11: HOST}
_DLPACK_TYPES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}
_TORCH_DEVICES = {"cpu": HOST, "cuda": GPU}  # PyTorch on ROCm calls its devices cuda


@dataclass(frozen=True)
class External:
    """An array somewhere: `nbytes` from `address` on hold all its elements; `strides` in elements; `index` of the GPU, 0 on the host."""

    address: int
    nbytes: int
    where: str
    index: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    is_torch: bool = False

    @property
    def location(self) -> str:
        """For people."""
        return f"GPU {self.index}" if self.where == GPU else "host memory"


class _Device(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int32), ("id", ctypes.c_int32))


class _Type(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Tensor(ctypes.Structure):
    """dlpack.h, DLTensor: the beginning of a DLManagedTensor."""

    _fields_ = (("data", ctypes.c_void_p), ("device", _Device), ("ndim", ctypes.c_int32), ("dtype", _Type),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64))


def is_external(value: Any) -> bool:
    """Whether it is an array that has an address of its own."""
    return hasattr(value, "data_ptr") or hasattr(value, "__dlpack__")


def external_of(value: Any, what: str) -> External:
    """What the array is and where; `what` names it in errors. Raises ArgumentError for one on a device other than host and ROCm GPU."""
    if hasattr(value, "data_ptr"):
        return _of_tensor(value, what)
    return _of_dlpack(value, what)


def _of_tensor(value: Any, what: str) -> External:
    kind = getattr(value.device, "type", str(value.device))
    if kind not in _TORCH_DEVICES:
        raise ArgumentError(f"{what} is on the device {kind}; kernels take tensors of ROCm GPUs, the emulator those of the host")
    shape, strides = tuple(value.shape), tuple(value.stride())
    return External(int(value.data_ptr()), _span(shape, strides) * int(value.element_size()), _TORCH_DEVICES[kind],
                    value.device.index or 0, str(value.dtype).removeprefix("torch."), shape, strides, _is_torch(value))


def _is_torch(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "torch" or any(base.__module__ == "torch" for base in type(value).__mro__)


def _of_dlpack(value: Any, what: str) -> External:
    kind, index = value.__dlpack_device__()
    if int(kind) not in _DLPACK_DEVICES:
        raise ArgumentError(f"{what} is on the DLPack device type {int(kind)}; kernels take arrays of ROCm GPUs (10), the emulator those "
                            "of the host (1)")
    try:
        capsule = value.__dlpack__()
    except (BufferError, RuntimeError, TypeError, ValueError) as error:  # a read-only numpy array is one that DLPack has no word for
        raise ArgumentError(f"{what} cannot be taken by DLPack: {printable(str(error))}") from error
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    tensor = _Tensor.from_address(get(capsule, b"dltensor"))
    shape = tuple(tensor.shape[axis] for axis in range(tensor.ndim))
    strides = tuple(tensor.strides[axis] for axis in range(tensor.ndim)) if tensor.strides else dense_strides(shape)
    if any(stride < 0 for stride in strides):
        raise ArgumentError(f"{what} has the strides {list(strides)}; kernels count from the first element on: a copy would work")
    row = tensor.dtype
    dtype = _DLPACK_TYPES.get(row.code, f"type{row.code}-") + ("" if row.code == 6 else str(row.bits))
    return External((tensor.data or 0) + tensor.byte_offset, _span(shape, strides) * row.bits * row.lanes // 8, _DLPACK_DEVICES[int(kind)],
                    int(index), dtype, shape, strides)


def dense_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides in elements of an array in C order without gaps."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _span(shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """Elements from the first to the last, both included."""
    if 0 in shape:
        return 0
    return 1 + sum((count - 1) * stride for count, stride in zip(shape, strides, strict=True))


def torch_stream(index: int) -> int:
    """The handle of PyTorch's current stream on a GPU; 0, the default stream, where PyTorch is not loaded."""
    torch = sys.modules.get("torch")
    return int(torch.cuda.current_stream(index).cuda_stream) if torch is not None else 0
