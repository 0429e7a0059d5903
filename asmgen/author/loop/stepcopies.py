"""Copies of a pipeline's step as code: prologue, steady copies, the last ones, with the schedule's synchronisation and the stagger."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from types import MappingProxyType
from typing import TYPE_CHECKING

from asmgen.author.loop.earlyexit import EarlyExit, early_exits
from asmgen.author.loop.overlap import Epilogue, overlapped
from asmgen.author.loop.redundantbarriers import redundant_barriers
from asmgen.author.loop.stepunits import Place, StepUnits
from asmgen.author.schedule.schedules import Schedule, Sync, is_matrix
from asmgen.author.step.effects import Unit, depends
from asmgen.isa.records import dataclass
from asmgen.isa.registers import Reg, scc

if TYPE_CHECKING:
    from asmgen.author.emit.builder import Builder


Entries = Sequence[Sync | Unit]


@dataclass(frozen=True)
class _Opening:
    """What a prologue consists of: units in emission order, step by step, with whether sources follow; what settles their fills; what
    stands behind that; and copies in the schedule's order, at their places."""

    placed: list[tuple[list[Unit], bool]]
    settled: list[Sync]
    early: list[Sync | Unit]
    places: list[Place]
    copies: list[list[Sync | Unit]]

    @property
    def entries(self) -> list[Sync | Unit]:
        """All in front of the copies, the second group falling behind in its place."""
        return [*(unit for units, _ in self.placed for unit in units), *self.settled, Sync("open"), *self.early]


def _reads_lds(unit: Unit) -> bool:
    return any(use.action == "read" for instruction in unit.instructions for use in instruction.tokens)


def _fills_lds(unit: Unit) -> bool:
    return any(use.action == "write" for instruction in unit.instructions for use in instruction.tokens)


def _everything(unit: Unit) -> bool:
    return True


def _level(copies: Sequence[Entries]) -> int | None:
    return next((number for number, copy in enumerate(copies) if Sync("level") in copy), None)


