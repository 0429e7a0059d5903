"""Sources and destinations of vector ALU instructions: typed arrays out of registers, results back where EXEC allows.

Sources have the shape [waves, 64], [waves, 1] from scalar registers, or none for constants; operands of several registers that are no
64-bit number [registers, waves, 64] of uint32. 16-bit types are read from the lower half of their register, or the upper one where
op_sel says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.machine.state import Array, Group, Machine
from asmgen.emulator.semantics import sdwa
from asmgen.emulator.semantics.dpp import Dpp
from asmgen.emulator.semantics.values import NUMPY_TYPES, Fetch, bits_of, constant, fetch_scalar
from asmgen.isa.operands import Operand
from asmgen.isa.registers import Modified, Reg

Mask = NDArray[np.bool_] | None
Store = Callable[[Group, Array, Mask], None]

_SIGNS = {"f16": 0x8000, "bf16": 0x8000, "f32": 0x80000000, "b32": 0x80000000, "v2f16": 0x80008000, "v2bf16": 0x80008000,
          "v2f32": 0x80000000, "f64": 1 << 63}
_MANY = 2048  # lanes from which a compiled kernel is worth its call


def words(machine: Machine, operand: Operand, operand_type: str, width: int) -> Fetch:
    """An operand as uint32: [waves, 64] of one register, [width, waves, 64] of several."""
    if isinstance(operand, Reg) and operand.file in "va":
        slot, file = machine.slot(operand), machine.vector
        if width == 1:
            register = file[slot]
            return lambda group: register[group.select]
        registers = file[slot:slot + width]
        return lambda group: registers[:, group.select]
    if isinstance(operand, Reg) and operand.file == "s" and width > 1:
        first, scalars = operand.index, machine.scalar
        return lambda group: scalars[first:first + width, group.select][:, :, None]
    if isinstance(operand, int | float):
        pattern = np.array(bits_of(operand, operand_type) & 0xFFFFFFFF, np.uint32)
        fixed = pattern if width == 1 else np.broadcast_to(pattern, (width, 1, 1))
        return lambda group: fixed
    fetch = fetch_scalar(machine, operand, "b32")
    return lambda group: fetch(group)[:, None]


def is_words(operand_type: str) -> bool:
    """Whether an operand type is taken as uint32 registers: packed, small and opaque types."""
    return operand_type not in NUMPY_TYPES


def source(machine: Machine, operand: Operand, operand_type: str, width: int, half: int = 0) -> Fetch:
    """A source as the instruction's function takes it, input modifiers applied."""
    if isinstance(operand, Modified):
        plain = source(machine, operand.value, operand_type, width, half)
        return modified(plain, operand, operand_type)
    if is_words(operand_type):
        fetch = words(machine, operand, operand_type, width)
        if operand_type != "v2f32":
            return fetch
        return lambda group: fetch(group).view(np.float32)
    element = np.dtype(NUMPY_TYPES[operand_type])
    if isinstance(operand, int | float):
        fixed = constant(operand, operand_type)
        if half:
            # The upper half of a constant: the sign of an integer, nothing of a 16-bit float.
            upper = 0xFFFF if isinstance(operand, int) and operand < 0 else 0
            fixed = np.array(upper, np.uint16).view(element)
        return lambda group: fixed
    if element.itemsize == 8:
        return _pair(machine, operand, element)
    fetch = words(machine, operand, operand_type, 1)
    if element.itemsize == 4:
        if isinstance(operand, Reg) and operand.file in "va":
            register = machine.vector.view(element)[machine.slot(operand)]
            return lambda group: register[group.select]
        return lambda group: fetch(group).view(element)
    return lambda group: part(fetch(group), half, element)


def part(register: Any, half: int, element: np.dtype[np.generic]) -> Any:
    """A half of each register as a 16-bit type."""
    value = register >> np.uint32(16) if half else register
    return value.astype(np.uint16).view(element)


def _pair(machine: Machine, operand: Operand, element: np.dtype[np.generic]) -> Fetch:
    if not (isinstance(operand, Reg) and operand.file in "va"):
        scalar = fetch_scalar(machine, operand, {"f": "f64", "i": "i64"}.get(element.kind, "b64"))
        return lambda group: scalar(group)[:, None]
    low, high = machine.vector[machine.slot(operand)], machine.vector[machine.slot(operand) + 1]

    def pair(group: Group) -> Array:
        first = low[group.select]
        both = np.empty((*first.shape, 2), np.uint32)
        both[..., 0] = first
        both[..., 1] = high[group.select]
        return both.view(element)[..., 0]

    return pair


def modified(plain: Fetch, operand: Modified, operand_type: str) -> Fetch:
    """abs and neg on the bits, so that NaNs and zeros keep everything but their sign."""
    sign = _SIGNS.get(operand_type)
    if sign is None:
        raise ValueError(f"a source of type {operand_type} has no sign to modify")
    negate, absolute = operand.neg, operand.abs

    def fetch(group: Group) -> Array:
        value = plain(group)
        pattern = value.view(f"u{value.dtype.itemsize}")
        bit = pattern.dtype.type(sign)
        if absolute:
            pattern = pattern & ~bit
        return (pattern ^ bit if negate else pattern).view(value.dtype)

    return fetch


