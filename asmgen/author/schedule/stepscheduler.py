"""Modulo: a modulo schedule of any step of one wave a SIMD, in ticks (slots of issue).

The matrix units keep their order and stand at their times; a step is as long as its matrix cores or its issue ask for, whichever is more.
Around them are placed, in this order:

- reads and loads, each after the last use of what it overwrites, early enough for its first user. Reads of LDS may lead: they then stand
  in the copy before. Loads may not, as their sources go on at the end of a copy;
- barriers, as few as the handoffs of LDS need, where they leave most slack to the fills; a wait before each;
- fills, as early as loads in a burst may follow each other;
- waits where a group of reads is first needed;
- all other units: those of a stream in their order, evenly by their share of its work, each between its operands and its users.

The build tries several lengths, and keeps the order that takes fewest clk by its own arithmetic (`stepclock`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import TypeVar

from asmgen.author.schedule.filltimes import check_handoffs, place_fills
from asmgen.author.schedule.givenup import given_up
from asmgen.author.schedule.keptorders import imposed, orders_file, read_orders
from asmgen.author.schedule.matrixtimes import place_matrix
from asmgen.author.schedule.partialorder import PartialOrder
from asmgen.author.schedule.readtimes import add_waits, place_reads
from asmgen.author.schedule.refinement import Refinement
from asmgen.author.schedule.schedules import Arrangement, Placed, Sync
from asmgen.author.schedule.stepfacts import NoRoom, StepFacts
from asmgen.author.schedule.streamtimes import beside, place_compute
from asmgen.author.schedule.unitcosts import StepMachine, UnitKind
from asmgen.author.step.effects import Unit
from asmgen.author.step.iterations import PipelineError
from asmgen.isa.records import dataclass
from asmgen.isa.registers import m0

_STRETCH = (0, 2, 5, 10)  # percent of the shortest length that the search tries on top
_REFINED = 2  # orders, the best ones, that are refined
_TRIES, _PATIENCE = 60, 15  # orders that a build looks at to refine one; those in a row that may be no better
_LONG_STRETCH, _LONG_REFINED, _LONG_TRIES, _LONG_PATIENCE = range(13), 24, 400, 60  # the same of a long search
_PROPOSED = 12  # orders of a long search that whole kernels are timed with
_LONGEST = 4  # times the least length of a step, at which the search gives up


@dataclass(frozen=True)
class Modulo:
    """For 4 waves, one on each SIMD. Stage borders are ignored. Resources and latencies come from the timing table.

    `beside` is the kernel's `__file__` if `asmgen tune --schedule` may keep orders in a file beside it (`keptorders`).
    """

    beside: str = ""
    name: str = "modulo"
    stagger: int = 0

    def arrange(self, phases: Sequence[Sequence[Unit]], offsets: Mapping[int, int], machine: StepMachine) -> Arrangement:
        """The best of the orders that it tries. Raises PipelineError, with the unit, if none exists."""
        step = StepFacts(phases, offsets, machine, self.beside)
        chosen = imposed(step)
        if chosen is not None:
            return chosen
        file = orders_file(self.beside) if self.beside else None
        kept = read_orders(file) if file is not None else {}
        if step.digest in kept:
            return _told(step, kept[step.digest])
        searches = _best(_Orders(step), _STRETCH)[:_REFINED]
        best = min((search.run(_TRIES, _PATIENCE) for search in searches), key=lambda one: one.merit).arrangement
        remark = f"; {file.name} keeps no order of this step and timing table, so the build searched for one; `asmgen tune --schedule` " \
                 "searches longer and keeps it" if kept and file is not None else ""
        return _told(step, best, remark)


def _told(step: StepFacts, best: Arrangement, remark: str = "") -> Arrangement:
    """An order with what the assembly text says of it."""
    clocks = step.clock.time(best).ticks * step.machine.timing.clocks("slot")
    return replace(best, remark=given_up(step, best) + remark, clocks=clocks)


def proposals(step: StepFacts) -> list[Arrangement]:
    """The best orders of a search that takes as long as it pays: many lengths, each refined; the best one by the clock first."""
    searches = _best(_Orders(step), _LONG_STRETCH, every=True)[:_LONG_REFINED]
    found = sorted((search.run(_LONG_TRIES, _LONG_PATIENCE) for search in searches), key=lambda one: one.merit)
    return list(dict.fromkeys(one.arrangement for one in found))[:_PROPOSED]


class _Orders:
    """The orders of a step. Each is made once, also where a search asks for one again, and so is what several orders begin with: the
    matrix units, and then the accesses of memory. `exact` says only how other units are placed, `spread` only how accesses are."""

    def __init__(self, step: StepFacts) -> None:
        self.step = step
        self._made: dict[tuple[int, int, int, bool, bool], Refinement | None] = {}
        self._begun: dict[tuple[int, int, int], _Begun | NoRoom] = {}
        self._framed: dict[tuple[int, int, int, bool], list[_Framed] | NoRoom] = {}

    def of(self, length: int) -> Iterator[Refinement]:
        """The orders of one length."""
        exacts = (False, True) if self.step.of(UnitKind.COMPUTE) and len(self.step.ends) == 1 else (True,)
        for ends, delay, exact, spread in itertools.product(self.step.ends, self.step.delays, exacts, (False, True)):
            key = length, ends, delay, exact, spread
            if key not in self._made:
                self._made[key] = self._new(*key)
            found = self._made[key]
            if found is not None:
                yield found

    def _new(self, length: int, ends: int, delay: int, exact: bool, spread: bool) -> Refinement | None:
        try:
            begun = _kept(self._begun, (length, ends, delay), lambda: _begin(PartialOrder(self.step, length, delay, ends=ends)))
            frames = _kept(self._framed, (length, ends, delay, spread), lambda: _frames(begun, spread))
        except NoRoom as error:
            self.step.failures.append(error)
            return None
        for order, barriers in frames:
            whole = order.copy(exact, spread)
            try:
                place_compute(whole)
                check_handoffs(whole, barriers)
            except NoRoom as error:
                self.step.failures.append(error)
            else:
                return Refinement(whole, barriers, _ordered)
        return None

    def shortest(self) -> int:
        """About the shortest length for which there is an order, within 1 %. Raises PipelineError, with the unit that has no room in the
        least length, where there is none."""
        def works(length: int) -> bool:
            return next(self.of(length), None) is not None

        step = self.step
        low, high = step.least, step.least
        while not works(high):
            if high > _LONGEST * step.least:
                failure = step.failures[0]
                raise PipelineError(failure.sentence, failure.unit.first.where())
            low, high = high, high + high // 4 + 1
        while high - low > max(1, step.least // 100):
            middle = (low + high) // 2
            low, high = (low, middle) if works(middle) else (middle, high)
        return high


def _best(orders: _Orders, stretch: Sequence[int], every: bool = False) -> list[Refinement]:
    """Orders of lengths so many percent above the shortest, the best ones first. If not `every`, no length is tried that takes longer than
    what is found."""
    found: dict[Arrangement, Refinement] = {}
    shortest = orders.shortest()
    for percent in stretch:
        length = shortest + shortest * percent // 100
        if not every and any(search.time.ticks <= length for search in found.values()):
            break
        for search in orders.of(length):
            found.setdefault(search.first, search)
    return sorted(found.values(), key=lambda search: (search.time.ticks, len(search.first.order)))


_Begun = tuple[PartialOrder, Mapping[int, int]]
_Framed = tuple[PartialOrder, tuple[int, ...]]
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


def _kept(known: dict[_Key, _Value | NoRoom], key: _Key, make: Callable[[], _Value]) -> _Value:
    """What is known under a key, or is made now. Raises NoRoom each time where making it does."""
    if key not in known:
        try:
            known[key] = make()
        except NoRoom as error:
            known[key] = error
    found = known[key]
    if isinstance(found, NoRoom):
        raise found
    return found


def _begin(order: PartialOrder) -> _Begun:
    """Place the matrix units; with where all other work stands if nothing else were in the way."""
    place_matrix(order)
    order.preferred, nominal = beside(order)
    return order, nominal


def _frames(begun: _Begun, spread: bool) -> list[_Framed]:
    """Orders with all accesses of memory placed, each with the ticks of its barriers, the fewest first. Raises NoRoom where there is
    none."""
    order, nominal = begun[0].copy(True, spread), begun[1]
    place_reads(order, order.step.of(UnitKind.LDS_READ), {**nominal, **order.at})
    found, failures = list[_Framed](), list[NoRoom]()
    for placed, barriers in place_fills(order, {**nominal, **order.at}):
        try:
            place_reads(placed, placed.step.of(UnitKind.LOAD), {**nominal, **placed.at})
        except NoRoom as error:
            failures.append(error)
            continue
        add_waits(placed)
        placed.bound()
        found.append((placed, barriers))
    if not found:
        raise failures[0]
    return found


def _ordered(order: PartialOrder, barriers: Sequence[int]) -> Arrangement:
    """By tick; of one tick the matrix unit first, then in emission order, then synchronisation."""
    length, kinds = order.length, order.step.kinds
    lead = frozenset(number for number, tick in order.at.items() if tick < 0)
    entries: list[tuple[int, int, int, Placed]] = [
        (tick % length, 0 if kinds[number] is UnitKind.MATRIX else 1, number, number) for number, tick in order.at.items()]
    entries += [(tick % length, 2, 0, Sync("wait")) for tick in order.waits]
    entries += [(tick, 3, 0, Sync("barrier")) for tick in barriers]
    entries.sort(key=itemgetter(0, 1, 2))
    placed = _m0_apart(order.step, _alternating(order.step, [entry[3] for entry in entries]))
    if placed[-1] == Sync("wait"):
        # Before the copy it serves the entry and the back-edge; at the end, the entry would need one of its own.
        placed.insert(0, placed.pop())
    return Arrangement(tuple(placed), lead)


def _m0_apart(step: StepFacts, order: list[Placed]) -> list[Placed]:
    """The order with something between each write of M0 and the fill after it, which otherwise need a wait state: the write stands one
    position earlier, if it may."""
    for position in range(1, len(order) - 1):
        entry = order[position]
        if not isinstance(entry, int) or entry not in step.writers_of_m0:
            continue
        before, after = order[position - 1], order[position + 1]
        if isinstance(after, int) and step.units[entry].effects.writes & step.units[after].effects.reads & m0.mask:
            held = isinstance(before, int) and any(edge.after == entry and not edge.distance for edge in step.after[before])
            held = held or isinstance(before, int) and bool(step.units[before].effects.reads & m0.mask)  # a fill with another value of it
            if not held:
                order[position - 1:position + 1] = [entry, before]
    return order


def _alternating(step: StepFacts, order: Sequence[Placed]) -> list[Placed]:
    """The order with one other unit after each that holds the vector port for longer than its issue, as far as the gap has some."""
    found: list[Placed] = []
    gap: list[int] = []
    for entry in (*order, None):
        if isinstance(entry, int) and step.kinds[entry] is not UnitKind.MATRIX and not step.units[entry].is_block:
            gap.append(entry)
            continue
        if len(gap) < 2:
            found += gap
        else:
            key = tuple(gap)
            found += step.gap_orders.get(key) or step.gap_orders.setdefault(key, _gap_order(step, gap))
        found += [] if entry is None else [entry]
        gap = []
    return found


def _gap_order(step: StepFacts, gap: Sequence[int]) -> list[int]:
    waiting = [number for number in gap if step.kinds[number] is not UnitKind.COMPUTE or not step.costs[number].busy]
    free = [number for number in waiting if step.beside[number].isdisjoint(gap)]
    of_m0 = [number for number in gap if (step.units[number].effects.reads | step.units[number].effects.writes) & m0.mask]
    free = [number for number in free if number not in of_m0 or len(of_m0) == 1]
    moving = frozenset(free)
    found: list[int] = []
    for number in gap:
        if number in moving:
            continue
        found.append(number)
        if free and step.kinds[number] is UnitKind.COMPUTE and step.costs[number].busy > step.costs[number].issue:
            found.append(free.pop(0))
    return found + free
