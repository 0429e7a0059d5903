"""Runs single instructions on given registers, without a code object: what the emulator's semantics tests share.

    result = run("gfx950", lambda k: k.v_add_f32(v[2], v[0], v[1]), vgprs={0: a, 1: b}, exec_mask=0x0F)
    result.v(2, np.float32)

The program is straight-line code: every instruction is decoded as in a launch and run once, by all waves together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asmgen.author.emit.builder import Builder
from asmgen.emulator.arrival.arrival import Counters
from asmgen.emulator.arrival.findings import Findings
from asmgen.emulator.binding.decode import Decoder
from asmgen.emulator.machine.codemap import CodeMap
from asmgen.emulator.machine.devicememory import Memory
from asmgen.emulator.machine.state import EXEC, LANES, M0, VCC, Group, Machine
from asmgen.emulator.memory.ldsops import LdsContext
from asmgen.emulator.memory.vmem import Context, Deliveries
from asmgen.isa.arch import architecture
from asmgen.program.program import Program

MODE_DEFAULT = 0x3C0  # f32 denormals flushed, f16 and f64 kept, nearest even, DX10_CLAMP and IEEE on: as production kernels start
MODE_KEEP = 0x3F0  # all denormals kept
ACCUM_OFFSET = 256
ARCHS = ("gfx942", "gfx950")


@dataclass(frozen=True)
class Result:
    """The machine after the run. `findings` are the arrival model's where `checks` was asked for."""

    machine: Machine
    group: Group
    findings: Findings

    def v(self, index: int, dtype: Any = np.uint32, count: int = 1) -> NDArray[Any]:
        """A VGPR as [waves, 64]; 64-bit types join two registers; `count` > 1 gives [count, waves, 64] of 32-bit ones."""
        return _typed(self.machine.vector, index, dtype, count)

    def a(self, index: int, dtype: Any = np.uint32, count: int = 1) -> NDArray[Any]:
        """The same of an AGPR."""
        return _typed(self.machine.vector, ACCUM_OFFSET + index, dtype, count)

    def s(self, index: int, wave: int = 0) -> int:
        """A scalar register of one wave."""
        return int(self.machine.scalar[index, wave])

    def s64(self, index: int, wave: int = 0) -> int:
        """A scalar pair of one wave."""
        return self.s(index, wave) | self.s(index + 1, wave) << 32

    @property
    def exec_mask(self) -> int:
        """EXEC of wave 0."""
        return self.s64(EXEC)

    @property
    def vcc(self) -> int:
        """VCC of wave 0."""
        return self.s64(VCC)

    @property
    def scc(self) -> bool:
        """SCC of wave 0."""
        return bool(self.machine.scc[0])


def _typed(file: NDArray[np.uint32], index: int, dtype: Any, count: int) -> NDArray[Any]:
    element = np.dtype(dtype)
    if count > 1:
        return file[index:index + count].view(element).copy()
    if element.itemsize == 8:
        return np.stack([file[index], file[index + 1]], axis=-1).view(element)[..., 0]
    if element.itemsize == 4:
        return file[index].view(element).copy()
    return (file[index] & np.uint32((1 << 8 * element.itemsize) - 1)).astype(f"u{element.itemsize}").view(element)


def build(arch: str, emit: Callable[[Builder], object]) -> Program:
    """The program of what `emit` emits."""
    builder = Builder("harness", arch)
    emit(builder)
    return builder.program()


def new_machine(arch: str, waves: int = 1, workgroups: int = 1, lds_bytes: int = 65536, memory: Memory | None = None) -> Machine:
    """512 registers, the upper 256 AGPRs; all lanes active, MODE_DEFAULT, M0 all ones."""
    machine = Machine(architecture(arch), waves, workgroups, 512, ACCUM_OFFSET, lds_bytes, memory or Memory())
    machine.scalar[EXEC:EXEC + 2] = 0xFFFFFFFF
    machine.scalar[M0] = 0xFFFFFFFF
    machine.mode[:] = MODE_DEFAULT
    per = waves // workgroups
    machine.workgroup[:] = np.arange(waves) // per
    machine.wave_in_group[:] = np.arange(waves) % per
    return machine


def put_lanes(machine: Machine, slot: int, value: ArrayLike) -> None:
    """Bits of `value` [64], [waves, 64] or a number into registers from `slot` (two for 64-bit types)."""
    array = np.asarray(value)
    if array.dtype.itemsize == 8 and array.dtype.kind in "iu" and array.ndim == 0:
        array = np.asarray(int(array) & 0xFFFFFFFF, np.uint32)
    if array.dtype.itemsize == 8:
        halves = np.ascontiguousarray(array)[..., None].view(np.uint32)
        machine.vector[slot], machine.vector[slot + 1] = halves[..., 0], halves[..., 1]
    else:
        machine.vector[slot] = array.view(f"u{array.dtype.itemsize}")


def run(arch: str, emit: Callable[[Builder], object], *, vgprs: Mapping[int, ArrayLike] | None = None,
        agprs: Mapping[int, ArrayLike] | None = None, sgprs: Mapping[int, ArrayLike] | None = None, exec_mask: ArrayLike | None = None,
        vcc: ArrayLike | None = None, m0: int | None = None, scc: bool = False, mode: int = MODE_DEFAULT, waves: int = 1,
        machine: Machine | None = None, count: int = 1) -> Result:
    """Run what `emit` emits, `count` times over.

    Registers are given by index: VGPRs and AGPRs as arrays [64] or [waves, 64] (64-bit types fill two registers), scalar
    registers as numbers or [waves]; `exec_mask` and `vcc` are 64-bit numbers or [waves] of them.
    """
    machine = machine or new_machine(arch, waves)
    for index, value in (vgprs or {}).items():
        put_lanes(machine, index, value)
    for index, value in (agprs or {}).items():
        put_lanes(machine, ACCUM_OFFSET + index, value)
    for index, value in (sgprs or {}).items():
        machine.scalar[index] = np.asarray(value, np.int64).astype(np.uint32)
    for register, mask in ((EXEC, exec_mask), (VCC, vcc)):
        if mask is not None:
            wide = np.asarray(mask, np.uint64)
            machine.scalar[register], machine.scalar[register + 1] = wide & np.uint64(0xFFFFFFFF), wide >> np.uint64(32)
    if m0 is not None:
        machine.scalar[M0] = m0
    machine.scc[:] = scc
    machine.mode[:] = mode
    program = build(arch, emit)
    findings, counters = Findings(), Counters(machine.waves)
    deliveries = Deliveries(machine, counters)
    decoder = Decoder(program, CodeMap.of(program), machine, Context(machine, counters, findings, deliveries, None),
                      LdsContext(machine, counters, None, None))
    group = Group(machine, np.arange(machine.waves, dtype=np.int64), 0)
    with np.errstate(all="ignore"):
        for _ in range(count):
            for position in range(len(program)):
                group.position, group.mode = position, int(machine.mode[0])
                step = decoder.step(position, group.mode, int(machine.scalar[M0, 0]) & 0xF0FF)
                if step is None:
                    continue
                if step.queue is not None:
                    counters.issue(group, step.queue)
                if step.wait is not None:
                    counters.wait(group, step.wait)
                    deliveries.deliver()
                if step.run is not None:
                    step.run(group)
    return Result(machine, group, findings)


def lanes_of(mask: int) -> NDArray[np.bool_]:
    """A 64-bit mask as booleans [64]."""
    return np.array([mask >> lane & 1 for lane in range(LANES)], bool)
