"""The units of a pipeline's step: each variant of it (plain, masked, first) in each phase, under one numbering, arranged once.

A pipeline with segments or a peeled first step has several *variants* of its step. Their units are aligned stage by stage: units with the
same mnemonic, registers and iteration are one *entry* of the step. Entries that only one variant has stand between. A schedule arranges the
entries. A copy takes, for each entry, the unit of the variant that its iteration belongs to. So copies in which two segments meet need no
rule of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING

from asmgen.author.schedule.schedulereport import ScheduleReport, schedule_report
from asmgen.author.schedule.schedules import Arrangement, ProducerConsumer, Schedule, Sync, producing
from asmgen.author.step.effects import Unit
from asmgen.author.step.iterations import Copy, PipelineError, StepIndex
from asmgen.author.step.merge import MergeError, merge
from asmgen.isa.operands import Symbol
from asmgen.isa.records import dataclass
from asmgen.program.program import Instruction, Item, Label

if TYPE_CHECKING:
    from asmgen.author.emit.builder import Builder

Step = Callable[[StepIndex], object]


@dataclass(frozen=True)
class CopySpan:
    """Which iterations a copy of the step keeps, and its phase (t modulo the unroll).

    It keeps t + low to t + high - 1; None is no bound. Iterations from t + seam on belong to the second segment. `first` is the iteration
    that `peel` gives a variant of its own, None without one.
    """

    phase: int
    low: int | None = None
    high: int | None = None
    seam: int | None = None
    first: int | None = None

    def keeps(self, offset: int) -> bool:
        """Whether an operation of iteration t + offset is part of the copy."""
        return (self.low is None or offset >= self.low) and (self.high is None or offset < self.high)

    def segment(self, offset: int) -> int:
        """The segment of iteration t + offset."""
        return int(self.seam is not None and offset >= self.seam)

    def following(self, unroll: int) -> CopySpan:
        """The span of the next copy."""
        def less(bound: int | None) -> int | None:
            return None if bound is None else bound - 1

        return CopySpan((self.phase + 1) % unroll, less(self.low), less(self.high), less(self.seam), less(self.first))


@dataclass(frozen=True)
class Shape:
    """The shape of a pipeline: steps ahead, unroll, and the arrangement of a steady copy.

    `offsets` are iterations by ordinal, `reports` the schedule report of each segment's step.
    """

    ahead: int
    unroll: int
    arrangement: Arrangement
    offsets: dict[int, int]
    reports: tuple[ScheduleReport, ...] = ()


Variant = tuple[int, bool]
"""The segment, and whether it is the peeled first step."""


class StepUnits:
    """Runs the step functions, and says which units a copy has."""

    def __init__(self, k: Builder, steps: Sequence[Step], schedule: Schedule, peel: int) -> None:
        self.k, self.steps, self.schedule, self.peel = k, steps, schedule, peel
        self._runs: dict[tuple[int, Variant], tuple[Copy, list[Unit]]] = {}
        self._units: dict[tuple[int, Variant], dict[int, Unit]] = {}
        self._numbers: dict[Variant, dict[int, int]] = {}  # from a variant's ordinals to entries
        self._variants = [(segment, first) for segment in range(len(steps)) for first in ((False, True) if peel else (False,))]
        self.shape = self._survey()

    # ---- the units of a copy ----

    def kept(self, span: CopySpan) -> list[Unit]:
        """The units of a step whose iterations a copy keeps, each from the variant of its iteration, with labels renamed."""
        offsets = self.shape.offsets
        kept = {offset: self._of(span.phase, (span.segment(offset), offset == span.first))
                for offset in set(offsets.values()) if span.keeps(offset)}
        none: dict[int, Unit] = {}
        found = [unit for number, offset in offsets.items() if (unit := kept.get(offset, none).get(number)) is not None]
        return [relabelled(self.k, unit) if unit.is_block else unit for unit in found]

    def placed(self, span: CopySpan) -> dict[int, Unit]:
        """The units that stand in a copy, by ordinal: those of its step, except that units that lead come from the next step."""
        lead = self.shape.arrangement.lead
        chosen = {unit.tag.ordinal: unit for unit in self.kept(span) if unit.tag.ordinal not in lead}
        if lead:
            chosen |= {unit.tag.ordinal: unit for unit in self.kept(span.following(self.shape.unroll)) if unit.tag.ordinal in lead}
        return chosen

    def source_offsets(self, mine: Callable[[Unit], bool]) -> list[int]:
        """The iterations ahead for which these units of the step read sources in memory."""
        return [self.shape.offsets[unit.tag.ordinal] for unit in self.every() if mine(unit) and self.k.follows_sources(unit)]

    def every(self) -> list[Unit]:
        """All units of the step in its first phase, of any variant."""
        return self._entries(0)

    def produces(self, unit: Unit) -> bool:
        """Whether a unit of the step belongs to the producers, if waves have roles."""
        return unit.tag.ordinal in self._producing

    @cached_property
    def _producing(self) -> frozenset[int]:
        return producing(self.every())

    # ---- survey ----

    def _survey(self) -> Shape:
        """Run the steps: how far they look ahead, which buffers they use, how their variants align and how the schedule arranges them."""
        variants = self._variants
        for variant in variants:
            self._trial(variant)  # the first run emits what operations hoist out of the loop
        for variant in variants:
            self._run(0, variant)
        if any(min(self._run(0, variant)[0].offsets.values(), default=0) < 0 for variant in variants):
            raise PipelineError("an operation of the step names an iteration before t; the earliest one is t, so shift the others",
                                self.k.here())
        offsets = self._align(variants)
        unroll = math.lcm(1, *(count for variant in variants for count in self._run(0, variant)[0].buffer_counts))
        entries = [self._entries(phase) for phase in range(unroll)]
        arrangement = self.schedule.arrange(entries, offsets)
        if sorted(_ordinals(arrangement)) != sorted(unit.tag.ordinal for unit in entries[0]):
            raise PipelineError(f"the schedule {self.schedule.name} does not place each unit of the step once", self.k.here())
        ahead = max((offset + (number in arrangement.lead) for number, offset in offsets.items()), default=0)
        self.shape = Shape(ahead, unroll, arrangement, offsets)
        self._check()
        return replace(self.shape, reports=tuple(self._report(segment) for segment in range(len(self.steps))))

    def _report(self, segment: int) -> ScheduleReport:
        units = self._of(0, (segment, False))
        if isinstance(self.schedule, ProducerConsumer):  # the consumers decide how long a step takes
            units = {number: unit for number, unit in units.items() if not self.produces(unit)}
        order = tuple(entry for entry in self.shape.arrangement.order if isinstance(entry, Sync) or entry in units)
        return schedule_report(self.k.arch, list(units.values()), Arrangement(order), self.k.waves_per_simd, bool(self.schedule.stagger))

    def _trial(self, variant: Variant) -> None:
        self.k.trial, self.k.trial_start = True, len(self.k.items)
        try:
            self._call(0, variant)
        finally:
            self.k.trial = False

    def _run(self, phase: int, variant: Variant) -> tuple[Copy, list[Unit]]:
        """All units of a variant of the step, with the ordinals of that variant."""
        key = phase, variant
        if key not in self._runs:
            self._runs[key] = self._call(phase, variant)
        return self._runs[key]

    def _call(self, phase: int, variant: Variant) -> tuple[Copy, list[Unit]]:
        """Call a step within a section; its units, taken out of the builder again."""
        k = self.k
        segment, first = variant
        copy = k.copy = Copy(phase, first)
        k.stage_number = k.ordinal = 0
        try:
            with k.section() as section:
                self.steps[segment](StepIndex(copy))
            copy.stage_count = k.stage_number
        finally:
            k.copy = None
        units = section.units
        k.cut(section.start)
        unknown = next((unit for unit in units if unit.tag.ordinal not in copy.offsets), None)
        if unknown is not None:
            raise PipelineError(f"{unknown} stands in the step outside of any operation, so its iteration is not known; write it within "
                                "`with k.at(t):`", unknown.first.where())
        return copy, units

    def _align(self, variants: Sequence[Variant]) -> dict[int, int]:
        """Number the entries of all variants; their iterations by number. Raises PipelineError for variants with different stages."""
        counts = {variant: self._run(0, variant)[0].stage_count for variant in variants}
        if len(set(counts.values())) > 1:
            found = " and ".join(map(str, sorted(set(counts.values()))))
            raise PipelineError(f"the variants of a step have {found} stages; all of them have the same, so let a stage be empty where a "
                                "segment has nothing to do in it", self.k.here())
        table: list[_Aligned] = []
        for stage in range(counts[variants[0]] + 1):
            entries: list[_Aligned] = []
            for variant in variants:
                copy, units = self._run(0, variant)
                mine = [_Aligned(_key(unit), copy.offsets[unit.tag.ordinal], {variant: unit.tag.ordinal})
                        for unit in units if unit.tag.stage == stage]
                entries = _aligned(entries, mine)
            table += entries
        for number, entry in enumerate(table):
            for variant, ordinal in entry.ordinals.items():
                self._numbers.setdefault(variant, {})[ordinal] = number
        return {number: entry.offset for number, entry in enumerate(table)}

    def _of(self, phase: int, variant: Variant) -> dict[int, Unit]:
        """The units of a variant by entry. Raises PipelineError if the step emits other operations in another phase."""
        known = self._units.get((phase, variant))
        if known is None:
            _, units = self._run(phase, variant)
            numbers = self._numbers.get(variant, {})
            if {unit.tag.ordinal for unit in units} != set(numbers):
                raise PipelineError("the step emits different operations in different phases; only the buffers may differ", self.k.here())
            usual = set(self._numbers[self._variants[0]].values())
            self._units[phase, variant] = {
                number: unit.again(unit.number, unit.tag._replace(ordinal=number, seldom=number not in usual))
                for unit in units for number in (numbers[unit.tag.ordinal],)}
        return self._units[phase, variant]

    def _entries(self, phase: int) -> list[Unit]:
        """A unit of each entry, from the first variant that has it."""
        found: dict[int, Unit] = {}
        for variant in self._numbers:
            found = self._of(phase, variant) | found
        return [found[number] for number in sorted(found)]

    # ---- the check ----

    def _check(self) -> None:
        """Check placed order against emission order for several copies in a row, with the seams between them."""
        unroll, ahead = self.shape.unroll, self.shape.ahead
        several = len(self.steps) > 1
        rows = [[CopySpan(number % unroll, seam=None if segment == 0 else 0) for number in range(unroll + 2)]
                for segment in range(len(self.steps))]
        if self.peel:
            rows += [[CopySpan(number % unroll, seam=row[0].seam, first=ahead - number) for number in range(ahead + unroll + 2)]
                     for row in rows]
        if several:
            before = unroll + 1
            rows.append([CopySpan(number % unroll, seam=before + ahead - number) for number in range(2 * before + ahead)])
        for row in rows:
            self._check_row(row)

    def _check_row(self, row: Sequence[CopySpan]) -> None:
        arrangement = self.shape.arrangement
        numbered: dict[tuple[int, int], int] = {}
        emitted: list[Unit] = []
        for number, span in enumerate(row):
            for unit in self.kept(span):
                numbered[number, unit.tag.ordinal] = len(emitted)
                emitted.append(unit.again(len(emitted), unit.tag))
        placed = [(0, ordinal) for ordinal in _ordinals(arrangement) if ordinal in arrangement.lead]
        placed += [(number + (ordinal in arrangement.lead), ordinal) for number in range(len(row)) for ordinal in _ordinals(arrangement)]
        try:
            merge(emitted, [numbered[one] for one in placed if one in numbered], live_out=0)
        except MergeError as error:
            raise MergeError(f"the schedule {self.schedule.name} breaks the step: {error.sentence}", error.where) from None


@dataclass(frozen=True)
class _Aligned:
    """An entry while variants are aligned: the key to compare, the iteration, and the ordinal in each variant that has it."""

    key: Hashable
    offset: int
    ordinals: dict[Variant, int]


def _key(unit: Unit) -> Hashable:
    """What the units of one entry have in common: stream, mnemonics, registers written and LDS bytes accessed."""
    lds = frozenset((access.low, access.high) for access in unit.effects.memory if access.space == "lds")
    return unit.stream, tuple(instruction.name for instruction in unit.instructions), unit.effects.writes, lds


def _aligned(have: list[_Aligned], more: list[_Aligned]) -> list[_Aligned]:
    """Both lists merged in the order of each: equal entries become one, and iterations keep the order that they have in both."""
    if not have:
        return more
    found: list[_Aligned] = []
    for tag, low, high, first, last in _matched([(one.key, one.offset) for one in have], [(one.key, one.offset) for one in more]):
        if tag == "equal":
            found += [replace(one, ordinals=one.ordinals | other.ordinals)
                      for one, other in zip(have[low:high], more[first:last], strict=True)]
            continue
        mine, others = have[low:high], more[first:last]
        runs, other_runs = ([list(run) for _, run in groupby(part, key=lambda one: one.offset)] for part in (mine, others))
        for _, a, b, c, d in _matched([run[0].offset for run in runs], [run[0].offset for run in other_runs]):
            for number in range(max(b - a, d - c)):
                found += [entry for run in (*runs[a:b][number:number + 1], *other_runs[c:d][number:number + 1]) for entry in run]
    return found


def _matched(one: Sequence[Hashable], other: Sequence[Hashable]) -> Sequence[tuple[str, int, int, int, int]]:
    from difflib import SequenceMatcher  # only steps with several variants pay for its import

    return SequenceMatcher(None, one, other, autojunk=False).get_opcodes()


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
    return Unit(unit.number, tuple(items), unit.tag)


def _ordinals(arrangement: Arrangement) -> list[int]:
    return [entry for entry in arrangement.order if isinstance(entry, int)]
