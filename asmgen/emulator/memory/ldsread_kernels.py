"""Reads of whole dwords from LDS, compiled; the numpy reads of `ldsops` are their test. Only compiled code's callers load this file: numba.

What four lanes read of 16 bytes each are four rows of a small matrix, whose columns go to four registers: vector registers of the
host transpose it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from asmgen.emulator.machine.jit import njit

_ROW = 256  # bytes of 64 words
_QUAD = ir.VectorType(ir.IntType(32), 4)
_INDEX = ir.IntType(64)


@intrinsic
def _transpose(typing_context: Any, first: Any, second: Any, third: Any, fourth: Any, to: Any, stride: Any) -> Any:
    """Four words at each of four addresses into four columns: word k of each to `to` + k * `stride`. Dwords are aligned."""
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        *sources, to, stride = arguments
        rows = [builder.load(builder.inttoptr(source, _QUAD.as_pointer()), align=4) for source in sources]
        pairs = []
        for low in (0, 2):  # halves of the rows of two lanes each, then of both pairs
            for left, right in ((rows[0], rows[1]), (rows[2], rows[3])):
                pairs.append(builder.shuffle_vector(left, right, _lanes(low, low + 4, low + 1, low + 5)))
        for column in range(4):
            left, right = pairs[column // 2 * 2], pairs[column // 2 * 2 + 1]
            half = 2 * (column % 2)
            value = builder.shuffle_vector(left, right, _lanes(half, half + 1, half + 4, half + 5))
            address_of = builder.add(to, builder.mul(stride, _INDEX(column)))
            builder.store(value, builder.inttoptr(address_of, _QUAD.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 6), generate


def _lanes(*numbers: int) -> Any:
    return ir.Constant(_QUAD, list(numbers))


@intrinsic
def _load(typing_context: Any, address_of: Any) -> Any:
    """The dword at an address of any alignment."""
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(builder.inttoptr(arguments[0], ir.IntType(32).as_pointer()), align=1)

    return types.uint32(types.int64), generate


@intrinsic
def _store(typing_context: Any, address_of: Any, value: Any) -> Any:
    """A dword to an aligned address."""
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(arguments[1], builder.inttoptr(arguments[0], ir.IntType(32).as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(types.int64, types.uint32), generate


# As compiled code calls them, without the typing context.
_transposed: Any = _transpose
_word: Any = _load
_put: Any = _store


@njit(cache=True)
def read_wave(mine: int, stride: int, address: int, execution: int, registers: Any, words: int, target: int, home: int, size: int) -> None:
    """One wave reads `words` words a lane, at one or two places.

    `mine` is the host's address of the wave's first register, the next lies `stride` bytes further; register `address` has LDS addresses,
    of LDS that begins at `home` and has `size` bytes; `places` are two offsets and how many of them count. What ends outside reads 0.
    """
    bases = np.empty(64, np.int64)
    top, bits = np.int64(0), np.int64(0)
    for lane in range(64):
        base = np.int64(_word(mine + address * stride + 4 * lane))
        bases[lane] = base
        top, bits = max(top, base), bits | base
    for address_of in range(registers[2]):
        offset = registers[1] if address_of else registers[0]
        to = mine + (target + address_of * words) * stride
        if execution == -1 and (bits | offset) & 3 == 0 and top + offset + 4 * words <= size:
            begin = home + offset
            if words == 4:
                for lane in range(0, 64, 4):
                    _transposed(begin + bases[lane], begin + bases[lane + 1], begin + bases[lane + 2], begin + bases[lane + 3],
                            to + 4 * lane, stride)
                continue
            for lane in range(64):
                for word in range(words):
                    _put(to + word * stride + 4 * lane, _word(begin + bases[lane] + 4 * word))
            continue
        for lane in range(64):
            if execution >> lane & 1 == 0:
                continue
            at = bases[lane] + offset
            for word in range(words):
                value = np.uint32(0)
                if at + 4 * words <= size:
                    value = _word(home + at + 4 * word)
                _put(to + word * stride + 4 * lane, value)


@njit(cache=True)
def read_lds(vector: Any, waves: Any, everyone: bool, masks: Any, address: int, offsets: Any, words: int, target: int, lds: Any, homes: Any,
             stride: int, size: int) -> None:
    """`read_wave` for each of `waves`: vector [registers, waves, 64]; masks [2, len(waves)] are halves of lane masks, unless `everyone`
    reads; homes [waves] are workgroups, whose parts of `lds` (words) begin `stride` bytes from each other."""
    apart = np.int64(vector.shape[1] * _ROW)
    registers = offsets[0], offsets[-1], len(offsets)
    for number in range(len(waves)):
        wave = waves[number]
        execution = np.int64(-1)
        if not everyone:
            execution = np.int64(np.uint64(masks[0, number]) | np.uint64(masks[1, number]) << np.uint64(32))
        read_wave(np.int64(vector.ctypes.data) + wave * _ROW, apart, address, execution, registers, words, target,
                  np.int64(lds.ctypes.data) + homes[wave] * stride, size)
