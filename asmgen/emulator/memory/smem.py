"""Scalar memory: loads, stores and atomics of SGPRs, and the clocks.

All components of an address are bytes, and the two lowest bits of each are ignored (CDNA3 ISA, scalar memory operations). Buffer
forms check every dword against the descriptor: base in bits 47:0, stride 61:48, records 95:64; the range is `records` bytes without a
stride and `records * stride` with one. An access out of that range loads 0 and stores nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.arrival.findings import Finding
from asmgen.emulator.machine.devicememory import PAGE
from asmgen.emulator.machine.state import Group, Machine
from asmgen.emulator.memory.vmem import Context
from asmgen.emulator.semantics.values import fetch_scalar, store_scalar
from asmgen.isa.operands import Operand
from asmgen.isa.registers import Reg
from asmgen.program.program import Instruction

Step = Callable[[Group], None]
Addresses = NDArray[np.int64]
Mask = NDArray[np.bool_]

_SCRATCH_UNIT = 64  # bytes; an SGPR offset of s_scratch_* counts these (CDNA3 ISA, S_SCRATCH_LOAD_DWORD)
_BASE_BITS = np.int64((1 << 48) - 1)
_REAL_TIME = 21  # of the shader clock's cycles pass while the constant 100 MHz clock counts one


@dataclass(frozen=True)
class ScalarLocation:
    """Where an instruction points, for each wave: an address, and the bytes from it on that a descriptor allows (None: all)."""

    addresses: Addresses
    left: Addresses | None

    def allowed(self, offset: int) -> Mask:
        """Whether the dword at `offset` is in range of the descriptor."""
        if self.left is None:
            return np.ones(len(self.addresses), bool)
        return self.left > offset


def bind_scalar_memory(instruction: Instruction, context: Context) -> Step:
    """The step of an SMEM instruction. Raises KeyError for one without semantics."""
    name = instruction.name
    if name in ("s_memtime", "s_memrealtime"):
        return _clock(instruction, context.machine)
    row = instruction.opcode.memory
    if row is None or row.space != "scalar":
        raise KeyError(name)
    named = {spec.name: operand for spec, operand in zip(instruction.form.operands, instruction.operands, strict=True)}
    location = scalar_location(instruction, named, context.machine)
    data = named["sdata"]
    assert isinstance(data, Reg)
    if row.kind == "load":
        return _load(instruction, data.index, row.bytes // 4, location, context)
    if row.kind == "store":
        return _store(instruction, data.index, row.bytes // 4, location, context)
    return _atomic(instruction, data.index, row.bytes // 4, location, context)


def scalar_location(instruction: Instruction, named: dict[str, Operand], machine: Machine) -> Callable[[Group], ScalarLocation]:
    """Where a scalar memory instruction points, as a function of the group."""
    base = named["sbase"]
    assert isinstance(base, Reg)
    given = named.get("offset", named.get("soffset", 0))
    immediate = (int(instruction.modifiers.get("offset", 0)) + (given if isinstance(given, int) else 0)) & ~3
    soffset = fetch_scalar(machine, given, "u32") if isinstance(given, Reg) else None
    unit = _SCRATCH_UNIT if instruction.name.startswith("s_scratch") else 1

    def distance(group: Group) -> Addresses:
        if soffset is None:
            return np.full(group.size, immediate, np.int64)
        given_offset = soffset(group).astype(np.int64)
        return (given_offset & ~np.int64(3) if unit == 1 else given_offset * unit) + immediate

    pair: Callable[[Group], NDArray[np.uint64]] = fetch_scalar(machine, Reg("s", base.index, 2), "u64")  # type: ignore[assignment]
    if base.count == 2:
        return lambda group: ScalarLocation((pair(group).astype(np.int64) & ~np.int64(3)) + distance(group), None)
    records = fetch_scalar(machine, Reg("s", base.index + 2, 1), "u32")

    def buffer(group: Group) -> ScalarLocation:
        words, offset = pair(group), distance(group)
        stride = (words >> np.uint64(48)).astype(np.int64) & 0x3FFF
        size = records(group).astype(np.int64) * np.maximum(stride, 1)
        return ScalarLocation((words.astype(np.int64) & _BASE_BITS & ~np.int64(3)) + offset, size - offset)

    return buffer


def _touchable(instruction: Instruction, context: Context, group: Group, addresses: Addresses, wanted: Mask, size: int) -> Mask:
    """Those of `wanted` whose bytes lie in the registry; the others are a finding."""
    good = context.machine.memory.touchable(addresses, size)
    bad = wanted & ~good
    if bad.any():
        at = int(np.argmax(bad))
        wave = int(group.waves[at])
        context.findings.add(Finding("access-outside-registry", "error",
                                     f"{size} bytes at {int(addresses[at]):#x} lie in no registered buffer", None, instruction,
                                     wave, int(context.machine.workgroup[wave])))
    return wanted & good


def _load(instruction: Instruction, target: int, words: int, location: Callable[[Group], ScalarLocation], context: Context) -> Step:
    scalar, memory, watchers = context.machine.scalar, context.machine.memory, context.machine.scalar_watchers

    def step(group: Group) -> None:
        at = location(group)
        for watcher in watchers:
            watcher(group, instruction, at.addresses)
        for word in range(words):
            addresses = at.addresses + 4 * word
            good = _touchable(instruction, context, group, addresses, at.allowed(4 * word), 4)
            value = np.zeros(group.size, np.uint32)
            value[good] = memory.u32[addresses[good] - PAGE >> 2]
            scalar[target + word, group.select] = value

    return step


def _store(instruction: Instruction, source: int, words: int, location: Callable[[Group], ScalarLocation], context: Context) -> Step:
    scalar, memory, watchers = context.machine.scalar, context.machine.memory, context.machine.scalar_watchers

    def step(group: Group) -> None:
        at = location(group)
        for watcher in watchers:
            watcher(group, instruction, at.addresses)
        for word in range(words):
            addresses = at.addresses + 4 * word
            good = _touchable(instruction, context, group, addresses, at.allowed(4 * word), 4)
            memory.u32[addresses[good] - PAGE >> 2] = scalar[source + word, group.select][good]

    return step


ATOMIC: dict[str, Callable[[int, int, int], int]] = {
    "swap": lambda old, data, limit: data,
    "add": lambda old, data, limit: old + data & limit,
    "sub": lambda old, data, limit: old - data & limit,
    "and": lambda old, data, limit: old & data,
    "or": lambda old, data, limit: old | data,
    "xor": lambda old, data, limit: old ^ data,
    "inc": lambda old, data, limit: 0 if old >= data else old + 1,
    "dec": lambda old, data, limit: data if old == 0 or old > data else old - 1,
    "umin": lambda old, data, limit: min(old, data),
    "umax": lambda old, data, limit: max(old, data),
    "smin": lambda old, data, limit: min(old, data, key=lambda value: _signed(value, limit)),
    "smax": lambda old, data, limit: max(old, data, key=lambda value: _signed(value, limit)),
}
"""The new value in memory from the old one, the operand and the largest number that fits, by the operation's name."""


