"""`ldscells.touch`, `carry`, `repeating` and `same_places`, compiled; those are their test. Only `ldsraces` loads this file: it needs
numba."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.arrival.ldscells import KINDS, NO_HITS, NOBODY, Addresses, Cells, LdsAccess, Toucher
from asmgen.emulator.scheduling.jit import njit


def touch_cells(cells: Cells, at: Addresses, access: LdsAccess, who: Toucher, carrying: bool, settled: NDArray[np.int32],
                done: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.int64]]:
    """What ldscells.touch does."""
    report = np.full((KINDS, 4), NOBODY, np.int64)
    unwritten = np.zeros(len(at), np.bool_)
    shift = cells.granule.bit_length() - 1
    hits = NO_HITS
    if access.write:
        hits = _write(cells.writes, cells.numbers, cells.readers, cells.carried, at, access.size, shift, who.waves, who.numbers,
                      who.tickets, who.intervals, access.queue, access.number, access.atomic, carrying, settled, done, report, unwritten)
    else:
        _read(cells.writes, cells.numbers, cells.readers, at, access.size, shift, who.waves, who.numbers, who.intervals, access.number,
              settled, done, report, unwritten)
    return report, unwritten, hits


def carry_cells(cells: Cells, at: Addresses, size: int, who: Toucher) -> None:
    """What ldscells.carry does."""
    _carry(cells.carried, at, size, cells.granule.bit_length() - 1, who.numbers, who.intervals)


def repeats(who: Toucher, waves: int, settled: NDArray[np.int32], done: NDArray[np.int32]) -> int:
    """What ldscells.repeating does."""
    return int(_repeats(who.waves, who.tickets, who.intervals, waves, settled, done))


def places_repeat(at: Addresses, count: int, size: int) -> bool:
    """What ldscells.same_places does."""
    return bool(_places_repeat(at, count, size))


@njit(cache=True)
def _note(report: Any, kind: int, cell: int, row: int, number: Any, word: Any) -> None:
    if report[kind, 0] == -1:
        report[kind, 0], report[kind, 1], report[kind, 2], report[kind, 3] = cell, row, number, word


@njit(cache=True)
def _read(writes: Any, numbers: Any, readers: Any, at: Any, size: int, shift: int, waves: Any, own: Any, intervals: Any, number: int,
          settled: Any, done: Any, report: Any, unwritten: Any) -> None:
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
                    _note(report, 4, cell, row, numbers[cell] >> np.uint32(16), word)
                else:
                    other, queue = first + (word >> np.uint32(2) & np.uint32(15)), np.int64(word & np.uint32(3))
                    ticket = np.int64(word >> np.uint32(6))
                    if other != wave and ticket > settled[queue, other]:
                        _note(report, 0, cell, row, numbers[cell] >> np.uint32(16), word)
                    elif other == wave and queue == 0 and ticket > done[0, wave]:
                        _note(report, 1, cell, row, numbers[cell] >> np.uint32(16), word)
                    else:
                        fine = word
                seen = readers[cell]
                readers[cell] = (seen if seen & keep == tag else tag) | bit
                numbers[cell] = numbers[cell] & keep | put


@njit(cache=True)
def _write(writes: Any, numbers: Any, readers: Any, carried: Any, at: Any, size: int, shift: int, waves: Any, own: Any, tickets: Any,
           intervals: Any, queue: int, number: int, atomic: Any, carrying: bool, settled: Any, done: Any, report: Any,
           unwritten: Any) -> Any:
    hits, count = np.empty((16, 4), np.int64), 0
    effect = atomic[number]
    keep, put = np.uint32(0xFFFF0000), np.uint32(number << 16)
    for row in range(at.shape[0]):
        wave, first = waves[row], waves[row] - own[row]
        tag = np.uint32((intervals[row] & 0xFFFF) << 16)
        others = np.uint32(0xFFFF) & ~np.uint32(1 << own[row])
        mine = np.uint32(tickets[row] << 6 | own[row] << 2 | queue)
        fine = np.uint32(0)
        for lane in range(at.shape[1]):
            address = at[row, lane]
            if address < 0:
                continue
            for cell in range(address >> shift, ((address + size - 1) >> shift) + 1):
                word = writes[cell]
                if word == fine and word != 0:
                    pass
                elif word == 0:
                    if effect:
                        unwritten[row] = True
                        _note(report, 4, cell, row, numbers[cell] >> np.uint32(16), word)
                else:
                    other, its_queue = first + (word >> np.uint32(2) & np.uint32(15)), np.int64(word & np.uint32(3))
                    ticket = np.int64(word >> np.uint32(6))
                    if other != wave:
                        if ticket > settled[its_queue, other] and not (effect and atomic[numbers[cell] >> np.uint32(16)]):
                            _note(report, 0, cell, row, numbers[cell] >> np.uint32(16), word)
                            if count == len(hits):
                                hits = np.concatenate((hits, np.empty((count, 4), np.int64)))
                            hits[count, 0], hits[count, 1] = cell, row
                            hits[count, 2], hits[count, 3] = numbers[cell] >> np.uint32(16), word
                            count += 1
                        elif ticket <= settled[its_queue, other]:
                            fine = word
                    elif its_queue == 0 and queue != 0 and ticket > done[0, wave]:
                        _note(report, 1, cell, row, numbers[cell] >> np.uint32(16), word)
                    else:
                        fine = word
                seen = readers[cell]
                if seen & others != 0 and seen & keep == tag:
                    _note(report, 2, cell, row, numbers[cell] & np.uint32(0xFFFF), word)
                if carrying:
                    late = carried[cell]
                    if late & others != 0 and late & keep == tag:
                        _note(report, 3, cell, row, numbers[cell] & np.uint32(0xFFFF), word)
                writes[cell] = mine
                numbers[cell] = numbers[cell] & np.uint32(0xFFFF) | put
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
def _places_repeat(at: Any, count: int, size: int) -> bool:
    for row in range(count, at.shape[0]):
        first, base = row % count, row // count * size
        differs = np.int64(0)  # no way out of this loop: the host does several lanes at a time
        for lane in range(at.shape[1]):
            here, there = at[row, lane], at[first, lane]
            differs |= here - (there if there < 0 else there + base)
        if differs != 0:
            return False
    return True
