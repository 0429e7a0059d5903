"""Instructions on packed halves: v_pk_*_f16, dot products of two halves, and v_fma_mix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from asmgen.emulator.algebra.elements import Elements
from asmgen.emulator.algebra.residues import Residues
from asmgen.emulator.algebra.sources import as_floats, numbers_of
from asmgen.emulator.carried.carrier import HandleCarrier
from asmgen.emulator.carried.operandhandles import OperandSource, at_top, destination, half_writer, slots_of, writer
from asmgen.emulator.machine.state import Group, Machine
from asmgen.emulator.semantics.packedbind import op_bits
from asmgen.emulator.semantics.values import Fetch
from asmgen.emulator.semantics.vectorio import words
from asmgen.isa.operands import Operand
from asmgen.isa.registers import Modified
from asmgen.program.program import Instruction

Action = Callable[[Group], None]
_PACKED: dict[str, Callable[..., Residues]] = {
    "v_pk_add_f16": lambda a, b: a + b, "v_pk_mul_f16": lambda a, b: a * b, "v_pk_fma_f16": lambda a, b, c: a * b + c,
}
_DOTS = {"v_dot2_f32_f16": "f16", "v_dot2c_f32_f16": "f16", "v_dot2_f32_bf16": "bf16", "v_dot2c_f32_bf16": "bf16"}
_MIXED = {"v_fma_mix_f32": None, "v_fma_mixlo_f16": 0, "v_fma_mixhi_f16": 1}


def bind_halves(instruction: Instruction, carrier: HandleCarrier, table: Elements) -> Action | None:
    """The rule of an instruction on halves; None for others."""
    name = instruction.name
    if name not in _PACKED and name not in _DOTS and name not in _MIXED or instruction.modifiers.get("clamp"):
        return None
    if instruction.form.encoding in ("DPP", "SDWA"):
        return None
    cells, modifiers = carrier.cells, instruction.modifiers
    whole_words = {key: value for key, value in modifiers.items() if key not in ("op_sel", "op_sel_hi", "neg_lo", "neg_hi")}
    slots = slots_of(replace(instruction, modifiers=whole_words), carrier)
    low, high = op_bits(modifiers, "op_sel", 0), op_bits(modifiers, "op_sel_hi", 0 if name in _MIXED else 1)
    signs = [op_bits(modifiers, "neg_lo", 0), op_bits(modifiers, "neg_hi", 0)]

    def half(slot: OperandSource, number: int, kind: str, group: Group, negate: int) -> Residues:
        pattern = (np.asarray(slot.raw(group)).view(np.uint32) >> np.uint32(16 * number)).astype(np.uint16)
        ids = cells.element(slot.handles(group)[0], 4 * number + 3)
        found = table.numbers(ids, kind, lambda: as_floats(pattern, kind))
        return -found if negate else found

    if name in _PACKED:
        put, rule = destination(instruction, carrier, 32), _PACKED[name]

        def packed(group: Group) -> None:
            results = [rule(*(half(slot, chosen[n], "f16", group, signs[side][n]) for n, slot in enumerate(slots)))
                       for side, chosen in enumerate((low, high))]
            put(group, np.concatenate([at_top(table.made(result, "f16"), 4) for result in results], axis=-1))

        return packed
    if name in _DOTS:
        kind, whole = _DOTS[name], writer(instruction, carrier)

        def dot(group: Group) -> None:
            total = numbers_of(slots[2], group, table, cells)
            total = -total if signs[0][2] else total
            for number in (0, 1):
                first, second = (half(slots[n], number, kind, group, signs[number][n]) for n in (0, 1))
                total = total + first * second
            whole(group, table.made(total, "f32"))

        return dot
    return _mixed(instruction, carrier, table, slots, low, high, half)


def _words(machine: Machine, operand: Operand, is_half: int) -> Fetch:
    """A source of v_fma_mix as its register holds it; the bits of an inline f16 constant are taken as their number where it is an f32."""
    plain = operand.value if isinstance(operand, Modified) else operand
    if isinstance(plain, int) and plain > 64 and not is_half:
        plain = float(np.array(plain, np.uint16).view(np.float16))
    return words(machine, plain, "f16" if is_half else "f32", 1)


def _mixed(instruction: Instruction, carrier: HandleCarrier, table: Elements, slots: list[OperandSource], low: tuple[int, int, int],
           high: tuple[int, int, int], half: Callable[..., Residues]) -> Action:
    """A product and a sum of f32, or of f16 where op_sel_hi says so."""
    upper = _MIXED[instruction.name]
    operands = [operand for place, operand in zip(instruction.form.operands, instruction.operands, strict=True) if not place.writes]
    raws = [_words(carrier.machine, operand, high[n]) for n, operand in enumerate(operands)]
    slots = [replace(slot, raw=raw) for slot, raw in zip(slots, raws, strict=True)]
    put = writer(instruction, carrier) if upper is None else None
    part = half_writer(instruction, carrier, 4 * upper, 4) if upper is not None else None

    def number(n: int, slot: OperandSource, group: Group) -> Residues:
        if not high[n]:
            raw = np.asarray(slot.raw(group)).view(np.uint32)
            found = table.numbers(carrier.cells.element(slot.handles(group)[0], 7), "f32", lambda: as_floats(raw, "f32"))
            sign = raw >> np.uint32(31) != 0
        else:
            found = half(slot, low[n], "f16", group, 0)
            sign = np.asarray(slot.raw(group)).view(np.uint32) >> np.uint32(15 + 16 * low[n]) & np.uint32(1) != 0
        if slot.absolute:
            found = (-found).where(sign, found)
        return -found if slot.negate else found

    def step(group: Group) -> None:
        a, b, c = (number(n, slot, group) for n, slot in enumerate(slots))
        if put is not None:
            put(group, table.made(a * b + c, "f32"))
        if part is not None:
            part(group, at_top(table.made(a * b + c, "f16"), 4))

    return step
