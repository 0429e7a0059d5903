"""The gathers and scatters of `lanes`, compiled. numpy's versions there are their test. Only `lanes` loads this file: it needs numba."""

from __future__ import annotations

from typing import Any

import numpy as np

from asmgen.emulator.machine.jit import njit, prefetch

_AHEAD = 16
"""Lanes by which the caches are asked before the data is needed."""


@njit(cache=True)
def load_words(u8: Any, u32: Any, addresses: Any, origin: int, counts: Any, result: Any) -> None:
    """result [words, lanes] from addresses [lanes]; a lane's first counts[lane] words, then 0."""
    words, flat, lanes = result.shape[0], result.reshape(-1), result.shape[1]
    for lane in range(len(addresses)):
        if lane + _AHEAD < len(addresses):
            prefetch(np.int64(u8.ctypes.data) + addresses[lane + _AHEAD] - origin)
        at, count = addresses[lane] - origin, counts[lane]
        if at & 3 == 0 and count == words:
            at >>= 2
            if words == 4:
                flat[lane], flat[lanes + lane] = u32[at], u32[at + 1]
                flat[2 * lanes + lane], flat[3 * lanes + lane] = u32[at + 2], u32[at + 3]
                continue
            for word in range(words):
                flat[word * lanes + lane] = u32[at + word]
        elif at & 3 == 0:
            at >>= 2
            for word in range(words):
                result[word, lane] = u32[at + word] if word < count else 0
        else:
            for word in range(words):
                value = np.uint32(0)
                if word < count:
                    for byte in range(4):
                        value |= np.uint32(u8[at + 4 * word + byte]) << np.uint32(8 * byte)
                result[word, lane] = value


@njit(cache=True)
def store_words(u8: Any, u32: Any, addresses: Any, origin: int, counts: Any, values: Any) -> None:
    """The first counts[lane] of values [words, lanes] to addresses [lanes], in lane order."""
    words, flat, lanes = values.shape[0], values.reshape(-1), values.shape[1]
    for lane in range(len(addresses)):
        if lane + _AHEAD < lanes:
            prefetch(np.int64(u8.ctypes.data) + addresses[lane + _AHEAD] - origin)
        at = addresses[lane] - origin
        if at & 3 == 0:
            at >>= 2
            if words == 4 and counts[lane] == 4:
                u32[at], u32[at + 1] = flat[lane], flat[lanes + lane]
                u32[at + 2], u32[at + 3] = flat[2 * lanes + lane], flat[3 * lanes + lane]
                continue
            for word in range(min(counts[lane], words)):
                u32[at + word] = flat[word * lanes + lane]
        else:
            for word in range(counts[lane]):
                for byte in range(4):
                    u8[at + 4 * word + byte] = values[word, lane] >> np.uint32(8 * byte)


@njit(cache=True)
def load_rows(u8: Any, u32: Any, addresses: Any, origin: int, counts: Any, result: Any) -> None:
    """result [lanes, words] from addresses [lanes]; a lane's first counts[lane] words, then 0."""
    words, flat = result.shape[1], result.reshape(-1)
    for lane in range(len(addresses)):
        if lane + _AHEAD < len(addresses):
            prefetch(np.int64(u8.ctypes.data) + addresses[lane + _AHEAD] - origin)
        at, to = addresses[lane] - origin, lane * words
        if at & 3 == 0 and counts[lane] == words:
            at >>= 2
            if words == 4:
                first, second, third, fourth = u32[at], u32[at + 1], u32[at + 2], u32[at + 3]
                flat[to], flat[to + 1], flat[to + 2], flat[to + 3] = first, second, third, fourth
                continue
            for word in range(words):
                flat[to + word] = u32[at + word]
            continue
        for word in range(words):
            value = np.uint32(0)
            if word < counts[lane]:
                for byte in range(4):
                    value |= np.uint32(u8[at + 4 * word + byte]) << np.uint32(8 * byte)
            flat[to + word] = value


