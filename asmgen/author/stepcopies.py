"""Copies of a pipeline's step as code: prologue, steady copies, the last ones, with the schedule's synchronisation and the stagger."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

from asmgen.author.effects import Unit, depends
from asmgen.author.ending import Ending, mixed
from asmgen.author.idlebarriers import idle_barriers
from asmgen.author.leaving import Leave, leaves
from asmgen.author.schedules import Schedule, Sync, is_matrix
from asmgen.author.stepunits import Place, StepUnits
from asmgen.isa.registers import Reg, scc

if TYPE_CHECKING:
    from asmgen.author.builder import Builder


def _reads_lds(unit: Unit) -> bool:
    return any(use.action == "read" for instruction in unit.instructions for use in instruction.tokens)


def _fills_lds(unit: Unit) -> bool:
    return any(use.action == "write" for instruction in unit.instructions for use in instruction.tokens)


def _everything(unit: Unit) -> bool:
    return True


class Copies:
    """Emits copies of the step at places; paths (`pipeline`, `segmentpaths`) say which and in what order.

    Where waves have different roles, `mine` says which units are those of the role whose code is emitted. Synchronisation is placed as
    for all units together, so that every role has the same barriers on every path.
    """

    def __init__(self, k: Builder, units: StepUnits, schedule: Schedule, groups: Reg | None, peel: int,
                 mine: Callable[[Unit], bool] = _everything, ending: Ending | None = None,
                 idle: Reg | None = None) -> None:
        self.k, self.units, self.schedule, self.groups, self.peel, self.mine = k, units, schedule, groups, peel, mine
        self.ending = ending
        self.idle = idle  # of how many last iterations a wave can do without
        self._ways: list[tuple[str, Leave, bool]] = []  # label, what is done there, and whether the groups are level then
        self._level_at: dict[str, list[Sync | Unit]] = {}  # last copies that other paths join, by label, where the groups are level there
        self.ahead, self.unroll = units.shape.ahead, units.shape.unroll

    def span(self, first: int, end: int, phase: int, start: int | None = None, seam: int | None = None,
             stop: int | None = None) -> list[Place]:
        """The places of steps `first` to `end` - 1; `phase` is that of step `first`.

        `start`, `seam` and `stop` are the steps at which the loop, its second segment and what lies behind it begin, where that matters.
        """
        def distance(to: int | None, step: int) -> int | None:
            return None if to is None else to - step

        return [Place((phase + step - first) % self.unroll, distance(start, step), distance(stop, step), distance(seam, step),
                      distance(start if self.peel else None, step)) for step in range(first, end)]

    def prologue(self, phase: int, seam: int | None = None, stop: int | None = None, join: str = "") -> list[Unit]:
        """What steps before step 0, which has that phase, do for iterations from 0 on: in emission order, then a wait point and barriers.

        Operations that read LDS, or run a copy early, come behind the barriers, as what they read must have landed; these are returned.
        Where what was read is used before step 0, or its place filled anew, the schedule's order and synchronisation begin with the first
        such read. Where all goes on at a label of the last copies, `join`, at which the groups are level, they are made so.
        """
        k, lead = self.k, self.units.shape.arrangement.lead
        early: list[Unit] = []
        placed: list[Unit] = []
        *places, first = self.span(-self.ahead, 1, phase - self.ahead, 0, seam, stop)
        opening = self._opening(places)
        for place in places[:opening]:
            for unit in self.units.kept(place):
                (early if _reads_lds(unit) else placed).append(unit)
                if not _reads_lds(unit):
                    self._append(unit)
            if self._sources_follow(place):
                k.step_ends()
        ordered: list[Sync | Unit] = []
        if opening < len(places):
            ordered = self._entries(places[opening])
            cut = next(number for number, entry in enumerate(ordered) if isinstance(entry, Unit) and _reads_lds(entry))
            for entry in ordered[:cut]:
                if isinstance(entry, Unit):
                    placed.append(entry)
                    self._append(entry)
            ordered = ordered[cut:]
        if lead:
            of_first = {unit.tag.ordinal: unit for unit in self.units.kept(first)}
            early += [of_first[entry] for entry in self.units.shape.arrangement.order
                      if isinstance(entry, int) and entry in lead and entry in of_first]
        if any(map(_fills_lds, placed)):
            self._sync(Sync("wait"))
            for _ in range(1 + self.schedule.stagger):
                self._sync(Sync("barrier"))
        self.shift(opening=True)
        for unit in early:
            self._append(unit)
        copies = [ordered, *map(self._entries, places[opening + 1:])] if opening < len(places) else []
        behind, level = self._level_at.get(join), None
        if behind is not None:
            copies, level = self._levelled(copies, self._idle([*copies, behind], early, []))
        for place, copy in zip(places[opening:], copies, strict=True):
            self._place(copy, None, self._sources_follow(place))
        if not copies and early and Sync("wait") in self.units.shape.arrangement.order:
            self._sync(Sync("wait"))  # as copies wait for the reads of the next one: else every round pays for the first
        for _ in range(self._barriers_missing(early, first) if not copies else 0):
            self._sync(Sync("barrier"))
        if behind is not None and level is None:
            self.shift(opening=False)
        return early

    def _barriers_missing(self, early: Sequence[Unit], first: Place) -> int:
        """How many barriers step 0 lacks in front of what fills the places of reads that stand before it: in a loop those at the end of
        the copy before do it."""
        needed, passed = 0, 0
        for entry in self._entries(first):
            if isinstance(entry, Sync):
                passed += entry.kind == "barrier"
            elif _fills_lds(entry) and any(access.conflicts(other) for access in entry.effects.memory
                                           for read in early for other in read.effects.memory):
                needed = max(needed, 1 + self.schedule.stagger - passed)
        return needed

    def _opening(self, places: Sequence[Place]) -> int:
        """How many copies of a prologue stand in emission order: all, or those before the first read of LDS on whose data, or in whose
        place, something is done before step 0."""
        reads: list[Unit] = []
        found = len(places)
        for number, place in enumerate(places):
            for unit in self.units.kept(place):
                if _reads_lds(unit):
                    found = number if not reads else found
                    reads.append(unit)
                elif any(depends(unit, read) for read in reads):
                    return found
        return len(places)

    def steady(self, places: Sequence[Place], end: bool = False) -> None:
        """Copies in the schedule's order, with its synchronisation; at the `end`, those of the last iterations alone follow."""
        for number, place in enumerate(places, 1):
            read = replace(place, high=self.ahead + 1) if end and number == len(places) else place  # by what is behind it
            self._place(self._entries(place), None, self._sources_follow(read))

    def loop(self, places: Sequence[Place], left: Reg, down: int) -> None:
        """A round of copies again and again; `left` goes down by `down` each, until it borrows."""
        k = self.k
        label = k.fresh("loop")
        k.label(label)
        for number, place in enumerate(places, 1):
            self._place(self._entries(place), (left, down) if number == len(places) else None, self._sources_follow(place))
        k.s_cbranch_scc0(label)

    def last(self, places: Sequence[Place], early: Sequence[Unit] = (), entries: Mapping[int, str] = MappingProxyType({})) -> None:
        """Copies up to the loop's end, without the barriers that order nothing any more; `early` stand in front of them. With a stagger
        the first group waits for the second one in place of the first of these. `entries` are labels of the copies that other paths join
        at, by how many steps are left there."""
        placed = [self._entries(place) for place in places]
        kept, level = self._levelled(placed, self._idle(placed, early, [len(places) - left for left in entries]))
        if self.idle is not None:
            self._let_leave(places, kept, level is not None)
        for number, (place, copy) in enumerate(zip(places, kept, strict=True)):
            if len(places) - number in entries:
                self.k.label(entries[len(places) - number])
                if level is not None and level < (number, 0):
                    self._level_at[entries[len(places) - number]] = [entry for later in kept[number:] for entry in later]
            if self.ending is not None and number == len(places) - 1:
                self._end(self.ending, copy, level is None)
            self._place(copy, None, self._sources_follow(place))
        if level is None:
            self.shift(opening=False)

    def _end(self, ending: Ending, last: Sequence[Sync | Unit], level: bool) -> None:
        """A copy of the last step with the ending, where that serves."""
        k = self.k
        other = k.fresh("no_ending")
        ending.guard(other)
        with k.section() as section:
            ending.body()
        units = section.units
        k.cut(section.start)
        for entry in mixed([entry for entry in last if isinstance(entry, Sync) or self.mine(entry)], units, k.arch):
            if isinstance(entry, Sync):
                self._sync(entry)
            else:
                k.append_unit(entry)
        if level:
            self.shift(opening=False)
        ending.end(k)
        k.label(other)

    def _let_leave(self, places: Sequence[Place], copies: list[list[Sync | Unit]], levelled: bool) -> None:
        """Put the places into the last copies where waves leave; their ways are emitted by `ways_out`."""
        first = next((number for number, place in enumerate(places) if place.low == 0), -1)
        end = places[-1]
        masked = len(places) if end.seam is None or end.high is None else end.high - end.seam  # steps: no wave does without plain ones
        for leave in leaves(copies, self.units.shape.offsets, first):  # the last ones first
            if len(places) - leave.copy <= self.ahead and leave.idle <= masked and not self._sources_follow(places[leave.copy]):
                copies[leave.copy].insert(leave.at, Sync("leave", len(self._ways)))
                self._ways.append((self.k.fresh("leaves"), leave, levelled))

    def ways_out(self) -> None:
        """What waves do that leave early, behind all other paths; all go on behind it."""
        if not self._ways:
            return
        k, out = self.k, self.k.fresh("all_done")
        k.s_branch(out)
        for label, leave, levelled in self._ways:
            k.label(label)
            for number, entry in enumerate(leave.way):
                if isinstance(entry, Unit):
                    k.append_unit(entry)
                elif number in leave.read:
                    k.barrier_of_readers(leave.read[number])
                else:
                    self._sync(entry)
            if not levelled:
                self.shift(opening=False)
            if label != self._ways[-1][0]:
                k.s_branch(out)
        k.label(out)

    def _levelled(self, placed: Sequence[Sequence[Sync | Unit]], idle: set[tuple[int, int]]) \
            -> tuple[list[list[Sync | Unit]], tuple[int, int] | None]:
        """Copies without idle barriers. With a stagger the first group waits for the second one in place of the first of these: where."""
        level = min(idle, default=None) if self.schedule.stagger else None
        return [[Sync("level") if (number, at) == level else entry for at, entry in enumerate(copy)
                 if (number, at) not in idle or (number, at) == level] for number, copy in enumerate(placed)], level

    def _idle(self, placed: Sequence[Sequence[Sync | Unit]], early: Sequence[Unit], joins: Sequence[int]) -> set[tuple[int, int]]:
        """Barriers, by copy and place in it, that are idle whether code comes from the first copy or joins at another one."""
        found: set[tuple[int, int]] | None = None
        joined = len(placed)
        for first in sorted({0, *joins}, reverse=True):
            names = [(number, at) for number in range(first, len(placed)) for at in range(len(placed[number]))]
            front = early if not first else ()
            flat = [*front, *(placed[number][at] for number, at in names)]
            mine = {names[place - len(front)] for place in idle_barriers(flat, self.schedule.stagger)}
            # Copies that a later way in does not go through are judged by the others.
            found = mine if found is None else {name for name in mine if name in found or name[0] < joined}
            joined = first
        return found or set()

    def shift(self, opening: bool) -> None:
        """The conditional barriers that put the second group behind the first, and bring the first back level with it."""
        if not self.schedule.stagger:
            return
        k = self.k
        assert self.groups is not None
        label = k.fresh("in_phase" if opening else "level")
        k.s_cmp_eq_u32(self.groups, 0)
        (k.s_cbranch_scc1 if opening else k.s_cbranch_scc0)(label)
        for _ in range(self.schedule.stagger):
            k.s_barrier()
        k.label(label)

    # ---- one copy ----

    def _append(self, unit: Unit) -> None:
        if self.mine(unit):
            self.k.append_unit(unit)

    def _entries(self, place: Place) -> list[Sync | Unit]:
        """What a copy consists of, in the schedule's order."""
        chosen = self.units.placed(place)
        return [entry if isinstance(entry, Sync) else chosen[entry] for entry in self.units.shape.arrangement.order
                if isinstance(entry, Sync) or entry in chosen]

    def _place(self, every: Sequence[Sync | Unit], count_down: tuple[Reg, int] | None, more: bool) -> None:
        entries = [entry for entry in every if isinstance(entry, Sync) or self.mine(entry)]
        last = max((place for place, entry in enumerate(entries) if isinstance(entry, Unit)), default=len(entries))
        final = entries[last] if last < len(entries) else None
        # The last unit hides the subtraction, unless it changes SCC, stands in a later block or still reads what moves on.
        before = isinstance(final, Unit) and not (final.effects.writes & scc.mask or final.is_block or self.k.follows_sources(final))
        last = self._before_vector_work(entries, last) if before else last
        for place, entry in enumerate(entries):
            if place == last and before:
                self._end_copy(count_down, more)
            if isinstance(entry, Sync):
                self._sync(entry)
            else:
                self.k.append_unit(entry)
        if not before:
            self._end_copy(count_down, more)

    def _before_vector_work(self, entries: Sequence[Sync | Unit], last: int) -> int:
        """The last unit of the memory stage before the last stage, where that has vector work, which leaves its windows no room."""
        units = [(place, entry) for place, entry in enumerate(entries) if isinstance(entry, Unit)]
        stage = units[-1][1].tag.stage
        mine = [unit for _, unit in units if unit.tag.stage == stage]
        if not any(is_matrix(unit) for unit in mine) or all(is_matrix(unit) for unit in mine):
            return last
        for place, unit in reversed(units):
            if self.k.follows_sources(unit) or (unit.effects.writes | unit.effects.reads) & scc.mask:
                break
            if unit.tag.stage != stage and not unit.is_block:
                return place
        return last

    @cached_property
    def _source_offsets(self) -> list[int]:
        return self.units.source_offsets(self.mine)

    def _sources_follow(self, place: Place) -> bool:
        """Whether a copy behind this one still reads a source in memory, so that sources must go on."""
        offsets = self._source_offsets
        if place.high is None:
            return bool(offsets) or self.mine is _everything
        return min(offsets, default=place.high) < place.high - 1

    def _end_copy(self, count_down: tuple[Reg, int] | None, more: bool) -> None:
        """The scalar code of a copy's end; what the branch tests comes last."""
        if more:
            self.k.step_ends()
        if count_down is not None:
            self.k.s_sub_u32(count_down[0], count_down[0], count_down[1])

    def _sync(self, what: Sync) -> None:
        k = self.k
        if what.kind == "barrier":
            k.s_barrier()
        elif what.kind == "level":
            self.shift(opening=False)
        elif what.kind == "leave":
            label, leave, _ = self._ways[what.level]
            assert self.idle is not None
            k.s_cmp_ge_i32(self.idle, leave.idle)
            k.s_cbranch_scc1(label)
        elif what.kind == "priority":
            k.s_setprio(what.level)
        else:
            k.wait_point()
