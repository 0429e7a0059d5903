"""What instructions that only move data do to handles: memory, LDS, other lanes. Each runs before the instruction itself.

Whatever is made of data in memory (atomics, formats) is a domain's business: its rule gets the old handles and gives the new ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from asmgen.emulator.arrival.arrival import Counters
from asmgen.emulator.arrival.findings import Findings
from asmgen.emulator.carried.carrier import Addresses, HandleCarrier
from asmgen.emulator.carried.cells import TOP, Handles, WordCells, gathered, scattered
from asmgen.emulator.machine.state import Group
from asmgen.emulator.memory.addresses import accesses_of
from asmgen.emulator.memory.ldsdma import dma_locations
from asmgen.emulator.memory.ldslanes import transposed
from asmgen.emulator.memory.ldsops import LdsContext, bind_lds, locations
from asmgen.emulator.memory.smem import scalar_location
from asmgen.emulator.semantics.crosslane import CROSS_LANE
from asmgen.emulator.semantics.values import fetch_scalar, write_lanes
from asmgen.emulator.shadow.shadowmemory import in_range
from asmgen.emulator.shadow.shadowvector import blank
from asmgen.isa.opcode import is_lds_dma
from asmgen.isa.registers import Reg
from asmgen.program.program import Instruction

Action = Callable[[Group], None]
_SPARE = Reg("s", 122)  # a trap register, which no kernel has: the lane that an instruction on handles reads


def bind_move(instruction: Instruction, position: int, carrier: HandleCarrier) -> Action | None:
    """Of an instruction that moves data without looking at it; None for all others."""
    classes, row = instruction.opcode.classes, instruction.opcode.memory
    if "valu" in classes:
        return _across(instruction, carrier) if instruction.name in CROSS_LANE else None
    if row is None:
        return _permuted(instruction, position, carrier) if "lds" in classes else None
    if row.kind == "atomic" or "format" in instruction.opcode.flags:
        return None
    if "smem" in classes:
        return _scalar_memory(instruction, carrier)
    return _lds(instruction, carrier) if "lds" in classes else _vector_memory(instruction, carrier)


def _named(instruction: Instruction) -> dict[str, Any]:
    return {spec.name: operand for spec, operand in zip(instruction.form.operands, instruction.operands, strict=True)}


def _vector_memory(instruction: Instruction, carrier: HandleCarrier) -> Action:
    row, machine, shadow = instruction.opcode.memory, carrier.machine, carrier.shadow
    assert row is not None
    accesses = accesses_of(instruction, machine, Findings(frozenset()))
    size, words = (4, row.bytes // 4) if row.bytes >= 4 else (row.bytes, 1)
    if is_lds_dma(instruction.opcode, instruction.form):
        return _to_lds(instruction, accesses, max(1, words), size, carrier)
    named = _named(instruction)
    data = named.get("vdata", named.get("vdst"))
    assert isinstance(data, Reg)
    slot, vector, cells = shadow.slot(data), shadow.vector, carrier.cells
    merge = half_merger(instruction, cells)
    upper = "hi" in instruction.opcode.flags

    def load(group: Group) -> None:
        found: Handles = np.zeros((words, group.size, 64), np.uint32)
        for access in accesses(group):
            found = found | carrier.load(access, in_range(access, size, words), size, words)
        if merge is not None:
            found = merge(vector[slot, group.select], found[0])[None]
        for word in range(words):
            write_lanes(vector[slot + word], group, found[word])

    def store(group: Group) -> None:
        values = vector[slot:slot + words, group.select]
        if upper and size < 4:
            values = moved(cells, values, -4)
        for access in accesses(group):
            carrier.store(access, in_range(access, size, words), values, size)

    return load if row.kind == "load" else store


def half_merger(instruction: Instruction, cells: WordCells) -> Callable[[Handles, Handles], Handles] | None:
    """How a d16 load joins the old register's elements and the loaded ones: it keeps one half. None for loads of whole registers."""
    if "keep" not in instruction.opcode.flags:
        return None
    upper = "hi" in instruction.opcode.flags

    def merge(old: Handles, new: Handles) -> Handles:
        rows, fresh = cells.expanded(old), cells.expanded(new)
        rows[..., 4:] = fresh[..., :4] if upper else rows[..., 4:]
        rows[..., :4] = rows[..., :4] if upper else fresh[..., :4]
        return cells.joined(rows)

    return merge


def moved(cells: WordCells, handles: Handles, nibbles: int) -> Handles:
    """The elements of words moved up (or down) by whole nibbles; those that leave the word are gone."""
    if not handles.any():
        return handles
    rows = cells.expanded(handles)
    out = np.zeros_like(rows)
    if nibbles >= 0:
        out[..., nibbles:] = rows[..., :TOP + 1 - nibbles]
    else:
        out[..., :nibbles] = rows[..., -nibbles:]
    return cells.joined(out)


def _to_lds(instruction: Instruction, accesses: Any, words: int, size: int, carrier: HandleCarrier) -> Action:
    """LDS-DMA; its handles are there at once, as nobody may look before the data is."""
    where = dma_locations(instruction, carrier.machine)

    def step(group: Group) -> None:
        (access,) = accesses(group)
        values = carrier.load(access, in_range(access, size, words), size, words)
        base, home = where(group)
        inside = access.active & (base >= 0) & (base + 4 * words <= carrier.machine.lds_bytes)
        for word in range(words):
            scattered(carrier.cells, carrier.shadow.lds_u32, (base + home)[inside] + 4 * word, values[word][inside], 4)

    return step


