"""Where vector memory instructions go: buffer descriptors with their bounds, global, flat and private addresses, and which lanes may.

An access out of a buffer descriptor's range is defined behaviour (loads give 0, stores are dropped); any other access
outside the registry, outside LDS or outside private memory is a finding, and is kept away from the host's memory.

Private memory (scratch) is kept lane after lane. The hardware interleaves the lanes' dwords; nothing but the address in device
memory, which no instruction here uses, could tell.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.arrival.findings import Finding, Findings
from asmgen.emulator.machine.state import LANES, PRIVATE_BASE, SHARED_BASE, Group, Machine
from asmgen.emulator.memory.lanes import ByteView, array_view, device_view
from asmgen.emulator.semantics.values import fetch_scalar
from asmgen.isa.opcode import MemoryUse as MemoryRow
from asmgen.isa.operands import Operand
from asmgen.isa.records import dataclass
from asmgen.isa.registers import Reg
from asmgen.program.program import Instruction

Addresses = NDArray[np.int64]
UNLIMITED = np.int64(1) << 40
SWIZZLE_ELEMENT = 4


@dataclass(frozen=True)
class AddressedLanes:
    """One instruction's lanes in one memory: byte `addresses` [waves, 64], `active` lanes, `limit`: bytes in range from each address on.

    `limit` None: no limit. A word at `addresses + 4k` is in range where 4k + 4 <= limit. `place` names the memory: "device" is
    checked against the registry, "LDS" and "private memory" have limits that should not be met, buffers ("buffer") both.
    """

    view: ByteView
    addresses: Addresses
    active: NDArray[np.bool_]
    limit: Addresses | None
    memory_name: str
    counted: tuple[Addresses, int, int] | None = None  # what `counts_in_range` is asked, and the bytes from .. to that are touched


Accesses = Callable[[Group], tuple[AddressedLanes, ...]]


def accesses_of(instruction: Instruction, machine: Machine, findings: Findings) -> Accesses:
    """Where an instruction's lanes go, as a function of the group. Raises KeyError for an unknown kind of memory."""
    row = instruction.opcode.memory
    assert row is not None
    named = {spec.name: operand for spec, operand in zip(instruction.form.operands, instruction.operands, strict=True)}
    if row.space == "buffer":
        return _buffer(instruction, named, machine, findings)
    return {"global": _global, "flat": _flat, "scratch": _scratch}[row.space](instruction, named, machine)


