"""Operands of matrix instructions that are decoded already."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Key = tuple[object, ...]
CACHE_BYTES = 1 << 27


class MatrixUnit:
    """Decoded operands by the contents of their registers: one is used again until a register of it changes.

    A copy of the registers stands beside each and is compared with them, which costs less than decoding and needs nobody's help: who
    writes registers need not know of it.
    """

    def __init__(self) -> None:
        self._entries: OrderedDict[Key, tuple[NDArray[np.int64], Array, Array]] = OrderedDict()
        self._bytes = 0

    def find(self, key: Key, slot: int, vector: Array, waves: NDArray[np.int64], same_words: Callable[..., bool]) -> Array | None:
        """The decoded rows of registers `slot` and up, None where they have changed since."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        known, words, rows = entry
        if (known is not waves and not np.array_equal(known, waves)) or not same_words(vector, waves, slot, words):
            return None
        self._entries.move_to_end(key)
        return rows

    def keep(self, key: Key, registers: Array, waves: NDArray[np.int64], rows: Array) -> None:
        """Remember the freshly decoded rows of `registers` [registers, waves, 64]; the least used go where there are too many."""
        old = self._entries.pop(key, None)
        words = registers.copy()
        self._bytes += words.nbytes + rows.nbytes - (old[1].nbytes + old[2].nbytes if old else 0)
        self._entries[key] = waves, words, rows
        while self._bytes > CACHE_BYTES and len(self._entries) > 1:
            _, (_, dropped, values) = self._entries.popitem(last=False)
            self._bytes -= dropped.nbytes + values.nbytes