class Copies:
    """Emits copies of the step at places; paths (`pipeline`, `segmentpaths`) say which and in what order.

    Where waves have different roles, `mine` says which units are those of the role whose code is emitted. Synchronisation is placed as
    for all units together, so that every role has the same barriers on every path.
    """

    def __init__(self, k: Builder, units: StepUnits, schedule: Schedule, groups: Reg | None, peel: int,
                 mine: Callable[[Unit], bool] = _everything, epilogue: Epilogue | None = None,
                 early_exit: Reg | None = None) -> None:
        self.k, self.units, self.schedule, self.groups, self.peel, self.mine = k, units, schedule, groups, peel, mine
        self.epilogue = epilogue
        self.early_exit = early_exit  # how many of the last iterations a wave can skip
        self._exits: list[tuple[str, EarlyExit, bool]] = []  # label, exit, and whether the groups are level after its code
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

    def prologue(self, phase: int, seam: int | None = None, stop: int | None = None, join: str = "") -> None:
        """What steps before step 0, which has that phase, do for iterations from 0 on: in emission order, then a wait slot and barriers.

        Operations that read LDS, or run a copy early, come behind the barriers, as what they read must have landed. Where what was read
        is used before step 0, or its place filled anew, the schedule's order and synchronisation begin with the first such read. Where all
        goes on at a label of the last copies, `join`, at which the groups are level, they are made so.
        """
        opening = self._opening(phase, seam, stop)
        behind = self._level_at.get(join)
        following = [behind] if behind is not None else map(self._entries, self.span(0, self.unroll, phase, 0, seam, stop))
        copies = opening.copies
        if copies and (behind is not None or not self.schedule.stagger):  # a loop that goes on out of phase needs all of them
            copies = self._without_redundant_barriers([*copies, *following], {0: opening.entries})[:len(copies)]
        self._open(opening, copies)
        if behind is not None and _level(copies) is None:
            self.shift(opening=False)

    def straight(self, count: int, seam: int | None = None) -> None:
        """Prologue and all steps of a small count, as one straight code."""
        opening = self._opening(0, seam, count)
        places = self.span(0, count, 0, 0, seam, count)
        copies = self._without_redundant_barriers([*opening.copies, *map(self._entries, places)], {0: opening.entries})
        self._open(opening, copies)
        self._to_the_end(places, copies[len(opening.places):], _level(copies))

    def _opening(self, phase: int, seam: int | None, stop: int | None) -> _Opening:
        """What a prologue consists of."""
        lead = self.units.shape.arrangement.lead
        *places, first = self.span(-self.ahead, 1, phase - self.ahead, 0, seam, stop)
        plain = self._plain(places)
        early: list[Sync | Unit] = []
        placed: list[tuple[list[Unit], bool]] = []
        for place in places[:plain]:
            units = self.units.kept(place)
            early += [unit for unit in units if _reads_lds(unit)]
            placed.append(([unit for unit in units if not _reads_lds(unit)], self._sources_follow(place)))
        copies = [self._entries(place) for place in places[plain:]]
        if copies:
            cut = next(number for number, entry in enumerate(copies[0]) if isinstance(entry, Unit) and _reads_lds(entry))
            placed.append(([entry for entry in copies[0][:cut] if isinstance(entry, Unit)], False))
            copies[0] = copies[0][cut:]
        if lead:
            of_first = {unit.tag.ordinal: unit for unit in self.units.kept(first)}
            early += [of_first[entry] for entry in self.units.shape.arrangement.order
                      if isinstance(entry, int) and entry in lead and entry in of_first]
        if not copies and early and Sync("wait") in self.units.shape.arrangement.order:
            early.append(Sync("wait"))  # as copies wait for the reads of the next one: else every round pays for the first
        early += [Sync("barrier")] * (self._barriers_missing(early, first) if not copies else 0)
        filled = any(_fills_lds(unit) for units, _ in placed for unit in units)
        barriers = 1 + self.schedule.stagger if filled else 0
        return _Opening(placed, [Sync("wait"), *[Sync("barrier")] * barriers] if filled else [], early, places[plain:], copies)

    def _barriers_missing(self, early: Entries, first: Place) -> int:
        """How many barriers step 0 lacks in front of what fills the places of reads that stand before it: in a loop those at the end of
        the copy before do it."""
        needed, passed = 0, 0
        for entry in self._entries(first):
            if isinstance(entry, Sync):
                passed += entry.kind == "barrier"
            elif _fills_lds(entry) and any(access.conflicts(other) for access in entry.effects.memory
                                           for read in early if isinstance(read, Unit) for other in read.effects.memory):
                needed = max(needed, 1 + self.schedule.stagger - passed)
        return needed

    def _open(self, opening: _Opening, copies: Sequence[Entries]) -> None:
        """A prologue, with these `copies` (and maybe more) for its own; the second group falls behind in front, if not in one of them."""
        for units, more in opening.placed:
            for unit in units:
                self._append(unit)
            if more:
                self.k.step_ends()
        for sync in opening.settled:
            self._sync(sync)
        if not any(Sync("open") in copy for copy in copies):
            self.shift(opening=True)
        for entry in opening.early:
            if isinstance(entry, Sync):
                self._sync(entry)
            else:
                self._append(entry)
        for place, copy in zip(opening.places, copies, strict=False):
            self._place(copy, None, self._sources_follow(place))

    def _plain(self, places: Sequence[Place]) -> int:
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

    def steady(self, places: Sequence[Place]) -> None:
        """Copies in the schedule's order, with its synchronisation."""
        for place in places:
            self._place(self._entries(place), None, self._sources_follow(place))

    def loop(self, places: Sequence[Place], left: Reg, down: int) -> None:
        """A round of copies again and again; `left` goes down by `down` each, until it borrows."""
        k = self.k
        label = k.fresh("loop")
        k.label(label)
        for number, place in enumerate(places, 1):
            self._place(self._entries(place), (left, down) if number == len(places) else None, self._sources_follow(place))
        k.s_cbranch_scc0(label)

    def last(self, places: Sequence[Place], entries: Mapping[int, str] = MappingProxyType({})) -> None:
        """Copies up to the loop's end, without the barriers that order nothing any more. With a stagger the first group waits for the
        second one in place of the first of these. `entries` are labels of the copies that other paths join at, behind a prologue of their
        own, by how many steps are left there."""
        copies = [self._entries(place) for place in places]
        prefixes: dict[int, Entries] = {0: self._computing}
        for left in entries:
            opening = self._opening(places[-left].phase, None, left)
            prefixes[len(places) - left] = [*opening.entries, *(entry for copy in opening.copies for entry in copy)]
        copies = self._without_redundant_barriers(copies, prefixes)
        self._to_the_end(places, copies, _level(copies), entries)

    def _to_the_end(self, places: Sequence[Place], copies: list[list[Sync | Unit]], level: int | None,
                    entries: Mapping[int, str] = MappingProxyType({})) -> None:
        """Emit the last copies; in copy `level`, if any, the groups come level."""
        if self.early_exit is not None:
            self._insert_early_exits(places, copies, level is not None)
        for number, (place, copy) in enumerate(zip(places, copies, strict=True)):
            if len(places) - number in entries:
                self.k.label(entries[len(places) - number])
                if level is not None and level < number:
                    self._level_at[entries[len(places) - number]] = [entry for later in copies[number:] for entry in later]
            if self.epilogue is not None and number == len(places) - 1:
                self._end(self.epilogue, copy, level is None)
            self._place(copy, None, self._sources_follow(place))
        if level is None:
            self.shift(opening=False)

    @cached_property
    def _computing(self) -> Entries:
        """A steady copy's barriers and matrix work, which touches no LDS: what is in front of the last copies, for the matrix cores."""
        matrix = {unit.tag.ordinal: unit for unit in self.units.every() if is_matrix(unit)}
        return [entry if isinstance(entry, Sync) else matrix[entry] for entry in self.units.shape.arrangement.order
                if isinstance(entry, Sync) or entry in matrix]

    def _end(self, epilogue: Epilogue, last: Sequence[Sync | Unit], level: bool) -> None:
        """A copy of the last step with the epilogue, where that serves."""
        k = self.k
        other = k.fresh("no_ending")
        epilogue.guard(other)
        with k.section() as section:
            epilogue.body()
        units = section.units
        k.cut(section.start)
        for entry in overlapped([entry for entry in last if isinstance(entry, Sync) or self.mine(entry)], units, k.arch):
            if isinstance(entry, Sync):
                self._sync(entry)
            else:
                k.append_unit(entry)
        if level:
            self.shift(opening=False)
        epilogue.end_kernel(k)
        k.label(other)

    def _insert_early_exits(self, places: Sequence[Place], copies: list[list[Sync | Unit]], levelled: bool) -> None:
        """Put the branches of early exits into the last copies; `emit_early_exits` emits their targets."""
        first = next((number for number, place in enumerate(places) if place.low == 0), -1)
        end, skipped = places[-1], max(0, len(places) - self.ahead)  # copies without exits
        masked = len(places) if end.seam is None or end.high is None else end.high - end.seam  # steps: no wave skips plain ones
        for exit_ in early_exits(copies[skipped:], self.units.shape.offsets, first - skipped):  # the last ones first
            copy = skipped + exit_.copy
            if exit_.skipped <= masked and not self._sources_follow(places[copy]):
                copies[copy].insert(exit_.at, Sync("exit", len(self._exits)))
                self._exits.append((self.k.fresh("leaves"), exit_, levelled))

    def emit_early_exits(self) -> None:
        """The code after each early exit. It stands after all other paths, and all waves go on after it."""
        if not self._exits:
            return
        k, out = self.k, self.k.fresh("all_done")
        k.s_branch(out)
        for label, exit_, levelled in self._exits:
            k.label(label)
            for number, entry in enumerate(exit_.code):
                if isinstance(entry, Unit):
                    k.append_unit(entry)
                elif number in exit_.reads:
                    k.barrier_of_readers(exit_.reads[number])
                else:
                    self._sync(entry)
            if not levelled:
                self.shift(opening=False)
            if label != self._exits[-1][0]:
                k.s_branch(out)
        k.label(out)

    def _without_redundant_barriers(self, copies: Sequence[Entries], prefixes: Mapping[int, Entries]) -> list[list[Sync | Unit]]:
        """Copies without idle barriers; `prefixes` are what paths do in front of the copies they begin with."""
        begins = [0, *accumulate(map(len, copies))]
        instead = redundant_barriers([entry for copy in copies for entry in copy], self.schedule.stagger,
                                {begins[number]: front for number, front in prefixes.items()})
        return [[instead.get(place) or entry for place, entry in enumerate(copy, begins[number]) if instead.get(place, entry)]
                for number, copy in enumerate(copies)]

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
        elif what.kind in ("open", "level"):
            self.shift(what.kind == "open")
        elif what.kind == "exit":
            label, exit_, _ = self._exits[what.level]
            assert self.early_exit is not None
            k.s_cmp_ge_i32(self.early_exit, exit_.skipped)
            k.s_cbranch_scc1(label)
        elif what.kind == "priority":
            k.s_setprio(what.level)
        else:
            k.wait_slot()
