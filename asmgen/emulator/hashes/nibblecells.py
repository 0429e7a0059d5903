"""Handles of words in which each nibble knows which nibble of which element it is: a value that lost bits is another value.

A nibble's code is 16 times its element plus its number in the element, from the lowest bits up. A word that is one whole 32-bit element has
the element as its handle; any other one is a row of codes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.carried.cells import NIBBLES, UNKNOWN, Handles, WordCells

NIBBLE_CODES = 16
"""Nibbles that an element may have."""
_ROW = np.uint32(1 << 31)
_NUMBER = np.arange(NIBBLES, dtype=np.uint32)


class NibbleCells(WordCells):
    """The table of words that are no single element."""

    def expanded(self, handles: Handles) -> Handles:
        """The codes of words, [..., 8] by nibble."""
        many = (handles & _ROW) != 0
        whole = np.where(many, np.uint32(0), handles)[..., None]
        slots: Handles = np.where(whole != 0, whole * np.uint32(NIBBLE_CODES) + _NUMBER, np.uint32(0))
        if many.any():
            slots[many] = self.rows[handles[many] ^ _ROW]
        return slots

    def joined(self, slots: Handles) -> Handles:
        """The handles of words with these codes [..., 8]."""
        first = slots[..., :1]
        whole = (first != 0) & (first % np.uint32(NIBBLE_CODES) == 0) & (slots == first + _NUMBER).all(axis=-1, keepdims=True)
        handles: Handles = np.where(whole, first // np.uint32(NIBBLE_CODES), np.uint32(0))[..., 0]
        many = slots.any(axis=-1) & ~whole[..., 0]
        handles[many] = self.kept_rows(slots[many])
        return handles

    def compacted(self, roots: list[Handles], elements: int) -> NDArray[np.bool_]:
        """As of WordCells."""
        rows = self.used_rows(roots)
        alive = np.zeros(elements, bool)
        alive[[0, UNKNOWN]] = True
        alive[rows // np.uint32(NIBBLE_CODES)] = True
        for root in roots:
            alive[root[(root & _ROW) == 0]] = True
        numbers = np.cumsum(alive, dtype=np.uint32) - np.uint32(1)
        rows[...] = numbers[rows // np.uint32(NIBBLE_CODES)] * np.uint32(NIBBLE_CODES) + rows % np.uint32(NIBBLE_CODES)
        for root in roots:
            whole = (root & _ROW) == 0
            root[whole] = numbers[root[whole]]
        return alive


def codes(ids: Handles, nibbles: int) -> Handles:
    """The codes of whole elements, [..., nibbles]."""
    return np.where(ids[..., None] != 0, ids[..., None] * np.uint32(NIBBLE_CODES) + np.arange(nibbles, dtype=np.uint32), np.uint32(0))
