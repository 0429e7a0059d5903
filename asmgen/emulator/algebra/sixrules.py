"""Conversions of 32 numbers at once from and to formats of 6 bits, which stand side by side in 6 registers: signs are 6 bits apart, each in
a nibble of its own, so that all of them are elements."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from asmgen.emulator.algebra.conversionscales import Scale, kept, scale_of
from asmgen.emulator.algebra.elements import Elements
from asmgen.emulator.algebra.residues import Residues
from asmgen.emulator.algebra.sources import as_floats
from asmgen.emulator.carried.carrier import HandleCarrier
from asmgen.emulator.carried.cells import NIBBLES, Handles
from asmgen.emulator.carried.operandhandles import OperandSource, slots_of, writer
from asmgen.emulator.machine.state import Group
from asmgen.isa.formats import decode, hardware_format
from asmgen.program.program import Instruction

Action = Callable[[Group], None]
_NUMBERS, _BITS, _REGISTERS = 32, 6, 6
_TO = re.compile(r"v_cvt_scalef32_(?:2xpk16|pk32|sr_pk32)_(fp6|bf6)_(f32|f16|bf16)$")
_FROM = re.compile(r"v_cvt_scalef32_pk32_(f32|f16|bf16)_(fp6|bf6)$")


def bind_six(instruction: Instruction, carrier: HandleCarrier, table: Elements) -> Action | None:
    """The rule of such a conversion; None for others."""
    to, back = _TO.match(instruction.name), _FROM.match(instruction.name)
    slots = slots_of(instruction, carrier) if to or back else []
    if to:
        lists = slots[:2] if "2xpk16" in instruction.name else slots[:1]
        return _to(instruction, carrier, table, lists, slots[-1], *to.groups())
    return _from(instruction, carrier, table, slots[0], slots[-1], *back.groups()) if back else None


def _number(slot: OperandSource, word: int, low: int, kind: str, group: Group, carrier: HandleCarrier, table: Elements
            ) -> tuple[Residues, Any]:
    """One number of a list, and its value: of a register, or of the half that begins at bit `low`."""
    pattern = np.asarray(slot.raw(group)).view(np.uint32)[word]
    value = as_floats(pattern if kind == "f32" else (pattern >> np.uint32(low)).astype(np.uint16), kind)
    ids = carrier.cells.element(slot.handles(group)[word], 7 if kind == "f32" else low // 4 + 3)
    return table.numbers(ids, kind, lambda: value), value


def _to(instruction: Instruction, carrier: HandleCarrier, table: Elements, lists: list[OperandSource], factor: OperandSource, target: str,
        given: str) -> Action:
    """Of two lists the numbers stand by turns."""
    puts = [writer(instruction, carrier, n) for n in range(_REGISTERS)]

    def step(group: Group) -> None:
        scale, ids = scale_of(factor, group), []
        for item in range(_NUMBERS):
            slot, place = lists[item % len(lists)], item // len(lists)
            word, low = (place, 0) if given == "f32" else (place // 2, 16 * (place % 2))
            numbers, value = _number(slot, word, low, given, group, carrier, table)
            numbers, value = scale.down(numbers), np.ldexp(value, -scale.exponents)
            ids.append(table.made(kept(numbers, value, target, carrier.machine.arch, True, table), target))
        slots: Handles = np.zeros((*np.broadcast_shapes(*(one.shape for one in ids)), NIBBLES * _REGISTERS), np.uint32)
        for item, one in enumerate(ids):
            slots[..., (_BITS * item + _BITS - 1) // 4] = one
        for n, put in enumerate(puts):
            put(group, carrier.cells.joined(np.ascontiguousarray(slots[..., NIBBLES * n:NIBBLES * (n + 1)])))

    return step


def _from(instruction: Instruction, carrier: HandleCarrier, table: Elements, source: OperandSource, factor: OperandSource, target: str,
          given: str) -> Action:
    fmt = hardware_format(given, carrier.machine.arch)
    halves = target != "f32"
    puts = [writer(instruction, carrier, n) for n in range(_NUMBERS // 2 if halves else _NUMBERS)]

    def number(group: Group, item: int, scale: Scale, words: Any, handles: Handles) -> Handles:
        word, bit = divmod(_BITS * item, 32)
        code = words[word] >> np.uint32(bit)
        if bit > 32 - _BITS:
            code = code | words[word + 1] << np.uint32(32 - bit)
        code = code & np.uint32((1 << _BITS) - 1)
        register, nibble = divmod((_BITS * item + _BITS - 1) // 4, NIBBLES)
        numbers = table.numbers(carrier.cells.element(handles[register], nibble), given, lambda: decode(code, fmt))
        return table.made(scale.up(numbers), target)

    def step(group: Group) -> None:
        words, handles, scale = np.asarray(source.raw(group)).view(np.uint32), source.handles(group), scale_of(factor, group)
        ids = [number(group, item, scale, words, handles) for item in range(_NUMBERS)]
        for n, put in enumerate(puts):
            if halves:
                slots = np.zeros((*np.broadcast_shapes(ids[2 * n].shape, ids[2 * n + 1].shape), NIBBLES), np.uint32)
                slots[..., 3], slots[..., 7] = ids[2 * n], ids[2 * n + 1]
                put(group, carrier.cells.joined(slots))
            else:
                put(group, ids[n])

    return step
