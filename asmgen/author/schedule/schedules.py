"""Schedules place the operations of a step, and the barriers, waits and priorities between them. The step itself names none of these.

`arrange` gets the units of one step in each phase of its unroll, with the iteration of each unit. It returns their order in a steady copy,
with synchronisation, and says which units run one copy early (`lead`). Copies of the prologue and the drain omit units that they do not
keep.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import cache, reduce
from itertools import groupby
from operator import or_
from typing import Protocol

from asmgen.author.schedule.unitcosts import StepMachine
from asmgen.author.step.effects import Unit, depends
from asmgen.isa.records import dataclass
from asmgen.isa.registers import m0
from asmgen.isa.speeds import is_packed_f32
from asmgen.isa.timing import gpu_of, timing


@dataclass(frozen=True)
class Sync:
    """Synchronisation, which only schedules place: "barrier", "wait" or "priority" (to `level`).

    A "wait" is a wait slot: one s_waitcnt with the loosest counts for all that is due before the next one. Pipelines themselves add "open",
    "level", "exit" and "where_needed", a barrier that may have nothing to order (`stepcopies`, `earlyexit`).
    """

    kind: str
    level: int = 0


Placed = int | Sync
"""A unit by its ordinal, or synchronisation."""


@dataclass(frozen=True)
class Arrangement:
    """The order of a steady copy, and the ordinals of the units that belong to the next iteration's step. `remark` stands in the assembly
    text. `clocks` are the clk of a plain step by the schedule's own arithmetic; 0 if it has none."""

    order: tuple[Placed, ...]
    lead: frozenset[int] = field(default_factory=frozenset)
    remark: str = ""
    clocks: float = 0


class Schedule(Protocol):
    """What `pipeline` needs of a schedule."""

    @property
    def name(self) -> str:
        """The name that errors use."""
        ...

    @property
    def stagger(self) -> int:
        """The number of barriers by which the second wave group runs after the first."""
        ...

    def arrange(self, phases: Sequence[Sequence[Unit]], offsets: Mapping[int, int], machine: StepMachine) -> Arrangement:
        """The order of a steady copy. `phases` are the step's units in each phase, `offsets` the iterations by ordinal in all phases,
        `machine` who runs it."""
        ...


def is_matrix(unit: Unit) -> bool:
    """Whether a unit is the matrix core's work."""
    return any(instruction.opcode.group == "matrix" for instruction in unit.instructions)


def _stages(units: Sequence[Unit]) -> list[list[Unit]]:
    """A step's units, stage by stage."""
    return [list(stage) for _, stage in groupby(units, key=lambda unit: unit.tag.stage)]


@dataclass(frozen=True)
class PingPong:
    """For 8 waves, two on each SIMD: one computes while the other moves data.

    Each stage ends with a barrier. One group of four waves runs a stage after the other. `priority` is the level of memory stages, `matrix`
    that of matrix stages. If both have vector work, `matrix` is the higher one, so that vector work of the memory stage waits. A `priority`
    of None sets no priorities. Other work of a matrix stage stands between its matrix units, evenly by clk; that of a memory stage stands
    between its loads.
    """

    priority: int | None = 1
    matrix: int = 0
    name: str = "ping-pong"
    stagger: int = 1

    def orders(self, phases: Sequence[Sequence[Unit]], machine: StepMachine) -> list[list[Unit]]:
        """The units of each stage, of the first phase, in order."""
        return [spread(stage, is_matrix if any(map(is_matrix, stage)) else _is_memory) for stage in _stages(phases[0])]

    def arrange(self, phases: Sequence[Sequence[Unit]], offsets: Mapping[int, int], machine: StepMachine) -> Arrangement:
        """Stage by stage. A memory stage ends with a wait slot, each stage with a barrier."""
        order: list[Placed] = []
        for stage in self.orders(phases, machine):
            matrix = any(map(is_matrix, stage))
            numbers: list[Placed] = [unit.tag.ordinal for unit in stage]
            if matrix:
                # The first matrix instruction stands before s_setprio, so that it issues right after the barrier.
                first = 1 + next(position for position, unit in enumerate(stage) if is_matrix(unit))
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
    """A row of the timing table in whole clk, for rows about issue: they are the same on each GPU."""
    return timing(gpu_of("gfx950")).clocks(name)


def issue_clk(unit: Unit) -> int:
    """The clk for which a unit's vector instruction holds its port; 0 for blocks and units that are `seldom` there."""
    if unit.is_block or unit.tag.seldom:
        return 0
    return clocks("trans_issue" if is_transcendental(unit) else "valu_issue")


def is_transcendental(unit: Unit) -> bool:
    """Whether a unit is one instruction that holds the vector port for longer than others."""
    return not unit.is_block and "trans" in unit.first.opcode.classes


def is_packed(unit: Unit) -> bool:
    """Whether a unit is a packed f32 instruction; those do not run beside a matrix instruction."""
    return not unit.is_block and is_packed_f32(unit.first.name)


