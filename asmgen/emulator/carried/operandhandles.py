"""Operands of vector instructions with their handles: which word of a lane, which half or byte, where a result goes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from asmgen.emulator.carried.carrier import HandleCarrier
from asmgen.emulator.carried.cells import Handles
from asmgen.emulator.machine.state import VCC, Group
from asmgen.emulator.semantics.dpp import Dpp, dpp_of
from asmgen.emulator.semantics.valu import ACCUMULATING, vector_source
from asmgen.emulator.semantics.values import Fetch, fetch_lane_mask
from asmgen.emulator.semantics.vectorio import dpp_mask, moved_lanes, source, words, write_row
from asmgen.emulator.shadow.shadowvector import blank
from asmgen.isa.opcode import OperandSpec
from asmgen.isa.operands import Operand
from asmgen.isa.registers import Modified, Reg
from asmgen.program.program import Instruction


@dataclass(frozen=True)
class OperandSource:
    """One source: the run's value, modified as it is, and the handles of its words, [words, ...]."""

    type: str
    value: Fetch
    raw: Fetch
    handles: Callable[[Group], Handles]
    low: int  # the nibble that the value begins with
    count: int  # how many nibbles it has
    negate: bool
    absolute: bool


def slots_of(instruction: Instruction, carrier: HandleCarrier) -> list[OperandSource]:
    """All sources in order; of an instruction that accumulates its destination last."""
    control = dpp_of(instruction.form.encoding, instruction.modifiers)
    plain = blank(instruction)
    found = []
    triples = zip(instruction.form.operands, instruction.operands, plain.operands, strict=True)
    for number, (place, operand, hidden) in enumerate(one for one in triples if not one[0].writes):
        found.append(_slot(instruction, carrier, place, operand, hidden, number, control))
    if instruction.name in ACCUMULATING:
        place, destination = instruction.form.operands[0], instruction.operands[0]
        fetch = source(carrier.machine, destination, place.type, place.width)
        found.append(OperandSource(place.type, fetch, fetch, _handles(carrier, destination, place, None), 0, 16, False, False))
    if instruction.name.startswith("v_div_fmas"):
        flags = fetch_lane_mask(carrier.machine, Reg("s", VCC, 2))
        found.append(OperandSource("b64", flags, flags, lambda group: np.zeros((1, 1, 1), np.uint32), 0, 16, False, False))
    return found


def _slot(instruction: Instruction, carrier: HandleCarrier, place: OperandSpec, operand: Operand, hidden: Operand, number: int,
          control: Dpp | None) -> OperandSource:
    value = vector_source(instruction, carrier.machine, place, operand, number, control)
    raw, negate, absolute = value, False, False
    if isinstance(operand, Modified):
        raw = vector_source(instruction, carrier.machine, place, operand.value, number, control)
        negate, absolute = operand.neg, operand.abs
    chosen = tuple(instruction.modifiers.get("op_sel") or ())
    low, count = 0, 16
    if instruction.form.encoding == "SDWA":
        low, count = FIELDS[instruction.modifiers.get(f"src{number}_sel", "DWORD")]
        hidden = hidden.value if isinstance(hidden, Modified) else hidden
    elif place.type in ("f16", "bf16", "b16", "u16", "i16"):
        low = 4 * int(number < len(chosen) and bool(chosen[number]))
    moved = control if number == 0 else None
    return OperandSource(place.type, value, raw, _handles(carrier, hidden, place, moved), low, count, negate, absolute)


def _handles(carrier: HandleCarrier, operand: Operand, place: OperandSpec, control: Dpp | None) -> Callable[[Group], Handles]:
    """The handles of an operand's words, [words, ...]: of a lane mask none."""
    count = 2 if place.type in ("b64", "u64", "i64", "f64") else max(1, place.width)
    if place.type == "b64" and isinstance(operand, Reg) and operand.file == "s" and place.name in ("vcc", "src2"):
        nothing: Handles = np.zeros((1, 1, 1), np.uint32)
        return lambda group: nothing
    fetch = words(carrier.shadow, operand, "b32", count)
    if control is not None:
        fetch = moved_lanes(fetch, control)
    if count > 1:
        return lambda group: np.asarray(fetch(group), np.uint32)
    return lambda group: np.asarray(fetch(group), np.uint32)[None]


