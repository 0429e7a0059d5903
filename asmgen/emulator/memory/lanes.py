"""Gathers and scatters: what lanes load from and store to byte addresses, in device memory, LDS or private memory.

Where lanes of a store collide, the last one stays: the arrays are in lane order, waves in ascending order before that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.machine.compiled import Work
from asmgen.emulator.machine.devicememory import PAGE, Memory

Addresses = NDArray[np.int64]
Lanes = NDArray[np.bool_]
Words = NDArray[np.uint32]


@dataclass(frozen=True, repr=False)
class ByteView:
    """Bytes that lanes may touch, in three widths; byte address `origin` is element 0. `work` decides when loops are compiled.

    It is never printed: an array over all of the host's memory cannot be.
    """

    u8: NDArray[np.uint8]
    u32: NDArray[np.uint32]
    u64: NDArray[np.uint64]
    origin: int
    work: Work


def device_view(memory: Memory, work: Work) -> ByteView:
    """All of the host's memory by its real addresses."""
    return ByteView(memory.u8, memory.u32, memory.u64, PAGE, work)


def array_view(data: NDArray[np.uint8], work: Work) -> ByteView:
    """An array of bytes, a multiple of eight of them."""
    return ByteView(data, data.view(np.uint32), data.view(np.uint64), 0, work)


def load_words(view: ByteView, addresses: Addresses, counts: NDArray[np.int64], words: int) -> Words:
    """[words, *shape] from `addresses` of any shape; a lane loads its first counts[lane] words, the others are 0 and touch nothing."""
    if view.work.pays(8 * addresses.size * words):
        from asmgen.emulator.memory import lanes_kernels

        result = np.empty((words, addresses.size), np.uint32)
        lanes_kernels.load_words(view.u8, view.u32, addresses.ravel(), view.origin, counts.ravel(), result)
        return result.reshape(words, *addresses.shape)
    result = np.zeros((words, *addresses.shape), np.uint32)
    for word in range(words):
        valid = counts > word
        result[word][valid] = _gather(view, addresses[valid] + 4 * word, 4)
    return result


def store_words(view: ByteView, addresses: Addresses, counts: NDArray[np.int64], values: Words) -> None:
    """The first counts[lane] words of each lane's `values` [words, *shape] to consecutive words from its address."""
    if view.work.pays(8 * values.size):
        from asmgen.emulator.memory import lanes_kernels

        flat = np.ascontiguousarray(values).reshape(len(values), addresses.size)
        lanes_kernels.store_words(view.u8, view.u32, addresses.ravel(), view.origin, counts.ravel(), flat)
        return
    offsets = 4 * np.arange(len(values))
    valid = counts[..., None] > np.arange(len(values))  # lane by lane, so that later lanes overwrite earlier ones
    _scatter(view, (addresses[..., None] + offsets)[valid], np.moveaxis(values, 0, -1)[valid], 4)


def load_rows(view: ByteView, addresses: Addresses, counts: NDArray[np.int64], words: int, into: Words | None = None) -> Words:
    """As `load_words`, but [*shape, words]: what a lane loads lies together, as it does in memory. `into`: where it may be put."""
    if view.work.pays(8 * addresses.size * words):
        from asmgen.emulator.memory import lanes_kernels

        result = np.empty((*addresses.shape, words), np.uint32) if into is None else into
        lanes_kernels.load_rows(view.u8, view.u32, addresses.ravel(), view.origin, counts.ravel(), result.reshape(-1, words))
        return result
    return np.ascontiguousarray(np.moveaxis(load_words(view, addresses, counts, words), 0, -1))


def store_rows(view: ByteView, addresses: Addresses, counts: NDArray[np.int64], values: Words) -> None:
    """As `store_words`, but `values` are [waves, 64, words]."""
    if view.work.pays(8 * values.size):
        from asmgen.emulator.memory import lanes_kernels

        lanes_kernels.store_rows(view.u8, view.u32, addresses, view.origin, counts, values)
        return
    store_words(view, addresses, counts, np.moveaxis(values, -1, 0))


def load_narrow(view: ByteView, addresses: Addresses, valid: Lanes, size: int) -> Words:
    """One or two bytes from each valid lane's address, zero-extended; 0 in other lanes."""
    result = np.zeros(addresses.shape, np.uint32)
    result[valid] = _gather(view, addresses[valid], size)
    return result


def store_narrow(view: ByteView, addresses: Addresses, valid: Lanes, values: Words, size: int) -> None:
    """The low one or two bytes of each valid lane's value to its address."""
    if view.work.pays(16 * addresses.size):
        from asmgen.emulator.memory import lanes_kernels

        lanes_kernels.store_narrow(view.u8, addresses.ravel(), view.origin, valid.ravel(), values.ravel(), size)
        return
    _scatter(view, addresses[valid], values[valid], size)


def _gather(view: ByteView, addresses: Addresses, size: int) -> Words:
    """`size` (1, 2 or 4) bytes from each address [n] as a number; any alignment."""
    at = addresses - view.origin
    if size == 4 and not (at & 3).any():
        words: Words = view.u32[at >> 2]
        return words
    value = view.u8[at].astype(np.uint32)
    for byte in range(1, size):
        value |= view.u8[at + byte].astype(np.uint32) << np.uint32(8 * byte)
    return value


def _scatter(view: ByteView, addresses: Addresses, values: Words, size: int) -> None:
    """The low `size` bytes of each value [n] to its address, in this order."""
    at = addresses - view.origin
    if size == 4 and not (at & 3).any():
        view.u32[at >> 2] = values
        return
    shifts = np.arange(size)
    view.u8[at[:, None] + shifts] = (values[:, None] >> (8 * shifts).astype(np.uint32)).astype(np.uint8)


def sign_extended(values: Words, size: int) -> Words:
    """Numbers of `size` bytes as 32-bit ones."""
    shift = 32 - 8 * size
    extended: Any = values.astype(np.int32) << shift >> shift
    return np.asarray(extended, np.int32).view(np.uint32)
