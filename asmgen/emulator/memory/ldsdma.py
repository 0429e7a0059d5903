"""Loads straight into LDS (LDS-DMA), whose data arrives at the issuing wave's wait; and what memory instructions share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.arrival import ldsbounds
from asmgen.emulator.arrival.arrival import VM, Counters
from asmgen.emulator.arrival.findings import Findings
from asmgen.emulator.arrival.ldscells import INACTIVE
from asmgen.emulator.arrival.ldsraces import LdsArrival
from asmgen.emulator.machine.state import LANES, M0, Group, Machine
from asmgen.emulator.memory.addresses import Accesses, AddressedLanes, counts_in_range, plain_descriptors
from asmgen.emulator.memory.formatted import TypedAccess
from asmgen.emulator.memory.lanes import array_view, device_view, load_narrow, load_rows, sign_extended, store_rows
from asmgen.emulator.semantics.values import fetch_scalar
from asmgen.isa.opcode import MemoryUse as MemoryRow
from asmgen.isa.registers import Reg
from asmgen.program.program import Instruction

Step = Callable[[Group], None]
_WHOLE = (4, 16)
"""Bytes of a lane with which one lane's place in LDS begins where the last one's ends."""


@dataclass
class Delivery:
    """An LDS-DMA on its way: the words [waves, 64, words] that it will write, and the tickets of the waves that must wait for it."""

    # Byte addresses in the machine's LDS array: [waves, 64] of the lanes' first words, or [waves] of aligned first lanes, after
    # which all others follow with all of their words.
    locations: NDArray[np.int64]
    counts: NDArray[np.int64]  # [waves, 64], or with those [waves]: how many words of each lane arrive
    values: NDArray[np.uint32]
    waves: NDArray[np.int64]
    tickets: NDArray[np.int32]

    def of(self, waves: NDArray[np.bool_]) -> Delivery:
        """What some of the waves wait for."""
        return Delivery(self.locations[waves], self.counts[waves], self.values[waves], self.waves[waves], self.tickets[waves])

    def by_lane(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Places and counts [waves, 64]."""
        if self.locations.ndim == 2:
            return self.locations, self.counts
        shape = self.values.shape[:2]
        lanes = self.locations[:, None] + 4 * self.values.shape[2] * np.arange(LANES, dtype=np.int64)
        return lanes, np.broadcast_to(self.counts[:, None], shape)


