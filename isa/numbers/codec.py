"""Decoding and encoding single numbers, exactly and vectorised; see the package for the sources' abbreviations."""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike

from asmgen.isa.numbers.numberformat import SCALE_BIAS, SCALE_NAN, Array, Format, FormatError, resolve_format

ROUNDINGS = ("nearest_even", "toward_zero", "up", "down", "nearest_away", "stochastic")

_CHUNK = 1 << 14  # elements converted at once: the 8-byte temporaries stay in the second-level cache
_F64_SIGN = np.uint64(63)
_F64_MAGNITUDE = np.uint64((1 << 63) - 1)
_F64_FRACTION = np.uint64((1 << 52) - 1)
_F64_INFINITY = np.uint64(0x7FF << 52)
_F64_BIAS = 1023
_TABLE_SHIFT = 47  # a table index is sign, exponent and 5 mantissa bits of an f64, the last one standing for all below
_TABLE_MANTISSA = 3  # the table decides formats of up to 3 mantissa bits: 3 kept, 1 to round by, 1 sticky


@cache
def _decode_table(fmt: Format) -> Array:
    """float32 value of every code of a format of at most 8 bits."""
    codes = np.arange(1 << fmt.bits)
    if fmt.is_scale:
        values = np.ldexp(1.0, codes - fmt.bias)
        values[SCALE_NAN] = np.nan
    else:
        magnitude = codes & (fmt.sign_code - 1)
        exponent = magnitude >> fmt.mantissa_bits
        mantissa = (magnitude & ((1 << fmt.mantissa_bits) - 1)) + ((exponent > 0) << fmt.mantissa_bits)
        values = np.ldexp(mantissa.astype(np.float64), np.maximum(exponent, 1) - fmt.bias - fmt.mantissa_bits)
        values[magnitude > fmt.max_code] = np.nan
        if fmt.has_inf:
            values[magnitude == fmt.max_code + 1] = np.inf
        values = np.where(codes & fmt.sign_code, -values, values)
        if fmt.nan == "negative_zero":
            values[fmt.sign_code] = np.nan
    table = values.astype(np.float32)
    table.setflags(write=False)
    return table


def check_codes(codes: ArrayLike, fmt: Format) -> Array:
    array = np.asarray(codes)
    if array.dtype.kind not in "ui":
        raise FormatError(f"codes of {fmt.name} must be integers, not {array.dtype}")
    exact = array.dtype.kind == "u" and array.dtype.itemsize * 8 <= fmt.bits
    if not exact and array.size and (int(array.max()) >> fmt.bits or int(array.min()) < 0):
        raise FormatError(f"{fmt.name} has the codes 0 to {(1 << fmt.bits) - 1}; {int(array.min())} to {int(array.max())} were given")
    return array


def decode(codes: ArrayLike, fmt: Format | str) -> Array:
    """The float32 values of `codes` (integers, any shape, one code each), exact for every format here.

    Raises FormatError for a code that the format does not have. NaN keeps its sign.
    """
    fmt = resolve_format(fmt)
    array = check_codes(codes, fmt)
    if fmt.bits <= 8:
        return np.take(_decode_table(fmt), array)
    if fmt.name == "f16":
        return array.astype(np.uint16).view(np.float16).astype(np.float32)
    return (array.astype(np.uint32) << np.uint32(16)).view(np.float32)


def source_array(values: ArrayLike) -> tuple[Array, int]:
    """The values as an array that numpy's own casts convert exactly, and how many mantissa bits their type has."""
    array = np.asarray(values)
    if array.dtype == ml_dtypes.bfloat16:
        return (array.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32), 7
    widths = {np.dtype(np.float16): 10, np.dtype(np.float32): 23, np.dtype(np.float64): 52}
    if array.dtype not in widths:
        raise FormatError(f"values to convert must be float16, bfloat16, float32 or float64, not {array.dtype}")
    return array, widths[array.dtype]


def _round(sig: Array, shift: Array, negative: Array, rounding: str) -> Array:
    """sig / 2**shift as an integer, rounded as the magnitude of a number of that sign. Shifts are at least 1."""
    one = np.uint64(1)
    if rounding == "nearest_even":
        rounded: Array = (sig + (one << (shift - one)) - one + ((sig >> shift) & one)) >> shift
        return rounded
    if rounding == "nearest_away":
        rounded = (sig + (one << (shift - one))) >> shift
        return rounded
    if rounding == "toward_zero":
        return sig >> shift
    away = negative == (1 if rounding == "down" else 0)
    return (sig + np.where(away, (one << shift) - one, np.uint64(0))) >> shift


def _round_stochastic(sig: Array, align: Array, fmt: Format, source_bits: int, random: Array) -> Array:
    """Add the top bits of the seed below the last kept bit and truncate; see `encode`."""
    dropped = source_bits - fmt.mantissa_bits
    aligned = (sig >> np.uint64(52 - source_bits)) >> np.minimum(align, np.uint64(63))
    seed = random.astype(np.uint64)
    noise = seed >> np.uint64(32 - dropped) if dropped <= 32 else seed << np.uint64(dropped - 32)
    return (aligned + noise) >> np.uint64(dropped)


