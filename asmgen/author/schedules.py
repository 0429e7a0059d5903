"""Schedules: where the operations of a step stand, and where barriers, waits and priorities go. The step itself names none of them.

`arrange` sees the units of one step in each phase of its unroll, with the iteration of each, and says in which order they stand in a
steady copy, with what synchronisation, and which of them run one copy early (`lead`). Copies of prologue and tails leave out what they
do not keep.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Protocol

from asmgen.author.effects import Unit
from asmgen.isa.registers import m0


@dataclass(frozen=True)
class Sync:
    """Something that only schedules place: "barrier", "wait" (a wait point: one s_waitcnt with the loosest counts for all that is due
    before the next one) or "priority" (to `level`)."""

    kind: str
    level: int = 0


Placed = int | Sync
"""A unit, by its ordinal, or a synchronisation."""


@dataclass(frozen=True)
class Arrangement:
    """The order of a steady copy, and the ordinals whose units belong to the next iteration's step."""

    order: tuple[Placed, ...]
    lead: frozenset[int] = field(default_factory=frozenset)


class Schedule(Protocol):
    """What `pipeline` asks of a schedule. `stagger` is the number of barriers by which half of the waves run behind."""

    @property
    def name(self) -> str:
        """What errors call it."""
        ...

    @property
    def stagger(self) -> int:
        """Barriers by which the second group of waves runs behind."""
        ...

    def arrange(self, phases: Sequence[Sequence[Unit]], offsets: Mapping[int, int]) -> Arrangement:
        """The order of a steady copy, of the units of a step in each phase; `offsets` are iterations by ordinal, the same in all phases."""
        ...


def is_matrix(unit: Unit) -> bool:
    """Whether a unit is the matrix core's work."""
    return any(instruction.opcode.group == "matrix" for instruction in unit.instructions)


@dataclass(frozen=True)
class PingPong:
    """8 waves, two a SIMD: one computes while the other moves data. Each stage ends with a barrier, and one group of four waves runs a
    stage behind the other. `priority` is the level of memory stages (matrix stages have 0), None for no priorities.
    """

    priority: int | None = 1
    name: str = "ping-pong"
    stagger: int = 1

    def arrange(self, phases: Sequence[Sequence[Unit]], offsets: Mapping[int, int]) -> Arrangement:
        """Stage after stage in emission order; a memory stage ends with a wait point, every stage with a barrier."""
        order: list[Placed] = []
        for _, group in groupby(phases[0], key=lambda unit: unit.tag.stage):
            stage = list(group)
            matrix = any(is_matrix(unit) for unit in stage)
            numbers: list[Placed] = [unit.tag.ordinal for unit in stage]
            if matrix:
                # The first matrix instruction goes before the priority: nothing may stand between the barrier's release and it.
                numbers[1:1] = [] if self.priority is None else [Sync("priority", 0)]
                order += [*numbers, Sync("barrier")]
            else:
                numbers[0:0] = [] if self.priority is None else [Sync("priority", self.priority)]
                order += [*_m0_ahead(numbers, {unit.tag.ordinal: unit for unit in stage}), Sync("wait"), Sync("barrier")]
        return Arrangement(tuple(order))


def _m0_ahead(order: Sequence[Placed], units: Mapping[int, Unit]) -> list[Placed]:
    """Writes of M0 one place earlier, so that something stands between them and the load that reads it: else a wait state would."""
    moved = list(order)
    for place in range(1, len(moved)):
        entry, before = moved[place], moved[place - 1]
        if isinstance(entry, int) and units[entry].effects.writes & m0.mask \
                and not (isinstance(before, int) and (units[before].effects.reads | units[before].effects.writes) & m0.mask):
            moved[place - 1], moved[place] = entry, before
    return moved


@dataclass(frozen=True)
class InOrder:
    """Emission order, loads `ahead` steps early in register stages: for row kernels, which have no matrix stream. No barriers of its
    own: waits are those that registers ask for."""

    name: str = "in-order"
    stagger: int = 0

    def arrange(self, phases: Sequence[Sequence[Unit]], offsets: Mapping[int, int]) -> Arrangement:
        """As emitted."""
        return Arrangement(tuple(unit.tag.ordinal for unit in phases[0]))
