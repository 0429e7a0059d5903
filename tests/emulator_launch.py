"""Launches built programs on the emulator without a code object: descriptor, memory and dispatch made by hand.

    launched = launch("gfx950", emit, grid=(4, 1, 1), block=(256, 1, 1), buffers=[array])

The kernel finds the addresses of the buffers, 8 bytes each and then the numbers of `values` (32 bits each), behind s[0:1]; the
workgroup's x, y, z are in s2, s3, s4, the work-item's packed in v0.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from asmgen.author.emit.builder import Builder
from asmgen.codeobject.descriptor import KernelDescriptor
from asmgen.emulator.arrival.findings import Finding
from asmgen.emulator.machine.devicememory import Memory
from asmgen.emulator.machine.dispatch import Dispatch
from asmgen.emulator.scheduling.run import LaunchResult, Options, run_launch
from asmgen.isa.arch import architecture
from asmgen.isa.registers import s, v
from asmgen.program.program import Program

ORDERS = ("lockstep", "serial", "random:1", "random:2")
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Launched:
    """The buffers after the launch, and what the launch gave."""

    buffers: list[Array]
    result: LaunchResult

    @property
    def findings(self) -> list[Finding]:
        """Everything that was found."""
        return list(self.result.findings)

    @property
    def checks(self) -> list[str]:
        """The names of the checks that found something."""
        return [finding.check for finding in self.result.findings]


def descriptor(vgprs: int = 64, lds: int = 0, float_mode: int = 0xC0, dims: int = 2, scratch: int = 0) -> KernelDescriptor:
    """A descriptor with the kernarg pointer in s[0:1], the workgroup's ids behind it, and half of the registers AGPRs."""
    rsrc1 = (vgprs // 8 - 1) | float_mode << 12 | 1 << 21 | 1 << 23
    rsrc2 = 2 << 1 | 0b111 << 7 | dims << 11
    rsrc3 = vgprs // 8 - 1
    return KernelDescriptor.from_bytes(struct.pack("<III4xq20xIIIHH4x", lds, scratch, 0, 256, rsrc3, rsrc1, rsrc2, 1 << 3, 0))


def launch(arch: str, emit: Callable[[Builder], object] | Program, grid: tuple[int, int, int] = (1, 1, 1),
           block: tuple[int, int, int] = (64, 1, 1),
           buffers: Sequence[Array] = (), values: Sequence[int] = (), lds: int = 0, dynamic_lds: int = 0, vgprs: int = 64,
           scratch: int = 0, options: Options | None = None, order: str = "lockstep", checks: bool = True,
           memory: Memory | None = None) -> Launched:
    """Run what `emit` emits (or a Program) on copies of the buffers, in `memory`, which may have had other launches."""
    if isinstance(emit, Program):
        program = emit
    else:
        builder = Builder("kernel", arch)
        emit(builder)
        program = builder.program()
    memory = memory or Memory()
    addresses = []
    for buffer in buffers:
        addresses.append(memory.allocate(buffer.nbytes))
        memory.view(addresses[-1], buffer.nbytes)[:] = np.frombuffer(buffer.tobytes(), np.uint8)
    kernarg = b"".join(address.to_bytes(8, "little") for address in addresses)
    kernarg += b"".join((value & 0xFFFFFFFF).to_bytes(4, "little") for value in values)
    place = memory.allocate(max(64, len(kernarg)))
    memory.view(place, len(kernarg))[:] = np.frombuffer(kernarg, np.uint8)
    chosen = options or Options(checks=checks, order=order)
    result = run_launch(program, descriptor(vgprs, lds, scratch=scratch), architecture(arch),
                        Dispatch(grid, block, place, kernarg, dynamic_lds), memory, chosen)
    after = [np.frombuffer(memory.view(address, buffer.nbytes).tobytes(), buffer.dtype).reshape(buffer.shape)
             for address, buffer in zip(addresses, buffers, strict=True)]
    return Launched(after, result)


def load_pointers(k: Builder, count: int, values: int = 0) -> None:
    """Buffer addresses into s[8:9], s[10:11], ...; the values behind them into s[8 + 2 * count] and up."""
    for number in range(count):
        k.s_load_dwordx2(s[8 + 2 * number:9 + 2 * number], s[0:1], 8 * number)
    for number in range(values):
        k.s_load_dword(s[8 + 2 * count + number], s[0:1], 8 * count + 4 * number)
    k.s_waitcnt(lgkmcnt=0)


def store_by_item(k: Builder, value: int, items: int, base: int = 8) -> None:
    """Store v[value] at buffer[workgroup x * items + work-item x]; uses v[60:61]."""
    k.v_and_b32(v[60], 0x3FF, v[0])
    k.s_mul_i32(s[90], s[2], items)
    k.v_add_u32(v[60], s[90], v[60])
    k.v_lshlrev_b32(v[60], 2, v[60])
    k.global_store_dword(v[60], v[value], s[base:base + 1])
