"""What the detector of races between workgroups keeps of device memory, and what an access does to it.

A cell is 4 bytes, or less where the program's accesses are narrower. A word of a cell names one access: 18 bits of the workgroup's
tag, one that says that other workgroups wrote the same later, one that says that the write left memory as it was, 12 of the
instruction's number. A workgroup gets a new tag when it touches memory after it has released (an atomic, a store with scope bits, a
write-back), so that a tag says when its accesses were released, if ever.
`workgrouptraces_kernels` is `trace`, compiled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.machine.devicememory import PAGE

TAG_SHIFT, AGREED, SILENT, NUMBERS = 14, 1 << 13, 1 << 12, 1 << 12
SEVERAL = (1 << 18) - 1
"""The tag of cells that several workgroups read."""
DISPUTED = SEVERAL - 1
"""The tag of cells in which workgroups stored different values (workgroupdisputes)."""
NEVER = np.int64(1) << 62
MOST_HITS = 2048
"""Of one access; of the stores to disputed cells beyond them the cells are not followed further."""
MOST_DISPUTES = 256
"""Cells at a time for one pair of instructions."""
OLD_READ, WRITTEN, STORED, DISPUTED_READ = range(4)
"""What an access met: reads of bytes that it changes, a write of what it reads, a store of other bytes, a read of a disputed cell."""
Numbers = NDArray[np.int64]
Words = NDArray[np.uint32]


@dataclass(frozen=True)
class Known:
    """What accesses are compared with: the workgroup of each tag and when its accesses were released; of pairs, how often they
    raced, of which the first time is told, and how many cells they dispute."""

    homes: Numbers
    released: Numbers
    told: NDArray[np.int32]
    disputes: NDArray[np.int32]

    def count(self, first: int, second: int) -> int:
        """How often the pair has raced, with this time."""
        times = int(self.told[first, second]) + 1
        self.told[first, second] = self.told[second, first] = times
        return times


@dataclass(frozen=True)
class MemoryTouch:
    """One execution: `addresses` and `counts` [waves, 64] of elements of `size` bytes from `start` on in cells of 1 << `shift` bytes;
    the tag, workgroup and last acquisition of each wave's workgroup; for a write what it writes [waves, 64, bytes].
    `written` False: nobody has written to these cells yet."""

    addresses: Numbers
    counts: Numbers
    size: int
    start: int
    shift: int
    tags: Numbers
    homes: Numbers
    acquired: Numbers
    number: int
    data: NDArray[np.uint8] | None
    written: bool = True


def trace(writers: Words, readers: Words, u8: NDArray[np.uint8], touch: MemoryTouch, known: Known) -> Numbers:
    """Note an access; returns rows (address, index of the wave, other access's word, what it met, value before, value now).

    A write is put into memory here already, which the instruction repeats: so of two workgroups that store in one step the second
    finds what the first has stored. What counts is what all lanes and waves of a workgroup together leave in a cell.
    """
    hits: list[tuple[int, int, int, int, int, int]] = []
    _, first = np.unique(touch.homes, return_index=True)
    for row in np.sort(first).tolist():
        rows = touch.homes == touch.homes[row]
        at, before, after = _elements(u8, touch, rows)
        for step in range(touch.size >> touch.shift):
            cells = (at - touch.start >> touch.shift) + step
            within = slice(step << touch.shift, step + 1 << touch.shift)
            old, new = _values(before[:, within]), _values(after[:, within])
            met = _read(writers, readers, cells, row, touch, known) if touch.data is None else \
                _write(writers, readers, cells, old == new, row, touch, known)
            for fault, words, kind in met:
                for index in np.flatnonzero(fault).tolist():
                    word = int(words[index])
                    if kind in (OLD_READ, WRITTEN) and known.count(touch.number, word % NUMBERS) > 1:
                        continue
                    hits.append((int(at[index]) + (step << touch.shift), row, word, kind, int(old[index]), int(new[index])))
    return np.array(hits, np.int64).reshape(-1, 6)


def _elements(u8: NDArray[np.uint8], touch: MemoryTouch, rows: NDArray[np.bool_]) -> tuple[Numbers, NDArray[np.uint8], NDArray[np.uint8]]:
    """(addresses, bytes before, bytes after) of one workgroup's elements, lane by lane; a write is made."""
    counts = touch.counts[rows]
    elements = np.arange(int(counts.max(initial=0)))
    valid = counts[..., None] > elements
    at = (touch.addresses[rows][..., None] + elements * touch.size)[valid]
    locations = (at - PAGE)[:, None] + np.arange(touch.size)
    before = u8[locations]
    if touch.data is not None:
        data = touch.data[rows][..., :len(elements) * touch.size]
        u8[locations] = data.reshape(*counts.shape, len(elements), touch.size)[valid]
    return at, before, u8[locations]


def _values(data: NDArray[np.uint8]) -> Numbers:
    """Rows of bytes as numbers."""
    return np.asarray(data.astype(np.int64) @ (1 << 8 * np.arange(data.shape[1])), np.int64)


def _foreign(words: Any, row: int, touch: MemoryTouch, known: Known) -> tuple[Any, Any, Any]:
    """Of other accesses: whether there are several, whether another workgroup's, and whether nothing orders that one before this."""
    tags = words >> TAG_SHIFT
    several = tags == SEVERAL
    one = np.where(tags >= DISPUTED, 0, tags)
    other = (one > 0) & (known.homes[one] != touch.homes[row])
    return several, other, other & (known.released[one] > touch.acquired[row])


def _read(writers: Words, readers: Words, cells: Numbers, row: int, touch: MemoryTouch, known: Known) -> list[tuple[Any, Any, int]]:
    written: Any = writers[cells].astype(np.int64)
    _, _, unordered = _foreign(written, row, touch, known)
    read: Any = readers[cells].astype(np.int64)
    several, _, foreign = _foreign(read, row, touch, known)
    mine = int(touch.tags[row]) << TAG_SHIFT | touch.number
    readers[cells] = np.where(several, read, np.where(foreign, SEVERAL << TAG_SHIFT | read % NUMBERS, mine))
    return [(unordered & (written & (SILENT | AGREED) == 0), written, WRITTEN), (written >> TAG_SHIFT == DISPUTED, written, DISPUTED_READ)]


def _write(writers: Words, readers: Words, cells: Numbers, same: NDArray[np.bool_], row: int, touch: MemoryTouch,
           known: Known) -> list[tuple[Any, Any, int]]:
    written: Any = writers[cells].astype(np.int64)
    _, other, unordered = _foreign(written, row, touch, known)
    agreed = (written & AGREED != 0) & ~other & (touch.acquired[row] < 0)  # with others, who left what this workgroup replaces
    disputed = written >> TAG_SHIFT == DISPUTED
    stored = disputed | (unordered | agreed) & ~same & (known.disputes[touch.number, written % NUMBERS] < MOST_DISPUTES)
    mine = int(touch.tags[row]) << TAG_SHIFT | touch.number
    silent = same & ((written == 0) | other | (written & SILENT != 0))
    writers[cells] = np.where(stored, DISPUTED << TAG_SHIFT | touch.number,
                              np.where(unordered & same, written | AGREED,
                                       np.where(agreed & same, written, mine | np.where(silent, SILENT, 0))))
    read: Any = readers[cells].astype(np.int64)
    several, _, foreign = _foreign(read, row, touch, known)
    return [(stored, written, STORED), ((foreign | several & (touch.acquired[row] < 0)) & ~same, read, OLD_READ)]
