"""Sums and products of float32 lanes on residues, compiled; the rules of `floatrules` are their test. Only their callers load this file."""

from __future__ import annotations

from typing import Any

import numpy as np

from asmgen.emulator.algebra.residues import HAS_E, HAS_P, HAS_Q, P, Q
from asmgen.emulator.carried.cells import UNKNOWN
from asmgen.emulator.machine.jit import njit

_ROW = 1 << 31  # of carried.cells: a handle that is a row of the table of nibbles
_TOP = 7
_HAS_Q, _HAS_P, _HAS_E, _BOTH = HAS_Q, HAS_P, HAS_E, HAS_Q | HAS_P
_Q, _P, _UNKNOWN = np.uint64(Q), np.uint64(P), UNKNOWN


@njit(cache=True)
def sums(handles: Any, words: Any, waves: Any, slots: Any, scalars: Any, scalars_have: Any, signs: Any, product: bool, addend: bool,
         rows: Any, residues: Any, has: Any, encoding: Any, wanted: int, first: int, ids: Any) -> bool:
    """a b + c, a b (without `addend`) or a + c (without `product`) of each lane, as elements from number `first` on, into `ids`.

    Sources are vector registers by `slots`, or -1 for residues `scalars` [sources, 2, waves]; `signs` are -1 where one is negated. False,
    and nothing has changed but elements from `first` on, for a logarithm and for a lane without an element that is not 0.
    """
    element = first
    q, p = np.zeros(3, np.uint64), np.zeros(3, np.uint64)
    for place in range(len(waves)):
        wave = waves[place]
        for lane in range(ids.shape[1]):
            flag = np.uint8(_BOTH)
            for source in range(len(slots)):
                slot = slots[source]
                if slot < 0:
                    flags = scalars_have[source, place]
                    q[source], p[source] = scalars[source, 0, place], scalars[source, 1, place]
                else:
                    handle = handles[slot, wave, lane]
                    if handle & _ROW:
                        handle = rows[handle ^ _ROW, _TOP]
                    if handle == 0:
                        if words[slot, wave, lane] << np.uint32(1):
                            return False
                        flags = np.uint8(_BOTH)
                        q[source], p[source] = np.uint64(0), np.uint64(0)
                    else:
                        flags = has[handle]
                        if encoding[handle] != wanted:
                            flags = np.uint8(0)
                        q[source], p[source] = np.uint64(residues[0, handle]), np.uint64(residues[1, handle])
                if flags & _HAS_E:
                    return False
                if signs[source] < 0:
                    q[source], p[source] = (_Q - q[source]) % _Q, (_P - p[source]) % _P
                flag &= flags
            last = len(slots) - 1
            found_q, found_p = q[0], p[0]
            if product:
                found_q, found_p = found_q * q[1] % _Q, found_p * p[1] % _P
            if addend:
                found_q, found_p = (found_q + q[last]) % _Q, (found_p + p[last]) % _P
            residues[0, element] = found_q if flag & _HAS_Q else np.uint64(0)
            residues[1, element] = found_p if flag & _HAS_P else np.uint64(0)
            residues[2, element] = 0
            has[element] = flag
            ids[place, lane] = element if flag else _UNKNOWN
            element += 1
    return True
