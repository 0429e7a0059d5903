"""`ldscells.touch`, `carry`, `repeating` and `same_places`, and `ldsvalues.changes`, compiled; those are their test. Only `ldsraces`
loads this file: it needs numba."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.arrival.ldscells import (
    AGAINST_CARRIED,
    AGAINST_READ,
    AGAINST_WRITE,
    CHANGED,
    EARLY,
    FLAGS,
    KINDS,
    NO_HITS,
    NOBODY,
    STALE,
    TICKET_SHIFT,
    UNCHANGED,
    UNWRITTEN,
    WAVE_SHIFT,
    Addresses,
    Cells,
    LdsAccess,
    Toucher,
)
from asmgen.emulator.machine.jit import njit


def touch_cells(cells: Cells, at: Addresses, access: LdsAccess, who: Toucher, carrying: bool, settled: NDArray[np.int32],
                done: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.int64]]:
    """What ldscells.touch does."""
    report = np.full((KINDS, 4), NOBODY, np.int64)
    unwritten = np.zeros(len(at), np.bool_)
    shift = cells.granule.bit_length() - 1
    hits = NO_HITS
    if access.write:
        hits = _write(cells.writes, cells.numbers, cells.readers, cells.carried, cells.tried, at, access.size, shift, who.waves,
                      who.numbers, who.tickets, who.intervals, access.queue, access.number, access.atomic, access.changed, carrying,
                      settled, done, report, unwritten)
    else:
        _read(cells.writes, cells.numbers, cells.tried if access.guess else cells.readers, at, access.size, shift, who.waves, who.numbers,
              who.intervals, access.number, access.atomic, access.guess, settled, done, report, unwritten)
    return report, unwritten, hits


def carry_cells(cells: Cells, at: Addresses, size: int, who: Toucher) -> None:
    """What ldscells.carry does."""
    _carry(cells.carried, at, size, cells.granule.bit_length() - 1, who.numbers, who.intervals)


def lanes_change(lds: Any, at: Addresses, words: Any, size: int, stride: int) -> NDArray[np.bool_]:
    """What ldsvalues.changes does."""
    changed = np.zeros(at.shape, np.bool_)
    _lanes_change(lds, lds[:len(lds) & -4].view(np.uint32), at, words, size, stride, changed)
    return changed


def repeats(who: Toucher, waves: int, settled: NDArray[np.int32], done: NDArray[np.int32]) -> int:
    """What ldscells.repeating does."""
    return int(_repeats(who.waves, who.tickets, who.intervals, waves, settled, done))


def locations_repeat(at: Addresses, count: int, size: int) -> bool:
    """What ldscells.same_places does."""
    return bool(_locations_repeat(at, count, size))


@njit(cache=True)
def _note(report: Any, kind: int, cell: int, row: int, number: Any, word: Any) -> None:
    if report[kind, 0] == -1:
        report[kind, 0], report[kind, 1], report[kind, 2], report[kind, 3] = cell, row, number, word


@njit(cache=True)
def _read(writes: Any, numbers: Any, readers: Any, at: Any, size: int, shift: int, waves: Any, own: Any, intervals: Any, number: int,
          atomic: Any, guess: bool, settled: Any, done: Any, report: Any, unwritten: Any) -> None:
    keep, put = np.uint32(0xFFFF0000), np.uint32(number)
    for row in range(at.shape[0]):
        wave, first = waves[row], waves[row] - own[row]
        tag = np.uint32((intervals[row] & 0xFFFF) << 16)
        bit = np.uint32(1 << own[row])
        fine = np.uint32(0)  # the write that the last lane found, and that has arrived: most lanes find the same one
        for lane in range(at.shape[1]):
            address = at[row, lane]
            if address < 0:
                continue
            for cell in range(address >> shift, ((address + size - 1) >> shift) + 1):
                word = writes[cell]
                if word == fine and word != 0:
                    pass
                elif word == 0:
                    unwritten[row] = True
                    _note(report, UNWRITTEN, cell, row, numbers[cell] >> np.uint32(16), word)
                else:
                    other, queue = first + (word >> np.uint32(WAVE_SHIFT) & np.uint32(15)), np.int64(word & np.uint32(3))
                    ticket = np.int64(word >> np.uint32(TICKET_SHIFT))
                    if other != wave and ticket > settled[queue, other]:
                        if not (guess and atomic[numbers[cell] >> np.uint32(16)]):
                            _note(report, AGAINST_WRITE if word & np.uint32(CHANGED) else UNCHANGED, cell, row,
                                  numbers[cell] >> np.uint32(16), word)
                    elif other == wave and queue == 0 and ticket > done[0, wave]:
                        _note(report, EARLY, cell, row, numbers[cell] >> np.uint32(16), word)
                    else:
                        fine = word
                seen = readers[cell]
                readers[cell] = (seen if seen & keep == tag else tag) | bit
                numbers[cell] = numbers[cell] & keep | put


@njit(cache=True)
def _write(writes: Any, numbers: Any, readers: Any, carried: Any, tried: Any, at: Any, size: int, shift: int, waves: Any, own: Any,
           tickets: Any, intervals: Any, queue: int, number: int, atomic: Any, changed: Any, carrying: bool, settled: Any, done: Any,
           report: Any, unwritten: Any) -> Any:
    hits, count = np.empty((16, 4), np.int64), 0
    effect = atomic[number]
    keep, low, put = np.uint32(0xFFFF0000), np.uint32(0xFFFF), np.uint32(number << 16)
    flagged, stale = np.uint32(FLAGS), np.uint32(STALE)
    for row in range(at.shape[0]):
        wave, first = waves[row], waves[row] - own[row]
        tag = np.uint32((intervals[row] & 0xFFFF) << 16)
        others = low & ~np.uint32(1 << own[row])
        mine = np.uint32(tickets[row] << TICKET_SHIFT | own[row] << WAVE_SHIFT | queue)
        fine, left = np.uint32(0), np.uint32(0)  # a write that is no race, and its flags where nothing has settled it
        for lane in range(at.shape[1]):
            address = at[row, lane]
            if address < 0:
                continue
            for cell in range(address >> shift, ((address + size - 1) >> shift) + 1):
                word = writes[cell]
                again = word & ~flagged == mine  # another lane of this wave was here just now
                differs = changed[row, lane]
                flags = np.uint32(0)
                if again:
                    flags = word & flagged
                elif word == fine and word != 0:
                    flags = left
                elif word == 0:
                    differs = True
                    if effect:
                        unwritten[row] = True
                        _note(report, UNWRITTEN, cell, row, numbers[cell] >> np.uint32(16), word)
                else:
                    other, its_queue = first + (word >> np.uint32(WAVE_SHIFT) & np.uint32(15)), np.int64(word & np.uint32(3))
                    ticket = np.int64(word >> np.uint32(TICKET_SHIFT))
                    on_its_way = its_queue == 0 and ticket > done[0, other]
                    differs = differs or on_its_way
                    if ticket > settled[its_queue, other]:
                        flags = word & flagged
                        if other != wave and not (effect and atomic[numbers[cell] >> np.uint32(16)]):
                            _note(report, AGAINST_WRITE, cell, row, numbers[cell] >> np.uint32(16), word)
                            if count == len(hits):
                                hits = np.concatenate((hits, np.empty((count, 4), np.int64)))
                            hits[count, 0], hits[count, 1] = cell, row
                            hits[count, 2], hits[count, 3] = numbers[cell] >> np.uint32(16), word
                            count += 1
                    if queue == 0 and its_queue != 0 and other == wave and ticket > done[its_queue, wave]:
                        _note(report, EARLY, cell, row, numbers[cell] >> np.uint32(16), word)
                    if other == wave and on_its_way:
                        if queue != 0:
                            _note(report, EARLY, cell, row, numbers[cell] >> np.uint32(16), word)
                    elif other == wave or ticket <= settled[its_queue, other]:
                        fine, left = word, flags
                seen, guessed = readers[cell], tried[cell]
                seen = seen & low if seen & keep == tag else np.uint32(0)
                guessed = guessed & low if guessed & keep == tag else np.uint32(0)
                late = np.uint32(0)
                if carrying:
                    late = carried[cell]
                    late = late & low if late & keep == tag else np.uint32(0)
                if seen | guessed | late:
                    met = seen & others != 0 or guessed & others != 0 and not effect
                    if differs or flags & stale and not again:
                        if met:
                            _note(report, AGAINST_READ, cell, row, numbers[cell] & low, 0)
                        if late & others != 0:
                            _note(report, AGAINST_CARRIED, cell, row, numbers[cell] & low, 0)
                    elif (met or late & others != 0) and not again:
                        _note(report, UNCHANGED, cell, row, numbers[cell] & low, word)
                    if differs:
                        flags |= stale
                if differs:
                    flags |= np.uint32(CHANGED)
                writes[cell] = mine | flags
                numbers[cell] = numbers[cell] & low | put
    return hits[:count]


@njit(cache=True)
def _carry(carried: Any, at: Any, size: int, shift: int, own: Any, intervals: Any) -> None:
    for row in range(at.shape[0]):
        tag = np.uint32((intervals[row] & 0xFFFF) << 16)
        bit = np.uint32(1 << own[row])
        for lane in range(at.shape[1]):
            address = at[row, lane]
            if address < 0:
                continue
            for cell in range(address >> shift, ((address + size - 1) >> shift) + 1):
                old = carried[cell]
                carried[cell] = (old if old & np.uint32(0xFFFF0000) == tag else tag) | bit


@njit(cache=True)
def _lanes_change(lds: Any, lds_u32: Any, at: Any, words: Any, size: int, stride: int, changed: Any) -> None:
    rows = at.shape[0]
    for wave in range(words.shape[1]):
        row, home = wave % rows, wave // rows * stride
        for lane in range(at.shape[1]):
            start = at[row, lane] + home
            if at[row, lane] < 0 or changed[row, lane]:
                continue
            if (start | size) & 3 == 0:
                for word in range(size >> 2):
                    if lds_u32[(start >> 2) + word] != words[word, wave, lane]:
                        changed[row, lane] = True
                        break
            else:
                for byte in range(size):
                    if lds[start + byte] != words[byte >> 2, wave, lane] >> np.uint32(8 * (byte & 3)) & np.uint32(255):
                        changed[row, lane] = True
                        break


@njit(cache=True)
def _repeats(own: Any, tickets: Any, intervals: Any, waves: int, settled: Any, done: Any) -> int:
    count = 0
    while count < len(own) and own[count] < waves:
        count += 1
    if count == 0 or len(own) % count != 0:
        return 0
    for row in range(count, len(own)):
        first = row % count
        if own[row] - row // count * waves != own[first] or tickets[row] != tickets[first] or intervals[row] != intervals[first]:
            return 0
    for queue in range(settled.shape[0]):
        for start in range(waves, len(own) // count * waves, waves):
            for wave in range(waves):
                if settled[queue, start + wave] != settled[queue, wave] or done[queue, start + wave] != done[queue, wave]:
                    return 0
    return count


@njit(cache=True)
def _locations_repeat(at: Any, count: int, size: int) -> bool:
    for row in range(count, at.shape[0]):
        first, base = row % count, row // count * size
        differs = np.int64(0)  # no way out of this loop: the host does several lanes at a time
        for lane in range(at.shape[1]):
            here, there = at[row, lane], at[first, lane]
            differs |= here - (there if there < 0 else there + base)
        if differs != 0:
            return False
    return True
