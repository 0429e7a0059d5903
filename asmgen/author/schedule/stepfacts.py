"""What all orders of a step share: its units, their costs, dependences and handoffs, and the least length of a step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import groupby

from asmgen.author.schedule.handoffs import handoffs
from asmgen.author.schedule.stepclock import StepClock
from asmgen.author.schedule.stepdigest import step_digest
from asmgen.author.schedule.stepgraph import Edge, dependences, result_after
from asmgen.author.schedule.unitcosts import StepMachine, UnitKind, cost_of, kinds_of, ticks
from asmgen.author.step.effects import Unit
from asmgen.author.step.iterations import PipelineError
from asmgen.isa.registers import m0

_DELAYS = 3  # gaps by which runs of packed f32 may stand later than their share of the work says


class NoRoom(Exception):
    """A step of some length has no tick for a unit."""

    def __init__(self, unit: Unit, sentence: str) -> None:
        super().__init__(sentence)
        self.unit, self.sentence = unit, sentence


class StepFacts:
    """What all orders of a step share: its units, their costs, dependences and handoffs."""

    def __init__(self, phases: Sequence[Sequence[Unit]], offsets: Mapping[int, int], machine: StepMachine, kept_beside: str = "") -> None:
        self.phases, self.offsets, self.machine, self.kept_beside = phases, offsets, machine, kept_beside
        self.units = {unit.tag.ordinal: unit for unit in phases[0]}
        self.kinds = kinds_of(list(phases[0]))
        self.costs = {number: cost_of(unit, machine) for number, unit in self.units.items()}
        self.matrix = self.of(UnitKind.MATRIX)
        if not self.matrix:
            raise PipelineError("the schedule modulo places operations around matrix instructions, and this step has none")
        table = machine.timing
        self.release = ticks(table["barrier_release"], table.clocks("slot"))
        self.hazard = ticks(table["packed_hazard"], table.clocks("slot"))
        self.edges = dependences(phases, self.kinds, self.costs)
        self.handoffs = handoffs(phases, offsets)
        self.edges += self._computed_handoffs()
        self.raw: set[Edge] = set()
        self.users: dict[int, list[Edge]] = defaultdict(list)  # who reads what a unit writes
        self.after: dict[int, list[Edge]] = defaultdict(list)
        self.before: dict[int, list[Edge]] = defaultdict(list)
        for edge in self.edges:
            self.after[edge.before].append(edge)
            self.before[edge.after].append(edge)
            if edge.result:
                self.users[edge.before].append(edge)
                self.raw |= {edge} if edge.latency else set()
        busy = sum(max(self.costs[number].busy, self.costs[number].issue) for number in self.matrix)
        self.room = max(1, *(max(cost.busy - cost.issue, 0) for number in self.matrix if (cost := self.costs[number])))
        issue = sum(self.issue(number) for number in self.units)
        vector = sum(self.costs[number].busy for number in self.of(UnitKind.COMPUTE) if not self.units[number].tag.seldom)
        vector += sum(self.costs[number].issue for number in self.matrix)
        self.groups = self._packed_runs()
        self.failures: list[NoRoom] = []
        self.gap_orders: dict[tuple[int, ...], list[int]] = {}  # orders of the units of a gap, by those units
        self.delays = range(_DELAYS if self.groups else 1)
        self.pauses = sum(self.pause(group) for group in self.groups)
        busy += self.pauses
        waits = 2 * bool(self.handoffs) + 2  # a barrier with its wait, and the loop's subtraction and branch
        self.least = max(busy, issue + waits, vector)
        # The loop's subtraction and branch, which one copy of a round has: all copies keep their ticks free at the end, or, where vector
        # work needs them, each its share of them.
        branch = table["slot"] + table["branch_taken"]
        self.vector_bound = vector + branch / table["slot"] > self.least
        ends = (branch, branch / len(phases)) if self.vector_bound else (branch,)
        self.ends = tuple(dict.fromkeys(ticks(clk, table.clocks("slot")) for clk in ends))
        self.clock = StepClock(phases, self.kinds, self.costs, machine, branches=1 if self.vector_bound else len(phases))

    @cached_property
    def beside(self) -> dict[int, frozenset[int]]:
        """By unit, those with which it shares a dependence within one copy."""
        return {number: frozenset([edge.after for edge in self.after[number] if not edge.distance]
                                  + [edge.before for edge in self.before[number] if not edge.distance]) for number in self.units}

    @cached_property
    def writers_of_m0(self) -> frozenset[int]:
        """The units that write M0."""
        return frozenset(number for number, unit in self.units.items() if unit.effects.writes & m0.mask)

    @cached_property
    def digest(self) -> str:
        """The key of the step's kept order."""
        return step_digest(self.phases, self.offsets, self.machine)

    def _packed_runs(self) -> list[tuple[int, ...]]:
        """Packed f32 side by side in its stream. It does not run beside a matrix unit: each run stands in a pause between two."""
        streams: dict[str, list[int]] = defaultdict(list)
        for number in self.of(UnitKind.COMPUTE):
            if not self.units[number].tag.seldom:
                streams[self.units[number].stream].append(number)
        return [tuple(run) for numbers in streams.values() for packed, run in groupby(numbers, lambda number: self.costs[number].packed)
                if packed]

    def pause(self, group: Sequence[int]) -> int:
        """The ticks between two matrix units that a run of packed f32 needs beyond their own."""
        return self.hazard + sum(max(self.costs[number].busy, 1) for number in group)

    def of(self, kind: UnitKind) -> list[int]:
        """The ordinals of a kind, in emission order."""
        return [number for number, its in self.kinds.items() if its is kind]

    def issue(self, number: int) -> int:
        """The ticks of issue that a unit takes in a plain copy."""
        return 0 if self.units[number].tag.seldom else self.costs[number].issue

    def settle(self, number: int) -> int:
        """The ticks from a unit's issue until a wait for it and a barrier after that wait are over."""
        return self.costs[number].ready + 2 + self.release

    def result(self, edge: Edge) -> int:
        """The ticks from the issue of a unit to that of one that reads its result."""
        return result_after(self.units[edge.before], self.units[edge.after], self.kinds, self.costs)

    def _computed_handoffs(self) -> list[Edge]:
        """Handoffs of writes that are no fills, as edges: such a write and its reads are placed by dependences."""
        found = []
        for handoff in self.handoffs:
            if self.kinds[handoff.write] is UnitKind.COMPUTE:
                first, second = (handoff.write, handoff.read) if handoff.fresh else (handoff.read, handoff.write)
                copies = handoff.copies if handoff.fresh else -handoff.copies
                found.append(Edge(first, second, self.settle(first), copies))
        return found