@njit(cache=True)
def load_buffer_rows(vector: Any, waves: Any, descriptors: Any, starts: Any, offset: int, immediate: int, low: int, high: int, u32: Any,
                     origin: int, values: Any) -> bool:
    """values [waves, 64, words] by a plain buffer access of all lanes, by register `offset` where it is not negative.

    descriptors [4, waves], starts [waves] (soffset). False, with `values` in pieces, where a lane leaves its descriptor's range or the
    bytes low .. high - 1, or is not aligned.
    """
    words, flat, nothing = values.shape[2], values.reshape(-1), np.zeros(64, np.uint32)
    for number in range(len(waves)):
        base = np.int64(descriptors[0, number]) | np.int64(descriptors[1, number] & np.uint32(0xFFFF)) << 32
        first = base + starts[number] + immediate
        lanes = vector[offset, waves[number]] if offset >= 0 else nothing
        bottom, top, bits = lanes[0], np.uint32(0), np.uint32(first & 3)
        for lane in range(64):
            bottom, top, bits = min(bottom, lanes[lane]), max(top, lanes[lane]), bits | lanes[lane]
        reach = np.int64(top) + 4 * words
        if bits & np.uint32(3) or starts[number] + immediate + reach > descriptors[2, number]:
            return False
        if first + np.int64(bottom) < low or first + reach > high:
            return False
        begin, to = first - origin >> 2, number * 64 * words
        for lane in range(64):
            at = begin + np.int64(lanes[lane] >> np.uint32(2))
            if words == 4:
                one, two, three, four = u32[at], u32[at + 1], u32[at + 2], u32[at + 3]
                flat[to], flat[to + 1], flat[to + 2], flat[to + 3] = one, two, three, four
            else:
                for word in range(words):
                    flat[to + word] = u32[at + word]
            to += words
    return True


@njit(cache=True)
def put_rows(u32: Any, starts: Any, values: Any) -> None:
    """All of values [waves, 64, words] one after the other from aligned positions [waves] on."""
    size, flat = values.shape[1] * values.shape[2], values.reshape(-1)
    for wave in range(values.shape[0]):
        at, source = starts[wave] >> 2, wave * size
        for word in range(size):  # no slices: numba compiles their messages of sizes that differ, for seconds
            u32[at + word] = flat[source + word]


@njit(cache=True)
def store_rows(u8: Any, u32: Any, addresses: Any, origin: int, counts: Any, values: Any) -> None:
    """The first counts [waves, 64] of values [waves, 64, words] to addresses [waves, 64], in lane order."""
    lanes, words, flat = values.shape[1], values.shape[2], values.reshape(-1)
    for wave in range(values.shape[0]):
        first = addresses[wave, 0] - origin
        together = first & 3 == 0
        for lane in range(lanes):
            together &= (addresses[wave, lane] - origin == first + 4 * words * lane) & (counts[wave, lane] == words)
        if together:
            at, source = first >> 2, wave * lanes * words
            for word in range(lanes * words):
                u32[at + word] = flat[source + word]
            continue
        for lane in range(lanes):
            at = addresses[wave, lane] - origin
            for word in range(min(counts[wave, lane], words)):
                value = values[wave, lane, word]
                if at & 3 == 0:
                    u32[(at >> 2) + word] = value
                else:
                    for byte in range(4):
                        u8[at + 4 * word + byte] = value >> np.uint32(8 * byte)


@njit(cache=True)
def store_narrow(u8: Any, addresses: Any, origin: int, valid: Any, values: Any, size: int) -> None:
    """The low `size` bytes of valid lanes' values to their addresses, all [lanes]."""
    for lane in range(len(addresses)):
        if lane + _AHEAD < len(addresses):
            prefetch(np.int64(u8.ctypes.data) + addresses[lane + _AHEAD] - origin)
        if valid[lane]:
            for byte in range(size):
                u8[addresses[lane] - origin + byte] = values[lane] >> np.uint32(8 * byte)


@njit(cache=True)
def _plain(vector: Any, wave: int, everyone: bool, mask: Any, number: int, address: int, offsets: Any, width: int, size: int,
           bases: Any) -> bool:
    """Whether all lanes of a wave access whole aligned dwords within `size` bytes; `bases` [64] becomes its addresses."""
    highest, bits = np.int64(0), np.int64(0)
    given: Any = True
    for lane in range(64):
        base = np.int64(vector[address, wave, lane])
        bases[lane] = base
        highest, bits = max(highest, base), bits | base
    if not everyone:
        for lane in range(64):
            given &= mask[number, lane]
    reach = np.int64(0)
    for offset in offsets:
        reach, bits = max(reach, offset), bits | offset
    return bool(given and bits & 3 == 0 and highest + reach + width <= size)


