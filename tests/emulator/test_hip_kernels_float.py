"""HIP kernels as clang compiles them: float arithmetic of all widths, conversions, softmax, GEMM; exact wherever the arithmetic is."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.clang_objects import ARCHS, LEVELS, needs_clang
from tests.hip_launch import Array, floats, ints, run_hip

pytestmark = [needs_clang, pytest.mark.needs_objdump, pytest.mark.parametrize("arch", ARCHS)]


def fused(a: Any, b: Any, c: Any, dtype: Any = np.float32) -> Array:
    """a * b + c with one rounding: in double precision rounded to odd (the product is exact), then to `dtype`."""
    product = np.asarray(a, np.float64) * np.asarray(b, np.float64)
    addend = np.asarray(c, np.float64)
    total = product + addend
    part = total - product
    error = (product - (total - part)) + (addend - part)
    bits = np.ascontiguousarray(total).view(np.int64)
    step = np.where((error > 0) == (total > 0), 1, -1)
    odd = np.where((error != 0) & (bits & 1 == 0), bits + step, bits)
    return odd.view(np.float64).astype(dtype)


def close(found: Array, expected: Any, units: float) -> None:
    """Within so many units in the last place of f32 of the largest magnitude at hand."""
    expected = np.asarray(expected, np.float64)
    limit = units * 2.0 ** -23 * np.maximum(np.abs(expected), 2.0 ** -100)
    assert (np.abs(found.astype(np.float64) - expected) <= limit).all()


@pytest.mark.parametrize("shape", [(33, 18, 21), (16, 16, 16), (5, 40, 3)])
def test_masked_gemm(arch: str, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    a, b = floats(m * k, 1).reshape(m, k), floats(k * n, 2).reshape(k, n)
    out = run_hip("masked_gemm", arch, "masked_gemm", (-(-n // 16), -(-m // 16)), 256, [np.zeros((m + 1, n), np.float32), a, b, m, n, k])[0]
    total = np.zeros((m, n), np.float32)
    for step in range(k):
        total = fused(a[:, step, None], b[step], total)
    assert out[:m].tolist() == total.tolist() and not out[m:].any()


@pytest.mark.parametrize("columns", [7, 700])
def test_softmax(arch: str, columns: int) -> None:
    a = floats(3 * columns, 3, 20).reshape(3, columns)
    out = run_hip("softmax", arch, "softmax", 3, 256, [np.zeros_like(a), a, columns])[0]
    wide = np.exp(a.astype(np.float64) - a.max(axis=1, keepdims=True))
    expected = wide / wide.sum(axis=1, keepdims=True)
    assert np.abs(out / expected - 1).max() < 1e-5  # 2^x of f32 of magnitudes up to 30


def test_double_precision(arch: str) -> None:
    chance = np.random.default_rng(4)
    a = (chance.random(100) - 0.5) * 10.0 ** chance.integers(-200, 200, 100)
    b = (chance.random(100) - 0.5) * 10.0 ** chance.integers(-90, 90, 100)
    out = run_hip("double_math", arch, "double_math", 2, 64, [np.zeros(600), a, b, 100])[0].reshape(100, 6)
    with np.errstate(over="ignore", under="ignore"):
        assert out[:, 0].tolist() == (a / b).tolist()
    assert out[:, 1].tolist() == np.sqrt(np.abs(a)).tolist()
    assert out[:, 2].tolist() == [float(Fraction(x) * Fraction(y) + Fraction(x)) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    assert out[:, 3].tolist() == np.floor(a).tolist() and out[:, 4].tolist() == np.maximum(a, b).tolist()
    assert out[:, 5].tolist() == np.ldexp(a, np.arange(100) % 5).tolist()


def test_single_precision_division_and_root(arch: str) -> None:
    chance = np.random.default_rng(5)
    a = (floats(200, 6) * 10.0 ** chance.integers(-25, 25, 200)).astype(np.float32)
    b = (floats(200, 7) * 10.0 ** chance.integers(-10, 10, 200)).astype(np.float32)
    out = run_hip("double_math", arch, "single_math", 4, 64, [np.zeros(800, np.float32), a, b, 200])[0].reshape(200, 4)
    quotient = a / b
    assert out[:, 0].tolist() == quotient.tolist()
    assert out[:, 1].tolist() == np.sqrt(np.abs(a)).tolist()
    assert out[:, 2].tolist() == fused(-b, np.trunc(quotient), a).tolist()
    assert out[:, 3].tolist() == np.clip(np.trunc(a.astype(np.float64)), -(1 << 31), (1 << 31) - 1).astype(np.float32).tolist()


def halves(count: int, seed: int) -> Array:
    return floats(count, seed, 30).astype(np.float16)


def neighbours(found: Array, expected: Array) -> None:
    """f16 results within one unit in the last place."""
    keys = [np.where(bits < 0, -32768 - bits.astype(np.int32), bits.astype(np.int32)) for bits in (found.view(np.int16),
                                                                                                   expected.view(np.int16))]
    assert np.abs(keys[0] - keys[1]).max() <= 1


def test_half_precision(arch: str) -> None:
    x, y, z = halves(150, 8), halves(150, 9), halves(150, 10)
    out = run_hip("half_arithmetic", arch, "half_arithmetic", 3, 64, [np.zeros(900, np.float16), x, y, z, 150])[0].reshape(150, 6)
    assert out[:, 0].tolist() == (x + y).tolist()
    assert out[:, 1].tolist() == fused(x, y, -z, np.float16).tolist()
    neighbours(out[:, 2].copy(), x / y)
    neighbours(out[:, 3].copy(), np.sqrt(np.abs(x)))
    assert out[:, 4].tolist() == np.rint(x).tolist()
    assert out[:, 5].tolist() == np.where(x < y, z, -z).tolist()


def test_bfloat_arithmetic(arch: str) -> None:
    a, b, c = floats(150, 11).astype(ml_dtypes.bfloat16), floats(150, 12).astype(ml_dtypes.bfloat16), floats(150, 13)
    o, q = run_hip("half_arithmetic", arch, "bf16_arithmetic", 3, 64, [np.zeros(150, ml_dtypes.bfloat16), np.zeros(150, np.float32), a, b,
                                                                       c, 150])[:2]
    wide_a, wide_b = a.astype(np.float32), b.astype(np.float32)
    assert o.tolist() == (wide_a + wide_b).astype(ml_dtypes.bfloat16).tolist()
    assert q.tolist() == fused(wide_a, wide_b, c).tolist()


def test_mixed_fused_operations(arch: str) -> None:
    a, b = halves(512, 14).reshape(128, 4), halves(512, 15).reshape(128, 4)
    out = run_hip("half_arithmetic", arch, "mixed_fma", 2, 64, [np.zeros(128, np.float32), a, b, 1.25])[0]
    total = np.full(128, 1.25, np.float32)
    for k in range(4):
        total = fused(a[:, k], b[:, k], total)
    assert out.tolist() == total.tolist()


def test_packed_halves(arch: str) -> None:
    x, y, z = (halves(256, seed).reshape(128, 2) for seed in (16, 17, 18))
    out = run_hip("packed_half", arch, "packed_half", 2, 64, [np.zeros((128, 5, 2), np.float16), x, y, z])[0]
    product = x * y
    for row, expected in enumerate([fused(x, y, z, np.float16), x + y, np.minimum(x, y), np.maximum(x, -y), product[:, ::-1]]):
        assert out[:, row].tolist() == expected.tolist(), row


def test_packed_floats(arch: str) -> None:
    x, y, z = (floats(256, seed).reshape(128, 2) for seed in (19, 20, 21))
    out = run_hip("packed_half", arch, "packed_float", 2, 64, [np.zeros((128, 2, 2), np.float32), x, y, z])[0]
    assert out[:, 0].tolist() == fused(x, y, z).tolist() and out[:, 1].tolist() == (x[:, ::-1] * y).tolist()


def test_packed_integers(arch: str) -> None:
    x, y = (ints(128, seed).view(np.int16).reshape(128, 2) for seed in (22, 23))
    out = run_hip("packed_half", arch, "packed_short", 2, 64, [np.zeros((128, 4, 2), np.int16), x, y])[0]
    for row, expected in enumerate([x + y, x * y, x << (y & 15), np.maximum(x, y)]):
        assert out[:, row].tolist() == expected.tolist(), row


def test_transcendental(arch: str) -> None:
    a = floats(256, 24, 40)
    a[:6] = 1.0, -2.0, 0.5, 64.0, 0.25, 1e-3
    out = run_hip("transcendental", arch, "transcendental", 4, 64, [np.zeros((256, 8), np.float32), a])[0]
    wide = a.astype(np.float64)
    size = np.abs(wide)
    close(out[:, 0], np.exp2(wide), 2)
    assert np.abs(out[:, 1] - np.log2(size)).max() < 2e-6
    assert np.abs(out[:, 2] - np.sin(2 * np.pi * wide)).max() < 1e-6 and np.abs(out[:, 3] - np.cos(2 * np.pi * wide)).max() < 1e-6
    close(out[:, 4], 1 / wide, 2)
    close(out[:, 5], 1 / np.sqrt(size), 2)
    assert out[:, 6].tolist() == (a - np.floor(a)).tolist()
    assert out[:, 7].tolist() == np.frexp(a)[1].astype(np.float32).tolist()


def small(arch: str, name: str) -> Any:
    """The byte format of that name as the architecture has it (docs/facts/semantics.md section 4)."""
    fnuz = arch == "gfx942"
    return {"fp8": ml_dtypes.float8_e4m3fnuz if fnuz else ml_dtypes.float8_e4m3fn,
            "bf8": ml_dtypes.float8_e5m2fnuz if fnuz else ml_dtypes.float8_e5m2}[name]


@pytest.mark.parametrize("name", ["fp8", "bf8"])
def test_byte_floats(arch: str, name: str) -> None:
    x = floats(512, 25, 300) * np.exp2(-(np.arange(512) % 24)).astype(np.float32)
    x = np.clip(x, -200, 200).astype(np.float32)
    o, back, _ = run_hip("conversions", arch, f"{name}_round_trip", 2, 64, [np.zeros(128, np.uint32), np.zeros(512, np.float32), x])
    expected = x.astype(small(arch, name))
    assert o.view(np.uint8).tolist() == expected.view(np.uint8).tolist()
    assert back.tolist() == expected.astype(np.float32).tolist()


def test_stochastic_rounding(arch: str) -> None:
    """Truncated where all random bits are 0, else one of the two neighbours, both of which occur."""
    x, r = floats(256, 26, 100), ints(256, 27)
    r[:64] = 0
    out = run_hip("conversions", arch, "stochastic", 4, 64, [np.zeros(256, np.uint32), x, r])[0].view(np.uint8).reshape(256, 4)
    for column, name in ((1, "fp8"), (2, "bf8")):
        element = small(arch, name)
        codes = np.arange(128, dtype=np.uint8).view(element).astype(np.float64)
        codes = np.sort(codes[np.isfinite(codes)])
        size = np.abs(x.astype(np.float64))
        below = codes[np.searchsorted(codes, size, side="right") - 1]
        above = codes[np.searchsorted(codes, size, side="left")]
        found = out[:, column].copy().view(element).astype(np.float64)
        assert (np.signbit(found) == np.signbit(x)).all()
        assert (np.abs(found[:64]) == below[:64]).all()
        assert ((np.abs(found) == below) | (np.abs(found) == above)).all()
        assert (np.abs(found[64:]) == above[64:]).sum() > 30 and (np.abs(found[64:]) == below[64:]).sum() > 30


def test_halves_of_floats(arch: str) -> None:
    x = floats(256, 28, 1000) * np.exp2(-(np.arange(256) % 30)).astype(np.float32)
    h, b, p, _ = run_hip("conversions", arch, "halves", 4, 64, [np.zeros(256, np.float16), np.zeros(256, ml_dtypes.bfloat16),
                                                                np.zeros(256, np.uint32), x])
    assert h.tolist() == x.astype(np.float16).tolist() and b.tolist() == x.astype(ml_dtypes.bfloat16).tolist()
    nearest = x.astype(np.float16)
    cut = np.where(np.abs(nearest.astype(np.float32)) > np.abs(x), np.nextafter(nearest, np.float16(0)), nearest)
    assert p.view(np.float16).reshape(256, 2).tolist() == np.stack([cut, -cut], axis=1).tolist()


def test_four_bit_floats(arch: str) -> None:
    if arch == "gfx942":
        return  # it has none
    scale = 8.0
    x = np.clip(floats(512, 29, 60), -48, 48)
    x[:8] = np.array([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5, -5], np.float32) * scale  # ties
    o, back, _ = run_hip("conversions", arch, "fp4_round_trip", 2, 64, [np.zeros(128, np.uint32), np.zeros(512, np.float32), x, scale])
    values = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    for i in range(512):
        size = abs(float(x[i])) / scale
        code = min(range(8), key=lambda at: (abs(values[at] - size), at & 1))
        code |= 8 * (x[i] < 0)
        assert int(o[i // 4]) >> 4 * (i % 4) & 15 == code, float(x[i])
        assert back[i] == values[code & 7] * scale * (-1 if code & 8 else 1)


def test_float_atomics(arch: str) -> None:
    """Sums of small integers are exact in any order, in every format."""
    a = np.random.default_rng(30).integers(-1, 3, 90).astype(np.float32)
    args = [np.full(1, 5, np.float32), np.array([1, 100, -100], np.float64), np.zeros(2, np.float16), np.zeros(2, ml_dtypes.bfloat16), a,
            90]
    s, d, h, b, _ = run_hip("float_atomics", arch, "float_atomics", 2, 64, args)
    total = float(a.sum())
    assert s[0] == 5 + total and d.tolist() == [1 + total, float(a.min()), float(a.max())]
    assert h.tolist() == [total, 90] and b.astype(np.float32).tolist() == [total, 90]


def test_float_atomics_in_lds_and_through_generic_pointers(arch: str) -> None:
    a = np.random.default_rng(31).integers(-50, 50, 256).astype(np.float32)
    o, total, _ = run_hip("float_atomics", arch, "lds_float_atomics", 4, 64, [np.zeros(4, np.float32), np.zeros(1, np.float32), a])
    assert o.tolist() == a.reshape(4, 64).sum(axis=1).tolist() and total[0] == a.sum()


def test_levels_of_optimization_agree(arch: str) -> None:
    """The same kernel from -O1 and -O2: other instructions, the same result."""
    a = ints(64, 32)
    picks = ints(512, 33)
    results = [run_hip("scratch_array", arch, "scratch_array", 1, 64, [np.zeros(64, np.int32), a, picks], ("lockstep",),
                       level)[0] for level in LEVELS]
    for first, second in itertools.pairwise(results):
        assert first.tolist() == second.tolist()
