"""The ticks of a step by arithmetic: one wave issues in order, and its resources are taken in turn.

It is what the search for an order compares, no prediction of a kernel: what fills bring has arrived, what loads bring comes from L2, LDS
and the port to memory serve all waves alike, and nothing else runs. `asmgen profile` runs the code through the cycle model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

from asmgen.author.schedule.schedules import Arrangement, Sync
from asmgen.author.schedule.unitcosts import StepMachine, UnitCost, UnitKind, ticks
from asmgen.author.step.effects import Effects, Unit
from asmgen.isa.arch import SIMDS
from asmgen.isa.registers import m0

_SETTLE = 2  # copies until a step takes the same time again


class _Use(NamedTuple):
    """What a unit asks for in a copy: `ready_of` takes what is known of the registers that it reads or writes, which are `touched`, by
    numbers of groups; `written` are those that it writes. `registers` and `writes` are the same as bits."""

    matrix: bool
    reads_lds: bool
    loads: bool
    memory: bool
    cost: UnitCost
    touched: tuple[int, ...]
    ready_of: Callable[[Sequence[int]], tuple[int, ...]]
    written: tuple[int, ...]
    lands: bool
    registers: int
    writes: int
    reads_m0: bool
    writes_m0: bool
    vector: tuple[int, int, int] | None
    """Of what is neither packed nor matrix nor memory work: its ticks on the vector port, of issue, and until its result is there."""


_Entry = _Use | Sync
"""What a unit asks for; or synchronisation."""
_VECTOR, _OTHER, _BARRIER, _WAIT = range(4)


class _Passed(NamedTuple):
    """An entry as the clock passes it. `vector`: a `_VECTOR` is no other use; `due` are the registers that a wait waits for."""

    kind: int
    vector: tuple[int, int, int]
    ready_of: Callable[[Sequence[int]], tuple[int, ...]]
    written: tuple[int, ...]
    use: _Use | None
    due: int


_NO_VECTOR = 0, 0, 0
_BARRIER_ROW = _Passed(_BARRIER, _NO_VECTOR, tuple, (), None, 0)


class StepTime(NamedTuple):
    """The ticks of a steady step, and by number of the matrix unit those for which its core waits for it, over all phases."""

    ticks: int
    idle: tuple[int, ...]


class StepClock:
    """The clock of one step's orders. Copies differ in their registers; what leads belongs to the next copy and has that one's.

    The last `branches` copies of a round end with the loop's branch. A round has one; where all copies have it, orders are compared by the
    copy that does.
    """

    def __init__(self, phases: Sequence[Sequence[Unit]], kinds: Mapping[int, UnitKind], costs: Mapping[int, UnitCost],
                 machine: StepMachine, branches: int) -> None:
        self.branches = branches
        self.units, self.kinds, self.costs = {unit.tag.ordinal: unit for unit in phases[0]}, kinds, costs
        table = machine.timing
        self.hazard = ticks(table["packed_hazard"], table.clocks("slot"))
        self.latency = ticks(table["lds_latency"], table.clocks("slot"))
        self.trip = ticks(table["latency_l2"], table.clocks("slot"))
        self.release = ticks(table["barrier_release"], table.clocks("slot"))
        self.queue = int(table["vmem_queue"]) // (machine.waves * SIMDS)  # accesses of a wave that wait for the port
        self.ends = 1 + ticks(table["branch_taken"], table.clocks("slot"))
        effects = [[(unit.tag.ordinal, unit.effects) for unit in units if not unit.tag.seldom] for units in phases]
        groups = _register_groups({mask for units in effects for _, effect in units for mask in (effect.reads, effect.writes)})
        self._matrix = [unit.tag.seldom for unit in phases[0] if kinds[unit.tag.ordinal] is UnitKind.MATRIX]  # seldom ones keep no core
        self._groups = 1 + max((number for numbers in groups.values() for number in numbers), default=0)
        self._under_way: tuple[Arrangement, list[list[_Passed]]] | None = None  # what was timed last
        self._phases = [{ordinal: self._use(ordinal, effect, groups) for ordinal, effect in units} for units in effects]
        self._known = {id(use): _row(use) for phase in self._phases for use in phase.values()}

    def _use(self, ordinal: int, effects: Effects, groups: Mapping[int, tuple[int, ...]]) -> _Use:
        kind = self.kinds[ordinal]
        touched = tuple({*groups[effects.reads], *groups[effects.writes]})
        written, cost = groups[effects.writes], self.costs[ordinal]
        other = kind in (UnitKind.MATRIX, UnitKind.LDS_READ, UnitKind.LOAD) or self.units[ordinal].effects.memory or cost.packed
        vector = None if other else (cost.busy, cost.issue, cost.ready)
        return _Use(kind is UnitKind.MATRIX, kind is UnitKind.LDS_READ, kind is UnitKind.LOAD, bool(self.units[ordinal].effects.memory),
                    self.costs[ordinal], touched, itemgetter(0, 0, *touched), written,
                    bool(written) and kind not in (UnitKind.LDS_READ, UnitKind.LOAD),
                    effects.reads | effects.writes, effects.writes, bool(effects.reads & m0.mask), bool(effects.writes & m0.mask), vector)

    def time(self, arrangement: Arrangement, paired: bool = False) -> StepTime:
        """The time of a steady step. Two waves share a bus for accesses of LDS: the one that is late once is so up to the next barrier;
        if `paired` it is late at each access anew."""
        count = len(self._phases)
        if self._under_way is None or self._under_way[0] is not arrangement:
            self._under_way = arrangement, self._copies(arrangement)
        copies = self._under_way[1]
        state = _UnderWay(self._groups, paired)
        ends = []
        for copy in range(_SETTLE + count):
            if copy == _SETTLE:
                state.idle = []
            ends.append(self._copy(copies[copy % count], state, self.ends if copy % count >= count - self.branches else 0))
        size = len(state.idle) // count
        idle = iter([sum(state.idle[number::size]) for number in range(size)])
        return StepTime(-((ends[-1 - count] - ends[-1]) // count), tuple(0 if seldom else next(idle) for seldom in self._matrix))

    def _copies(self, arrangement: Arrangement) -> list[list[_Passed]]:
        """The copies of all phases."""
        entries = [self._entries(arrangement, phase) for phase in range(len(self._phases))]
        return [self._rows(mine, _due_after(mine, following)) for mine, following in zip(entries, entries[1:] + entries[:1], strict=True)]

    def _rows(self, entries: Sequence[_Entry], due: Mapping[int, int]) -> list[_Passed]:
        found, known = [], self._known
        for position, entry in enumerate(entries):
            if isinstance(entry, _Use):
                found.append(known[id(entry)])
            elif entry.kind == "wait":
                found.append(_Passed(_WAIT, _NO_VECTOR, tuple, (), None, due[position]))
            elif entry.kind == "barrier":
                found.append(_BARRIER_ROW)
        return found

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
                found.append(use)
        return found

    def _copy(self, rows: Sequence[_Passed], state: _UnderWay, end: int) -> int:
        ready, by = state.ready, state.by
        now, vector, written_m0 = state.now, state.vector, False  # `written_m0`: by the instruction before
        for kind, (busy, issue, lands), ready_of, written, use, due in rows:
            if kind == _VECTOR:
                written_m0 = False
                latest = max(ready_of(ready))
                now = latest if latest > now else now
                if busy:
                    now = vector if vector > now else now
                    vector = now + busy
                lands += now
                for group in written:
                    ready[group], by[group] = lands, 0
                now += issue
                continue
            if use is not None:
                state.now, state.vector = now + (written_m0 and use.reads_m0), vector  # a wait state
                written_m0 = use.writes_m0
                self._issue(use, state)
                now, vector = state.now, state.vector
            elif kind == _BARRIER:
                now += self.release
                state.skewed = False
            else:
                now = 1 + max([now, *(ready for mask, ready in state.reads if mask & due)])
                state.reads = [one for one in state.reads if one[1] > now]
        state.now, state.vector = now + end, vector
        return state.now

    def _issue(self, use: _Use, state: _UnderWay) -> None:
        cost, now = use.cost, state.now
        chains = use.writes if use.matrix else 0
        latest = max(use.ready_of(state.ready))
        if latest > now:
            now = state.after(use.touched, chains) if chains else latest
        if use.matrix:
            now = max(now, state.core, state.vector)
            state.idle.append(now - state.core)
            state.skewed |= state.second and now > state.core and not state.paired  # so late that the next accesses of the pair do not meet
            state.second = False
            state.core, state.vector = now + cost.busy, now + cost.issue
        elif use.memory:
            if cost.bus and not state.skewed:
                now += cost.bus - 1  # the other wave of the pair issues its own first
                state.second = True
            if cost.port:
                now = max(now, state.port - self.queue * cost.port)
                state.port = max(now, state.port) + cost.port
            else:
                state.lds = max(now, state.lds) + cost.busy
            if use.reads_lds or use.loads:
                landed = state.port + self.trip if use.loads else state.lds + self.latency
                state.reads.append((use.writes, landed))
                for group in use.written:
                    state.ready[group], state.by[group] = landed, 0
        elif cost.busy:
            now = max(now, state.vector, state.core + self.hazard if cost.packed else 0)
            state.vector = now + cost.busy
        if use.lands:
            ready, chained = now + cost.ready, now + cost.chained
            for group in use.written:
                state.ready[group], state.chained[group], state.by[group] = ready, chained, chains
        state.now = now + cost.issue


def _register_groups(masks: Iterable[int]) -> dict[int, tuple[int, ...]]:
    """By mask of registers, the numbers, from 1 on, of the groups that it is made of: registers that all masks have together or not at
    all."""
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
        group = groups.setdefault(tuple(numbers), 1 + len(groups))
        for number in numbers:
            found[every[number]].add(group)
    return {mask: tuple(sorted(of)) for mask, of in found.items()}


def _row(use: _Use) -> _Passed:
    """A unit as the clock passes it."""
    if use.vector is None or use.reads_m0 or use.writes_m0:
        return _Passed(_OTHER, _NO_VECTOR, use.ready_of, use.written, use, 0)
    return _Passed(_VECTOR, use.vector, use.ready_of, use.written, None, 0)


def _due_after(entries: Sequence[_Entry], following: Sequence[_Entry]) -> dict[int, int]:
    """By position of a wait, the registers that are used before the next wait, which may be one of the following copy."""
    found: dict[int, int] = {}
    used = 0
    for entry in following:
        if isinstance(entry, _Use):
            used |= entry.registers
        elif entry.kind == "wait":
            break
    for number in range(len(entries) - 1, -1, -1):
        entry = entries[number]
        if isinstance(entry, _Use):
            used |= entry.registers
        elif entry.kind == "wait":
            found[number], used = used, 0
    return found


class _UnderWay:
    """What one wave has under way."""

    def __init__(self, groups: int, paired: bool) -> None:
        self.now = self.core = self.vector = self.lds = self.port = 0
        # Of registers; group 0 is none. `by`: what the matrix unit writes.
        self.ready, self.chained, self.by = [0] * groups, [0] * groups, [0] * groups
        self.reads: list[tuple[int, int]] = []  # registers, and when their data are there
        self.idle: list[int] = []
        self.paired = paired
        self.second = self.skewed = False  # late at the LDS bus since the last matrix unit; later than its pair

    def after(self, touched: Iterable[int], chains: int) -> int:
        """When a matrix unit may issue that touches these groups and adds to the registers `chains`: the next of a chain goes earlier."""
        now = self.now
        for group in touched:
            ready = self.ready[group]
            if ready > now:
                now = max(now, self.chained[group]) if self.by[group] == chains else ready
        return now
