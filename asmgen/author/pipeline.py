"""Pipelines: one step of a loop, written once, becomes prologue, unrolled loop, tails and a path for every count.

`pipeline(k, step, count, schedule)` calls `step(t)` once for each phase of the unroll and makes every copy from that. With d the
farthest iteration ahead that the step names (`t + d`) and u the least common multiple of the stages it uses, the code is

    count below d: a prologue and that many copies, straight through, for each such count
    prologue      the parts of steps -d to -1 whose iterations exist, then, where
                  LDS was filled a wait point and 1 + stagger barriers
    loop          u copies, as long as u steps are left before the last d
    rest          for each number of steps left over, below u: so many copies, then the last d steps without what lies beyond the end

In every copy the schedule's order is checked by `merge` against emission order, over the seam to the next step too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from asmgen.author.effects import Unit
from asmgen.author.idlebarriers import idle_barriers
from asmgen.author.merge import MergeError, merge
from asmgen.author.schedules import Arrangement, Schedule, Sync
from asmgen.author.steps import Copy, PipelineError, StepIndex
from asmgen.isa.operands import Symbol
from asmgen.isa.registers import Reg, scc
from asmgen.program.program import Instruction, Item, Label

if TYPE_CHECKING:
    from asmgen.author.builder import Builder

Step = Callable[[StepIndex], object]


@dataclass(frozen=True)
class Shape:
    """What a pipeline looks like: steps ahead, unroll, and the arrangement of a steady copy; `offsets` are iterations by ordinal.

    `first` is the arrangement of a peeled first step, whose operations may be others.
    """

    ahead: int
    unroll: int
    arrangement: Arrangement
    offsets: dict[int, int]
    first: Arrangement


def pipeline(k: Builder, step: Step, count: Reg | int, schedule: Schedule, groups: Reg | None = None, peel: int = 0) -> Shape:
    """Emit the loop of `count` (an SGPR, which is used up, or a number; at least 1) steps.

    `groups` is an SGPR that is 0 for waves of the first group and 1 for those of the second, where the schedule has a stagger. With
    `peel=1`, `t.first` is true in the first step, which has a copy of its own.

    Raises PipelineError for a step that cannot be pipelined, MergeError where the schedule's order would change a result.
    """
    if schedule.stagger and groups is None:
        raise PipelineError(f"the schedule {schedule.name} lets half of the waves run behind; pipeline needs groups=, an SGPR that says "
                            "which half a wave belongs to", k.place())
    if isinstance(count, int) and count < 1:
        raise PipelineError(f"a pipeline of {count} steps: there is at least one", k.place())
    return _Pipeline(k, step, schedule, groups, peel).emit(count)


class _Pipeline:
    """A pipeline while it is emitted."""

    def __init__(self, k: Builder, step: Step, schedule: Schedule, groups: Reg | None, peel: int) -> None:
        self.k, self.step, self.schedule, self.groups, self.peel = k, step, schedule, groups, peel
        self._steps: dict[tuple[int, bool], tuple[Copy, list[Unit]]] = {}
        self.shape = self._survey()

    def _survey(self) -> Shape:
        """Run the step once to see how far it looks ahead, which stages it uses, and how the schedule arranges it."""
        self._trial()  # the first run makes what operations hoist out of the loop
        copy, units = self._step(0)
        offsets = copy.offsets
        if min(offsets.values(), default=0) < 0:
            raise PipelineError("an operation of the step names an iteration before t; the earliest one is t, so shift the others",
                                self.k.place())
        unroll = math.lcm(1, *copy.stages)
        arrangement = self.schedule.arrange([self._step(phase)[1] for phase in range(unroll)], offsets)
        placed = sorted(number for number in arrangement.order if isinstance(number, int))
        if placed != sorted(unit.tag.ordinal for unit in units):
            raise PipelineError(f"the schedule {self.schedule.name} does not place every unit of the step once", self.k.place())
        ahead = max((offsets[unit.tag.ordinal] + (unit.tag.ordinal in arrangement.lead) for unit in units), default=0)
        self._check(units, arrangement, unroll)
        return Shape(ahead, unroll, arrangement, offsets, self._first(arrangement, unroll))

    def _first(self, steady: Arrangement, unroll: int) -> Arrangement:
        """The arrangement of a peeled first step. Raises PipelineError where other units of it would run a copy early."""
        if not self.peel:
            return steady
        self._trial(first=True)
        copy, units = self._step(0, first=True)
        arrangement = self.schedule.arrange([units, *(self._step(phase)[1] for phase in range(1, unroll))], copy.offsets)
        if len(arrangement.lead) != len(steady.lead):
            raise PipelineError(f"of the first step {len(arrangement.lead)} units would run a copy early, of the others "
                                f"{len(steady.lead)}: what t.first changes must stand behind them", self.k.place())
        return arrangement

    def _trial(self, first: bool = False) -> tuple[Copy, list[Unit]]:
        self.k.trial, self.k.trial_start = True, len(self.k.items)
        try:
            return self._run(Copy(0, first=first))
        finally:
            self.k.trial = False

    def _step(self, phase: int, first: bool = False) -> tuple[Copy, list[Unit]]:
        """All units of a step, by its phase."""
        key = phase, first
        if key not in self._steps:
            self._steps[key] = self._run(Copy(phase, first=first))
        return self._steps[key]

    def _kept(self, copy: Copy) -> list[Unit]:
        """The units of a step whose iterations a copy keeps, labels renamed."""
        whole, units = self._step(copy.phase, copy.first)
        return [_relabelled(self.k, unit) for unit in units if copy.keeps(whole.offsets[unit.tag.ordinal])]

    def _run(self, copy: Copy) -> tuple[Copy, list[Unit]]:
        """One call of the step as a section; its units, taken out of the builder again."""
        k = self.k
        k.copy, k.stage_number, k.ordinal = copy, 0, 0
        try:
            with k.section() as section:
                self.step(StepIndex(copy))
        finally:
            k.copy = None
        units = section.units
        k.cut(section.start)
        unknown = next((unit for unit in units if unit.tag.ordinal not in copy.offsets), None)
        if unknown is not None:
            raise PipelineError(f"{unknown} stands in the step outside of any operation, so its iteration is not known; write it within "
                                "`with k.at(t):`", unknown.first.where())
        return copy, units

    def _check(self, units: Sequence[Unit], arrangement: Arrangement, unroll: int) -> None:
        """Merge as many steps in a row as make every seam, each pair of phases included, in placed order against emission order."""
        steps = unroll + 2
        found = [self._step(number % unroll)[1] for number in range(steps)]
        numbered: dict[tuple[int, int], int] = {}
        emitted: list[Unit] = []
        for number, step_units in enumerate(found):
            for unit in step_units:
                numbered[number, unit.tag.ordinal] = len(emitted)
                emitted.append(Unit(len(emitted), unit.items, unit.tag))
        order = [numbered[0, ordinal] for ordinal in _ordinals(arrangement) if ordinal in arrangement.lead]
        for number in range(steps):
            for ordinal in _ordinals(arrangement):
                of = number + (ordinal in arrangement.lead)
                if of < steps:
                    order.append(numbered[of, ordinal])
        try:
            merge(emitted, order, live_out=0)
        except MergeError as error:
            raise MergeError(f"the schedule {self.schedule.name} breaks the step: {error.sentence}", error.where) from None

    # ---- code ----

    def emit(self, count: Reg | int) -> Shape:
        """All paths."""
        k, shape = self.k, self.shape
        ahead = shape.ahead
        done = k.fresh("pipeline_done")
        self._open()
        k.loop_begins(ahead)
        if isinstance(count, int):
            self._known(count)
        else:
            shorts = [(number, k.fresh(f"steps_{number}")) for number in range(1, ahead + self.peel)]
            for number, label in shorts:
                k.s_cmp_eq_u32(count, number)
                k.s_cbranch_scc1(label)
            self._long(count, done)
            for number, label in shorts:
                k.label(label)
                self._straight(number)
                k.s_branch(done)
            k.label(done)
        self._close()
        return shape

    def _known(self, count: int) -> None:
        """A number of steps that is known: straight through where the loop would not run twice."""
        ahead, unroll = self.shape.ahead, self.shape.unroll
        rounds = (count - ahead - self.peel) // unroll
        if rounds < 2:
            self._straight(count)
            return
        k = self.k
        with k.scratch("rounds", file="s") as left:
            k.s_mov_b32(left, rounds - 1)
            self._prologue(ahead)
            self._steady(0, self.peel)
            self._loop(left, 1)
            rest = count - ahead - self.peel - rounds * unroll
            self._steady(self.peel, rest)
            self._tail(self.peel + rest)

    def _straight(self, count: int) -> None:
        """Prologue and all steps of a small count."""
        early = self._prologue(min(count, self.shape.ahead), count)
        self._last([Copy(number % self.shape.unroll, -number, count - number, first=bool(self.peel) and number == 0)
                    for number in range(count)], early)

    def _long(self, count: Reg, done: str) -> None:
        """A count of at least `ahead`, not known before the run."""
        k, unroll, ahead = self.k, self.shape.unroll, self.shape.ahead
        rest = k.fresh("rest")
        rests = [k.fresh(f"rest_{number}") for number in range(1, unroll)]
        k.s_sub_u32(count, count, ahead + self.peel + unroll)
        self._prologue(ahead)
        self._steady(0, self.peel)
        k.s_cmp_lt_i32(count, 0)
        k.s_cbranch_scc1(rest)
        self._loop(count, unroll)
        k.label(rest)
        for number, label in enumerate(rests, 1):
            k.s_cmp_eq_i32(count, number - unroll)
            k.s_cbranch_scc1(label)
        self._tail(self.peel)
        for number, label in enumerate(rests, 1):
            k.s_branch(done)
            k.label(label)
            self._steady(self.peel, number)
            self._tail(self.peel + number)
        if rests:
            k.s_branch(done)

    def _loop(self, left: Reg, down: int) -> None:
        """`unroll` copies a round; `left` goes down by `down` each, until it borrows."""
        k = self.k
        label = k.fresh("loop")
        k.label(label)
        for number in range(self.shape.unroll):
            last = number == self.shape.unroll - 1
            self._copy(Copy((self.peel + number) % self.shape.unroll), count_down=(left, down) if last else None)
        k.s_cbranch_scc0(label)

    def _steady(self, first: int, count: int) -> None:
        for number in range(first, first + count):
            self._copy(Copy(number % self.shape.unroll, first=bool(self.peel) and number == 0))

    def _tail(self, phase: int) -> None:
        """The last `ahead` steps."""
        self._last([Copy((phase + self.shape.ahead - left) % self.shape.unroll, high=left) for left in range(self.shape.ahead, 0, -1)])

    def _prologue(self, ahead: int, count: int | None = None) -> list[Unit]:
        """What steps before the first one do for iterations from 0 on: in emission order, then a wait point and barriers.

        Operations that read LDS, or run a copy early, come behind the barriers, as what they read must have landed; these are returned.
        """
        k, shape = self.k, self.shape
        early: list[Unit] = []
        begin = len(k.items)
        for number in range(-shape.ahead, 0):
            copy = Copy(number % shape.unroll, -number, None if count is None else count - number)
            for unit in self._kept(copy):
                if unit.tag.ordinal in shape.arrangement.lead:
                    continue
                if any(use.action == "read" for instruction in unit.instructions for use in instruction.tokens):
                    early.append(unit)
                else:
                    k.append_unit(unit)
            if self._sources_follow(copy):
                k.step_ends()
        if shape.arrangement.lead:
            of_first = {unit.tag.ordinal: unit for unit in self._kept(Copy(0, 0, count)) if unit.tag.ordinal in shape.arrangement.lead}
            early += [of_first[ordinal] for ordinal in _ordinals(shape.arrangement) if ordinal in of_first]
        placed = [item for item in k.items[begin:] if isinstance(item, Instruction)]
        if any(use.action == "write" for item in placed for use in item.tokens):
            self._sync(Sync("wait"))
            for _ in range(1 + self.schedule.stagger):
                self._sync(Sync("barrier"))
        self._shift(opening=True)
        for unit in early:
            k.append_unit(unit)
        return early

    def _copy(self, copy: Copy, count_down: tuple[Reg, int] | None = None) -> None:
        """One copy in the schedule's order, with its synchronisation."""
        self._place(self._entries(copy), count_down, self._sources_follow(copy))

    def _last(self, copies: Sequence[Copy], early: Sequence[Unit] = ()) -> None:
        """Copies up to the loop's end, without the barriers that order nothing any more; `early` stand in front of them. With a stagger
        all stay: they also hold half of the waves behind."""
        placed = [self._entries(copy) for copy in copies]
        idle = set() if self.schedule.stagger else idle_barriers([*early, *(entry for entries in placed for entry in entries)])
        first = len(early)
        for copy, entries in zip(copies, placed, strict=True):
            kept = [entry for place, entry in enumerate(entries, first) if place not in idle]
            self._place(kept, None, self._sources_follow(copy))
            first += len(entries)

    def _entries(self, copy: Copy) -> list[Sync | Unit]:
        """What a copy consists of, in the schedule's order."""
        steady = self.shape.arrangement
        arrangement = self.shape.first if copy.first else steady
        chosen = {unit.tag.ordinal: unit for unit in self._kept(copy) if unit.tag.ordinal not in arrangement.lead}
        if arrangement.lead:
            of = dict(zip(sorted(steady.lead), sorted(arrangement.lead), strict=True))
            following = Copy((copy.phase + 1) % self.shape.unroll, None if copy.low is None else copy.low - 1,
                             None if copy.high is None else copy.high - 1)
            chosen |= {of[unit.tag.ordinal]: unit for unit in self._kept(following) if unit.tag.ordinal in of}
        return [entry if isinstance(entry, Sync) else chosen[entry] for entry in arrangement.order
                if isinstance(entry, Sync) or entry in chosen]

    def _place(self, entries: Sequence[Sync | Unit], count_down: tuple[Reg, int] | None, more: bool) -> None:
        last = max((place for place, entry in enumerate(entries) if isinstance(entry, Unit)), default=len(entries))
        final = entries[last] if last < len(entries) else None
        # The last unit hides the subtraction, unless it changes SCC or stands in a later block.
        before = isinstance(final, Unit) and not (final.effects.writes & scc.mask or final.is_block)
        for place, entry in enumerate(entries):
            if place == last and before:
                self._end_copy(count_down, more)
            if isinstance(entry, Sync):
                self._sync(entry)
            else:
                self.k.append_unit(entry)
        if not before:
            self._end_copy(count_down, more)

    def _sources_follow(self, copy: Copy) -> bool:
        """Whether a copy behind this one still reads a source in memory, so that sources must go on."""
        if copy.high is None:
            return True
        _, units = self._step(0)
        ahead = [self.shape.offsets[unit.tag.ordinal] for unit in units if self.k.follows_sources(unit)]
        return min(ahead, default=copy.high) < copy.high - 1

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
        elif what.kind == "priority":
            k.s_setprio(what.level)
        else:
            k.wait_point()

    # ---- stagger ----

    def _open(self) -> None:
        if self.schedule.stagger:
            self.k.stagger = max(self.k.stagger, self.schedule.stagger)

    def _shift(self, opening: bool) -> None:
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

    def _close(self) -> None:
        self._shift(opening=False)


def _relabelled(k: Builder, unit: Unit) -> Unit:
    """A copy of a block with labels of its own; any other unit as it is."""
    names = {item.name: k.fresh(item.name.rstrip("0123456789").rstrip("_")) for item in unit.items if isinstance(item, Label)}
    if not names:
        return unit
    items: list[Item] = []
    for item in unit.items:
        if isinstance(item, Label):
            item = Label(names[item.name], item.source)
        elif isinstance(item, Instruction) and item.target in names:
            item = replace(item, operands=tuple(Symbol(names[operand.name]) if isinstance(operand, Symbol) else operand
                                                for operand in item.operands))
        items.append(item)
    return Unit(unit.number, tuple(items), unit.tag)


def _ordinals(arrangement: Arrangement) -> list[int]:
    return [entry for entry in arrangement.order if isinstance(entry, int)]
