"""The ticks of a step by arithmetic: one wave issues in order, and its resources are taken in turn.

It is what the search for an order compares, no prediction of a kernel: data from memory have arrived, LDS and the port to memory serve
all waves alike, and nothing else runs. `asmgen profile` runs the code through the cycle model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from asmgen.author.schedule.schedules import Arrangement, Sync
from asmgen.author.schedule.unitcosts import SIMDS, StepMachine, UnitCost, UnitKind, ticks
from asmgen.author.step.effects import Unit

_Entry = tuple[int, int, int] | Sync
"""A unit's ordinal with the registers, as bits, that it reads and writes; or synchronisation."""
_SETTLE = 2  # copies until a step takes the same time again


class StepClock:
    """The clock of one step's orders. Copies differ in their registers; what leads belongs to the next copy and has that one's."""

    def __init__(self, phases: Sequence[Sequence[Unit]], kinds: Mapping[int, UnitKind], costs: Mapping[int, UnitCost],
                 machine: StepMachine) -> None:
        self.units, self.kinds, self.costs = {unit.tag.ordinal: unit for unit in phases[0]}, kinds, costs
        table = machine.timing
        self.hazard = ticks(table["packed_hazard"], table.clocks("slot"))
        self.release = ticks(table["barrier_release"], table.clocks("slot"))
        self.queue = int(table["vmem_queue"]) // (machine.waves * SIMDS)  # accesses of a wave that wait for the port
        self.ends = 1 + ticks(table["branch_taken"], table.clocks("slot"))
        self._phases = [{unit.tag.ordinal: (unit.effects.reads, unit.effects.writes) for unit in units if not unit.tag.seldom}
                        for units in phases]

    def ticks(self, arrangement: Arrangement) -> int:
        """The ticks of a steady step."""
        count = len(self._phases)
        entries = [self._entries(arrangement, phase) for phase in range(count)]
        dues = [_due_after(entries[phase], entries[(phase + 1) % count]) for phase in range(count)]
        state = _UnderWay()
        ends = [self._copy(entries[copy % count], dues[copy % count], state) for copy in range(_SETTLE + count)]
        return -((ends[-1 - count] - ends[-1]) // count)

    def _entries(self, arrangement: Arrangement, phase: int) -> list[_Entry]:
        """A copy's units with what they read and write there, and its synchronisation."""
        count = len(self._phases)
        found: list[_Entry] = []
        for entry in arrangement.order:
            if isinstance(entry, Sync):
                found.append(entry)
                continue
            masks = self._phases[(phase + 1) % count if entry in arrangement.lead else phase].get(entry)
            if masks is not None:
                found.append((entry, *masks))
        return found

    def _copy(self, entries: Sequence[_Entry], due: Mapping[int, int], state: _UnderWay) -> int:
        for position, entry in enumerate(entries):
            if isinstance(entry, tuple):
                self._issue(*entry, state)
            elif entry.kind == "barrier":
                state.now += self.release
            elif entry.kind == "wait":
                landed = [ready for mask, ready, _, matrix in state.pending if mask & due[position] and not matrix]
                state.now = 1 + max([state.now, *landed])
        state.now += self.ends
        return state.now

    def _issue(self, number: int, reads: int, writes: int, state: _UnderWay) -> None:
        kind, cost = self.kinds[number], self.costs[number]
        now = state.now
        for mask, ready, chained, matrix in state.pending:
            if ready > now and mask & (reads | writes):
                now = max(now, chained if matrix and kind is UnitKind.MATRIX and mask == writes else ready)
        if kind is UnitKind.MATRIX:
            now = max(now, state.core, state.vector)
            state.core, state.vector = now + cost.busy, now + cost.issue
        elif kind is UnitKind.LDS_READ or self.units[number].effects.memory:
            now = max(now, state.port - self.queue * cost.port)
            state.port = max(now, state.port) + cost.port
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


def _due_after(entries: Sequence[_Entry], following: Sequence[_Entry]) -> dict[int, int]:
    """By position of a wait, the registers that are used before the next wait, which may be one of the following copy."""
    found: dict[int, int] = {}
    used = 0
    for number, entry in reversed([*enumerate(entries), *((-1, entry) for entry in following)]):
        if isinstance(entry, tuple):
            used |= entry[1] | entry[2]
        elif entry.kind == "wait":
            found[number], used = used, 0
    return found


class _UnderWay:
    """What one wave has under way."""

    def __init__(self) -> None:
        self.now = self.core = self.vector = self.lds = self.port = 0
        self.pending: list[tuple[int, int, int, bool]] = []