def _encode_bits(bits: Array, fmt: Format, rounding: str, saturate: bool, source_bits: int = 52, random: Array | None = None) -> Array:
    """uint64 codes of f64 bit patterns: the definition of every conversion here; the tables are made with it."""
    mantissa = np.uint64(fmt.mantissa_bits)
    negative = bits >> _F64_SIGN
    magnitude = bits & _F64_MAGNITUDE
    exponent = magnitude >> np.uint64(52)  # a subnormal f64 is read as half of itself: far below every format's least value
    sig = (magnitude & _F64_FRACTION) | ((exponent != 0).astype(np.uint64) << np.uint64(52))
    smallest = np.uint64(_F64_BIAS + fmt.min_exponent)
    lifted = np.maximum(exponent, smallest)
    align = lifted - exponent
    if random is None:
        # Two bits beyond the significand decide every rounding of a value smaller than half the least subnormal.
        shift = np.minimum(align, mantissa + np.uint64(2)) + (np.uint64(52) - mantissa)
        kept = _round(sig, shift, negative, rounding)
    else:
        kept = _round_stochastic(sig, align, fmt, source_bits, random)
    code = kept + ((lifted - smallest) << mantissa)  # the implicit bit and a carry out of rounding add into the exponent field

    finite_only = fmt.nan == "none"
    largest, beyond = np.uint64(fmt.max_code), np.uint64(fmt.max_code + 1)  # beyond: infinity, else NaN, in every format that has one
    if saturate or finite_only or rounding == "toward_zero":
        code = np.minimum(code, largest)
    elif rounding in ("up", "down"):
        code = np.minimum(code, np.where(negative == (1 if rounding == "down" else 0), beyond, largest))
    else:
        code = np.minimum(code, beyond)

    special = magnitude >= _F64_INFINITY
    if special.any():
        infinity = largest if finite_only or (saturate and fmt.clamps_infinity) else beyond
        code = np.where(special, np.where(magnitude == _F64_INFINITY, infinity, _nan_magnitude(magnitude, fmt)), code)
    if not fmt.has_negative_zero:
        negative = np.where(code == 0, np.uint64(0), negative)  # FNUZ: the code of -0 is the NaN
    codes: Array = code | (negative << np.uint64(fmt.bits - 1))
    return codes


def _nan_magnitude(magnitude: Array, fmt: Format) -> Array | np.uint64:
    if fmt.bits > 8:
        quiet = np.uint64(fmt.max_code + 1 + (1 << (fmt.mantissa_bits - 1)))
        return ((magnitude & _F64_FRACTION) >> np.uint64(52 - fmt.mantissa_bits)) | quiet
    if fmt.nan == "none":
        return np.uint64(fmt.max_code)
    return np.uint64(0x7E if fmt.nan == "ieee" else fmt.max_code + 1)


@cache
def _encode_table(fmt: Format, rounding: str, saturate: bool) -> Array:
    """Codes for every class of f64 values that differ only below the bits which can matter; see `_TABLE_SHIFT`."""
    bits = np.arange(1 << (64 - _TABLE_SHIFT), dtype=np.uint64) << np.uint64(_TABLE_SHIFT)
    table = _encode_bits(bits, fmt, rounding, saturate).astype(fmt.dtype)
    table.setflags(write=False)
    return table


@cache
def scale_factors(inverse: bool, dtype: str) -> Array:
    """2**(code - 127), or its reciprocal, for every e8m0 code."""
    exponent = np.arange(256) - SCALE_BIAS
    exponent[SCALE_NAN] = 0  # replaced below; its power would overflow float32
    factors: Array = np.ldexp(1.0, -exponent if inverse else exponent).astype(dtype)
    factors[SCALE_NAN] = np.nan
    factors.setflags(write=False)
    return factors