def _lds(instruction: Instruction, carrier: HandleCarrier) -> Action | None:
    row, machine, shadow, cells = instruction.opcode.memory, carrier.machine, carrier.shadow, carrier.cells
    assert row is not None
    named, flags = _named(instruction), instruction.opcode.flags
    address = named.get("addr")
    if not isinstance(address, Reg):
        return None
    slot = machine.slot(address)
    total = row.bytes // 2 if "two" in flags else row.bytes
    size, words = (4, total // 4) if total >= 4 else (total, 1)
    where = locations(instruction, total)
    registers = [shadow.slot(named[name]) for name in ("vdst", "data0", "data1") if isinstance(named.get(name), Reg)]
    vector, merge = shadow.vector, half_merger(instruction, cells)
    bits = int(instruction.name.rsplit("_b", 1)[1]) if "tr" in flags else 0
    crossing = _crossing(words, bits) if bits else None

    def at(group: Group, offset: int) -> tuple[Addresses, Any]:
        base = machine.vector[slot, group.select].astype(np.int64) + offset
        active = group.lanes() & (base + total <= machine.lds_bytes)
        return base + (machine.workgroup[group.waves] * machine.lds_stride)[:, None], active

    def load(group: Group) -> None:
        found: Handles = np.zeros((len(where) * words, group.size, 64), np.uint32)
        for number, place in enumerate(where):
            begin, active = at(group, place.offset)
            chosen = ... if active.all() else active
            for word in range(words):
                found[number * words + word][chosen] = gathered(cells, shadow.lds_u32, begin[chosen] + 4 * word, size)
        if crossing is not None:
            found = _transposed(cells, found, crossing)
        if merge is not None:
            found = merge(vector[registers[0], group.select], found[0])[None]
        for word, handles in enumerate(found):
            write_lanes(vector[registers[0] + word], group, handles)

    def store(group: Group) -> None:
        for place, data in zip(where, registers, strict=True):
            begin, active = at(group, place.offset)
            for word in range(words):
                values = vector[data + word, group.select]
                values = moved(cells, values, -4) if "hi" in flags and size < 4 else values
                scattered(cells, shadow.lds_u32, begin[active] + 4 * word, values[active], size)

    return load if row.kind == "load" else store


@cache
def _crossing(words: int, bits: int) -> Any:
    """Where ds_read_*_tr takes each nibble of a wave from, [words, 64, 8]: found by moving labels instead of data, a bit at a time."""
    count = words * 64 * 8
    labels = np.arange(count).reshape(words, 64, 8)
    found = np.zeros_like(labels)
    for bit in range(count.bit_length()):
        ones = np.where(labels >> bit & 1, np.uint32(15), np.uint32(0)) << (4 * np.arange(8)).astype(np.uint32)
        across = transposed(np.bitwise_or.reduce(ones, axis=-1).astype(np.uint32)[:, None], bits)[:, 0]
        found |= (across[..., None] >> (4 * np.arange(8)).astype(np.uint32) & np.uint32(1)).astype(np.int64) << bit
    return found


def _transposed(cells: WordCells, handles: Handles, crossing: Any) -> Handles:
    if not handles.any():
        return handles
    rows = np.moveaxis(cells.expanded(handles), 1, 0)  # [waves, words, 64, 8]
    flat = rows.reshape(len(rows), -1)
    return cells.joined(np.ascontiguousarray(np.moveaxis(flat[:, crossing], 0, 1)))


def _permuted(instruction: Instruction, position: int, carrier: HandleCarrier) -> Action:
    """LDS instructions that move words across lanes run on the handles, with the address in their machine's last register."""
    machine, shadow = carrier.machine, carrier.shadow
    context = LdsContext(shadow, Counters(machine.waves), None, None)
    address = _named(instruction).get("addr")
    if instruction.name == "ds_swizzle_b32" or not isinstance(address, Reg):
        return bind_lds(instruction, position, context)
    spare, slot = shadow.registers - 1, machine.slot(address)
    operands = tuple(Reg("v", spare) if place.name == "addr" else operand
                     for place, operand in zip(instruction.form.operands, instruction.operands, strict=True))
    act = bind_lds(replace(instruction, operands=operands), position, context)

    def step(group: Group) -> None:
        shadow.vector[spare, group.select] = machine.vector[slot, group.select]
        act(group)

    return step


def _across(instruction: Instruction, carrier: HandleCarrier) -> Action:
    """Vector instructions that move words across lanes; the lane of v_readlane and v_writelane is a value."""
    machine, shadow = carrier.machine, carrier.shadow
    plain = blank(instruction)
    if instruction.name not in ("v_readlane_b32", "v_writelane_b32"):
        return CROSS_LANE[instruction.name](plain, shadow)
    read = fetch_scalar(machine, instruction.operands[-1], "b32")
    act = CROSS_LANE[instruction.name](replace(plain, operands=(*plain.operands[:-1], _SPARE)), shadow)

    def step(group: Group) -> None:
        shadow.scalar[_SPARE.index, group.select] = read(group)
        act(group)
        shadow.scalar[_SPARE.index, group.select] = 0

    return step


def _scalar_memory(instruction: Instruction, carrier: HandleCarrier) -> Action | None:
    row, named = instruction.opcode.memory, _named(instruction)
    data = named.get("sdata")
    if row is None or not isinstance(data, Reg):
        return None
    place, scalar, words, first = scalar_location(instruction, named, carrier.machine), carrier.shadow.scalar, row.bytes // 4, data.index

    def step(group: Group) -> None:
        where = place(group)
        counts = sum((where.allowed(4 * word).astype(np.int64) for word in range(words)), np.zeros(group.size, np.int64))
        if row.kind == "load":
            scalar[first:first + words, group.select] = carrier.device.load(where.addresses, counts, 4, words)
        else:
            carrier.device.store(where.addresses, counts, scalar[first:first + words, group.select], 4)

    return step
