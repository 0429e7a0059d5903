"""A kernel's arguments made ready once: each launch patches only what has changed since the last one.

A launch of the same kernel costs a few microseconds on the host then (benchmarks: `python -m benchmarks launch`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from struct import Struct
from typing import Any

import numpy as np

from asmgen.codeobject.arguments import ArgumentError, Typed, hidden_values, is_hidden, pack_table
from asmgen.codeobject.load import KernelRecord, Size
from asmgen.codeobject.metadata import Argument
from asmgen.isa.quote import quoted
from asmgen.launch.device import Buffer
from asmgen.launch.external import is_external

_POINTER = Struct("<Q")
_INTEGERS = {1: Struct("<B"), 2: Struct("<H"), 4: Struct("<I"), 8: Struct("<Q")}
_FLOATS = {2: "f16", 4: "f32", 8: "f64"}
_NOTHING = object()
_BUFFER_KINDS = ("global_buffer", "dynamic_shared_pointer", "image", "sampler", "pipe", "queue")
Located = tuple[int, bool]
"""An address, and whether the array belongs to PyTorch, whose current stream its launch then takes."""


@dataclass(slots=True)
class Slot:
    """One explicit argument. `last` is the object that the segment holds, where that object cannot change; `tensor` one that can."""

    row: Argument
    offset: int
    what: str
    pointer: bool
    last: object = _NOTHING
    tensor: Any = _NOTHING
    address: int = 0
    is_torch: bool = False
    packed: Struct = _POINTER  # how an int is stored, where the argument has a size that an int can have
    low: int = 0
    high: int = -1


def _slot(row: Argument, what: str) -> Slot:
    code = _INTEGERS.get(row.size)
    pointer = row.value_kind in _BUFFER_KINDS
    if code is None or pointer:
        return Slot(row, row.offset, what, pointer)
    return Slot(row, row.offset, what, pointer, packed=code, low=-(1 << 8 * row.size - 1), high=(1 << 8 * row.size) - 1)


class Arguments:
    """The kernarg segment of one kernel. `locate(what, value)` gives a device's address for an array or a buffer, or raises.

    `is_torch` says whether a pointer of the last launch was PyTorch's.
    """

    def __init__(self, kernel: KernelRecord, locate: Callable[[str, Any], Located]) -> None:
        self.name = kernel.name
        self.segment = bytearray(kernel.resources.kernarg_size)
        self.lock = threading.Lock()
        self._table = kernel.arguments
        self._locate = locate
        explicit = [row for row in kernel.arguments if not is_hidden(row)]
        self.names = [row.name or str(position) for position, row in enumerate(explicit)]
        self.slots = [_slot(row, f"argument {name} of {kernel.name}") for name, row in zip(self.names, explicit, strict=True)]
        self.is_torch = False

    def forget(self) -> None:
        """Look at every value again: a buffer may have been freed."""
        for slot in self.slots:
            slot.last = slot.tensor = _NOTHING

    def fill_hidden(self, grid: Size, block: Size, dynamic_lds: int) -> None:
        """The hidden arguments of a launch of that size; a runtime that fills them itself writes over them."""
        hidden = hidden_values(self._table, grid, block, dynamic_lds)
        for row in self._table:
            if is_hidden(row):
                value = hidden[row.value_kind] & (1 << 8 * row.size) - 1
                self.segment[row.offset : row.offset + row.size] = value.to_bytes(row.size, "little")

    def pack(self, values: Sequence[Any] | Mapping[str, Any]) -> None:
        """Patch the segment. Raises ArgumentError, which names the argument, for what the kernel does not take."""
        if isinstance(values, Mapping):
            values = self._in_order(values)
        slots = self.slots
        if len(values) != len(slots):
            raise ArgumentError(f"{self.name} takes {len(slots)} arguments ({', '.join(self.names) or 'none'}), got {len(values)}")
        for slot, value in zip(slots, values, strict=False):
            if value is slot.last:
                continue
            if value is slot.tensor and value.data_ptr() == slot.address:
                continue
            if value.__class__ is int and slot.low <= value <= slot.high:
                slot.packed.pack_into(self.segment, slot.offset, value & slot.high)
                slot.last, slot.tensor = value, _NOTHING
            elif value.__class__ is Buffer and slot.pointer and not slot.is_torch:
                slot.last = slot.tensor = _NOTHING
                slot.address = self._locate(slot.what, value)[0]
                _POINTER.pack_into(self.segment, slot.offset, slot.address)
                slot.last = value
            else:
                self._store(slot, value)
                self.is_torch = any(slot.is_torch for slot in slots)

    def _in_order(self, values: Mapping[str, Any]) -> list[Any]:
        if len(values) == len(self.names):
            try:
                return [values[name] for name in self.names]
            except KeyError:
                pass
        missing = [name for name in self.names if name not in values]
        unknown = [str(name) for name in values if name not in self.names]
        if missing or unknown:
            wrong = f"needs a value for {', '.join(missing)}" if missing else f"has no argument {', '.join(map(quoted, unknown))}"
            raise ArgumentError(f"{self.name} {wrong}; it takes {', '.join(self.names) or 'none'}")
        return [values[name] for name in self.names]

    def _store(self, slot: Slot, value: Any) -> None:
        slot.last = slot.tensor = _NOTHING
        slot.is_torch = False
        row = slot.row
        if slot.pointer or (row.size == _POINTER.size and (isinstance(value, Buffer) or is_array(value))):
            slot.address, slot.is_torch = self._address(slot, value)
            _POINTER.pack_into(self.segment, row.offset, slot.address)
        else:
            if isinstance(value, Buffer) or is_array(value):
                raise ArgumentError(f"{slot.what} is a value of {row.size} bytes, got {_kind(value)}")
            name = slot.what.removeprefix("argument ")
            data = pack_table((replace(row, offset=0, name=name),), {name: plain(value, row.size)}, row.size)
            self.segment[row.offset : row.offset + row.size] = data
        if type(value) in (int, float, Buffer):
            slot.last = value
        elif hasattr(value, "data_ptr"):
            slot.tensor = value

    def _address(self, slot: Slot, value: Any) -> Located:
        if value.__class__ is Buffer:
            return self._locate(slot.what, value)
        if isinstance(value, bool) or not (isinstance(value, int | Buffer) or is_array(value)):
            raise ArgumentError(f"{slot.what} is a pointer and needs a device buffer, a tensor or an address, got {_kind(value)}")
        if isinstance(value, int):
            if not 0 <= value < 1 << 64:
                raise ArgumentError(f"{slot.what} is a pointer, and {quoted(value)} is no address")
            return value, False
        return self._locate(slot.what, value)


def plain(value: Any, size: int) -> Any:
    """What `pack_table` takes for a value that stands in `size` bytes: a float becomes one of that size, numpy's keep their type."""
    if isinstance(value, np.generic):
        return value.tobytes()
    if isinstance(value, float) and size in _FLOATS:
        return Typed(_FLOATS[size], value)
    return value


def is_array(value: Any) -> bool:
    """Whether it is an array, ours or another library's; numpy's numbers speak DLPack as well and are none."""
    return not isinstance(value, np.generic) and is_external(value)


def _kind(value: Any) -> str:
    return "a device buffer" if isinstance(value, Buffer) else f"a {type(value).__name__}"
