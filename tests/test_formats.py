"""Number formats against ml_dtypes, an exact reference in fractions, and values written out from the specifications."""

from __future__ import annotations

import bisect
import functools
import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asmgen.isa.arch import GFX942, GFX950
from asmgen.isa.formats import (
    FORMATS,
    ROUNDINGS,
    FormatError,
    decode,
    encode,
    hardware_format,
    mx_dequantize,
    mx_quantize,
    mx_scale,
    pack,
    prng_step,
    scale_decode,
    scale_from_f32,
    unpack,
)

VALUE_FORMATS = [name for name in FORMATS if name != "e8m0"]
SMALL = [name for name in VALUE_FORMATS if FORMATS[name].bits <= 8]
PLAIN_ROUNDINGS = [mode for mode in ROUNDINGS if mode != "stochastic"]
ML = {
    "e2m1": ml_dtypes.float4_e2m1fn,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "e8m0": ml_dtypes.float8_e8m0fnu,
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
}
# name: exponent bits, mantissa bits, bias, codes above which a magnitude is not finite; from the specifications' tables.
LAYOUT = {
    "e2m1": (2, 1, 1, 0x7),
    "e2m3": (2, 3, 1, 0x1F),
    "e3m2": (3, 2, 3, 0x1F),
    "e4m3": (4, 3, 7, 0x7E),
    "e5m2": (5, 2, 15, 0x7B),
    "e4m3fnuz": (4, 3, 8, 0x7F),
    "e5m2fnuz": (5, 2, 16, 0x7F),
    "bf16": (8, 7, 127, 0x7F7F),
    "f16": (5, 10, 15, 0x7BFF),
}
OVERFLOW = {"e4m3": 0x7F, "e5m2": 0x7C, "e4m3fnuz": 0x80, "e5m2fnuz": 0x80, "bf16": 0x7F80, "f16": 0x7C00}  # [OCP8] table 3; IEEE


def same(left: np.ndarray, right: np.ndarray) -> bool:
    """Equal bit by bit, but any NaN equals any NaN."""
    nan = np.isnan(left) & np.isnan(right)
    return bool(np.all(nan | ((left == right) & (np.signbit(left) == np.signbit(right)))))


@functools.cache
def ladder(name: str) -> list[Fraction]:
    """Every non-negative finite value in order of its code, and one step more: where the next would be."""
    exponent_bits, mantissa_bits, bias, top = LAYOUT[name]
    values = []
    for code in range(top + 1):
        exponent, mantissa = divmod(code, 1 << mantissa_bits)
        if exponent == 0:
            values.append(Fraction(mantissa, 1 << mantissa_bits) * Fraction(2) ** (1 - bias))
        else:
            values.append((1 + Fraction(mantissa, 1 << mantissa_bits)) * Fraction(2) ** (exponent - bias))
    assert exponent_bits == len(bin(top >> mantissa_bits)) - 2
    values.append(2 * values[-1] - values[-2])
    return values


def reference(value: float | Fraction, name: str, rounding: str, saturate: bool, negative: bool) -> int:
    """The code of a finite magnitude with the given sign, by searching and comparing fractions."""
    steps = ladder(name)
    top = len(steps) - 2
    exact = Fraction(value)
    low = min(bisect.bisect_right(steps, exact) - 1, top + 1)
    code = low
    if low > top:
        code = top if rounding == "toward_zero" or rounding == ("down" if not negative else "up") else top + 1
    elif steps[low] != exact:
        middle = (steps[low] + steps[low + 1]) / 2
        up = {
            "nearest_even": exact > middle or (exact == middle and low % 2 == 1),
            "nearest_away": exact >= middle,
            "toward_zero": False,
            "up": not negative,
            "down": negative,
        }[rounding]
        code = low + up
    sign = 1 << (FORMATS[name].bits - 1) if negative else 0
    if code > top:
        if saturate or name not in OVERFLOW:
            return top | sign
        return OVERFLOW[name] | sign
    if code == 0 and "fnuz" in name:
        return 0
    return code | sign


