"""Float instructions of the vector ALU: functions (mode, *sources) on typed arrays, by mnemonic.

The binder has flushed denormal sources and flushes denormal results as MODE says (`UNFLUSHED` names the exceptions); functions round.
Sources: CDNA3 and CDNA4 ISA (instruction pseudo-code, MODE). Unconfirmed: which payload an arithmetic NaN has, that tininess is
detected after rounding, and that f64 reciprocals and roots, approximations in hardware, are exact here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from asmgen.emulator.machine.floatmode import NEAREST_EVEN, FloatMode
from asmgen.emulator.semantics.rounding import (
    TINY,
    TYPES,
    bits,
    flush,
    fma64_exact,
    fused,
    is_signaling,
    narrow,
    odd_sum,
    product_of,
    quiet,
    scale64_exact,
    sum_of,
    wide,
)

Values = Any
Function = Callable[..., Values]


def _ordered(values: Values) -> Values:
    """Integers in the order of the floats, -0 below +0 (NaNs beyond both ends)."""
    pattern = bits(values)
    signed = pattern.view(f"i{pattern.dtype.itemsize}")
    return signed ^ (signed >> signed.dtype.type(8 * signed.dtype.itemsize - 1) & np.iinfo(signed.dtype).max)


def _choose(mode: FloatMode, a: Values, b: Values, larger: bool) -> Values:
    """v_max and v_min: the other source where one is a NaN; with IEEE a signaling NaN wins and becomes quiet."""
    a, b = np.broadcast_arrays(a, b)
    first = _ordered(a) > _ordered(b) if larger else _ordered(a) < _ordered(b)
    nan_a, nan_b = np.isnan(a), np.isnan(b)
    result: Values = np.where(np.where(nan_a, False, first | nan_b), bits(a), bits(b))
    if mode.ieee and (nan_a.any() or nan_b.any()):
        result = np.where(is_signaling(b), bits(quiet(b)), result)
        result = np.where(is_signaling(a), bits(quiet(a)), result)
    return result.view(a.dtype)


def maximum(mode: FloatMode, a: Values, b: Values) -> Values:
    """v_max of any float type."""
    return _choose(mode, a, b, True)


def minimum(mode: FloatMode, a: Values, b: Values) -> Values:
    """v_min of any float type."""
    return _choose(mode, a, b, False)


def by_three(function: Function) -> Function:
    return lambda mode, a, b, c: function(mode, function(mode, a, b), c)


def median(mode: FloatMode, a: Values, b: Values, c: Values) -> Values:
    """v_med3: with a NaN among the sources v_min3, else the middle one."""
    a, b, c = np.broadcast_arrays(np.asarray(a), np.asarray(b), np.asarray(c))
    largest = by_three(maximum)(mode, a, b, c)
    rest = np.where(largest == a, bits(maximum(mode, b, c)),
                    np.where(largest == b, bits(maximum(mode, a, c)), bits(maximum(mode, a, b))))
    nan = np.isnan(a) | np.isnan(b) | np.isnan(c)
    return np.where(nan, bits(by_three(minimum)(mode, a, b, c)), rest).view(a.dtype)


def propagating(larger: bool) -> Function:
    """IEEE 754-2019 maximum and minimum: a NaN wins, made quiet; -0 is below +0."""

    def function(mode: FloatMode, a: Values, b: Values) -> Values:
        a, b = np.broadcast_arrays(np.asarray(a), np.asarray(b))
        result = bits(_choose(mode, a, b, larger))
        result = np.where(np.isnan(b), bits(quiet(b)), result)
        return np.where(np.isnan(a), bits(quiet(a)), result).view(a.dtype)

    return function


def _rounder(function: Callable[[Values], Values]) -> Function:
    def whole(mode: FloatMode, a: Values) -> Values:
        a = np.asarray(a)
        return function(a.astype(np.float32)).astype(a.dtype) if a.dtype == np.float16 else function(a)

    return whole


def _fract(kind: str) -> Function:
    below_one = np.nextafter(TYPES[kind](1), TYPES[kind](0))
    add = sum_of(kind)

    def function(mode: FloatMode, a: Values) -> Values:
        whole = _rounder(np.floor)(mode, a)
        # A tiny negative number would round up to 1 (LLVM folds fract's limit below 1 into the instruction).
        return np.minimum(add(mode, a, -whole), below_one)

    return function


def _mantissa(mode: FloatMode, a: Values) -> Values:
    a = np.asarray(a)
    return np.where(np.isfinite(a), np.frexp(a)[0], quiet(a))


def _exponent(result: type[np.signedinteger[Any]]) -> Function:
    def function(mode: FloatMode, a: Values) -> Values:
        a = np.asarray(a)
        return np.where(np.isfinite(a), np.frexp(np.where(np.isfinite(a), a, a.dtype.type(0)))[1], 0).astype(result)

    return function


def scale(kind: str) -> Function:
    """v_ldexp: a * 2**b with one rounding."""

    def function(mode: FloatMode, a: Values, exponent: Values) -> Values:
        power = np.clip(np.asarray(exponent).astype(np.int32), -4400, 4400)
        if kind != "f64":
            return narrow(np.ldexp(wide(a), np.clip(power, -600, 600)), kind, mode)
        if mode.round_wide == NEAREST_EVEN:
            return np.ldexp(wide(a), power)
        return scale64_exact(a, power, mode.round_wide)

    return function


def _sine(a: Values, quarter: bool) -> Values:
    """sin(2 pi a), or cos with `quarter`: reduced exactly to an eighth of a turn's neighbourhood, so that zeros and ones are exact."""
    value = wide(a)
    rest = value - np.rint(value)
    if quarter:
        rest = 0.25 - np.abs(rest)
    else:
        rest = np.where(np.abs(rest) > 0.25, np.copysign(0.5, rest) - rest, np.where(value == 0, value, rest))
    near_one = np.abs(rest) > 0.125
    other = np.copysign(np.cos(2 * np.pi * (0.25 - np.abs(rest))), rest)
    result = np.where(near_one, other, np.sin(2 * np.pi * rest))
    return np.where(np.isfinite(value), result, np.nan)


