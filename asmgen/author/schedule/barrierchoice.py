"""Which ticks of a step have barriers: as few as serve all handoffs of LDS and leave fills the time that a round trip to memory takes."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from operator import le, sub
from typing import NamedTuple

Ticks = tuple[int, int]
"""The first and the last tick of a range."""
_Ranges = tuple[tuple[int, ...], ...]
"""First, last and wanted ticks, each of all kinds."""
_EXACT = 600
"""The most choices that are all looked at. Of more, those of a coarser grid are, and the best one's barriers are moved in turn."""


class FillRange(NamedTuple):
    """The first and the last tick of a fill, and the last one that leaves it all of its round trip."""

    first: int
    last: int
    wanted: int


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
        self.every = (1 << len(holds)) - 1  # a bit for each hold
        self.alone = {barrier: tuple(zip(*(kind.range_of(barrier, length) for kind in kinds), strict=True)) for barrier in grid}
        many = Counter(fills)
        self.before = [cover * max(0, many[kind] - 1) for kind in range(len(kinds))]
        self.known: dict[_Ranges, tuple[int, ...] | None] = {}
        masks: dict[Ticks, int] = {}
        for number, hold in enumerate(holds):
            masks[hold] = masks.get(hold, 0) | 1 << number
        self.serves = {barrier: sum(mask for hold, mask in masks.items() if _stands_in(barrier, hold, length)) for barrier in grid}
        self.serving = frozenset(self.serves.values())
        self.reached: dict[tuple[int, int], bool] = {}
        self.most = self._most()
        """No choice has more slack than what barriers in all ticks would allow; None: there is no choice."""

    def best(self, count: int) -> BarrierChoice | None:
        """The best choice of `count` barriers that serves all holds; None if there is none."""
        if self.most is None:
            return None
        coarse = 1
        while _choices(len(self.grid[::coarse]), count) > _EXACT:
            coarse += 1
        found = self._first_best(itertools.combinations(self.grid[::coarse], count))
        if coarse == 1:
            return found
        if found is None:
            serving = itertools.islice(self._serving(count), _EXACT)
            found = next(filter(None, map(self._choice, serving)), None)
        return self._moved(found)

    def without_idle(self, choice: BarrierChoice, ticks: Sequence[int]) -> BarrierChoice | None:
        """A choice with a barrier less that serves all, also fills that stand in these ticks, and leaves each as much of its round trip;
        None if there is none."""
        late = self._late(choice.barriers, ticks)
        for idle in choice.barriers:
            rest = tuple(barrier for barrier in choice.barriers if barrier != idle)
            its = self._late(rest, ticks) if rest else None
            alike = late is not None and its is not None and all(map(le, its, late))
            fewer = self._choice(rest) if alike else None
            if fewer is not None:
                return fewer
        return None

    def lacks(self, barriers: Sequence[int], ticks: Sequence[int]) -> int:
        """What the worst one of fills in these ticks, which stand between such barriers, lacks of its round trip."""
        return max(self._late(barriers, ticks) or (), default=0)

    def _late(self, barriers: Sequence[int], ticks: Sequence[int]) -> list[int] | None:
        """What each of fills in these ticks lacks of its round trip; None if one does not stand between barriers."""
        ranges = self._ranges(barriers)
        late = []
        for kind, tick in zip(self.fills, ticks, strict=True):
            first, last, wanted = (part[kind] for part in ranges)
            if not first <= tick <= last:
                return None
            late.append(max(0, tick - wanted))
        return late

    def _first_best(self, choices: Iterable[tuple[int, ...]], found: BarrierChoice | None = None) -> BarrierChoice | None:
        """The first of the choices with the most slack, or `found` if none has more."""
        for barriers in choices:
            choice = self._choice(barriers, None if found is None else found.slack)
            if choice is not None and (found is None or choice.slack > found.slack):
                found = choice
                if found.slack == self.most:
                    break
        return found

    def _serving(self, count: int, begun: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
        """Choices on the whole grid for narrow holds: each barrier serves one that those before it do not, as long as there are some."""
        left = self.every
        for barrier in begun:
            left &= ~self.serves[barrier]
        if not left:
            yield from (tuple(sorted({*begun, *more})) for more in itertools.combinations(self.grid, count - len(begun)))
        elif self._can_serve(left, count - len(begun)):
            for barrier in self.grid:
                if left & -left & self.serves[barrier]:
                    yield from self._serving(count, (*begun, barrier))

    def _can_serve(self, holds: int, count: int) -> bool:
        """Whether so many barriers serve some holds. Barriers that serve the same are one, so few answers are looked for."""
        if not holds or not count:
            return not holds
        key = holds, count
        if key not in self.reached:
            first = holds & -holds
            self.reached[key] = any(self._can_serve(holds & ~served, count - 1) for served in self.serving if first & served)
        return self.reached[key]

    def _moved(self, found: BarrierChoice | None) -> BarrierChoice | None:
        """The choice after each barrier was moved to its best tick, until none gains."""
        while found is not None:
            kept = [[barrier for barrier in found.barriers if barrier != moved] for moved in found.barriers]
            others = (tuple(sorted((*rest, tick))) for rest in kept for tick in self.grid if tick not in rest)
            better = self._first_best(others, found)
            if better is found:
                break
            found = better
        return found

    def _choice(self, barriers: tuple[int, ...], above: int | None = None) -> BarrierChoice | None:
        """A choice with its slack: the fill with the earliest deadline goes first, each `cover` after the one before. None if it has not
        more slack than `above`, or serves not all."""
        served = 0
        for barrier in barriers:
            served |= self.serves[barrier]
        if served != self.every:
            return None
        ranges = self._ranges(barriers)
        bound = self._bound(ranges)
        if bound is None or above is not None and bound <= above:
            return None
        if ranges not in self.known:
            self.known[ranges] = self._in_turn(ranges)
        ticks = self.known[ranges]
        if ticks is None:
            return None
        slack = min([ranges[2][kind] - tick for kind, tick in zip(self.fills, ticks, strict=True)], default=self.length)
        late = -min(slack, 0)
        return BarrierChoice(barriers, tuple((first, min(last, wanted + late)) for first, last, wanted in zip(*ranges, strict=True)), ticks,
                             slack)

    def _ranges(self, barriers: Sequence[int]) -> _Ranges:
        """What some barrier allows to fills of each kind."""
        if len(barriers) < 2 or not self.before:
            return self.alone[barriers[0]] if barriers else ()
        first, last, wanted = zip(*(self.alone[barrier] for barrier in barriers), strict=True)
        return tuple(map(min, *first)), tuple(map(max, *last)), tuple(map(max, *wanted))

    def _bound(self, ranges: _Ranges) -> int | None:
        """No order of fills leaves more slack: the last of a kind issues after the others of it. None if some fill is too late in all."""
        if not ranges:
            return self.length
        first, last, wanted = ranges
        if min(map(sub, map(sub, last, first), self.before)) < 0 or max(last) - min(first) < self.cover * (len(self.fills) - 1):
            return None
        least: int = min(map(sub, map(sub, wanted, first), self.before))
        return least

    def _most(self) -> int | None:
        """The least of what is left to the last one of fills that all lie within some ticks; None if one is too late."""
        ranges = self._ranges(self.grid)
        if not ranges or not self.grid:
            return self.length
        counts = [before // self.cover + 1 for before in self.before]

        def left(ends: Sequence[int]) -> int:
            every = list(zip(ranges[0], ends, counts, strict=True))
            return min(end - begin - self.cover * (sum(many for first, last, many in every if first >= begin and last <= end) - 1)
                       for begin, end in itertools.product({*ranges[0]}, {*ends})
                       if any(first >= begin and last <= end for first, last, _ in every))

        return None if left(ranges[1]) < 0 else left(ranges[2])

    def _in_turn(self, ranges: _Ranges) -> tuple[int, ...] | None:
        """Of the fills that may issue the one with the earliest deadline, `cover` after the one before; None where one is too late."""
        if not self.fills:
            return ()
        first, last, wanted = ([part[kind] for kind in self.fills] for part in ranges)
        ticks = [0] * len(self.fills)
        ahead = sorted(range(len(ticks)), key=lambda fill: -first[fill])
        ready: list[tuple[int, int]] = []  # by deadline
        at = 0
        while ahead or ready:
            at = at if ready else max(at, first[ahead[-1]])
            while ahead and first[ahead[-1]] <= at:
                fill = ahead.pop()
                heappush(ready, (wanted[fill], fill))
            _, fill = heappop(ready)
            if at > last[fill]:
                return None
            ticks[fill] = at
            at += self.cover
        return tuple(ticks)


def _choices(ticks: int, count: int) -> int:
    found = 1
    for number in range(count):
        found = found * (ticks - number) // (number + 1)
    return found


def _stands_in(barrier: int, hold: Ticks, length: int) -> bool:
    """Whether a barrier of some copy stands in a hold."""
    following = (hold[0] - barrier) // -length * -length + barrier  # the first one from the hold's beginning on
    return hold[0] <= following <= hold[1]
