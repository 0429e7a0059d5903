"""Arguments of one launch with numpy arrays among them: these are uploaded and, after the launch, copied back into themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from asmgen.codeobject.load import KernelRecord, Size
from asmgen.isa.errors import AsmgenError
from asmgen.launch.device import Buffer, Device
from asmgen.launch.external import External, external_of
from asmgen.launch.prepared import Arguments, Located


@dataclass
class Uploaded:
    """A kernarg segment, and the arrays that its pointers point to."""

    device: Device
    kernarg: bytes = b""
    buffers: dict[int, tuple[np.ndarray[Any, Any], Buffer]] = field(default_factory=dict)  # by the array's identity
    borrowed: list[External] = field(default_factory=list)

    def copy_back(self) -> None:
        """Put what the kernel has changed into the arrays, as far as they can be written.

        Nothing else is written: two views of the same memory are two copies on the device, and the one that the kernel has only read must
        not undo what it has stored through the other.
        """
        writable = [(array, buffer) for array, buffer in self.buffers.values() if array.flags.writeable and array.size]
        found = [(array, self.device.read(buffer, array.dtype, array.shape)) for array, buffer in writable]
        changed = [_differ(array, new) for array, new in found]  # of all of them before one is written
        for (array, new), where in zip(found, changed, strict=True):
            np.copyto(array, new, where=where)

    def free(self) -> None:
        """Give the memory back."""
        for _, buffer in self.buffers.values():
            self.device.free(buffer)
        for array in self.borrowed:
            self.device.give_back(array)

    def locate(self, what: str, value: Any) -> Located:
        """The address of a numpy array's copy (the same array twice is one buffer), of another library's array, or of a buffer."""
        if isinstance(value, np.ndarray):
            if id(value) not in self.buffers:
                self.buffers[id(value)] = value, self.device.upload(value)
            return self.buffers[id(value)][1].address, False
        if isinstance(value, Buffer):
            self.device.check_held(what, value)
            return value.address, False
        found = external_of(value, what)
        if self.device.borrow(what, found):
            self.borrowed.append(found)
        return found.address, found.is_torch


def _differ(old: np.ndarray[Any, Any], new: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Which elements have other bits."""
    bits = [np.ascontiguousarray(array).view(np.uint8).reshape(*old.shape, old.itemsize) for array in (old, new)]
    differ: np.ndarray[Any, Any] = (bits[0] != bits[1]).any(axis=-1)
    return differ


def upload_arguments(device: Device, kernel: KernelRecord, values: Sequence[Any] | Mapping[str, Any], grid: Size, block: Size,
                     dynamic_lds: int = 0) -> Uploaded:
    """The segment for `values`, in the order of the kernel's explicit arguments or by their names (prepared.Arguments).

    Raises ArgumentError for a wrong number of values and for values that do not fit.
    """
    uploaded = Uploaded(device)
    arguments = Arguments(kernel, uploaded.locate)
    try:
        arguments.fill_hidden(grid, block, dynamic_lds)
        arguments.pack(values)
    except AsmgenError:
        uploaded.free()
        raise
    uploaded.kernarg = bytes(arguments.segment)
    return uploaded