def interesting(name: str, count: int = 400) -> np.ndarray:
    """float64: values of the format, midpoints, the doubles and floats next to both, and random ones over the whole range."""
    rng = np.random.default_rng(len(name) + FORMATS[name].bits)
    steps = np.array([float(step) for step in ladder(name)])
    middles = (steps[1:] + steps[:-1]) / 2  # exact in float64
    if len(steps) > 600:
        pick = np.unique([*range(40), *range(len(middles) - 40, len(middles)), *rng.integers(0, len(middles), 250).tolist()])
        steps, middles = steps[[*pick, -1]], middles[pick]
    core = np.concatenate([steps, middles])
    single = core[core < 3.3e38].astype(np.float32)
    tiny = float(ladder(name)[1])
    spread = np.exp2(rng.uniform(math.log2(tiny) - 4, math.log2(float(ladder(name)[-1])) + 2, count))
    parts = [core, np.nextafter(core, np.inf), np.nextafter(core, 0), np.nextafter(single, np.float32(np.inf)).astype(np.float64),
             np.nextafter(single, np.float32(0)).astype(np.float64), spread, [5e-324, 1e-310, 1e300, 2.0**-149, tiny / 2, tiny / 4]]
    magnitudes = np.concatenate([np.asarray(part, dtype=np.float64) for part in parts])
    return np.concatenate([magnitudes, -magnitudes])


def narrowed(values: np.ndarray) -> np.ndarray:
    """The values that float32 can hold without overflow, as float32."""
    return values[abs(values) < 3.3e38].astype(np.float32)


# ------------------------------------------------------------------------------------------------------------- the formats


def test_maxima_and_least_values_of_the_specifications() -> None:
    largest = {"e2m1": 6, "e2m3": 7.5, "e3m2": 28, "e4m3": 448, "e5m2": 57344, "e4m3fnuz": 240, "e5m2fnuz": 57344, "f16": 65504}
    least = {"e2m1": 0.5, "e2m3": 0.125, "e3m2": 2**-4, "e4m3": 2**-9, "e5m2": 2**-16, "e4m3fnuz": 2**-10, "e5m2fnuz": 2**-17}
    for name, value in largest.items():
        assert FORMATS[name].max == value == decode([FORMATS[name].max_code], name)[0]
    for name, value in least.items():
        assert decode([1], name)[0] == value
    assert FORMATS["bf16"].max == float(ml_dtypes.finfo(ml_dtypes.bfloat16).max) == decode([0x7F7F], "bf16")[0]
    emax = {"e2m1": 2, "e2m3": 2, "e3m2": 4, "e4m3": 8, "e5m2": 15}
    assert {name: FORMATS[name].emax for name in emax} == emax


@pytest.mark.parametrize("name", list(FORMATS))
def test_decode_of_every_code_equals_ml_dtypes(name: str) -> None:
    codes = np.arange(1 << FORMATS[name].bits, dtype=FORMATS[name].dtype)
    assert same(decode(codes, name), codes.view(ML[name]).astype(np.float32))


@pytest.mark.parametrize("name", VALUE_FORMATS)
def test_decode_of_every_finite_code_equals_fractions(name: str) -> None:
    steps = ladder(name)[:-1]
    codes = np.arange(len(steps))
    assert [Fraction(float(v)) for v in decode(codes, name)] == steps
    negative = decode(codes[1:] | 1 << (FORMATS[name].bits - 1), name)
    assert [Fraction(float(v)) for v in negative] == [-step for step in steps[1:]]


def test_decode_special_codes() -> None:
    assert np.isnan(decode([0x7F, 0xFF], "e4m3")).all() and decode([0x7C, 0xFC], "e5m2").tolist() == [math.inf, -math.inf]
    assert np.isnan(decode([0x80], "e4m3fnuz")).all() and decode([0x7F], "e4m3fnuz")[0] == 240
    assert np.signbit(decode([8], "e2m1"))[0] and decode([8], "e2m1")[0] == 0
    assert decode(np.zeros((2, 0, 3), np.uint8), "e2m1").shape == (2, 0, 3)


