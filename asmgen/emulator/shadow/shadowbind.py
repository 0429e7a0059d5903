"""Binds any instruction to the shadow (`shadowvector`, `shadowmemory`): what it does to undefined bits. What is not known there passes
them on from wave to wave: one undefined bit that is read makes all that is written undefined.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from asmgen.emulator.arrival.arrival import Counters
from asmgen.emulator.binding.decode import UNBINDABLE, beyond_allocation
from asmgen.emulator.machine.state import LANES, Group
from asmgen.emulator.memory.lanes import array_view, load_words, store_words
from asmgen.emulator.memory.ldsops import LdsContext, bind_lds, locations
from asmgen.emulator.semantics.values import write_lanes
from asmgen.emulator.shadow.shadowmemory import Action, Carrier, bind_memory_shadow, bind_scalar_memory_shadow
from asmgen.emulator.shadow.shadowvector import bind_scalar_shadow, bind_vector_shadow
from asmgen.emulator.shadow.undefineduses import Use
from asmgen.isa.registers import SCC_BIT, SGPR_BIT, Reg
from asmgen.program.program import Instruction

_ONES = ~np.uint32(0)


def bind_shadow(instruction: Instruction, position: int, carrier: Carrier, use: Use) -> Action:
    """What an instruction does to undefined bits; it is run before the instruction itself."""
    if beyond_allocation(instruction, carrier.machine) is not None:
        return lambda group: None  # the emulator refuses it: it reads and writes nothing
    try:
        return _bind(instruction, position, carrier, use)
    except UNBINDABLE:
        return _whole(carrier, use)


def _bind(instruction: Instruction, position: int, carrier: Carrier, use: Use) -> Action:
    machine, shadow, classes = carrier.machine, carrier.shadow, instruction.opcode.classes
    if "mfma" in classes:
        return _matrix(instruction, carrier, use)
    if "valu" in classes:
        return bind_vector_shadow(instruction, machine, shadow)
    if "salu" in classes:
        return bind_scalar_shadow(instruction, machine, shadow)
    if "smem" in classes:
        return bind_scalar_memory_shadow(instruction, carrier)
    if "lds" in classes:
        return _lds(instruction, position, carrier)
    return bind_memory_shadow(instruction, carrier)


def _whole(carrier: Carrier, use: Use) -> Action:
    """One undefined bit in a wave makes all of its results undefined."""
    reads, writes = Registers(use.reads, carrier), Registers(use.writes, carrier)

    def step(group: Group) -> None:
        writes.put(group, reads.waves(group, use.by_lane), use.by_lane)

    return step


class Registers:
    """A set of registers, of the machine and of its shadow."""

    def __init__(self, mask: int, carrier: Carrier) -> None:
        self.shadow = carrier.shadow
        self.vectors = [bit for bit in range(min(SGPR_BIT, self.shadow.registers - 1)) if mask >> bit & 1]
        self.scalars = [bit for bit in range(128) if mask >> bit + SGPR_BIT & 1]
        self.scc = bool(mask >> SCC_BIT & 1)

    def waves(self, group: Group, active: bool) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """The waves in which one of them has an undefined bit, with `active` in an active lane."""
        found = np.zeros(group.size, bool)
        for bit in self.vectors:
            lanes = self.shadow.vector[bit, group.select] != 0
            found |= (lanes & group.mask if active and group.mask is not None else lanes).any(axis=1)
        for bit in self.scalars:
            found |= self.shadow.scalar[bit, group.select] != 0
        return found | self.shadow.scc[group.select] if self.scc else found

    def put(self, group: Group, waves: np.ndarray[tuple[int], np.dtype[np.bool_]], active: bool) -> None:
        """Make them undefined in those waves and defined in the others of the group, with `active` in active lanes only."""
        pattern = np.where(waves, _ONES, np.uint32(0))
        for bit in self.vectors:
            if active:
                write_lanes(self.shadow.vector[bit], group, np.broadcast_to(pattern[:, None], (group.size, LANES)))
            else:
                self.shadow.vector[bit, group.select] = pattern[:, None]
        for bit in self.scalars:
            self.shadow.scalar[bit, group.select] = pattern
        if self.scc:
            self.shadow.scc[group.select] = waves


def _matrix(instruction: Instruction, carrier: Carrier, use: Use) -> Action:
    """An element of the result has the addend's place; of a wave whose factors have an undefined bit all elements are undefined."""
    named = {spec.name: operand for spec, operand in zip(instruction.form.operands, instruction.operands, strict=True)}
    shadow, target = carrier.shadow, named["vdst"]
    assert isinstance(target, Reg)
    addend = target if instruction.name.startswith("v_smfmac") else named.get("src2")
    own = addend.mask_at(shadow.accum_offset) if isinstance(addend, Reg) else 0
    factors = 0
    for name, operand in named.items():
        if name not in ("vdst", "src2") or name == "src2" and instruction.name.startswith("v_smfmac"):
            factors |= operand.mask_at(shadow.accum_offset) if isinstance(operand, Reg) else 0
    read, slot = Registers(factors, carrier), shadow.slot(target)
    first = shadow.slot(addend) if isinstance(addend, Reg) and own else None

    def step(group: Group) -> None:
        waves = read.waves(group, False)
        if first is None:
            result = np.zeros((target.count, group.size, LANES), np.uint32)
        else:
            result = np.where(shadow.vector[first:first + target.count, group.select] != 0, _ONES, np.uint32(0))
        result[:, waves] = _ONES
        shadow.vector[slot:slot + target.count, group.select] = result

    return step


