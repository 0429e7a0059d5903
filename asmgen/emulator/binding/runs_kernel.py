"""Interprets compiled runs: wave after wave goes through the rows of a run (`microops`). Only `runs` loads this file: it needs numba.

Waves do not see each other in a run, so the order of rows and waves makes no difference, and a wave's registers stay in the cache.
Scalar operations are written out here, beside `semantics.meaning`, because numba compiles them into the loop; tests compare both.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from asmgen.emulator.binding.microops import (
    CARRY,
    CLASS,
    COMPARE,
    CONSTANT,
    DECODE,
    EXTRA,
    FIRST_LANE,
    MASK,
    MASK_OUT,
    MULTIPLY,
    OPERATION,
    OPERATIONS,
    REGISTER,
    SAVE_EXEC,
    SCALAR,
    SCALAR64,
    SCALAR_TEST,
    SCALARS,
    SOURCES,
    TARGET,
    TEMPORARY,
    TEMPS,
    VECTOR,
)
from asmgen.emulator.binding.runs_lanes import lanes, spread
from asmgen.emulator.machine.jit import njit
from asmgen.emulator.machine.state import EXEC
from asmgen.emulator.memory.ldsread_kernels import read_wave
from asmgen.emulator.semantics.matrix_kernels import accumulate_tiles, decode_rows, fill_rows

_ROW = 256  # bytes of 64 words
_LOW = np.uint64(0xFFFFFFFF)
_SELECT = OPERATIONS["select"]
(_MOV, _NOT, _ADD, _SUB, _ADD_I, _SUB_I, _ADDC, _SUBB, _AND, _OR, _XOR, _ANDN2, _ORN2, _NAND, _NOR, _XNOR, _SHL, _LSHR, _ASHR, _MUL,
 _MUL_HI_U, _MUL_HI_I, _MIN_U, _MAX_U, _MIN_I, _MAX_I, _CHOOSE, _BFE_U, _BFM, _LSHL_ADD, _CMOV, _PACK_LL, _PACK_LH, _PACK_HH, _EQ, _NE,
 _LT_U, _LE_U, _GT_U, _GE_U, _LT_I, _LE_I, _GT_I, _GE_I, _BIT0, _BIT1) = SCALARS.values()


@njit(cache=True)
def _signed(value: Any, wide: bool) -> Any:
    return np.int64(value) if wide else np.int64(np.int32(np.uint32(value)))


@njit(cache=True)
def scalar_result(operation: int, wide: bool, a: Any, b: Any, old: bool, extra: int) -> Any:
    """(result, SCC) of a scalar operation on uint64 `a` and `b`, of which 32 bits count unless `wide`; `old` is SCC before."""
    one, zero = np.uint64(1), np.uint64(0)
    limit = ~zero if wide else _LOW
    by = b & (np.uint64(63) if wide else np.uint64(31))
    carry = np.uint64(old)
    value, scc = zero, False
    if operation == _MOV:
        value = a
    elif operation == _NOT:
        value = ~a & limit
        scc = value != zero
    elif operation == _ADD:
        value = a + b & limit
        scc = value < a
    elif operation == _SUB:
        value = a - b & limit
        scc = b > a
    elif operation == _ADD_I:
        value = a + b & limit
        scc = ((a ^ value) & (b ^ value)) >> np.uint64(31) & one != zero
    elif operation == _SUB_I:
        value = a - b & limit
        scc = ((a ^ b) & (a ^ value)) >> np.uint64(31) & one != zero
    elif operation == _ADDC:
        value = a + b + carry & limit
        scc = a + b + carry > limit
    elif operation == _SUBB:
        value = a - b - carry & limit
        scc = b + carry > a
    elif operation == _AND:
        value = a & b
        scc = value != zero
    elif operation == _OR:
        value = a | b
        scc = value != zero
    elif operation == _XOR:
        value = a ^ b
        scc = value != zero
    elif operation == _ANDN2:
        value = a & ~b
        scc = value != zero
    elif operation == _ORN2:
        value = (a | ~b) & limit
        scc = value != zero
    elif operation == _NAND:
        value = ~(a & b) & limit
        scc = value != zero
    elif operation == _NOR:
        value = ~(a | b) & limit
        scc = value != zero
    elif operation == _XNOR:
        value = ~(a ^ b) & limit
        scc = value != zero
    elif operation == _SHL:
        value = a << by & limit
        scc = value != zero
    elif operation == _LSHR:
        value = a >> by
        scc = value != zero
    elif operation == _ASHR:
        value = np.uint64(_signed(a, wide) >> np.int64(by)) & limit
        scc = value != zero
    elif operation == _MUL:
        value = a * b & limit
    elif operation == _MUL_HI_U:
        value = a * b >> np.uint64(32)
    elif operation == _MUL_HI_I:
        value = np.uint64(_signed(a, wide) * _signed(b, wide) >> np.int64(32)) & limit
    elif operation == _MIN_U:
        scc = a < b
        value = a if scc else b
    elif operation == _MAX_U:
        scc = a >= b
        value = a if scc else b
    elif operation == _MIN_I:
        scc = _signed(a, wide) < _signed(b, wide)
        value = a if scc else b
    elif operation == _MAX_I:
        scc = _signed(a, wide) >= _signed(b, wide)
        value = a if scc else b
    elif operation == _CHOOSE:
        value = a if old else b
    elif operation == _BFE_U:
        width = b >> np.uint64(16) & np.uint64(127)
        keep = _LOW if width >= np.uint64(32) else (one << width) - one
        value = a >> (b & np.uint64(31)) & keep
        scc = value != zero
    elif operation == _BFM:
        value = ((one << (a & np.uint64(63 if wide else 31))) - one) << by & limit
    elif operation == _LSHL_ADD:
        total = (a << np.uint64(extra)) + b
        value = total & limit
        scc = total > limit
    elif operation == _CMOV:
        value = b if old else a
    elif operation == _PACK_LL:
        value = a & np.uint64(0xFFFF) | (b & np.uint64(0xFFFF)) << np.uint64(16)
    elif operation == _PACK_LH:
        value = a & np.uint64(0xFFFF) | (b & np.uint64(0xFFFF0000))
    elif operation == _PACK_HH:
        value = a >> np.uint64(16) | (b & np.uint64(0xFFFF0000))
    elif operation == _EQ:
        scc = a == b
    elif operation == _NE:
        scc = a != b
    elif operation == _LT_U:
        scc = a < b
    elif operation == _LE_U:
        scc = a <= b
    elif operation == _GT_U:
        scc = a > b
    elif operation == _GE_U:
        scc = a >= b
    elif operation == _LT_I:
        scc = _signed(a, wide) < _signed(b, wide)
    elif operation == _LE_I:
        scc = _signed(a, wide) <= _signed(b, wide)
    elif operation == _GT_I:
        scc = _signed(a, wide) > _signed(b, wide)
    elif operation == _GE_I:
        scc = _signed(a, wide) >= _signed(b, wide)
    elif operation == _BIT0:
        scc = a >> by & one == zero
    elif operation == _BIT1:
        scc = a >> by & one != zero
    return value, scc


@njit(cache=True)
def _pair(scalar: Any, index: int, wave: int) -> Any:
    return np.uint64(scalar[index, wave]) | np.uint64(scalar[index + 1, wave]) << np.uint64(32)


@njit(cache=True)
def _put_pair(scalar: Any, index: int, wave: int, value: Any) -> None:
    scalar[index, wave] = np.uint32(value & _LOW)
    scalar[index + 1, wave] = np.uint32(value >> np.uint64(32))


@njit(cache=True)
def _number(row: Any, source: int, wide: bool, scalar: Any, wave: int) -> Any:
    """A scalar source."""
    index = row[SOURCES + 2 * source + 1]
    if row[SOURCES + 2 * source] == CONSTANT:
        return np.uint64(index)
    return _pair(scalar, index, wave) if wide else np.uint64(scalar[index, wave])


@njit(cache=True)
def _decode(row: Any, layouts: Any, buffers: Any, mine: int, stride: int, size: int) -> None:
    """A DECODE of `runs_matrix`; layouts and buffers (of `size` bytes each) are an array and an address."""
    layout = layouts[row[3]]
    decode_rows(mine + row[4] * stride, layout[0].ctypes.data, layout[1].ctypes.data, row[5], row[1], buffers + row[2] * size, row[6])


@njit(cache=True)
def _multiply(row: Any, locations: Any, buffers: Any, constants: Any, vector: Any, mine: int, stride: int, size: int) -> None:
    """A MULTIPLY of `runs_matrix`."""
    blocks, depth, m, n = row[1], row[7], row[8], row[9]
    target, source = mine + row[2] * stride, mine + (row[5] if row[5] >= 0 else row[2]) * stride
    starts = locations[row[10]]
    if row[5] < 0:
        fill_rows(vector.view(np.float32).reshape(-1), (target - np.int64(vector.ctypes.data)) // 4, starts, blocks * m, n,
                  constants.view(np.float32)[row[6], 0])
    left, right, at = buffers + row[3] * size, buffers + row[4] * size, np.int64(starts.ctypes.data)
    for block in range(blocks):
        accumulate_tiles(left + block * depth * m * 8, right + block * depth * n * 8, depth, m, n, source, target, at + block * m * 8)


@njit(cache=True)
def execute(code: Any, constants: Any, layouts: Any, locations: Any, buffers: Any, lds: Any, homes: Any, vector: Any, scalar: Any, scc: Any,
            waves: Any, temporary: Any) -> None:
    """Run the rows of `code` for each of `waves`.

    lds are the words of all workgroups, homes [waves] says whose a wave is; vector [registers, waves, 64], scalar [128, waves],
    scc [waves], constants and temporary [.., 64], buffers [.., doubles], all contiguous; layouts and
    places are those of `runs_matrix.Products`.
    """
    registers, fixed, scratch = np.int64(vector.ctypes.data), np.int64(constants.ctypes.data), np.int64(temporary.ctypes.data)
    stride = np.int64(vector.shape[1] * _ROW)
    result = scratch + TEMPS * _ROW
    decoded, size = np.int64(buffers.ctypes.data), np.int64(buffers.shape[1] * 8)
    for number in range(len(waves)):
        wave = waves[number]
        mine = registers + wave * _ROW
        for at in range(code.shape[0]):
            row = code[at]
            kind, operation, target = row[CLASS], row[OPERATION], row[TARGET]
            if kind <= CARRY:
                execution = np.int64(_pair(scalar, EXEC, wave))
                first = second = third = fixed
                for source in range(3):
                    form, index = row[SOURCES + 2 * source], row[SOURCES + 2 * source + 1]
                    if form == REGISTER:
                        location = mine + index * stride
                    elif form == CONSTANT:
                        location = fixed + index * _ROW
                    elif form == SCALAR:
                        location = scratch + (3 + source) * _ROW
                        spread(location, np.int64(scalar[index, wave]))
                    else:
                        location = scratch + index * _ROW
                    if source == 0:
                        first = location
                    elif source == 1:
                        second = location
                    else:
                        third = location
                given = np.int64(_pair(scalar, row[MASK], wave)) if row[MASK] >= 0 else np.int64(0)
                if kind == TEMPORARY:
                    lanes(operation, scratch + target * _ROW, first, second, third, given, row[EXTRA])
                    continue
                if kind == COMPARE:
                    flags = lanes(operation, result, first, second, third, given, row[EXTRA]) & execution
                    _put_pair(scalar, row[MASK_OUT], wave, np.uint64(flags))
                    if target >= 0:
                        _put_pair(scalar, target, wave, np.uint64(flags))
                    continue
                goal = mine + target * stride
                if execution == -1:
                    flags = lanes(operation, goal, first, second, third, given, row[EXTRA])
                else:
                    flags = lanes(operation, result, first, second, third, given, row[EXTRA]) & execution
                    lanes(_SELECT, goal, goal, result, fixed, execution, 0)
                if kind == CARRY:
                    _put_pair(scalar, row[MASK_OUT], wave, np.uint64(flags))
            elif kind <= SCALAR_TEST:
                wide = kind == SCALAR64 or (kind == SCALAR_TEST and row[MASK] == 1)
                a, b = _number(row, 0, wide, scalar, wave), _number(row, 1, wide and row[MASK] != 2, scalar, wave)
                value, flag = scalar_result(operation, wide, a, b, scc[wave], row[EXTRA])
                if kind != SCALAR_TEST:
                    if wide:
                        _put_pair(scalar, target, wave, value)
                    else:
                        scalar[target, wave] = np.uint32(value)
                if row[MASK_OUT] == 1:
                    scc[wave] = flag
            elif kind == FIRST_LANE:
                execution_bits = _pair(scalar, EXEC, wave)
                lane = 0
                while execution_bits != np.uint64(0) and execution_bits >> np.uint64(lane) & np.uint64(1) == np.uint64(0):
                    lane += 1
                scalar[target, wave] = vector[row[SOURCES + 1], wave, lane]
            elif kind == SAVE_EXEC:
                before, wide = _pair(scalar, EXEC, wave), kind == SAVE_EXEC  # for a literal numba compiles all operations again
                value, flag = scalar_result(operation, wide, _number(row, 0, wide, scalar, wave), before, scc[wave], np.int64(0))
                _put_pair(scalar, EXEC, wave, value)
                _put_pair(scalar, target, wave, before)
                scc[wave] = value != np.uint64(0)
            elif kind == DECODE:
                _decode(row, layouts, decoded, mine, stride, size)
            elif kind == MULTIPLY:
                _multiply(row, locations, decoded, constants, vector, mine, stride, size)
            else:
                read_wave(mine, stride, row[3], np.int64(_pair(scalar, EXEC, wave)), (row[5], row[6], row[4]), operation, target,
                          np.int64(lds.ctypes.data) + homes[wave] * row[8], row[7])


@njit(cache=True)
def spin(code: Any, constants: Any, layouts: Any, locations: Any, buffers: Any, lds: Any, homes: Any, vector: Any, scalar: Any, scc: Any,
         waves: Any, temporary: Any, register: int, taken: bool, limit: int) -> int:
    """Run the rows again while a branch back to the first one is taken by all waves; returns how often, at most `limit` times.

    The branch is taken where a pair of scalar registers is not 0, or SCC is set (`register` negative), if that is `taken`.
    """
    for rounds in range(limit):
        for wave in waves:
            given = scc[wave] if register < 0 else _pair(scalar, register, wave) != np.uint64(0)
            if given != taken:
                return rounds
        execute(code, constants, layouts, locations, buffers, lds, homes, vector, scalar, scc, waves, temporary)
    return limit


assert (VECTOR, TEMPORARY, COMPARE, CARRY) == (0, 1, 2, 3) and SCALAR == 2