def test_decode_refuses_what_is_no_code() -> None:
    for bad in ([16], [-1], np.array([0, 255], np.uint8)):
        with pytest.raises(FormatError, match="0 to 15"):
            decode(bad, "e2m1")
    with pytest.raises(FormatError, match="integers"):
        decode([1.0], "e4m3")
    with pytest.raises(FormatError, match="unknown number format 'e9m9'"):
        decode([1], "e9m9")


def test_hardware_names_per_architecture() -> None:
    assert hardware_format("fp8", GFX942).name == "e4m3fnuz" and hardware_format("fp8", GFX950).name == "e4m3"
    assert hardware_format("bf8", GFX942).bias == 16 and hardware_format("bf6", GFX950).name == "e3m2"
    with pytest.raises(FormatError, match="gfx942 has no number format 'fp4'"):
        hardware_format("fp4", GFX942)
    # facts/semantics.md 4: the same byte differs by a factor of 2
    assert decode([0x38], "e4m3")[0] == 2 * decode([0x38], "e4m3fnuz")[0] == 1.0


# --------------------------------------------------------------------------------------------------------------- rounding


@pytest.mark.parametrize("saturate", [True, False])
@pytest.mark.parametrize("rounding", PLAIN_ROUNDINGS)
@pytest.mark.parametrize("name", VALUE_FORMATS)
def test_encode_equals_the_fraction_reference(name: str, rounding: str, saturate: bool) -> None:
    values = interesting(name)
    expected = [reference(abs(v), name, rounding, saturate, bool(np.signbit(v))) for v in values.tolist()]
    np.testing.assert_array_equal(encode(values, name, rounding, saturate), expected)
    single = narrowed(values)
    expected = [reference(abs(v), name, rounding, saturate, math.copysign(1, v) < 0) for v in single.tolist()]
    np.testing.assert_array_equal(encode(single, name, rounding, saturate), expected)


@pytest.mark.parametrize("name", VALUE_FORMATS)
def test_every_finite_code_encodes_to_itself_in_every_mode(name: str) -> None:
    fmt = FORMATS[name]
    codes = np.arange(1 << fmt.bits, dtype=fmt.dtype)
    codes = codes[np.isfinite(decode(codes, name))]
    values = decode(codes, name)
    for rounding in PLAIN_ROUNDINGS:
        np.testing.assert_array_equal(encode(values, name, rounding), codes)
    seeds = np.random.default_rng(0).integers(0, 1 << 32, codes.shape, dtype=np.uint32)
    np.testing.assert_array_equal(encode(values, name, "stochastic", random=seeds), codes)


@pytest.mark.parametrize("name", ["e4m3", "e5m2", "e4m3fnuz", "e5m2fnuz", "bf16", "f16"])
def test_encode_without_saturation_equals_ml_dtypes(name: str) -> None:
    rng = np.random.default_rng(3)
    bits = rng.integers(0, 1 << 32, 200_000, dtype=np.uint32)
    values = np.concatenate([bits.view(np.float32), rng.standard_normal(50_000).astype(np.float32), narrowed(interesting(name))])
    values = values[~np.isnan(values)]
    with np.errstate(all="ignore"):
        expected = values.astype(ML[name]).view(FORMATS[name].dtype)
    np.testing.assert_array_equal(encode(values, name, saturate=False), expected)


@pytest.mark.parametrize("name", ["e2m1", "e2m3", "e3m2"])
def test_formats_without_infinity_saturate_as_ml_dtypes_do(name: str) -> None:
    values = np.concatenate([narrowed(interesting(name)), np.float32([np.inf, -np.inf, 1e38])])
    expected = values.astype(ML[name]).view(np.uint8)
    for saturate in (True, False, None):
        np.testing.assert_array_equal(encode(values, name, saturate=saturate), expected)


@pytest.mark.parametrize("name", SMALL)
def test_every_half_and_bfloat_converts_like_its_float32(name: str) -> None:
    """All 65,536 sources of both 16-bit types, against the fractions where finite."""
    for dtype in (np.float16, ml_dtypes.bfloat16):
        values = np.arange(1 << 16, dtype=np.uint16).view(dtype)
        got = encode(values, name, saturate=False)
        np.testing.assert_array_equal(got, encode(values.astype(np.float32), name, saturate=False))
        pick = np.random.default_rng(4).integers(0, 1 << 16, 500)
        for index in pick[np.isfinite(values[pick].astype(np.float32))].tolist():
            value = float(values[index])
            assert got[index] == reference(abs(value), name, "nearest_even", False, math.copysign(1, value) < 0)


