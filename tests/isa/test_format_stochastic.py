"""Stochastic rounding of the number formats: how often each neighbour comes out, and which bits of the seed count."""

from __future__ import annotations

import bisect
import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from asmgen.isa.formats import (
    FORMATS,
    encode,
    prng_step,
)
from tests.format_reference import ladder

# ---------------------------------------------------------------------------------------------------- stochastic rounding


@pytest.mark.parametrize(("dtype", "source_bits", "name"), [
    (ml_dtypes.bfloat16, 7, "e2m1"), (ml_dtypes.bfloat16, 7, "e4m3"), (ml_dtypes.bfloat16, 7, "e5m2fnuz"), (np.float16, 10, "e5m2"),
    (np.float16, 10, "e2m3"), (np.float16, 10, "e3m2"), (np.float32, 23, "bf16"), (np.float32, 23, "f16"),
])
def test_stochastic_probability_by_exhausting_the_seed(dtype: type, source_bits: int, name: str) -> None:
    """Of all settings of the seed bits in use, exactly the dropped fraction rounds away from zero; the other bits do nothing."""
    width = source_bits - FORMATS[name].mantissa_bits
    rng = np.random.default_rng(width)
    steps = ladder(name)
    drawn = rng.uniform(0, 1, 12) * float(steps[-2]) * np.exp2(-rng.integers(0, 5, 12)) * rng.choice([-1, 1], 12)
    if name == "bf16":
        drawn = rng.standard_normal(12)
    all_seeds = np.arange(1 << width, dtype=np.uint32) << np.uint32(32 - width)
    noise = rng.integers(0, 1 << (32 - width), all_seeds.shape, dtype=np.uint32)
    for value in drawn.astype(dtype):
        exact = abs(Fraction(float(value)))
        low = bisect.bisect_right(steps, exact) - 1
        if exact < steps[1 << FORMATS[name].mantissa_bits]:
            continue
        fraction = (exact - steps[low]) / (steps[low + 1] - steps[low])
        for seeds in (all_seeds, all_seeds | noise):
            magnitudes = encode(np.full(seeds.shape, value), name, "stochastic", random=seeds) & ((1 << (FORMATS[name].bits - 1)) - 1)
            assert set(magnitudes.tolist()) <= {low, low + 1}
            assert int((magnitudes == low + 1).sum()) == fraction * (1 << width)
            assert (np.diff(magnitudes.astype(int)) >= 0).all()  # larger seeds round up: they are added


@pytest.mark.parametrize(("name", "width"), [("e4m3", 20), ("e4m3fnuz", 20), ("e5m2", 21), ("e2m1", 22), ("e2m3", 20), ("e3m2", 21)])
def test_stochastic_float32_threshold_seed(name: str, width: int) -> None:
    """float32 has too many seeds to try: the first one that rounds up is where the dropped fraction says."""
    rng = np.random.default_rng(9)
    steps = ladder(name)
    normal = float(steps[1 << FORMATS[name].mantissa_bits])
    values = np.float32(rng.uniform(math.log2(normal), math.log2(FORMATS[name].max) - 0.01, 200))
    values = np.exp2(values).astype(np.float32)
    for value in values:
        exact = Fraction(float(value))
        low = bisect.bisect_right(steps, exact) - 1
        fraction = (exact - steps[low]) / (steps[low + 1] - steps[low])
        first = (1 << width) - fraction * (1 << width)
        assert first.denominator == 1
        if fraction == 0:
            continue
        shift = 32 - width
        seeds = np.array([0, (int(first) << shift) - 1, int(first) << shift, 0xFFFFFFFF], np.uint32)
        got = encode(np.full(4, value), name, "stochastic", random=seeds).tolist()
        assert got == [low, low, low + 1, low + 1]


def test_stochastic_subnormal_results_drop_bits_before_the_seed_is_added() -> None:
    step = 2.0**-9  # least e4m3 subnormal; its float32 significand is shifted right by 3 within 23 bits
    value = np.float32(step * (1 + 2.0**-23))
    below = np.float32(step * 1.25)
    seeds = np.array([0, 0xBFFFF000, 0xC0000000, 0xFFFFFFFF], np.uint32)
    assert encode(np.full(4, below), "e4m3", "stochastic", random=seeds).tolist() == [1, 1, 2, 2]
    assert encode(np.full(4, value), "e4m3", "stochastic", random=seeds).tolist() == [1, 1, 1, 1]
    assert encode(np.float32([0.0, -0.0, 1e-30]), "e4m3", "stochastic", random=np.uint32(0xFFFFFFFF)).tolist() == [0, 0x80, 0]


@pytest.mark.parametrize(("dtype", "width"), [(ml_dtypes.bfloat16, 7), (np.float16, 10)])
def test_stochastic_subnormal_results_keep_the_source_types_width(dtype: type, width: int) -> None:
    highest = np.full(1, 0xFFFFFFFF, np.uint32)
    value = np.array([0.5 * (1 + 2.0**-width)])  # one bit is shifted out of the significand before the seed is added
    assert encode(value.astype(dtype), "e2m1", "stochastic", random=highest).tolist() == [1]
    assert encode(value.astype(np.float32), "e2m1", "stochastic", random=highest).tolist() == [2]


def test_stochastic_from_a_type_no_wider_than_the_format() -> None:
    seeds = np.arange(0, 1 << 32, 1 << 16, dtype=np.uint32)
    for dtype, name in ((ml_dtypes.bfloat16, "f16"), (np.float16, "f16"), (ml_dtypes.bfloat16, "bf16")):
        np.testing.assert_array_equal(encode(np.full(seeds.shape, dtype(1.375)), name, "stochastic", random=seeds),
                                      np.full(seeds.shape, encode(np.array([1.375]), name)[0]))
    least = 1.5 * 2.0**-24  # between two f16 subnormals; a bfloat16 holds it exactly
    codes = encode(np.full(seeds.shape, ml_dtypes.bfloat16(least)), "f16", "stochastic", random=seeds)
    assert np.bincount(codes).tolist() == [0, 1 << 15, 1 << 15]


def test_stochastic_overflow() -> None:
    seeds = np.array([0, 0xFFFFFFFF], np.uint32)
    assert encode(np.float32([470, 470]), "e4m3", "stochastic", False, seeds).tolist() == [0x7E, 0x7F]
    assert encode(np.float32([470, 470]), "e4m3", "stochastic", True, seeds).tolist() == [0x7E, 0x7E]
    assert encode(np.float32([-7, -7]), "e2m1", "stochastic", random=seeds).tolist() == [15, 15]
    assert encode(np.array([1.3, 1.3]), "e2m1", "stochastic", random=np.array([0x66666666, 0x66666667], np.uint32)).tolist() == [2, 3]


def test_prng_has_the_shift_register_of_the_isa() -> None:
    assert prng_step(np.uint32([0, 1, 0x80000000, 0xFFFFFFFF])).tolist() == [0, 2, 197, 0xFFFFFFFE ^ 197]