def _buffer(instruction: Instruction, named: dict[str, Operand], machine: Machine, findings: Findings) -> Accesses:
    """MUBUF and MTBUF addresses (docs/facts/semantics.md section 8; CDNA3 ISA, buffer addressing)."""
    view = device_view(machine.memory, machine.work)
    resource, vaddr = named["srsrc"], named.get("vaddr")
    assert isinstance(resource, Reg)
    offen, idxen = bool(instruction.modifiers.get("offen")), bool(instruction.modifiers.get("idxen"))
    immediate = int(instruction.modifiers.get("offset", 0))
    soffset = fetch_scalar(machine, named["soffset"], "u32")
    index_slot = machine.slot(vaddr) if idxen and isinstance(vaddr, Reg) else None
    offset_slot = machine.slot(vaddr) + idxen if offen and isinstance(vaddr, Reg) else None
    first = resource.index
    row = instruction.opcode.memory
    assert row is not None
    size, count = element_of(row, instruction)
    typed = "format" in instruction.opcode.flags
    slots = tuple(-1 if slot is None else slot for slot in (index_slot, offset_slot))
    nobody = np.zeros((1, 1), bool)

    def compiled(group: Group) -> AddressedLanes | None:
        """Plain buffers; None where a descriptor asks for more."""
        from asmgen.emulator.memory import lanes_kernels

        words = np.ascontiguousarray(machine.scalar[first:first + 4, group.select])  # one type to compile for
        start = np.array(np.broadcast_to(soffset(group), (group.size,)), np.int64)
        if not plain_descriptors(words) or (start > words[2]).any():
            return None
        addresses, counts = np.empty((group.size, LANES), np.int64), np.empty((group.size, LANES), np.int64)
        mask = nobody if group.mask is None else group.mask
        low, high = lanes_kernels.locate_in_buffer(machine.vector_file, group.waves, group.mask is None, mask, words, start,
                                                  slots[0], slots[1], immediate, size, count, addresses, counts)
        return AddressedLanes(view, addresses, group.lanes(), None, "buffer", (counts, low, high))

    def accesses(group: Group) -> tuple[AddressedLanes, ...]:
        if not typed and view.work.pays(8 * LANES * group.size):
            access = compiled(group)
            if access is not None:
                return (access,)
        words = machine.scalar[first:first + 4, group.select].astype(np.int64)
        base = (words[0] | (words[1] & 0xFFFF) << 32)[:, None]
        base = (base ^ 1 << 47) - (1 << 47)
        records, flags = words[2][:, None], words[3][:, None]
        add_lane = (flags >> 23 & 1) != 0
        # With ADD_TID_ENABLE the data format's bits extend the stride, unless they are needed (CDNA3 ISA, table 45).
        stride = (words[1] >> 16 & 0x3FFF)[:, None] | np.where(add_lane & (not typed), flags >> 15 & 15, 0) << 14
        start = np.broadcast_to(soffset(group), (group.size,)).astype(np.int64)[:, None]
        if (start > records).any():
            _warn(instruction, group, findings, machine, int(np.argmax(start > records)))
        offset: Addresses = np.full((group.size, LANES), immediate, np.int64)
        if offset_slot is not None:
            offset = offset + machine.vector[offset_slot, group.select]
        index: Addresses = np.zeros((1, 1), np.int64)
        if index_slot is not None:
            index = machine.vector[index_slot, group.select].astype(np.int64)
        if add_lane.any():
            index = index + np.where(add_lane, np.arange(LANES), 0)
        swizzle = (words[1] >> 31 & 1).astype(bool)[:, None]
        within = offset + index * stride
        if swizzle.any():
            within = np.where(swizzle, _swizzled(index, offset, stride, flags), within)
        limit = records - start - within
        if add_lane.any() and not idxen:
            limit = np.where(add_lane, UNLIMITED, limit)  # private buffers are not checked (CDNA3 ISA, 9.1.5.1)
        by_record = (stride > 0) & idxen
        if by_record.any():
            in_records = (index < records) & (~swizzle | (offset < stride)) & (start <= records)
            limit = np.where(by_record, np.where(in_records, UNLIMITED, 0), limit)
        return (AddressedLanes(view, base + start + within, group.lanes(), limit, "buffer"),)

    return accesses


def plain_descriptors(words: NDArray[np.uint32]) -> bool:
    """Whether descriptors [4, waves] neither swizzle nor add the lane's number."""
    return not ((words[1] >> np.uint32(31)).any() or (words[3] & np.uint32(1 << 23)).any())


def _warn(instruction: Instruction, group: Group, findings: Findings, machine: Machine, at: int) -> None:
    wave = int(group.waves[at])
    message = ("soffset is greater than the descriptor's num_records: what the hardware does is not known, here loads give 0 and stores "
               "are dropped")
    findings.add(Finding("soffset-out-of-range", "warning", message, None, instruction, wave, int(machine.workgroup[wave])))


def _swizzled(index: Addresses, offset: Addresses, stride: Addresses, flags: Addresses) -> Addresses:
    """Byte offset in a swizzled buffer: index_stride records lie interleaved, 4 bytes at a time (CDNA3 ISA, 9.1.5.2).

    The formula there has an element size, but the descriptor of these architectures has no field for it (table 48). That it is 4 is
    inferred: LLVM writes 4 into the field of the architectures that have one, and leaves the bits clear for those that have not.
    """
    records = 8 << (flags >> 21 & 3)
    index_high, index_low = index // records, index % records
    offset_high, offset_low = offset // SWIZZLE_ELEMENT, offset % SWIZZLE_ELEMENT
    locations: Addresses = (index_high * stride + offset_high * SWIZZLE_ELEMENT) * records + index_low * SWIZZLE_ELEMENT + offset_low
    return locations


