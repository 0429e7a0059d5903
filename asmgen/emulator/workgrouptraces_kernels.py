"""`workgrouptraces.trace`, compiled; that is its test. Only `workgroupraces` loads this file: it needs numba."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from asmgen.emulator.memory import PAGE
from asmgen.emulator.workgrouptraces import MOST_HITS, NUMBERS, SEVERAL, SILENT, TAG_SHIFT, Known, Numbers, Touch, Words

_NOTHING = np.zeros((1, 1, 1), np.uint8)


def trace(writers: Words, readers: Words, u8: NDArray[np.uint8], touch: Touch, known: Known) -> Numbers:
    """What workgrouptraces.trace does, but for conflicts beyond MOST_HITS, which wait for the next access."""
    hits = np.zeros((MOST_HITS, 4), np.int64)
    data = _NOTHING if touch.data is None else touch.data
    count = _trace(writers, readers, u8, touch.addresses, touch.counts, touch.size, touch.start, touch.shift, touch.tags, touch.homes,
                   touch.acquired, touch.number, touch.data is not None, data, known.homes, known.released, known.told, hits)
    return hits[:count]


@njit(cache=True)
def _hit(hits: Any, count: int, told: Any, number: int, address: int, row: int, word: Any, written: int) -> int:
    other = word % NUMBERS
    if count == len(hits) or told[number, other]:
        return count
    told[number, other] = True
    told[other, number] = True
    hits[count, 0], hits[count, 1], hits[count, 2], hits[count, 3] = address, row, word, written
    return count + 1


@njit(cache=True)
def _trace(writers: Any, readers: Any, u8: Any, addresses: Any, counts: Any, size: int, start: int, shift: int, tags: Any, homes: Any,
           acquired: Any, number: int, write: bool, data: Any, tag_homes: Any, released: Any, told: Any, hits: Any) -> int:
    count = 0
    for row in range(addresses.shape[0]):
        home, since = homes[row], acquired[row]
        mine = tags[row] << TAG_SHIFT | number
        for lane in range(addresses.shape[1]):
            for element in range(counts[row, lane]):
                at = addresses[row, lane] + element * size
                same = True
                if write:
                    for byte in range(size):
                        value = data[row, lane, element * size + byte]
                        if u8[at - PAGE + byte] != value:
                            same = False
                            u8[at - PAGE + byte] = value
                first = (at - start) >> shift
                for cell in range(first, first + (size >> shift)):
                    word = np.int64(writers[cell])
                    tag = word >> TAG_SHIFT
                    several = tag == SEVERAL
                    other = not several and tag > 0 and tag_homes[tag] != home
                    unordered = other and released[tag] > since
                    read = np.int64(readers[cell])
                    tag = read >> TAG_SHIFT
                    many = tag == SEVERAL
                    foreign = not many and tag > 0 and tag_homes[tag] != home and released[tag] > since
                    if not write:
                        if unordered and not word & SILENT:
                            count = _hit(hits, count, told, number, at, row, word, 1)
                        if foreign:
                            readers[cell] = SEVERAL << TAG_SHIFT | read % NUMBERS
                        elif not many:
                            readers[cell] = mine
                        continue
                    if several and since < 0:
                        unordered = True
                    if same and unordered:
                        writers[cell] = SEVERAL << TAG_SHIFT | word % NUMBERS
                    elif same and not several and (word == 0 or other or word & SILENT):
                        writers[cell] = mine | SILENT
                    else:
                        writers[cell] = mine
                    if not same and unordered:
                        count = _hit(hits, count, told, number, at, row, word, 1)
                    if not same and (foreign or many and since < 0):
                        count = _hit(hits, count, told, number, at, row, read, 0)
    return count
