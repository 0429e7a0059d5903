"""Marking and numbering anew what handles name, compiled: tables of millions of elements are gone through. Only callers load this file."""

from __future__ import annotations

from typing import Any

import numpy as np

from asmgen.emulator.machine.jit import njit

_ROW = np.uint32(1 << 31)  # of carried.cells: a handle that is a row of the table of nibbles


@njit(cache=True)
def mark(words: Any, rows: bool, named: Any) -> None:
    """`named` where the handles [n] name an element, or with `rows` a row of the table."""
    for place in range(len(words)):
        handle = words[place]
        if (handle & _ROW != 0) == rows:
            named[handle & ~_ROW] = True


@njit(cache=True)
def renumber(words: Any, rows: bool, numbers: Any) -> None:
    """The handles [n] that are elements, or with `rows` rows of the table, by their new numbers, in place."""
    for place in range(len(words)):
        handle = words[place]
        if (handle & _ROW != 0) == rows:
            words[place] = numbers[handle & ~_ROW] | handle & _ROW


@njit(cache=True)
def numbered(named: Any, numbers: Any) -> int:
    """New numbers of those that stay, in order, and how many they are."""
    count = 0
    for place in range(len(named)):
        numbers[place] = count
        count += named[place]
    return count


@njit(cache=True)
def moved(table: Any, named: Any) -> None:
    """The rows [elements, n] that stay, one after the other, in place."""
    count = 0
    for place in range(len(named)):
        if named[place]:
            if count != place:
                table[count] = table[place]
            count += 1