def _pair(machine: Machine, slot: int, group: Group) -> Addresses:
    return machine.vector[slot, group.select].astype(np.int64) | machine.vector[slot + 1, group.select].astype(np.int64) << 32


def _global(instruction: Instruction, named: dict[str, Operand], machine: Machine) -> Accesses:
    """A 64-bit VGPR pair, or a 64-bit SGPR pair plus an unsigned 32-bit VGPR; and a signed immediate offset."""
    view = device_view(machine.memory, machine.work)
    vaddr, saddr = named["vaddr"], named.get("saddr")
    immediate = int(instruction.modifiers.get("offset", 0))
    assert isinstance(vaddr, Reg)
    slot = machine.slot(vaddr)
    scalar = fetch_scalar(machine, saddr, "u64") if isinstance(saddr, Reg) else None

    def accesses(group: Group) -> tuple[AddressedLanes, ...]:
        if scalar is not None:
            address = scalar(group).astype(np.int64)[:, None] + machine.vector[slot, group.select].astype(np.int64)
        else:
            address = _pair(machine, slot, group)
        return (AddressedLanes(view, address + immediate, group.lanes(), None, "device"),)

    return accesses


def _flat(instruction: Instruction, named: dict[str, Operand], machine: Machine) -> Accesses:
    """A 64-bit VGPR pair whose upper half chooses: LDS (shared aperture), private memory (private aperture), or device memory."""
    device = device_view(machine.memory, machine.work)
    vaddr = named["vaddr"]
    assert isinstance(vaddr, Reg)
    slot, immediate = machine.slot(vaddr), int(instruction.modifiers.get("offset", 0))

    def accesses(group: Group) -> tuple[AddressedLanes, ...]:
        address = _pair(machine, slot, group) + immediate
        lanes, upper, low = group.lanes(), address >> 32, address & 0xFFFFFFFF
        shared, private = lanes & (upper == SHARED_BASE >> 32), lanes & (upper == PRIVATE_BASE >> 32)
        found = []
        if shared.any():
            home = (machine.workgroup[group.waves] * machine.lds_stride)[:, None]
            found.append(AddressedLanes(array_view(machine.lds, machine.work), home + low, shared, machine.lds_declared - low, "LDS"))
        if private.any():
            found.append(_private(machine, group, low, private))
        rest = lanes & ~shared & ~private
        if rest.any() or not found:
            found.append(AddressedLanes(device, address, rest, None, "device"))
        return tuple(found)

    return accesses