def _sin(a: Values) -> Values:
    return _sine(a, False)


def _cos(a: Values) -> Values:
    return _sine(a, True)


def _rsq(a: Values) -> Values:
    return 1.0 / np.sqrt(wide(a))


TRANSCENDENTAL: dict[str, Callable[[Values], Values]] = {
    "rcp": lambda a: 1.0 / wide(a), "rsq": _rsq, "sqrt": lambda a: np.sqrt(wide(a)), "exp": lambda a: np.exp2(wide(a)),
    "log": lambda a: np.log2(wide(a)), "sin": _sin, "cos": _cos,
}
"""The slow functions in f64. f32 results are within 1 ulp of them whatever MODE's rounding (ISA: 1 ulp); here they are the nearest."""


def transcendental(name: str, kind: str) -> Function:
    """One slow function on one type. f32 ones treat denormal sources and results as zero whatever MODE says (ISA)."""
    function = TRANSCENDENTAL[name]

    def apply(mode: FloatMode, a: Values) -> Values:
        if kind == "f32":
            return flush(narrow(function(flush(a)), kind, mode, NEAREST_EVEN))
        return narrow(function(a), kind, mode, NEAREST_EVEN)

    return apply


def _mul_legacy(mode: FloatMode, a: Values, b: Values) -> Values:
    zero = (np.asarray(a) == 0) | (np.asarray(b) == 0)
    return np.where(zero, np.float32(0), product_of("f32")(mode, a, b))


def _is_denormal_quotient(numerator: Values, denominator: Values, kind: str) -> Values:
    """Whether numerator / denominator is below the normal range, decided without rounding: on mantissas and exponents."""
    top, high = np.frexp(wide(numerator))
    bottom, low = np.frexp(wide(denominator))
    # top/bottom lies in (1/2, 2): the quotient is below 2**e where its exponent says so, or at e where top < bottom.
    exponent = high.astype(np.int64) - low + np.where(np.abs(top) < np.abs(bottom), -1, 0)
    least = -126 if kind == "f32" else -1022
    return np.isfinite(wide(numerator)) & np.isfinite(wide(denominator)) & (top != 0) & (bottom != 0) & (exponent < least)