@njit(cache=True)
def write_lds(vector: Any, waves: Any, everyone: bool, mask: Any, address: int, offsets: Any, words: int, sources: Any, u8: Any, u32: Any,
              homes: Any, size: int) -> None:
    """ds_write and ds_write2 of whole dwords, one place after the other, in lane order."""
    bases, flat, stride = np.empty(64, np.int64), vector.reshape(-1), vector.shape[1] * 64
    for location in range(len(offsets)):
        source, offset = sources[location], offsets[location:location + 1]
        for number in range(len(waves)):
            wave = waves[number]
            if _plain(vector, wave, everyone, mask, number, address, offset, 4 * words, size, bases):
                to, at = homes[number] + offset[0] >> 2, source * stride + wave * 64
                for lane in range(64):
                    for word in range(words):
                        u32[to + (bases[lane] >> 2) + word] = flat[at + word * stride + lane]
                continue
            for lane in range(64):
                at = bases[lane] + offset[0]
                if (not everyone and not mask[number, lane]) or at + 4 * words > size:
                    continue
                at += homes[number]
                for word in range(words):
                    value = vector[source + word, wave, lane]
                    if at & 3 == 0:
                        u32[(at >> 2) + word] = value
                    else:
                        for byte in range(4):
                            u8[at + 4 * word + byte] = value >> np.uint32(8 * byte)


@njit(cache=True)
def locate_in_lds(vector: Any, waves: Any, everyone: bool, mask: Any, address: int, offset: int, size: int, homes: Any, limit: int,
                 at: Any) -> None:
    """Byte addresses [waves, 64] of LDS accesses of `size` bytes; -16 where a lane is inactive or ends outside."""
    for number in range(len(waves)):
        wave = waves[number]
        for lane in range(64):
            location = np.int64(vector[address, wave, lane]) + offset
            inside = (everyone or mask[number, lane]) and location + size <= limit
            location = location + homes[number] if inside else np.int64(-16)
            at[number, lane] = location


@njit(cache=True)
def lanes_repeat(vector: Any, waves: Any, slot: int, count: int) -> bool:
    """Whether a register's lanes of each further `count` waves are those of the first."""
    for number in range(count, len(waves)):
        first, here = vector[slot, waves[number % count]], vector[slot, waves[number]]
        differs = np.uint32(0)
        for lane in range(64):
            differs |= first[lane] ^ here[lane]
        if differs != 0:
            return False
    return True


@njit(cache=True)
def locate_in_buffer(vector: Any, waves: Any, everyone: bool, mask: Any, descriptors: Any, starts: Any, index: int, offset: int,
                    immediate: int, size: int, words: int, addresses: Any, counts: Any) -> Any:
    """Addresses and element counts [waves, 64] of a plain buffer access; returns the bytes (first, end) that it spans.

    descriptors [4, waves], starts [waves] (soffset); index and offset are registers' slots, negative where there is none.
    """
    lowest, highest = np.int64(1) << 62, np.int64(0)
    for number in range(len(waves)):
        wave = waves[number]
        base = np.int64(descriptors[0, number]) | np.int64(descriptors[1, number] & np.uint32(0xFFFF)) << 32
        base = (base ^ np.int64(1) << 47) - (np.int64(1) << 47)
        stride = np.int64(descriptors[1, number] >> np.uint32(16) & np.uint32(0x3FFF))
        records, start = np.int64(descriptors[2, number]), starts[number]
        if everyone and index < 0:
            # Where all of a wave is in range nothing is asked of each lane.
            top = np.uint32(0)
            if offset >= 0:
                for lane in range(64):
                    top = max(top, vector[offset, wave, lane])
            if start + immediate + np.int64(top) + size * words <= records:
                first = base + start + immediate
                bottom = np.uint32(0xFFFFFFFF) if offset >= 0 else np.uint32(0)
                for lane in range(64):
                    counts[number, lane] = words
                if offset >= 0:
                    for lane in range(64):
                        bottom = min(bottom, vector[offset, wave, lane])
                        addresses[number, lane] = first + np.int64(vector[offset, wave, lane])
                else:
                    addresses[number, :] = first
                lowest, highest = min(lowest, first + np.int64(bottom)), max(highest, first + np.int64(top) + size * words)
                continue
        for lane in range(64):
            within, record = np.int64(immediate), np.int64(0)
            if offset >= 0:
                within += np.int64(vector[offset, wave, lane])
            if index >= 0:
                record = np.int64(vector[index, wave, lane])
                within += record * stride
            count = words
            if index >= 0 and stride > 0:
                if record >= records or start > records:
                    count = 0
            else:
                left = records - start - within
                if left < size * words:  # a division for each lane would take as long as all the rest
                    count = max(left // size, 0)
            if not everyone and not mask[number, lane]:
                count = 0
            at = base + start + within
            addresses[number, lane] = at
            counts[number, lane] = count
            if count > 0:
                lowest, highest = min(lowest, at), max(highest, at + size * count)
    return lowest, highest
