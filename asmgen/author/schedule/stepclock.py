"""The ticks of a step by arithmetic: one wave issues in order, and its resources are taken in turn.

It is what the search for an order compares, no prediction of a kernel: data from memory have arrived, LDS and the port to memory serve
all waves alike, and nothing else runs. `asmgen profile` runs the code through the cycle model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from asmgen.author.schedule.schedules import Arrangement, Sync
from asmgen.author.schedule.unitcosts import SIMDS, StepMachine, UnitCost, UnitKind, ticks
from asmgen.author.step.effects import Unit
from asmgen.isa.registers import m0

_SETTLE = 2  # copies until a step takes the same time again


class _Use(NamedTuple):
    """What a unit asks for in a copy: registers that it reads or writes, and those that it writes, as numbers of groups; both, and what it
    writes, as bits; and whether it reads M0 or writes it."""

    touched: tuple[int, ...]
    written: tuple[int, ...]
    registers: int
    writes: int
    reads_m0: bool
    writes_m0: bool


_Entry = tuple[int, _Use] | Sync
"""A unit's ordinal with its registers; or synchronisation."""


class StepTime(NamedTuple):
    """The ticks of a steady step, and by number of the matrix unit those for which its core waits for it, over all phases."""

    ticks: int
    idle: tuple[int, ...]


