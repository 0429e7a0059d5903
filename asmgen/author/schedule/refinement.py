"""Better orders than a given one: units and waits of gaps in which a matrix core idles move to emptier gaps, as long as the clock gains.

A gap is what stands after a matrix unit. A unit moves within its dependences; an access of LDS and a fill stay between the barriers, and
the waits of barriers, between which they stand. Each read keeps a wait between itself and its first user. A wait without which each read
still has one goes away. The search takes the first gain that it finds, tries the gaps of the most idle ticks first, and looks at no more
than `tries` orders, so that the same step always gets the same order.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from asmgen.author.schedule.partialorder import PartialOrder
from asmgen.author.schedule.schedules import Arrangement
from asmgen.author.schedule.stepclock import StepTime
from asmgen.author.schedule.unitcosts import UnitKind
from asmgen.isa.registers import m0

_NEAR = 6  # gaps that are tried for a unit, on either side of its own
_MEMORY = (UnitKind.LDS_READ, UnitKind.LOAD, UnitKind.FILL)

Merit = tuple[int, int, int]
"""The ticks of a step; the same if waves stay in pairs; and the instructions of its order."""


class Refined(NamedTuple):
    """An order with its time. `paired` is that of waves that meet at the LDS bus at each access: it shows gaps that another one hides."""

    arrangement: Arrangement
    time: StepTime
    paired: StepTime

    @property
    def merit(self) -> Merit:
        """What orders are compared by."""
        return self.time.ticks, self.paired.ticks, len(self.arrangement.order)


class Refinement:
    """One search from an order in which everything stands. `arranged` makes an arrangement of it."""

    def __init__(self, order: PartialOrder, barriers: Sequence[int],
                 arranged: Callable[[PartialOrder, Sequence[int]], Arrangement]) -> None:
        self.order, self.arranged = order, arranged
        self.barriers = list(barriers)
        self.step, self.length, self.begins = order.step, order.length, order.begins
        self.own = {self._wait_of(barrier) for barrier in barriers if order.waits}
        self.first = self._arrangement()
        self.time = self.step.clock.time(self.first)
        self.tried = self.failed = 0

    def run(self, tries: int, patience: int) -> Refined:
        """The best order that so many tries find, of which no more than `patience` in a row may fail."""
        self.best = Refined(self.first, self.time, self.step.clock.time(self.first, paired=True))
        moved = True
        while moved and self.tried < tries and self.failed < patience:
            moved = any(self.failed < patience and self._better(change, tries) for change in self._changes())
        for wait in sorted(self.order.waits - self.own):
            if self.tried < tries:
                self._better(("wait", wait, None), tries)
        return self.best

    def _arrangement(self) -> Arrangement:
        return self.arranged(self.order, self.barriers)

    def _improved(self) -> Refined | None:
        """The order as it stands, if it is better than the best one."""
        arrangement, clock = self._arrangement(), self.step.clock
        time = clock.time(arrangement)
        if time.ticks > self.best.time.ticks:
            return None
        found = Refined(arrangement, time, clock.time(arrangement, paired=True))
        return found if found.merit < self.best.merit else None

    def _wait_of(self, barrier: int) -> int:
        """The wait before a barrier: the last one up to its tick."""
        return min(self.order.waits, key=lambda wait: (barrier - wait) % self.length)

    # ---- changes ----

    def _changes(self) -> Iterator[_Change]:
        """What might help: each unit and wait of a gap with idle ticks, and of the gap before it, to other gaps, emptier ones first."""
        held: dict[int, list[tuple[str, int]]] = {}
        for number, tick in self.order.at.items():
            if self._moves(number):
                held.setdefault(self._gap(tick), []).append(("unit", number))
        for kind, ticks in (("wait", self.order.waits), ("barrier", self.barriers)):
            for tick in ticks:
                held.setdefault(self._gap(tick), []).append((kind, tick))
        weights = {gap: sum(self._weight(*entry) for entry in entries) for gap, entries in held.items()}
        idle = self.best.paired.idle
        count = len(self.begins)
        alike: set[tuple[str, bool, int, int, int]] = set()  # what was tried: another unit of that kind would change as much
        late = sorted((gap for gap in range(count) if idle[(gap + 1) % count]), key=lambda gap: -idle[(gap + 1) % count])
        for alone, gap in itertools.product((False, True), late):
            for kind, number in held.get(gap, ()):
                tick = self.order.at[number] if kind == "unit" else number
                low, high = {"unit": self._unit_range, "wait": self._wait_range, "barrier": self._barrier_range}[kind](number)
                weight = self._weight(kind, number)
                for target in self._targets(tick, low, high, weight, weights, alone):
                    vector = self.step.vector_bound and kind == "unit" and self.step.kinds[number] is UnitKind.COMPUTE
                    key = kind, vector, weight, gap, self._gap(target)
                    if not vector or key not in alike:
                        alike.add(key)
                        yield kind, number, target

    def _moves(self, number: int) -> bool:
        unit, kind = self.step.units[number], self.step.kinds[number]
        return not (unit.is_block or unit.tag.seldom or kind is UnitKind.MATRIX or self.step.costs[number].packed)

    def _weight(self, kind: str, number: int) -> int:
        """The ticks that an entry takes of its gap."""
        cost = self.step.costs[number] if kind == "unit" else None
        return max(cost.issue + max(0, cost.bus - 1), 1) if cost is not None else self.step.release if kind == "barrier" else 1

    def _gap(self, tick: int) -> int:
        return (bisect_right(self.begins, tick % self.length) - 1) % len(self.begins)

    def _targets(self, tick: int, low: int, high: int, own_weight: int, weights: dict[int, int], alone: bool) -> list[int]:
        """Ticks in the gaps near one, of a range, that are less full after the move than its own now, or if `alone` as full: the emptiest
        first, then the nearest."""
        count, own = len(self.begins), self._gap(tick)
        start = tick - (tick - self.begins[own]) % self.length  # of the own gap's matrix unit
        found: list[tuple[int, int, int]] = []
        for step in (*range(-_NEAR, 0), *range(1, _NEAR + 1)):
            gap = (own + step) % count
            begin = start + (self.begins[gap] - self.begins[own]) % self.length
            begin -= self.length if step < 0 and begin > start else 0
            target = begin + 1
            room = weights[own] - weights.get(gap, 0) - own_weight
            if low <= target <= high and (room > 0 or alone and not room):
                found.append((weights.get(gap, 0), abs(step), target))
        return [target for _, _, target in sorted(found)]

    def _unit_range(self, number: int) -> tuple[int, int]:
        """The ticks that dependences and borders allow."""
        step, at, length = self.step, self.order.at, self.length
        low = max([at[edge.before] + edge.latency - edge.distance * length for edge in step.before[number] if edge.before in at],
                  default=at[number] - length)
        high = min([at[edge.after] - edge.latency + edge.distance * length for edge in step.after[number] if edge.after in at],
                   default=at[number] + length)
        low, high = max(low, -length if step.kinds[number] is UnitKind.LDS_READ else 0), min(high, length - self.order.ends - 1)
        borders = sorted({*self.barriers, *self.own})
        if borders and step.units[number].effects.memory:
            tick = at[number]
            earlier = max(tick - (tick - border - 1) % length - 1 for border in borders)
            later = min(tick + (border - tick) % length for border in borders)
            low, high = max(low, earlier + 1), min(high, later)
        if self._of_m0(number):  # the order of fills and of what writes M0 for them was chosen with them
            others = [(tick, other) for other, tick in at.items() if other != number and self._of_m0(other)]
            before = max((one for one in others if one < (at[number], number)), default=None)
            after = min((one for one in others if one > (at[number], number)), default=None)
            low = low if before is None else max(low, before[0] + (before[1] > number))
            high = high if after is None else min(high, after[0] - (after[1] < number))
        if number in self.order.ranges:
            low, high = max(low, self.order.ranges[number][0]), min(high, self.order.ranges[number][1])
        return low, high

    def _of_m0(self, number: int) -> bool:
        effects = self.step.units[number].effects
        return bool((effects.reads | effects.writes) & m0.mask)

    def _wait_range(self, wait: int) -> tuple[int, int]:
        """Of a barrier's wait, from the access before it to the barrier; of others, the whole step."""
        if wait not in self.own:
            return 0, self.length - self.order.ends - 1
        barrier = min(self.barriers, key=lambda barrier: (barrier - wait) % self.length)
        before = max((tick for tick in self._accesses() if tick <= wait), default=0)
        return before, max(wait, min(barrier, self.length - 1))

    def _barrier_range(self, barrier: int) -> tuple[int, int]:
        """From the access before a barrier's wait to the one after the barrier, where the wait may go along."""
        wait = self._wait_of(barrier)
        accesses = self._accesses()
        before = max((tick for tick in accesses if tick <= wait), default=0)
        return before + (barrier - wait) % self.length, min((tick for tick in accesses if tick > barrier), default=self.length) - 1

    def _accesses(self) -> list[int]:
        """The ticks at which memory is accessed."""
        return [tick % self.length for number, tick in self.order.at.items() if self.step.units[number].effects.memory]

    # ---- tries ----

    def _better(self, change: _Change, tries: int) -> bool:
        """Make a change if the clock gains by it."""
        if self.tried >= tries:
            return False
        kind, number, target = change
        order = self.order
        before = set(order.waits), dict(order.at), set(self.own), self.barriers
        if kind == "unit":
            assert target is not None
            order.at[number] = target
        elif kind == "wait":
            self._move_wait(number, target)
        else:
            assert target is not None
            wait = self._wait_of(number)
            self.barriers = [target if barrier == number else barrier for barrier in self.barriers]
            self._move_wait(wait, (wait + target - number) % self.length)
        if self._served():
            self.tried += 1
            found = self._improved()
            if found is not None:
                self.best, self.failed = found, 0
                return True
            self.failed += 1
        order.waits, order.at, self.own, self.barriers = before
        return False

    def _move_wait(self, wait: int, target: int | None) -> None:
        """None takes it away."""
        found = set() if target is None else {target % self.length}
        self.order.waits = self.order.waits - {wait} | found
        if wait in self.own:
            self.own = self.own - {wait} | found

    def _served(self) -> bool:
        """Whether each read and load has a wait between itself and its first user."""
        step, at, length = self.step, self.order.at, self.length
        for number in (*step.of(UnitKind.LDS_READ), *step.of(UnitKind.LOAD)):
            uses = [at[edge.after] + edge.distance * length for edge in step.users[number] if edge.after in at]
            if uses and not any(at[number] <= wait - (wait - at[number]) // length * length < min(uses) for wait in self.order.waits):
                return False
        return True


_Change = tuple[str, int, int | None]
"""What moves, "unit", "wait" or "barrier"; its ordinal or tick; its new tick, None for a wait that goes."""
