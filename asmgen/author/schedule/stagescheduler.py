"""Ping-pong whose stages the engine places: which stage holds what is the author's, and inside a stage a search chooses the order.

Orders of a stage differ in where vector work stands: evenly between the rest or between a part of it, all before it or after it. Fills go
no later than reads, as memory is far. The stages change in turn, each to the order with which the step takes fewest ticks by the clock of
both groups (`pairclock`), as long as one gains. The even order of `PingPong` is the first one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import partial

from asmgen.author.schedule.pairclock import PairClock
from asmgen.author.schedule.schedules import PingPong, is_matrix, is_packed
from asmgen.author.schedule.unitcosts import StepMachine, UnitKind, kinds_of
from asmgen.author.step.effects import Unit, depends
from asmgen.isa.records import dataclass

_Needs = Mapping[int, Set[int]]
"""By ordinal, the units of the stage that stand before a unit."""
_Rank = Callable[[Unit], float]
_QUARTERS = 4  # of a stage, between which vector work may stand


@dataclass(frozen=True)
class PlacedPingPong(PingPong):
    """`PingPong` with orders inside of the stages that a search chose. A stage keeps the even order where no other one is shorter."""

    name: str = "placed ping-pong"

    def orders(self, phases: Sequence[Sequence[Unit]], machine: StepMachine) -> list[list[Unit]]:
        """The units of each stage, of the first phase, in order."""
        chosen = super().orders(phases, machine)
        clock = PairClock(phases[0], machine)
        levels = [self.matrix if any(map(is_matrix, stage)) else self.priority or 0 for stage in chosen]
        kinds = kinds_of(list(phases[0]))
        choices = [_choices(even, kinds, _needs(even, phases)) for even in chosen]

        def time(orders: Sequence[Sequence[Unit]]) -> int:
            return clock.time([[unit.tag.ordinal for unit in order] for order in orders], levels)

        least, before = time(chosen), -1
        while before != least:
            before = least
            for number, orders in enumerate(choices):
                for order in orders:
                    changed = [*chosen[:number], order, *chosen[number + 1:]]
                    found = time(changed)
                    if found < least:
                        least, chosen = found, changed
        return chosen


def _choices(even: Sequence[Unit], kinds: Mapping[int, UnitKind], needs: _Needs) -> list[list[Unit]]:
    """The even order of a stage, and others."""
    def vector(unit: Unit) -> bool:
        return kinds[unit.tag.ordinal] is UnitKind.COMPUTE

    def read(unit: Unit) -> bool:
        return kinds[unit.tag.ordinal] is UnitKind.LDS_READ

    ranks: tuple[_Rank, ...] = vector, lambda unit: not vector(unit), lambda unit: vector(unit) and not is_packed(unit)
    if not any(map(is_matrix, even)):
        ranks = vector, lambda unit: not vector(unit), lambda unit: read(unit) + 2 * vector(unit)
    found: list[list[Unit]] = [list(even)]
    for rank in (*ranks, *_parts(even, vector)):
        order = _by(even, rank, needs)
        found += [order] if order not in found else []
    return found


def _parts(even: Sequence[Unit], vector: Callable[[Unit], bool]) -> Iterator[_Rank]:
    """Ranks that give the vector work positions at equal distances between two quarters of the rest."""
    moved, rest = [unit for unit in even if vector(unit)], [unit for unit in even if not vector(unit)]
    for first, last in itertools.combinations(range(_QUARTERS + 1), 2):
        begin, end = (len(rest) * quarter / _QUARTERS for quarter in (first, last))
        stands = {unit.tag.ordinal: float(number) for number, unit in enumerate(rest)}
        stands |= {unit.tag.ordinal: begin + (end - begin) * (number + 0.5) / len(moved) - 0.5 for number, unit in enumerate(moved)}
        yield partial(_stands, stands)


def _stands(stands: Mapping[int, float], unit: Unit) -> float:
    return stands[unit.tag.ordinal]


def _by(even: Sequence[Unit], rank: _Rank, needs: _Needs) -> list[Unit]:
    """The units by rank, of one rank as they were, each after those that it needs."""
    left = sorted(even, key=rank)
    found: list[Unit] = []
    done: set[int] = set()
    while left:
        unit = next(unit for unit in left if needs[unit.tag.ordinal] <= done)
        left.remove(unit)
        found.append(unit)
        done.add(unit.tag.ordinal)
    return found


def _needs(stage: Sequence[Unit], phases: Sequence[Sequence[Unit]]) -> _Needs:
    """What each unit needs before it in some phase. A unit that may not move keeps its place among all."""
    found: dict[int, set[int]] = {unit.tag.ordinal: set() for unit in stage}
    for phase in phases:
        mine = [unit for unit in phase if unit.tag.ordinal in found]
        for number, unit in enumerate(mine):
            for other in mine[:number]:
                held = unit.effects.fence or unit.effects.in_place or other.effects.fence or other.effects.in_place
                if held or depends(unit, other):
                    found[unit.tag.ordinal].add(other.tag.ordinal)
    return found
