"""Emits copies of a pipeline's step: the prologue, steady copies and the drain, with the schedule's synchronisation and the stagger."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from types import MappingProxyType
from typing import TYPE_CHECKING

from asmgen.author.loop.earlyexit import EarlyExit, early_exits
from asmgen.author.loop.maskskips import skipping
from asmgen.author.loop.overlap import Epilogue, overlapped
from asmgen.author.loop.redundantbarriers import redundant_barriers
from asmgen.author.loop.stepunits import CopySpan, StepUnits
from asmgen.author.schedule.schedules import Schedule, Sync, is_matrix
from asmgen.author.step.effects import Unit, depends
from asmgen.isa.records import dataclass
from asmgen.isa.registers import Reg, scc

if TYPE_CHECKING:
    from asmgen.author.emit.builder import Builder


Entries = Sequence[Sync | Unit]


@dataclass(frozen=True)
class _Opening:
    """The parts of a prologue.

    `placed`: units in emission order, step by step, each step with whether sources advance after it. `settled`: the wait and the barriers
    for their fills. `early`: units after those. `copies`: copies in the schedule's order; `spans` says which iterations they keep.
    """

    placed: list[tuple[list[Unit], CopySpan, bool]]
    settled: list[Sync]
    early: list[Sync | Unit]
    spans: list[CopySpan]
    copies: list[list[Sync | Unit]]

    @property
    def entries(self) -> list[Sync | Unit]:
        """All entries before the copies, with the opening of the stagger."""
        return [*(unit for units, _, _ in self.placed for unit in units), *self.settled, Sync("open"), *self.early]


def _reads_lds(unit: Unit) -> bool:
    return any(use.action == "read" for instruction in unit.instructions for use in instruction.tokens)


def _fills_lds(unit: Unit) -> bool:
    return any(use.action == "write" for instruction in unit.instructions for use in instruction.tokens)


def _everything(unit: Unit) -> bool:
    return True


def _level(copies: Sequence[Entries]) -> int | None:
    return next((number for number, copy in enumerate(copies) if Sync("level") in copy), None)


class Copies:
    """Emits copies of the step. The paths (`pipeline`, `segmentpaths`) say which copies, and in what order.

    With roles, `mine` selects the units of the role whose code is emitted. Synchronisation is placed as for all units together, so that
    each role has the same barriers on each path.
    """

    def __init__(self, k: Builder, units: StepUnits, schedule: Schedule, groups: Reg | None,
                 mine: Callable[[Unit], bool] = _everything, epilogue: Epilogue | None = None,
                 early_exit: Reg | None = None) -> None:
        self.k, self.units, self.schedule, self.groups, self.mine = k, units, schedule, groups, mine
        self.epilogue = epilogue
        self.early_exit = early_exit  # how many of the last iterations a wave can skip
        self._exits: list[tuple[str, EarlyExit, bool]] = []  # label, exit, and whether the groups are level after its code
        self._level_at: dict[str, list[Sync | Unit]] = {}  # by label at which other paths join level groups: the entries from there on
        self.ahead, self.unroll = units.shape.ahead, units.shape.unroll
        self.held_back: tuple[Reg, Reg] | None = None  # the count, and room: sources then stop at their last iteration
        self.unmasked: Reg | None = None  # in a prologue: an SGPR that is positive if the first iterations need no masked operations
        self._skips: list[str] = []  # labels after masked operations that a prologue may skip
        self.whole = mine is _everything
        self.loops_at = self.sharing_end = len(k.items)  # the number of the first item after the prologues; where sharing ends
        self.lost = 0  # registers (as bits) that short counts leave with values of no iteration

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

    def prologue(self, phase: int, stop: int | None = None, join: str = "") -> None:
        """Emit what the steps before step 0 do for iterations from 0 on, in emission order, then a wait slot and barriers.

        Step 0 has phase `phase`. Operations that read LDS or run a copy early stand after the barriers, as their data must have arrived. If
        read data is used or its bytes are refilled before step 0, the schedule's order and synchronisation begin with the first such read.
        If the path goes on at label `join` of the drain and the groups are level there, the prologue ends with level groups.
        """
        opening = self._opening(phase, stop)
        joined = self._level_at.get(join)
        following = [joined] if joined is not None else map(self._entries, self.span(0, self.unroll, phase, 0, stop))
        copies = opening.copies
        if copies and (joined is not None or not self.schedule.stagger):  # a staggered loop needs all barriers
            copies = self._without_redundant_barriers([*copies, *following], {0: opening.entries})[:len(copies)]
        if self.unmasked is not None:
            copies = [skipping(copy, self._skips, self.k.fresh, self.k.counted.values()) for copy in copies]
        self._open(opening, copies)
        if joined is not None and _level(copies) is None:
            self.shift(opening=False)

    def straight(self, count: int) -> None:
        """Emit the prologue and all steps of a small count as straight code."""
        opening = self._opening(0, count)
        spans = self.span(0, count, 0, 0, count)
        copies = self._without_redundant_barriers([*opening.copies, *map(self._entries, spans)], {0: opening.entries})
        self._open(opening, copies)
        self._to_the_end(spans, copies[len(opening.spans):], _level(copies))

    def _opening(self, phase: int, stop: int | None) -> _Opening:
        """The parts of a prologue."""
        lead = self.units.shape.arrangement.lead
        *spans, first = self.span(-self.ahead, 1, phase - self.ahead, 0, stop)
        plain = self._plain(spans)
        early: list[Sync | Unit] = []
        placed: list[tuple[list[Unit], CopySpan, bool]] = []
        for span in spans[:plain]:
            units = self.units.kept(span)
            early += [unit for unit in units if _reads_lds(unit)]
            placed.append(([unit for unit in units if not _reads_lds(unit)], span, self._sources_follow(span)))
        copies = [self._entries(span) for span in spans[plain:]]
        if copies:
            cut = next(number for number, entry in enumerate(copies[0]) if isinstance(entry, Unit) and _reads_lds(entry))
            placed.append(([entry for entry in copies[0][:cut] if isinstance(entry, Unit)], spans[plain], False))
            copies[0] = copies[0][cut:]
        if lead:
            of_first = {unit.tag.ordinal: unit for unit in self.units.kept(first)}
            early += [of_first[entry] for entry in self.units.shape.arrangement.order
                      if isinstance(entry, int) and entry in lead and entry in of_first]
        if not copies and early and Sync("wait") in self.units.shape.arrangement.order:
            early.append(Sync("wait"))  # as copies wait for the reads of the next one; else each round of the loop has that wait
        early += [Sync("barrier")] * (self._barriers_missing(early, first) if not copies else 0)
        filled = any(_fills_lds(unit) for units, _, _ in placed for unit in units)
        barriers = 1 + self.schedule.stagger if filled else 0
        return _Opening(placed, [Sync("wait"), *[Sync("barrier")] * barriers] if filled else [], early, spans[plain:], copies)

    def _barriers_missing(self, early: Entries, first: CopySpan) -> int:
        """The number of barriers that step 0 lacks before it refills the bytes of reads that stand before it. In a loop the barriers at
        the end of the previous copy serve."""
        needed, passed = 0, 0
        for entry in self._entries(first):
            if isinstance(entry, Sync):
                passed += entry.kind == "barrier"
            elif _fills_lds(entry) and any(access.conflicts(other) for access in entry.effects.memory
                                           for read in early if isinstance(read, Unit) for other in read.effects.memory):
                needed = max(needed, 1 + self.schedule.stagger - passed)
        return needed

    def _open(self, opening: _Opening, copies: Sequence[Entries]) -> None:
        """Emit a prologue; its copies are the first of `copies`. The stagger opens before the copies unless one of them opens it."""
        for units, span, more in opening.placed:
            for unit in units:
                self._append(unit)
            if more:
                self._advance(span)
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
            self._emit_copy(copy, span)

    def _plain(self, spans: Sequence[CopySpan]) -> int:
        """How many copies of a prologue stand in emission order: those before the first LDS read whose data is used, or whose bytes are
        refilled, before step 0. Without such a read: all."""
        reads: list[Unit] = []
        found = len(spans)
        for number, span in enumerate(spans):
            for unit in self.units.kept(span):
                if _reads_lds(unit):
                    found = number if not reads else found
                    reads.append(unit)
                elif any(depends(unit, read) for read in reads):
                    return found
        return len(spans)

    def steady(self, spans: Sequence[CopySpan]) -> None:
        """Emit copies in the schedule's order, with its synchronisation."""
        for span in spans:
            self._emit_copy(self._entries(span), span)

    def loop(self, spans: Sequence[CopySpan], left: Reg, down: int, entries: Sequence[str]) -> None:
        """Emit a loop around copies. Each round subtracts `down` from `left`; the loop ends when that borrows. `entries` are labels, one
        before each copy."""
        k = self.k
        for number, (span, label) in enumerate(zip(spans, entries, strict=True), 1):
            k.label(label)
            self._emit_copy(self._entries(span), span, (left, down) if number == len(spans) else None)
        k.s_cbranch_scc0(entries[0])

    def last(self, spans: Sequence[CopySpan], entries: Mapping[int, str], shared: bool = False) -> None:
        """Emit the drain, without redundant barriers. With a stagger the first group waits for the second one in the position of the first
        redundant barrier.

        `entries` are labels of copies, by the number of steps that are left there: paths join at them after a prologue of their own, or,
        if they are `shared`, after that of longer loops.
        """
        copies = [self._entries(span) for span in spans]
        prefixes: dict[int, Entries] = {0: self._computing}
        for left in entries:
            opening = self._opening(spans[-left].phase, None if shared else left)
            prefixes[len(spans) - left] = [*opening.entries, *(entry for copy in opening.copies for entry in copy)]
        kept = self._sharing_cold_blocks(copies)
        copies = [*copies[:kept], *self._without_redundant_barriers(copies, prefixes)[kept:]]
        self._to_the_end(spans, copies, _level(copies), entries)

    def _sharing_cold_blocks(self, copies: Sequence[Entries]) -> int:
        """The number of first copies of the drain that share cold blocks with the loops: they keep the loops' barriers. With a stagger
        none does, as the last copies close it."""
        if self.schedule.stagger:
            return 0
        return max((number for number, copy in enumerate(copies, 1)
                    if any(isinstance(entry, Unit) and entry.tag.cold for entry in copy)), default=0)

    def join(self, label: str) -> None:
        """Emit what a path needs that leaves the prologue of longer loops for a label of the drain."""
        if label in self._level_at:
            self.shift(opening=False)

    def ordered(self, span: CopySpan) -> list[Unit]:
        """The units of a copy, in the schedule's order."""
        return [entry for entry in self._entries(span) if isinstance(entry, Unit)]

    def _to_the_end(self, spans: Sequence[CopySpan], copies: list[list[Sync | Unit]], level: int | None,
                    entries: Mapping[int, str] = MappingProxyType({})) -> None:
        """Emit the last copies. In copy `level`, if any, the stagger closes."""
        if self.early_exit is not None:
            self._insert_early_exits(spans, copies, level is not None)
        for number, (span, copy) in enumerate(zip(spans, copies, strict=True)):
            if len(spans) - number in entries:
                self.k.label(entries[len(spans) - number])
                if level is not None and level < number:
                    self._level_at[entries[len(spans) - number]] = [entry for later in copies[number:] for entry in later]
            if self.epilogue is not None and number == len(spans) - 1:
                self._end(self.epilogue, copy, level is None)
            self._emit_copy(copy, span)
        if level is None:
            self.shift(opening=False)

    @cached_property
    def _computing(self) -> Entries:
        """The barriers and matrix units of a steady copy: what matters for the matrix cores before the last copies."""
        matrix = {unit.tag.ordinal: unit for unit in self.units.every() if is_matrix(unit)}
        return [entry if isinstance(entry, Sync) else matrix[entry] for entry in self.units.shape.arrangement.order
                if isinstance(entry, Sync) or entry in matrix]

    def _end(self, epilogue: Epilogue, last: Sequence[Sync | Unit], level: bool) -> None:
        """Emit a copy of the last step with the epilogue, after the guard."""
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
        """Copies without redundant barriers. `prefixes`: by the copy that a path enters at, the entries that it runs before."""
        begins = [0, *accumulate(map(len, copies))]
        replaced = redundant_barriers([entry for copy in copies for entry in copy], self.schedule.stagger,
                                {begins[number]: front for number, front in prefixes.items()})
        return [[replaced.get(position) or entry for position, entry in enumerate(copy, begins[number]) if replaced.get(position, entry)]
                for number, copy in enumerate(copies)]

    def shift(self, opening: bool) -> None:
        """Emit the conditional barriers that open the stagger (the second group waits) or close it (the first group waits)."""
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

    def _entries(self, span: CopySpan) -> list[Sync | Unit]:
        """The entries of a copy, in the schedule's order."""
        chosen = self.units.placed(span)
        return [entry if isinstance(entry, Sync) else chosen[entry] for entry in self.units.shape.arrangement.order
                if isinstance(entry, Sync) or entry in chosen]

    def _emit_copy(self, every: Sequence[Sync | Unit], span: CopySpan, count_down: tuple[Reg, int] | None = None) -> None:
        entries = [entry for entry in every if isinstance(entry, Sync) or self.mine(entry)]
        last = max((position for position, entry in enumerate(entries) if isinstance(entry, Unit)), default=len(entries))
        final = entries[last] if last < len(entries) else None
        # The subtraction stands before the last unit, unless that unit changes SCC, is a block or still reads a source's offset.
        before = isinstance(final, Unit) and not (final.effects.writes & scc.mask or final.is_block or self.k.follows_sources(final))
        last = self._before_vector_work(entries, last) if before else last
        # A cold block that copies share ends with comparisons: nothing tests an SCC from before it.
        last = max([last, *(position + 1 for position, entry in enumerate(entries) if isinstance(entry, Unit) and entry.tag.cold)])
        for position, entry in enumerate(entries):
            if position == last and before:
                self._end_copy(span, count_down)
            if isinstance(entry, Sync):
                self._sync(entry)
            else:
                self.k.append_unit(entry)
        if not before:
            self._end_copy(span, count_down)

    def _before_vector_work(self, entries: Sequence[Sync | Unit], last: int) -> int:
        """The position of the last unit of the previous memory stage, if the last stage has vector work: its gaps then have no room."""
        units = [(position, entry) for position, entry in enumerate(entries) if isinstance(entry, Unit)]
        stage = units[-1][1].tag.stage
        mine = [unit for _, unit in units if unit.tag.stage == stage]
        if not any(is_matrix(unit) for unit in mine) or all(is_matrix(unit) for unit in mine):
            return last
        for position, unit in reversed(units):
            if self.k.follows_sources(unit) or (unit.effects.writes | unit.effects.reads) & scc.mask:
                break
            if unit.tag.stage != stage and not unit.is_block:
                return position
        return last

    @cached_property
    def _source_offsets(self) -> list[int]:
        return self.units.source_offsets(self.mine)

    def _sources_follow(self, span: CopySpan) -> bool:
        """Whether a later copy still reads a source in memory, so that sources must advance."""
        offsets = self._source_offsets
        if span.high is None:
            return bool(offsets) or self.mine is _everything
        return min(offsets, default=span.high) < span.high - 1

    def _end_copy(self, span: CopySpan, count_down: tuple[Reg, int] | None) -> None:
        """Emit the scalar code at the end of a copy; the subtraction that the branch tests stands last."""
        if self._sources_follow(span):
            self._advance(span)
        if count_down is not None:
            self.k.s_sub_u32(count_down[0], count_down[0], count_down[1])

    def _advance(self, span: CopySpan) -> None:
        """Advance the sources after a copy."""
        if self.held_back is None or span.first is None:
            self.k.step_ends()
        else:
            self.k.step_ends(1 - span.first, self.held_back)

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
        elif what.kind == "skip":
            assert self.unmasked is not None
            k.s_cmp_gt_i32(self.unmasked, 0)
            k.s_cbranch_scc1(self._skips[what.level])
        elif what.kind == "skipped":
            k.label(self._skips[what.level])
        elif what.kind == "priority":
            k.s_setprio(what.level)
        else:
            k.wait_slot()
