"""Matrix instructions on residues by compiled loops: all of those of 4 to 32 bits that are no sparse ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from asmgen.emulator.algebra.elements import ENCODINGS, Elements
from asmgen.emulator.algebra.residues import HAS_P, HAS_Q, Residues, powers_of_two_by_value, zeros
from asmgen.emulator.carried.carrier import HandleCarrier
from asmgen.emulator.carried.cells import NIBBLES, TOP, Handles
from asmgen.emulator.machine.state import LANES, Group
from asmgen.emulator.semantics.matrix import scale_values
from asmgen.emulator.semantics.matrix_plan import Plan, Source

Array = np.ndarray[Any, Any]
_NO_CODES = np.zeros((2, 1), np.uint32), np.zeros(0, np.uint8)
_NO_SCALES = np.zeros((2, 0, 0, 0), np.uint32)
_CODED = 16  # bits of which all codes have a table


@dataclass(frozen=True)
class _Rows:
    """Where the rows of an operand lie: [rows] and [rows, edge]."""

    slot: int
    registers: Array
    nibbles: Array  # with the sign
    shifts: Array
    lanes: Array
    moved: Array  # [64], the lane that each lane reads
    kind: str
    bits: int
    values: Array | None  # of all codes

    @classmethod
    def of(cls, source: Source) -> _Rows:
        ends = (source.shifts + source.bits - 1) // 4
        values = source.table
        if source.kind == "bf16":
            values = (np.arange(1 << 16, dtype=np.uint32) << np.uint32(16)).view(np.float32)
        lanes = source.lanes[:, None] + np.arange(source.edge)
        return cls(source.slot, _whole(source.registers + ends // NIBBLES), _whole(ends % NIBBLES), _whole(source.shifts), _whole(lanes),
                   _whole(np.arange(LANES) if source.moved is None else source.moved), source.kind, source.bits, values)


class CompiledProduct:
    """One instruction."""

    def __init__(self, plan: Plan, carrier: HandleCarrier, table: Elements) -> None:
        self._plan, self._carrier, self._table = plan, carrier, table
        row = plan.row
        self._sources = [_Rows.of(source) for source in (plan.a, plan.b)]
        registers = _whole(plan.d_registers.reshape(-1))
        self._lanes = _whole(plan.d_lanes.reshape(-1))
        none = np.zeros(len(registers), np.int64)
        self._addend = _Rows(plan.c_slot, registers, none + TOP, none, _whole(self._lanes[:, None] + np.arange(row.n)),
                               np.arange(LANES), "f32", 32, None)

    @staticmethod
    def takes(plan: Plan) -> bool:
        """Whether there are loops for an instruction."""
        return plan.row.kind != "dgemm" and not plan.row.sparse and plan.row.cd_type == "f32" \
            and all(32 % source.bits == 0 for source in (plan.a, plan.b))

    def __call__(self, group: Group, addend: Callable[[], Residues]) -> bool:
        """Whether the loops took it; else nothing has changed. `addend` is C [waves, blocks, m, n] where loops have no way for it, as for
        logarithms: it is added to what they multiplied."""
        from asmgen.emulator.algebra import product_kernels

        plan, table, row = self._plan, self._table, self._plan.row
        taken = [self._operand(group, rows, number) for number, rows in enumerate(self._sources)]
        a, b = taken
        if a is None or b is None:
            return False
        if plan.c_slot < 0:
            constant = table.constants.embedded(np.float64(plan.c_value))
            shape = group.size, row.blocks * row.m, row.n
            numbers = np.stack([np.broadcast_to(part, shape) for part in (constant.q, constant.p)]).astype(np.uint32)
            c: tuple[Array, Array] | None = numbers, np.full(shape, constant.has[()], np.uint8)
        else:
            c = self._operand(group, self._addend, -1)
        apart = c is None
        if c is None:
            shape = group.size, row.blocks * row.m, row.n
            c = np.zeros((2, *shape), np.uint32), np.full(shape, HAS_Q | HAS_P, np.uint8)
        found, has = np.empty_like(c[0]), np.empty_like(c[1])
        product_kernels.product(a[0], b[0], c[0], a[1], b[1], c[1], row.blocks, found, has)
        if apart:
            blocks = group.size, row.blocks, row.m, row.n
            q, p = found.astype(np.uint64).reshape(2, *blocks)
            put(plan, self._carrier, group, table.made(Residues(q, p, zeros(blocks), has.reshape(blocks)) + addend(), "f32"))
            return True
        first = table.room(has.size, "f32")
        residues, known, _ = table.columns
        product_kernels.put(self._carrier.shadow.vector_file, group.waves, plan.d_slot, self._addend.registers, self._lanes, found, has,
                            residues, known, first)
        return True

    def _operand(self, group: Group, rows: _Rows, number: int) -> tuple[Array, Array] | None:
        from asmgen.emulator.algebra import product_kernels

        carrier, table = self._carrier, self._table
        scales = self._scales(group, number, rows.lanes.shape[1])
        if scales is None:
            return None
        out = np.empty((2, group.size, *rows.lanes.shape), np.uint32)
        flags = np.empty(out.shape[1:], np.uint8)
        for codes in (_NO_CODES, None):
            if codes is None:
                if rows.values is None or rows.bits > _CODED:
                    return None
                codes = table.codes(rows.kind, rows.values)
            if product_kernels.operand(carrier.shadow.vector_file, carrier.machine.vector_file, group.waves, rows.slot, rows.registers,
                                       rows.nibbles, rows.shifts, rows.lanes, rows.moved, carrier.cells.rows, *table.columns,
                                       ENCODINGS[rows.kind], rows.bits, *codes, scales, out, flags):
                return out, flags
        return None

    def _scales(self, group: Group, number: int, edge: int) -> Array | None:
        """Residues [2, waves, k / 32, edge] of A's or B's scales; None where one is NaN."""
        if number < 0 or not self._plan.scales:
            return _NO_SCALES
        values = scale_values(self._carrier.machine, group, *self._plan.scales[number], edge)
        return powers_of_two_by_value(values) if np.isfinite(values).all() else None


def positions(plan: Plan) -> tuple[Any, Any]:
    """Registers and lanes of D, [blocks, m, n]."""
    lanes = plan.d_lanes[:, :, None] + np.arange(plan.row.n)
    return np.broadcast_to(plan.d_registers[:, :, None], lanes.shape), lanes


def put(plan: Plan, carrier: HandleCarrier, group: Group, ids: Handles) -> None:
    """Elements [waves, blocks, m, n] where D goes."""
    registers, lanes = positions(plan)
    words = 2 if plan.row.kind == "dgemm" else 1
    if words == 2:  # the sign is in the upper word
        carrier.shadow.vector[plan.d_slot:plan.d_slot + plan.row.cd_regs, group.select] = 0
    for block in range(plan.row.blocks):
        for row in range(plan.row.m):
            register = plan.d_slot + int(registers[block, row, 0]) + words - 1
            carrier.shadow.vector[register, group.select, int(lanes[block, row, 0]):int(lanes[block, row, -1]) + 1] = ids[:, block, row]


def _whole(numbers: Any) -> Array:
    return np.ascontiguousarray(numbers, np.int64)