class StepClock:
    """The clock of one step's orders. Copies differ in their registers; what leads belongs to the next copy and has that one's."""

    def __init__(self, phases: Sequence[Sequence[Unit]], kinds: Mapping[int, UnitKind], costs: Mapping[int, UnitCost],
                 machine: StepMachine) -> None:
        self.units, self.kinds, self.costs = {unit.tag.ordinal: unit for unit in phases[0]}, kinds, costs
        table = machine.timing
        self.hazard = ticks(table["packed_hazard"], table.clocks("slot"))
        self.latency = ticks(table["lds_latency"], table.clocks("slot"))
        self.release = ticks(table["barrier_release"], table.clocks("slot"))
        self.queue = int(table["vmem_queue"]) // (machine.waves * SIMDS)  # accesses of a wave that wait for the port
        self.ends = 1 + ticks(table["branch_taken"], table.clocks("slot"))
        effects = [[(unit.tag.ordinal, unit.effects) for unit in units if not unit.tag.seldom] for units in phases]
        groups = _register_groups({mask for units in effects for _, effect in units for mask in (effect.reads, effect.writes)})
        self._groups = 1 + max((number for numbers in groups.values() for number in numbers), default=0)
        self._phases = [{ordinal: _Use(tuple({*groups[effect.reads], *groups[effect.writes]}), groups[effect.writes],
                                       effect.reads | effect.writes, effect.writes, bool(effect.reads & m0.mask),
                                       bool(effect.writes & m0.mask)) for ordinal, effect in units} for units in effects]

    def time(self, arrangement: Arrangement, paired: bool = False) -> StepTime:
        """The time of a steady step. Two waves share a bus for accesses of LDS: the one that is late once is so up to the next barrier;
        if `paired` it is late at each access anew."""
        count = len(self._phases)
        entries = [self._entries(arrangement, phase) for phase in range(count)]
        dues = [_due_after(entries[phase], entries[(phase + 1) % count]) for phase in range(count)]
        state = _UnderWay(self._groups, paired)
        ends = []
        for copy in range(_SETTLE + count):
            if copy == _SETTLE:
                state.idle = []
            ends.append(self._copy(entries[copy % count], dues[copy % count], state))
        size = len(state.idle) // count
        return StepTime(-((ends[-1 - count] - ends[-1]) // count), tuple(sum(state.idle[number::size]) for number in range(size)))

    def _entries(self, arrangement: Arrangement, phase: int) -> list[_Entry]:
        """A copy's units with what they read and write there, and its synchronisation."""
        count = len(self._phases)
        found: list[_Entry] = []
        for entry in arrangement.order:
            if isinstance(entry, Sync):
                found.append(entry)
                continue
            use = self._phases[(phase + 1) % count if entry in arrangement.lead else phase].get(entry)
            if use is not None:
                found.append((entry, use))
        return found

    def _copy(self, entries: Sequence[_Entry], due: Mapping[int, int], state: _UnderWay) -> int:
        written = False  # M0, by the instruction before
        for position, entry in enumerate(entries):
            if isinstance(entry, tuple):
                state.now += written and entry[1].reads_m0  # a wait state
                written = entry[1].writes_m0
                self._issue(*entry, state)
            elif entry.kind == "barrier":
                state.now += self.release
                state.skewed = False
            elif entry.kind == "wait":
                state.now = 1 + max([state.now, *(ready for mask, ready in state.reads if mask & due[position])])
                state.reads = [one for one in state.reads if one[1] > state.now]
        state.now += self.ends
        return state.now

    def _issue(self, number: int, use: _Use, state: _UnderWay) -> None:
        kind, cost = self.kinds[number], self.costs[number]
        now, chains = state.now, use.writes if kind is UnitKind.MATRIX else 0
        for group in use.touched:
            ready = state.ready[group]
            if ready > now:
                now = max(now, state.chained[group]) if chains and state.by[group] == chains else ready
        if kind is UnitKind.MATRIX:
            now = max(now, state.core, state.vector)
            state.idle.append(now - state.core)
            state.skewed |= state.second and now > state.core and not state.paired  # so late that the next accesses of the pair do not meet
            state.second = False
            state.core, state.vector = now + cost.busy, now + cost.issue
        elif kind is UnitKind.LDS_READ or self.units[number].effects.memory:
            if cost.bus and not state.skewed:
                now += cost.bus - 1  # the other wave of the pair issues its own first
                state.second = True
            if cost.port:
                now = max(now, state.port - self.queue * cost.port)
                state.port = max(now, state.port) + cost.port
            else:
                state.lds = max(now, state.lds) + cost.busy
            if kind is UnitKind.LDS_READ:
                landed = state.lds + self.latency
                state.reads.append((use.writes, landed))
                for group in use.written:
                    state.ready[group], state.by[group] = landed, 0
        elif cost.busy:
            now = max(now, state.vector, state.core + self.hazard if cost.packed else 0)
            state.vector = now + cost.busy
        if use.written and kind is not UnitKind.LDS_READ and kind is not UnitKind.LOAD:
            for group in use.written:
                state.ready[group], state.chained[group], state.by[group] = now + cost.ready, now + cost.chained, chains
        state.now = now + cost.issue


def _register_groups(masks: Iterable[int]) -> dict[int, tuple[int, ...]]:
    """By mask of registers, the numbers of the groups that it is made of: registers that all masks have together or not at all."""
    having: dict[int, list[int]] = {}
    every = sorted(masks)
    for number, mask in enumerate(every):
        left = mask
        while left:
            low = left & -left
            having.setdefault(low, []).append(number)
            left ^= low
    groups: dict[tuple[int, ...], int] = {}
    found: dict[int, set[int]] = {mask: set() for mask in every}
    for numbers in having.values():
        group = groups.setdefault(tuple(numbers), len(groups))
        for number in numbers:
            found[every[number]].add(group)
    return {mask: tuple(sorted(of)) for mask, of in found.items()}


def _due_after(entries: Sequence[_Entry], following: Sequence[_Entry]) -> dict[int, int]:
    """By position of a wait, the registers that are used before the next wait, which may be one of the following copy."""
    found: dict[int, int] = {}
    used = 0
    for number, entry in reversed([*enumerate(entries), *((-1, entry) for entry in following)]):
        if isinstance(entry, tuple):
            used |= entry[1].registers
        elif entry.kind == "wait":
            found[number], used = used, 0
    return found


class _UnderWay:
    """What one wave has under way."""

    def __init__(self, groups: int, paired: bool) -> None:
        self.now = self.core = self.vector = self.lds = self.port = 0
        self.ready, self.chained, self.by = [0] * groups, [0] * groups, [0] * groups  # of registers; `by`: what the matrix unit writes
        self.reads: list[tuple[int, int]] = []  # registers, and when their data are there
        self.idle: list[int] = []
        self.paired = paired
        self.second = self.skewed = False  # late at the LDS bus since the last matrix unit; later than its pair