def test_overflow_threshold_is_the_rounded_value() -> None:
    values = np.float32([448, 463.9, 464, 464.1, 480, -1e9])
    assert encode(values, "e4m3", saturate=False).tolist() == [0x7E, 0x7E, 0x7E, 0x7F, 0x7F, 0xFF]
    assert encode(values, "e4m3").tolist() == [0x7E] * 5 + [0xFE]
    assert encode(np.float32([247.9, 248]), "e4m3fnuz", saturate=False).tolist() == [0x7F, 0x80]  # the tie goes to the even code
    assert encode(np.float32([61439, 61440]), "e5m2", saturate=False).tolist() == [0x7B, 0x7C]


def test_conversion_table_of_specials() -> None:
    """[OCP8] table 3 and [I4] 7.3: rows NaN, infinity, beyond max; saturating and not."""
    values = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30], np.float32)
    expected = {
        ("e4m3", True): [0x7F, 0x7E, 0xFE, 0x7E, 0xFE],
        ("e4m3", False): [0x7F, 0x7F, 0xFF, 0x7F, 0xFF],
        ("e5m2", True): [0x7E, 0x7B, 0xFB, 0x7B, 0xFB],
        ("e5m2", False): [0x7E, 0x7C, 0xFC, 0x7C, 0xFC],
        ("e4m3fnuz", True): [0x80, 0x7F, 0xFF, 0x7F, 0xFF],
        ("e4m3fnuz", False): [0x80] * 5,
        ("e5m2fnuz", True): [0x80, 0x7F, 0xFF, 0x7F, 0xFF],
        ("e5m2fnuz", False): [0x80] * 5,
        ("e2m1", False): [7, 7, 15, 7, 15],
        ("e3m2", True): [0x1F, 0x1F, 0x3F, 0x1F, 0x3F],
        ("f16", True): [0x7E00, 0x7C00, 0xFC00, 0x7BFF, 0xFBFF],  # FP16_OVFL keeps true infinities
        ("f16", False): [0x7E00, 0x7C00, 0xFC00, 0x7C00, 0xFC00],
    }
    seeds = np.full(5, 0xFFFFFFFF, np.uint32)
    for (name, saturate), codes in expected.items():
        assert encode(values, name, "nearest_even", saturate).tolist() == codes, (name, saturate)
        assert encode(values, name, "stochastic", saturate, seeds).tolist() == codes, (name, saturate)
    # infinity is no overflow: no rounding direction brings it back to max
    for rounding in PLAIN_ROUNDINGS:
        assert encode(values[1:3], "e5m2", rounding, saturate=False).tolist() == [0x7C, 0xFC]


def test_saturation_where_the_caller_does_not_say() -> None:
    assert encode(np.array([1e39, -1e39]), "bf16").tolist() == [0x7F80, 0xFF80]
    assert encode(np.float32([65519, 65520]), "f16").tolist() == [0x7BFF, 0x7C00]
    for name in SMALL:
        largest = FORMATS[name].max
        assert decode(encode(np.float32([1e9, -1e9, np.inf]), name), name).tolist() == [largest, -largest, largest]


def test_nan_sign_and_payload() -> None:
    nans = np.array([0xFFC00000, 0x7F800001, 0xFFA12345], np.uint32).view(np.float32)
    assert encode(nans, "e4m3").tolist() == [0xFF, 0x7F, 0xFF]
    assert encode(nans, "e5m2").tolist() == [0xFE, 0x7E, 0xFE]
    assert encode(nans, "e2m3").tolist() == [0x3F, 0x1F, 0x3F]
    assert encode(nans, "e5m2fnuz").tolist() == [0x80] * 3
    assert encode(nans, "bf16").tolist() == [0xFFC0, 0x7FC0, 0xFFE1]
    assert encode(nans[:1], "f16").tolist() == [0xFE00]


