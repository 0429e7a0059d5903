"""What a dispatch needs besides the code: the grid, the argument block, the registers that the hardware fills."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

from asmgen.codeobject.descriptor import KernelDescriptor
from asmgen.emulator.machine.devicememory import Memory
from asmgen.emulator.machine.state import EXEC, LANES, Machine
from asmgen.isa.errors import AsmgenError

Ids = np.ndarray[tuple[int, int], np.dtype[np.uint32]]
_QUEUE_BYTES = 256


@dataclass(frozen=True)
class Dispatch:
    """One launch: `grid` in workgroups, `block` in work-items, the kernarg block's bytes and address.

    `preload` says whether the firmware fills preloaded arguments; `kernel_object` is the descriptor's address for the dispatch packet.
    """

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    kernarg_address: int
    kernarg: bytes
    dynamic_lds: int = 0
    preload: bool = True
    kernel_object: int = 0
    code_base: int = 0  # what is added to the code object's addresses

    @property
    def workgroups(self) -> int:
        """How many workgroups."""
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def work_items(self) -> int:
        """Per workgroup."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def waves_per_workgroup(self) -> int:
        """Of 64 lanes; the last may be partly filled."""
        return -(-self.work_items // LANES)

    def workgroup_ids(self, first: int, count: int) -> Ids:
        """x, y, z of the workgroups `first` and up by dispatch number, x fastest: [count, 3]."""
        number = np.arange(first, first + count)
        x, rest = number % self.grid[0], number // self.grid[0]
        return np.stack([x, rest % self.grid[1], rest // self.grid[1]], axis=1).astype(np.uint32)

    def packet(self, descriptor: KernelDescriptor) -> bytes:
        """The 64-byte dispatch packet (HSA system architecture, AQL kernel dispatch packet); its grid counts work-items."""
        items = [count * size for count, size in zip(self.grid, self.block, strict=True)]
        lds = descriptor.group_segment_fixed_size + self.dynamic_lds
        header, setup = 0x1502, 3  # a kernel dispatch with system-scope fences; three dimensions
        return struct.pack("<HHHHHHIIIIIQQQQ", header, setup, *self.block, 0, *items, descriptor.private_segment_fixed_size, lds,
                           self.kernel_object, self.kernarg_address, 0, 0)


@dataclass(frozen=True)
class HostBlocks:
    """Addresses of the blocks that user SGPRs may point to; 0 where the kernel does not ask."""

    packet: int = 0
    queue: int = 0

    @classmethod
    def make(cls, memory: Memory, descriptor: KernelDescriptor, dispatch: Dispatch) -> HostBlocks:
        """Put what the descriptor asks for into memory. The queue is zeros: no service of a runtime reads it."""
        packet = queue = 0
        if descriptor.dispatch_ptr:
            data = dispatch.packet(descriptor)
            packet = memory.allocate(len(data), "dispatch packet")
            memory.view(packet, len(data))[:] = np.frombuffer(data, np.uint8)
        if descriptor.queue_ptr:
            queue = memory.allocate(_QUEUE_BYTES, "queue")
        return cls(packet, queue)

    def free(self, memory: Memory) -> None:
        """Give them back."""
        for address in (self.packet, self.queue):
            if address:
                memory.free(address)


def start_waves(machine: Machine, descriptor: KernelDescriptor, dispatch: Dispatch, first: int, host: HostBlocks) -> None:
    """Fill the registers of freshly started waves, workgroups `first` and up (docs/facts/instructions.md section 4, user SGPRs).

    Everything else is 0, VCC and M0 too. Raises AsmgenError for a user SGPR that the emulator cannot provide.
    """
    per = dispatch.waves_per_workgroup
    number = np.arange(machine.waves)
    machine.workgroup[:] = number // per
    machine.wave_in_group[:] = number % per
    machine.first_workgroup = first
    ids = dispatch.workgroup_ids(first, machine.workgroups)[machine.workgroup]
    _start_scalars(machine, descriptor, dispatch, ids, host)
    _start_lanes(machine, descriptor, dispatch)
    # MODE: DX10_CLAMP is bit 8, IEEE bit 9, exception enables 18:12, FP16_OVFL bit 23 (CDNA3 ISA, MODE register).
    machine.mode[:] = (descriptor.float_mode | descriptor.dx10_clamp << 8 | descriptor.ieee_mode << 9 | descriptor.fp_exceptions << 12
                       | descriptor.fp16_overflow << 23)


def _start_scalars(machine: Machine, descriptor: KernelDescriptor, dispatch: Dispatch, ids: Ids, host: HostBlocks) -> None:
    preload = np.frombuffer(dispatch.kernarg.ljust(-(-len(dispatch.kernarg) // 4) * 4, b"\0"), np.uint32)
    pointers = {"kernarg_segment_ptr": dispatch.kernarg_address, "dispatch_ptr": host.packet, "queue_ptr": host.queue, "dispatch_id": 0}
    for name, index, count in descriptor.sgpr_layout():
        target = machine.scalar[index:index + count]
        if name in pointers:
            target[0], target[1] = pointers[name] & 0xFFFFFFFF, pointers[name] >> 32
        elif name == "kernarg_preload":
            given = preload[descriptor.preload_offset:descriptor.preload_offset + count]
            if dispatch.preload:
                target[:len(given)] = given[:, None]
        elif name in ("workgroup_id_x", "workgroup_id_y", "workgroup_id_z"):
            target[0] = ids[:, "xyz".index(name[-1])]
        elif name == "private_segment_size":
            target[0] = machine.scratch_bytes
        elif name == "workgroup_info":
            # Bits 5:0 count the waves of the workgroup, bit 31 is set in its first one (LLVM's AMDGPU usage guide, initial SGPRs).
            target[0] = dispatch.waves_per_workgroup | (machine.wave_in_group == 0).astype(np.uint32) << 31
        else:
            raise AsmgenError(f"the kernel asks for {name} in s{index}, which {machine.arch.name} does not have "
                              "(it addresses private memory by itself)")


def _start_lanes(machine: Machine, descriptor: KernelDescriptor, dispatch: Dispatch) -> None:
    """v0 packs the work-item ids as x | y << 10 | z << 20; lanes beyond the workgroup's size start inactive."""
    item = machine.wave_in_group[:, None] * LANES + np.arange(LANES)
    x, y = dispatch.block[0], dispatch.block[1]
    packed = item % x
    if descriptor.workitem_id_dims >= 1:
        packed = packed | item // x % y << 10
    if descriptor.workitem_id_dims >= 2:
        packed = packed | item // (x * y) << 20
    machine.vector[0] = packed
    active = item < dispatch.work_items
    machine.scalar[EXEC:EXEC + 2] = np.packbits(active, axis=1, bitorder="little").view("<u4").T
