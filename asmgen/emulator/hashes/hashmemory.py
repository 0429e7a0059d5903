"""Expression hashes of arrays in device memory: names of inputs before a launch, and what made outputs after it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.carried.cells import NIBBLES
from asmgen.emulator.carried.tracker import Tracker
from asmgen.emulator.hashes.expressions import Hashes, mixed, named
from asmgen.emulator.hashes.hashrules import HashRules
from asmgen.emulator.hashes.nibblecells import codes
from asmgen.emulator.machine.devicememory import Memory
from asmgen.program.program import Instruction

Array = NDArray[Any]


class HashMemory:
    """Device memory with expressions. `tracker` is what a launch is followed with (run.Options.domains)."""

    def __init__(self, memory: Memory) -> None:
        self.rules = HashRules()
        self.tracker = Tracker(memory, self.rules)

    def name(self, address: int, array: Array, label: str, indices: Array | None = None) -> None:
        """Each element of a buffer is the input of that label and of its index, or of those in `indices`."""
        numbers = np.arange(array.size) if indices is None else np.broadcast_to(indices, array.shape).reshape(-1)
        nibbles = 2 * array.dtype.itemsize
        made = codes(self.rules.table.made(mixed(named(label), numbers), nibbles), nibbles).reshape(-1)
        words = -(-len(made) // NIBBLES)
        slots = np.zeros(words * NIBBLES, np.uint32)
        slots[:len(made)] = made
        self.tracker.device.of(address)[:words] = self.tracker.cells.joined(slots.reshape(words, NIBBLES))

    def read(self, address: int, values: Array) -> tuple[Hashes, NDArray[np.bool_]]:
        """The hashes of a buffer's elements, and of which nothing is known; `values` are the run's own."""
        nibbles = 2 * values.dtype.itemsize
        words = -(-values.nbytes // 4)
        slots = self.tracker.cells.expanded(self.tracker.device.of(address)[:words]).reshape(-1)
        field = slots[:values.size * nibbles].reshape(*values.shape, nibbles)
        table = self.rules.table
        return table.of(field, values.view(f"u{values.dtype.itemsize}")), table.unknown(field)

    @property
    def decisions(self) -> list[Instruction]:
        """Instructions at which data decided what happens."""
        return list(self.rules.decisions.values())
