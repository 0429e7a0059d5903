"""LDS instructions: reads and writes of all widths, one or two addresses a lane, atomics, and what crosses lanes.

A lane whose bytes lie outside of the workgroup's LDS reads 0 and writes nothing. Bank conflicts are counted from
the real addresses where the launch asks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.arrival import ldsbounds
from asmgen.emulator.arrival.arrival import Counters
from asmgen.emulator.arrival.findings import Findings
from asmgen.emulator.arrival.ldscells import INACTIVE
from asmgen.emulator.arrival.ldsraces import LdsArrival
from asmgen.emulator.arrival.ldsvalues import Registers
from asmgen.emulator.machine.state import LANES, M0, Group, Machine, mask_bits
from asmgen.emulator.memory.atomics import atomic_of, joined, perform, write_joined
from asmgen.emulator.memory.lanes import array_view, load_narrow, load_words, sign_extended, store_narrow, store_words
from asmgen.emulator.memory.ldslanes import bind_crossing, transposed
from asmgen.emulator.semantics.values import write_lanes
from asmgen.isa import lds_arrays as banks
from asmgen.isa.bankcost import DWORD
from asmgen.isa.lds import rule
from asmgen.isa.opcode import MemoryUse as MemoryRow
from asmgen.isa.registers import Reg
from asmgen.program.program import Instruction

_NO_MASKS = np.zeros((2, 1), np.uint32)
Step = Callable[[Group], None]
Addresses = NDArray[np.int64]
Array = NDArray[Any]
Move = Callable[[Group, int, Addresses, NDArray[np.bool_]], None]
"""Moves one place's data: (group, number of the place, byte addresses in the machine's LDS, lanes that may)."""


@dataclass
class BankedAccess:
    """What the banks saw of one instruction: executions by waves, cycles that conflicts cost all of them, and the worst of them.

    `addresses` are the byte addresses of that one, a lane each (a pair with two addresses); `active` its EXEC; `bits` one address moves.
    """

    instruction: Instruction
    bits: int
    executed: int = 0
    extra: int = 0
    most: int = -1
    addresses: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    active: int = 0


@dataclass
class BankCount:
    """The accesses of LDS by instruction position, where conflicts are counted."""

    accesses: dict[int, BankedAccess] = field(default_factory=dict)

    def add(self, position: int, instruction: Instruction, bits: int, extra: NDArray[np.int64], addresses: NDArray[np.int64],
            lanes: NDArray[np.bool_]) -> None:
        """Count one execution by several waves."""
        access = self.accesses.setdefault(position, BankedAccess(instruction, bits))
        access.executed += len(extra)
        access.extra += int(extra.sum())
        worst = int(extra.argmax())
        if extra[worst] > access.most:
            access.most, access.addresses = int(extra[worst]), addresses[worst].copy()
            access.active = int.from_bytes(np.packbits(lanes[worst], bitorder="little").tobytes(), "little")


@dataclass(frozen=True)
class LdsContext:
    """What LDS instructions need besides the machine; all but the counters are None where not asked for."""

    machine: Machine
    counters: Counters
    arrival: LdsArrival | None
    bank_count: BankCount | None
    findings: Findings | None = None


@dataclass(frozen=True)
class LdsLocation:
    """One access of an instruction: its distance in bytes from the address register, and its size in bytes."""

    offset: int
    size: int


def locations(instruction: Instruction, size: int) -> tuple[LdsLocation, ...]:
    """Where an instruction goes relative to its address: once, or twice (read2, write2; st64: units of 64 elements)."""
    if "two" in instruction.opcode.flags:
        unit = size * (64 if "st64" in instruction.opcode.flags else 1)
        return tuple(LdsLocation(int(instruction.modifiers.get(name, 0)) * unit, size) for name in ("offset0", "offset1"))
    return (LdsLocation(int(instruction.modifiers.get("offset", 0)), size),)


def bind_lds(instruction: Instruction, position: int, context: LdsContext) -> Step:
    """The step of an LDS instruction. Raises KeyError for one without semantics."""
    machine, row = context.machine, instruction.opcode.memory
    named = {spec.name: operand for spec, operand in zip(instruction.form.operands, instruction.operands, strict=True)}
    slots = {name: machine.slot(operand) for name, operand in named.items() if isinstance(operand, Reg)}
    if row is None:
        return bind_crossing(instruction, slots, machine)
    if instruction.name in ("ds_append", "ds_consume"):
        return _counter(instruction, position, slots["vdst"], context)
    where = locations(instruction, _element_bytes(instruction))
    if row.kind == "load":
        move = _reader(instruction, row, slots["vdst"], where, context)
    elif row.kind == "store":
        move = _writer(instruction, [slots[name] for name in ("data0", "data1") if name in slots], where, context)
    else:
        move = _atomic(instruction, row, slots, where, context)
    address = _addresses(instruction, slots, machine)
    data = _data_of(instruction, slots, where[0].size, machine) if row.kind == "store" else None
    short = _straight(instruction, position, row, slots, where, context)

    def visit(group: Group, look: bool, act: bool) -> None:
        """Look at where the instruction goes, act there, or both."""
        base = address(group)
        lanes = group.lanes()
        if look and context.bank_count is not None:
            _count_banks(instruction, position, group, base, where, context)
        home = (machine.workgroup[group.waves] * machine.lds_stride)[:, None]
        for number, location in enumerate(where):
            at = base + location.offset
            declared = active = lanes & (at + location.size <= machine.lds_declared)
            if (lanes & ~declared).any():
                if look:
                    ldsbounds.judge(group, instruction, at, location.size, lanes, context.findings)
                active = lanes & (at + location.size <= machine.lds_bytes)
            at += home
            if look and context.arrival is not None:
                written = partial(data, group, number) if data is not None else None
                context.arrival.access(group, position, np.where(declared, at, INACTIVE), location.size, row.kind != "load", data=written)
            if act:
                move(group, number, at, active)

    def step(group: Group) -> None:
        if short is not None and machine.work.pays(8 * LANES * group.size):
            short.look(group)
            short.move(group)
        else:
            visit(group, True, True)

    if short is None or row.kind != "load":
        return step
    quick = short

    def look(group: Group) -> None:
        quick.look(group) if machine.work.pays(4 * LANES * group.size) else visit(group, True, False)

    def take(group: Group) -> None:
        quick.move(group) if machine.work.pays(4 * LANES * group.size) else visit(group, False, True)

    return LdsRead(step, look, take, where[0].size // 4, slots["vdst"], slots["addr"], tuple(location.offset for location in where))


@dataclass(frozen=True)
class LdsRead:
    """The step of a read of whole dwords that nobody counts bank conflicts of: `step`, or `look` (at where it reads) and then `move`.

    Compiled runs do what `move` does from the rest: `words` to each of `offsets` into registers from slot `target` on.
    """

    step: Step
    look: Step
    move: Step
    words: int
    target: int
    address: int
    offsets: tuple[int, ...]

    def __call__(self, group: Group) -> None:
        self.step(group)


@dataclass(frozen=True)
class _Straight:
    """Compiled: `look` at where an instruction goes, `move` the data."""

    look: Step
    move: Step


def _straight(instruction: Instruction, position: int, row: MemoryRow, slots: dict[str, int], where: tuple[LdsLocation, ...],
              context: LdsContext) -> _Straight | None:
    """A compiled step for whole dwords where nobody counts bank conflicts; None where there is none."""
    plain = row.kind != "atomic" and where[0].size >= 4 and "tr" not in instruction.opcode.flags and "addr" in slots
    if context.bank_count is not None or not plain:
        return None
    machine, words, address = context.machine, where[0].size // 4, slots["addr"]
    data = _data_of(instruction, slots, where[0].size, machine) if row.kind == "store" else None
    offsets = np.array([location.offset for location in where], np.int64)
    sources = np.array([slots[name] for name in ("data0", "data1") if name in slots], np.int64)
    nobody = np.zeros((1, 1), bool)
    reach = int(offsets.max()) + where[0].size

    def look(group: Group) -> None:
        if int(machine.vector[address, group.select].max()) + reach > machine.lds_declared:
            base = machine.vector[address, group.select].astype(np.int64)
            ldsbounds.judge(group, instruction, base + int(offsets.max()), where[0].size, group.lanes(), context.findings)
        if context.arrival is not None:
            from asmgen.emulator.memory import lanes_kernels

            everyone = group.mask is None
            mask = nobody if group.mask is None else group.mask

            def locations(rows: int, offset: int) -> Addresses:
                repeat = rows and everyone and lanes_kernels.lanes_repeat(machine.vector_file, group.waves, address, rows)
                waves = group.waves[:rows] if repeat else group.waves
                at = np.empty((len(waves), LANES), np.int64)
                lanes_kernels.locate_in_lds(machine.vector_file, waves, everyone, mask, address, offset, where[0].size,
                                           machine.workgroup[waves] * machine.lds_stride, machine.lds_declared, at)
                return at

            for number, offset in enumerate(offsets.tolist()):
                written = partial(data, group, number) if data is not None else None
                context.arrival.access(group, position, partial(locations, offset=offset), where[0].size, row.kind == "store", data=written)

    def load(group: Group) -> None:
        from asmgen.emulator.memory import ldsread_kernels

        # The group's lanes, not this machine's EXEC: the machine may be the shadow of the group's.
        masks = _NO_MASKS if group.mask is None else np.ascontiguousarray(mask_bits(group.mask))
        ldsread_kernels.read_lds(machine.vector_file, group.waves, group.mask is None, masks, address, offsets, words, slots["vdst"],
                                 machine.lds_u32, machine.workgroup, machine.lds_stride, machine.lds_bytes)

    def store(group: Group) -> None:
        from asmgen.emulator.memory import lanes_kernels

        homes = machine.workgroup[group.waves] * machine.lds_stride
        lanes_kernels.write_lds(machine.vector_file, group.waves, group.mask is None, nobody if group.mask is None else group.mask, address,
                                offsets, words, sources, machine.lds, machine.lds_u32, homes, machine.lds_bytes)

    return _Straight(look, load if row.kind == "load" else store)


def _data_of(instruction: Instruction, slots: dict[str, int], size: int, machine: Machine) -> Callable[[Group, int], Registers]:
    """The registers that a store writes to each of its places, [words, waves, 64]; what is written are the lowest bytes."""
    sources = [slots[name] for name in ("data0", "data1") if name in slots]
    shift = np.uint32(16 if "hi" in instruction.opcode.flags else 0)

    def data(group: Group, number: int) -> Registers:
        words: Registers = machine.vector[sources[number]:sources[number] + max(1, size // 4), group.select]
        return words >> shift if shift else words

    return data


def _addresses(instruction: Instruction, slots: dict[str, int], machine: Machine) -> Callable[[Group], Addresses]:
    """Byte addresses [waves, 64] from the address register, or of an addtid form M0's 16 low bits and four bytes a lane."""
    if "addr" in slots:
        slot = slots["addr"]
        return lambda group: machine.vector[slot, group.select].astype(np.int64)
    lane_offset = 4 * np.arange(LANES, dtype=np.int64)
    return lambda group: (machine.scalar[M0, group.select] & np.uint32(0xFFFF)).astype(np.int64)[:, None] + lane_offset


