"""Matrix products on residues, compiled; the numpy products of `matrixrules` are their test. Only their callers load this file."""

from __future__ import annotations

from typing import Any

import numpy as np

from asmgen.emulator.algebra.residues import HAS_E, HAS_P, HAS_Q, P, Q
from asmgen.emulator.carried.cells import UNKNOWN
from asmgen.emulator.machine.jit import njit

_ROW = 1 << 31  # of carried.cells: a handle that is a row of the table of nibbles
_AT_ONCE = 4
_HAS_Q, _HAS_P, _HAS_E, _Q, _P, _UNKNOWN = HAS_Q, HAS_P, HAS_E, Q, P, UNKNOWN


@njit(cache=True)
def operand(handles: Any, words: Any, waves: Any, slot: int, registers: Any, nibbles: Any, shifts: Any, lanes: Any, moved: Any, rows: Any,
            residues: Any, has: Any, encoding: Any, wanted: int, bits: int, codes: Any, known: Any, scales: Any, out: Any,
            flags: Any) -> bool:
    """The residues of A, B or C at [waves, rows, edge] into `out` [2, ...], and what all of them have into `flags` [waves, rows, edge].

    Numbers without an element are looked up among the residues of `codes` [2, 2**bits], where `known` has what these have. `scales`
    [2, waves, rows / 32, edge] are residues of powers of two, of no waves where there are none. False for what this has no way for: a
    logarithm, and a number without an element that is not 0 where there are no codes.
    """
    count, edge = lanes.shape
    scaled = scales.shape[1] > 0
    for place in range(len(waves)):
        wave = waves[place]
        for row in range(count):
            nibble, register = nibbles[row], slot + registers[row]
            for column in range(edge):
                lane = moved[lanes[row, column]]
                handle = handles[register, wave, lane]
                if handle & _ROW:
                    element = rows[handle ^ _ROW, nibble]
                elif nibble == 7:
                    element = handle
                else:
                    element = np.uint32(0)
                if element == 0:
                    word = words[register, wave, lane]
                    code = word >> shifts[row] & ((1 << bits) - 1)
                    if len(known) == 0:
                        if word:
                            return False
                        q, p, flag = np.uint64(0), np.uint64(0), np.uint8(_HAS_Q | _HAS_P)
                    else:
                        q, p, flag = np.uint64(codes[0, code]), np.uint64(codes[1, code]), known[code]
                else:
                    flag = has[element]
                    if encoding[element] != wanted:
                        flag = np.uint8(0)
                    if flag & _HAS_E:
                        return False
                    q = np.uint64(residues[0, element]) if flag & _HAS_Q else np.uint64(0)
                    p = np.uint64(residues[1, element]) if flag & _HAS_P else np.uint64(0)
                if scaled:
                    q = q * np.uint64(scales[0, place, row // 32, column]) % np.uint64(_Q)
                    p = p * np.uint64(scales[1, place, row // 32, column]) % np.uint64(_P)
                out[0, place, row, column] = q
                out[1, place, row, column] = p
                flags[place, row, column] = flag
    return True


@njit(cache=True)
def product(a: Any, b: Any, c: Any, has_a: Any, has_b: Any, has_c: Any, blocks: int, out: Any, has: Any) -> None:
    """A [2, waves, blocks * k, m] and B [2, waves, blocks * k, n], with C [2, waves, blocks * m, n], to [2, waves, blocks * m, n].

    Four products of two 31-bit numbers fit 64 bits. The halves of such sums are summed apart: 2**32 of them fit.
    """
    waves, edge, width = a.shape[1], a.shape[3], b.shape[3]
    depth = a.shape[2] // blocks
    low, high = np.empty(width, np.uint64), np.empty(width, np.uint64)
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    for wave in range(waves):
        for block in range(blocks):
            first = block * depth
            columns = np.full(width, np.uint8(_HAS_Q | _HAS_P))
            for term in range(first, first + depth):
                for column in range(width):
                    columns[column] &= has_b[wave, term, column]
            for row in range(edge):
                flag = np.uint8(_HAS_Q | _HAS_P)
                for term in range(first, first + depth):
                    flag &= has_a[wave, term, row]
                at = block * edge + row
                for column in range(width):
                    has[wave, at, column] = flag & columns[column] & has_c[wave, at, column]
                for kind in range(2):
                    by = np.uint64(_Q) if kind == 0 else np.uint64(_P)
                    low[:] = 0
                    high[:] = 0
                    whole = first + depth // _AT_ONCE * _AT_ONCE
                    for term in range(first, whole, _AT_ONCE):
                        one, two = np.uint64(a[kind, wave, term, row]), np.uint64(a[kind, wave, term + 1, row])
                        three, four = np.uint64(a[kind, wave, term + 2, row]), np.uint64(a[kind, wave, term + 3, row])
                        for column in range(width):
                            found = one * np.uint64(b[kind, wave, term, column]) + two * np.uint64(b[kind, wave, term + 1, column]) \
                                + three * np.uint64(b[kind, wave, term + 2, column]) + four * np.uint64(b[kind, wave, term + 3, column])
                            low[column] += found & mask
                            high[column] += found >> half
                    for term in range(whole, first + depth):
                        one = np.uint64(a[kind, wave, term, row])
                        for column in range(width):
                            found = one * np.uint64(b[kind, wave, term, column])
                            low[column] += found & mask
                            high[column] += found >> half
                    for column in range(width):
                        above = high[column] % by * (np.uint64(1 << 32) % by)
                        number = (above + low[column] % by + np.uint64(c[kind, wave, at, column])) % by
                        out[kind, wave, at, column] = number if has[wave, at, column] & (kind + 1) else np.uint64(0)


@njit(cache=True)
def put(handles: Any, waves: Any, slot: int, registers: Any, lanes: Any, found: Any, has: Any, residues: Any, table_has: Any,
        first: int) -> None:
    """Make elements of numbers [2, waves, rows, n] from number `first` on, and put them where D goes."""
    element = first
    for place in range(len(waves)):
        wave = waves[place]
        for row in range(found.shape[2]):
            for column in range(found.shape[3]):
                residues[0, element] = found[0, place, row, column]
                residues[1, element] = found[1, place, row, column]
                residues[2, element] = 0
                table_has[element] = has[place, row, column]
                handles[slot + registers[row], wave, lanes[row] + column] = element if has[place, row, column] else _UNKNOWN
                element += 1
