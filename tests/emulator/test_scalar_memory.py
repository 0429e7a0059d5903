"""Scalar memory: addresses, descriptors' bounds, atomics of single and many waves, against Python integers."""

from __future__ import annotations

import numpy as np
import pytest

from asmgen.author.emit.builder import Builder
from asmgen.isa.registers import s, v
from tests.emulator_launch import ORDERS, launch, load_pointers, store_by_item


def zeros(count: int) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    return np.zeros(count, np.uint32)


def test_scalar_loads_and_stores() -> None:
    def emit(k: Builder) -> None:
        load_pointers(k, 1)
        k.s_load_dwordx4(s[20:23], s[8:9], 16)
        k.s_mov_b32(s[30], 10)  # its low bits are ignored
        k.s_load_dwordx2(s[24:25], s[8:9], s[30], offset=4)
        k.s_waitcnt(lgkmcnt=0)
        k.s_add_u32(s[26], s[8], 64)
        k.s_addc_u32(s[27], s[9], 0)
        k.s_load_dword(s[28], s[26:27], -60)
        k.s_waitcnt(lgkmcnt=0)
        k.s_store_dwordx4(s[20:23], s[8:9], 80)
        k.s_store_dwordx2(s[24:25], s[8:9], 96)
        k.s_store_dword(s[28], s[8:9], 104)
        k.s_dcache_wb()
        k.s_endpgm()

    before = np.arange(32, dtype=np.uint32) * 11
    after = launch("gfx950", emit, buffers=[before]).buffers[0]
    expected = before.copy()
    expected[20:24], expected[24:26], expected[26] = before[4:8], before[3:5], before[1]
    assert after.tolist() == expected.tolist()


@pytest.mark.parametrize("stride,records", [(0, 20), (4, 5), (8, 2)])
def test_scalar_buffer_loads_are_bounded(stride: int, records: int) -> None:
    """The range is `records` bytes without a stride, else records * stride; dwords outside give 0, stores outside do nothing."""

    def emit(k: Builder) -> None:
        load_pointers(k, 1)
        k.s_mov_b64(s[20:21], s[8:9])
        k.s_or_b32(s[21], s[21], stride << 16)
        k.s_mov_b32(s[22], records)
        k.s_mov_b32(s[23], 0x27000)
        k.s_buffer_load_dwordx4(s[24:27], s[20:23], 8)
        k.s_waitcnt(lgkmcnt=0)
        k.s_store_dwordx4(s[24:27], s[8:9], 64)
        k.s_buffer_store_dword(s[24], s[20:23], 40)
        k.s_endpgm()

    before = np.arange(1, 33, dtype=np.uint32)
    size = records * max(stride, 1)
    after = launch("gfx942", emit, buffers=[before]).buffers[0]
    expected = before.copy()
    expected[16:20] = [before[2 + n] if 8 + 4 * n < size else 0 for n in range(4)]
    assert after.tolist() == expected.tolist()


def atomic(name: str, old: int, data: int, bits: int) -> int:
    ones = (1 << bits) - 1

    def sign(x: int) -> int:
        return x - (1 << bits) if x >> bits - 1 else x

    return {"swap": data, "add": old + data & ones, "sub": old - data & ones, "and": old & data, "or": old | data, "xor": old ^ data,
            "umin": min(old, data), "umax": max(old, data), "smin": old if sign(old) < sign(data) else data,
            "smax": old if sign(old) > sign(data) else data, "inc": 0 if old >= data else old + 1,
            "dec": data if old == 0 or old > data else old - 1}[name]


@pytest.mark.parametrize("name", ["swap", "add", "sub", "and", "or", "xor", "umin", "umax", "smin", "smax", "inc", "dec"])
@pytest.mark.parametrize("bits", [32, 64])
def test_scalar_atomics(name: str, bits: int) -> None:
    ones = (1 << bits) - 1
    for old, data in ((5, 3), (3, 5), (0, 7), (7, 7), (ones, 1), (1, ones), (1 << bits - 1, 2), (ones, ones)):
        def emit(k: Builder, data: int = data) -> None:
            load_pointers(k, 1)
            k.s_mov_b32(s[20], data & 0xFFFFFFFF)
            k.s_mov_b32(s[21], data >> 32)
            suffix, register = ("_x2", s[20:21]) if bits == 64 else ("", s[20])
            k.emit(f"s_atomic_{name}{suffix}", register, s[8:9], 8, glc=True)
            k.s_waitcnt(lgkmcnt=0)
            k.s_store_dwordx2(s[20:21], s[8:9], 16)
            k.s_endpgm()

        before = np.array([9, old, 0], np.uint64)
        after = launch("gfx950", emit, buffers=[before]).buffers[0]
        kept = data >> 32 << 32 if bits == 32 else 0
        assert after.tolist() == [9, old >> bits << bits | atomic(name, old, data, bits), old | kept], (name, old, data)