def _element_bytes(instruction: Instruction) -> int:
    """Bytes of one access of one lane; read2, write2 and wrxchg2 make two of them."""
    row = instruction.opcode.memory
    assert row is not None
    return row.bytes // 2 if "two" in instruction.opcode.flags else row.bytes


def _reader(instruction: Instruction, row: MemoryRow, slot: int, where: tuple[LdsLocation, ...], context: LdsContext) -> Move:
    machine, vector = context.machine, context.machine.vector
    view = array_view(machine.lds, machine.work)
    flags = instruction.opcode.flags
    size = where[0].size
    words = size // 4
    bits = int(instruction.name.rsplit("_b", 1)[1]) if "tr" in flags else 0

    def read(group: Group, number: int, at: Addresses, active: NDArray[np.bool_]) -> None:
        found = load_words(view, at, active * np.int64(words), words)
        if bits:
            found = transposed(found, bits)
        for word in range(words):
            write_lanes(vector[slot + number * words + word], group, found[word])

    def read_narrow(group: Group, number: int, at: Addresses, active: NDArray[np.bool_]) -> None:
        value = load_narrow(view, at, active, size)
        if row.type in ("i8", "i16"):
            value = sign_extended(value, size)
        if "keep" in flags:
            old = vector[slot, group.select]
            upper = "hi" in flags
            value = old & np.uint32(0xFFFF) | value << np.uint32(16) if upper else old & np.uint32(0xFFFF0000) | value & np.uint32(0xFFFF)
        write_lanes(vector[slot], group, value)

    return read_narrow if size < 4 else read


