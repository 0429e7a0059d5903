"""The units of a pipeline's step in each phase, recorded and arranged once, and which of them a copy has.

A copy has the units whose iteration lies inside the loop and whose condition holds for that iteration.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from inspect import isgenerator
from typing import TYPE_CHECKING

from asmgen.author.loop.steptable import StepOperation, step_table
from asmgen.author.schedule.schedulereport import ScheduleReport, schedule_report
from asmgen.author.schedule.schedules import Arrangement, ProducerConsumer, Schedule, Sync, producing
from asmgen.author.schedule.unitcosts import StepMachine
from asmgen.author.step.effects import Unit
from asmgen.author.step.iterations import Copy, PipelineError, StepIndex
from asmgen.author.step.merge import MergeError
from asmgen.author.step.phases import changed, moved_to, phase_units
from asmgen.isa.operands import Symbol
from asmgen.isa.records import dataclass
from asmgen.isa.registers import scc
from asmgen.program.program import Instruction, Item, Label
from asmgen.regalloc.ranges import OwnedReg, PlanError, Taking

if TYPE_CHECKING:
    from asmgen.author.emit.builder import Builder

Step = Callable[[StepIndex], object]

_PLACED = frozenset({"barrier", "end"})
"""Instructions that no step has."""


@dataclass(frozen=True)
class CopySpan:
    """Which iterations a copy of the step keeps, and its phase (t modulo the unroll).

    It keeps t + low to t + high - 1; None is no bound. `first` is what t + first = 0 says, None where the copy is not near the first
    iteration. `masked`: the copy has the operations of `t.masked`.
    """

    phase: int
    low: int | None = None
    high: int | None = None
    first: int | None = None
    masked: bool = False

    def keeps(self, offset: int) -> bool:
        """Whether an operation of iteration t + offset is part of the copy."""
        return (self.low is None or offset >= self.low) and (self.high is None or offset < self.high)

    def holds(self, condition: str, offset: int) -> bool:
        """Whether a condition holds for iteration t + offset."""
        if condition == "masked":
            return self.masked
        return not condition or (offset == self.first) == (condition == "first")

    def following(self, unroll: int) -> CopySpan:
        """The span of the next copy."""
        def less(bound: int | None) -> int | None:
            return None if bound is None else bound - 1

        return CopySpan((self.phase + 1) % unroll, less(self.low), less(self.high), less(self.first), self.masked)


@dataclass(frozen=True)
class Shape:
    """The shape of a pipeline: steps ahead, unroll, and the arrangement of a steady copy.

    `offsets` are iterations by ordinal, `reports` the schedule reports of the plain and of the masked step. `peel` is 1 if an operation of
    iteration t is under `t.first` or `t.later`: step 0 then has a copy of its own. `masked` is the farthest iteration ahead of a masked
    operation, None without one. `table` are the operations as the author wrote them.
    """

    ahead: int
    unroll: int
    arrangement: Arrangement
    offsets: dict[int, int]
    peel: int = 0
    masked: int | None = None
    reports: tuple[ScheduleReport, ...] = ()
    table: tuple[StepOperation, ...] = ()


class StepUnits:
    """Records the step, and says which units a copy has."""

    def __init__(self, k: Builder, step: Step, schedule: Schedule) -> None:
        self.k, self.step, self.schedule = k, step, schedule
        self._runs: dict[int, tuple[Copy, list[Unit]]] = {}
        self._kept: dict[CopySpan, list[Unit]] = {}  # the units of a copy, with the labels of the step
        self.shape = self._survey()

    # ---- the units of a copy ----

    def kept(self, span: CopySpan) -> list[Unit]:
        """The units of a step that a copy has, in emission order, with labels renamed."""
        found = self._kept.get(span)
        if found is None:
            offsets = self.shape.offsets
            found = self._kept[span] = [unit for unit in self._of(span.phase) if span.keeps(offset := offsets[unit.tag.ordinal])
                                        and span.holds(unit.tag.condition, offset)]
        return [relabelled(self.k, unit) if unit.is_block else unit for unit in found]

    def placed(self, span: CopySpan) -> dict[int, Unit]:
        """The units that stand in a copy, by ordinal: those of its step, except that units that lead come from the next step."""
        lead = self.shape.arrangement.lead
        chosen = {unit.tag.ordinal: unit for unit in self.kept(span) if unit.tag.ordinal not in lead}
        if lead:
            chosen |= {unit.tag.ordinal: unit for unit in self.kept(span.following(self.shape.unroll)) if unit.tag.ordinal in lead}
        return chosen

    def entries(self, span: CopySpan) -> list[Sync | Unit]:
        """The entries of a copy, in the schedule's order."""
        chosen = self.placed(span)
        return [entry if isinstance(entry, Sync) else chosen[entry] for entry in self.shape.arrangement.order
                if isinstance(entry, Sync) or entry in chosen]

    def source_offsets(self, mine: Callable[[Unit], bool]) -> list[int]:
        """The iterations ahead for which these units of the step read sources in memory."""
        return [self.shape.offsets[unit.tag.ordinal] for unit in self.every() if mine(unit) and self.k.follows_sources(unit)]

    @cached_property
    def stores_beside_fills(self) -> bool:
        """Whether a step both fills LDS from memory and writes memory."""
        accesses = [{(access.space, access.write) for access in unit.effects.memory} for unit in self.every()]
        return any({("lds", True), ("global", False)} <= one for one in accesses) and any(("global", True) in one for one in accesses)

    def every(self) -> list[Unit]:
        """All units of the step in its first phase, under any condition."""
        return self._of(0)

    def produces(self, unit: Unit) -> bool:
        """Whether a unit of the step belongs to the producers, if waves have roles."""
        return unit.tag.ordinal in self._producing

    @cached_property
    def _producing(self) -> frozenset[int]:
        return producing(self.every())

    # ---- survey ----

    def _survey(self) -> Shape:
        """Record the step: how far it looks ahead, which buffers it uses, and how the schedule arranges it."""
        k = self.k
        copy, units = self._runs[0] = self._record()
        if min(copy.offsets.values(), default=0) < 0:
            raise PipelineError("an operation of the step names an iteration before t; the earliest one is t, so shift the others",
                                k.here())
        offsets = {unit.tag.ordinal: copy.offsets[unit.tag.ordinal] for unit in units}
        unroll = math.lcm(1, *copy.buffer_counts)
        phases = [self._of(phase) for phase in range(unroll)]
        arrangement = self.schedule.arrange(phases, offsets, StepMachine(k.arch, k.waves_per_simd))
        if sorted(_ordinals(arrangement)) != sorted(offsets):
            raise PipelineError(f"the schedule {self.schedule.name} does not place each unit of the step once", k.here())
        late = next((unit for unit in units if unit.tag.ordinal in arrangement.lead and k.follows_sources(unit)), None)
        if late is not None:
            raise PipelineError(f"the schedule {self.schedule.name} places {late} in the copy before its own, where its source has not "
                                "gone on yet; only what reads LDS may stand there", late.first.where())
        ahead = max((offset + (number in arrangement.lead) for number, offset in offsets.items()), default=0)
        peel = int(any(unit.tag.condition in ("first", "later") and not offsets[unit.tag.ordinal] for unit in units))
        masked = max((offsets[unit.tag.ordinal] + (unit.tag.ordinal in arrangement.lead) for unit in units
                      if unit.tag.condition == "masked"), default=None)
        self.shape = Shape(ahead, unroll, arrangement, offsets, peel, masked)
        self._check_scc()
        return replace(self.shape, reports=tuple(self._report(kind) for kind in ((False,) if masked is None else (False, True))),
                       table=step_table(units, offsets, copy.stages))

    def _report(self, masked: bool) -> ScheduleReport:
        units = {unit.tag.ordinal: unit for unit in self.kept(CopySpan(0, masked=masked))}
        if isinstance(self.schedule, ProducerConsumer):  # the consumers decide how long a step takes
            units = {number: unit for number, unit in units.items() if not self.produces(unit)}
        order = tuple(entry for entry in self.shape.arrangement.order if isinstance(entry, Sync) or entry in units)
        placed = Arrangement(order, clocks=0 if masked else self.shape.arrangement.clocks)
        return schedule_report(self.k.arch, list(units.values()), placed, self.k.waves_per_simd, bool(self.schedule.stagger))

    def _record(self) -> tuple[Copy, list[Unit]]:
        """Call the step once, for phase 0. It emits what operations hoist out of the loop too.

        Temporaries may be in the way of what is hoisted after them. So they are taken again when all of that is there.
        """
        k, plan = self.k, self.k.registers
        k.recording, k.step_start = True, len(k.items)
        held = len(plan.ranges) if plan is not None else 0
        if plan is not None:
            plan.journal = []
        try:
            copy, units = self._call(0)
        finally:
            k.recording = False
            journal, ranges = (plan.journal or [], plan.ranges) if plan is not None else ([], ())
            if plan is not None:
                plan.journal = None
        if plan is None or not journal:
            return copy, units
        ended = {entry for entry in journal if isinstance(entry, int)}
        released = next((ranges[lease] for lease in sorted(ended) if lease < held), None)
        if released is not None:
            raise PipelineError(f"the step releases {released.name!r}, which it needs again in its next iteration; release it after the "
                                "pipeline", released.released or "")
        if not ended <= {entry.lease for entry in journal if isinstance(entry, Taking)}:
            return self._call(0)  # a set of registers was taken and released: only a second call takes it again
        try:
            given = plan.take_again(journal)
        except PlanError:  # the step takes what room there is, and hoisted code has left less: only a second call tells what it takes now
            return self._call(0)
        move = moved_to(given, ranges)
        copy.tables = {number: tuple([changed(one, move) for one in table]) for number, table in copy.tables.items()}
        return copy, [_changed(unit, move) for unit in units]

    def _of(self, phase: int) -> list[Unit]:
        """The units of a phase. Raises PipelineError where the buffers of a tile do not lie alike.

        A step that asks for the number of a buffer is called for each phase: PipelineError if it then emits other operations.
        """
        recorded, first = self._runs[0]
        if phase in self._runs:
            return self._runs[phase][1]
        if not recorded.numbered:
            self._runs[phase] = recorded, phase_units(first, phase, recorded.tables)
            return self._runs[phase][1]
        self._runs[phase] = self._call(phase)
        units = self._runs[phase][1]
        if [_kind(unit) for unit in units] != [_kind(unit) for unit in first]:
            raise PipelineError("the step emits different operations in different phases; only the buffers may differ", self.k.here())
        return units

    def _call(self, phase: int) -> tuple[Copy, list[Unit]]:
        """Call the step within a section; its units, taken out of the builder again."""
        k = self.k
        copy = k.copy = Copy(k, phase)
        k.stage_number = k.ordinal = 0
        try:
            with k.section() as section:
                result = self.step(StepIndex(copy))
        finally:
            k.copy = None
        units = section.units
        k.cut(section.start)
        if not units:
            why = ": it has a yield, so that a call of it runs nothing" if isgenerator(result) else ""
            raise PipelineError(f"the step emits no instruction{why}", k.here())
        unknown = next((unit for unit in units if unit.tag.ordinal not in copy.offsets), None)
        if unknown is not None:
            raise PipelineError(f"{unknown} stands in the step outside of any operation, so its iteration is not known; write it within "
                                "`with k.at(t):`", unknown.first.where())
        branch = next((unit.first for unit in units if not unit.is_block and unit.first.is_branch), None)
        if branch is not None:
            raise PipelineError(f"{branch.text} leaves the step, which runs ahead for later iterations; a branch stands within "
                                "`with k.block(name):`, with its label", branch.where())
        placed = next((one for unit in units for one in unit.instructions if one.opcode.classes & _PLACED), None)
        if placed is not None:
            raise PipelineError(f"{placed.text} stands in the step: the schedule places barriers, and the kernel ends after the pipeline",
                                placed.where())
        return copy, units

    # ---- the check ----

    def _check_scc(self) -> None:
        """Refuse an SCC that is made at the end of a copy and read in the next one: the loop's own scalar code stands between."""
        units = {unit.tag.ordinal: unit for unit in self.every()}
        for masked in (False, True):
            for number in _ordinals(self.shape.arrangement):
                unit = units[number]
                if unit.tag.condition == "masked" and not masked:
                    continue
                if unit.effects.reads & scc.mask:
                    raise MergeError(f"the schedule {self.schedule.name} breaks the step: {unit} reads SCC over the end of a copy, "
                                     "where the loop counts", unit.first.where())
                if unit.effects.writes & scc.mask:
                    break


def _changed(unit: Unit, move: Callable[[OwnedReg], OwnedReg]) -> Unit:
    """A unit with other temporaries."""
    items = tuple([changed(item, move) if isinstance(item, Instruction) else item for item in unit.items])
    same = all(one is other for one, other in zip(items, unit.items, strict=True))
    return unit if same else Unit(unit.number, items, unit.tag)


def _kind(unit: Unit) -> tuple[int, str, str, tuple[str, ...]]:
    """What the units of one operation have in common in all phases."""
    return unit.tag.ordinal, unit.tag.stream, unit.tag.condition, tuple(instruction.name for instruction in unit.instructions)


def relabelled(k: Builder, unit: Unit) -> Unit:
    """A copy of a block with fresh labels; any other unit as it is."""
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
    return unit.renamed(tuple(items))


def _ordinals(arrangement: Arrangement) -> list[int]:
    return [entry for entry in arrangement.order if isinstance(entry, int)]
