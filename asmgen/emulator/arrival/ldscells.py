"""What the race detector knows of each cell of LDS, and what a touch does to it. `races_kernels` is the same, compiled.

A cell is 4 to 16 bytes, or less where the program's LDS accesses are narrower. Words of 32 bits keep it small: a launch has as many cells
as dwords of LDS, and all of them pass through the host's caches.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from asmgen.isa.records import dataclass

Addresses = NDArray[np.int64]
Words = NDArray[np.uint32]
NOBODY = -1
INACTIVE = -16
"""Address of a lane that does nothing: negative, and as aligned as any."""
# What `touch` reports, by row of its answer: the cell or NOBODY, the index of the wave within the group, the other access's number, and
# what `Cells.writes` held there before, 0 against reads.
AGAINST_WRITE, EARLY, AGAINST_READ, AGAINST_CARRIED, UNWRITTEN, UNCHANGED = range(6)
"""UNCHANGED: a read and a write that race, whatever the order with the same value."""
KINDS = 6
TICKET_SHIFT, STALE_SHIFT, CHANGED_SHIFT, WAVE_SHIFT = 8, 7, 6, 2
CHANGED, STALE = 1 << CHANGED_SHIFT, 1 << STALE_SHIFT
FLAGS = CHANGED | STALE
READERS = 0xFFFF  # waves of a workgroup fit in a bit mask of 16
INTERVALS = 1 << 16
NO_HITS = np.zeros((0, 4), np.int64)


@dataclass
class Cells:
    """`writes`: ticket << 8 | flags | wave of the workgroup << 2 | queue of the last write, 0 for none. `numbers`: number of the
    instruction that wrote last << 16 | that read last. `readers`: barrier interval << 16 | one bit for each wave of the workgroup that
    read in it; `tried` the same for guesses, `carried` for reads of earlier intervals that lived on into that one.

    The flags are about the writes of which the last one is the last, and which nothing has settled: CHANGED, that one of them gave the
    cell another value; STALE, that somebody had read it before.
    """

    granule: int
    writes: Words
    numbers: Words
    readers: Words
    carried: Words
    tried: Words

    @property
    def words(self) -> tuple[Words, ...]:
        """All that is kept of them."""
        return self.writes, self.numbers, self.readers, self.carried, self.tried

    @classmethod
    def make(cls, size: int, granule: int) -> Cells:
        """Cells of `granule` bytes for `size` bytes of LDS that nobody touched."""
        count = -(-size // granule) + 1
        return cls(granule, *(np.zeros(count, np.uint32) for _ in range(5)))

    def clear(self) -> None:
        """Nobody has touched them."""
        for words in (self.writes, self.readers, self.carried, self.tried):
            words.fill(0)

    def forget_readers(self) -> None:
        """Interval numbers begin anew."""
        for words in (self.readers, self.carried, self.tried):
            words.fill(0)

    def refined(self, granule: int) -> Cells:
        """The same in smaller cells."""
        times = self.granule // granule
        return Cells(granule, *(np.repeat(words, times) for words in self.words))

    def repeat(self, size: int, workgroups: int) -> None:
        """The first workgroup's `size` bytes are what each of `workgroups` did to its own."""
        count = size // self.granule
        for words in self.words:
            rows = words[:workgroups * count].reshape(workgroups, count)
            rows[1:] = rows[0]


@dataclass(frozen=True)
class Toucher:
    """The waves that touch LDS, an array entry each: index, number in the workgroup, ticket, barrier interval of the workgroup."""

    waves: NDArray[np.int64]
    numbers: NDArray[np.int64]
    tickets: NDArray[np.int32]
    intervals: NDArray[np.int64]

    def first(self, count: int) -> Toucher:
        """The first `count` waves."""
        return self if count == len(self.waves) else \
            Toucher(self.waves[:count], self.numbers[:count], self.tickets[:count], self.intervals[:count])


@dataclass(frozen=True)
class LdsAccess:
    """`size` bytes a lane; the queue; whether it writes; its number among the program's instructions that touch LDS, and whether each of
    them is an atomic. A `guess` is a read that races with no atomic. `changed` says for each lane of a write, [waves, lanes], whether it
    gives its bytes another value."""

    size: int
    queue: int
    write: bool
    number: int
    atomic: NDArray[np.bool_]
    guess: bool
    changed: NDArray[np.bool_]


