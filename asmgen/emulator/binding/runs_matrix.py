"""Matrix products in compiled runs: operands are decoded once for all products of a run that read them.

A product's rows in a run: a DECODE for each operand that no buffer of the run holds yet, and a MULTIPLY. What is decoded is forgotten as
soon as an instruction of the run writes one of its registers.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.binding.microops import COLUMNS, DECODE, MULTIPLY
from asmgen.emulator.semantics.matrix_plan import Plan, Source

BUFFERS = 16
"""Decoded operands that a run keeps: more would not stay in the host's nearest caches."""
BUFFER = 2048
"""Doubles of one: 32 x 64 values, or 16 x 128."""


@dataclass
class Products:
    """Gathers the products of one run. `layouts` [n, 2, rows]: operands' rows, words after the first register's and their shifts;
    `places` [n, rows]: words of D's."""

    waves: int  # of the register file
    layouts: list[tuple[NDArray[np.int64], ...]] = field(default_factory=list)
    locations: list[NDArray[np.int64]] = field(default_factory=list)
    _known: dict[object, int] = field(default_factory=dict)
    _held: dict[int, tuple[object, int]] = field(default_factory=dict)  # what a buffer holds, and from which registers
    _next: int = 0

    def takes(self, plan: Plan) -> bool:
        """Whether the operands fit."""
        return all(len(source.lanes) * source.edge <= BUFFER for source in (plan.a, plan.b))

    def rows(self, plan: Plan, constant: int) -> list[list[int]]:
        """The rows of a product; C is row `constant` of the run's constants where it is no register."""
        found: list[list[int]] = []
        row = plan.row
        first = self._decoded(plan.a, found)
        second = self._decoded(plan.b, found, first)
        key = id(plan.d_registers), id(plan.d_lanes), row.name
        if key not in self._known:
            self._known[key] = len(self.locations)
            self.locations.append((plan.d_registers * (self.waves * 64) + plan.d_lanes).ravel())
        found.append(_row(MULTIPLY, row.blocks, plan.d_slot, first, second, plan.c_slot, constant, row.k, row.m, row.n, self._known[key]))
        self.written((1 << row.cd_regs) - 1 << plan.d_slot)
        return found

    def written(self, registers: int) -> None:
        """Registers (bits of the unified file) have other contents now."""
        if self._held:
            self._held = {buffer: held for buffer, held in self._held.items() if not held[1] & registers}

    def tables(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """`layouts` and `places` as arrays."""
        if not self.locations:
            return _NO_LAYOUTS, _NO_LOCATIONS
        layouts = np.zeros((len(self.layouts), 2, max(len(parts[0]) for parts in self.layouts)), np.int64)
        for number, parts in enumerate(self.layouts):
            for column, part in enumerate(parts):
                layouts[number, column, :len(part)] = part
        locations = np.zeros((len(self.locations), max(map(len, self.locations))), np.int64)
        for number, location in enumerate(self.locations):
            locations[number, :len(location)] = location
        return layouts, locations

    def _decoded(self, source: Source, found: list[list[int]], kept: int = -1) -> int:
        """The buffer that will hold an operand; buffer `kept` must keep what it holds."""
        what = id(source.lanes), id(source.registers), source.slot, source.decoder
        for buffer, (held, _) in self._held.items():
            if held == what:
                return buffer
        layout = what[:2]
        if layout not in self._known:
            self._known[layout] = len(self.layouts)
            self.layouts.append((source.registers * (self.waves * 64) + source.lanes, source.shifts))
        buffer = self._next if self._next != kept else (self._next + 1) % BUFFERS
        self._next = (buffer + 1) % BUFFERS
        self._held[buffer] = what, (1 << source.count) - 1 << source.slot
        found.append(_row(DECODE, source.decoder, buffer, self._known[layout], source.slot, len(source.lanes), source.edge))
        return buffer


_NO_LAYOUTS, _NO_LOCATIONS = np.zeros((1, 2, 1), np.int64), np.zeros((1, 1), np.int64)


def _row(*values: int) -> list[int]:
    return [*values, *[0] * (COLUMNS - len(values))]
