"""`workgrouptraces.trace`, compiled; that is its test. Only `workgroupraces` loads this file: it needs numba."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from asmgen.emulator.machine.devicememory import PAGE
from asmgen.emulator.machine.jit import njit, prefetch
from asmgen.emulator.races.workgrouptraces import (
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

_AHEAD = 16
"""Lanes by which the caches are asked for cells before they are needed."""
_TOGETHER = 4
"""Words that are looked at together."""
_UNITS = (np.dtype(np.uint8), np.dtype(np.uint16), np.dtype(np.uint32))
"""Numbers that fill a cell, by its shift."""


def trace(writers: Words, readers: Words, u8: NDArray[np.uint8], touch: MemoryTouch, known: Known) -> Numbers:
    """What workgrouptraces.trace does, but for what it meets beyond MOST_HITS: cells disputed there are not followed any more."""
    hits = np.empty((MOST_HITS, 6), np.int64)
    unit = _UNITS[touch.shift]
    data: NDArray[Any] = np.zeros((1, 1, 1), unit)
    if touch.data is not None:
        data = np.ascontiguousarray(touch.data).view(unit)
    before = np.empty_like(data)
    count = _trace(writers, readers, u8.view(unit), touch.addresses, touch.counts, touch.size, touch.start, touch.shift, touch.tags,
                   touch.homes, touch.acquired, touch.number, touch.data is not None, data, before, known.homes, known.released,
                   known.told, known.disputes, hits, touch.written)
    return hits[:count]


@njit(cache=True)
def _hit(hits: Any, count: int, told: Any, number: int, address: int, row: int, word: Any, kind: int) -> int:
    other = word % NUMBERS
    seen = told[number, other]
    if count == len(hits) and seen == 0:
        return count
    told[number, other] = seen + 1
    told[other, number] = seen + 1
    if seen > 0:
        return count
    return int(_note(hits, count, address, row, word, kind, 0, 0))


@njit(cache=True)
def _note(hits: Any, count: int, address: int, row: int, word: Any, kind: int, old: Any, new: Any) -> int:
    if count == len(hits):
        return count
    hits[count, 0], hits[count, 1], hits[count, 2], hits[count, 3], hits[count, 4], hits[count, 5] = address, row, word, kind, old, new
    return count + 1


@njit(cache=True)
def _store(memory: Any, addresses: Any, counts: Any, times: int, shift: int, data: Any, before: Any, row: int, end: int) -> None:
    """Put what the waves row to end - 1 write into memory, and into `before` what stood there; `times` cells an element."""
    for wave in range(row, end):
        for lane in range(addresses.shape[1]):
            at = addresses[wave, lane] - PAGE >> shift
            if lane + _AHEAD < addresses.shape[1]:
                prefetch(np.int64(memory.ctypes.data) + addresses[wave, lane + _AHEAD] - PAGE)
            for part in range(counts[wave, lane] * times):
                before[wave, lane, part] = memory[at + part]
    for wave in range(row, end):
        for lane in range(addresses.shape[1]):
            at = addresses[wave, lane] - PAGE >> shift
            for part in range(counts[wave, lane] * times):
                memory[at + part] = data[wave, lane, part]


@intrinsic
def _summary(typing_context: Any, words: Any, count: Any) -> Any:
    """(what all of `count` 32-bit words at an address have, what any of them has); LLVM code, as numba walks short rows slowly."""
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        start, count = arguments
        wide, word = ir.VectorType(ir.IntType(32), _TOGETHER), ir.IntType(32)
        ones, zeros = ir.Constant(wide, [0xFFFFFFFF] * _TOGETHER), ir.Constant(wide, [0] * _TOGETHER)
        both, either = (cgutils.alloca_once_value(builder, value) for value in (ones, zeros))
        every, some = cgutils.alloca_once_value(builder, word(0xFFFFFFFF)), cgutils.alloca_once_value(builder, word(0))
        whole = builder.and_(count, ir.IntType(64)(-_TOGETHER))
        for first, end, step, kind, locations in ((ir.IntType(64)(0), whole, _TOGETHER, wide, (both, either)),
                                               (whole, count, 1, word, (every, some))):
            with cgutils.for_range_slice(builder, first, end, ir.IntType(64)(step)) as (index, _):
                at = builder.add(start, builder.shl(index, ir.IntType(64)(2)))
                value = builder.load(builder.inttoptr(at, kind.as_pointer()), align=4)
                builder.store(builder.and_(builder.load(locations[0]), value), locations[0])
                builder.store(builder.or_(builder.load(locations[1]), value), locations[1])
        for location, total, join in ((both, every, builder.and_), (either, some, builder.or_)):
            value = builder.load(location)
            for lane in range(_TOGETHER):
                builder.store(join(builder.load(total), builder.extract_element(value, word(lane))), total)
        return context.make_tuple(builder, signature.return_type, [builder.load(every), builder.load(some)])

    return types.UniTuple(types.uint32, 2)(types.int64, types.int64), generate


summary: Any = _summary  # compiled code calls it without the typing context


@njit(cache=True)
def _alike(readers: int, writers: int, cells: int, own: int, written: bool) -> Any:
    """What all of `cells` cells say of who has read them, where that is one thing and nobody but tag `own` has written them; else -1.
    The first cells are given as addresses."""
    if written:
        common, some = summary(writers, cells)
        if some != 0 and (common != some or some >> np.uint32(TAG_SHIFT) != np.uint32(own)):
            return -1
    common, some = summary(readers, cells)
    if common >> np.uint32(TAG_SHIFT) == np.uint32(SEVERAL):  # all bits of a tag
        return np.int64(common)
    return np.int64(common) if common == some else -1


@njit(cache=True)
def _fresh(writers: Any, readers: Any, first: int, cells: int) -> bool:
    """Whether nobody has touched any of `cells` cells."""
    touched = np.uint32(0)
    for cell in range(first, first + cells):
        touched |= writers[cell] | readers[cell]
    return bool(touched == 0)


@njit(cache=True)
def _trace(writers: Any, readers: Any, memory: Any, addresses: Any, counts: Any, size: int, start: int, shift: int, tags: Any, homes: Any,
           acquired: Any, number: int, write: bool, data: Any, before: Any, tag_homes: Any, released: Any, told: Any, disputes: Any,
           hits: Any, written: bool) -> int:
    count = stored = 0
    times, lanes, whole, flat = size >> shift, addresses.shape[1], before.shape[2], before.reshape(-1)
    for row in range(addresses.shape[0]):
        home, since = homes[row], acquired[row]
        own = tags[row]
        mine = own << TAG_SHIFT | number
        if write and row == stored:
            while stored < len(homes) and homes[stored] == home:
                stored += 1
            _store(memory, addresses, counts, times, shift, data, before, row, stored)
        for lane in range(lanes):  # the caches take a while: ask for the next wave's cells
            if row + 1 < len(homes) and counts[row + 1, lane] > 0:
                ahead = (addresses[row + 1, lane] - start >> shift) * 4
                prefetch(np.int64(readers.ctypes.data) + ahead)
                if written:
                    prefetch(np.int64(writers.ctypes.data) + ahead)
        alone = apart = 0  # lanes before these have been dealt with, or must be looked at one by one
        for lane in range(lanes):
            if lane < alone:
                continue
            parts = counts[row, lane] * times
            first = (addresses[row, lane] - start) >> shift
            if lane >= apart:
                following, cells = lane + 1, parts  # lanes that follow each other in memory are looked at together
                while following < lanes and parts > 0 and addresses[row, following] - start == (first + cells) << shift \
                        and (not write or counts[row, following - 1] * times == whole):
                    cells += counts[row, following] * times
                    following += 1
                if not write:
                    begin = np.int64(first) * 4
                    read = _alike(np.int64(readers.ctypes.data) + begin, np.int64(writers.ctypes.data) + begin, cells, own, written)
                    if read >= 0:
                        tag = read >> TAG_SHIFT
                        if tag != SEVERAL:
                            foreign = tag > 0 and tag_homes[tag] != home and released[tag] > since
                            readers[first:first + cells] = np.uint32(SEVERAL << TAG_SHIFT | read % NUMBERS if foreign else mine)
                        alone = following
                        continue
                elif cells > 0 and _fresh(writers, readers, first, cells):
                    at, location = addresses[row, lane] - PAGE >> shift, (row * lanes + lane) * whole
                    for cell in range(cells):
                        same = flat[location + cell] == memory[at + cell]
                        writers[first + cell] = np.uint32(mine | SILENT) if same else np.uint32(mine)
                    alone = following
                    continue
                apart = following
            for part in range(parts):
                at = addresses[row, lane] + (part << shift)
                cell = first + part
                word = np.int64(writers[cell])
                tag = word >> TAG_SHIFT
                reader = np.int64(readers[cell]) >> TAG_SHIFT
                if write and (reader == 0 or reader == own) and (word == 0 or tag == own and word & AGREED == 0):
                    same = before[row, lane, part] == memory[at - PAGE >> shift]  # nobody else has been here
                    writers[cell] = mine | SILENT if same and (word == 0 or word & SILENT) else mine
                    continue
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
                old, new = np.int64(before[row, lane, part]), np.int64(memory[at - PAGE >> shift])
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