def sdwa_source(machine: Machine, operand: Operand, operand_type: str, select: str) -> Fetch:
    """An SDWA source: a part of the register, extended, then modified as its type."""
    if isinstance(operand, Modified):
        plain = sdwa_source(machine, replace_sign(operand), operand_type, select)
        return modified(plain, operand, operand_type) if operand.neg or operand.abs else plain
    sign = False
    if isinstance(operand, _Extended):
        operand, sign = operand.value, True
    fetch = words(machine, operand, operand_type, 1)
    chosen: Fetch = lambda group: sdwa.select(fetch(group), select, sign)  # noqa: E731
    if is_words(operand_type):
        return chosen
    element = np.dtype(NUMPY_TYPES[operand_type])
    if element.itemsize == 8:
        raise ValueError("SDWA has no 64-bit sources")
    if element.itemsize == 2:
        return lambda group: part(chosen(group), 0, element)
    return lambda group: chosen(group).view(element)


class _Extended:
    """A source under sext()."""

    def __init__(self, value: Reg | int | float) -> None:
        self.value = value


def replace_sign(operand: Modified) -> Operand:
    """What lies under neg and abs, with its sext."""
    return _Extended(operand.value) if operand.sext else operand.value  # type: ignore[return-value]


def moved_lanes(fetch: Fetch, control: Dpp) -> Fetch:
    """A DPP source: each lane reads another's; lanes without a source read 0."""
    everywhere = bool(control.valid.all())

    def permuted(group: Group) -> Array:
        value = fetch(group)
        if value.shape[-1] == 1:
            value = np.broadcast_to(value, (*value.shape[:-1], 64))
        value = np.take(value, control.source, axis=-1)
        if everywhere and group.mask is None:
            return value
        valid = control.valid if group.mask is None else control.valid & group.mask[:, control.source]
        pattern = value.view(f"u{value.dtype.itemsize}")
        return np.where(valid, pattern, pattern.dtype.type(0)).view(value.dtype)

    return permuted


def dpp_mask(group: Group, control: Dpp) -> Mask:
    """The lanes that a DPP instruction writes."""
    if control.everywhere and group.mask is None:
        return None
    allowed = np.broadcast_to(control.written, (group.size, 64))
    if group.mask is not None:
        allowed = allowed & group.mask
    if control.bound_zero:
        return allowed
    valid = control.valid if group.mask is None else control.valid & group.mask[:, control.source]
    return allowed & valid


def write_row(target: Array, group: Group, value: Array, mask: Mask) -> None:
    """Put `value` into the lanes of one register ([waves, 64] of the machine) that `mask` names (None: all)."""
    if mask is None:
        target[group.select] = value
    elif not isinstance(group.select, slice):
        target[group.select] = np.where(mask, value, target[group.select])
    elif mask.size < _MANY or target.dtype.itemsize != 4:
        np.copyto(target[group.select], value, where=mask)
    else:
        # numpy copies masked lanes run by run, which is slow where runs are short.
        from asmgen.emulator.semantics.kernels import blend_b32

        blend_b32(full(value, mask.shape).view(np.uint32).reshape(-1), np.ascontiguousarray(mask).reshape(-1),
                  target[group.select].view(np.uint32).reshape(-1))


def full(value: Array, shape: tuple[int, ...]) -> Array:
    """The value as a contiguous array of that shape: itself where it is one."""
    value = np.asarray(value)
    if value.shape == shape and value.flags.c_contiguous:
        return value
    result = np.empty(shape, value.dtype)
    result[...] = value
    return result


def store_words(machine: Machine, reg: Reg, width: int) -> Store:
    """A destination of `width` registers."""
    slot = machine.slot(reg)
    if width == 1:
        target = machine.vector[slot]
        return lambda group, value, mask: write_row(target, group, np.asarray(value).view(np.uint32), mask)
    targets = [machine.vector[slot + n] for n in range(width)]

    def store(group: Group, value: Array, mask: Mask) -> None:
        patterns = np.asarray(value).view(np.uint32)
        for target, row in zip(targets, patterns, strict=True):
            write_row(target, group, row, mask)

    return store


def store_typed(machine: Machine, reg: Reg, operand_type: str, width: int) -> Store:
    """A destination of a typed result; 16-bit ones are zero-extended."""
    if is_words(operand_type):
        return store_words(machine, reg, width)
    element = np.dtype(NUMPY_TYPES[operand_type])
    slot = machine.slot(reg)
    if element.itemsize == 4:
        typed = machine.vector.view(element)[slot]
        return lambda group, value, mask: write_row(typed, group, value, mask)
    low = machine.vector[slot]
    if element.itemsize == 2:
        return lambda group, value, mask: write_row(low, group, np.asarray(value).view(np.uint16).astype(np.uint32), mask)
    high = machine.vector[slot + 1]

    def pair(group: Group, value: Array, mask: Mask) -> None:
        halves = full(value, (group.size, 64)).view(np.uint32).reshape(group.size, 64, 2)
        write_row(low, group, halves[:, :, 0], mask)
        write_row(high, group, halves[:, :, 1], mask)

    return pair


def store_field(machine: Machine, reg: Reg, low: int, size: int) -> Store:
    """A destination of `size` bits from bit `low` of a register; the rest of it stays."""
    target = machine.vector[machine.slot(reg)]
    field = np.uint32(((1 << size) - 1) << low)

    def store(group: Group, value: Array, mask: Mask) -> None:
        value = np.asarray(value)
        placed = value.view(f"u{value.dtype.itemsize}").astype(np.uint32) << np.uint32(low) & field
        write_row(target, group, target[group.select] & ~field | placed, mask)

    return store


def store_selected(machine: Machine, reg: Reg, select: str, unused: str) -> Store:
    """An SDWA destination."""
    target = machine.vector[machine.slot(reg)]

    def store(group: Group, value: Array, mask: Mask) -> None:
        value = np.asarray(value)
        result = value.view(f"u{value.dtype.itemsize}").astype(np.uint32)
        write_row(target, group, sdwa.insert(target[group.select], result, select, unused), mask)

    return store