def spread(stage: Sequence[Unit], leads: Callable[[Unit], bool]) -> list[Unit]:
    """A stage's units, the ones that do not lead evenly by clk between the ones that lead.

    Each kind keeps its order, and a unit stands after the units of the other kind that it depends on. After the last leader stand only
    only units that must, and blocks, which may wait, with the units after them. What brings data to a later leader stands as early as it
    may. Packed f32 at the beginning of the others stands before all leaders, as it does not run beside a matrix instruction.
    """
    leaders, others = [unit for unit in stage if leads(unit)], [unit for unit in stage if not leads(unit)]
    if not leaders or not others:
        return list(stage)
    first = next((position for position, unit in enumerate(others) if not is_packed(unit)
                  or any(later.number < unit.number and depends(unit, later) for later in leaders)), len(others))
    order, others = others[:first], others[first:]
    # Packed f32 of the other waves waits for the last matrix instruction in any case; the gap after it is then as good as the others.
    total, gaps = sum(map(issue_clk, others)), max(1, len(leaders) - (not first))
    done = taken = 0  # clk, units
    for number, leader in enumerate(leaders):
        needed = max((at + 1 for at, unit in enumerate(others) if unit.number < leader.number and depends(leader, unit)), default=0)
        order += others[taken:needed]
        taken = max(taken, needed)
        order.append(leader)
        while taken < len(others):
            unit = others[taken]
            blocked = any(later.number < unit.number and depends(unit, later) for later in leaders[number + 1:])
            half = issue_clk(unit) / 2
            even = unit.is_block or done + half > total * (number + 1) / gaps
            if blocked or number < len(leaders) - 1 and even and not _awaited(unit, leaders[number + 1:]):
                break
            order.append(unit)
            done += issue_clk(unit)
            taken += 1
    return order


def _awaited(unit: Unit, leaders: Sequence[Unit]) -> bool:
    """Whether the unit brings from memory what one of the leaders takes."""
    brought = unit.effects.writes if unit.effects.memory else 0
    return any(leader.number > unit.number and leader.effects.reads & brought for leader in leaders)


def _m0_ahead(order: Sequence[Placed], stage: Sequence[Unit]) -> list[Placed]:
    """The order with a unit between each write of M0 and the load that reads it, which otherwise need a wait state.

    The write moves one position earlier. If another such load stands there, an earlier unit moves between them.
    """
    units = {unit.tag.ordinal: unit for unit in stage}

    def uses_m0(entry: Placed) -> bool:
        return isinstance(entry, int) and bool((units[entry].effects.reads | units[entry].effects.writes) & m0.mask)

    moved = list(order)
    for position in range(1, len(moved)):
        entry = moved[position]
        if not (isinstance(entry, int) and units[entry].effects.writes & m0.mask):
            continue
        if not uses_m0(moved[position - 1]):
            moved[position - 1], moved[position] = entry, moved[position - 1]
            continue
        free = next((at for at in range(position - 1, -1, -1) if isinstance(moved[at], int) and not uses_m0(moved[at])
                     and not uses_m0(moved[max(at - 1, 0)])), None)
        if free is not None:
            moved.insert(position, moved.pop(free))
    return moved


@dataclass(frozen=True)
class ProducerConsumer:
    """For waves of two roles: producers move data to LDS; consumers read it a step later and multiply.

    Each step ends with a barrier for all waves. Each role has the code of its own units and all barriers, so that the roles meet at each
    barrier on each path.
    """

    name: str = "producer-consumer"
    stagger: int = 0

    def arrange(self, phases: Sequence[Sequence[Unit]], offsets: Mapping[int, int], machine: StepMachine) -> Arrangement:
        """Stage by stage in emission order. A memory stage ends with a wait slot, the step with a wait slot and a barrier."""
        order: list[Placed] = []
        for stage in _stages(phases[0]):
            order += [unit.tag.ordinal for unit in stage]
            order += [] if any(map(is_matrix, stage)) else [Sync("wait")]
        return Arrangement((*order, Sync("wait"), Sync("barrier")))


def producing(units: Sequence[Unit]) -> frozenset[int]:
    """The ordinals of the producers' units in a step: those that fill LDS, and those that write registers which these read."""
    fills = [unit for unit in units if any(access.space == "lds" and access.write for access in unit.effects.memory)]
    wanted = reduce(or_, (unit.effects.reads for unit in fills), 0)
    return frozenset(unit.tag.ordinal for unit in (*fills, *(unit for unit in units if unit.effects.writes & wanted)))


@dataclass(frozen=True)
class InOrder:
    """Emission order, for row kernels, which have no matrix stream. It places no barriers and no waits: registers show what to wait for."""

    name: str = "in-order"
    stagger: int = 0

    def arrange(self, phases: Sequence[Sequence[Unit]], offsets: Mapping[int, int], machine: StepMachine) -> Arrangement:
        """As emitted."""
        return Arrangement(tuple(unit.tag.ordinal for unit in phases[0]))
