"""Two workgroups with random LDS, and a model of their LDS and registers lane by lane."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asmgen.author.emit.builder import Builder
from asmgen.emulator.machine.state import Machine
from tests.emulator_harness import Result, new_machine, run

LDS_BYTES = 4096
WAVES = 4
WORKGROUPS = 2
EXEC_MASK = 0xF0F0_1234_FFFF_00FE
Words = NDArray[np.uint32]


def machine_with(arch: str = "gfx950", seed: int = 0, size: int = LDS_BYTES) -> Machine:
    """Random LDS and registers, two workgroups of two waves."""
    machine = new_machine(arch, WAVES, WORKGROUPS, size)
    rng = np.random.default_rng(seed)
    machine.vector[:64] = rng.integers(0, 1 << 32, (64, WAVES, 64), dtype=np.uint32)
    machine.lds[:] = rng.integers(0, 256, len(machine.lds), dtype=np.uint8)
    return machine


class Model:
    """LDS as bytearrays, registers as lists: what the tests compare the emulator with."""

    def __init__(self, machine: Machine, exec_mask: int) -> None:
        self.size = machine.lds_bytes
        stride = machine.lds_stride
        self.lds = [bytearray(machine.lds[n * stride:n * stride + self.size].tobytes()) for n in range(machine.workgroups)]
        self.registers = machine.vector[:64].copy()
        self.exec_mask = exec_mask

    def lanes(self) -> Iterator[tuple[int, int, bytearray]]:
        """Active lanes in order: (wave, lane, the workgroup's LDS)."""
        for wave in range(WAVES):
            for lane in range(64):
                if self.exec_mask >> lane & 1:
                    yield wave, lane, self.lds[wave // 2]

    def word(self, register: int, wave: int, lane: int, count: int = 1) -> int:
        """One register or more as an integer."""
        return sum(int(self.registers[register + n, wave, lane]) << 32 * n for n in range(count))

    def put(self, register: int, wave: int, lane: int, value: int, count: int = 1) -> None:
        """An integer into registers."""
        for n in range(count):
            self.registers[register + n, wave, lane] = value >> 32 * n & 0xFFFFFFFF

    def read(self, lds: bytearray, at: int, size: int) -> int:
        """Bytes as an integer; 0 where any of them is outside."""
        return int.from_bytes(lds[at:at + size], "little") if at + size <= self.size else 0

    def write(self, lds: bytearray, at: int, value: int, size: int) -> None:
        """The low bytes of an integer; nothing where any is outside."""
        if at + size <= self.size:
            lds[at:at + size] = (value & (1 << 8 * size) - 1).to_bytes(size, "little")

    def compare(self, machine: Machine) -> None:
        """All registers and all of LDS."""
        stride = machine.lds_stride
        for number, lds in enumerate(self.lds):
            found = machine.lds[number * stride:number * stride + self.size]
            differing = np.flatnonzero(found != np.frombuffer(lds, np.uint8))
            assert not len(differing), f"LDS of workgroup {number}, byte {int(differing[0]):#x}"
        wrong = np.argwhere(machine.vector[:64] != self.registers)
        assert not len(wrong), f"register, wave, lane {wrong[0]}"


def execute(machine: Machine, emit: Callable[[Builder], Any], **settings: Any) -> Result:
    return run(machine.arch.name, emit, machine=machine, exec_mask=settings.pop("exec_mask", EXEC_MASK), **settings)


def addresses(machine: Machine, register: int, align: int, seed: int = 1, high: int = LDS_BYTES + 32) -> None:
    """Random byte addresses, some out of range, most lanes apart."""
    rng = np.random.default_rng(seed)
    machine.vector[register] = rng.permuted(np.resize(np.arange(0, high, align), (WAVES, max(64, high // align))), axis=1)[:, :64]
