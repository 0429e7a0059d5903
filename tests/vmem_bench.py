"""A machine with a buffer of random bytes, and what vector memory instructions should make of it, lane by lane."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from asmgen.author.emit.builder import Builder
from asmgen.emulator.machine.devicememory import Memory
from asmgen.emulator.machine.state import Machine
from tests.atomic_reference import signed
from tests.emulator_harness import Result, new_machine, run

WAVES = 3
SIZE = 8192
EXEC_MASK = 0x8F0F_4321_0FFF_80FD


class Bench:
    """A machine with a buffer of random bytes, and what it should become."""

    def __init__(self, arch: str = "gfx950", exec_mask: int = EXEC_MASK, seed: int = 0, scratch: int = 0) -> None:
        self.memory = Memory()
        self.start = self.memory.allocate(SIZE)
        self.machine: Machine = new_machine(arch, WAVES, 1, 1024, self.memory)
        self.machine.scratch_bytes = scratch
        self.rng = np.random.default_rng(seed)
        self.memory.view(self.start, SIZE)[:] = self.rng.integers(0, 256, SIZE, dtype=np.uint8)
        self.machine.vector[:64] = self.rng.integers(0, 1 << 32, (64, WAVES, 64), dtype=np.uint32)
        self.exec_mask = exec_mask

    def model(self) -> None:
        """Take the state as it is for the expected one."""
        self.bytes = bytearray(self.memory.view(self.start, SIZE).tobytes())
        self.registers = self.machine.vector[:64].copy()

    def lanes(self) -> Iterator[tuple[int, int]]:
        """Active lanes in order."""
        for wave in range(WAVES):
            for lane in range(64):
                if self.exec_mask >> lane & 1:
                    yield wave, lane

    def word(self, register: int, wave: int, lane: int, count: int = 1) -> int:
        return sum(int(self.registers[register + n, wave, lane]) << 32 * n for n in range(count))

    def put(self, register: int, wave: int, lane: int, value: int, count: int = 1) -> None:
        for n in range(count):
            self.registers[register + n, wave, lane] = value >> 32 * n & 0xFFFFFFFF

    def load(self, at: int, size: int) -> int:
        return int.from_bytes(self.bytes[at:at + size], "little")

    def store(self, at: int, value: int, size: int) -> None:
        self.bytes[at:at + size] = (value & (1 << 8 * size) - 1).to_bytes(size, "little")

    def descriptor(self, records: int, stride: int = 0, flags: int = 0, swizzle: bool = False) -> dict[int, int]:
        """s[4:7]."""
        return {4: self.start & 0xFFFFFFFF, 5: self.start >> 32 | stride << 16 | swizzle << 31, 6: records, 7: flags}

    def run(self, emit: Callable[[Builder], Any], **settings: Any) -> Result:
        return run(self.machine.arch.name, emit, machine=self.machine, exec_mask=self.exec_mask, **settings)

    def compare(self, result: Result, findings: int = 0) -> None:
        assert len(result.findings.all()) == findings, [finding.sentence() for finding in result.findings.all()]
        assert self.memory.view(self.start, SIZE).tobytes() == bytes(self.bytes)
        wrong = np.argwhere(self.machine.vector[:64] != self.registers)
        assert not len(wrong), f"register, wave, lane {wrong[0]}"


LOADS = {"ubyte": (1, False, None), "sbyte": (1, True, None), "ushort": (2, False, None), "sshort": (2, True, None),
         "dword": (4, False, None), "dwordx2": (8, False, None), "dwordx3": (12, False, None), "dwordx4": (16, False, None),
         "ubyte_d16": (1, False, 0),
         "sbyte_d16": (1, True, 0), "short_d16": (2, False, 0), "ubyte_d16_hi": (1, False, 16), "sbyte_d16_hi": (1, True, 16),
         "short_d16_hi": (2, False, 16)}
STORES = {"byte": (1, 0), "short": (2, 0), "byte_d16_hi": (1, 16), "short_d16_hi": (2, 16), "dword": (4, 0), "dwordx2": (8, 0),
          "dwordx3": (12, 0), "dwordx4": (16, 0)}


def loaded(suffix: str, raw: int, old: int) -> int:
    """A register's value after a narrow load."""
    size, has_sign, half = LOADS[suffix]
    if size >= 4:
        return raw
    value = signed(raw, 8 * size) if has_sign else raw
    return value & 0xFFFFFFFF if half is None else old & ~(0xFFFF << half) & 0xFFFFFFFF | (value & 0xFFFF) << half


def by_dword(bench: Bench, at: int, size: int, in_range: Callable[[int, int], bool]) -> int:
    """What a load gives where each dword (or the narrow element) is checked by itself."""
    step = min(size, 4)
    return sum((bench.load(at + n, step) if in_range(at + n, step) else 0) << 8 * n for n in range(0, size, step))