def _writer(instruction: Instruction, slots: list[int], where: tuple[LdsLocation, ...], context: LdsContext) -> Move:
    machine, vector = context.machine, context.machine.vector
    view = array_view(machine.lds, machine.work)
    size = where[0].size
    words = size // 4
    shift = np.uint32(16 if "hi" in instruction.opcode.flags else 0)

    def write(group: Group, number: int, at: Addresses, active: NDArray[np.bool_]) -> None:
        store_words(view, at, active * np.int64(words), vector[slots[number]:slots[number] + words, group.select])

    def write_narrow(group: Group, number: int, at: Addresses, active: NDArray[np.bool_]) -> None:
        store_narrow(view, at, active, vector[slots[number], group.select] >> shift, size)

    return write_narrow if size < 4 else write


def _atomic(instruction: Instruction, row: MemoryRow, slots: dict[str, int], where: tuple[LdsLocation, ...], context: LdsContext) -> Move:
    """data0 is the operand; cmpst compares with data0 and writes data1, the other way round than memory's cmpswap."""
    machine, vector = context.machine, context.machine.vector
    view = array_view(machine.lds, machine.work)
    operation, element = operation_of(instruction.name)
    atomic = atomic_of(operation, element, "vdst" in slots)
    words = atomic.words
    two = "two" in instruction.opcode.flags
    swapped = operation == "cmpst"

    def change(group: Group, number: int, at: Addresses, active: NDArray[np.bool_]) -> None:
        names = ("data1", "data0") if swapped or two and number else ("data0", "data1")
        first = joined(vector, slots[names[0]], words, group)
        second = joined(vector, slots[names[1]], words, group) if names[1] in slots and not two else first
        old = perform(view, at, active, atomic, first, second)
        if atomic.returns:
            target = slots["vdst"] + number * words
            if two:  # the second exchange must still see its data, which the result may replace
                _keep_for_second(group, number, target, words, old)
                return
            write_joined(vector, target, words, group, old)

    held: list[tuple[int, Array]] = []

    def _keep_for_second(group: Group, number: int, target: int, words: int, old: Array) -> None:
        held.append((target, old))
        if number == 1:
            for location, value in held:
                write_joined(vector, location, words, group, value)
            held.clear()

    return change


