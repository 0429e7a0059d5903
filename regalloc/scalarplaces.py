"""Where SGPRs lie of a kernel that the lowest free places do not serve, when it is written once more.

A plan hands out the lowest free registers as its author asks, so brief singles open a hole where lasting ones split fours. The first
writing tells how long each range is held. The second places the widest ranges first, each where nothing held beside it lies; pins stay
where they are. What the first writing did not reach takes the smallest aligned hole. All of that depends on the order of takings alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf

from asmgen.isa.records import dataclass
from asmgen.isa.registers import SGPR_COUNT, Reg

_WIDEST = 16
"""The widest scalar operands, whose alignment no hole need exceed."""


@dataclass(frozen=True)
class Holding:
    """SGPRs that the `number`th range of a name holds from one change of the plan to another; None: to the end, or to where the plan
    failed. A pin has no alignment."""

    name: str
    number: int
    reg: Reg
    align: int | None
    begin: int
    end: int | None = None

    @property
    def bits(self) -> int:
        """One bit an SGPR."""
        return _bits(self.reg.index, self.reg.count)

    @property
    def length(self) -> float:
        """How long it is held."""
        return (inf if self.end is None else self.end) - self.begin

    def beside(self, other: Holding) -> bool:
        """Whether both are held at one time."""
        return (self.end is None or other.begin < self.end) and (other.end is None or self.begin < other.end)


class ScalarHoldings:
    """Who holds SGPRs of a plan and how long, counted in changes of who does; and where a range is to lie, if places are given.

    Ranges are told by their names: a writing that finds other holes may take some that the one before did not.
    """

    def __init__(self) -> None:
        self.wanted: Mapping[tuple[str, int], Holding] | None = None
        self._held: dict[int, Holding] = {}  # by lease, in the order of their taking
        self._failed: Holding | None = None
        self._numbers: dict[str, int] = {}
        self._changes = 0

    def take(self, lease: int, name: str, reg: Reg, align: int | None) -> None:
        """A lease begins; `align` is None for a pin."""
        self._held[lease] = Holding(name, self._next_number(name), reg, align, self._changes)
        self._numbers[name] = self._next_number(name) + 1
        self._changes += 1

    def end(self, lease: int) -> None:
        """A lease ends, if it held SGPRs."""
        if lease in self._held:
            self._held[lease] = replace(self._held[lease], end=self._changes)
            self._changes += 1

    def find(self, name: str, count: int, align: int, free: int) -> int | None:
        """The place of the next range of a name, where it is free and was asked for alike; else the smallest hole."""
        place = self.wanted.get((name, self._next_number(name))) if self.wanted is not None else None
        if place is not None and (place.reg.count, place.align) == (count, align) and not place.bits & ~free:
            return place.reg.index
        return closest(free, count, align)

    def fail(self, name: str, count: int, align: int) -> None:
        """A range finds no place. It counts as held from now on: others end as the scopes of the author's function are left."""
        self._failed = Holding(name, self._next_number(name), Reg("s", 0, count), align, self._changes)
        self._changes += 1

    def known(self) -> list[Holding]:
        """What was held, in the order of taking, and last what found no place, if anything."""
        return [*self._held.values(), *([self._failed] if self._failed is not None else [])]

    def _next_number(self, name: str) -> int:
        return self._numbers.get(name, 0)


def placed(holdings: Sequence[Holding]) -> Mapping[tuple[str, int], Holding]:
    """By name and number, where each lies that is no pin: widest first, of equals what is held longest. What finds no place is left out."""
    done = [one for one in holdings if one.align is None]
    found: dict[tuple[str, int], Holding] = {}
    for one in sorted((one for one in holdings if one.align is not None), key=lambda one: (-one.reg.count, -one.length)):
        held = 0
        for other in done:
            if one.beside(other):
                held |= other.bits
        index = closest(~held & _bits(0, SGPR_COUNT), one.reg.count, one.align or 1)
        if index is not None:
            done.append(replace(one, reg=Reg("s", index, one.reg.count)))
            found[one.name, one.number] = done[-1]
    return found


def closest(free: int, count: int, align: int) -> int | None:
    """Where `count` SGPRs of the mask `free` lie from a multiple of `align` on, in the smallest free block of aligned 1, 2, 4, 8 or 16;
    the lowest of equals. None where there is none."""
    starts = [start for start in range(0, SGPR_COUNT - count + 1, align) if not _bits(start, count) & ~free]
    return min(starts, key=lambda start: (_block(free, start, count), start), default=None)


def _block(free: int, start: int, count: int) -> int:
    """Registers of the largest aligned free block around a range, or its own where it has none."""
    around = count
    size = 1
    while size < _WIDEST:
        size *= 2
        first = start // size * size
        if start + count <= first + size and not _bits(first, size) & ~free:
            around = size
    return around


def _bits(first: int, count: int) -> int:
    return ((1 << count) - 1) << first
