"""Bytes of device memory in which workgroups that nothing orders stored different values: what each of them leaves there in the end.

Only that counts: a workgroup may store twice to one place, and workgroups that all end with the same value there do not race. So a
disputed cell is kept with the last value of each workgroup until they agree, or until the launch ends. Doubt is for the kernel: of
workgroups that stored one value only the first is known, so that where it changes its mind a race with the others may be missed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.machine.devicememory import PAGE
from asmgen.emulator.races.workgrouptraces import AGREED, DISPUTED, NUMBERS, TAG_SHIFT, Known, Words

_OTHERS = -1


@dataclass(frozen=True)
class Left:
    """What a workgroup left in a cell: the tag and number of its last store there, the value, the wave.

    Home -1 stands for workgroups that are not known by name.
    """

    home: int
    tag: int
    number: int
    value: int
    wave: int


@dataclass
class _Dispute:
    address: int
    pair: tuple[int, int]
    left: dict[int, Left]  # by home, in the order of the last stores


@dataclass
class Disputes:
    """The disputed cells of a launch, by (start of the buffer, cell)."""

    found: dict[tuple[int, int], _Dispute] = field(default_factory=dict)

    def store(self, writers: Words, location: tuple[int, int],
              address: int, word: int, old: int, now: Left, since: int, known: Known) -> None:
        """A workgroup that acquired at `since` stored `now` where `word` and the value `old` were."""
        tag, dispute = word >> TAG_SHIFT, self.found.get(location)
        if tag != DISPUTED:
            home = int(known.homes[tag])
            home = _OTHERS if home == now.home else home  # who agreed with it
            pair = now.number, word % NUMBERS
            known.disputes[pair] += 1
            dispute = self.found[location] = _Dispute(address, pair, {home: Left(home, tag, word % NUMBERS, old, -1)})
        elif dispute is None:
            return
        elif now.home not in dispute.left:
            dispute.left.pop(_OTHERS, None)  # it may be one of them, which then left this value instead
        left = {home: other for home, other in dispute.left.items() if home != now.home and not _before(other, since, known)}
        dispute.left = {**left, now.home: now}
        if not left or all(other.value == now.value for other in left.values()):
            known.disputes[dispute.pair] -= 1
            del self.found[location]
            writers[location[1]] = now.tag << TAG_SHIFT | (AGREED if left else 0) | now.number

    def load(self, location: tuple[int, int], home: int, since: int, known: Known) -> Left | None:
        """Another workgroup's store that may come right before the load by `home`, and changes what it finds."""
        dispute = self.found.get(location)
        if dispute is None:
            return None
        mine = dispute.left.get(home)
        for other in dispute.left.values():
            differs = mine is None or mine.value != other.value
            if differs and other.home not in (home, _OTHERS) and not _before(other, since, known):
                return other
        return None

    def tags(self, location: tuple[int, int]) -> list[int]:
        """Of those who stored there."""
        return [left.tag for left in self.found[location].left.values() if left.home != _OTHERS] if location in self.found else []

    def refine(self, shift: int, finer: int) -> None:
        """Cells of 1 << shift bytes become cells of 1 << finer bytes."""
        times, mask = 1 << shift - finer, (1 << (8 << finer)) - 1
        self.found = {(start, cell * times + part):
                      _Dispute(dispute.address + (part << finer), dispute.pair,
                               {home: replace(left, value=left.value >> (8 * part << finer) & mask)
                                for home, left in dispute.left.items()})
                      for (start, cell), dispute in self.found.items() for part in range(times)}

    def open(self, cells: dict[int, tuple[Words, Words]], u8: NDArray[np.uint8], shift: int) -> Iterator[tuple[int, Left, Left]]:
        """(address, one store, a later one of another value by another workgroup) of each cell that is disputed at the end."""
        for (start, cell), dispute in self.found.items():
            *others, last = dispute.left.values()
            held = u8[dispute.address - PAGE:dispute.address - PAGE + (1 << shift)].tobytes()
            if int(cells[start][0][cell]) >> TAG_SHIFT != DISPUTED or int.from_bytes(held, "little") != last.value:
                continue  # a store was not followed
            yield from ((dispute.address, other, last) for other in others if other.value != last.value)


def _before(left: Left, since: int, known: Known) -> bool:
    """Whether a store is known to a workgroup that acquired at `since`."""
    return since >= 0 if left.home == _OTHERS else bool(known.released[left.tag] <= since)