@pytest.mark.parametrize("match", [False, True])
def test_scalar_compare_and_swap(match: bool) -> None:
    def emit(k: Builder) -> None:
        load_pointers(k, 1)
        k.s_mov_b32(s[20], 111)
        k.s_mov_b32(s[21], 5 if match else 6)
        k.s_atomic_cmpswap(s[20:21], s[8:9], 4, glc=True)
        k.s_waitcnt(lgkmcnt=0)
        k.s_store_dword(s[20], s[8:9], 8)
        k.s_endpgm()

    assert launch("gfx950", emit, buffers=[np.array([1, 5, 0], np.uint32)]).buffers[0].tolist() == [1, 111 if match else 5, 5]


@pytest.mark.parametrize("order", ORDERS)
def test_scalar_atomics_of_many_waves(order: str) -> None:
    """Every wave takes a ticket: all are different, and without glc nothing comes back."""

    def emit(k: Builder) -> None:
        load_pointers(k, 2)
        k.s_mov_b32(s[20], 1)
        k.s_mov_b32(s[21], 1000)
        k.s_atomic_add(s[21], s[8:9], 4)
        k.s_atomic_add(s[20], s[8:9], 0, glc=True)
        k.s_waitcnt(lgkmcnt=0)
        k.v_mov_b32(v[1], s[20])
        store_by_item(k, 1, 64, base=10)
        k.s_endpgm()

    launched = launch("gfx942", emit, (9, 1, 1), (64, 1, 1), [zeros(2), zeros(576)], order=order)
    assert launched.buffers[0].tolist() == [9, 9000] and sorted(launched.buffers[1][::64].tolist()) == list(range(9))


def test_a_scalar_load_outside_of_every_buffer_is_a_finding() -> None:
    def emit(k: Builder) -> None:
        load_pointers(k, 1)
        k.s_load_dwordx2(s[20:21], s[8:9], 252)
        k.s_waitcnt(lgkmcnt=0)
        k.s_endpgm()

    launched = launch("gfx950", emit, buffers=[zeros(64)])
    assert launched.checks == ["access-outside-registry"]


def test_scratch_forms_count_64_bytes_in_a_register() -> None:
    """s_scratch_*: an SGPR offset is multiplied by 64, an immediate one is bytes."""

    def emit(k: Builder) -> None:
        load_pointers(k, 1)
        k.s_mov_b32(s[30], 2)
        k.s_scratch_load_dword(s[20], s[8:9], s[30])
        k.s_scratch_load_dwordx2(s[22:23], s[8:9], 12)
        k.s_waitcnt(lgkmcnt=0)
        k.s_mov_b32(s[30], 1)
        k.s_scratch_store_dword(s[20], s[8:9], s[30])
        k.s_scratch_store_dwordx2(s[22:23], s[8:9], 200)
        k.s_endpgm()

    before = np.arange(64, dtype=np.uint32) * 7
    expected = before.copy()
    expected[16], expected[50], expected[51] = before[32], before[3], before[4]
    assert launch("gfx942", emit, buffers=[before]).buffers[0].tolist() == expected.tolist()


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
def test_every_width_of_loads(width: int) -> None:
    """Both address forms, from both kinds of base; stores of the widths that exist."""
    name = "" if width == 1 else f"x{width}"
    target = s[32:31 + width] if width > 1 else s[32]

    def emit(k: Builder) -> None:
        load_pointers(k, 2)
        k.s_mov_b64(s[20:21], s[8:9])
        k.s_mov_b32(s[22], 1 << 20)
        k.s_mov_b32(s[23], 0x27000)
        k.s_mov_b32(s[24], 20)
        k.s_mov_b32(s[25], 0)
        for number, (base, offset) in enumerate(((s[8:9], 36), (s[8:9], s[24]), (s[20:23], 52), (s[20:23], s[24]))):
            k.emit(f"s_{'buffer_' if base.count == 4 else ''}load_dword{name}", target, base, offset)
            k.s_waitcnt(lgkmcnt=0)
            for word in range(width):
                k.s_store_dword(s[32 + word], s[10:11], 64 * number + 4 * word)
        k.s_endpgm()

    before = np.random.default_rng(3).integers(0, 1 << 32, 64, dtype=np.uint32)
    after = launch("gfx950", emit, buffers=[before, zeros(64)]).buffers[1]
    for number, first in enumerate((9, 5, 13, 5)):
        assert after[16 * number:16 * number + width].tolist() == before[first:first + width].tolist()


def test_buffer_atomics_are_bounded() -> None:
    def emit(k: Builder) -> None:
        load_pointers(k, 1)
        k.s_mov_b64(s[20:21], s[8:9])
        k.s_mov_b32(s[22], 12)
        k.s_mov_b32(s[23], 0x27000)
        for number in range(3):
            k.s_mov_b32(s[30], 100)
            k.s_buffer_atomic_add(s[30], s[20:23], 4 + 4 * number, glc=True)
            k.s_waitcnt(lgkmcnt=0)
            k.s_store_dword(s[30], s[8:9], 32 + 4 * number)
        k.s_endpgm()

    before = np.arange(1, 17, dtype=np.uint32)
    after = launch("gfx950", emit, buffers=[before]).buffers[0]
    expected = before.copy()
    expected[1:3] += 100
    expected[8:11] = 2, 3, 0
    assert after.tolist() == expected.tolist()
