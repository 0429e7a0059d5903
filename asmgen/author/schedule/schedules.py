"""Schedules: where the operations of a step stand, and where barriers, waits and priorities go. The step itself names none of them.

`arrange` sees the units of one step in each phase of its unroll, with the iteration of each, and says in which order they stand in a
steady copy, with what synchronisation, and which of them run one copy early (`lead`). Copies of prologue and tails leave out what they
do not keep.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import cache, reduce
from itertools import groupby
from operator import or_
from typing import Protocol

from asmgen.author.step.effects import Unit, depends
from asmgen.isa.records import dataclass
from asmgen.isa.registers import m0
from asmgen.isa.timing import gpu_of, timing


@dataclass(frozen=True)
class Sync:
    """Something that only schedules place: "barrier", "wait" (a wait slot: one s_waitcnt with the loosest counts for all that is due
    before the next one) or "priority" (to `level`). Pipelines themselves add "open", "level" and "leave" (`stepcopies`, `leaving`)."""

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


def _stages(units: Sequence[Unit]) -> list[list[Unit]]:
    """A step's units, stage by stage."""
    return [list(stage) for _, stage in groupby(units, key=lambda unit: unit.tag.stage)]


@dataclass(frozen=True)
class PingPong:
    """8 waves, two a SIMD: one computes while the other moves data. Each stage ends with a barrier, and one group of four waves runs a
    stage behind the other. `priority` is the level of memory stages, `matrix` that of matrix stages (above it where both have vector
    work, which then waits in the memory stage); a priority of None sets none.

    Other work of a matrix stage stands in the windows between its matrix units, evenly by clk; that of a memory stage between its loads.
    """

    priority: int | None = 1
    matrix: int = 0
    name: str = "ping-pong"
    stagger: int = 1

    def arrange(self, phases: Sequence[Sequence[Unit]], offsets: Mapping[int, int]) -> Arrangement:
        """Stage after stage in emission order; a memory stage ends with a wait slot, every stage with a barrier."""
        order: list[Placed] = []
        for emitted in _stages(phases[0]):
            matrix = any(map(is_matrix, emitted))
            stage = spread(emitted, is_matrix if matrix else _is_memory)
            numbers: list[Placed] = [unit.tag.ordinal for unit in stage]
            if matrix:
                # The first matrix instruction goes before the priority: nothing may stand between the barrier's release and it.
                first = 1 + next(place for place, unit in enumerate(stage) if is_matrix(unit))
                numbers[first:first] = [] if self.priority is None else [Sync("priority", self.matrix)]
                order += [*numbers, Sync("barrier")]
            else:
                numbers[0:0] = [] if self.priority is None else [Sync("priority", self.priority)]
                order += [*_m0_ahead(numbers, stage), Sync("wait"), Sync("barrier")]
        return Arrangement(tuple(order))


def _is_memory(unit: Unit) -> bool:
    return bool(unit.effects.memory or unit.effects.writes & m0.mask) and not unit.is_block


@cache
def clocks(name: str) -> int:
    """A row of the timing table in whole clk: of those about issue, which are the same on every GPU."""
    return timing(gpu_of("gfx950")).clocks(name)


def issue_clk(unit: Unit) -> int:
    """How long a unit's vector instruction holds its port; blocks and what is seldom there count for nothing."""
    if unit.is_block or unit.tag.seldom:
        return 0
    return clocks("trans_issue" if is_transcendental(unit) else "valu_issue")


def is_transcendental(unit: Unit) -> bool:
    """Whether a unit is one instruction that holds the vector port for longer than others."""
    return not unit.is_block and "trans" in unit.first.opcode.classes


def is_packed(unit: Unit) -> bool:
    """Whether a unit is packed f32, which does not run beside a product."""
    return not unit.is_block and unit.first.name.startswith("v_pk_") and unit.first.name.endswith("_f32")