def waves_in_lds(instruction: Instruction, machine: Machine) -> Callable[[Group], tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
    """Of a flat instruction: which waves of a group have some active lane that goes to LDS, and which no other."""
    named = {spec.name: operand for spec, operand in zip(instruction.form.operands, instruction.operands, strict=True)}
    vaddr = named["vaddr"]
    assert isinstance(vaddr, Reg)
    slot, immediate = machine.slot(vaddr), int(instruction.modifiers.get("offset", 0))

    def waves(group: Group) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        lanes = group.lanes()
        shared = lanes & (_pair(machine, slot, group) + immediate >> 32 == SHARED_BASE >> 32)
        some = shared.any(axis=1)
        return some, some & (shared == lanes).all(axis=1)

    return waves


def _scratch(instruction: Instruction, named: dict[str, Operand], machine: Machine) -> Accesses:
    """An offset in the lane's private memory: a 32-bit VGPR, a 32-bit SGPR, either or both, and a signed immediate offset."""
    vaddr, saddr = named.get("vaddr"), named.get("saddr")
    slot = machine.slot(vaddr) if isinstance(vaddr, Reg) else None
    scalar = fetch_scalar(machine, saddr, "u32") if isinstance(saddr, Reg) else None
    immediate = int(instruction.modifiers.get("offset", 0))

    def accesses(group: Group) -> tuple[AddressedLanes, ...]:
        offset: Addresses = np.full((group.size, LANES), immediate, np.int64)
        if slot is not None:
            offset = offset + machine.vector[slot, group.select]
        if scalar is not None:
            offset = offset + scalar(group).astype(np.int64)[:, None]
        return (_private(machine, group, offset, group.lanes()),)

    return accesses


def _private(machine: Machine, group: Group, offset: Addresses, active: NDArray[np.bool_]) -> AddressedLanes:
    stride = machine.private_stride
    home = (group.waves[:, None] * LANES + np.arange(LANES)) * stride
    limit = np.where(offset >= 0, machine.scratch_bytes - offset, 0)
    return AddressedLanes(array_view(machine.private_memory(), machine.work), home + offset, active, limit, "private memory")


def element_of(row: MemoryRow, instruction: Instruction) -> tuple[int, int]:
    """(bytes, number) of the elements that are checked one by one: dwords; a narrow one, or an atomic's, as a whole."""
    if row.kind == "atomic":
        size = row.bytes
        return size, 1
    return (4, row.bytes // 4) if row.bytes >= 4 else (row.bytes, 1)


def counts_in_range(access: AddressedLanes, size: int, words: int, group: Group, instruction: Instruction, findings: Findings) -> Addresses:
    """How many of its `words` elements of `size` bytes each lane may touch, the first ones; a finding where that is a fault."""
    if access.counted is not None:
        counts, low, high = access.counted
        if high <= low or group.machine.memory.covers(low, high - low):
            _tell(access, counts, size, low, high, group, instruction)
            return counts
    elif access.limit is None:
        counts = access.active * np.int64(words)
    elif words == 1:
        counts = (access.active & (access.limit >= size)).astype(np.int64)
    else:
        counts = np.clip(access.limit // size, 0, words) * access.active
    if access.memory_name in ("LDS", "private memory"):
        beyond = access.active & (counts < words)
        if beyond.any():
            _outside(access, size * words, beyond, group, instruction, findings)
        _tell(access, counts, size, 0, 0, group, instruction)
        return counts
    memory = group.machine.memory
    touching = counts > 0
    at = access.addresses[touching]
    if not at.size:
        return counts
    low, high = int(at.min()), int(at.max()) + size * words
    if not memory.covers(low, high - low):
        touchable = memory.touchable(at, size * counts[touching])  # type: ignore[arg-type]
        if not touchable.all():
            bad = np.zeros(touching.shape, bool)
            bad[touching] = ~touchable
            _outside(access, size * words, bad, group, instruction, findings)
            counts[bad] = 0
    _tell(access, counts, size, low, high, group, instruction)
    return counts


def _tell(access: AddressedLanes, counts: Addresses, size: int, low: int, high: int, group: Group, instruction: Instruction) -> None:
    """Tell those who watch what is touched: bytes `low` to `high` - 1 of device memory at most."""
    for watcher in group.machine.memory_watchers:
        watcher(group, instruction, access.memory_name, access.addresses, counts, size, low, high)


def _outside(access: AddressedLanes, size: int, bad: NDArray[np.bool_], group: Group, instruction: Instruction, findings: Findings) -> None:
    row = int(np.argmax(bad.any(axis=1)))
    lane = int(np.argmax(bad[row]))
    wave = int(group.waves[row])
    address = int(access.addresses[row, lane])
    if access.memory_name in ("LDS", "private memory"):
        assert access.limit is not None
        message = f"{size} bytes of lane {lane} end {size - int(access.limit[row, lane])} bytes beyond the end of {access.memory_name}"
    else:
        message = f"{size} bytes at {address:#x} (lane {lane}) lie in no registered buffer"
    findings.add(Finding("access-outside-registry", "error", message, None, instruction, wave, int(group.machine.workgroup[wave])))
