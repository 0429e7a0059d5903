"""Matrix instructions on residues: D = A B + C is exact, and known where all that it is made of is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from asmgen.emulator.algebra.elements import ENCODINGS, Elements
from asmgen.emulator.algebra.residues import Residues
from asmgen.emulator.carried.carrier import HandleCarrier
from asmgen.emulator.carried.cells import TOP, Handles
from asmgen.emulator.machine.state import Group
from asmgen.emulator.semantics import matrix_numpy
from asmgen.emulator.semantics.matrix import plan_of, registers_of, scale_values
from asmgen.emulator.semantics.matrix_plan import Plan, Source
from asmgen.program.program import Instruction

Action = Callable[[Group], None]
MX_BLOCK = 32


def bind_matrix(instruction: Instruction, carrier: HandleCarrier, table: Elements) -> Action:
    """Raises ValueError for products that have no rule: of integers with elements, sparse ones, doubles, elements that are no nibbles."""
    plan = plan_of(instruction, carrier.machine)
    row = plan.row
    if row.cd_type == "i32":
        return lambda group: _put(plan, carrier, group, np.zeros((group.size, row.blocks, row.m, row.n), np.uint32))
    if row.kind == "dgemm" or row.sparse or any(source.kind not in ENCODINGS for source in (plan.a, plan.b)):
        raise ValueError(f"residues of {instruction.name}")

    def step(group: Group) -> None:
        factors = []
        for number, source in enumerate((plan.a, plan.b)):
            found = _factor(source, carrier, group, table)
            if plan.scales:
                slot, byte = plan.scales[number]
                found = _scaled(found, scale_values(carrier.machine, group, slot, byte, source.edge))
            factors.append(found.reshape(group.size, row.blocks, row.k, source.edge))
        product = factors[0].swapaxes(2, 3) @ factors[1]
        _put(plan, carrier, group, table.made(product + _addend(plan, carrier, group, table), "f32"))

    return step


def _factor(source: Source, carrier: HandleCarrier, group: Group, table: Elements) -> Residues:
    """A or B, [waves, rows, edge]."""
    machine = carrier.machine
    words = carrier.shadow.vector[source.slot:source.slot + source.count, group.select]
    words = np.swapaxes(words if source.moved is None else words[:, :, source.moved], 0, 1)
    lanes = source.lanes[:, None] + np.arange(source.edge)
    handles = words[:, source.registers[:, None], lanes]
    ends = (source.shifts + source.bits) // 4 - 1
    ids: Handles = np.zeros(handles.shape, np.uint32)
    for nibble in np.unique(ends):
        ids[:, ends == nibble] = carrier.cells.element(handles[:, ends == nibble], int(nibble))

    def values() -> Any:
        given = registers_of(source, machine, group)
        return matrix_numpy.rows(source, given, np.zeros(group.size, np.uint8)).reshape(ids.shape)

    return table.numbers(ids, source.kind, values)


def _scaled(numbers: Residues, scales: Any) -> Residues:
    """Times scales [waves, k / 32, edge], which are powers of two or NaN."""
    known = np.repeat(np.isfinite(scales), MX_BLOCK, axis=1)
    exponents = np.repeat(np.frexp(np.where(np.isfinite(scales), scales, 1.0))[1] - 1, MX_BLOCK, axis=1)
    return numbers.scaled(exponents).where(known, Residues.missing(numbers.shape))


def _positions(plan: Plan) -> tuple[Any, Any]:
    """Registers and lanes of D, [blocks, m, n]."""
    lanes = plan.d_lanes[:, :, None] + np.arange(plan.row.n)
    return np.broadcast_to(plan.d_registers[:, :, None], lanes.shape), lanes


def _addend(plan: Plan, carrier: HandleCarrier, group: Group, table: Elements) -> Residues:
    if plan.c_slot < 0:
        return table.constants.embedded(np.float64(plan.c_value))
    registers, lanes = _positions(plan)

    def taken(vector: Any) -> Any:
        return np.swapaxes(vector[plan.c_slot:plan.c_slot + plan.row.cd_regs, group.select], 0, 1)[:, registers, lanes]

    ids = carrier.cells.element(taken(carrier.shadow.vector), TOP)
    return table.numbers(ids, "f32", lambda: taken(carrier.machine.vector).view(np.float32))


def _put(plan: Plan, carrier: HandleCarrier, group: Group, ids: Handles) -> None:
    registers, lanes = _positions(plan)
    for block in range(plan.row.blocks):
        for row in range(plan.row.m):
            register = plan.d_slot + int(registers[block, row, 0])
            carrier.shadow.vector[register, group.select, int(lanes[block, row, 0]):int(lanes[block, row, -1]) + 1] = ids[:, block, row]
