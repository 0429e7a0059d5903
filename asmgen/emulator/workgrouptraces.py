"""What the detector of races between workgroups keeps of device memory, and what an access does to it.

A cell is 4 bytes, or less where the program's accesses are narrower. A word of a cell names one access: 19 bits of the workgroup's tag,
one that says that the write left memory as it was, 12 of the instruction's number. A workgroup gets a new tag when it touches memory
after it has released (an atomic, a store with scope bits, a write-back), so that a tag says when its accesses were released, if ever.
`workgrouptraces_kernels` is `trace`, compiled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.memory import PAGE

TAG_SHIFT, SILENT, NUMBERS = 13, 1 << 12, 1 << 12
SEVERAL = (1 << 19) - 1
"""The tag of cells that several workgroups read, or wrote with one value."""
NEVER = np.int64(1) << 62
MOST_HITS = 16
Numbers = NDArray[np.int64]
Words = NDArray[np.uint32]


@dataclass(frozen=True)
class Known:
    """What accesses are compared with: the workgroup of each tag and when its accesses were released, and the pairs told already."""

    homes: Numbers
    released: Numbers
    told: NDArray[np.bool_]


@dataclass(frozen=True)
class Touch:
    """One execution: `addresses` and `counts` [waves, 64] of elements of `size` bytes from `start` on in cells of 1 << `shift` bytes;
    the tag, workgroup and last acquisition of each wave's workgroup; for a write what it writes [waves, 64, bytes]."""

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


def trace(writers: Words, readers: Words, u8: NDArray[np.uint8], touch: Touch, known: Known) -> Numbers:
    """Note an access; returns rows (byte address, index of the wave, other access's word, whether that was a write) of conflicts.

    A write is put into memory here already, which the instruction repeats: so of two workgroups that store in one step the second
    finds what the first has stored.
    """
    hits: list[tuple[int, int, int, int]] = []
    _, first = np.unique(touch.homes, return_index=True)
    for row in np.sort(first).tolist():
        rows = touch.homes == touch.homes[row]
        for element in range(int(touch.counts[rows].max(initial=0))):
            active = touch.counts[rows] > element
            at = touch.addresses[rows][active] + element * touch.size
            same = np.ones(len(at), bool)
            if touch.data is not None:
                places = (at - PAGE)[:, None] + np.arange(touch.size)
                data = touch.data[rows][active][:, element * touch.size:(element + 1) * touch.size]
                same = (u8[places] == data).all(axis=1)
                u8[places] = data
            for step in range(touch.size >> touch.shift):
                cells = (at - touch.start >> touch.shift) + step
                faults = _read(writers, readers, cells, row, touch, known) if touch.data is None else \
                    _write(writers, readers, cells, same, row, touch, known)
                for fault, words, written in faults:
                    for index in np.flatnonzero(fault).tolist():
                        other = int(words[index]) % NUMBERS
                        if not known.told[touch.number, other]:
                            known.told[touch.number, other] = known.told[other, touch.number] = True
                            hits.append((int(at[index]), row, int(words[index]), written))
    return np.array(hits, np.int64).reshape(-1, 4)


def _foreign(words: Any, row: int, touch: Touch, known: Known) -> tuple[Any, Any, Any]:
    """Of other accesses: whether there are several, whether another workgroup's, and whether nothing orders that one before this."""
    tags = words >> TAG_SHIFT
    several = tags == SEVERAL
    one = np.where(several, 0, tags)
    other = ~several & (tags > 0) & (known.homes[one] != touch.homes[row])
    return several, other, other & (known.released[one] > touch.acquired[row])


def _read(writers: Words, readers: Words, cells: Numbers, row: int, touch: Touch, known: Known) -> list[tuple[Any, Any, int]]:
    written: Any = writers[cells].astype(np.int64)
    _, _, unordered = _foreign(written, row, touch, known)
    read: Any = readers[cells].astype(np.int64)
    several, _, foreign = _foreign(read, row, touch, known)
    mine = int(touch.tags[row]) << TAG_SHIFT | touch.number
    readers[cells] = np.where(several, read, np.where(foreign, SEVERAL << TAG_SHIFT | read % NUMBERS, mine))
    return [(unordered & (written & SILENT == 0), written, 1)]


def _write(writers: Words, readers: Words, cells: Numbers, same: NDArray[np.bool_], row: int, touch: Touch,
           known: Known) -> list[tuple[Any, Any, int]]:
    written: Any = writers[cells].astype(np.int64)
    several, other, unordered = _foreign(written, row, touch, known)
    unordered = unordered | several & (touch.acquired[row] < 0)
    mine = int(touch.tags[row]) << TAG_SHIFT | touch.number
    silent = same & ((written == 0) | other | (written & SILENT != 0)) & ~several
    word = np.where(unordered & same, SEVERAL << TAG_SHIFT | written % NUMBERS, mine | np.where(silent, SILENT, 0))
    for chosen in (same, ~same):  # where lanes meet, what changed memory stays
        writers[cells[chosen]] = word[chosen]
    read: Any = readers[cells].astype(np.int64)
    several, _, foreign = _foreign(read, row, touch, known)
    return [(unordered & ~same, written, 1), ((foreign | several & (touch.acquired[row] < 0)) & ~same, read, 0)]