@dataclass
class Deliveries:
    """LDS-DMA data gets its value in LDS at the issuing wave's wait, in order of issue."""

    machine: Machine
    counters: Counters
    waiting: list[Delivery] = field(default_factory=list)
    _spare: dict[tuple[int, ...], list[NDArray[np.uint32]]] = field(default_factory=dict)  # the host's memory costs more than its use

    def room(self, *shape: int) -> NDArray[np.uint32]:
        """An array for the values of a delivery, with anything in it."""
        spare = self._spare.get(shape)
        return spare.pop() if spare else np.empty(shape, np.uint32)

    def deliver(self) -> None:
        """Put into LDS what waits have settled."""
        kept = []
        done = self.counters.done[VM]
        for delivery in self.waiting:
            due = delivery.tickets <= done[delivery.waves]
            count = np.count_nonzero(due)  # asked at every wait: `all` and `any` take four times as long for so few waves
            if count == len(due):
                self._write(delivery)
                continue
            if count:
                self._write(delivery.of(due))
                delivery = delivery.of(~due)
            kept.append(delivery)
        self.waiting = kept

    def contents(self, locations: NDArray[np.int64]) -> NDArray[np.uint8]:
        """What stands at byte addresses of LDS, or will when all that is on its way has arrived."""
        if not len(locations) or not self.waiting:
            return self.machine.lds[locations]
        low, high = int(locations.min()), int(locations.max()) + 1
        image = self.machine.lds[low:high].copy()
        for delivery in self.waiting:
            first, counts = delivery.by_lane()
            for byte in range(4 * delivery.values.shape[2]):
                at = first + (byte - low)
                here = (at >= 0) & (at < len(image)) & (counts > byte // 4)
                image[at[here]] = (delivery.values[..., byte // 4][here] >> np.uint32(8 * (byte % 4))).astype(np.uint8)
        return image[locations - low]

    def _write(self, delivery: Delivery) -> None:
        if delivery.locations.ndim == 1 and self.machine.work.pays(8 * delivery.values.size):
            from asmgen.emulator.memory import lanes_kernels

            lanes_kernels.put_rows(self.machine.lds_u32, delivery.locations, delivery.values)
            self._spare.setdefault(delivery.values.shape, []).append(delivery.values)
            return
        locations, counts = delivery.by_lane()
        store_rows(array_view(self.machine.lds, self.machine.work), locations, counts, delivery.values)


@dataclass(frozen=True)
class Context:
    """What memory instructions need besides the machine."""

    machine: Machine
    counters: Counters
    findings: Findings
    deliveries: Deliveries
    lds_arrival: LdsArrival | None


def m0_mask(row: MemoryRow, machine: Machine) -> np.uint32:
    """The bits of M0 that say where in LDS."""
    return np.uint32((1 << machine.arch.m0_dma_bits) - 1 if row.space == "buffer" else 0x3FFFC)


def dma_locations(instruction: Instruction, machine: Machine) -> Callable[[Group], tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Where lanes of an LDS-DMA write: offsets [waves, 64] in the workgroup's LDS, and where each wave's LDS begins in the machine's."""
    row = instruction.opcode.memory
    assert row is not None
    stride = 16 if row.bytes > 4 else 4
    field_mask = m0_mask(row, machine)
    lane_offset = np.arange(LANES, dtype=np.int64) * stride + _offset(instruction)

    def locations(group: Group) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        base = (machine.scalar[M0, group.select] & field_mask).astype(np.int64)[:, None]
        return base + lane_offset, (machine.workgroup[group.waves] * machine.lds_stride)[:, None]

    return locations


def _offset(instruction: Instruction) -> int:
    return int(instruction.modifiers.get("offset", 0))


def to_lds(instruction: Instruction, position: int, row: MemoryRow, accesses: Accesses, context: Context,
           typed: TypedAccess | None) -> Step:
    """LDS-DMA: lane l writes at M0 + offset + l * 4 (dword and narrower) or l * 16; out-of-range lanes write 0.

    docs/facts/semantics.md section 7.

    Bytes and shorts are extended to a dword, with their sign where the mnemonic says so. A global or scratch form drops the two lowest
    bits of M0 (docs/facts/instructions.md section 4, LDS-DMA addressing).
    """
    machine = context.machine
    words = max(1, row.bytes // 4)
    destination = dma_locations(instruction, machine)
    signed = row.type in ("sbyte", "sshort")
    lane_offset, immediate, m0_field = 4 * words * np.arange(LANES, dtype=np.int64), _offset(instruction), m0_mask(row, machine)

    def deliver_rows(group: Group, values: NDArray[np.uint32]) -> bool:
        """`deliver`, where all lanes of each wave follow each other; False where they do not, or leave the kernel's LDS."""
        if group.mask is not None or row.bytes not in _WHOLE:
            return False
        locations = (machine.scalar[M0, group.select] & m0_field).astype(np.int64) + immediate
        if locations.min() < 0 or locations.max() + 4 * words * LANES > machine.lds_declared or (locations & 3).any():
            return False
        at = locations + machine.workgroup[group.select] * machine.lds_stride
        if context.lds_arrival is not None:
            def lanes(rows: int) -> NDArray[np.int64]:
                repeat = rows and (locations.reshape(-1, rows) == locations[:rows]).all()
                return (at[:rows, None] if repeat else at[:, None]) + lane_offset

            context.lds_arrival.access(group, position, lanes, 4 * words, True, VM, lambda: np.moveaxis(values, 2, 0))
        tickets = context.counters.issued[VM, group.select].copy()
        context.deliveries.waiting.append(Delivery(at, np.full(group.size, words), values, group.waves, tickets))
        return True

    def deliver(group: Group, access: AddressedLanes, values: NDArray[np.uint32]) -> None:
        """`values` are [waves, 64, words]."""
        location, home = destination(group)
        tickets = context.counters.issued[VM, group.select].copy()
        inside = bool(location.min() >= 0 and location.max() + 4 * words <= machine.lds_declared)
        if inside and group.mask is None:
            at, counts = home + location, np.full(location.shape, words)
            reached = at
        else:
            if (access.active & ((location < 0) | (location + 4 * words > machine.lds_declared))).any():
                ldsbounds.judge(group, instruction, location, 4 * words, access.active, context.findings)
            # Words that end outside are left out: the bound in whole lanes is exact for all but a kernel's last bytes.
            whole = access.active & (location >= 0) & (location + 4 * words <= machine.lds_declared)
            at, reached = home + location, np.where(whole, home + location, INACTIVE)
            counts = np.clip((machine.lds_bytes - location) // 4, 0, words) * (access.active & (location >= 0))
        if context.lds_arrival is not None:
            context.lds_arrival.access(group, position, reached, 4 * words, True, VM, lambda: np.moveaxis(values, 2, 0))
        context.deliveries.waiting.append(Delivery(at, counts, values, group.waves, tickets))

    whole = _whole_rows(instruction, row, context) if typed is None else None

    def step(group: Group) -> None:
        if whole is not None and group.mask is None and not machine.memory_watchers and machine.work.pays(8 * LANES * words * group.size):
            delivery = whole(group)
            if delivery is not None:
                context.deliveries.waiting.append(delivery)
                return
        (access,) = accesses(group)
        if row.bytes < 4:
            valid = counts_in_range(access, row.bytes, 1, group, instruction, context.findings) > 0
            values = load_narrow(access.view, access.addresses, valid, row.bytes)[..., None]
            values = sign_extended(values, row.bytes) if signed else values
        else:
            counts = counts_in_range(access, 4, words, group, instruction, context.findings)
            room = context.deliveries.room(group.size, LANES, words) if row.bytes in _WHOLE else None
            values = load_rows(access.view, access.addresses, counts, words, room)
            if deliver_rows(group, values):
                return
        deliver(group, access, values)

    def step_typed(group: Group) -> None:
        assert typed is not None
        for part, fmt in typed.parts(group):
            access, components = typed.load(part, fmt)
            deliver(part, access, np.stack(components, axis=-1))

    return step if typed is None else step_typed


def _whole_rows(instruction: Instruction, row: MemoryRow, context: Context) -> Callable[[Group], Delivery | None] | None:
    """The delivery of a plain buffer load that nobody watches, where all lanes are active, aligned and in range; else None."""
    named = {spec.name: operand for spec, operand in zip(instruction.form.operands, instruction.operands, strict=True)}
    resource, vaddr = named.get("srsrc"), named.get("vaddr")
    fitting = row.space == "buffer" and row.bytes in _WHOLE and not instruction.modifiers.get("idxen")
    if not fitting or context.lds_arrival is not None or not isinstance(resource, Reg):
        return None
    machine, words, first = context.machine, row.bytes // 4, resource.index
    soffset, immediate = fetch_scalar(machine, named["soffset"], "u32"), _offset(instruction)
    slot = machine.slot(vaddr) if instruction.modifiers.get("offen") and isinstance(vaddr, Reg) else -1
    view = device_view(machine.memory, machine.work)
    m0_field = m0_mask(row, machine)

    def delivery(group: Group) -> Delivery | None:
        from asmgen.emulator.memory import lanes_kernels

        descriptors = np.ascontiguousarray(machine.scalar[first:first + 4, group.select])  # one type to compile for
        starts = np.array(np.broadcast_to(soffset(group), (group.size,)), np.int64)
        anywhere = (int(descriptors[0, 0]) | int(descriptors[1, 0] & 0xFFFF) << 32) + int(starts[0]) + immediate
        anywhere += int(machine.vector[slot, group.waves[0], 0]) if slot >= 0 else 0
        interval = machine.memory.around(anywhere)
        locations = (machine.scalar[M0, group.select] & m0_field).astype(np.int64) + immediate
        last = int(locations.max()) + 4 * words * LANES
        if plain_descriptors(descriptors) and interval is not None and last <= machine.lds_declared and not (locations & 3).any():
            values = context.deliveries.room(group.size, LANES, words)
            if lanes_kernels.load_buffer_rows(machine.vector_file, group.waves, descriptors, starts, slot, immediate, interval.start,
                                              interval.end, view.u32, view.origin, values):
                locations += machine.workgroup[group.waves] * machine.lds_stride
                counters = context.counters.issued[VM, group.select].copy()
                return Delivery(locations, np.full(group.size, words), values, group.waves, counters)
        return None

    return delivery