def writer(instruction: Instruction, carrier: HandleCarrier, register: int = 0) -> Callable[[Group, Handles], None]:
    """Puts handles into one of the registers of the destination, in the lanes that the instruction writes."""
    destination = instruction.operands[0]
    assert isinstance(destination, Reg)
    shadow = carrier.shadow
    control = dpp_of(instruction.form.encoding, instruction.modifiers)
    if destination.file == "s":
        return lambda group, handles: shadow.scalar.__setitem__((destination.index + register, group.select), handles)
    target = shadow.vector[shadow.slot(destination) + register]

    def put(group: Group, handles: Handles) -> None:
        mask = group.mask if control is None else dpp_mask(group, control)
        write_row(target, group, np.broadcast_to(handles, (group.size, 64)), mask)

    return put


FIELDS = {"DWORD": (0, 8), **{f"WORD_{n}": (4 * n, 4) for n in range(2)}, **{f"BYTE_{n}": (2 * n, 2) for n in range(4)}}
"""First nibble and number of nibbles of SDWA's parts of a register."""


def destination(instruction: Instruction, carrier: HandleCarrier, bits: int) -> Callable[[Group, Handles], None]:
    """Puts a result of 16 or 32 bits, elements [..., bits / 4], where it goes: a part that SDWA or op_sel names, with what is above or
    around it as the instruction leaves it."""
    modifiers, cells = instruction.modifiers, carrier.cells
    if instruction.form.encoding == "SDWA" and modifiers.get("dst_sel", "DWORD") != "DWORD":
        low, count = FIELDS[modifiers["dst_sel"]]
        if modifiers.get("dst_unused", "UNUSED_PRESERVE") == "UNUSED_PRESERVE":
            part = half_writer(instruction, carrier, low, count)
            return lambda group, slots: part(group, slots[..., :count])
    else:
        low, count = 0, bits // 4
        chosen = tuple(modifiers.get("op_sel") or ())
        sources = sum(not place.writes for place in instruction.form.operands)
        upper = len(chosen) > sources and bool(chosen[sources])
        if bits == 16 and (upper or "keep" in instruction.opcode.flags):
            return half_writer(instruction, carrier, 4 * upper, 4)
    whole = writer(instruction, carrier)

    def put(group: Group, slots: Handles) -> None:
        rows = np.zeros((*slots.shape[:-1], 8), np.uint32)
        rows[..., low:low + count] = slots[..., :count]
        whole(group, cells.joined(rows))

    return put


def result_writer(instruction: Instruction, carrier: HandleCarrier, bits: int) -> Callable[[Group, Handles], None]:
    """As `destination`, for results of 64 bits too."""
    if bits <= 32:
        return destination(instruction, carrier, bits)
    puts, cells = [writer(instruction, carrier, register) for register in range(bits // 32)], carrier.cells

    def put(group: Group, slots: Handles) -> None:
        for number, one in enumerate(puts):
            one(group, cells.joined(np.ascontiguousarray(slots[..., 8 * number:8 * number + 8])))

    return put


def element_writer(instruction: Instruction, carrier: HandleCarrier, bits: int) -> Callable[[Group, Handles], None]:
    """Puts one element of so many bits, by its number, where the result goes."""
    if bits == 32 and (instruction.form.encoding != "SDWA" or instruction.modifiers.get("dst_sel", "DWORD") == "DWORD"):
        return writer(instruction, carrier)  # an element that ends at the top of a word is the word's handle
    put = result_writer(instruction, carrier, bits)
    return lambda group, ids: put(group, at_top(ids, bits // 4))


def half_writer(instruction: Instruction, carrier: HandleCarrier, first: int, count: int) -> Callable[[Group, Handles], None]:
    """Puts elements [..., count] into nibbles of the destination from `first` on; the others keep theirs."""
    destination = instruction.operands[0]
    assert isinstance(destination, Reg)
    row, put, cells = carrier.shadow.vector[carrier.shadow.slot(destination)], writer(instruction, carrier), carrier.cells

    def store(group: Group, slots: Handles) -> None:
        rows = cells.expanded(row[group.select])
        rows[..., first:first + count] = slots
        put(group, cells.joined(rows))

    return store


def at_top(ids: Handles, nibbles: int) -> Handles:
    """Elements that end at the top of a field of so many nibbles, [..., nibbles]."""
    slots: Handles = np.zeros((*ids.shape, nibbles), np.uint32)
    slots[..., -1] = ids
    return slots