def touch(cells: Cells, at: Addresses, access: LdsAccess, who: Toucher, carrying: bool, settled: NDArray[np.int32],
          done: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.int64]]:
    """Note that waves touch bytes at each of `at` [waves, lanes] (negative: an inactive lane), wave after wave.

    Returns [KINDS, 4], the first fault of each kind, which waves read unwritten bytes, and of a write all that it is AGAINST_WRITE:
    rows (cell, index of the wave, number of the other write, its word), each once. Without `carrying` no read lives on.
    """
    report = np.full((KINDS, 4), NOBODY, np.int64)
    hits = [NO_HITS]
    unwritten = np.zeros(len(at), bool)
    effect = bool(access.atomic[access.number])
    for row in range(len(at)):
        active = at[row] >= 0
        lanes = at[row][active]
        first = lanes // cells.granule
        count = (lanes + access.size - 1) // cells.granule - first + 1
        spread = np.arange(int(count.max(initial=0)))
        covered = spread < count[:, None]
        here = (first[:, None] + spread)[covered]
        wave, tag, bit = int(who.waves[row]), int(who.intervals[row]) % INTERVALS << 16, 1 << int(who.numbers[row])
        word: Any = cells.writes[here].astype(np.int64)
        numbers: Any = cells.numbers[here].astype(np.int64)
        readers, late, tried = (_of_interval(words, here, tag) for words in (cells.readers, cells.carried, cells.tried))
        other, queue, ticket = wave - who.numbers[row] + (word >> WAVE_SHIFT & 15), word & 3, word >> TICKET_SHIFT
        unsettled = (word != 0) & (ticket > settled[queue, other])
        race = unsettled & (other != wave)
        if effect or access.guess:
            race &= ~access.atomic[numbers >> 16]
        own = (word != 0) & (other == wave) & (ticket > done[queue, wave])
        early = own & (queue == 0)
        once = np.zeros(len(here), bool)
        once[np.unique(here, return_index=True)[1]] = True
        if access.write:
            hit = once & race
            hits.append(np.stack([here[hit], np.full(int(hit.sum()), row), numbers[hit] >> 16, word[hit]], axis=1))
            changed = np.broadcast_to(access.changed[row][active][:, None], covered.shape)[covered]
            unknown = (word == 0) | (queue == 0) & (ticket > done[0, other])  # nobody wrote it, or a DMA has not arrived
            differs = changed | unknown | unsettled & (word & STALE != 0)
            met = (readers | (0 if effect else tried)) & ~bit != 0
            late = late * carrying
            after = late & ~bit != 0
            faults = {AGAINST_WRITE: race, EARLY: own & ((access.queue == 0) != (queue == 0)),  # LDS-DMA delivers in order, LDS writes too
                      AGAINST_READ: met & differs, AGAINST_CARRIED: after & differs, UNCHANGED: once & (met | after) & ~differs}
            flags = np.where(unsettled, word & FLAGS, 0) | (changed | unknown) * (CHANGED | (readers | late | tried != 0) * STALE)
            cells.writes[here] = int(who.tickets[row]) << TICKET_SHIFT | int(who.numbers[row]) << WAVE_SHIFT | access.queue
            np.bitwise_or.at(cells.writes, here, flags.astype(np.uint32))
            cells.numbers[here] = numbers & 0xFFFF | access.number << 16
        else:
            faults = {AGAINST_WRITE: race & (word & CHANGED != 0), EARLY: early, UNCHANGED: race & (word & CHANGED == 0)}
            (cells.tried if access.guess else cells.readers)[here] = tag | (tried if access.guess else readers) | bit
            cells.numbers[here] = numbers & ~0xFFFF | access.number
        if not access.write or effect:
            faults[UNWRITTEN] = word == 0
            unwritten[row] = bool((word == 0).any())
        for kind, fault in faults.items():
            if report[kind, 0] == NOBODY and fault.any():
                found = int(np.argmax(fault))
                if kind in (AGAINST_READ, AGAINST_CARRIED):
                    report[kind] = here[found], row, numbers[found] & 0xFFFF, 0
                else:
                    reader = kind == UNCHANGED and access.write
                    report[kind] = here[found], row, numbers[found] & 0xFFFF if reader else numbers[found] >> 16, word[found]
    return report, unwritten, np.concatenate(hits)


def _of_interval(words: Words, here: NDArray[np.int64], tag: int) -> Any:
    """The bits of waves that `words` has for cells and the interval of `tag`."""
    found: Any = words[here].astype(np.int64)
    return np.where(found & ~READERS == tag, found & READERS, 0)


def repeating(who: Toucher, waves: int, settled: NDArray[np.int32], done: NDArray[np.int32]) -> int:
    """How many waves of the first workgroup touch LDS, where as many of the following ones do, with the same numbers, tickets and
    intervals, in workgroups of `waves` waves that have waited alike; else 0."""
    count = int(np.searchsorted(who.waves, waves))
    if count == 0 or len(who.waves) % count:
        return 0
    workgroups = len(who.waves) // count
    home = np.arange(workgroups)[:, None]
    if (who.waves.reshape(workgroups, count) - home * waves != who.waves[:count]).any():
        return 0
    alike: list[NDArray[Any]] = [numbers.reshape(workgroups, count) for numbers in (who.tickets, who.intervals)]
    alike += [counts[:, :workgroups * waves].reshape(-1, workgroups, waves).swapaxes(0, 1) for counts in (settled, done)]
    return count if all((rows == rows[0]).all() for rows in alike) else 0


def same_locations(at: Addresses, count: int, size: int) -> bool:
    """Whether the lanes of each further `count` waves are as inactive and go where those of the first do, in their own `size` bytes."""
    lanes = at.reshape(len(at) // count, -1)
    return bool((np.where(lanes >= 0, lanes - np.arange(len(lanes))[:, None] * size, INACTIVE) == lanes[0]).all())


def carry(cells: Cells, at: Addresses, size: int, who: Toucher) -> None:
    """Reads that live on into the interval of `who`."""
    for row in range(len(at)):
        lanes = at[row][at[row] >= 0]
        tag, bit = np.uint32(int(who.intervals[row]) % INTERVALS << 16), np.uint32(1 << int(who.numbers[row]))
        first, last = lanes // cells.granule, (lanes + size - 1) // cells.granule
        for step in range(int((last - first).max(initial=-1)) + 1):
            here = np.minimum(first + step, last)
            old = cells.carried[here]
            cells.carried[here] = np.where(old & np.uint32(0xFFFF0000) == tag, old, tag) | bit
