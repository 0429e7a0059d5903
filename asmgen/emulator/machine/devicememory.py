"""Device memory: the host's own memory at its real addresses, and the registry of what an access may touch."""

from __future__ import annotations

import bisect
import mmap
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from asmgen.isa.errors import AsmgenError

PAGE = 4096
ALIGNMENT = 256
GUARD = 4096  # bytes between intervals that no access may touch
_SPACE = (1 << 47) - 2 * PAGE  # user addresses of x86-64 and aarch64 hosts


class _Everything:
    """All of the host's address space from `PAGE` on, for numpy: it is looked at only where the registry allows."""

    def __init__(self, item: str) -> None:
        size = int(item[-1])
        self.__array_interface__ = {"shape": (_SPACE // size,), "typestr": item, "data": (PAGE, False), "version": 3}


@dataclass(frozen=True)
class Interval:
    """Bytes `start` to `end` - 1 that kernels may touch."""

    start: int
    end: int
    name: str


class Shadow(Protocol):
    """What is known of undefined bytes (shadowmemory.DeviceShadow): `bits` by the intervals' starts, only where there are any."""

    bits: dict[int, NDArray[np.uint8]]
    numbers: dict[int, NDArray[np.int32]]
    marks: list[Any]

    def findings(self, since: int) -> Iterator[Any]: ...


@dataclass
class Memory:
    """The registry, the allocations, and views of all memory by element size.

    `u8[address - PAGE]`, `u16[(address - PAGE) >> 1]` and so on are the host's bytes; callers check `touchable` first.
    """

    intervals: list[Interval] = field(default_factory=list)
    unread: set[int] = field(default_factory=set)
    """Starts of the intervals that the host will not read after a launch: what kernels leave in them may be undefined."""
    shadow: Shadow | None = None
    residents: list[Any] = field(default_factory=list)
    """What launches leave for others like them: their machines, with the code bound to them, the last one's last."""
    _maps: dict[int, mmap.mmap] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.u8: NDArray[np.uint8] = np.asarray(_Everything("|u1"))
        self.u16: NDArray[np.uint16] = np.asarray(_Everything("<u2"))
        self.u32: NDArray[np.uint32] = np.asarray(_Everything("<u4"))
        self.u64: NDArray[np.uint64] = np.asarray(_Everything("<u8"))
        self._bounds: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None  # starts and ends, made when they are asked for

    def allocate(self, size: int, name: str = "buffer") -> int:
        """Zeroed bytes at a 256-byte-aligned address, guarded on both sides; returns the address. Raises MemoryError."""
        # Private mappings that touch are one to the system, which allows a process 65,530 of them.
        try:
            block = mmap.mmap(-1, -(-max(size, 1) // PAGE) * PAGE + 2 * GUARD, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except (OSError, OverflowError):
            raise MemoryError(f"{size} bytes of device memory for {name}") from None
        base = np.frombuffer(block, np.uint8).ctypes.data
        start = base + GUARD
        self._maps[start] = block
        self.register(start, size, name)
        return start

    def register(self, start: int, size: int, name: str) -> None:
        """Allow accesses to bytes that the caller owns (and keeps alive)."""
        bisect.insort(self.intervals, Interval(start, start + size, name), key=lambda interval: interval.start)
        self._bounds = None

    def free(self, start: int) -> None:
        """Forbid an interval again and drop its memory if it was allocated here. Raises AsmgenError for an unknown address."""
        number = bisect.bisect_left(self.intervals, start, key=lambda interval: interval.start)
        if number == len(self.intervals) or self.intervals[number].start != start:
            raise AsmgenError(f"free of {start:#x}: no buffer begins there")
        del self.intervals[number]
        self.unread.discard(start)
        if self.shadow is not None:
            self.shadow.bits.pop(start, None)
            self.shadow.numbers.pop(start, None)
        self._maps.pop(start, None)
        self._bounds = None

    def view(self, start: int, size: int) -> NDArray[np.uint8]:
        """The bytes themselves. Raises AsmgenError where they do not lie in one interval."""
        if not self.covers(start, size):
            raise AsmgenError(f"{size} bytes at {start:#x} do not lie in one registered buffer")
        return self.u8[start - PAGE:start - PAGE + size]

    def written(self, start: int, size: int) -> None:
        """The host has written bytes of an interval: they are defined."""
        for first, bits in self.shadow.bits.items() if self.shadow is not None else ():
            bits[max(0, start - first):max(0, start + size - first)] = 0

    def covers(self, start: int, size: int) -> bool:
        """Whether all the bytes lie in one interval."""
        interval = self.around(start)
        return interval is not None and start + size <= interval.end

    def around(self, start: int) -> Interval | None:
        """The last interval that begins at an address or before it."""
        number = bisect.bisect_right(self.intervals, start, key=lambda interval: interval.start) - 1
        return self.intervals[number] if number >= 0 else None

    def touchable(self, addresses: NDArray[np.int64], size: int) -> NDArray[np.bool_]:
        """For each address whether `size` bytes from it lie in one interval."""
        if self._bounds is None:
            self._bounds = (np.array([interval.start for interval in self.intervals], np.int64),
                            np.array([interval.end for interval in self.intervals], np.int64))
        starts, ends = self._bounds
        if not len(starts):
            return np.zeros(addresses.shape, bool)
        number = np.searchsorted(starts, addresses, side="right") - 1
        return (number >= 0) & (addresses + size <= ends[number])
