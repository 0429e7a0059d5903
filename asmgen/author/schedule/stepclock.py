"""The ticks of a step by arithmetic: one wave issues in order, and its resources are taken in turn.

It is what the search for an order compares, no prediction of a kernel: data from memory have arrived, LDS serves all waves alike, and
nothing else runs. `asmgen profile` runs the code through the cycle model.
"""

from __future__ import annotations

from collections.abc import Mapping

from asmgen.author.schedule.schedules import Arrangement, Sync
from asmgen.author.schedule.unitcosts import StepMachine, UnitCost, UnitKind, ticks
from asmgen.author.step.effects import Unit

_COPIES = 4  # until a step takes the same time again


class StepClock:
    """The clock of one step's orders."""

    def __init__(self, units: Mapping[int, Unit], kinds: Mapping[int, UnitKind], costs: Mapping[int, UnitCost],
                 machine: StepMachine) -> None:
        self.units, self.kinds, self.costs = units, kinds, costs
        table = machine.timing
        self.hazard = ticks(table["packed_hazard"], table.clocks("slot"))
        self.release = ticks(table["barrier_release"], table.clocks("slot"))
        self.ends = 1 + ticks(table["branch_taken"], table.clocks("slot"))
        self._masks = {number: (unit.effects.reads, unit.effects.writes) for number, unit in units.items() if not unit.tag.seldom}

    def ticks(self, arrangement: Arrangement) -> int:
        """The ticks of a steady step."""
        due = self._due_after(arrangement)
        state = _UnderWay()
        ends = [self._copy(arrangement, due, state) for _ in range(_COPIES)]
        return ends[-1] - ends[-2]

    def _due_after(self, arrangement: Arrangement) -> dict[int, int]:
        """By position of a wait, the registers that are used before the next wait."""
        found: dict[int, int] = {}
        used = 0
        for _ in range(2):  # over the seam
            for position in reversed(range(len(arrangement.order))):
                entry = arrangement.order[position]
                if isinstance(entry, int):
                    reads, writes = self._masks.get(entry, (0, 0))
                    used |= reads | writes
                elif entry.kind == "wait":
                    found[position], used = used, 0
        return found

    def _copy(self, arrangement: Arrangement, due: Mapping[int, int], state: _UnderWay) -> int:
        for position, entry in enumerate(arrangement.order):
            if isinstance(entry, Sync):
                if entry.kind == "barrier":
                    state.now += self.release
                elif entry.kind == "wait":
                    landed = [ready for mask, ready, _, matrix in state.pending if mask & due[position] and not matrix]
                    state.now = 1 + max([state.now, *landed])
                continue
            if entry in self._masks:
                self._issue(entry, state)
        state.now += self.ends
        return state.now

    def _issue(self, number: int, state: _UnderWay) -> None:
        kind, cost = self.kinds[number], self.costs[number]
        reads, writes = self._masks[number]
        now = state.now
        for mask, ready, chained, matrix in state.pending:
            if ready > now and mask & (reads | writes):
                now = max(now, chained if matrix and kind is UnitKind.MATRIX and mask == writes else ready)
        if kind is UnitKind.MATRIX:
            now = max(now, state.core, state.vector)
            state.core, state.vector = now + cost.busy, now + cost.issue
        elif kind is UnitKind.LDS_READ or self.units[number].effects.memory:
            at = max(now, state.lds if kind is UnitKind.LDS_READ else now)
            if kind is UnitKind.LDS_READ:
                state.lds = at + cost.busy
                state.pending.append((writes, at + cost.ready, 0, False))
        elif cost.busy:
            now = max(now, state.vector, state.core + self.hazard if cost.packed else 0)
            state.vector = now + cost.busy
        if writes and kind is not UnitKind.LDS_READ and kind is not UnitKind.LOAD:
            state.pending.append((writes, now + cost.ready, now + cost.chained, kind is UnitKind.MATRIX))
        state.now = now + cost.issue
        if len(state.pending) > 64:
            state.pending = [one for one in state.pending if one[1] > state.now]


class _UnderWay:
    """What one wave has under way."""

    def __init__(self) -> None:
        self.now = self.core = self.vector = self.lds = 0
        self.pending: list[tuple[int, int, int, bool]] = []
