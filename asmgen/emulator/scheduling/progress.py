"""Whether waves that go round and round get anywhere: a stretch of their execution in which states are compared and changes noted.

A wave that comes back to a place with all registers as they were does the same again, unless the memory that it reads has changed
or it reads a clock. So where, within one stretch, every wave that can run has come back to an earlier state, no byte of memory has
changed and no clock was read, none of them will ever do anything else, whatever the order of waves: they are stuck. Waves at a
barrier that nobody released all the time stay there. A wave that alone can run may also change memory, if its bytes come back with the
registers.

A state is compared with the one at a wave's visits 1, 2, 4, 8, ... of the stretch (Brent's cycle detection), so that a cycle of any
length is found by a stretch some times as long. What changes for ever, as a counter does, is never found stuck.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.arrival.arrival import ranges_of
from asmgen.emulator.arrival.boundstep import Action, Step
from asmgen.emulator.binding.decode import Decoder
from asmgen.emulator.machine.devicememory import PAGE
from asmgen.emulator.machine.state import Group, Machine
from asmgen.isa.opcode import is_lds_dma
from asmgen.isa.registers import SGPR_BIT
from asmgen.program.program import Instruction

Waves = NDArray[np.int64]
Flags = NDArray[np.bool_]
Bytes = NDArray[np.uint8]
Spins = dict[tuple[int, int], Waves]
"""Waves by the loop that they go round: the positions of its first instruction and of the backward branch."""

Stored = tuple[Bytes, NDArray[np.int64], Bytes]
"""An array that was stored to, the places in it, and the bytes that were there before."""

_NOT_YET = -1
_CLOCKS = frozenset({"s_memtime", "s_memrealtime"})
_NOTED_BYTES = 1 << 20
"""Changed bytes of one lone wave that are remembered; with more, it counts as getting on."""


class Watch:
    """A stretch of execution under watch, on one machine: at most `visits` backward branches, of groups of any size.

    `resting` waves need not come back: they do not run. `alone`: only one wave of the whole launch can run.
    """

    def __init__(self, machine: Machine, visits: int, resting: Flags, alone: bool) -> None:
        self.machine = machine
        self.left = visits
        self.alone = alone
        self.progressed = False  # something happened that may let waves go on
        self.branches = np.full(machine.waves, _NOT_YET, np.int64)  # the backward branch at which a wave's state came back
        self._resting = resting.copy()
        self._visits = np.zeros(machine.waves, np.int64)
        self._locations = np.full(machine.waves, _NOT_YET, np.int64)  # where the remembered state was
        self._scalar = np.empty_like(machine.scalar)
        self._flags = np.empty((2, machine.waves), np.uint32)  # SCC and MODE
        self._vector = np.empty_like(machine.vector)  # only the rows of `_rows` are ever filled
        self._rows: list[int] = []  # first the one that last told two states apart
        self._written = 0
        self._undo: list[Stored] = []

    @property
    def stuck(self) -> bool:
        """Whether all waves that can run have come back to an earlier state, and nothing else happened."""
        return not self.progressed and bool((self._resting | (self.branches != _NOT_YET)).all())

    @property
    def over(self) -> bool:
        """Whether there is nothing more to see."""
        return self.progressed or self.left <= 0 or self.stuck

    def writes(self, registers: int) -> None:
        """These (bits of the unified file) are written in the stretch too: states that were remembered without them are worth nothing."""
        registers &= (1 << SGPR_BIT) - 1
        if registers & ~self._written:
            self._written |= registers
            self._rows = [row for first, last in ranges_of(self._written) for row in range(first, min(last + 1, self.machine.registers))]
            unknown = self.branches == _NOT_YET
            self._locations[unknown], self._visits[unknown] = _NOT_YET, 0

    def visit(self, waves: Waves, spot: int, branch: int) -> bool:
        """Waves go back to `place` from the instruction at position `branch`. Returns whether all of them are known to repeat."""
        self.left -= 1
        fresh = waves[self.branches[waves] == _NOT_YET]
        if not fresh.size:
            return True
        back = fresh[self._locations[fresh] == spot]
        if back.size:
            self.branches[self._same(back)] = branch
            fresh = fresh[self.branches[fresh] == _NOT_YET]
        self._visits[fresh] += 1
        visits = self._visits[fresh]
        turn = fresh[visits & (visits - 1) == 0]
        if turn.size:
            self._remember(turn, spot)
        return not fresh.size

    def _remember(self, waves: Waves, spot: int) -> None:
        machine = self.machine
        self._locations[waves] = spot
        self._scalar[:, waves] = machine.scalar[:, waves]
        self._flags[0, waves], self._flags[1, waves] = machine.scc[waves], machine.mode[waves]
        for row in self._rows:
            self._vector[row, waves] = machine.vector[row, waves]
        self._undo.clear()

    def _same(self, waves: Waves) -> Waves:
        """Those whose registers are as remembered, and if one is alone memory too."""
        machine = self.machine
        same = (self._flags[0, waves] == machine.scc[waves]) & (self._flags[1, waves] == machine.mode[waves])
        waves = waves[same & (self._scalar[:, waves] == machine.scalar[:, waves]).all(axis=0)]
        for number, row in enumerate(self._rows):
            if not waves.size:
                self._rows.insert(0, self._rows.pop(number - 1))
                return waves
            waves = waves[(self._vector[row, waves] == machine.vector[row, waves]).all(axis=1)]
        return waves if self._restored() else waves[:0]

    def loops(self) -> Spins:
        """The waves that came back to an earlier state, by where they did."""
        found = sorted({(spot, branch) for spot, branch in zip(self._locations.tolist(), self.branches.tolist(), strict=True)
                        if branch != _NOT_YET})
        return {(spot, branch): np.flatnonzero((self._locations == spot) & (self.branches == branch)) for spot, branch in found}

    # What happens besides.

    def released(self, waves: Waves) -> None:
        """A barrier lets waves go. Who was alone is so no longer, and what it changed in memory the others may have to see."""
        self._resting[waves] = False
        self.progressed |= bool(self._undo)
        self.alone = False

    def changed(self, data: Bytes, locations: NDArray[np.int64], before: Bytes) -> None:
        """Bytes of `data` at `places` were stored to, and held `before`."""
        differs = data[locations] != before
        if differs.any():
            self._undo.append((data, locations[differs], before[differs]))
            self.progressed |= not self.alone or sum(len(locations) for _, locations, _ in self._undo) > _NOTED_BYTES

    def _restored(self) -> bool:
        for data in {id(data): data for data, _, _ in self._undo}.values():
            mine = [(locations, before) for other, locations, before in self._undo if other is data]
            locations, first = np.unique(np.concatenate([locations for locations, _ in mine]), return_index=True)
            if (data[locations] != np.concatenate([before for _, before in mine])[first]).any():
                return False
        return True


class WatchedDecoder(Decoder):
    """Binds instructions as its model does, and makes those that change memory or read a clock tell the watch."""

    def __init__(self, model: Decoder, watch: Watch) -> None:
        super().__init__(model.program, model.code, model.machine, model.memory, model.lds)
        self.watch = watch
        self._written = 0
        self._stored: list[Stored] | None = None

    def open(self, watch: Watch) -> None:
        """Tell this watch from now on."""
        self.watch = watch
        watch.writes(self._written)
        self.machine.memory_watchers.append(self._about_to_touch)

    def close(self) -> None:
        """Look at memory no longer."""
        self.machine.memory_watchers.remove(self._about_to_touch)

    def step(self, position: int, mode: int, index: int) -> Step | None:
        """The instruction's step, watched."""
        step = super().step(position, mode, index)
        if step is None or step.run is None:
            return step
        self._written |= step.touch.writes
        self.watch.writes(step.touch.writes)
        return replace(step, run=self._watched(step.instruction, step.run))

    def _watched(self, instruction: Instruction, run: Action) -> Action:
        row = instruction.opcode.memory
        if instruction.name in _CLOCKS or is_lds_dma(instruction.opcode, instruction.form):
            return self._getting_on(run)
        if row is None or row.kind == "load":
            return run
        return {"lds": self._storing_lds, "scalar": self._getting_on}.get(row.space, self._storing)(run)

    def _getting_on(self, run: Action) -> Action:
        """A clock never reads the same twice; what scalar stores and LDS-DMA change is not looked at."""

        def progress(group: Group) -> None:
            run(group)
            self.watch.progressed = True

        return progress

    def _storing_lds(self, run: Action) -> Action:
        machine = self.machine
        offsets = np.arange(machine.lds_stride)

        def store(group: Group) -> None:
            homes = np.unique(machine.workgroup[group.waves])
            locations = (homes[:, None] * machine.lds_stride + offsets).ravel()
            before = machine.lds[locations]
            run(group)
            self.watch.changed(machine.lds, locations, before)

        return store

    def _storing(self, run: Action) -> Action:
        def store(group: Group) -> None:
            self._stored = []
            run(group)
            stored, self._stored = self._stored, None
            for data, locations, before in stored:
                self.watch.changed(data, locations, before)

        return store

    def _about_to_touch(self, group: Group, instruction: Instruction, memory: str, addresses: NDArray[np.int64], counts: NDArray[np.int64],
                        size: int, low: int, high: int) -> None:
        """Keep the bytes that a store or an atomic is about to touch (state.MemoryWatcher)."""
        if self._stored is None:
            return
        lengths = (counts * size).ravel()
        firsts = np.broadcast_to(addresses, counts.shape).ravel()[lengths > 0]
        lengths = lengths[lengths > 0]
        within = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        locations = np.repeat(firsts, lengths) + within
        if memory == "LDS":
            data = self.machine.lds
        elif memory == "private memory":
            data = self.machine.private_memory()
        else:
            data, locations = self.machine.memory.u8, locations - PAGE
        self._stored.append((data, locations, data[locations]))