def encode(
    values: ArrayLike,
    fmt: Format | str,
    rounding: str = "nearest_even",
    saturate: bool | None = None,
    random: ArrayLike | None = None,
    scale: ArrayLike | None = None,
) -> Array:
    """Codes of `values` (float16, ml_dtypes.bfloat16, float32 or float64, any shape): uint8, or uint16 for bf16 and f16.

    rounding: one of ROUNDINGS; "up" and "down" are towards +infinity and -infinity. Subnormals are kept, on both sides.
    saturate (None: Format.saturates): True gives +-max for what is too large, False infinity, or NaN where the format has none
    ([OCP8] table 3). Too large means after rounding with an unbounded exponent, so a value that rounds to max is not. Without
    saturation a rounding direction that points towards zero stops at max (IEEE 754 7.4). fp4 and fp6 always saturate ([I4] 7.3).
    NaN: e4m3 S.1111.111, e5m2 S.11111.10, FNUZ 0x80, fp4 and fp6 the largest magnitude with the NaN's sign ([HIP]; [MX] leaves it
    open). bf16 and f16: the upper payload bits made quiet (inferred for the hardware; [HIP] knows only an all-ones payload).
    Minus zero becomes plus zero in the FNUZ formats, which have no other.

    random: uint32 seeds, broadcast to the values; required by, and only for, "stochastic". With S mantissa bits in the source type
    and m in the format, the upper S-m bits of the seed are added just below the last kept bit and the sum is truncated: the
    probability of rounding away from zero is the dropped fraction, exactly, in units of 2**-(S-m). S is 10, 7 and 23 for float16,
    bfloat16 and float32, so float32 uses seed[31:12] for e4m3 and e2m3, [31:11] for e5m2 and e3m2, [31:10] for e2m1, [31:16] for
    bf16, [31:19] for f16; bfloat16 to e2m1 uses [31:26]. Source for the widths: [I4] 12.11 V_CVT_SR_FP8_F32 and V_CVT_SR_BF8_F32,
    [HIP] for the others; [I4]'s pseudo-code then rounds to nearest once more, its section 7.3 and [HIP] truncate, as here. A
    subnormal result is first shifted right in S bits, without a sticky bit ([HIP]). float64, and a source no wider than the format,
    are not hardware conversions: float64 uses the seed as the upper 32 of its S-m bits, the other is taken as float32.

    scale: e8m0 codes, broadcast to the values, which are divided by 2**(scale-127) before the one rounding (exact from float16,
    bfloat16, float32); code 0xFF makes every result a NaN ([HIP]), the largest magnitude in fp4 and fp6.

    Raises FormatError for e8m0 (use `mx_scale` or `scale_from_f32`), unknown names, other value types and shapes that do not fit.
    """
    fmt = resolve_format(fmt)
    if fmt.is_scale:
        raise FormatError("values have no rounding to e8m0; mx_scale chooses a block's scale and scale_from_f32 takes an f32's exponent")
    if rounding not in ROUNDINGS:
        raise FormatError(f"unknown rounding {rounding!r}; known are {', '.join(ROUNDINGS)}")
    if (random is None) == (rounding == "stochastic"):
        raise FormatError(f"rounding {rounding!r} was asked for {'without' if random is None else 'with'} random bits; "
                          "only stochastic rounding takes them, as uint32")
    source, source_bits = source_array(values)
    if source_bits <= fmt.mantissa_bits:
        source_bits = 23
    saturate = fmt.saturates if saturate is None else saturate
    seeds = None if random is None else _flat(random, source.shape, np.uint32, "random bits")
    scales = None if scale is None else _flat(scale, source.shape, np.uint8, "scales")
    table = _encode_table(fmt, rounding, bool(saturate)) if seeds is None and fmt.mantissa_bits <= _TABLE_MANTISSA else None

    flat = source.reshape(-1)
    out = np.empty(flat.size, dtype=fmt.dtype)
    low = np.uint64((1 << _TABLE_SHIFT) - 1)
    with np.errstate(all="ignore"):  # signalling NaNs and overflowing float64 scalings are values here, not accidents
        for start in range(0, flat.size, _CHUNK):
            part = slice(start, start + _CHUNK)
            wide = flat[part].astype(np.float64)
            if scales is not None:
                scaled = wide * scale_factors(True, "float64")[scales[part]]
                wide = np.copysign(scaled, wide)  # a NaN from the scale takes the value's sign
            bits = wide.view(np.uint64)
            if table is not None:
                out[part] = table[((bits >> np.uint64(_TABLE_SHIFT)) | ((bits & low) != 0)).view(np.int64)]
            else:
                out[part] = _encode_bits(bits, fmt, rounding, bool(saturate), source_bits, None if seeds is None else seeds[part])
    return out.reshape(source.shape)


def _flat(values: ArrayLike, shape: tuple[int, ...], dtype: type[np.unsignedinteger[Any]], what: str) -> Array:
    array = np.asarray(values)
    limit = int(np.iinfo(dtype).max)
    if array.dtype.kind not in "ui" or (array.dtype != dtype and array.size and not 0 <= int(array.min()) <= int(array.max()) <= limit):
        raise FormatError(f"{what} must be {np.dtype(dtype)}, not {array.dtype}")
    try:
        return np.broadcast_to(array.astype(dtype, copy=False), shape).reshape(-1)
    except ValueError:
        raise FormatError(f"{what} of shape {array.shape} do not broadcast to values of shape {shape}") from None


def prng_step(seed: ArrayLike) -> Array:
    """The next seed of v_prng_b32, which the stochastic conversions of several elements apply between them ([I4] 7.3, 12.11).

    Element i of v_cvt_scalef32_sr_pk_fp4_* and ..._sr_pk32_* rounds with the seed operand stepped i times. uint32, any shape.
    """
    state = np.asarray(seed).astype(np.uint32)
    return (state << np.uint32(1)) ^ ((state >> np.uint32(31)) * np.uint32(197))
