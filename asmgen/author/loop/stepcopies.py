"""Emits copies of a pipeline's step: the prologue, steady copies and the drain, with the schedule's synchronisation and the stagger."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from functools import cached_property, partial, reduce
from itertools import accumulate
from operator import or_
from types import MappingProxyType

from asmgen.author.loop.copyemitter import CopyEmitter, Entries
from asmgen.author.loop.earlyexit import EarlyExit, early_exits
from asmgen.author.loop.maskskips import skipping
from asmgen.author.loop.openings import Opening, opening_of
from asmgen.author.loop.overlap import Epilogue, apart_from, crossed, filled, handing_on, overlapped, precedes
from asmgen.author.loop.pathgraph import EXIT
from asmgen.author.loop.redundantbarriers import LoopBefore, barriers_between, barriers_from, loop_around, redundant_barriers, where_needed
from asmgen.author.loop.spreading import fill_gaps
from asmgen.author.loop.stepunits import CopySpan
from asmgen.author.schedule.schedules import Sync, is_matrix
from asmgen.author.step.effects import Unit
from asmgen.author.step.iterations import PipelineError
from asmgen.isa.registers import SGPR_COUNT, Reg, s


def _level(copies: Sequence[Entries]) -> int | None:
    return next((number for number, copy in enumerate(copies) if Sync("level") in copy), None)


class Copies(CopyEmitter):
    """Emits copies of the step. The paths (`pipeline`, `segmentpaths`) say which copies, and in what order.

    With roles, `mine` selects the units of the role whose code is emitted. Synchronisation is placed as for all units together, so that
    each role has the same barriers on each path.
    """

    def span(self, first: int, end: int, phase: int, start: int | None = None, stop: int | None = None,
             masked: bool = True) -> list[CopySpan]:
        """The copies of steps `first` to `end` - 1, as spans; `phase` is the phase of step `first`.

        `start` is the first step of the loop, `stop` the first step after the loop. None: the copies do not come near it. `masked`: they
        have the operations of `t.masked`.
        """
        def distance(to: int | None, step: int) -> int | None:
            return None if to is None else to - step

        return [CopySpan((phase + step - first) % self.unroll, distance(start, step), distance(stop, step), distance(start, step), masked)
                for step in range(first, end)]

    def prologue(self, phase: int, stop: int | None = None, join: str = "") -> list[int]:
        """Emit what the steps before step 0 do for iterations from 0 on, in emission order, then a wait slot and barriers.

        Step 0 has phase `phase`. Operations that read LDS or run a copy early stand after the barriers, as their data must have arrived. If
        read data is used or its bytes are refilled before step 0, the schedule's order and synchronisation begin with the first such read.
        If the path goes on at label `join` of the drain and the groups are level there, the prologue ends with level groups.
        """
        opening, joined = self._opening(phase, stop), self._level_at.get(join)
        self._ways += [(phase, opening.path)] * (stop is None and not self.units.shape.peel)
        following = [joined] if joined is not None else [*map(self.units.entries, self.span(0, self.unroll, phase, 0, stop))]
        copies = opening.copies
        if copies:
            of_loop = joined is None and self.schedule.stagger  # a staggered loop needs all of its barriers
            kept = barriers_from(len(copies), [*copies, *following]) if of_loop else set[int]()
            copies = self._without_redundant_barriers([*copies, *following], {0: opening.entries}, kept)[:len(copies)]
        if self.unmasked is not None:
            copies = [skipping(copy, self._skips, self.k.fresh, self.k.counted.values()) for copy in copies]
        found = self._open(opening, copies)
        if joined is not None and _level(copies) is None:
            self.shift(opening=False)
        return found

    def straight(self, count: int) -> tuple[list[int], list[int]]:
        """Emit the prologue and all steps of a small count as straight code. Gives the copies as `last` does."""
        opening = self._opening(0, count)
        spans = self.span(0, count, 0, 0, count)
        copies = self._without_redundant_barriers([*opening.copies, *map(self.units.entries, spans)], {0: opening.entries})
        found = self._open(opening, copies)
        usual, served = self._to_the_end(spans, copies[len(opening.spans):], _level(copies))
        return [*found, *usual], [*found, *served]

    def _opening(self, phase: int, stop: int | None) -> Opening:
        """The parts of a prologue."""
        *spans, first = self.span(-self.ahead, 1, phase - self.ahead, 0, stop)
        return opening_of(self.units, spans, first, self.schedule.stagger, self._sources_follow)

    def _open(self, opening: Opening, copies: Sequence[Entries]) -> list[int]:
        """Emit a prologue; its copies are the first of `copies`. The stagger opens before the copies unless one of them opens it."""
        whole, lead = len(opening.placed) - bool(opening.spans), self.units.shape.arrangement.lead
        stands = [(step + (unit.tag.ordinal in lead and step == whole), unit)
                  for step, (units, _, _) in enumerate(opening.placed) for unit in units]
        stands += [(step + self.ahead, entry) for entry, step in zip(opening.early, opening.early_at, strict=True)
                   if isinstance(entry, Unit)]
        phase = opening.placed[0][1].phase if opening.placed else 0
        found = [self._note("prologue", phase, whole, True, stands)]
        begin = len(self.k.items)
        for units, span, more in opening.placed:
            for unit in units:
                self._append(unit)
            if more:
                self._advance(span)
        if self.waiting is not None:
            end = len(self.k.items)
            self.waiting()
            fill_gaps(self.k, begin, end)
        for sync in opening.settled:
            self._sync(sync)
        if not any(Sync("open") in copy for copy in copies):
            self.shift(opening=True)
        for entry in opening.early:
            if isinstance(entry, Sync):
                self._sync(entry)
            else:
                self._append(entry)
        for span, copy in zip(opening.spans, copies, strict=False):
            found.append(self._emit_copy(copy, span, "prologue"))
        return found

    def steady(self, spans: Sequence[CopySpan], meeting: bool = False) -> list[int]:
        """Emit copies in the schedule's order, with its synchronisation; with barriers where they are needed, if all waves are `meeting`
        after them, where what they did is settled."""
        return [self._emit_copy(where_needed(self.units.entries(span), meeting), span, "first") for span in spans]

    def loop(self, spans: Sequence[CopySpan], left: Reg, down: int, entries: Sequence[str],
             exits: Mapping[int, tuple[int, str]] = MappingProxyType({})) -> list[int]:
        """Emit a loop around copies. Each round subtracts `down` from `left`; the loop ends when that borrows. `entries` are labels, one
        before each copy. `exits` are values of `left` with which a round ends after so many copies, each with where it goes on."""
        k, found = self.k, []
        for number, (span, label) in enumerate(zip(spans, entries, strict=True), 1):
            k.label(label)
            test = partial(k.s_sub_u32, left, left, down) if number == len(spans) else \
                partial(k.s_cmp_eq_u32, left, exits[number][0]) if number in exits else None
            found.append(self._emit_copy(self.units.entries(span), span, "loop", test))
            if number in exits and number < len(spans):
                k.s_cbranch_scc1(exits[number][1])
        k.s_cbranch_scc0(entries[0])
        return found

    def last(self, spans: Sequence[CopySpan], entries: Mapping[int, str], shared: bool = False,
             at_once: bool = True) -> tuple[list[int], list[int]]:
        """Emit the drain, without redundant barriers. With a stagger the first group waits for the second one in the position of the first
        redundant barrier.

        `entries` are labels of copies, by the number of steps that are left there: paths join at them after a prologue of their own, or,
        if they are `shared`, after that of longer loops. `at_once`: a count of longer loops may run no round. Gives the copies that waves
        run, and those that an overlapped epilogue serves."""
        copies = [self.units.entries(span) for span in spans]
        before, loop = self._around(spans[0].phase) if spans else ((), None)  # without spans nothing was started ahead
        prefixes = {0: before} if spans else {}
        prefixes |= {len(spans) - left: self._opening(spans[-left].phase, None if shared else left).path for left in entries}
        copies = self._without_redundant_barriers(copies, prefixes, self._needed_by_others(spans, copies, at_once), loop)
        return self._to_the_end(spans, copies, _level(copies), entries)

    def _around(self, phase: int) -> tuple[Entries, LoopBefore | None]:
        """What the loop runs before a copy, as far back as its data come from, and the loop; of a staggered one its matrix work alone."""
        if self.schedule.stagger:
            return self._computing, None
        count = self.unroll + self.ahead
        before, onward = ([*map(self.units.entries, self.span(*steps))] for steps in ((-count, 0, phase - count), (0, count, phase)))
        return loop_around(before, onward, self.unroll, [((way - phase + count) % self.unroll, front) for way, front in self._ways])

    def _needed_by_others(self, spans: Sequence[CopySpan], copies: Sequence[Entries], at_once: bool) -> set[int]:
        """The barriers of the drain, numbered over all its copies, that a path needs which goes there from the prologue of longer loops and
        runs no round, if there is one; and those that an analysis needs which does not know where a cold block that copies share with the
        loops returns to. To it the drain goes on from the loop's copy of that phase, and that copy from the drain. With a stagger the drain
        shares none, as it closes the stagger."""
        if self.schedule.stagger or not spans:
            return set()
        begins = [0, *accumulate(map(len, copies))]
        drain = [entry for copy in copies for entry in copy]
        needed = barriers_between(self._opening(spans[0].phase, None).path, drain)[1] if at_once else set[int]()
        for span, begin, end in zip(spans, begins, begins[1:], strict=False):
            rows = [self.units.entries(other) for other in self.span(-self.unroll, self.unroll + 1, span.phase)]
            loop, middle = [entry for row in rows for entry in row], sum(map(len, rows[:self.unroll]))
            for at, entry in enumerate(drain[begin:end], begin):
                if isinstance(entry, Unit) and entry.tag.cold:
                    back = next(number for number, other in enumerate(loop[middle:], middle)
                                if isinstance(other, Unit) and other.tag.ordinal == entry.tag.ordinal)
                    needed |= {at + 1 + number for number in barriers_between(loop[:back], drain[at + 1:])[1]}
                    needed |= barriers_between(drain[:at], loop[back:])[0]
        return needed

    def join(self, label: str) -> None:
        """Emit what a path needs that leaves the prologue of longer loops for a label of the drain."""
        if label in self._level_at:
            self.shift(opening=False)

    def ordered(self, span: CopySpan) -> list[Unit]:
        """The units of a copy, in the schedule's order."""
        return [entry for entry in self.units.entries(span) if isinstance(entry, Unit)]

    def _to_the_end(self, spans: Sequence[CopySpan], copies: list[list[Sync | Unit]], level: int | None,
                    entries: Mapping[int, str] = MappingProxyType({})) -> tuple[list[int], list[int]]:
        """Emit the last copies. In copy `level`, if any, the stagger closes."""
        found: list[int] = []
        served: list[int] = []
        exits = len(self._exits)
        if self.early_exit is not None:
            self._insert_early_exits(spans, copies, level is not None)
        for number, (span, copy) in enumerate(zip(spans, copies, strict=True)):
            if len(spans) - number in entries:
                self.k.label(entries[len(spans) - number])
                if level is not None and level < number:
                    self._level_at[entries[len(spans) - number]] = [entry for later in copies[number:] for entry in later]
            if self.epilogue is not None and number == len(spans) - 1:
                served = [*found, self._end(self.epilogue, copy, span, level is None)]
                if self.chosen:
                    return found, served
            found.append(self._emit_copy(copy, span, "drain"))
        if level is None:
            self.shift(opening=False)
        self._exits_after += [tuple(found)] * (len(self._exits) - exits)
        return found, served or found

    @cached_property
    def _computing(self) -> Entries:
        """The barriers and matrix units of a steady copy: what matters for the matrix cores before the last copies."""
        matrix = {unit.tag.ordinal: unit for unit in self.units.every() if is_matrix(unit)}
        return [entry if isinstance(entry, Sync) else matrix[entry] for entry in self.units.shape.arrangement.order
                if isinstance(entry, Sync) or entry in matrix]

    def _end(self, epilogue: Epilogue, last: Sequence[Sync | Unit], span: CopySpan, level: bool) -> int:
        """Emit a copy of the last step with the epilogue, after the guard where it has not chosen yet."""
        k = self.k
        found = self._note_copy("last", last, span)
        other = k.fresh("no_ending")
        if not self.chosen:
            epilogue.guard(other)
        self._place(self._mixed(epilogue, last)[0])
        if level:
            self.shift(opening=False)
        epilogue.end_kernel(k)
        if not self.chosen:
            k.label(other)
        return found

    def _mixed(self, epilogue: Epilogue, last: Entries, fills: bool = False) -> tuple[list[Sync | Unit], int]:
        """A copy of the last step with the epilogue's body in its gaps; if it still `fills` LDS, after what may stand before it. And how
        many units of the body follow the copy."""
        k = self.k
        with k.section() as section:
            epilogue.body()
        units = section.units
        k.cut(section.start)
        mine = [entry for entry in last if isinstance(entry, Sync) or self.mine(entry)]
        before = apart_from(mine, units) if fills else 0
        order = [*units[:before], *overlapped(mine, units[before:], k.arch)]
        own = {id(unit) for unit in units}
        return order, next((number for number, entry in enumerate(reversed(order)) if id(entry) not in own), 0)

    def mixed(self, epilogue: Epilogue, span: CopySpan, leaves: bool) -> tuple[int, list[Unit]]:
        """Emit a copy, but for its end, with the epilogue's body in its gaps; what finds no room is returned if it `leaves` that."""
        every = self.units.entries(span)
        found = self._note_copy("last", every, span)
        order, follow = self._mixed(epilogue, every, True)
        end = len(order) - follow * leaves
        end += handing_on([entry for entry in order[end:] if isinstance(entry, Unit)])
        rest = [entry for entry in order[end:] if isinstance(entry, Unit)]
        self._place(order[:end])
        return found, rest

    def beginning(self, span: CopySpan, change: Callable[[Unit], Unit], rest: Sequence[Unit], settled: bool) -> int:
        """Emit a copy, its units changed, with the rest of an epilogue in its gaps; with barriers where they are needed, if all
        waves have `settled` what copies before it did, and met then."""
        every = [entry if isinstance(entry, Sync) else change(entry) for entry in where_needed(self.units.entries(span), settled)]
        if not rest:
            return self._emit_copy(every, span, "first")
        noted = self._note_copy("first", every, span)
        self._place(crossed([entry for entry in every if isinstance(entry, Sync) or self.mine(entry)], rest, self.k.arch))
        self.end_copy(span)
        return noted

    def before(self, rest: Sequence[Unit], emit: Callable[[], None]) -> None:
        """Emit code where units of an epilogue follow that come before it in emission order. It gets none of their SGPRs. Raises
        PipelineError for code that may not stand before them."""
        if not rest:
            emit()
            return
        plan, used = self.k.registers, reduce(or_, (unit.effects.reads | unit.effects.writes for unit in rest), 0)
        assert plan is not None
        free = [s[number] for number in range(SGPR_COUNT) if used & s[number].mask and not plan.holds(s[number])]
        pins = [plan.pin(f"epilogue_{register}", register) for register in free]
        with self.k.section() as section:
            emit()
        for pin in pins:
            plan.release(pin)
        for unit in section.units:
            other = next((one for one in rest if precedes(one, unit)), None)
            if other is not None:
                raise PipelineError(f"{unit} would stand before {other}, for which the epilogue of the item before finds no room in its "
                                    "last step, and one of them writes what the other one uses. An epilogue copies such registers at its "
                                    "begin", unit.first.where())

    def beside(self, span: CopySpan, emit: Callable[[], None]) -> int:
        """Emit a copy with the code that `emit` emits, without labels, in its gaps."""
        k, every = self.k, self.units.entries(span)
        with k.section() as section:
            emit()
        code = section.units
        k.cut(section.start)
        noted = self._note_copy("first", every, span)
        mine = [entry for entry in every if isinstance(entry, Sync) or self.mine(entry)]
        self._place(filled(mine, code, k.arch))
        self.end_copy(span)
        return noted

    def _insert_early_exits(self, spans: Sequence[CopySpan], copies: list[list[Sync | Unit]], levelled: bool) -> None:
        """Put the branches of early exits into the last copies; `emit_early_exits` emits their targets."""
        first = next((number for number, span in enumerate(spans) if span.low == 0), -1)
        skipped = max(0, len(spans) - self.ahead)  # copies without exits
        for exit_ in early_exits(copies[skipped:], self.units.shape.offsets, first - skipped):  # the last ones first
            copy = skipped + exit_.copy
            if not self._sources_follow(spans[copy]):
                copies[copy].insert(exit_.at, Sync("exit", len(self._exits)))
                self._exits.append((self.k.fresh("leaves"), exit_, levelled))

    def emit_early_exits(self) -> None:
        """The code after each early exit. It stands after all other paths, and all waves go on after it."""
        if not self._exits:
            return
        k, out = self.k, self.k.fresh("all_done")
        k.s_branch(out)
        for (label, exit_, levelled), after in zip(self._exits, self._exits_after, strict=True):
            k.label(label)
            self._note_exit(exit_, after)
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

    def _note_exit(self, exit_: EarlyExit, after: tuple[int, ...]) -> None:
        """Note the copy that a wave leaves, and what it runs then; `after` are the copies of the drain."""
        number = max(0, len(after) - self.ahead) + exit_.copy
        left = self.parts[after[number]]
        code = [(step, unit) for step, unit in zip(exit_.steps, exit_.code, strict=True) if isinstance(unit, Unit)]
        noted = self._note(EXIT, left.phase, len(after) - number, left.masked, [*left.placed[:exit_.units], *code])
        self.leaves.append((exit_.skipped, after[number], noted))

    def _without_redundant_barriers(self, copies: Sequence[Entries], prefixes: Mapping[int, Entries], kept: Set[int] = frozenset(),
                                    loop: LoopBefore | None = None) -> list[list[Sync | Unit]]:
        """Copies without redundant barriers. `prefixes`: by the copy that a path enters at, the entries that it runs before; the first one
        is a `loop`, if there is one. The barriers in `kept`, numbered over all copies, stay."""
        begins = [0, *accumulate(map(len, copies))]
        replaced = redundant_barriers([entry for copy in copies for entry in copy], self.schedule.stagger,
                                {begins[number]: front for number, front in prefixes.items()}, kept, loop)
        return [[replaced.get(position) or entry for position, entry in enumerate(copy, begins[number]) if replaced.get(position, entry)]
                for number, copy in enumerate(copies)]