def test_signed_zeros_and_values_that_round_to_zero() -> None:
    values = np.float32([0.0, -0.0, 1e-30, -1e-30])
    assert encode(values, "e4m3").tolist() == [0, 0x80, 0, 0x80]
    assert encode(values, "e4m3fnuz").tolist() == [0, 0, 0, 0]
    assert encode(values, "e2m1", "up").tolist() == [0, 8, 1, 8]
    assert encode(values, "e5m2fnuz", "down").tolist() == [0, 0, 0, 0x81]
    assert encode(values, "bf16").tolist() == [0, 0x8000, 0x0DA2, 0x8DA2]


@settings(max_examples=300, derandomize=True, deadline=None)
@given(st.floats(width=32, allow_nan=False, allow_infinity=False), st.sampled_from(VALUE_FORMATS), st.sampled_from(PLAIN_ROUNDINGS))
def test_any_float32(value: float, name: str, rounding: str) -> None:
    code = int(encode(np.float32([value]), name, rounding, False)[0])
    assert code == reference(abs(value), name, rounding, False, math.copysign(1, value) < 0)


def test_encode_refusals() -> None:
    one = np.float32([1, 2])
    for call, words in (
        (lambda: encode(one, "e4m3", "odd"), "unknown rounding 'odd'"),
        (lambda: encode(one, "e4m3", "stochastic"), "without random bits"),
        (lambda: encode(one, "e4m3", random=np.uint32([1, 2])), "with random bits"),
        (lambda: encode(one, "e4m3", "stochastic", random=np.float32([1, 2])), "random bits must be uint32"),
        (lambda: encode(one, "e4m3", "stochastic", random=np.uint32([1, 2, 3])), "do not broadcast"),
        (lambda: encode(one, "e4m3", scale=[256]), "scales must be uint8"),
        (lambda: encode(np.arange(3), "e4m3"), "not int64"),
        (lambda: encode(one, "e8m0"), "mx_scale"),
    ):
        with pytest.raises(FormatError, match=words):
            call()


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


# ---------------------------------------------------------------------------------------------------------------- packing


def test_fp4_low_nibble_first() -> None:
    assert pack(np.uint8([0x1, 0x2, 0xF, 0x0]), "e2m1").tolist() == [0x21, 0x0F]


@pytest.mark.parametrize("name", VALUE_FORMATS)
def test_packing_is_a_little_endian_bit_string(name: str) -> None:
    bits = FORMATS[name].bits
    codes = np.random.default_rng(bits).integers(0, 1 << bits, (3, 2, 32))
    packed = pack(codes, name)
    assert packed.shape == (3, 2, 4 * bits) and packed.dtype == np.uint8
    for row, items in zip(packed.reshape(6, -1), codes.reshape(6, -1), strict=True):
        string = sum(int(item) << (bits * index) for index, item in enumerate(items))
        assert int.from_bytes(row.tobytes(), "little") == string
    np.testing.assert_array_equal(unpack(packed, name), codes)
    np.testing.assert_array_equal(unpack(packed[:, ::-1], name), codes[:, ::-1])


def test_fp6_crosses_dwords_as_the_registers_do() -> None:
    codes = np.zeros(32, np.uint8)
    codes[5] = 0b110101  # bits 30 to 35
    dwords = pack(codes, "e2m3").view("<u4")
    assert dwords.tolist() == [0b01 << 30, 0b1101, 0, 0, 0, 0]


def test_packing_refusals() -> None:
    with pytest.raises(FormatError, match="multiple of 4"):
        pack(np.zeros(6, np.uint8), "e3m2")
    with pytest.raises(FormatError, match="multiple of 2"):
        pack(np.zeros(3, np.uint8), "e2m1")
    with pytest.raises(FormatError, match="0 to 63"):
        pack(np.full(4, 64, np.uint8), "e3m2")
    with pytest.raises(FormatError, match="multiple of 3"):
        unpack(np.zeros(4, np.uint8), "e2m3")
    with pytest.raises(FormatError, match="uint8"):
        unpack(np.zeros(4, np.int8), "e2m1")


