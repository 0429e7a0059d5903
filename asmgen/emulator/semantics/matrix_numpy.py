"""Matrix instructions in numpy: what small launches use, and what the compiled loops of `matrix_kernels` are tested against.

Values are rows [waves, blocks * k, edge] as `matrix` describes them; sums begin with C and take the products by ascending k.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.machine.state import Group
from asmgen.emulator.semantics.matrix_plan import Plan, Source

Array = NDArray[Any]
_TINY = np.float64(np.finfo(np.float32).tiny)


def rows(source: Source, words: Array, flush: Array) -> Array:
    """The values of an operand from its registers `words` [registers, waves, 64]; `flush` [waves] as of `matrix.flushes`."""
    lane = source.lanes[:, None] + np.arange(source.edge)
    register = np.broadcast_to(source.registers[:, None], lane.shape)
    shift = source.shifts[:, None, None].astype(np.uint64)
    low = words[register, :, lane].astype(np.uint64)
    if source.bits < 32 and (source.shifts + source.bits > 32).any():
        high = words[np.minimum(register + 1, len(words) - 1), :, lane].astype(np.uint64)
        low |= high << np.uint64(32)
    codes = np.ascontiguousarray(np.moveaxis(low >> shift & np.uint64((1 << source.bits) - 1), -1, 0))
    if source.table is not None:
        return source.table[codes]
    if source.kind == "bf16":
        return (codes.astype(np.uint32) << np.uint32(16)).view(np.float32)
    patterns = codes.astype(np.uint32)
    denormal = (patterns & np.uint32(0x7F800000)) == 0
    patterns[denormal & (flush & 1 != 0)[:, None, None]] &= np.uint32(0x80000000)
    values = patterns.view(np.float32)
    return to_xf32(values) if source.kind == "xf32" else values


def to_xf32(values: Array) -> Array:
    """float32 rounded to 10 mantissa bits, to nearest even; infinities and NaNs stay."""
    patterns = np.ascontiguousarray(values).view(np.uint32)
    rounded = (patterns + np.uint32(0xFFF) + (patterns >> np.uint32(13) & np.uint32(1))) & np.uint32(0xFFFFE000)
    special = (patterns & np.uint32(0x7F800000)) == np.uint32(0x7F800000)
    return np.where(special, patterns, rounded).view(np.float32)


def floats(plan: Plan, group: Group, values: list[Array], scales: list[Array], locations: Array, flush: Array) -> None:
    """D = A * B + C in f32."""
    row = plan.row
    wide = []
    for rows_, scale in zip(values, scales, strict=True):
        parts = rows_.astype(np.float64).reshape(group.size, row.blocks, -1, rows_.shape[2])
        wide.append(parts * np.repeat(scale, 32, axis=1)[:, None] if scale.shape[1] else parts)
    sums = _addend(plan, group, np.dtype(np.float32)).astype(np.float64)
    sums = _flushed(sums, flush & 1)
    _accumulate(wide[0], wide[1], locations, sums)
    result = _flushed(sums.astype(np.float32), flush & 2).astype(np.float32)
    patterns = result.view(np.uint32).copy()
    patterns[np.isnan(result)] = 0x7FC00000
    _scatter(plan, group, patterns)


def integers(plan: Plan, group: Group, values: list[Array], locations: Array) -> None:
    """D = A * B + C modulo 2^32."""
    a, b = (rows_.reshape(group.size, plan.row.blocks, -1, rows_.shape[2]) for rows_ in values)
    sums = _addend(plan, group, np.dtype(np.int32))
    _accumulate(a, b, locations, sums)
    _scatter(plan, group, sums.view(np.uint32))


def _accumulate(a: Array, b: Array, locations: Array, sums: Array) -> None:
    for k in range(a.shape[2]):
        if locations.shape[0]:
            chosen = np.take_along_axis(b[:, 0], locations[:, k, :, None], axis=1)[:, None]
        else:
            chosen = b[:, :, k, None, :]
        sums += a[:, :, k, :, None] * chosen


def _addend(plan: Plan, group: Group, element: np.dtype[Any]) -> Array:
    """C, [waves, blocks, m, n]."""
    row = plan.row
    if plan.c_slot < 0:
        return np.full((group.size, row.blocks, row.m, row.n), plan.c_value, element)
    words = plan.machine.vector[plan.c_slot:plan.c_slot + row.cd_regs, group.select]
    lane = plan.d_lanes[:, :, None] + np.arange(row.n)
    register = np.broadcast_to(plan.d_registers[:, :, None], lane.shape)
    return np.ascontiguousarray(np.moveaxis(words[register, :, lane], -1, 0)).view(element)


def _scatter(plan: Plan, group: Group, patterns: Array) -> None:
    row = plan.row
    lane = plan.d_lanes[:, :, None] + np.arange(row.n)
    register = np.broadcast_to(plan.d_registers[:, :, None], lane.shape)
    registers = np.empty((row.cd_regs, group.size, 64), np.uint32)
    registers[register, :, lane] = np.moveaxis(patterns, 0, -1)
    plan.machine.vector[plan.d_slot:plan.d_slot + row.cd_regs, group.select] = registers


def _flushed(values: Array, flush: Array) -> Array:
    """Values with f32 denormals as zeros of their sign where `flush` [waves] is not 0."""
    if not flush.any():
        return values
    small = (np.abs(values) < _TINY) & (flush != 0)[:, None, None, None]
    return np.where(small, np.copysign(values.dtype.type(0), values), values)
