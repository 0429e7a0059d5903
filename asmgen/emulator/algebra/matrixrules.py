"""Matrix instructions on residues: D = A B + C is exact, and known where all that it is made of is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from asmgen.emulator.algebra.compiledproducts import CompiledProduct, positions, put
from asmgen.emulator.algebra.elements import ENCODINGS, Elements
from asmgen.emulator.algebra.residues import HAS_P, HAS_Q, Residues
from asmgen.emulator.carried.carrier import HandleCarrier
from asmgen.emulator.carried.cells import NIBBLES, TOP, Handles
from asmgen.emulator.machine.state import Group
from asmgen.emulator.semantics import matrix_numpy
from asmgen.emulator.semantics.matrix import plan_of, registers_of, scale_values, sparse_positions
from asmgen.emulator.semantics.matrix_plan import Plan, Source
from asmgen.program.program import Instruction

Action = Callable[[Group], None]
MX_BLOCK = 32


def bind_matrix(instruction: Instruction, carrier: HandleCarrier, table: Elements) -> Action:
    """Raises ValueError for products that have no rule."""
    plan = plan_of(instruction, carrier.machine)
    row = plan.row
    if row.cd_type == "i32":
        return lambda group: put(plan, carrier, group, np.zeros((group.size, row.blocks, row.m, row.n), np.uint32))
    if any(source.kind not in ENCODINGS for source in (plan.a, plan.b)):
        raise ValueError(f"residues of {instruction.name}")

    kind = "f64" if row.kind == "dgemm" else "f32"
    negated = tuple(instruction.modifiers.get("neg") or ()) if kind == "f64" else ()
    signs_of = [bool(sign) for sign in (*negated, 0, 0, 0)[:3]]
    factors_of = [(source, _signs(source)) for source in (plan.a, plan.b)]
    compiled = CompiledProduct(plan, carrier, table) if CompiledProduct.takes(plan) else None

    def step(group: Group) -> None:
        if compiled is not None and carrier.machine.work.pays(plan.work * group.size) \
                and compiled(group, lambda: _addend(plan, carrier, group, table, kind)):
            return
        factors = []
        for number, (source, signs) in enumerate(factors_of):
            found = _factor(source, signs, carrier, group, table)
            found = -found if signs_of[number] else found
            if plan.scales:
                slot, byte = plan.scales[number]
                found = _scaled(found, scale_values(carrier.machine, group, slot, byte, source.edge))
            factors.append(found.reshape(group.size, row.blocks, -1, source.edge))
        if row.sparse:
            factors[0] = _spread(factors[0], sparse_positions(plan, group), row.k)
        product, addend = factors[0].swapaxes(2, 3) @ factors[1], _addend(plan, carrier, group, table, kind)
        put(plan, carrier, group, table.made(product + (-addend if signs_of[2] else addend), kind))

    return step


def _signs(source: Source) -> list[tuple[int, Any, Any]]:
    """Where signs are: by nibble the rows whose numbers end in it, and the registers that these are in."""
    ends = (source.shifts + source.bits - 1) // 4  # the nibble with the sign, which may be in the next register
    registers = source.registers + ends // NIBBLES
    rows = [(int(nibble), np.nonzero(ends % NIBBLES == nibble)[0]) for nibble in np.unique(ends % NIBBLES)]
    return [(nibble, places, registers[places][:, None]) for nibble, places in rows]


def _factor(source: Source, signs: list[tuple[int, Any, Any]], carrier: HandleCarrier, group: Group, table: Elements) -> Residues:
    """A or B, [waves, rows, edge]."""
    machine = carrier.machine
    words = carrier.shadow.vector[source.slot:source.slot + source.count, group.select]
    words = np.swapaxes(words if source.moved is None else words[:, :, source.moved], 0, 1)
    lanes = source.lanes[:, None] + np.arange(source.edge)
    ids: Handles = np.zeros((group.size, *lanes.shape), np.uint32)
    for nibble, places, registers in signs:
        ids[:, places] = carrier.cells.element(words[:, registers, lanes[places]], nibble)

    def values() -> Any:
        given = registers_of(source, machine, group)
        if source.bits == 64:
            row = np.broadcast_to(source.registers[:, None], lanes.shape)
            return _doubles(np.moveaxis(given, 1, 0), row, lanes)
        return matrix_numpy.rows(source, given, np.zeros(group.size, np.uint8)).reshape(ids.shape)

    return table.numbers(ids, source.kind, values)


def _scaled(numbers: Residues, scales: Any) -> Residues:
    """Times scales [waves, k / 32, edge], which are powers of two or NaN."""
    known = np.repeat(np.isfinite(scales), MX_BLOCK, axis=1)
    exponents = np.repeat(np.frexp(np.where(np.isfinite(scales), scales, 1.0))[1] - 1, MX_BLOCK, axis=1)
    return numbers.scaled(exponents).where(known, Residues.missing(numbers.shape))


def _spread(packed: Residues, positions: Any, k: int) -> Residues:
    """A sparse A [waves, 1, k / 2, m] as rows of k numbers, most of them 0; two that have one place are added up."""
    waves, _, _, edge = packed.shape
    zero = Residues.of(np.zeros((waves, k, edge), np.uint64), 0, 0, HAS_Q | HAS_P)
    parts = []
    for turn in (0, 1):
        part = Residues(zero.q.copy(), zero.p.copy(), zero.e.copy(), zero.has.copy())
        for name in ("q", "p", "has"):
            np.put_along_axis(getattr(part, name), positions[:, turn::2], getattr(packed, name)[:, 0, turn::2], 1)
        parts.append(part)
    return (parts[0] + parts[1]).reshape(waves, 1, k, edge)


def _doubles(words: Any, registers: Any, lanes: Any) -> Any:
    """Of register pairs [waves, registers, 64]."""
    return np.stack([words[:, registers + half, lanes] for half in (0, 1)], axis=-1).view(np.float64)[..., 0]


def _addend(plan: Plan, carrier: HandleCarrier, group: Group, table: Elements, kind: str) -> Residues:
    if plan.c_slot < 0:
        return table.constants.embedded(np.float64(plan.c_value))
    registers, lanes = positions(plan)

    def taken(vector: Any) -> Any:
        return np.swapaxes(vector[plan.c_slot:plan.c_slot + plan.row.cd_regs, group.select], 0, 1)

    if kind == "f64":
        ids = carrier.cells.element(taken(carrier.shadow.vector)[:, registers + 1, lanes], TOP)
        return table.numbers(ids, kind, lambda: _doubles(taken(carrier.machine.vector), registers, lanes))
    ids = carrier.cells.element(taken(carrier.shadow.vector)[:, registers, lanes], TOP)
    return table.numbers(ids, kind, lambda: taken(carrier.machine.vector)[:, registers, lanes].view(np.float32))

