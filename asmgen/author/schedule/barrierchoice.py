"""Which ticks of a step have barriers: as few as serve all handoffs of LDS and leave fills the time that a round trip to memory takes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

Ticks = tuple[int, int]
"""The first and the last tick of a range."""
_EXACT = 600
"""The most choices that are all looked at. Of more, those of a coarser grid are, and the best one's barriers are moved in turn."""


class FillRange(NamedTuple):
    """The first and the last tick of a fill, and the last one that leaves it all of its round trip."""

    first: int
    last: int
    wanted: int

    def joined(self, other: FillRange) -> FillRange:
        """What either allows."""
        return FillRange(min(self.first, other.first), max(self.last, other.last), max(self.wanted, other.wanted))


class FillKind(NamedTuple):
    """What decides the range of a fill: when the old bytes are read for the last time, their data there, and the new ones for the first
    time; how long the fill takes to settle; and the ticks that it keeps free at the end of the step."""

    old: int
    new: int
    settle: int
    spare: int = 0

    def range_of(self, barrier: int, length: int) -> FillRange:
        """The ticks that one barrier allows: the last one has its wait and itself before the read."""
        ahead = barrier + length * ((self.new - 1 - barrier) // length)
        first = max(0, barrier + length * ((self.old - barrier) // length + 1))
        return FillRange(first, min(length - 1 - self.spare, ahead - min(_LEAST, self.settle)), ahead - self.settle)


_LEAST = 3  # from a fill to a barrier after it: the fill's own tick, the wait, the barrier


class BarrierChoice(NamedTuple):
    """Barriers by tick; the range of each kind of fill; a tick for each fill, if nothing else were in the way; and by how many ticks the
    worst one leaves more than its round trip, or less."""

    barriers: tuple[int, ...]
    ranges: tuple[Ticks, ...]
    ticks: tuple[int, ...]
    slack: int


class BarrierSearch:
    """The choice among the ticks of a grid. `fills` are numbers of kinds, one for each fill; `cover` are the ticks from one to the next."""

    def __init__(self, kinds: Sequence[FillKind], fills: Sequence[int], holds: Sequence[Ticks], grid: Sequence[int], length: int,
                 cover: int) -> None:
        self.fills, self.grid, self.cover, self.length = fills, grid, cover, length
        self.every = frozenset(range(len(holds)))
        self.alone = {barrier: [kind.range_of(barrier, length) for kind in kinds] for barrier in grid}
        self.serves = {barrier: frozenset(number for number, hold in enumerate(holds) if _stands_in(barrier, hold, length))
                       for barrier in grid}

    def best(self, count: int) -> BarrierChoice | None:
        """The best choice of `count` barriers that serves all holds; None if there is none."""
        coarse = 1
        while _choices(len(self.grid[::coarse]), count) > _EXACT:
            coarse += 1
        found = max(filter(None, map(self._choice, itertools.combinations(self.grid[::coarse], count))), key=_merit, default=None)
        if coarse == 1:
            return found
        serving = itertools.islice(self._serving(count), _EXACT)
        return self._moved(found if found is not None else next(filter(None, map(self._choice, serving)), None))

    def _serving(self, count: int, begun: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
        """Choices on the whole grid for narrow holds: each barrier serves one that those before it do not, as long as there are some."""
        left = self.every.difference(*(self.serves[barrier] for barrier in begun))
        if not left:
            yield from (tuple(sorted({*begun, *more})) for more in itertools.combinations(self.grid, count - len(begun)))
        elif len(begun) < count:
            for barrier in self.grid:
                if min(left) in self.serves[barrier]:
                    yield from self._serving(count, (*begun, barrier))

    def _moved(self, found: BarrierChoice | None) -> BarrierChoice | None:
        """The choice after each barrier was moved to its best tick, until none gains."""
        while found is not None:
            kept = [[barrier for barrier in found.barriers if barrier != moved] for moved in found.barriers]
            others = filter(None, (self._choice(tuple(sorted((*rest, tick)))) for rest in kept for tick in self.grid if tick not in rest))
            better = max(others, key=_merit)
            if _merit(better) <= _merit(found):
                break
            found = better
        return found

    def _choice(self, barriers: tuple[int, ...]) -> BarrierChoice | None:
        """A choice with its slack: the fill with the earliest deadline goes first, each `cover` after the one before."""
        if frozenset[int]().union(*(self.serves[barrier] for barrier in barriers)) != self.every:
            return None
        ranges = self.alone[barriers[0]]
        for barrier in barriers[1:]:
            ranges = [one.joined(other) for one, other in zip(ranges, self.alone[barrier], strict=True)]
        ticks = self._in_turn(ranges)
        if ticks is None:
            return None
        slack = min([ranges[kind].wanted - tick for kind, tick in zip(self.fills, ticks, strict=True)], default=self.length)
        late = -min(slack, 0)
        return BarrierChoice(barriers, tuple((one.first, min(one.last, one.wanted + late)) for one in ranges), ticks, slack)

    def _in_turn(self, ranges: Sequence[FillRange]) -> tuple[int, ...] | None:
        """Of the fills that may issue the one with the earliest deadline, `cover` after the one before; None where one is too late."""
        ticks = [0] * len(self.fills)
        ahead = sorted(range(len(ticks)), key=lambda fill: -ranges[self.fills[fill]].first)
        ready: list[tuple[int, int]] = []  # by deadline
        at = 0
        while ahead or ready:
            at = at if ready else max(at, ranges[self.fills[ahead[-1]]].first)
            while ahead and ranges[self.fills[ahead[-1]]].first <= at:
                fill = ahead.pop()
                heappush(ready, (ranges[self.fills[fill]].wanted, fill))
            _, fill = heappop(ready)
            if at > ranges[self.fills[fill]].last:
                return None
            ticks[fill] = at
            at += self.cover
        return tuple(ticks)


def _merit(choice: BarrierChoice) -> int:
    return choice.slack


def _choices(ticks: int, count: int) -> int:
    found = 1
    for number in range(count):
        found = found * (ticks - number) // (number + 1)
    return found


def _stands_in(barrier: int, hold: Ticks, length: int) -> bool:
    """Whether a barrier of some copy stands in a hold."""
    following = (hold[0] - barrier) // -length * -length + barrier  # the first one from the hold's beginning on
    return hold[0] <= following <= hold[1]
