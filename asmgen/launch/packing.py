"""Kernel arguments as Python has them: arrays and numbers to the kernarg segment of any kernel, by its argument table.

Arrays are uploaded and, after the launch, copied back into themselves. A number becomes what the table's size says: an int an
integer, a float a float of that size; numpy scalars keep their own type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from asmgen.codeobject.arguments import ArgumentError, Typed, hidden_values, is_hidden, pack_table
from asmgen.isa.errors import AsmgenError
from asmgen.launch.device import Buffer, Device
from asmgen.launch.external import external_of, is_external

if TYPE_CHECKING:
    from asmgen.codeobject.arguments import TableArgument

_FLOATS = {2: "f16", 4: "f32", 8: "f64"}
Size = tuple[int, int, int]


@dataclass(frozen=True)
class Uploaded:
    """A kernarg segment, and the arrays that stand behind its pointers."""

    kernarg: bytes
    buffers: tuple[tuple[np.ndarray[Any, Any], Buffer], ...]
    borrowed: tuple[int, ...] = ()

    def copy_back(self, device: Device) -> None:
        """Put what the device has into the arrays that can be written."""
        for array, buffer in self.buffers:
            if array.flags.writeable:
                array[...] = device.read(buffer, array.dtype, array.shape)

    def free(self, device: Device) -> None:
        """Give the memory back."""
        for _, buffer in self.buffers:
            device.free(buffer)
        for address in self.borrowed:
            device.give_back(address)


def upload_arguments(device: Device, table: Sequence[TableArgument], kernarg_size: int, values: Sequence[Any] | Mapping[str, Any],
                     grid: Size, block: Size, dynamic_lds: int = 0) -> Uploaded:
    """The segment for `values`, in the order of the kernel's explicit arguments or by their names.

    A value is a numpy array (uploaded; the same array twice is one buffer), another library's array (used where it is), a `Buffer`,
    `Typed`, bytes, a numpy scalar, an int or a float.
    Raises ArgumentError for a wrong number of values and for values that do not fit.
    """
    explicit = [argument for argument in table if not is_hidden(argument)]
    names = [argument.name or str(position) for position, argument in enumerate(explicit)]
    if not isinstance(values, Mapping):
        if len(values) != len(explicit):
            raise ArgumentError(f"the kernel takes {len(explicit)} arguments ({', '.join(names) or 'none'}), got {len(values)}")
        values = dict(zip(names, values, strict=True))
    sizes = dict(zip(names, (argument.size for argument in explicit), strict=True))
    buffers: dict[int, tuple[np.ndarray[Any, Any], Buffer]] = {}
    borrowed: list[int] = []
    packed: dict[str, Any] = {}
    try:
        for name, value in values.items():
            if isinstance(value, np.ndarray):
                if id(value) not in buffers:
                    buffers[id(value)] = value, device.upload(value)
                packed[name] = buffers[id(value)][1].address
            elif not isinstance(value, np.generic) and is_external(value):
                found = external_of(value, f"argument {name}")
                packed[name] = found.address
                if device.borrow(f"argument {name}", found):
                    borrowed.append(found.address)
            else:
                packed[name] = plain(value, sizes.get(name, 0))
        hidden = hidden_values(table, grid, block, dynamic_lds)
        return Uploaded(pack_table(table, packed, kernarg_size, hidden), tuple(buffers.values()), tuple(borrowed))
    except AsmgenError:
        for _, buffer in buffers.values():
            device.free(buffer)
        for address in borrowed:
            device.give_back(address)
        raise


def plain(value: Any, size: int) -> Any:
    """What `pack_table` takes for a value that stands in `size` bytes."""
    if isinstance(value, Buffer):
        return value.address
    if isinstance(value, np.generic):
        return value.tobytes()
    if isinstance(value, float) and size in _FLOATS:
        return Typed(_FLOATS[size], value)
    return value
