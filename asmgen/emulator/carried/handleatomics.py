"""Atomics on handles: lanes that meet at an address take turns, as the run has them; a domain says what one change makes of two words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.arrival.findings import Findings
from asmgen.emulator.carried.carrier import HandleCarrier
from asmgen.emulator.carried.cells import UNKNOWN, Handles
from asmgen.emulator.machine.devicememory import PAGE
from asmgen.emulator.machine.state import Group
from asmgen.emulator.memory.addresses import AddressedLanes, accesses_of
from asmgen.emulator.memory.ldsops import locations
from asmgen.emulator.semantics.values import write_lanes
from asmgen.emulator.shadow.shadowmemory import in_range
from asmgen.isa.registers import Reg
from asmgen.program.program import Instruction

Action = Callable[[Group], None]
Words = NDArray[np.uint32]
Change = Callable[[Handles, Words, Handles, Words], Handles]
"""The new handles of words in memory, of their old handles and values and of those of the data."""


def bind_atomic(instruction: Instruction, carrier: HandleCarrier, change: Change | None) -> Action | None:
    """Of an atomic of vector memory or LDS. `change` None: what elements take part in is unknown. None for other instructions."""
    row = instruction.opcode.memory
    if row is None or row.kind != "atomic" or row.space == "scalar":
        return None
    named: dict[str, Any] = {spec.name: operand for spec, operand in zip(instruction.form.operands, instruction.operands, strict=True)}
    data = named.get("data0") if row.space == "lds" else named.get("vdata", named.get("vdst"))
    if not isinstance(data, Reg):
        return None
    if change is None or row.bytes != 4 or "two" in instruction.opcode.flags or "compare" in instruction.opcode.flags:
        change = _lost
    returned = named.get("vdst") if row.space == "lds" or instruction.modifiers.get("sc0") else None
    if row.space != "lds" and instruction.modifiers.get("sc0"):
        returned = named.get("vdst", data)
    words = max(1, row.bytes // 4)
    targets = [carrier.shadow.slot(returned) + n for n in range(words)] if isinstance(returned, Reg) else []
    targets_of = _lds(instruction, carrier, named) if row.space == "lds" else _memory(instruction, carrier)
    slot, shadow, machine = carrier.machine.slot(data), carrier.shadow, carrier.machine

    def step(group: Group) -> None:
        for access, counts in targets_of(group):
            for word in range(words):
                handles = shadow.vector[slot + word, group.select]
                values = machine.vector[slot + word, group.select]
                old = _changed_in_order(carrier, access, counts, 4 * word, handles, values, change)
                if targets:
                    write_lanes(shadow.vector[targets[word]], group, old)

    return step


def _memory(instruction: Instruction, carrier: HandleCarrier) -> Callable[[Group], list[tuple[AddressedLanes, Any]]]:
    row = instruction.opcode.memory
    assert row is not None
    accesses, size = accesses_of(instruction, carrier.machine, Findings(frozenset())), row.bytes
    return lambda group: [(access, in_range(access, size, 1)) for access in accesses(group)]


def _lds(instruction: Instruction, carrier: HandleCarrier, named: dict[str, Any]) -> Callable[[Group], list[tuple[AddressedLanes, Any]]]:
    row, machine = instruction.opcode.memory, carrier.machine
    assert row is not None
    slot, size = machine.slot(named["addr"]), row.bytes // 2 if "two" in instruction.opcode.flags else row.bytes
    where = locations(instruction, size)

    def targets_of(group: Group) -> list[tuple[AddressedLanes, Any]]:
        found = []
        for place in where:
            at = machine.vector[slot, group.select].astype(np.int64) + place.offset
            active = group.lanes() & (at + size <= machine.lds_bytes)
            at += (machine.workgroup[group.waves] * machine.lds_stride)[:, None]
            found.append((AddressedLanes(None, at, active, None, "LDS"), active.astype(np.int64)))  # type: ignore[arg-type]
        return found

    return targets_of


def _changed_in_order(carrier: HandleCarrier, access: AddressedLanes, counts: Any, offset: int, handles: Handles, values: Words,
                      change: Change) -> Handles:
    """Change memory lane after lane; returns what each lane found there."""
    found: Handles = np.zeros(counts.shape, np.uint32)
    valid = counts > 0
    at = access.addresses[valid] + offset
    if not at.size:
        return found
    order = np.argsort(at, kind="stable")
    ordered = at[order]
    first = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    begin = np.maximum.accumulate(np.where(first, np.arange(len(at)), 0))
    round_of = np.empty(len(at), np.int64)
    round_of[order] = np.arange(len(at)) - begin
    data, held = handles[valid], values[valid]
    seen = np.zeros(len(at), np.uint32)
    for number in range(int(round_of.max()) + 1):
        mine = round_of == number
        one = AddressedLanes(access.view, at[mine][None], np.ones((1, int(mine.sum())), bool), None, access.memory_name)
        some = np.ones((1, int(mine.sum())), np.int64)
        old = carrier.load(one, some, 4, 1)[0, 0]
        seen[mine] = old
        if data[mine].any() or old.any():
            fresh = change(old, _values(carrier, access, at[mine]), data[mine], held[mine])
            carrier.store(one, some, fresh[None, None], 4)
    found[valid] = seen
    return found


def _values(carrier: HandleCarrier, access: AddressedLanes, at: Any) -> Words:
    """What the run has at aligned addresses before the instruction."""
    if access.memory_name == "LDS":
        return np.asarray(carrier.machine.lds_u32[at >> 2])
    if access.memory_name == "private memory":
        return np.zeros(len(at), np.uint32)
    return np.asarray(carrier.machine.memory.u32[at - PAGE >> 2])


def _lost(old: Handles, old_values: Words, data: Handles, values: Words) -> Handles:
    return np.where((old != 0) | (data != 0), np.uint32(UNKNOWN), np.uint32(0))
