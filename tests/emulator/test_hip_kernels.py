"""HIP kernels as clang compiles them, on both architectures and in three wave orders: control, integers, memory, lanes.

Each is compared with numpy or plain Python, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.clang_objects import ARCHS, needs_clang
from tests.hip_launch import Array, floats, ints, run_hip

pytestmark = [needs_clang, pytest.mark.needs_objdump, pytest.mark.parametrize("arch", ARCHS)]
LOW, HIGH = -(1 << 31), (1 << 31) - 1


def test_vector_add(arch: str) -> None:
    a, b, o = floats(1000, 1), floats(1000, 2), np.zeros(1024, np.float32)
    out = run_hip("vector_add", arch, "vector_add", 4, 256, [o, a, b, 1000])[0]
    assert out[:1000].tolist() == (a + b).tolist() and not out[1000:].any()


def test_axpy_of_vectors(arch: str) -> None:
    a, b, o = floats(600, 1), floats(600, 2), np.zeros(640, np.float32)
    out = run_hip("vector_add", arch, "axpy4", 1, 256, [o, a, b, 2.5, 600])[0]
    exact = np.float64(2.5) * a.astype(np.float64) + b
    assert out[:600].tolist() == exact.astype(np.float32).tolist() and not out[600:].any()


def test_preloaded_arguments(arch: str) -> None:
    a, o = floats(100, 3), np.zeros(128, np.float32)
    out = run_hip("preload_args", arch, "preload_args", 2, 64, [o, a, 100, 2.0, 0.5, 0.25])[0]
    assert out[:100].tolist() == (a * np.float32(2) + np.float32(0.5) + np.float32(0.25)).tolist() and not out[100:].any()


@pytest.mark.parametrize("level", [1, 2, 3])
def test_divergent_kernel_with_calls(arch: str, level: int) -> None:
    a, o = floats(250, 4, 8), np.zeros(256, np.float32)
    out = run_hip("divergent_calls", arch, "divergent_calls", 2, 128, [o, a, 250], level=level)[0]
    for i in range(250):
        if a[i] > 0:
            total = np.float32(0)
            for step in range(i % 7):
                total = np.float32(np.float64(a[i]) * step + np.float64(total))  # contracted to a fused operation
        elif a[i] < -1:
            number, steps = i + 1, 0
            while number > 1 and steps < 100:
                number, steps = (3 * number + 1 if number & 1 else number // 2), steps + 1
            total = np.float32(steps)
        else:
            total = a[i]
        assert out[i] == total, i
    assert not out[250:].any()


@pytest.mark.parametrize("level", [1, 2])
def test_calls_through_function_pointers(arch: str, level: int) -> None:
    a, pick = ints(192, 5).view(np.uint32), ints(192, 6, 0, 1000).view(np.uint32)
    out = run_hip("indirect_calls", arch, "indirect_calls", 3, 64, [np.zeros(192, np.uint32), a, pick], level=level)[0]
    functions: list[Callable[[int], int]] = [lambda x: x + 1, lambda x: x * x, lambda x: int(format(x, "032b")[::-1], 2),
                                             lambda x: sum(range((x & 15) + 1))]
    assert out.tolist() == [functions[int(p) % 4](int(x)) & 0xFFFFFFFF for x, p in zip(a, pick, strict=True)]


def test_state_machine(arch: str) -> None:
    a = ints(128, 7).view(np.uint32)
    code = np.array([0, 5, 1, 2, 9, 3, 4, 6, 8, 5, 5, 1, 3, 7, 2, 1], np.uint8)
    out = run_hip("switch_state", arch, "switch_state", 2, 64, [np.zeros(128, np.uint32), a, code, len(code)])[0]
    for i in range(128):
        x, p, again = int(a[i]), 0, True
        while p < len(code):
            operation = int(code[p])
            if operation == 9 and again:
                again, p = False, 0
                continue
            x = [x + 1, x * 3, x - i, x ^ p, x >> 1, x << 5 | x >> 27, -x, x & 0xFFFF, x | 1, x][operation] & 0xFFFFFFFF
            p += 1
        assert out[i] == x, i


def test_private_memory(arch: str) -> None:
    a, picks = ints(128, 8), ints(1024, 9)
    out = run_hip("scratch_array", arch, "scratch_array", 2, 64, [np.zeros(128, np.int32), a, picks])[0]
    expected = (a[:, None] * (picks.reshape(128, 8) & 31)).sum(axis=1, dtype=np.int32)
    assert out.tolist() == expected.tolist()


def test_64_bit_integers(arch: str) -> None:
    chance = np.random.default_rng(10)
    a, b = (chance.integers(-(1 << 63), (1 << 63) - 1, 100) >> chance.integers(0, 60, 100) for _ in range(2))
    b[b == 0] = 3
    out = run_hip("integer64", arch, "integer64", 2, 64, [np.zeros(800, np.int64), a, b, 100])[0].reshape(100, 8)
    for i in range(100):
        x, y = int(a[i]), int(b[i])
        quotient = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
        shift, ux, uy = y & 63, x % (1 << 64), y % (1 << 64)
        expected = [x * y, quotient, x - quotient * y, x << shift, x >> shift, ux // uy, ux >> shift, x * y >> 64]
        assert [int(value) % (1 << 64) for value in out[i]] == [value % (1 << 64) for value in expected], (x, y)


def test_bit_tricks(arch: str) -> None:
    a, b = ints(128, 11).view(np.uint32), ints(128, 12).view(np.uint32)
    a[:3] = 0, 1, 0x80000000
    out = run_hip("bit_tricks", arch, "bit_tricks", 2, 64, [np.zeros(2048, np.uint32), a, b])[0].reshape(128, 16)
    for i in range(128):
        x, y = int(a[i]), int(b[i])
        bits = format(x, "032b")
        field = x >> 5 & 255
        data = y.to_bytes(4, "little") + x.to_bytes(4, "little")  # perm selects from y's bytes 0 to 3, x's 4 to 7
        xs, ys = x.to_bytes(4, "little"), y.to_bytes(4, "little")
        odd = [int(value) & 1 for value in a[i // 64 * 64:i]]
        expected = [bits.count("1"), bits.find("1") if x else 32, bits[::-1].find("1") if x else 32, int(bits[::-1], 2),
                    int.from_bytes(xs, "big"), field, field - 256 if field > 127 else field, (x << 32 | y) >> 7,
                    int.from_bytes(bytes(data[byte] for byte in (0x03, 0x07, 0x04, 0x01)), "little"), sum(abs(p - q) for p,
                                                                                                          q in zip(xs, ys, strict=True)),
                    sorted((x, y, i))[1], int.from_bytes(bytes((p + q + 1) >> 1 for p, q in zip(xs, ys, strict=True)),
                                                         "little"), x & y | ~x & i,
                    (x & 0xFFFFFF) * (y & 0xFFFFFF), x * y >> 32, sum(odd)]
        assert out[i].tolist() == [value & 0xFFFFFFFF for value in expected], i


def packed(values: Array, bits: int, signed: bool) -> Array:
    """Fields of `bits` in 32-bit words, lowest first: [words, fields]."""
    fields = values.view(np.uint32)[:, None] >> np.arange(0, 32, bits, dtype=np.uint32) & np.uint32((1 << bits) - 1)
    wide = fields.astype(np.int64)
    return np.where(wide >> bits - 1, wide - (1 << bits), wide) if signed else wide


def test_integer_dot_products(arch: str) -> None:
    a, b = ints(128, 13), ints(128, 14)
    halves = np.random.default_rng(15).integers(-8, 8, (2, 128, 2)).astype(np.float16)
    for number, words in enumerate((a, b)):
        words[64:] = np.ascontiguousarray(halves[number, 64:]).view(np.int32)[:, 0]
    out, f, _, _ = run_hip("dot_products", arch, "dot_products", 2, 64, [np.zeros(768, np.int32), np.zeros(128, np.float32), a, b, -77])
    for column, (bits, signed) in enumerate([(8, True), (8, False), (4, True), (4, False), (16, True), (16, False)]):
        expected = (packed(a, bits, signed) * packed(b, bits, signed)).sum(axis=1) - 77
        assert out.reshape(128, 6)[:, column].tolist() == expected.astype(np.int32).tolist(), (bits, signed)
    exact = (halves[0].astype(np.float32) * halves[1].astype(np.float32)).sum(axis=1) - 77
    assert f[64:].tolist() == exact[64:].tolist()


def test_rows_of_bytes(arch: str) -> None:
    a, b = ints(1024, 16), ints(16, 17)
    out = run_hip("dot_products", arch, "row_dot", 1, 64, [np.zeros(64, np.int32), a, b])[0]
    expected = a.view(np.int8).reshape(64, 64).astype(np.int32) @ b.view(np.int8).astype(np.int32)
    assert out.tolist() == expected.tolist()


def test_bitonic_sort_in_lds(arch: str) -> None:
    a = ints(768, 18)
    a[5:40] = a[4]
    out = run_hip("bitonic_sort", arch, "bitonic_sort", 3, 256, [a])[0]
    assert out.reshape(3, 256).tolist() == np.sort(a.reshape(3, 256), axis=1).tolist()


def test_reduction_in_lds(arch: str) -> None:
    a = floats(700, 19)
    out = run_hip("lds_reduce", arch, "lds_reduce", 3, 256, [np.zeros(3, np.float32), a, 700])[0]
    part = np.zeros(768, np.float32)
    part[:700] = a
    tree = part.reshape(3, 256)
    for step in (128, 64, 32, 16, 8, 4, 2, 1):
        tree = tree[:, :step] + tree[:, step:2 * step]
    assert out.tolist() == tree[:, 0].tolist()


def test_maximum_by_lds_atomics(arch: str) -> None:
    a = ints(1024, 20)
    a[256:512] = -np.abs(a[256:512] // 2) - 1
    out = run_hip("lds_reduce", arch, "lds_maximum", 4, 256, [np.zeros(4, np.int32), a])[0]
    assert out.tolist() == a.reshape(4, 256).max(axis=1).tolist()


def test_transpose_in_lds(arch: str) -> None:
    a = np.random.default_rng(21).integers(0, 1 << 16, 8192).astype(np.uint16)
    out = run_hip("lds_transpose", arch, "lds_transpose", 2, 256, [np.zeros(8192, np.uint16), a])[0]
    assert out.reshape(2, 64, 64).tolist() == a.reshape(2, 64, 64).transpose(0, 2, 1).tolist()


def test_transposing_reads(arch: str) -> None:
    """b16 as docs/facts/semantics.md section 5 says; the narrower ones by the same rule, each group of 16 lanes by itself (unconfirmed)."""
    if arch == "gfx942":
        return  # it has none
    a = ints(256, 22)
    o16, o8, o4, o6, _ = run_hip("lds_transpose", arch, "lds_read_transposed", 1, 64,
                                 [np.zeros(128, np.int32), np.zeros(128, np.int32), np.zeros(128, np.int32), np.zeros(256, np.int32), a])
    rows = a[:128].view(np.uint16).reshape(4, 16, 4)
    expected = np.stack([[[rows[g, 4 * j + l // 4, l % 4] for j in range(4)] for l in range(16)] for g in range(4)])
    assert o16.view(np.uint16).reshape(4, 16, 4).tolist() == expected.tolist()
    assert sorted(o8.view(np.uint8).tolist()) == sorted(a[:128].view(np.uint8).tolist())
    assert sorted(packed(o4, 4, False).reshape(-1).tolist()) == sorted(packed(a[:128], 4, False).reshape(-1).tolist())
    for group in range(4):  # no group of 16 lanes takes anything of another
        mine = slice(32 * group, 32 * group + 32)
        assert sorted(o8[mine].view(np.uint8).tolist()) == sorted(a[:128][mine].view(np.uint8).tolist())
    assert o6.any() and not o6.reshape(64, 4)[:, 3].any()  # three words of each four


def test_lanes(arch: str) -> None:
    a = ints(128, 23)
    out = run_hip("lane_ops", arch, "lane_ops", 2, 64, [np.zeros(1280, np.int32), a])[0].reshape(2, 10, 64)
    lane = np.arange(64)
    for group in range(2):
        x = a[64 * group:64 * group + 64]
        odd = lane // 16 % 2 == 1
        expected = [x[lane ^ 3], np.where(lane % 16 == 0, -1, x[lane - 1]), np.where(odd, x[lane // 16 * 16 + 15 - lane % 16], -1),
                    np.where(odd, x[np.maximum(lane // 16 * 16 - 1, 0)], 0), x[lane ^ 1], x[63 - lane], x[(lane - 5) % 64], np.full(64,
                                                                                                                                    x[17]),
                    np.full(64, x[0]), x[lane // 16 * 16 + (lane % 16 - 3) % 16]]
        for row in range(10):
            assert out[group, row].tolist() == expected[row].tolist(), row


def test_scan_by_lane_shifts(arch: str) -> None:
    a = ints(128, 24)
    out = run_hip("lane_ops", arch, "wave_scan", 2, 64, [np.zeros(128, np.int32), a])[0]
    assert out.reshape(2, 64).tolist() == np.cumsum(a.reshape(2, 64), axis=1, dtype=np.int32).tolist()


def test_lane_swaps(arch: str) -> None:
    """Odd rows of 16 of the first with even ones of the second; upper half with lower half (docs/facts/semantics.md section 6)."""
    if arch == "gfx942":
        return  # it has none
    a, b = ints(64, 25), ints(64, 26)
    out = run_hip("lane_ops", arch, "lane_swap", 1, 64, [np.zeros(256, np.int32), a, b])[0].reshape(64, 4).T
    first, second = a.reshape(4, 16), b.reshape(4, 16)
    assert out[0].tolist() == np.concatenate([first[0], second[0], first[2], second[2]]).tolist()
    assert out[1].tolist() == np.concatenate([first[1], second[1], first[3], second[3]]).tolist()
    assert out[2].tolist() == [*a[:32], *b[:32]] and out[3].tolist() == [*a[32:], *b[32:]]


def test_integer_atomics(arch: str) -> None:
    a = ints(300, 27)
    start = np.array([5, HIGH, LOW, -1, 0, 0, 0, -1], np.int32)
    out = run_hip("atomics", arch, "atomics_integer", 5, 64, [start, a, 300])[0]
    u = a.view(np.uint32)
    expected = [(5 + int(a.sum(dtype=np.int64))) & 0xFFFFFFFF, int(a.min()), int(a.max()), int(np.bitwise_and.reduce(a)),
                int(np.bitwise_or.reduce(a)),
                int(np.bitwise_xor.reduce(a)), int(u.max()), int(u.min())]
    assert [int(value) & 0xFFFFFFFF for value in out] == [value & 0xFFFFFFFF for value in expected]


def test_wide_atomics_and_tickets(arch: str) -> None:
    a = np.random.default_rng(28).integers(-(1 << 62), 1 << 62, 200)
    start = np.array([7, (1 << 63) - 1, -(1 << 63), -1, 0, 0, 0], np.int64)
    out, ticket, _ = run_hip("atomics", arch, "atomics_wide", 4, 64, [start, np.zeros(256, np.uint64), a, 200], same=False)
    expected = [7 + sum(map(int, a)), int(a.min()), int(a.max()), int(np.bitwise_and.reduce(a)), int(np.bitwise_or.reduce(a)),
                int(np.bitwise_xor.reduce(a)), 200]
    assert [int(value) % (1 << 64) for value in out] == [value % (1 << 64) for value in expected]
    assert sorted(ticket[:200].tolist()) == list(range(200)) and not ticket[200:].any()


def test_compare_and_swap_loops(arch: str) -> None:
    a = np.random.default_rng(29).integers(-20, 20, 150).astype(np.float32)  # sums of squares stay exact
    total, s, _ = run_hip("atomics", arch, "atomics_exchange", 3, 64, [np.zeros(1, np.float32), np.array([0, 9, 999], np.uint32), a, 150],
                          same=False)
    assert total[0] == (a * a).sum(dtype=np.float64)
    assert s[0] == 150 % 10 and s[1] == (9 - 150) % 10 and s[2] < 150


def test_histogram(arch: str) -> None:
    a = ints(1024, 30).view(np.uint32)
    out = run_hip("atomics", arch, "histogram", 4, 256, [np.zeros(32, np.uint32), a])[0]
    assert out.tolist() == np.bincount(a % 32, minlength=32).tolist()


def test_buffer_bounds(arch: str) -> None:
    """What lies after the ends counts as 0 and stays as it is."""
    a, o = ints(300, 31).view(np.uint32), np.full(300, 77, np.uint32)
    out = run_hip("buffer_loads", arch, "buffer_loads", 5, 64, [o, a, 1000, 803])[0]
    data = np.zeros(2000, np.uint8)
    data[:803] = a.view(np.uint8)[:803]
    words = [int(data[4 * i:4 * i + 4].view(np.uint32)[0]) if 4 * i + 4 <= 803 else 0 for i in range(320)]
    pairs = [int(data[2 * i:2 * i + 2].view(np.uint16)[0]) if 2 * i + 2 <= 803 else 0 for i in range(320)]
    expected = [(words[i] + int(data[i]) + pairs[i]) & 0xFFFFFFFF if i < 250 else 77 for i in range(300)]
    assert out.tolist() == expected


def test_wide_buffer_accesses(arch: str) -> None:
    a, o = ints(400, 32).view(np.uint32), np.zeros(400, np.uint32)
    size, start, mask = 1300, 64, 0x55AA0FF0
    out = run_hip("buffer_loads", arch, "buffer_wide", 2, 64, [o, a, size, start, mask])[0]
    inside = np.where(np.arange(600) < size // 4, np.concatenate([a, np.zeros(200, np.uint32)]), 0).astype(np.uint32)
    expected = np.zeros(400, np.uint32)
    for i in range(128):
        first = 4 * i + 8 + start // 4
        value = inside[first:first + 4] ^ np.uint32(mask) if first < 590 else np.zeros(4, np.uint32)
        value = value.copy()
        value[:2] += inside[first + 4:first + 6] if first < 590 else np.uint32(0)
        for word in range(4):
            if first + word < size // 4:
                expected[first + word] = value[word]
    assert out.tolist() == expected.tolist()


@pytest.mark.parametrize("kernel", ["async_global", "async_buffer", "async_wide"])
def test_loads_into_lds(arch: str, kernel: str) -> None:
    if kernel == "async_wide" and arch == "gfx942":
        return  # 16 bytes a lane exist on gfx950 only
    width = 4 if kernel == "async_wide" else 1
    a = ints(1024 * width, 33)
    size = 3080  # of 4096; the last workgroup begins inside
    args = [np.zeros(1024 * width, np.int32), a, *([size] if kernel == "async_buffer" else [])]
    out = run_hip("async_lds", arch, kernel, 4, 256, args)[0]
    seen = np.where(np.arange(1024) * 4 + 4 <= size, a, 0) if kernel == "async_buffer" else a
    where = (np.arange(1024) // 256 * 256) + (np.arange(1024) % 256 ^ 85)
    assert out.reshape(1024, width).tolist() == seen.reshape(1024, width)[where].tolist()
