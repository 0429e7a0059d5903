"""`workgrouptraces.trace`, compiled; that is its test. Only `workgroupraces` loads this file: it needs numba."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from asmgen.emulator.arrival.workgrouptraces import (
    AGREED,
    DISPUTED,
    DISPUTED_READ,
    MOST_DISPUTES,
    MOST_HITS,
    NUMBERS,
    OLD_READ,
    SEVERAL,
    SILENT,
    STORED,
    TAG_SHIFT,
    WRITTEN,
    Known,
    MemoryTouch,
    Numbers,
    Words,
)
from asmgen.emulator.machine.devicememory import PAGE

_NOTHING = np.zeros((1, 1, 1), np.uint8)


def trace(writers: Words, readers: Words, u8: NDArray[np.uint8], touch: MemoryTouch, known: Known) -> Numbers:
    """What workgrouptraces.trace does, but for what it meets beyond MOST_HITS: cells disputed there are not followed any more."""
    hits = np.empty((MOST_HITS, 6), np.int64)
    data = _NOTHING if touch.data is None else touch.data
    before = data if touch.data is None else np.empty_like(data)
    count = _trace(writers, readers, u8, touch.addresses, touch.counts, touch.size, touch.start, touch.shift, touch.tags, touch.homes,
                   touch.acquired, touch.number, touch.data is not None, data, before, known.homes, known.released, known.told,
                   known.disputes, hits)
    return hits[:count]


@njit(cache=True)
def _hit(hits: Any, count: int, told: Any, number: int, address: int, row: int, word: Any, kind: int) -> int:
    other = word % NUMBERS
    if count == len(hits) or told[number, other]:
        return count
    told[number, other] = True
    told[other, number] = True
    return _note(hits, count, address, row, word, kind, 0, 0)


@njit(cache=True)
def _note(hits: Any, count: int, address: int, row: int, word: Any, kind: int, old: Any, new: Any) -> int:
    if count == len(hits):
        return count
    hits[count, 0], hits[count, 1], hits[count, 2], hits[count, 3], hits[count, 4], hits[count, 5] = address, row, word, kind, old, new
    return count + 1


@njit(cache=True)
def _store(u8: Any, addresses: Any, counts: Any, size: int, data: Any, before: Any, row: int, end: int) -> None:
    """Put what the waves row to end - 1 write into memory, and into `before` what stood there."""
    for wave in range(row, end):
        for lane in range(addresses.shape[1]):
            at = addresses[wave, lane] - PAGE
            for byte in range(counts[wave, lane] * size):
                before[wave, lane, byte] = u8[at + byte]
    for wave in range(row, end):
        for lane in range(addresses.shape[1]):
            at = addresses[wave, lane] - PAGE
            for byte in range(counts[wave, lane] * size):
                u8[at + byte] = data[wave, lane, byte]


@njit(cache=True)
def _trace(writers: Any, readers: Any, u8: Any, addresses: Any, counts: Any, size: int, start: int, shift: int, tags: Any, homes: Any,
           acquired: Any, number: int, write: bool, data: Any, before: Any, tag_homes: Any, released: Any, told: Any, disputes: Any,
           hits: Any) -> int:
    count = stored = 0
    for row in range(addresses.shape[0]):
        home, since = homes[row], acquired[row]
        mine = tags[row] << TAG_SHIFT | number
        if write and row == stored:
            while stored < len(homes) and homes[stored] == home:
                stored += 1
            _store(u8, addresses, counts, size, data, before, row, stored)
        for lane in range(addresses.shape[1]):
            for part in range(counts[row, lane] * (size >> shift)):
                at = addresses[row, lane] + (part << shift)
                cell = (at - start) >> shift
                word = np.int64(writers[cell])
                tag = word >> TAG_SHIFT
                disputed = tag == DISPUTED
                other = tag < DISPUTED and tag > 0 and tag_homes[tag] != home
                unordered = other and released[tag] > since
                read = np.int64(readers[cell])
                tag = read >> TAG_SHIFT
                many = tag == SEVERAL
                foreign = not many and tag > 0 and tag_homes[tag] != home and released[tag] > since
                if not write:
                    if disputed:
                        count = _note(hits, count, at, row, word, DISPUTED_READ, 0, 0)
                    elif unordered and not word & (SILENT | AGREED):
                        count = _hit(hits, count, told, number, at, row, word, WRITTEN)
                    if foreign:
                        readers[cell] = SEVERAL << TAG_SHIFT | read % NUMBERS
                    elif not many:
                        readers[cell] = mine
                    continue
                agreed = word & AGREED and not other and since < 0
                old = new = np.int64(0)
                for byte in range(1 << shift):
                    old |= np.int64(before[row, lane, (part << shift) + byte]) << 8 * byte
                    new |= np.int64(u8[at - PAGE + byte]) << 8 * byte
                same = old == new
                if disputed or (unordered or agreed) and not same and disputes[number, word % NUMBERS] < MOST_DISPUTES:
                    known = count
                    count = _note(hits, count, at, row, word, STORED, old, new)
                    writers[cell] = DISPUTED << TAG_SHIFT | number if count > known else mine
                elif same and unordered:
                    writers[cell] = word | AGREED
                elif same and agreed:
                    pass
                elif same and (word == 0 or other or word & SILENT):
                    writers[cell] = mine | SILENT
                else:
                    writers[cell] = mine
                if not same and (foreign or many and since < 0):
                    count = _hit(hits, count, told, number, at, row, read, OLD_READ)
    return count
