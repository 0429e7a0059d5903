"""Undefined bits in memory: in device memory by buffer, in LDS and private memory of a resident; and how loads and stores carry them.

Storing undefined bytes is legal. Those that stand in a buffer that the host reads when a launch is over are a finding; it names the
instruction that stored them and the one that made them. All of it exists only once something undefined was stored, or memory was made
undefined (`undefine`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.arrival.findings import Finding, Findings
from asmgen.emulator.machine.devicememory import Memory
from asmgen.emulator.machine.state import Group, Machine
from asmgen.emulator.memory.addresses import Accesses, AddressedLanes, accesses_of
from asmgen.emulator.memory.formatted import TypedAccess
from asmgen.emulator.memory.lanes import ByteView, array_view, load_narrow, load_words, sign_extended, store_narrow, store_words
from asmgen.emulator.memory.ldsdma import dma_locations
from asmgen.emulator.memory.smem import scalar_location
from asmgen.emulator.memory.vmem import SIGNED, half_merger
from asmgen.emulator.semantics.values import write_lanes
from asmgen.isa.opcode import is_lds_dma
from asmgen.isa.registers import Reg
from asmgen.program.program import Instruction

Action = Callable[[Group], None]
Addresses = NDArray[np.int64]
Words = NDArray[np.uint32]
Marks = Callable[[Group], NDArray[np.int32]]
"""For each wave of a group the number of the mark that its undefined bytes get."""
_ONES = ~np.uint32(0)
NOBODY = -1
"""The number of the mark of bytes that were never stored."""


@dataclass(frozen=True)
class Mark:
    """Who stored undefined bytes: the store, the instruction that made them (None: nobody ever wrote them), wave and workgroup."""

    store: Instruction
    origin: Instruction | None
    wave: int
    workgroup: int


@dataclass
class DeviceShadow:
    """The undefined bits of device memory, byte for byte, of the buffers in which there are any; `marks` say who stored them."""

    memory: Memory
    bits: dict[int, NDArray[np.uint8]] = field(default_factory=dict)
    numbers: dict[int, NDArray[np.int32]] = field(default_factory=dict)
    marks: list[Mark] = field(default_factory=list)

    def load(self, addresses: Addresses, counts: Addresses, size: int, words: int) -> Words:
        """The undefined bits of `words` elements of `size` bytes (1, 2, 4 or 8) from each address, [words, *shape]."""
        result = np.zeros((words, *addresses.shape), np.uint32 if size <= 4 else np.uint64)
        taken = addresses[counts > 0]
        low, high = (int(taken.min()), int(taken.max()) + size * words) if taken.size else (0, 0)
        for start, bits in self.bits.items():
            if high <= start or low >= start + len(bits):
                continue  # most loads go to other buffers
            for word in range(words):
                at = addresses + (size * word - start)
                inside = (counts > word) & (at >= 0) & (at + size <= len(bits))
                for byte in range(size if inside.any() else 0):
                    result[word][inside] |= bits[at[inside] + byte].astype(result.dtype) << result.dtype.type(8 * byte)
        return result

    def store(self, addresses: Addresses, counts: Addresses, values: NDArray[Any], size: int, marks: NDArray[np.int32]) -> None:
        """Elements [words, *shape] to consecutive places from each address, the first counts of them; `marks` as wide as `addresses`."""
        valid = counts[..., None] > np.arange(len(values))
        at = (addresses[..., None] + size * np.arange(len(values)))[valid]
        bits = np.moveaxis(values, 0, -1)[valid]
        owners = np.broadcast_to(marks[..., None], valid.shape)[valid]
        for interval in self.memory.intervals:
            inside = (at >= interval.start) & (at + size <= interval.end)
            if not inside.any() or interval.start not in self.bits and not bits[inside].any():
                continue
            shadow = self.bits.setdefault(interval.start, np.zeros(interval.end - interval.start, np.uint8))
            numbers = self.numbers.setdefault(interval.start, np.zeros(len(shadow), np.int32))
            for byte in range(size):
                location = at[inside] - interval.start + byte
                shadow[location] = (bits[inside] >> bits.dtype.type(8 * byte)).astype(np.uint8)
                numbers[location] = owners[inside]

    def findings(self, since: int) -> Iterator[Finding]:
        """Undefined bytes stored by the marks from number `since` on, where the host reads them."""
        for interval in self.memory.intervals:
            shadow = self.bits.get(interval.start)
            if shadow is None or interval.start in self.memory.unread:
                continue
            locations = np.nonzero(shadow)[0]
            numbers = self.numbers[interval.start][locations]
            for number, first in zip(*np.unique(numbers, return_index=True), strict=True):
                if number >= since:
                    mark = self.marks[number]
                    yield Finding("uninitialised-use", "error", f"stores what nobody wrote: byte {int(locations[first])} of a buffer that "
                                  f"the host reads ({interval.name}) holds it in the end", mark.origin, mark.store, mark.wave,
                                  mark.workgroup)


def device_shadow(memory: Memory) -> DeviceShadow:
    """The one of a memory, made when it is first needed."""
    if memory.shadow is None:
        memory.shadow = DeviceShadow(memory)
    shadow = memory.shadow
    assert isinstance(shadow, DeviceShadow)
    return shadow


def undefine(memory: Memory, start: int, size: int) -> None:
    """The bytes of the interval that begins at `start` become undefined: nobody wrote them. With `size` 0 there are none."""
    if size:
        shadow = device_shadow(memory)
        shadow.bits[start] = np.full(size, 0xFF, np.uint8)
        shadow.numbers[start] = np.full(size, NOBODY, np.int32)


@dataclass
class Carrier:
    """What memory instructions need to carry undefined bits. `live`: some byte of some memory may be undefined."""

    machine: Machine
    shadow: Machine
    device: DeviceShadow
    marks: Callable[[Group, Instruction], NDArray[np.int32]]
    live: bool = False
    private: bool = False

    def load(self, access: AddressedLanes, counts: Addresses, size: int, words: int) -> Words:
        """Undefined bits at an access, as DeviceShadow.load gives them."""
        if not self.live:
            return np.zeros((words, *access.addresses.shape), np.uint32)
        view = self._view(access)
        if view is None:
            return self.device.load(access.addresses, counts, size, words)
        if size < 4:
            return load_narrow(view, access.addresses, counts > 0, size)[None]
        return load_words(view, access.addresses, counts, words)

    def store(self, group: Group, instruction: Instruction, access: AddressedLanes, counts: Addresses, values: Words, size: int) -> None:
        """Undefined bits [words, waves, 64] to an access."""
        dirty = bool(((counts > 0) & (values != 0).any(axis=0)).any())
        if not dirty and not self.live:
            return
        self.live = True
        self.private |= access.memory_name == "private memory"
        view = self._view(access)
        if view is None:
            owners = self.marks(group, instruction) if dirty else np.zeros(group.size, np.int32)
            self.device.store(access.addresses, counts, values, size, np.broadcast_to(owners[:, None], counts.shape))
        elif size < 4:
            store_narrow(view, access.addresses, counts > 0, np.ascontiguousarray(values[0]), size)
        else:
            store_words(view, access.addresses, counts, values)

    def _view(self, access: AddressedLanes) -> ByteView | None:
        if access.memory_name == "LDS":
            return array_view(self.shadow.lds, self.machine.work)
        if access.memory_name == "private memory":
            return array_view(self.shadow.private_memory(), self.machine.work)
        return None


def in_range(access: AddressedLanes, size: int, words: int) -> Addresses:
    """How many elements each lane may touch. What lies in no buffer has no shadow, so that the registry need not be asked."""
    if access.counted is not None:
        return access.counted[0]
    if access.limit is None:
        return access.active * np.int64(words)
    return np.clip(access.limit // size, 0, words) * access.active


def bind_memory_shadow(instruction: Instruction, carrier: Carrier) -> Action:
    """Of a vector memory instruction. Raises KeyError for one that is not known."""
    row = instruction.opcode.memory
    if row is None:
        raise KeyError(instruction.name)
    machine, shadow, ignored = carrier.machine, carrier.shadow, Findings(frozenset())
    accesses = accesses_of(instruction, machine, ignored)
    named = {spec.name: operand for spec, operand in zip(instruction.form.operands, instruction.operands, strict=True)}
    typed = TypedAccess.of(instruction, machine, accesses, ignored) if "format" in instruction.opcode.flags else None
    size, words = (4, row.bytes // 4) if row.bytes >= 4 else (row.bytes, 1)
    if is_lds_dma(instruction.opcode, instruction.form):
        return _to_lds(instruction, accesses, max(1, words), size, carrier)
    data = named.get("vdata", named.get("vdst"))
    assert isinstance(data, Reg)
    slot = shadow.slot(data)
    if typed is not None:
        return _typed(typed, row.kind, slot, data.count, carrier)
    if row.kind == "atomic":
        result = named.get("vdst", data)
        assert isinstance(result, Reg)
        returns = bool(instruction.modifiers.get("sc0"))
        return _atomic(instruction, accesses, slot, data.count, shadow.slot(result) if returns else None, row.bytes, carrier)
    vector = shadow.vector
    merge, signed, shift = half_merger(instruction), row.type in SIGNED, np.uint32(16 if "hi" in instruction.opcode.flags else 0)

    def load(group: Group) -> None:
        found: Words = np.zeros((words, group.size, 64), np.uint32)
        for access in accesses(group):
            found = found | carrier.load(access, in_range(access, size, words), size, words)
        if size < 4:
            value = sign_extended(found[0], size) if signed else found[0]
            found = (value if merge is None else merge(vector[slot, group.select], value))[None]
        for word in range(words):
            write_lanes(vector[slot + word], group, found[word])

    def store(group: Group) -> None:
        values = vector[slot:slot + words, group.select]
        values = values >> shift & np.uint32((1 << 8 * size) - 1) if size < 4 else values
        for access in accesses(group):
            carrier.store(group, instruction, access, in_range(access, size, words), values, size)

    return load if row.kind == "load" else store


def _typed(typed: TypedAccess, kind: str, slot: int, count: int, carrier: Carrier) -> Action:
    """Converted elements, as wholes."""
    vector = carrier.shadow.vector

    def step(group: Group) -> None:
        for part, fmt in typed.parts(group):
            size, words = (4, fmt.bytes // 4) if fmt.bytes >= 4 else (max(1, fmt.bytes), 1)
            (access,) = typed.accesses(part)
            counts = in_range(access, size * words, 1) * words * (fmt.data != 0)
            if kind == "load":
                touched = carrier.load(access, counts, size, words).any(axis=0)
                for register in range(count):
                    write_lanes(vector[slot + register], part, np.where(touched, _ONES, np.uint32(0)))
            else:
                touched = vector[slot:slot + count, part.select].any(axis=0)
                values = np.where(touched, np.uint32((1 << 8 * size) - 1), np.uint32(0))
                carrier.store(part, typed.instruction, access, counts, np.broadcast_to(values, (words, *values.shape)), size)

    return step


def _atomic(instruction: Instruction, accesses: Accesses, slot: int, count: int, result: int | None, size: int, carrier: Carrier) -> Action:
    """What is made of undefined data or an undefined place is undefined as a whole, and so is what any lane gets from there."""
    vector, words = carrier.shadow.vector, size // 4

    def step(group: Group) -> None:
        bad = vector[slot:slot + count, group.select].any(axis=0)
        returned = np.zeros((group.size, 64), bool)
        for access in accesses(group):
            counts = np.asarray(in_range(access, size, 1) * words)
            touched = (bad | carrier.load(access, counts, 4, words).any(axis=0)) & (counts > 0)
            touched = (counts > 0) & np.isin(access.addresses, access.addresses[touched])
            returned |= touched
            values = np.where(touched, _ONES, np.uint32(0))
            carrier.store(group, instruction, access, counts, np.broadcast_to(values, (words, *values.shape)), 4)
        if result is not None:
            for word in range(words if count == words else count // 2):
                write_lanes(vector[result + word], group, np.where(returned, _ONES, np.uint32(0)))

    return step


def _to_lds(instruction: Instruction, accesses: Accesses, words: int, size: int, carrier: Carrier) -> Action:
    """LDS-DMA; its shadow is there at once, as nobody may look before the data is."""
    locations = dma_locations(instruction, carrier.machine)

    def step(group: Group) -> None:
        if not carrier.live:
            return
        (access,) = accesses(group)
        values = carrier.load(access, in_range(access, size, words), size, words)
        base, home = locations(group)
        inside = access.active & (base >= 0) & (base + 4 * words <= carrier.machine.lds_bytes)
        store_words(array_view(carrier.shadow.lds, carrier.machine.work), base + home, inside * np.int64(words), values)

    return step


def bind_scalar_memory_shadow(instruction: Instruction, carrier: Carrier) -> Action:
    """Of a scalar load or store; atomics and clocks are none of these (KeyError)."""
    row = instruction.opcode.memory
    named = {spec.name: operand for spec, operand in zip(instruction.form.operands, instruction.operands, strict=True)}
    data = named.get("sdata")
    if row is None or row.kind == "atomic" or not isinstance(data, Reg):
        raise KeyError(instruction.name)
    location, scalar, words, first = scalar_location(instruction, named, carrier.machine), carrier.shadow.scalar, row.bytes // 4, data.index

    def step(group: Group) -> None:
        at = location(group)
        counts = sum((at.allowed(4 * word).astype(np.int64) for word in range(words)), np.zeros(group.size, np.int64))
        if row.kind == "load":
            scalar[first:first + words, group.select] = carrier.device.load(at.addresses, counts, 4, words)
            return
        values = scalar[first:first + words, group.select]
        if values.any() or carrier.live:
            carrier.live = True
            carrier.device.store(at.addresses, counts, values, 4, carrier.marks(group, instruction))

    return step