def div_scale(kind: str) -> Function:
    """v_div_scale(x, denominator, numerator): x is one of the two, scaled such that the division's steps stay in range.

    Returns (result, flag of v_div_fmas). Where 1/denominator is denormal the denominator is scaled down, as else the quotient could
    not come out right: the ISA's text has the same factor as elsewhere in one of the two cases (inferred).
    """
    shift, near, tiny, bias = (64, 96, 23, 127) if kind == "f32" else (128, 768, 53, 1023)
    mantissa = 23 if kind == "f32" else 52

    def function(mode: FloatMode, value: Values, denominator: Values, numerator: Values) -> Values:
        value, denominator, numerator = np.broadcast_arrays(*(np.asarray(x) for x in (value, denominator, numerator)))
        ldexp = scale(kind)
        up, down = ldexp(mode, value, np.int32(shift)), ldexp(mode, value, np.int32(-shift))
        field = bits(numerator).dtype.type(2 * bias + 1)
        top = (bits(numerator) >> field.dtype.type(mantissa) & field).astype(np.int64)
        bottom = (bits(denominator) >> field.dtype.type(mantissa) & field).astype(np.int64)
        invalid = (numerator == 0) | (denominator == 0)
        large = top - bottom >= near
        denormal = (np.abs(denominator) < TINY[kind]) & (denominator != 0)
        inverse = _is_denormal_quotient(np.ones_like(denominator), denominator, kind)
        quotient = _is_denormal_quotient(numerator, denominator, kind)
        is_bottom, is_top = value == denominator, value == numerator
        flag = ~invalid & (large | ~denormal & quotient)
        result = np.select(
            [invalid, large, denormal, inverse & quotient, inverse, quotient, top <= tiny],
            [np.full_like(value, np.nan), np.where(is_bottom, up, value), up, np.where(is_bottom, down, value), down,
             np.where(is_top, up, value), up], value)
        return result, flag

    return function


def div_fmas(kind: str) -> Function:
    """v_div_fmas: fma, and where the flag is set the scaling of v_div_scale undone: up if the quotient was large, else down.

    Both together are rounded once: a quotient that ends subnormal would else be rounded at 53 bits and again at fewer.
    The direction follows from the third source, the quotient so far (inferred: the ISA's text gives one factor that undoes neither).
    """
    shift = 64 if kind == "f32" else 128
    fma = fused(kind)

    def function(mode: FloatMode, a: Values, b: Values, c: Values, flag: Values) -> Values:
        plain = fma(mode, a, b, c)
        up = np.abs(np.asarray(c)) >= 2
        if kind == "f32":
            exact = odd_sum(wide(a) * wide(b), c, mode.round32)
            return np.where(flag, narrow(np.ldexp(exact, np.where(up, shift, -shift)), kind, mode), plain)
        sources = np.broadcast_arrays(a, b, c, flag, np.where(up, shift, -shift), plain)
        flag, result = sources[3].astype(bool), sources[5].copy()
        if flag.any():  # seldom, and then in few lanes
            first, second, third, power = (source[flag] for source in (*sources[:3], sources[4]))
            result[flag] = fma64_exact(first, second, third, mode.round_wide, power)
        return result

    return function


