"""Handles: which elements stand in a 32-bit word.

An element is a number that a domain keeps a second value for, known by its index in the domain's tables; 0 is none. An element of 4 to 32
bits belongs to the nibble of a word in which its highest bit, the sign, lies: nibble 7 for a float32, 3 and 7 for two halves. So a value
that loses low bits (a float32 truncated to bf16) is the same element still, and who moves bytes moves elements.

A word's handle is 0 for no element, the element itself where there is only one and it ends at bit 31, else a row of the table of nibbles.
One word of handle stands beside each word of a register file or a memory, so that whatever moves words moves their handles.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.machine.compiled import loaded

Handles = NDArray[np.uint32]
Array = NDArray[Any]
NIBBLES = 8
TOP = NIBBLES - 1
UNKNOWN = 1
"""The element of which a domain knows nothing."""
_ROW = np.uint32(1 << 31)


class WordCells:
    """The table of words that hold other elements than one at their top."""

    def __init__(self) -> None:
        self.rows: Handles = np.zeros((1024, NIBBLES), np.uint32)
        self.used = 0

    def expanded(self, handles: Handles) -> Handles:
        """The elements of words, [..., 8] by nibble."""
        if loaded():
            from asmgen.emulator.carried import cell_kernels

            found: Handles = np.empty((*handles.shape, NIBBLES), np.uint32)
            cell_kernels.expanded(_row(handles), self.rows, found.reshape(-1, NIBBLES))
            return found
        slots: Handles = np.zeros((*handles.shape, NIBBLES), np.uint32)
        many = (handles & _ROW) != 0
        slots[..., TOP] = np.where(many, np.uint32(0), handles)
        if many.any():
            slots[many] = self.rows[handles[many] ^ _ROW]
        return slots

    def element(self, handles: Handles, nibble: int) -> Handles:
        """The element that ends in a nibble of each word."""
        found: Handles
        if loaded():
            from asmgen.emulator.carried import cell_kernels

            found = np.empty(handles.shape, np.uint32)
            cell_kernels.element(_row(handles), self.rows, nibble, found.reshape(-1))
            return found
        many = (handles & _ROW) != 0
        found = np.where(many, np.uint32(0), handles) if nibble == TOP else np.zeros(handles.shape, np.uint32)
        if many.any():
            found[many] = self.rows[handles[many] ^ _ROW, nibble]
        return found

    def joined(self, slots: Handles) -> Handles:
        """The handles of words with these elements [..., 8]."""
        if loaded():
            from asmgen.emulator.carried import cell_kernels

            found: Handles = np.empty(slots.shape[:-1], np.uint32)
            self._make_room(found.size)
            flat = np.ascontiguousarray(slots).reshape(-1, NIBBLES)
            self.used = cell_kernels.joined(flat, self.rows, self.used, found.reshape(-1))
            return found
        handles: Handles = slots[..., TOP].copy()
        many = (slots[..., :TOP] != 0).any(axis=-1)
        handles[many] = self.kept_rows(slots[many])
        return handles

    def kept_rows(self, rows: Handles) -> Handles:
        """The handles of new rows [n, 8] of the table."""
        count = len(rows)
        self._make_room(count)
        self.rows[self.used:self.used + count] = rows
        self.used += count
        return np.arange(self.used - count, self.used, dtype=np.uint32) | _ROW

    def _make_room(self, count: int) -> None:
        """For so many more rows."""
        while self.used + count > len(self.rows):
            self.rows = np.concatenate([self.rows, np.zeros_like(self.rows)])

    def used_rows(self, roots: list[Handles]) -> Handles:
        """Drop the rows that no array of handles names, and number them anew, in place. Returns those that stay."""
        from asmgen.emulator.carried import compaction_kernels

        kept, flat = np.zeros(self.used, bool), [_flat(root) for root in roots]
        for root in flat:
            compaction_kernels.mark(root, True, kept)
        positions = np.empty(self.used, np.uint32)
        count = compaction_kernels.numbered(kept, positions)
        compaction_kernels.moved(self.rows, kept)
        self.used = count
        for root in flat:
            compaction_kernels.renumber(root, True, positions)
        return self.rows[:count]

    def compacted(self, roots: list[Handles], elements: int) -> NDArray[np.bool_]:
        """Drop the rows that no array of handles names, and number rows and elements anew, in place. Returns which of the elements stay:
        they keep their order, and 0 and UNKNOWN their numbers."""
        from asmgen.emulator.carried import compaction_kernels

        rows = self.used_rows(roots)
        alive, named = np.zeros(elements, bool), [_flat(root) for root in (rows, *roots)]
        alive[[0, UNKNOWN]] = True
        for one in named:
            compaction_kernels.mark(one, False, alive)
        numbers = np.empty(elements, np.uint32)
        compaction_kernels.numbered(alive, numbers)
        for one in named:
            compaction_kernels.renumber(one, False, numbers)
        return alive


def _row(handles: Handles) -> Handles:
    """The same numbers as one row."""
    return np.ascontiguousarray(handles).reshape(-1)


def _flat(handles: Handles) -> Handles:
    """The same memory as one row."""
    found = handles.view()
    found.shape = (handles.size,)
    return found


def whole(handles: Handles) -> NDArray[np.bool_]:
    """Which handles are an element, or none, rather than a row."""
    return np.asarray((handles & _ROW) == 0)


def gathered(cells: WordCells, words: Handles, at: Array, size: int) -> Handles:
    """The handles of `size` bytes (1, 2, 4) from byte offsets `at` of a memory whose words have the handles `words`."""
    if size == 4 and not (at & 3).any():
        found: Handles = words[at >> 2]
        return found
    slots = np.zeros((*at.shape, NIBBLES), np.uint32)
    for byte in range(size):
        place = at + byte
        source = words[place >> 2]
        if source.any():
            row, low = cells.expanded(source), 2 * (place & 3)
            for half in (0, 1):
                slots[..., 2 * byte + half] = np.take_along_axis(row, (low + half)[..., None], -1)[..., 0]
    return cells.joined(slots)


def scattered(cells: WordCells, words: Handles, at: Array, values: Handles, size: int) -> None:
    """Put the low `size` bytes of handles [n] to byte offsets [n]; where they collide, the last one stays."""
    if size == 4 and not (at & 3).any():
        words[at >> 2] = values
        return
    if not values.any() and not words[at >> 2].any() and not words[(at + size - 1) >> 2].any():
        return
    slots = cells.expanded(values)
    places = at[:, None] + np.arange(size)
    touched, back = np.unique(places >> 2, return_inverse=True)
    rows, back = cells.expanded(words[touched]), back.ravel()  # lane after lane, so that later lanes overwrite earlier ones
    nibbles = 2 * (places & 3).ravel()
    for half in (0, 1):
        rows[back, nibbles + half] = slots[:, half:2 * size:2].ravel()
    words[touched] = cells.joined(rows)
