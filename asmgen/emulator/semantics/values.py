"""Operands as typed arrays: how an instruction's sources are fetched and its results written.

Vector sources have the shape [waves, 64], or [waves, 1] from scalar registers, or none for constants; scalar ones
[waves]. Writes honour EXEC; conversions between bit patterns and types happen here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from asmgen.emulator.machine.state import APERTURE_LIMIT, EXEC, PRIVATE_BASE, SHARED_BASE, VCC, Array, Group, Machine, lane_mask, mask_bits
from asmgen.isa.operands import Operand, Special, float_bits
from asmgen.isa.registers import Reg

Fetch = Callable[[Group], Array]
Store = Callable[[Group, Array], None]

NUMPY_TYPES: dict[str, type[np.generic]] = {
    "f64": np.float64, "u64": np.uint64, "i64": np.int64, "b64": np.uint64,
    "f32": np.float32, "u32": np.uint32, "i32": np.int32, "b32": np.uint32,
    "f16": np.float16, "u16": np.uint16, "i16": np.int16, "b16": np.uint16, "bf16": np.uint16,
    "u8": np.uint8, "i8": np.int8, "b8": np.uint8,
}
APERTURES = {"src_shared_base": SHARED_BASE, "src_private_base": PRIVATE_BASE, "src_shared_limit": SHARED_BASE | APERTURE_LIMIT,
             "src_private_limit": PRIVATE_BASE | APERTURE_LIMIT, "src_pops_exiting_wave_id": 0}
"""Special sources with a fixed value."""
_FLOATS = ("f64", "f32", "f16", "bf16")


def numpy_type(operand_type: str) -> type[np.generic]:
    """The array element of an operand type; packed and opaque 32-bit ones are uint32."""
    return NUMPY_TYPES.get(operand_type, np.uint32)


def bits_of(value: int | float, operand_type: str) -> int:
    """The bit pattern that a constant has in an operand of this type.

    Inline integers are sign-extended to the operand's width; a 32-bit literal is the high half of an f64, sign-extended in an
    i64 and zero-extended in other 64-bit operands (CDNA3 ISA, literal constants; LLVM makes 64-bit moves by the same rule).
    """
    width = np.dtype(numpy_type(operand_type)).itemsize * 8
    if isinstance(value, float):
        return float_bits(value, operand_type)
    if width == 64 and not -16 <= value <= 64 and -(1 << 31) <= value < 1 << 32:
        low = value & 0xFFFFFFFF
        if operand_type == "f64":
            return low << 32
        return low | 0xFFFFFFFF00000000 if operand_type == "i64" and low >> 31 else low
    return value & ((1 << width) - 1)


def constant(value: int | float, operand_type: str) -> Array:
    """A constant as an array of shape () of the operand's type."""
    element = np.dtype(numpy_type(operand_type))
    pattern = bits_of(value, operand_type) & ((1 << element.itemsize * 8) - 1)
    return np.array(pattern, dtype=f"u{element.itemsize}").view(element)


def fetch_scalar(machine: Machine, operand: Operand, operand_type: str) -> Fetch:
    """A source of a scalar instruction, [waves] (a constant: shape ())."""
    element = np.dtype(numpy_type(operand_type))
    if isinstance(operand, int | float):
        fixed = constant(operand, operand_type)
        return lambda group: fixed
    if isinstance(operand, Special):
        return _fetch_special(machine, operand.name, element)
    if not isinstance(operand, Reg):
        raise TypeError(f"{operand} is no value")
    index = operand.index
    if operand.file == "scc":
        return lambda group: machine.scc[group.select].astype(element)
    registers = machine.scalar
    if element.itemsize == 8:

        def pair(group: Group) -> Array:
            low, high = registers[index, group.select], registers[index + 1, group.select]
            return (low | high.astype(np.uint64) << np.uint64(32)).view(element)

        return pair
    if element.itemsize == 4:
        typed = registers.view(element)[index]
        return lambda group: typed[group.select]
    narrow = np.dtype(f"u{element.itemsize}")
    return lambda group: registers[index, group.select].astype(narrow).view(element)


def _fetch_special(machine: Machine, name: str, element: np.dtype[np.generic]) -> Fetch:
    def flag(index: int) -> Fetch:
        def zero(group: Group) -> Array:
            halves = machine.scalar[index:index + 2, group.select]
            values: Array = ((halves[0] | halves[1]) == 0).astype(element)
            return values

        return zero

    if name == "src_scc":
        return lambda group: machine.scc[group.select].astype(element)
    if name in APERTURES:
        # As a 32-bit operand an aperture register reads its lower half, which is 0 (LLVM reads the pair and takes the upper half).
        fixed = np.array(APERTURES[name] & (1 << 8 * element.itemsize) - 1, f"u{element.itemsize}").view(element)
        return lambda group: np.broadcast_to(fixed, group.size)
    if name in ("src_vccz", "src_execz"):
        return flag(VCC if name == "src_vccz" else EXEC)
    raise ValueError(f"the emulator has no value for {name}")


def write_lanes(target: Array, group: Group, value: Array) -> None:
    """Put `value` into one register ([waves, 64] of the machine) where EXEC allows."""
    if group.mask is None:
        target[group.select] = value
    elif isinstance(group.select, slice):
        np.copyto(target[group.select], value, where=group.mask)
    else:
        target[group.select] = np.where(group.mask, value, target[group.select])


def store_scalar(machine: Machine, reg: Reg, operand_type: str) -> Store:
    """A scalar destination. Writing EXEC renews the group's lane mask."""
    index = reg.index
    element = np.dtype(numpy_type(operand_type))
    if reg.file == "scc":
        return lambda group, value: machine.scc.__setitem__(group.select, value)
    wide = element.itemsize == 8
    touches_exec = index <= EXEC + 1 and index + wide >= EXEC
    registers = machine.scalar

    def store(group: Group, value: Array) -> None:
        if wide:
            pattern = value.view(np.uint64)
            registers[index, group.select] = pattern.astype(np.uint32)
            registers[index + 1, group.select] = (pattern >> np.uint64(32)).astype(np.uint32)
        else:
            registers[index, group.select] = value.view(f"u{element.itemsize}")
        if touches_exec:
            group.refresh_mask()

    return store


def fetch_lane_mask(machine: Machine, reg: Reg) -> Callable[[Group], np.ndarray[tuple[int, int], np.dtype[np.bool_]]]:
    """A 64-bit scalar pair as booleans [waves, 64]."""
    index = reg.index
    return lambda group: lane_mask(machine.scalar[index, group.select], machine.scalar[index + 1, group.select])


def store_lane_mask(machine: Machine, reg: Reg) -> Store:
    """Booleans [waves, 64] into a 64-bit scalar pair."""
    index = reg.index

    def store(group: Group, value: Array) -> None:
        lanes = np.broadcast_to(value, (group.size, 64)).astype(bool)
        machine.scalar[index:index + 2, group.select] = mask_bits(lanes)
        if EXEC - 1 <= index <= EXEC + 1:
            group.refresh_mask()

    return store