def div_fixup(kind: str) -> Function:
    """v_div_fixup(quotient, denominator, numerator): special cases of a division put right.

    A quotient that is infinite or no number although both sources are finite has overflowed on the way (inferred: the ISA's text tests
    the denominator's exponent there, which the cases before have excluded). Underflow and overflow round as MODE says.
    """
    bias, mantissa, least = {"f16": (15, 10, None), "f32": (127, 23, -150), "f64": (1023, 52, -1075)}[kind]
    number = TYPES[kind]
    half = number(2.0 ** -(bias - bias // 3))  # its square lies below half of the least denormal
    multiply = product_of(kind)

    def function(mode: FloatMode, quotient: Values, denominator: Values, numerator: Values) -> Values:
        quotient, denominator, numerator = np.broadcast_arrays(*(np.asarray(x) for x in (quotient, denominator, numerator)))
        sign = np.where(np.signbit(denominator) ^ np.signbit(numerator), number(-1), number(1))
        field = bits(numerator).dtype.type(2 * bias + 1)
        top = (bits(numerator) >> field.dtype.type(mantissa) & field).astype(np.int64)
        bottom = (bits(denominator) >> field.dtype.type(mantissa) & field).astype(np.int64)
        ranged = least is not None
        underflow = (top - bottom < least) & ranged if least is not None else np.zeros(top.shape, bool)
        overflow = ~np.isfinite(quotient) & ranged
        infinite, zero = np.isinf(numerator), numerator == 0
        small, large = multiply(mode, sign * half, half), multiply(mode, sign / half, number(1) / half)
        result = np.select(
            [np.isnan(numerator), np.isnan(denominator), zero & (denominator == 0), infinite & np.isinf(denominator),
             infinite | (denominator == 0), zero | np.isinf(denominator), underflow, overflow],
            [quiet(numerator), quiet(denominator), np.full_like(quotient, np.nan), np.full_like(quotient, np.nan),
             np.copysign(number(np.inf), sign), np.copysign(number(0), sign), small, large],
            np.copysign(quotient, sign))
        return result

    return function


_TWO_OVER_PI_BITS = 1201


def _two_over_pi() -> int:
    """The first 1201 bits after the binary point of 2/pi, from Machin's formula in integers."""
    guard = 1 << _TWO_OVER_PI_BITS + 64

    def arctan_inverse(x: int) -> int:
        term = total = guard // x
        n, sign = 3, -1
        while term:
            term //= x * x
            total += sign * (term // n)
            n, sign = n + 2, -sign
        return total

    pi = 4 * (4 * arctan_inverse(5) - arctan_inverse(239))
    return (2 * guard * guard // pi) >> 64


def _trig_preop(mode: FloatMode, a: Values, segment: Values) -> Values:
    """v_trig_preop_f64: the 53 bits of 2/pi from bit 53*segment on, further for large arguments, as a number (ISA)."""
    fraction = _two_over_pi()
    exponent = (bits(wide(a)) >> np.uint64(52) & np.uint64(0x7FF)).astype(np.int64)

    def one(field: int, number: int) -> float:
        shift = (number & 31) * 53 + max(field - 1077, 0)
        digits = (fraction << shift >> _TWO_OVER_PI_BITS - 53) & ((1 << 53) - 1)
        return float(np.ldexp(float(digits), -53 - shift + (128 if field >= 1968 else 0)))

    values = np.frompyfunc(one, 2, 1)(exponent, np.asarray(segment).astype(np.int64))
    return np.asarray(values).astype(np.float64)


def _cube(part: str) -> Function:
    """v_cubeid, v_cubesc, v_cubetc, v_cubema: face, coordinates and twice the major axis of a cube map direction (x, y, z)."""

    def function(mode: FloatMode, x: Values, y: Values, z: Values) -> Values:
        x, y, z = np.broadcast_arrays(*(np.asarray(value) for value in (x, y, z)))
        on_z = (np.abs(z) >= np.abs(x)) & (np.abs(z) >= np.abs(y))
        on_y = ~on_z & (np.abs(y) >= np.abs(x))
        by_axis: dict[str, tuple[Values, Values, Values]] = {
            "id": (np.where(z < 0, 5, 4), np.where(y < 0, 3, 2), np.where(x < 0, 1, 0)),
            "sc": (np.where(z < 0, -x, x), x, np.where(x < 0, z, -z)),
            "tc": (-y, np.where(y < 0, -z, z), -y),
            "ma": (z * np.float32(2), y * np.float32(2), x * np.float32(2)),
        }
        of_z, of_y, of_x = by_axis[part]
        return np.where(on_z, of_z, np.where(on_y, of_y, of_x)).astype(np.float32)

    return function


def classify(a: Values, classes: Values) -> Values:
    """v_cmp_class: whether the number is of one of the classes whose bits are set."""
    a = np.asarray(a)
    kind = {2: "f16", 4: "f32", 8: "f64"}[a.dtype.itemsize]
    negative, magnitude = np.signbit(a), np.abs(a)
    finite = np.select([magnitude == 0, magnitude < TINY[kind], np.isfinite(a)],
                       [np.where(negative, 5, 6), np.where(negative, 4, 7), np.where(negative, 3, 8)], np.where(negative, 2, 9))
    number = np.where(is_signaling(a), 0, np.where(np.isnan(a), 1, finite)).astype(np.uint32)
    return (np.asarray(classes) >> number & np.uint32(1)).astype(bool)


COMPARE: dict[str, Callable[[Values, Values], Values]] = {
    "f": lambda a, b: np.zeros(np.broadcast_shapes(np.shape(a), np.shape(b)), bool),
    "t": lambda a, b: np.ones(np.broadcast_shapes(np.shape(a), np.shape(b)), bool),
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "lg": lambda a, b: (a < b) | (a > b), "neq": lambda a, b: ~np.equal(a, b), "nlt": lambda a, b: ~np.less(a, b),
    "nle": lambda a, b: ~np.less_equal(a, b), "ngt": lambda a, b: ~np.greater(a, b), "nge": lambda a, b: ~np.greater_equal(a, b),
    "nlg": lambda a, b: ~((a < b) | (a > b)), "o": lambda a, b: (a == a) & (b == b), "u": lambda a, b: (a != a) | (b != b),
    "class": classify,
}
"""Comparisons by the middle part of the mnemonic ("tru" is "t")."""
COMPARE["tru"] = COMPARE["t"]

FLOAT: dict[str, Function] = {
    "v_mul_legacy_f32": _mul_legacy, "v_trig_preop_f64": _trig_preop,
    "v_frexp_exp_i32_f32": _exponent(np.int32), "v_frexp_exp_i32_f64": _exponent(np.int32), "v_frexp_exp_i16_f16": _exponent(np.int16),
    "v_fma_legacy_f16": fused("f16"), "v_mad_legacy_f16": fused("f16"), "v_mad_f16": fused("f16"), "v_mac_f16": fused("f16"),
    "v_madmk_f16": fused("f16"), "v_madak_f16": fused("f16"), "v_fmamk_f32": fused("f32"), "v_fmaak_f32": fused("f32"),
    "v_fmac_f32": fused("f32"), "v_fmac_f64": fused("f64"), "v_div_fixup_legacy_f16": div_fixup("f16"), "v_div_fixup_f16": div_fixup("f16"),
    "v_minimum3_f32": by_three(propagating(False)), "v_maximum3_f32": by_three(propagating(True)),
    "v_rcp_iflag_f32": transcendental("rcp", "f32"), "v_exp_legacy_f32": transcendental("exp", "f32"),
    "v_log_legacy_f32": transcendental("log", "f32"),
}
"""Instructions by mnemonic. v_fmamk has its literal in the middle, as written; v_mac and v_fmac have their destination last.

v_mad_f16 and its like are fused here: the ISA's text writes a product and a sum, and which of both gfx942 does is unconfirmed.
"""

for _part in ("id", "sc", "tc", "ma"):
    FLOAT[f"v_cube{_part}_f32"] = _cube(_part)
for _kind in ("f16", "f32", "f64"):
    _add = sum_of(_kind)
    FLOAT[f"v_add_{_kind}"] = _add
    FLOAT[f"v_mul_{_kind}"] = product_of(_kind)
    FLOAT[f"v_fma_{_kind}"] = fused(_kind)
    FLOAT[f"v_max_{_kind}"], FLOAT[f"v_min_{_kind}"] = maximum, minimum
    for _name, _whole in (("trunc", np.trunc), ("ceil", np.ceil), ("rndne", np.rint), ("floor", np.floor)):
        FLOAT[f"v_{_name}_{_kind}"] = _rounder(_whole)
    FLOAT[f"v_fract_{_kind}"] = _fract(_kind)
    FLOAT[f"v_frexp_mant_{_kind}"] = _mantissa
    FLOAT[f"v_ldexp_{_kind}"] = scale(_kind)
    for _name in ("rcp", "rsq", "sqrt"):
        FLOAT[f"v_{_name}_{_kind}"] = transcendental(_name, _kind)
    if _kind == "f64":
        continue
    FLOAT[f"v_sub_{_kind}"] = lambda mode, a, b, add=_add: add(mode, a, -np.asarray(b))
    FLOAT[f"v_subrev_{_kind}"] = lambda mode, a, b, add=_add: add(mode, b, -np.asarray(a))
    FLOAT[f"v_max3_{_kind}"], FLOAT[f"v_min3_{_kind}"] = by_three(maximum), by_three(minimum)
    FLOAT[f"v_med3_{_kind}"] = median
    for _name in ("exp", "log", "sin", "cos"):
        FLOAT[f"v_{_name}_{_kind}"] = transcendental(_name, _kind)
for _kind in ("f32", "f64"):
    FLOAT[f"v_div_scale_{_kind}"] = div_scale(_kind)
    FLOAT[f"v_div_fmas_{_kind}"] = div_fmas(_kind)
    FLOAT[f"v_div_fixup_{_kind}"] = div_fixup(_kind)
