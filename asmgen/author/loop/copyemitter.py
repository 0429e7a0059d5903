"""Emits one copy of a pipeline's step: its units with the schedule's synchronisation, and the scalar code at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from asmgen.author.loop.copyend import end_positions
from asmgen.author.loop.earlyexit import EarlyExit
from asmgen.author.loop.overlap import Epilogue
from asmgen.author.loop.pathgraph import PathCopy
from asmgen.author.loop.stepunits import CopySpan, StepUnits
from asmgen.author.schedule.schedules import Schedule, Sync
from asmgen.author.step.effects import Unit
from asmgen.isa.registers import Reg
from asmgen.program.program import Label

if TYPE_CHECKING:
    from asmgen.author.emit.builder import Builder


Entries = Sequence[Sync | Unit]


def _everything(unit: Unit) -> bool:
    return True


class CopyEmitter:
    """What a pipeline's copies of a step have in common, and how one is emitted. With roles, `mine` selects the units of the role whose
    code is emitted."""

    def __init__(self, k: Builder, units: StepUnits, schedule: Schedule, groups: Reg | None,
                 mine: Callable[[Unit], bool] = _everything, epilogue: Epilogue | None = None,
                 early_exit: Reg | None = None) -> None:
        self.k, self.units, self.schedule, self.groups, self.mine = k, units, schedule, groups, mine
        self.epilogue = epilogue
        self.early_exit = early_exit  # how many of the last iterations a wave can skip
        self._exits: list[tuple[str, EarlyExit, bool]] = []  # label, exit, and whether the groups are level after its code
        self._exits_after: list[tuple[int, ...]] = []  # the copies of the drain of each
        self._level_at: dict[str, list[Sync | Unit]] = {}  # by label at which other paths join level groups: the entries from there on
        self.ahead, self.unroll = units.shape.ahead, units.shape.unroll
        self.held_back: tuple[Reg, Reg] | None = None  # the count, and room: sources then stop at their last iteration
        self.unmasked: Reg | None = None  # in a prologue: an SGPR that is positive if the first iterations need no masked operations
        self._skips: list[str] = []  # labels after masked operations that a prologue may skip
        self.whole = mine is _everything
        self.chosen = False  # whether only waves that the epilogue serves come to the drain
        self.closing: Callable[[CopySpan, int], None] | None = None  # emits what closes sources after a copy, before that step
        self.waiting: Callable[[], None] | None = None  # emits what a prologue does while its loads are in flight
        self.loops_at = self.sharing_end = len(k.items)  # the number of the first item after the prologues; where sharing ends
        self.filling = ""  # a label at which fills by DMA are in flight that bring nothing
        self.lost = 0  # registers (as bits) that short counts leave with values of no iteration
        self.parts: list[PathCopy] = []
        self._ways: list[tuple[int, Entries]] = []  # by which a loop is entered: the copy, and what runs before
        self.leaves: list[tuple[int, int, int]] = []  # of early exits: iterations skipped, the copy that is left, the copy that is run

    def _note(self, kind: str, phase: int, steps: int, masked: bool, placed: Iterable[tuple[int, Unit]]) -> int:
        """Note a copy that stands here; its number."""
        before = self.k.items[-1] if self.k.items else None
        label = before.name if isinstance(before, Label) else ""
        self.parts.append(PathCopy(kind, label, phase, steps, masked, tuple(placed)))
        return len(self.parts) - 1

    def _place(self, entries: Entries) -> None:
        for entry in entries:
            if isinstance(entry, Sync):
                self._sync(entry)
            else:
                self.k.append_unit(entry)

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

    def _append(self, unit: Unit) -> None:
        if self.mine(unit):
            self.k.append_unit(unit)

    def _note_copy(self, kind: str, every: Entries, span: CopySpan) -> int:
        lead = self.units.shape.arrangement.lead
        return self._note(kind, span.phase, 1, span.masked, [(int(entry.tag.ordinal in lead), entry) for entry in every
                                                             if isinstance(entry, Unit)])

    def _emit_copy(self, every: Entries, span: CopySpan, kind: str, test: Callable[[], object] | None = None) -> int:
        k = self.k
        found = self._note_copy(kind, every, span)
        entries = [entry for entry in every if isinstance(entry, Sync) or self.mine(entry)]
        with k.section() as section:
            self.end_copy(span, test)
        scalar = section.units
        k.cut(section.start)
        placed = list(zip(end_positions(entries, len(scalar), k.follows_sources), scalar, strict=True))
        for position, entry in enumerate(entries):
            while placed and placed[0][0] == position:
                k.append_unit(placed.pop(0)[1])
            if isinstance(entry, Sync):
                self._sync(entry)
            else:
                k.append_unit(entry)
        for _, unit in placed:
            k.append_unit(unit)
        return found

    @cached_property
    def _source_offsets(self) -> list[int]:
        return self.units.source_offsets(self.mine)

    def _sources_follow(self, span: CopySpan) -> bool:
        """Whether a later copy still reads a source in memory, so that sources must advance."""
        offsets = self._source_offsets
        if span.high is None:
            return bool(offsets) or self.mine is _everything
        return min(offsets, default=span.high) < span.high - 1

    def end_copy(self, span: CopySpan, test: Callable[[], object] | None = None) -> None:
        """Emit the scalar code at the end of a copy; what a branch tests stands last."""
        if self._sources_follow(span):
            self._advance(span)
        if test is not None:
            test()

    def _advance(self, span: CopySpan) -> None:
        """Advance the sources after a copy."""
        if self.held_back is None or span.first is None:
            self.k.step_ends()
        else:
            self.k.step_ends(1 - span.first, self.held_back)
        if self.closing is not None and span.first is not None:
            self.closing(span, 1 - span.first)

    def _sync(self, what: Sync) -> None:
        k = self.k
        if what.kind == "barrier":
            k.s_barrier()
        elif what.kind == "where_needed":
            k.barrier_where_needed(1)
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