# -------------------------------------------------------------------------------------------------------- scales and blocks


def test_scale_codes() -> None:
    codes = np.arange(256, dtype=np.uint8)
    for dtype in (np.float32, np.float64):
        values = scale_decode(codes, dtype)
        assert values.dtype == dtype and np.isnan(values[255])
        assert [Fraction(float(v)) for v in values[:255]] == [Fraction(2) ** (code - 127) for code in range(255)]
    assert scale_from_f32(scale_decode(codes)[1:]).tolist() == codes[1:].tolist()
    assert scale_from_f32(np.float32([-1.75, 3.0, 1e-40])).tolist() == [127, 128, 0]


def test_mx_scale_rule() -> None:
    # floor(log2(max)) - emax + 127
    assert mx_scale([6.0, 7.99, 8.0, 4.0, 3.99, 1.0], "e2m1").tolist() == [127, 127, 128, 127, 126, 125]
    assert mx_scale(np.float32([448, 511, 512]), "e4m3").tolist() == [127, 127, 128]
    assert mx_scale([28.0], "e3m2").tolist() == [127] and mx_scale([57344.0], "e5m2").tolist() == [127]
    assert mx_scale([0.0, np.inf, np.nan, 2.0**-149, 1e308, 2.0**-126], "e2m1").tolist() == [0, 255, 255, 0, 254, 0]
    assert mx_scale([2.0**-120, 2.0**-125], "e2m1").tolist() == [5, 0]
    for name in ("bf16", "f16", "e8m0"):
        with pytest.raises(FormatError, match="no element format"):
            mx_scale([1.0], name)


@pytest.mark.parametrize("rounding", PLAIN_ROUNDINGS)
@pytest.mark.parametrize("name", ["e2m1", "e2m3", "e3m2", "e4m3", "e5m2"])
def test_quantise_block_by_block_with_fractions(name: str, rounding: str) -> None:
    rng = np.random.default_rng(11)
    values = (rng.standard_normal((3, 2, 64)) * np.exp2(rng.integers(-30, 30, (3, 2, 64)))).astype(np.float32)
    values[0, 0, :32] *= np.float32(2.0**-110)  # subnormal floats, and scales at the lower end
    values[1, 1, 32:] = 0
    codes, scales = mx_quantize(values, name, rounding)
    assert codes.shape == values.shape and scales.shape == (3, 2, 2)
    for index in np.ndindex(scales.shape):
        block = values[index[:2]][32 * index[2]:32 * index[2] + 32]
        largest = max(abs(Fraction(float(v))) for v in block)
        exponent = -127
        while largest >= Fraction(2) ** (exponent + 1 + FORMATS[name].emax) and exponent < 127:
            exponent += 1
        assert scales[index] == exponent + 127
        expected = [reference(abs(Fraction(float(v))) / Fraction(2) ** exponent, name, rounding, True, bool(np.signbit(v))) for v in block]
        assert codes[index[:2]][32 * index[2]:32 * index[2] + 32].tolist() == expected


