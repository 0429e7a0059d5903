"""Handles and the nibbles of their words, compiled; the numpy code of `cells` is their test. Only their callers load this file."""

from __future__ import annotations

from typing import Any

import numpy as np

from asmgen.emulator.machine.jit import njit

_ROW = np.uint32(1 << 31)  # of carried.cells: a handle that is a row of the table of nibbles
_NIBBLES, _TOP = 8, 7


@njit(cache=True)
def expanded(handles: Any, rows: Any, slots: Any) -> None:
    """The elements of words [n] into `slots` [n, 8]."""
    for place in range(len(handles)):
        handle = handles[place]
        if handle & _ROW:
            slots[place] = rows[handle ^ _ROW]
        else:
            slots[place] = 0
            slots[place, _TOP] = handle


@njit(cache=True)
def element(handles: Any, rows: Any, nibble: int, found: Any) -> None:
    """The elements that end in a nibble of words [n]."""
    for place in range(len(handles)):
        handle = handles[place]
        if handle & _ROW:
            found[place] = rows[handle ^ _ROW, nibble]
        else:
            found[place] = handle if nibble == _TOP else np.uint32(0)


@njit(cache=True)
def joined(slots: Any, rows: Any, used: int, handles: Any) -> int:
    """The handles [n] of words with the elements `slots` [n, 8], new rows from number `used` on, and how many rows there are then."""
    for place in range(len(slots)):
        others = np.uint32(0)
        for nibble in range(_TOP):
            others |= slots[place, nibble]
        if others:
            for nibble in range(_NIBBLES):
                rows[used, nibble] = slots[place, nibble]
            handles[place] = np.uint32(used) | _ROW
            used += 1
        else:
            handles[place] = slots[place, _TOP]
    return used
