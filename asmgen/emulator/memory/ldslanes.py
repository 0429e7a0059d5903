"""What the LDS unit does across lanes: swizzle and permutes, which touch no memory, and the transposition of ds_read_*_tr_*.

Sources: CDNA3 and CDNA4 ISA (DS_SWIZZLE_B32, DS_PERMUTE_B32, DS_BPERMUTE_B32); docs/facts/semantics.md section 5 for tr_b16, and for the
other widths by analogy: a group of 16 lanes holds a matrix of 16 columns, lane after lane, of which lane l gets column l. A GPU test
of AMD's rocRoller expects the same of all four widths (read for facts only; nobody here ran it).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.machine.state import LANES, Group, Machine
from asmgen.emulator.semantics.values import write_lanes
from asmgen.program.program import Instruction

Step = Callable[[Group], None]
Array = NDArray[Any]
COLUMNS = 16
_LANE = np.arange(LANES)


def bind_crossing(instruction: Instruction, slots: dict[str, int], machine: Machine) -> Step:
    """The step of an LDS instruction that touches no memory. Raises KeyError for one without semantics."""
    offset = int(instruction.modifiers.get("offset", 0))
    vector = machine.vector
    if instruction.name == "ds_nop":
        return lambda group: None
    if instruction.name == "ds_swizzle_b32":
        return _swizzle(swizzle_sources(offset), slots["vdst"], slots["addr"], machine)
    if instruction.name not in ("ds_permute_b32", "ds_bpermute_b32"):
        raise KeyError(instruction.name)
    forwards = instruction.name == "ds_permute_b32"
    target, address, data = slots["vdst"], slots["addr"], slots["data0"]

    def step(group: Group) -> None:
        # The address is in bytes; four to a lane, and it wraps around.
        lane = (vector[address, group.select] + np.uint32(offset) >> np.uint32(2) & np.uint32(63)).astype(np.intp)
        lanes, values = group.lanes(), vector[data, group.select]
        result = np.zeros((group.size, LANES), np.uint32)
        row = np.arange(group.size)[:, None]
        if forwards:
            rows = np.broadcast_to(row, lane.shape)
            result[rows[lanes], lane[lanes]] = values[lanes]  # of lanes that push to one, the highest stays
        else:
            result = np.where(lanes[row, lane], values[row, lane], np.uint32(0))
        write_lanes(vector[target], group, result)

    return step


def _swizzle(sources: Array, target: int, data: int, machine: Machine) -> Step:
    vector = machine.vector

    def step(group: Group) -> None:
        result = np.where(group.lanes()[:, sources], vector[data, group.select][:, sources], np.uint32(0))
        write_lanes(vector[target], group, result)

    return step


def swizzle_sources(pattern: int) -> Array:
    """The lane that each lane reads under ds_swizzle_b32's offset: FFT, rotation, quads, or and/or/xor within 32 lanes."""
    low, upper = _LANE & 31, _LANE & 32
    if pattern >= 0xE000:
        mask = pattern & 31
        reverse = sum(((low >> bit) & 1) << (4 - bit) for bit in range(5))
        return np.asarray(reverse >> mask.bit_count() | low & mask | upper)
    if pattern >= 0xC000:
        mask, distance = pattern & 31, pattern >> 5 & 31
        distance = -distance if pattern >> 10 & 1 else distance
        return low & mask | (low + distance) & 31 & ~mask | upper
    if pattern & 0x8000:
        return _LANE & ~3 | pattern >> 2 * (_LANE & 3) & 3
    and_mask, or_mask, xor_mask = pattern & 31, pattern >> 5 & 31, pattern >> 10 & 31
    return ((low & and_mask) | or_mask) ^ xor_mask | upper


def transposed(words: Array, bits: int) -> Array:
    """What lanes get from the words [registers, waves, 64] that they named, taken as rows of 16 elements of `bits` bits.

    Element j of lane l is element l of row j, where rows follow each other in the elements of lane after lane.
    """
    registers, waves, _ = words.shape
    count = 32 * registers // bits
    rows = np.ascontiguousarray(np.moveaxis(words, 0, -1))  # [waves, 64, registers]
    if bits in (8, 16, 32):
        elements = rows.view(f"u{bits // 8}").reshape(waves, LANES // 16, count, COLUMNS).swapaxes(2, 3)
        packed = np.ascontiguousarray(elements).reshape(waves, LANES, count)
    else:
        string = np.unpackbits(rows.view(np.uint8), axis=-1, bitorder="little").reshape(waves, LANES // 16, 16 * count, bits)
        table = string.reshape(waves, LANES // 16, count, COLUMNS, bits).swapaxes(2, 3)
        packed = np.packbits(table.reshape(waves, LANES, count * bits), axis=-1, bitorder="little")
    return np.ascontiguousarray(np.moveaxis(packed.view(np.uint32), -1, 0))