def test_block_sizes_and_round_trip() -> None:
    rng = np.random.default_rng(12)
    codes = rng.integers(0, 16, (5, 48), dtype=np.uint8)
    codes[:, ::16] = 7  # a block's maximum of 6 fixes the scale, so that the codes come back
    codes[codes == 8] = 0
    scales = rng.integers(1, 255, (5, 3), dtype=np.uint8)
    values = mx_dequantize(codes, scales, "e2m1", np.float64)
    again, found = mx_quantize(values, "e2m1", block=16)
    np.testing.assert_array_equal(found, scales)
    np.testing.assert_array_equal(again, codes)
    expected = [[Fraction(float(decode(c, "e2m1"))) * Fraction(2) ** (int(scales[i, j // 16]) - 127) for j, c in enumerate(row)]
                for i, row in enumerate(codes)]
    assert [[Fraction(v) for v in row] for row in values.tolist()] == expected


def test_dequantise_float32_ends() -> None:
    codes = np.array([[1, 7, 3, 2]], np.uint8)  # e2m3: 0.125, 0.875, 0.375, 0.25
    assert mx_dequantize(codes, np.uint8([[0]]), "e2m3").tolist() == [[2.0**-130, 7 * 2.0**-130, 3 * 2.0**-130, 2.0**-129]]
    assert mx_dequantize(np.array([[0x7B, 0x80]], np.uint8), np.uint8([[254]]), "e5m2").tolist() == [[math.inf, -0.0]]
    tie = mx_dequantize(np.array([[1, 2, 3]], np.uint8), np.uint8([[0]]), "e5m2")  # 1, 2, 3 times 2**-143
    assert tie.tolist() == [[2.0**-143, 2.0**-142, 3 * 2.0**-143]]
    assert np.isnan(mx_dequantize(codes, np.uint8([[255]]), "e2m3")).all()


def test_scaled_conversion_is_rounded_once() -> None:
    """v_cvt_scalef32_*: dividing in float32 first would lose bits of subnormal quotients and round twice."""
    value = np.float32([1.0 + 2.0**-20])
    assert encode(value, "e2m1", "up", scale=np.uint8([254])).tolist() == [1]
    assert encode(np.float32([2.0**-149]), "e4m3", scale=scale_from_f32(np.float32([2.0**-120]))).tolist() == [0]
    assert encode(np.float32([2.0**-127 * 1.5]), "e4m3", scale=np.uint8(0)).tolist() == [0x3C]
    assert encode(np.float32([-3.0, 3.0]), "e4m3", scale=np.uint8(255)).tolist() == [0xFF, 0x7F]
    assert encode(np.float32([-3.0, 3.0]), "e2m1", scale=np.uint8(255)).tolist() == [15, 7]
    got = encode(np.float32([[1, 2], [4, 6]]), "e2m1", scale=np.uint8([[126], [128]]))
    assert got.tolist() == [[4, 6], [4, 5]]


def test_stochastic_quantise_uses_each_elements_seed() -> None:
    values = np.full((2, 32), 1.25, np.float32)
    values[:, 0] = 4.0
    seeds = np.zeros((2, 32), np.uint32)
    seeds[1, 5:9] = 0xFFFFFFFF
    codes, scales = mx_quantize(values, "e2m1", "stochastic", random=seeds)
    assert scales.tolist() == [[127], [127]]
    assert codes[0].tolist() == [6] + [2] * 31 and codes[1].tolist() == [6] + [2] * 4 + [3] * 4 + [2] * 23


def test_block_with_nan_is_nan() -> None:
    values = np.ones((1, 64), np.float32)
    values[0, 40] = np.nan
    codes, scales = mx_quantize(values, "e4m3")
    assert scales.tolist() == [[119, 255]]
    back = mx_dequantize(codes, scales, "e4m3")
    assert (back[0, :32] == 1).all() and np.isnan(back[0, 32:]).all()


def test_block_refusals_and_empty_arrays() -> None:
    with pytest.raises(FormatError, match="blocks of 32"):
        mx_quantize(np.zeros((2, 33), np.float32), "e2m1")
    with pytest.raises(FormatError, match="into blocks"):
        mx_dequantize(np.zeros((2, 64), np.uint8), np.zeros((2, 3), np.uint8), "e2m1")
    with pytest.raises(FormatError, match="into blocks"):
        mx_dequantize(np.zeros((2, 64), np.uint8), np.zeros((1, 2), np.uint8), "e2m1")
    codes, scales = mx_quantize(np.zeros((0, 64), np.float32), "e2m1")
    assert codes.shape == (0, 64) and scales.shape == (0, 2) and mx_dequantize(codes, scales, "e2m1").shape == (0, 64)


def test_arrays_longer_than_one_chunk_and_strided() -> None:
    values = np.random.default_rng(13).standard_normal((7, 5000, 2)).astype(np.float32)[..., 0]
    codes = encode(values, "e3m2")
    assert codes.shape == values.shape
    np.testing.assert_array_equal(codes, values.astype(ml_dtypes.float6_e3m2fn).view(np.uint8))
    np.testing.assert_array_equal(encode(values, "f16"), values.astype(np.float16).view(np.uint16))