def operation_of(name: str) -> tuple[str, str]:
    """("add", "u32") of ds_add_rtn_u32, ("pk_add_f16", "v2f16") of ds_pk_add_f16."""
    parts = [part for part in name.split("_")[1:] if part != "rtn"]
    if parts[0] == "pk":
        return "_".join(parts), "v2" + parts[-1]
    return parts[0], parts[-1]


def _counter(instruction: Instruction, position: int, slot: int, context: LdsContext) -> Step:
    """ds_append adds the number of active lanes to the dword at M0 + offset, ds_consume subtracts it; all get the old value.

    A wave makes one access. M0's 16 low bits are the base (LLVM copies the LDS pointer there).
    """
    machine = context.machine
    view = array_view(machine.lds, machine.work)
    atomic = atomic_of("add" if instruction.name == "ds_append" else "sub", "u32", True)
    offset = int(instruction.modifiers.get("offset", 0))

    def step(group: Group) -> None:
        at = (machine.scalar[M0, group.select] & np.uint32(0xFFFF)).astype(np.int64)[:, None] + offset
        counts = group.lanes().sum(axis=1, keepdims=True).astype(np.uint32)
        some = counts > 0
        ldsbounds.judge(group, instruction, at, 4, some, context.findings)
        active = (at + 4 <= machine.lds_bytes) & some
        at += (machine.workgroup[group.waves] * machine.lds_stride)[:, None]
        if context.arrival is not None:
            context.arrival.access(group, position, np.where(active, at, INACTIVE), 4, True)
        old = perform(view, at, active, atomic, counts, counts)
        write_lanes(machine.vector[slot], group, np.broadcast_to(old, (group.size, LANES)))

    return step


def _count_banks(instruction: Instruction, position: int, group: Group, base: Addresses, where: tuple[LdsLocation, ...],
                 context: LdsContext) -> None:
    addresses = np.stack([base + location.offset for location in where], axis=-1) if len(where) > 1 else base + where[0].offset
    assert context.bank_count is not None
    bits, lanes, arch = 8 * where[0].size, group.lanes(), context.machine.arch.name
    turn = DWORD * rule(arch, instruction.name).banks  # addresses so far apart have the same bank
    low = int(addresses.min())
    extra = _extra_cycles(arch, instruction.name, (addresses - (low - low % turn)).tobytes(), addresses.shape, bits, lanes.tobytes())
    context.bank_count.add(position, instruction, bits, extra, addresses, lanes)


@lru_cache(maxsize=256)  # rounds of a loop have the same addresses, or some turns of the banks on
def _extra_cycles(arch: str, op: str, addresses: bytes, shape: tuple[int, ...], bits: int, lanes: bytes) -> NDArray[np.int64]:
    """`lds_arrays.conflicts` of arrays as bytes."""
    active = np.frombuffer(lanes, bool).reshape(shape[:2])
    extra = banks.conflicts(arch, op, np.frombuffer(addresses, np.int64).reshape(shape), bits, active)
    extra.setflags(write=False)
    return extra