def _lds(instruction: Instruction, position: int, carrier: Carrier) -> Action:
    """LDS instructions that move data run on the shadow's LDS, with the address in the shadow's last register."""
    machine, shadow, row = carrier.machine, carrier.shadow, instruction.opcode.memory
    named = {spec.name: operand for spec, operand in zip(instruction.form.operands, instruction.operands, strict=True)}
    address = named.get("addr")
    if instruction.name == "ds_swizzle_b32":
        return bind_lds(instruction, position, LdsContext(shadow, Counters(machine.waves), None, None))
    if not isinstance(address, Reg):
        raise KeyError(instruction.name)
    if row is not None and row.kind == "atomic":
        return _lds_atomic(instruction, address, carrier)
    spare = shadow.registers - 1
    slot = machine.slot(address)
    placed = tuple(Reg("v", spare) if location.name == "addr" else operand
                   for location, operand in zip(instruction.form.operands, instruction.operands, strict=True))
    act = bind_lds(replace(instruction, operands=placed), position, LdsContext(shadow, Counters(machine.waves), None, None))
    result = [shadow.slot(operand) + n for name, operand in named.items() if name == "vdst" and isinstance(operand, Reg)
              for n in range(operand.count)]
    stores = row is not None and row.kind == "store"
    data = [shadow.slot(operand) + n for name, operand in named.items() if name.startswith("data") and isinstance(operand, Reg)
            for n in range(operand.count)]

    def step(group: Group) -> None:
        unknown = (shadow.vector[slot, group.select] & np.uint32(0xFC)) != 0
        if stores:
            dirty = any(bool(((shadow.vector[register, group.select] != 0) & group.lanes()).any()) for register in data)
            if not dirty and not carrier.live:
                return
            carrier.live = True
        shadow.vector[spare, group.select] = machine.vector[slot, group.select]
        act(group)
        if row is None and unknown.any():  # a permutation that is not known: of the wave where lanes push, of the lane where they pull
            lanes = np.broadcast_to(unknown.any(axis=1)[:, None], unknown.shape) if instruction.name == "ds_permute_b32" else unknown
            for register in result:
                old = shadow.vector[register, group.select]
                write_lanes(shadow.vector[register], group, np.where(lanes, _ONES, old))

    return step


def _lds_atomic(instruction: Instruction, address: Reg, carrier: Carrier) -> Action:
    """What is made of undefined data or an undefined place is undefined as a whole, and so is what any lane gets from there."""
    machine, shadow, row = carrier.machine, carrier.shadow, instruction.opcode.memory
    assert row is not None
    named = {spec.name: operand for spec, operand in zip(instruction.form.operands, instruction.operands, strict=True)}
    slot = machine.slot(address)
    data = [shadow.slot(operand) + n for name, operand in named.items() if name.startswith("data") and isinstance(operand, Reg)
            for n in range(operand.count)]
    result = named.get("vdst")
    size = row.bytes // 2 if "two" in instruction.opcode.flags else row.bytes
    where, words = locations(instruction, size), max(1, size // 4)

    def step(group: Group) -> None:
        bad = np.zeros((group.size, LANES), bool)
        for register in data:
            bad |= shadow.vector[register, group.select] != 0
        if not (bad & group.lanes()).any() and not carrier.live:
            return
        carrier.live = True
        view = array_view(shadow.lds, machine.work)
        home = (machine.workgroup[group.waves] * machine.lds_stride)[:, None]
        returned = np.zeros((group.size, LANES), bool)
        for location in where:
            at = machine.vector[slot, group.select].astype(np.int64) + location.offset
            active = group.lanes() & (at + size <= machine.lds_bytes)
            at += home
            counts = active * np.int64(words)
            touched = (bad | load_words(view, at, counts, words).any(axis=0)) & active
            touched = active & np.isin(at, at[touched])
            returned |= touched
            values = np.where(touched, _ONES, np.uint32(0))
            store_words(view, at, counts, np.ascontiguousarray(np.broadcast_to(values, (words, *values.shape))))
        if isinstance(result, Reg):
            for n in range(result.count):
                write_lanes(shadow.vector[shadow.slot(result) + n], group, np.where(returned, _ONES, np.uint32(0)))

    return step