def _signed(value: int, limit: int) -> int:
    return value - limit - 1 if value > limit >> 1 else value


def _atomic(instruction: Instruction, register: int, words: int, location: Callable[[Group], ScalarLocation], context: Context) -> Step:
    """Wave after wave: each reads, computes and writes as one. With glc the register takes the old value.

    s_atomic_cmpswap holds the new value in the lower half of its registers and the value to compare with in the upper half.
    """
    name = instruction.name.removesuffix("_x2").rsplit("_", 1)[1]
    compares = name == "cmpswap"
    operation = None if compares else ATOMIC[name]
    scalar, memory, limit = context.machine.scalar, context.machine.memory, (1 << 32 * words) - 1
    returns = bool(instruction.modifiers.get("glc"))

    def registers(first: int, wave: int) -> int:
        return sum(int(scalar[first + word, wave]) << 32 * word for word in range(words))

    def step(group: Group) -> None:
        at = location(group)
        good = _touchable(instruction, context, group, at.addresses, at.allowed(4 * words - 4), 4 * words)
        for number, wave in enumerate(group.waves):
            old = 0
            if good[number]:
                slot = int(at.addresses[number]) - PAGE >> 2
                old = sum(int(memory.u32[slot + word]) << 32 * word for word in range(words))
                data = registers(register, int(wave))
                if operation is None:
                    new = data if old == registers(register + words, int(wave)) else old
                else:
                    new = operation(old, data, limit)
                for word in range(words):
                    memory.u32[slot + word] = new >> 32 * word & 0xFFFFFFFF
            if returns:
                for word in range(words):
                    scalar[register + word, wave] = old >> 32 * word & 0xFFFFFFFF

    return step


def _clock(instruction: Instruction, machine: Machine) -> Step:
    """s_memtime and s_memrealtime: a clock that grows with every instruction of the launch, so two readings always differ."""
    destination = instruction.operands[0]
    assert isinstance(destination, Reg)
    store = store_scalar(machine, destination, "u64")
    real = instruction.name == "s_memrealtime"

    def step(group: Group) -> None:
        machine.clock += _REAL_TIME if real else 1
        store(group, np.array(machine.clock // _REAL_TIME if real else machine.clock, np.uint64))

    return step
