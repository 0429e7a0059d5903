"""The reservation table of a step: which ticks of its length are taken, by resource. Time is modulo the length."""

from __future__ import annotations

from collections.abc import Iterable


class Reservations:
    """Issue and shared resources of `length` ticks, each a set of taken ticks as the bits of an integer."""

    def __init__(self, length: int) -> None:
        self.length = length
        self._every = (1 << length) - 1
        self._taken: dict[str, int] = {}

    def copy(self) -> Reservations:
        """The same, to be changed alone."""
        made = Reservations(self.length)
        made._taken = dict(self._taken)
        return made

    def free(self, resource: str, tick: int, ticks: int = 1) -> bool:
        """Whether a resource has so many free ticks from one on."""
        return not self._taken.get(resource, 0) & self._bits(tick, ticks)

    def take(self, resource: str, tick: int, ticks: int = 1) -> None:
        """Take ticks of a resource, free or not."""
        if ticks:
            self._taken[resource] = self._taken.get(resource, 0) | self._bits(tick, ticks)

    def starts(self, resource: str, ticks: int) -> int:
        """The ticks, as bits, from which on a resource is free for so long."""
        if not ticks:
            return self._every
        free, covered = self._every & ~self._taken.get(resource, 0), 1
        while covered < min(ticks, self.length):
            more = min(covered, ticks - covered)
            free &= self.earlier(free, more)
            covered += more
        return free

    def earlier(self, found: int, ticks: int) -> int:
        """Ticks, as bits, each so much earlier."""
        ticks %= self.length
        return (found >> ticks | found << self.length - ticks) & self._every

    def first(self, ticks: Iterable[int], *wanted: tuple[str, int]) -> int | None:
        """The first of the ticks from which on each wanted resource is free for so long."""
        found = self._every
        for resource, count in wanted:
            found &= self.starts(resource, count)
        return self.among(ticks, found)

    def among(self, ticks: Iterable[int], found: int) -> int | None:
        """The first of the ticks whose bit is set."""
        length = self.length
        return next((tick for tick in ticks if found >> tick % length & 1), None) if found else None

    def left(self, resource: str) -> list[int]:
        """By tick, 1 if the resource is free there."""
        taken = self._taken.get(resource, 0)
        return [1 - (taken >> tick & 1) for tick in range(self.length)]

    def _bits(self, tick: int, ticks: int) -> int:
        if not ticks:
            return 0
        if ticks >= self.length:
            return self._every
        tick %= self.length
        bits = (1 << ticks) - 1 << tick
        return bits & self._every | bits >> self.length
