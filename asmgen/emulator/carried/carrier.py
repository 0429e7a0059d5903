"""What carries handles: a second machine whose registers and LDS hold handles, and arrays beside the buffers of device memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.carried.cells import Handles, WordCells, gathered, scattered
from asmgen.emulator.machine.devicememory import Memory
from asmgen.emulator.machine.state import LANES, Machine
from asmgen.emulator.memory.addresses import AddressedLanes

Addresses = NDArray[np.int64]


@dataclass
class DeviceCells:
    """The handles of device memory, a word for every four bytes of the buffers in which there are any."""

    memory: Memory
    cells: WordCells
    words: dict[int, Handles] = field(default_factory=dict)

    def of(self, start: int) -> Handles:
        """Those of the buffer that begins at an address, made when they are first asked for."""
        if start not in self.words:
            interval = self.memory.around(start)
            assert interval is not None and interval.start == start
            self.words[start] = np.zeros(-(-(interval.end - start + 3 & ~3) // 4), np.uint32)
        return self.words[start]

    def load(self, addresses: Addresses, counts: Addresses, size: int, words: int) -> Handles:
        """Handles of `words` elements of `size` bytes from each address, [words, *shape]."""
        result: Handles = np.zeros((words, *addresses.shape), np.uint32)
        read = addresses[counts > 0]
        first, last = (int(read.min()), int(read.max()) + size * words) if read.size else (0, 0)
        for start, handles in self.words.items():
            if last <= start or first >= start + 4 * len(handles):
                continue
            for word in range(words):
                at = addresses + (size * word - start)
                inside = (counts > word) & (at >= 0) & (at + size <= 4 * len(handles))
                if inside.any():
                    result[word][inside] = gathered(self.cells, handles, at[inside], size)
        return result

    def store(self, addresses: Addresses, counts: Addresses, values: Handles, size: int) -> None:
        """Handles [words, *shape] to consecutive places of `size` bytes from each address, the first counts of them."""
        valid = counts[..., None] > np.arange(len(values))
        at = (addresses[..., None] + size * np.arange(len(values)))[valid]
        given = np.moveaxis(values, 0, -1)[valid]
        for interval in self.memory.intervals:
            inside = (at >= interval.start) & (at + size <= interval.end)
            if inside.any() and (interval.start in self.words or given[inside].any()):
                scattered(self.cells, self.of(interval.start), at[inside] - interval.start, given[inside], size)


class HandleCarrier:
    """A machine, and the second machine that has the handles of its registers and memories.

    The second one has a vector register more: the address of an LDS instruction, which is a value.
    """

    def __init__(self, machine: Machine, cells: WordCells, device: DeviceCells) -> None:
        self.machine = machine
        self.cells = cells
        self.device = device
        self.shadow = Machine(machine.arch, machine.waves, machine.workgroups, machine.registers + 1, machine.accum_offset,
                              machine.lds_bytes, machine.memory)
        self.shadow.workgroup, self.shadow.wave_in_group = machine.workgroup, machine.wave_in_group
        self.shadow.work = machine.work
        self._private: Handles | None = None
        self.made: dict[Any, Any] = {}  # of registers' elements, by their numbers: dropped when elements get others

    def reset(self) -> None:
        """Other waves take these waves' places."""
        self.shadow.reset()
        self._private = None

    def roots(self) -> list[Handles]:
        """All arrays of handles of this machine."""
        found = [self.shadow.vector_file, self.shadow.scalar, self.shadow.lds_u32]
        return found if self._private is None else [*found, self._private]

    def private(self) -> Handles:
        """Handles of all lanes' private memory."""
        if self._private is None:
            self._private = np.zeros(self.machine.waves * LANES * self.machine.private_stride // 4, np.uint32)
        return self._private

    def load(self, access: AddressedLanes, counts: Addresses, size: int, words: int) -> Handles:
        """Handles at an access, [words, waves, 64]."""
        memory = self._memory(access)
        if memory is None:
            return self.device.load(access.addresses, counts, size, words)
        result: Handles = np.zeros((words, *access.addresses.shape), np.uint32)
        for word in range(words):
            valid = counts > word
            result[word][valid] = gathered(self.cells, memory, access.addresses[valid] + size * word, size)
        return result

    def store(self, access: AddressedLanes, counts: Addresses, values: Handles, size: int) -> None:
        """Handles [words, waves, 64] to an access."""
        memory = self._memory(access)
        if memory is None:
            self.device.store(access.addresses, counts, values, size)
            return
        for word in range(len(values)):
            valid = counts > word
            scattered(self.cells, memory, access.addresses[valid] + size * word, values[word][valid], size)

    def _memory(self, access: AddressedLanes) -> Handles | None:
        if access.memory_name == "LDS":
            return self.shadow.lds_u32
        return self.private() if access.memory_name == "private memory" else None
