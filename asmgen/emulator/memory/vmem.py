"""Vector memory: loads, stores and atomics through buffer, global, flat and scratch instructions. LDS-DMA is in `ldsdma`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from asmgen.emulator.machine.state import Group
from asmgen.emulator.memory.addresses import Accesses, accesses_of, counts_in_range
from asmgen.emulator.memory.atomics import atomic_of, joined, perform, write_joined
from asmgen.emulator.memory.formatted import TypedAccess, bind_formatted
from asmgen.emulator.memory.lanes import Words, load_narrow, load_words, sign_extended, store_narrow, store_words
from asmgen.emulator.memory.ldsdma import Context, Deliveries, to_lds
from asmgen.emulator.semantics.values import write_lanes
from asmgen.isa.opcode import MemoryUse as MemoryRow
from asmgen.isa.opcode import is_lds_dma
from asmgen.isa.registers import Reg
from asmgen.program.program import Instruction

__all__ = ["Context", "Deliveries", "bind_vector_memory"]

Step = Callable[[Group], None]
SIGNED = ("sbyte", "sshort")


def bind_vector_memory(instruction: Instruction, position: int, context: Context) -> Step:
    """The step of a vector memory instruction. Raises KeyError for one without semantics."""
    row = instruction.opcode.memory
    if row is None:
        raise KeyError(instruction.name)
    accesses = accesses_of(instruction, context.machine, context.findings)
    typed = TypedAccess.of(instruction, context.machine, accesses, context.findings) if "format" in instruction.opcode.flags else None
    if is_lds_dma(instruction.opcode, instruction.form):
        return to_lds(instruction, position, row, accesses, context, typed)
    named = {spec.name: operand for spec, operand in zip(instruction.form.operands, instruction.operands, strict=True)}
    data = named.get("vdata", named.get("vdst"))
    assert isinstance(data, Reg)
    slot = context.machine.slot(data)
    if typed is not None:
        return bind_formatted(typed, row.kind, slot)
    if row.kind == "atomic":
        result = named.get("vdst", data)
        assert isinstance(result, Reg)
        return _atomic(instruction, row, slot, context.machine.slot(result), accesses, context)
    if row.bytes < 4:
        return (_load_narrow if row.kind == "load" else _store_narrow)(instruction, row, slot, accesses, context)
    return (_load if row.kind == "load" else _store)(instruction, row, slot, accesses, context)


def _load(instruction: Instruction, row: MemoryRow, slot: int, accesses: Accesses, context: Context) -> Step:
    vector, words, findings = context.machine.vector, row.bytes // 4, context.findings

    def step(group: Group) -> None:
        found: Words | None = None
        for access in accesses(group):
            loaded = load_words(access.view, access.addresses, counts_in_range(access, 4, words, group, instruction, findings), words)
            found = loaded if found is None else found | loaded
        assert found is not None
        for word in range(words):
            write_lanes(vector[slot + word], group, found[word])

    return step


def _store(instruction: Instruction, row: MemoryRow, slot: int, accesses: Accesses, context: Context) -> Step:
    vector, words, findings = context.machine.vector, row.bytes // 4, context.findings

    def step(group: Group) -> None:
        for access in accesses(group):
            counts = counts_in_range(access, 4, words, group, instruction, findings)
            store_words(access.view, access.addresses, counts, vector[slot:slot + words, group.select])

    return step


def _load_narrow(instruction: Instruction, row: MemoryRow, slot: int, accesses: Accesses, context: Context) -> Step:
    vector, findings = context.machine.vector, context.findings
    merge = half_merger(instruction)
    signed = row.type in SIGNED

    def step(group: Group) -> None:
        value: Words = np.zeros((group.size, 64), np.uint32)
        for access in accesses(group):
            valid = counts_in_range(access, row.bytes, 1, group, instruction, findings) > 0
            value |= load_narrow(access.view, access.addresses, valid, row.bytes)
        if signed:
            value = sign_extended(value, row.bytes)
        write_lanes(vector[slot], group, value if merge is None else merge(vector[slot, group.select], value))

    return step


def half_merger(instruction: Instruction) -> Callable[[Words, Words], Words] | None:
    """How a d16 load joins the old register and the loaded value: it keeps one half. None for loads of whole registers."""
    if "keep" not in instruction.opcode.flags:
        return None
    if "hi" in instruction.opcode.flags:
        return lambda old, value: old & np.uint32(0xFFFF) | value << np.uint32(16)
    return lambda old, value: old & np.uint32(0xFFFF0000) | value & np.uint32(0xFFFF)


def _store_narrow(instruction: Instruction, row: MemoryRow, slot: int, accesses: Accesses, context: Context) -> Step:
    vector, findings = context.machine.vector, context.findings
    shift = np.uint32(16 if "hi" in instruction.opcode.flags else 0)

    def step(group: Group) -> None:
        for access in accesses(group):
            valid = counts_in_range(access, row.bytes, 1, group, instruction, findings) > 0
            store_narrow(access.view, access.addresses, valid, vector[slot, group.select] >> shift, row.bytes)

    return step


def _atomic(instruction: Instruction, row: MemoryRow, slot: int, result: int, accesses: Accesses, context: Context) -> Step:
    """Compare-and-swap takes the new value first and after it the one to compare with."""
    vector, findings = context.machine.vector, context.findings
    compares = "compare" in instruction.opcode.flags
    operation = instruction.name.split("_atomic_")[1].removesuffix("_x2")
    for suffix in ("_f32", "_f64"):
        operation = operation.removesuffix(suffix)
    element = {"u64": "u32", "b128": "u64"}[row.type] if compares else row.type
    returns = bool(instruction.modifiers.get("sc0"))
    atomic = atomic_of(operation, element, returns)
    words = atomic.words

    def step(group: Group) -> None:
        first = joined(vector, slot, words, group)
        second = joined(vector, slot + words, words, group) if compares else first
        old = np.zeros_like(first)
        for access in accesses(group):
            valid = counts_in_range(access, 4 * words, 1, group, instruction, findings) > 0
            old |= perform(access.view, access.addresses, valid, atomic, first, second)
        if returns:
            write_joined(vector, result, words, group, old)

    return step
