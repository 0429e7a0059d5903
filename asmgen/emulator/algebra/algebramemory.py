"""Residues of arrays in device memory: those that inputs are given before a launch, and those that outputs have after it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.algebra.algebrarules import AlgebraRules
from asmgen.emulator.algebra.elements import PACKED_WIDTHS, WIDTHS, Elements
from asmgen.emulator.algebra.residues import Constants, Residues
from asmgen.emulator.carried.cells import NIBBLES, UNKNOWN
from asmgen.emulator.carried.tracker import Tracker
from asmgen.emulator.machine.devicememory import Memory

Array = NDArray[Any]
_KINDS = {"float64": "f64", "float32": "f32", "bfloat16": "bf16", "float16": "f16", "float8_e4m3fn": "fp8", "float8_e4m3fnuz": "fp8",
          "float8_e5m2": "bf8", "float8_e5m2fnuz": "bf8"}


def kind_of(array: Array) -> str | None:
    """The float format of an array's elements; None where they are none."""
    return _KINDS.get(array.dtype.name)


class AlgebraMemory:
    """Device memory with residues. `tracker` is what a launch is followed with (run.Options.domains)."""

    def __init__(self, memory: Memory, constants: Constants | None = None) -> None:
        self.rules = AlgebraRules(constants or Constants({}))
        self.tracker = Tracker(memory, self.rules)

    @property
    def table(self) -> Elements:
        """The elements."""
        return self.rules.table

    def clear(self) -> None:
        """Forget all elements, and which comparisons were met: another launch begins, for which code is bound already."""
        self.tracker.clear()
        self.table.used = UNKNOWN + 1
        self.rules.comparisons.clear()

    def put(self, address: int, numbers: Residues, kind: str) -> None:
        """The elements of a buffer from its first byte on, in C order."""
        bits = PACKED_WIDTHS[kind]
        ids = self.table.made(numbers, kind).reshape(-1)
        words = -(-ids.size * bits // 32)
        slots = np.zeros((words, NIBBLES), np.uint32)
        slots.reshape(-1)[(np.arange(ids.size) * bits + bits - 1) // 4] = ids
        self.tracker.device.of(address)[:words] = self.tracker.cells.joined(slots)

    def read(self, address: int, values: Array, kind: str) -> Residues:
        """What a buffer's elements are, of which the run's own values are given (those that have no residues embed by value)."""
        bits, count = WIDTHS[kind], values.size
        words = -(-count * bits // 32)
        slots = self.tracker.cells.expanded(self.tracker.device.of(address)[:words])
        ids = slots.reshape(-1, bits // 4)[:count, -1].reshape(values.shape)
        return self.table.numbers(ids, kind, lambda: values.astype(np.float64))
