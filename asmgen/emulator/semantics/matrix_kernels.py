"""The hot loops of matrix instructions, compiled. `matrix_numpy` has the same results bit for bit and is their test.

Compiled code adds in the same order as numpy does: C first, then the products by ascending k. Products are exact in float64, so that
only the sums round there; nothing here may be compiled with fastmath. This file imports numba: only `matrix` loads it, when a
launch has enough matrix work to pay for that.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from asmgen.emulator.machine.jit import njit
from asmgen.emulator.semantics.matrix_plan import DECODERS
from asmgen.emulator.semantics.matrix_tile import (
    COLUMNS,
    ROWS,
    add_tile,
    register_tile,
    widen_bf16,
    widen_e4m3,
    widen_e4m3_fnuz,
    widen_e5m2,
    widen_e5m2_fnuz,
    widen_f16,
)

QUIET_NAN = np.uint32(0x7FC00000)
SMALLEST_NORMAL = 2.0**-126
_BF16, _F16, _E4M3, _E5M2, _E4M3_FNUZ, _E5M2_FNUZ = range(len(DECODERS))


@intrinsic
def _number_at(typing_context: Any, start: Any, index: Any) -> Any:
    """Number `index` of the int64 at address `start`."""
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first = builder.inttoptr(arguments[0], arguments[0].type.as_pointer())
        return builder.load(builder.gep(first, [arguments[1]]))

    return types.int64(types.int64, types.int64), generate


number_at: Any = _number_at  # compiled code calls it without the typing context


@njit(cache=True)
def same_words(vector: Any, waves: Any, slot: int, words: Any) -> bool:
    """Whether registers `slot` and up of the waves still hold `words` [registers, waves, 64]."""
    for register in range(words.shape[0]):
        for number in range(words.shape[1]):
            differing = 0
            for lane in range(64):
                differing |= vector[slot + register, waves[number], lane] ^ words[register, number, lane]
            if differing != 0:
                return False
    return True


@njit(cache=True)
def decode_table(vector: Any, waves: Any, slot: int, lanes: Any, registers: Any, shifts: Any, bits: int, table: Any, out: Any) -> None:
    """Elements of up to 16 bits through `table`, into out [waves, rows, edge]; row r begins at lane lanes[r]."""
    mask = (1 << bits) - 1
    edge = out.shape[2]
    for number in range(len(waves)):
        wave = waves[number]
        for row in range(len(lanes)):
            lane, register, shift = lanes[row], slot + registers[row], shifts[row]
            if shift + bits <= 32:
                for x in range(edge):
                    out[number, row, x] = table[vector[register, wave, lane + x] >> shift & mask]
            else:
                for x in range(edge):
                    low, high = vector[register, wave, lane + x] >> shift, vector[register + 1, wave, lane + x] << (32 - shift)
                    out[number, row, x] = table[(low | high) & mask]


@njit(cache=True)
def decode_patterns(vector: Any, waves: Any, slot: int, lanes: Any, registers: Any, shifts: Any, keep: int, flush: Any, out: Any) -> None:
    """Elements that are the upper `32 - shift` bits of an f32 pattern (bf16: 16, f32: 32), into out [waves, rows, edge] as patterns.

    `keep` is the mask of a bf16's bits in its register; `flush` [waves] says whose denormals become zero (f32 inputs).
    """
    edge = out.shape[2]
    for number in range(len(waves)):
        wave = waves[number]
        for row in range(len(lanes)):
            lane, register, shift = lanes[row], slot + registers[row], 16 - shifts[row]
            if keep == 16:
                if shift == 16:
                    for x in range(edge):
                        out[number, row, x] = np.uint32(vector[register, wave, lane + x] << np.uint32(16))
                else:
                    for x in range(edge):
                        out[number, row, x] = np.uint32(vector[register, wave, lane + x] & np.uint32(0xFFFF0000))
            else:
                for x in range(edge):
                    word = vector[register, wave, lane + x]
                    if flush[number] and word & 0x7F800000 == 0:
                        word &= np.uint32(0x80000000)
                    out[number, row, x] = word


@njit(cache=True)
def _accumulate(a: Any, b: Any, sums: Any) -> None:
    """sums[i, j] += a[k, i] * b[k, j], by ascending k."""
    depth, m = a.shape
    n = b.shape[1]
    whole = depth // 4 * 4
    for i in range(m):
        for k in range(0, whole, 4):
            a0, a1, a2, a3 = a[k, i], a[k + 1, i], a[k + 2, i], a[k + 3, i]
            for j in range(n):
                sums[i, j] = sums[i, j] + a0 * b[k, j] + a1 * b[k + 1, j] + a2 * b[k + 2, j] + a3 * b[k + 3, j]
        for k in range(whole, depth):
            a0 = a[k, i]
            for j in range(n):
                sums[i, j] = sums[i, j] + a0 * b[k, j]


@njit(cache=True)
def _accumulate_doubles(a: Any, b: Any, sums: Any) -> None:
    """`_accumulate` of contiguous doubles."""
    m, n = sums.shape
    if m % ROWS or n % COLUMNS:
        _accumulate(a, b, sums)
        return
    for i in range(0, m, ROWS):
        for j in range(0, n, COLUMNS):
            add_tile(a, b, sums, i, j)


@njit(cache=True)
def _accumulate_sparse(a: Any, locations: Any, b: Any, sums: Any) -> None:
    """sums[i, j] += a[p, i] * b[places[p, i], j], by ascending p."""
    for i in range(a.shape[1]):
        for p in range(a.shape[0]):
            a0, k = a[p, i], locations[p, i]
            for j in range(b.shape[1]):
                sums[i, j] = sums[i, j] + a0 * b[k, j]


@njit(cache=True)
def _widen(source: Any, scales: Any, target: Any) -> None:
    """target[k, x] = source[k, x] * scales[k // 32, x]; no scales: scales has no rows."""
    for k in range(source.shape[0]):
        if scales.shape[0]:
            for x in range(source.shape[1]):
                target[k, x] = source[k, x] * scales[k // 32, x]
        else:
            for x in range(source.shape[1]):
                target[k, x] = source[k, x]


@njit(cache=True)
def _flushed(value: float) -> float:
    """An f32 denormal as a zero of its sign."""
    return value * 0.0 if abs(value) < SMALLEST_NORMAL else value


@njit(cache=True)
def _load_sums(result: Any, wave: int, slot: int, value: float, registers: Any, lanes: Any, flush: int, sums: Any) -> None:
    """C of a wave into sums [blocks, m, n]; `value` where slot is negative."""
    for block in range(sums.shape[0]):
        for i in range(sums.shape[1]):
            register, lane = slot + registers[block, i], lanes[block, i]
            if slot >= 0:
                row, source = sums[block, i], result[register, wave, lane:lane + sums.shape[2]]
                for j in range(len(row)):
                    row[j] = source[j]
            else:
                sums[block, i] = value
            if flush & 1:
                for j in range(sums.shape[2]):
                    sums[block, i, j] = _flushed(sums[block, i, j])


@njit(cache=True)
def _store_sums(vector: Any, result: Any, wave: int, slot: int, registers: Any, lanes: Any, flush: int, sums: Any) -> None:
    """D of a wave from sums [blocks, m, n]; `result` is `vector` as float32."""
    for block in range(sums.shape[0]):
        for i in range(sums.shape[1]):
            register, lane = slot + registers[block, i], lanes[block, i]
            row, target = sums[block, i], result[register, wave, lane:lane + sums.shape[2]]
            for j in range(len(row)):
                target[j] = np.float32(row[j])
            nans = 0
            for j in range(len(row)):
                nans += row[j] != row[j]
            if nans or flush & 2:
                for j in range(sums.shape[2]):
                    if sums[block, i, j] != sums[block, i, j]:
                        vector[register, wave, lane + j] = QUIET_NAN
                    elif flush & 2:
                        result[register, wave, lane + j] = np.float32(_flushed(np.float64(result[register, wave, lane + j])))


@njit(cache=True)
def accumulate_tiles(a: int, b: int, depth: int, m: int, n: int, c: int, d: int, at: int) -> None:
    """D = A * B + C of one block; A [depth, m] and B [depth, n] are doubles. All are addresses.

    Row i of C and D begins at the words c + 4 * at[i] and d + 4 * at[i]; at [m] is int64.
    """
    for i in range(0, m, ROWS):
        for j in range(0, n, COLUMNS):
            register_tile(a, b, (depth, m, n), i, j, c, d, at)


@njit(cache=True)
def fill_rows(floats: Any, start: int, at: Any, m: int, n: int, value: float) -> None:
    """A constant C into the rows of D, which begin at floats[start + at[i]]."""
    for i in range(m):
        first = start + at[i]
        for j in range(n):
            floats[first + j] = np.float32(value)


@njit(cache=True)
def _row_starts(vector: Any, registers: Any, lanes: Any) -> Any:
    """Where the rows of C or D begin after their first register, [blocks, m]."""
    return registers * (vector.shape[1] * 64) + lanes


@njit(cache=True)
def multiply_floats(vector: Any, waves: Any, a: Any, b: Any, a_scales: Any, b_scales: Any, locations: Any, blocks: int,
                    c_slot: int, c_value: float, d_slot: int, d_registers: Any, d_lanes: Any, flush: Any) -> None:
    """D = A * B + C of several waves, f32 results.

    a [waves, blocks * k, m], b [waves, blocks * k, n] float32; scales [waves, k / 32, m or n] or [waves, 0, 0]; places [waves, k / 2, m]
    where A is sparse, else [0, 0, 0]. C is c_value where c_slot is negative. flush [waves]: bit 0 flushes C's denormals, bit 1 D's.
    """
    depth_a, depth_b = a.shape[1] // blocks, b.shape[1] // blocks
    m, n = a.shape[2], b.shape[2]
    result = vector.view(np.float32)
    wide_a, wide_b, sums = np.empty((depth_a, m)), np.empty((depth_b, n)), np.empty((blocks, m, n))
    for number in range(len(waves)):
        wave = waves[number]
        _load_sums(result, wave, c_slot, c_value, d_registers, d_lanes, flush[number], sums)
        for block in range(blocks):
            _widen(a[number, block * depth_a:(block + 1) * depth_a], a_scales[number], wide_a)
            _widen(b[number, block * depth_b:(block + 1) * depth_b], b_scales[number], wide_b)
            if locations.shape[0]:
                _accumulate_sparse(wide_a, locations[number], wide_b, sums[block])
            else:
                _accumulate_doubles(wide_a, wide_b, sums[block])
        _store_sums(vector, result, wave, d_slot, d_registers, d_lanes, flush[number], sums)


@njit(cache=True)
def multiply_in_tiles(vector: Any, waves: Any, a: Any, b: Any, a_scales: Any, b_scales: Any, blocks: int, c_slot: int, c_value: float,
                      d_slot: int, d_registers: Any, d_lanes: Any) -> None:
    """`multiply_floats` without sparse operands and flushed denormals, where `Plan.in_tiles` holds."""
    depth, m, n = a.shape[1] // blocks, a.shape[2], b.shape[2]
    wide_a, wide_b = np.empty((depth, m)), np.empty((depth, n))
    result, size = vector.view(np.float32).reshape(-1), vector.shape[1] * 64
    at = _row_starts(vector, d_registers, d_lanes)
    for number in range(len(waves)):
        to = d_slot * size + waves[number] * 64
        start = c_slot * size + waves[number] * 64 if c_slot >= 0 else to
        for block in range(blocks):
            _widen(a[number, block * depth:(block + 1) * depth], a_scales[number], wide_a)
            _widen(b[number, block * depth:(block + 1) * depth], b_scales[number], wide_b)
            if c_slot < 0:
                fill_rows(result, to, at[block], m, n, c_value)
            accumulate_tiles(wide_a.ctypes.data, wide_b.ctypes.data, depth, m, n, vector.ctypes.data + 4 * start,
                             vector.ctypes.data + 4 * to, at.ctypes.data + 8 * block * m)


@njit(cache=True)
def decode_rows(start: int, offsets: int, shifts: int, rows: int, decoder: int, out: int, edge: int) -> None:
    """Rows of a wave, of the element type DECODERS[decoder], as doubles, out [rows, edge]; edges are multiples of 8.

    All are addresses: row r begins at the word start + 4 * offsets[r], at bit shifts[r]; both int64.
    """
    for row in range(rows):
        source, shift, target = start + 4 * number_at(offsets, row), number_at(shifts, row), out + 8 * row * edge
        if decoder == _BF16:
            widen_bf16(source, shift, target, edge)
        elif decoder == _F16:
            widen_f16(source, shift, target, edge)
        elif decoder == _E4M3:
            widen_e4m3(source, shift, target, edge)
        elif decoder == _E5M2:
            widen_e5m2(source, shift, target, edge)
        elif decoder == _E4M3_FNUZ:
            widen_e4m3_fnuz(source, shift, target, edge)
        elif decoder == _E5M2_FNUZ:
            widen_e5m2_fnuz(source, shift, target, edge)


@njit(cache=True)
def multiply_straight(vector: Any, waves: Any, a_slot: int, a_lanes: Any, a_registers: Any, a_shifts: Any, a_decoder: int, b_slot: int,
                      b_lanes: Any, b_registers: Any, b_shifts: Any, b_decoder: int, m: int, n: int, c_slot: int, c_value: float,
                      d_slot: int, d_registers: Any, d_lanes: Any) -> None:
    """D = A * B + C of several waves, dense, sources of DECODERS, straight from their registers: cheaper than remembering.

    m and n are multiples of a tile's, and D is either C or apart from it.
    """
    blocks = d_registers.shape[0]
    depth = len(a_lanes) // blocks
    wide_a, wide_b = np.empty((blocks * depth, m)), np.empty((blocks * depth, n))
    result, size = vector.view(np.float32).reshape(-1), vector.shape[1] * 64
    at = _row_starts(vector, d_registers, d_lanes)
    a_at, b_at = _row_starts(vector, a_registers, a_lanes), _row_starts(vector, b_registers, b_lanes)
    a_bits, b_bits = a_shifts.astype(np.int64), b_shifts.astype(np.int64)
    for number in range(len(waves)):
        start = vector.ctypes.data + waves[number] * 256
        to = d_slot * size + waves[number] * 64
        decode_rows(start + 4 * a_slot * size, a_at.ctypes.data, a_bits.ctypes.data, len(a_at), a_decoder, wide_a.ctypes.data, m)
        decode_rows(start + 4 * b_slot * size, b_at.ctypes.data, b_bits.ctypes.data, len(b_at), b_decoder, wide_b.ctypes.data, n)
        for block in range(blocks):
            if c_slot < 0:
                fill_rows(result, to, at[block], m, n, c_value)
            accumulate_tiles(wide_a.ctypes.data + 8 * block * depth * m, wide_b.ctypes.data + 8 * block * depth * n, depth, m, n,
                             start + 4 * (c_slot if c_slot >= 0 else d_slot) * size, start + 4 * d_slot * size,
                             at.ctypes.data + 8 * block * m)


@njit(cache=True)
def multiply_integers(vector: Any, waves: Any, a: Any, b: Any, locations: Any, blocks: int, c_slot: int, c_value: int, d_slot: int,
                      d_registers: Any, d_lanes: Any) -> None:
    """D = A * B + C of several waves modulo 2^32; arguments as of `multiply_floats`, a and b int32."""
    depth_a, depth_b = a.shape[1] // blocks, b.shape[1] // blocks
    m, n = a.shape[2], b.shape[2]
    sums = np.empty((blocks, m, n), np.int32)
    for number in range(len(waves)):
        wave = waves[number]
        for block in range(blocks):
            for i in range(m):
                register, lane = c_slot + d_registers[block, i], d_lanes[block, i]
                for j in range(n):
                    sums[block, i, j] = vector[register, wave, lane + j] if c_slot >= 0 else c_value
        for block in range(blocks):
            part_a, part_b = a[number, block * depth_a:(block + 1) * depth_a], b[number, block * depth_b:(block + 1) * depth_b]
            if locations.shape[0]:
                _accumulate_sparse(part_a, locations[number], part_b, sums[block])
            else:
                _accumulate(part_a, part_b, sums[block])
            for i in range(m):
                register, lane = d_slot + d_registers[block, i], d_lanes[block, i]
                for j in range(n):
                    vector[register, wave, lane + j] = sums[block, i, j]


@intrinsic
def _fma(typing_context: Any, x: Any, y: Any, z: Any) -> Any:
    """x * y + z with one rounding."""
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fma(*arguments)

    return types.float64(types.float64, types.float64, types.float64), generate


fused: Any = _fma  # compiled code calls it without the typing context


@njit(cache=True)
def multiply_doubles(a: Any, b: Any, sums: Any) -> None:
    """sums [waves, blocks, i, j] becomes fma(a[.., k, i], b[.., k, j], sums) by ascending k; a, b [waves, blocks, k, edge]."""
    for number in range(sums.shape[0]):
        for block in range(sums.shape[1]):
            for i in range(sums.shape[2]):
                for j in range(sums.shape[3]):
                    total = sums[number, block, i, j]
                    for k in range(a.shape[2]):
                        total = fused(a[number, block, k, i], b[number, block, k, j], total)
                    sums[number, block, i, j] = total