def spread(stage: Sequence[Unit], leads: Callable[[Unit], bool]) -> list[Unit]:
    """A stage's units with those that do not lead evenly, by clk, between those that do; each kind keeps its order, and what depends on
    the other kind stands behind it. Nothing follows the last leader but what has to, and blocks, which may wait, with what is behind
    them. Packed f32 that begins the others stands in front of all, as it does not run beside a product."""
    leaders, others = [unit for unit in stage if leads(unit)], [unit for unit in stage if not leads(unit)]
    if not leaders or not others:
        return list(stage)
    first = next((place for place, unit in enumerate(others) if not is_packed(unit)
                  or any(later.number < unit.number and depends(unit, later) for later in leaders)), len(others))
    order, others = others[:first], others[first:]
    # Packed f32 of the other waves waits for the last product in any case, so that the window behind it is as good as others then.
    total, windows = sum(map(issue_clk, others)), max(1, len(leaders) - (not first))
    done = taken = 0  # clk, units
    for number, leader in enumerate(leaders):
        needed = max((place + 1 for place, unit in enumerate(others) if unit.number < leader.number and depends(leader, unit)), default=0)
        order += others[taken:needed]
        taken = max(taken, needed)
        order.append(leader)
        while taken < len(others):
            unit = others[taken]
            early = any(later.number < unit.number and depends(unit, later) for later in leaders[number + 1:])
            half = issue_clk(unit) / 2
            if early or number < len(leaders) - 1 and (unit.is_block or done + half > total * (number + 1) / windows):
                break
            order.append(unit)
            done += issue_clk(unit)
            taken += 1
    return order


def _m0_ahead(order: Sequence[Placed], stage: Sequence[Unit]) -> list[Placed]:
    """Something between each write of M0 and the load that reads it, else a wait state would be: the write goes one place earlier, or,
    behind another such load, what stood before those comes between."""
    units = {unit.tag.ordinal: unit for unit in stage}

    def uses_m0(entry: Placed) -> bool:
        return isinstance(entry, int) and bool((units[entry].effects.reads | units[entry].effects.writes) & m0.mask)

    moved = list(order)
    for place in range(1, len(moved)):
        entry = moved[place]
        if not (isinstance(entry, int) and units[entry].effects.writes & m0.mask):
            continue
        if not uses_m0(moved[place - 1]):
            moved[place - 1], moved[place] = entry, moved[place - 1]
            continue
        free = next((at for at in range(place - 1, -1, -1) if isinstance(moved[at], int) and not uses_m0(moved[at])
                     and not uses_m0(moved[max(at - 1, 0)])), None)
        if free is not None:
            moved.insert(place, moved.pop(free))
    return moved


@dataclass(frozen=True)
class ProducerConsumer:
    """Waves of two roles: producers move data to LDS, consumers read and multiply it, a step behind. Each step ends with a barrier for all
    waves. Every role has the code of its own units, and all barriers: so the roles meet, barrier by barrier, on every path.
    """

    name: str = "producer-consumer"
    stagger: int = 0

    def arrange(self, phases: Sequence[Sequence[Unit]], offsets: Mapping[int, int]) -> Arrangement:
        """Stage after stage in emission order; a memory stage ends with a wait slot, the step with one and a barrier."""
        order: list[Placed] = []
        for stage in _stages(phases[0]):
            order += [unit.tag.ordinal for unit in stage]
            order += [] if any(map(is_matrix, stage)) else [Sync("wait")]
        return Arrangement((*order, Sync("wait"), Sync("barrier")))


def producing(units: Sequence[Unit]) -> frozenset[int]:
    """The ordinals of the producers' work in a step: what fills LDS, and what writes registers that this reads."""
    fills = [unit for unit in units if any(access.space == "lds" and access.write for access in unit.effects.memory)]
    wanted = reduce(or_, (unit.effects.reads for unit in fills), 0)
    return frozenset(unit.tag.ordinal for unit in (*fills, *(unit for unit in units if unit.effects.writes & wanted)))


@dataclass(frozen=True)
class InOrder:
    """Emission order, loads `ahead` steps early in register stages: for row kernels, which have no matrix stream. No barriers of its
    own: waits are those that registers ask for."""

    name: str = "in-order"
    stagger: int = 0

    def arrange(self, phases: Sequence[Sequence[Unit]], offsets: Mapping[int, int]) -> Arrangement:
        """As emitted."""
        return Arrangement(tuple(unit.tag.ordinal for unit in phases[0]))
