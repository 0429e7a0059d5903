"""Number formats against ml_dtypes, an exact reference in fractions, and values written out from the specifications."""

from __future__ import annotations

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
    FormatError,
    decode,
    encode,
    hardware_format,
)
from tests.format_reference import ML, PLAIN_ROUNDINGS, SMALL, VALUE_FORMATS, interesting, ladder, narrowed, reference, same

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
    # docs/facts/semantics.md section 4: the same byte differs by a factor of 2
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
