"""Conversions between float formats: the same element in another format. Where the run saturates, it is the largest number instead, as if a
select had taken that; where it overflows, nothing is known."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from asmgen.emulator.algebra.conversionscales import kept, scale_of
from asmgen.emulator.algebra.elements import WIDTHS, Elements
from asmgen.emulator.algebra.residues import Residues
from asmgen.emulator.algebra.sources import as_floats, numbers_of
from asmgen.emulator.carried.carrier import HandleCarrier
from asmgen.emulator.carried.cells import TOP, Handles
from asmgen.emulator.carried.operandhandles import OperandSource, at_top, half_writer, result_writer, slots_of, writer
from asmgen.emulator.machine.floatmode import float_mode
from asmgen.emulator.machine.state import Group
from asmgen.isa.formats import decode, hardware_format
from asmgen.isa.registers import Reg
from asmgen.program.program import Instruction

Action = Callable[[Group], None]
_SMALL = "fp8|bf8|fp4"
_WIDE = "f64|f32|f16|bf16"
_PLAIN = re.compile(rf"v_cvt_(?:pk_|pkrtz_|sr_)?({_WIDE}|{_SMALL})_({_WIDE}|{_SMALL})$")
_SCALED = re.compile(rf"v_cvt_scalef32_(?:pk_|sr_|sr_pk_)?({_WIDE}|{_SMALL})_({_WIDE}|{_SMALL})$")


def bind_conversion(instruction: Instruction, carrier: HandleCarrier, table: Elements) -> Action | None:
    """The rule of a conversion; None where there is none."""
    name = instruction.name
    plain, scaled = _PLAIN.match(name), _SCALED.match(name)
    match = plain or scaled
    if match is None or instruction.modifiers.get("clamp") or instruction.modifiers.get("mul") or instruction.modifiers.get("div"):
        return None
    target, given = match.groups()
    slots = slots_of(instruction, carrier)
    pair = "_pk_" in name or "_pkrtz_" in name
    if given in ("f64", "f32", "f16", "bf16"):
        return _to(instruction, carrier, table, target, given, slots, pair, scaled is not None)
    return _from(instruction, carrier, table, target, given, slots, pair, scaled is not None)


def _halves(slot: OperandSource, kind: str, group: Group, carrier: HandleCarrier, table: Elements) -> list[tuple[Residues, Any]]:
    """Both halves of a register with their values."""
    word = np.asarray(slot.raw(group)).view(np.uint32)
    handles = slot.handles(group)[0]
    found = []
    for half in (0, 1):
        value = as_floats((word >> np.uint32(16 * half)).astype(np.uint16), kind)
        found.append((table.numbers(carrier.cells.element(handles, 4 * half + 3), kind, lambda value=value: value), value))  # type: ignore[misc]
    return found


def _registers(slot: OperandSource, kind: str, group: Group, carrier: HandleCarrier, table: Elements) -> list[tuple[Residues, Any]]:
    """Both registers of a pair with their values."""
    words, found = np.asarray(slot.raw(group)).view(np.uint32), []
    for number, handles in enumerate(slot.handles(group)):
        value = as_floats(words[number], kind)
        found.append((table.numbers(carrier.cells.element(handles, TOP), kind, lambda value=value: value), value))  # type: ignore[misc]
    return found


def _to(instruction: Instruction, carrier: HandleCarrier, table: Elements, target: str, given: str, slots: list[OperandSource], pair: bool,
        scaled: bool) -> Action:
    """From f32, f16 or bf16: one number, two of two sources, or two halves of a register."""
    width, arch, cells = WIDTHS[target], carrier.machine.arch, carrier.cells
    halves = pair and scaled and given != "f32"
    registers = pair and scaled and slots[0].type == "v2f32"
    saturates = target == "fp4" or target in ("fp8", "bf8") and float_mode(carrier.machine.binding_mode).fp16_overflow
    count = 2 if pair else 1
    bits = width * count
    nibbles = bits // 4
    chosen = (*tuple(instruction.modifiers.get("op_sel") or ()), 0, 0, 0, 0)
    if target in ("fp8", "bf8", "fp4"):
        if not pair or target == "fp4":
            low = 2 * chosen[2] + 4 * chosen[3]
        else:
            sources = sum(not place.writes for place in instruction.form.operands)
            low = 4 * chosen[sources]
        put = half_writer(instruction, carrier, low, nibbles)
    else:
        put = result_writer(instruction, carrier, bits)

    def step(group: Group) -> None:
        if halves or registers:
            parts = (_halves if halves else _registers)(slots[0], given, group, carrier, table)
        else:
            parts = [(numbers_of(slot, group, table, cells), as_floats(slot.value(group), slot.type)) for slot in slots[:count]]
        scale = scale_of(slots[-1], group) if scaled else None
        made = []
        for numbers, value in parts:
            if scale is not None:
                numbers, value = scale.down(numbers), np.ldexp(value, -scale.exponents)
            made.append(at_top(table.made(kept(numbers, value, target, arch, saturates, table), target), width // 4))
        shape = np.broadcast_shapes(*(one.shape for one in made))
        put(group, np.concatenate([np.broadcast_to(one, shape) for one in made], axis=-1))

    return step


def _from(instruction: Instruction, carrier: HandleCarrier, table: Elements, target: str, given: str, slots: list[OperandSource],
          pair: bool, scaled: bool) -> Action:
    """From bytes or nibbles: to one register, to two of f32, or to two halves."""
    width, count, cells = WIDTHS[given], 2 if pair else 1, carrier.cells
    fmt = hardware_format(given, carrier.machine.arch)
    chosen = (*tuple(instruction.modifiers.get("op_sel") or ()), 0, 0)
    low = 16 * chosen[0] if pair and given != "fp4" else 8 * chosen[0] + 16 * chosen[1]
    low += 4 * slots[0].low
    registers = 2 if pair and target == "f32" else 1
    puts = [writer(instruction, carrier, n) for n in range(registers)]
    keeps = target == "f16" and not pair
    sources = sum(not place.writes for place in instruction.form.operands)
    upper = half_writer(instruction, carrier, 4 * (*chosen, 0, 0)[sources], 4) if keeps else None
    operand = instruction.operands[1]
    if not isinstance(operand, Reg):
        raise ValueError("a constant of small floats")

    def step(group: Group) -> None:
        handles = slots[0].handles(group)[0]
        word = np.asarray(slots[0].raw(group)).view(np.uint32)  # moved down already to what op_sel names
        scale = scale_of(slots[-1], group) if scaled else None
        made: list[Handles] = []
        for number in range(count):
            begin = low + width * number
            code = word >> np.uint32(width * number) & np.uint32((1 << width) - 1)
            ids = cells.element(handles, (begin + width) // 4 - 1)
            numbers = table.numbers(ids, given, lambda code=code: decode(code, fmt))  # type: ignore[misc]
            made.append(table.made(scale.up(numbers) if scale is not None else numbers, target))
        if registers == count and target == "f32":
            for put, ids in zip(puts, made, strict=True):
                put(group, ids)
            return
        halves = [at_top(ids, 4) for ids in made]
        if upper is not None:
            upper(group, halves[0])
            return
        if len(halves) == 1:
            halves.append(np.zeros_like(halves[0]))
        puts[0](group, cells.joined(np.concatenate(halves, axis=-1)))

    return step
