"""Matrix products as expressions: each element of D is a hash of the instruction, of C and of its products in the order of k.

The sum over k of r_k f(a_k) g(b_k) modulo two primes, with fixed random r_k, f and g, tells sequences of pairs apart but for chance (they
are polynomials with different terms), and it is a matrix product itself. A product of zeros that are constants is the constant 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from asmgen.emulator.algebra.residues import HAS_P, HAS_Q, P, Q, Residues
from asmgen.emulator.carried.carrier import HandleCarrier
from asmgen.emulator.carried.cells import NIBBLES, Handles
from asmgen.emulator.hashes.expressions import Expressions, Hashes, mixed, named
from asmgen.emulator.hashes.nibblecells import codes
from asmgen.emulator.machine.state import Group
from asmgen.emulator.semantics.matrix import plan_of
from asmgen.emulator.semantics.matrix_plan import Plan, Source
from asmgen.program.program import Instruction

Action = Callable[[Group], None]
_MADE = 256
"""Factors that are held at once, so that memory is bounded: a dropped one is made again."""
_LEFT, _RIGHT, _PLACE = named("left factor"), named("right factor"), named("position in a sum")


def bind_product(instruction: Instruction, carrier: HandleCarrier, table: Expressions) -> Action:
    """Raises ValueError for products that have no rule: sparse ones."""
    plan = plan_of(instruction, carrier.machine)
    row = plan.row
    if row.sparse:
        raise ValueError(f"the expression of {instruction.name}")
    signs = tuple(instruction.modifiers.get("neg") or ()) if row.kind == "dgemm" else ()
    operation = mixed(named(f"{instruction.name} {signs if any(signs) else ''}"), instruction.modifiers.get("cbsz") or 0,
                      instruction.modifiers.get("blgp") or 0, carrier.machine.binding_mode & 0xF0)
    size = NIBBLES * _words(plan)

    def step(group: Group) -> None:
        if _is_zero(plan, carrier, group):  # a way to clear registers
            carrier.shadow.vector[plan.d_slot:plan.d_slot + row.cd_regs, group.select] = 0
            return
        left, right = (_factors(plan, number, carrier, group, table) for number in range(2))
        product = left @ right
        result = mixed(operation, _addend(plan, carrier, group, table), product.q, product.p)
        words = carrier.shadow.vector
        read = [words[slot:slot + count, group.select] for slot, count in
                ((plan.a.slot, plan.a.count), (plan.b.slot, plan.b.count), *(((plan.c_slot, row.cd_regs),) if plan.c_slot >= 0 else ()))]
        data = np.zeros(group.size, np.uint8)
        for part in read:
            data |= np.bitwise_or.reduce(table.data(carrier.cells.expanded(part)), axis=(0, 2))
        fresh = codes(table.made(result, size, data[:, None, None, None]), size)
        registers, lanes = _positions(plan)
        for word in range(size // NIBBLES):
            handles = carrier.cells.joined(np.ascontiguousarray(fresh[..., NIBBLES * word:NIBBLES * (word + 1)]))
            for block in range(row.blocks):
                for at in range(row.m):
                    target = carrier.shadow.vector[plan.d_slot + int(registers[block, at, 0]) + word]
                    target[group.select, int(lanes[block, at, 0]):int(lanes[block, at, -1]) + 1] = handles[:, block, at]

    return step


def _words(plan: Plan) -> int:
    """Registers of an element of C or D."""
    return 2 if plan.row.kind == "dgemm" else 1


def _is_zero(plan: Plan, carrier: HandleCarrier, group: Group) -> bool:
    """Whether A, B and C are constants of 0, so that D is one, whatever the instruction is."""
    read = [slice(source.slot, source.slot + source.count) for source in (plan.a, plan.b)]
    if plan.c_slot >= 0:
        read.append(slice(plan.c_slot, plan.c_slot + plan.row.cd_regs))
    elif np.array(plan.c_value).view(np.uint32).any():
        return False
    return not plan.scales and not any(vector[part, group.select].any() for part in read
                                       for vector in (carrier.shadow.vector, carrier.machine.vector))


def _residues(hashes: Hashes) -> Residues:
    return Residues.of(hashes % np.uint64(Q), (hashes >> np.uint64(32)) % np.uint64(P), 0, HAS_Q | HAS_P)


def _factors(plan: Plan, number: int, carrier: HandleCarrier, group: Group, table: Expressions) -> Residues:
    """A [waves, blocks, m, k], times the weights of positions along k, or B [waves, blocks, k, n]. Several instructions take the same
    registers, so what was made is held until elements have other numbers."""
    if plan.scales:
        return _new_factors(plan, number, carrier, group, table)
    source, row = (plan.a, plan.b)[number], plan.row
    read = [vector[source.slot:source.slot + source.count, group.select].tobytes()
            for vector in (carrier.shadow.vector, carrier.machine.vector)]
    key = (number, row.blocks, row.k, source.bits, source.edge, source.key[2:], *read)
    held: Residues | None = carrier.made.get(key)
    if held is None:
        if len(carrier.made) == _MADE:
            carrier.made.clear()
        held = carrier.made[key] = _new_factors(plan, number, carrier, group, table)
    return held


def _new_factors(plan: Plan, number: int, carrier: HandleCarrier, group: Group, table: Expressions) -> Residues:
    source, row = (plan.a, plan.b)[number], plan.row
    hashes = _factor(source, carrier, group, table)
    if plan.scales:
        hashes = mixed(hashes, _scales(plan, number, carrier, group, table))
    found = _residues(mixed((_LEFT, _RIGHT)[number], hashes).reshape(group.size, row.blocks, row.k, source.edge))
    return (found * _residues(mixed(_PLACE, np.arange(row.k))[:, None])).swapaxes(2, 3) if number == 0 else found


def _factor(source: Source, carrier: HandleCarrier, group: Group, table: Expressions) -> Hashes:
    """A or B, [waves, rows, edge]. A number of 6 bits that is no constant is known by the two nibbles that it lies in, and where there."""
    lanes = source.lanes[:, None] + np.arange(source.edge)

    def taken(vector: Any, ahead: int = 0) -> Any:
        words = vector[source.slot:source.slot + source.count, group.select]
        words = np.swapaxes(words if source.moved is None else words[:, :, source.moved], 0, 1)
        return words[:, np.minimum(source.registers + ahead, source.count - 1)[:, None], lanes]

    ahead = int(np.max(source.shifts)) + source.bits > 32  # whether some end in the next register
    handles, values = ([taken(vector, word) for word in range(1 + ahead)] for vector in (carrier.shadow.vector, carrier.machine.vector))
    result = np.zeros(handles[0].shape, np.uint64)
    mask, nibbles = np.uint64((1 << source.bits) - 1), -(-source.bits // 4)
    for shift in np.unique(source.shifts):
        rows, first, over = source.shifts == shift, int(shift) // 4, int(shift) % 4
        fields = np.concatenate([carrier.cells.expanded(one[:, rows]) for one in handles], axis=-1)
        field = fields[..., first:first + nibbles]
        whole = values[0][:, rows].astype(np.uint64)
        whole = whole | values[1][:, rows].astype(np.uint64) << np.uint64(32) if ahead else whole
        bits = whole >> np.uint64(shift) & mask
        result[:, rows] = table.of(field, bits if source.bits == 64 else bits << np.uint64(over))
        if source.bits % 4:
            alone = ~field.any(axis=-1)
            result[:, rows] = np.where(alone, table.of(np.zeros_like(field), bits), mixed(result[:, rows], over))
    return result


def _scales(plan: Plan, number: int, carrier: HandleCarrier, group: Group, table: Expressions) -> Hashes:
    """Of A's or B's scales, [waves, k, edge]: a byte of a register for each 32 products."""
    slot, byte = plan.scales[number]
    edge = (plan.row.m, plan.row.n)[number]
    field = carrier.cells.expanded(carrier.shadow.vector[slot, group.select])[..., 2 * byte:2 * byte + 2]
    values = carrier.machine.vector[slot, group.select] >> np.uint32(8 * byte) & np.uint32(255)
    return np.repeat(table.of(field, values).reshape(group.size, 64 // edge, edge), 32, axis=1)


def _positions(plan: Plan) -> tuple[Any, Any]:
    """Registers and lanes of D, [blocks, m, n]."""
    lanes = plan.d_lanes[:, :, None] + np.arange(plan.row.n)
    return np.broadcast_to(plan.d_registers[:, :, None], lanes.shape), lanes


def _addend(plan: Plan, carrier: HandleCarrier, group: Group, table: Expressions) -> Hashes:
    words = _words(plan)
    if plan.c_slot < 0:
        bits = np.array(plan.c_value).view(f"u{4 * words}")
        return table.of(np.zeros((1, NIBBLES * words), np.uint32), bits)
    registers, lanes = _positions(plan)

    def taken(vector: Any, word: int) -> Handles:
        rows: Handles = np.swapaxes(vector[plan.c_slot:plan.c_slot + plan.row.cd_regs, group.select], 0, 1)[:, registers + word, lanes]
        return rows

    fields = np.concatenate([carrier.cells.expanded(taken(carrier.shadow.vector, word)) for word in range(words)], axis=-1)
    bits = np.zeros(fields.shape[:-1], np.uint64)
    for word in range(words):
        bits |= taken(carrier.machine.vector, word).astype(np.uint64) << np.uint64(32 * word)
    return table.of(fields, bits)
