"""The ticks of a step of waves that take turns, by arithmetic: one wave of each group on a SIMD, a stage apart, from barrier to barrier.

While one group runs a stage, the other one runs the stage before it. Both issue in order; who may issue first does, and of two that may,
the one of the higher priority. They share the matrix core, the vector port, the LDS and the port to memory, and nothing issues while
operands of a matrix unit are read. What fills bring has arrived, and registers of the stage before are there. It is what a search for
orders compares, no prediction of a kernel.
"""

from __future__ import annotations

from collections.abc import Sequence

from asmgen.author.schedule.unitcosts import StepMachine, UnitCost, UnitKind, cost_of, kinds_of, ticks
from asmgen.author.step.effects import Unit

_ROUNDS = 2  # of all stages; the last one counts


class PairClock:
    """The clock of one step's stages, for orders of the units of each. `machine` is that of all waves."""

    def __init__(self, units: Sequence[Unit], machine: StepMachine) -> None:
        one = StepMachine(machine.arch)  # the waves of a group are one on each SIMD
        table = machine.timing
        kinds = kinds_of(list(units))
        self._of: dict[int, tuple[UnitKind, UnitCost]] = {
            unit.tag.ordinal: (kinds[unit.tag.ordinal], cost_of(unit, one)) for unit in units if not unit.tag.seldom}
        self._memory = {unit.tag.ordinal for unit in units if unit.effects.memory and not unit.is_block}
        slot = table.clocks("slot")
        self.hazard, self.latency = ticks(table["packed_hazard"], slot), ticks(table["lds_latency"], slot)
        self.release, self.queue = ticks(table["barrier_release"], slot), int(table["vmem_queue"]) // 4

    def time(self, stages: Sequence[Sequence[int]], levels: Sequence[int]) -> int:
        """The ticks of a steady step of both groups: the ordinals of each stage in order, and the priority of each."""
        state = _SharedTicks()
        begin = 0
        for _ in range(_ROUNDS):
            begin = state.now
            for number, stage in enumerate(stages):
                self._pair((stage, stages[number - 1]), (levels[number], levels[number - 1]), state)
        return state.now - begin

    def _pair(self, pair: tuple[Sequence[int], Sequence[int]], levels: tuple[int, int], state: _SharedTicks) -> None:
        """From one barrier to the next one."""
        waves = [_PairWave([self._of[number] for number in stage if number in self._of],
                       [number in self._memory for number in stage if number in self._of], level, state.now)
                 for stage, level in zip(pair, levels, strict=True)]
        while waiting := [wave for wave in waves if wave.left]:
            at, _, wave = min(((self._earliest(one, state), -one.level, one) for one in waiting), key=lambda entry: entry[:2])
            self._issue(wave, at, state)
        state.now = max(max(wave.now, wave.landed) for wave in waves) + self.release

    def _earliest(self, wave: _PairWave, state: _SharedTicks) -> int:
        kind, cost = wave.work[wave.done]
        at = max(wave.now, state.held)
        if kind is UnitKind.MATRIX:
            return max(at, state.core, state.vector)
        if wave.memory[wave.done]:
            return max(at, state.bus if cost.bus else 0, state.port - self.queue * cost.port if cost.port else 0)
        return max(at, state.vector, state.core + self.hazard if cost.packed else 0) if cost.busy else at

    def _issue(self, wave: _PairWave, at: int, state: _SharedTicks) -> None:
        kind, cost = wave.work[wave.done]
        if kind is UnitKind.MATRIX:
            state.core, state.vector, state.held = at + cost.busy, at + cost.issue, at + cost.issue
        elif not wave.memory[wave.done]:
            state.vector = at + cost.busy if cost.busy else state.vector
        elif cost.port:
            state.port = max(at, state.port) + cost.port
        else:
            state.bus, state.lds = at + cost.bus, max(at, state.lds) + cost.busy
            wave.landed = state.lds + self.latency if kind is UnitKind.LDS_READ else wave.landed
        wave.now = at + cost.issue
        wave.done += 1


class _SharedTicks:
    """What both waves of a SIMD share, each the tick from which on it is free; `held`: until operands are read."""

    def __init__(self) -> None:
        self.now = self.core = self.vector = self.held = self.bus = self.lds = self.port = 0


class _PairWave:
    """A wave in its stage."""

    def __init__(self, work: Sequence[tuple[UnitKind, UnitCost]], memory: Sequence[bool], level: int, now: int) -> None:
        self.work, self.memory, self.level, self.now, self.landed, self.done = work, memory, level, now, now, 0

    @property
    def left(self) -> bool:
        return self.done < len(self.work)
