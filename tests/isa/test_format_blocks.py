"""Packed codes, block scales and quantised blocks against fractions and values written out from the specifications."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from asmgen.isa.formats import (
    FORMATS,
    FormatError,
    decode,
    encode,
    mx_dequantize,
    mx_quantize,
    mx_scale,
    pack,
    scale_decode,
    scale_from_f32,
    unpack,
)
from tests.format_reference import PLAIN_ROUNDINGS, VALUE_FORMATS, reference

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
