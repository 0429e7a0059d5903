"""Exact float arithmetic with one rounding: what fma, add and conversions share.

f16 and f32 results are computed in f64 *rounded to odd* (inexact results get an odd last bit), which a second rounding to at most 51
bits cannot tell from the exact value; f64 results in the three directed modes by exact integer arithmetic, one number at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from asmgen.emulator.machine.floatmode import DOWN, NEAREST_EVEN, TOWARD_ZERO, UP, FloatMode

Values = Any  # arrays [waves, 64], or broadcastable to that
TINY = {"f16": np.float16(2.0**-14), "f32": np.float32(2.0**-126), "f64": np.float64(2.0**-1022)}
"""The least normal number of each type."""
TYPES: dict[str, type[np.floating[Any]]] = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
_UNSIGNED: dict[int, type[np.unsignedinteger[Any]]] = {2: np.uint16, 4: np.uint32, 8: np.uint64}


def bits(values: Values) -> Values:
    """The bit patterns of floats, as unsigned integers of their size."""
    array = np.asarray(values)
    return array.view(_UNSIGNED[array.dtype.itemsize])


def wide(values: Values) -> Values:
    """The same numbers in f64, exactly."""
    return np.asarray(values).astype(np.float64)


def flush(values: Values) -> Values:
    """Denormals become zeros of their sign."""
    array = np.asarray(values)
    tiny = np.finfo(array.dtype).smallest_normal
    return np.where(np.abs(array) < tiny, np.copysign(array.dtype.type(0), array), array)


def quiet(values: Values) -> Values:
    """Signaling NaNs become quiet ones; everything else stays."""
    array = np.asarray(values)
    pattern = bits(array)
    top = pattern.dtype.type(1 << np.finfo(array.dtype).nmant - 1)
    return np.where(np.isnan(array), pattern | top, pattern).view(array.dtype)


def is_signaling(values: Values) -> Values:
    """Which are signaling NaNs."""
    array = np.asarray(values)
    top = bits(array).dtype.type(1 << np.finfo(array.dtype).nmant - 1)
    return np.isnan(array) & ((bits(array) & top) == 0)


def odd_sum(a: Values, b: Values, rounding: int = NEAREST_EVEN) -> Values:
    """a + b of f64, rounded to odd; an exact zero has the sign that the rounding mode gives it."""
    a, b = np.broadcast_arrays(wide(a), wide(b))
    total = a + b
    part = total - a
    error = (a - (total - part)) + (b - part)
    pattern = total.view(np.int64)
    inexact = (error != 0) & np.isfinite(total) & ((pattern & 1) == 0)
    outward = (error > 0) == (total > 0)
    result = np.where(inexact, pattern + np.where(outward, 1, -1), pattern).view(np.float64)
    if rounding == DOWN:
        cancelled = (total == 0) & (np.signbit(a) != np.signbit(b))
        result = np.where(cancelled, -0.0, result)
    return result


def narrow(values: Values, kind: str, mode: FloatMode, rounding: int | None = None) -> Values:
    """f64 values, exact or rounded to odd, as f16 or f32 (or f64 as they are), rounded as MODE says or as given.

    MODE.FP16_OVFL makes f16 overflow the largest finite number whatever the rounding; true infinities stay (ISA, MODE register).
    """
    exact = wide(values)
    if kind == "f64":
        return exact
    how = mode.rounding(kind) if rounding is None else rounding
    result = exact.astype(TYPES[kind])
    if how != NEAREST_EVEN:
        back = wide(result)
        infinity = result.dtype.type(np.inf)
        if how == UP:
            result = np.where(back < exact, np.nextafter(result, infinity), result)
        elif how == DOWN:
            result = np.where(back > exact, np.nextafter(result, -infinity), result)
        else:
            result = np.where(np.abs(back) > np.abs(exact), np.nextafter(result, result.dtype.type(0)), result)
    if kind == "f16" and mode.fp16_overflow:
        largest = np.copysign(np.float16(65504), exact.astype(np.float32).astype(np.float16))
        result = np.where(np.isinf(result) & np.isfinite(exact), largest, result)
    return result


def _round_fraction(exact: Fraction, rounding: int) -> float:
    try:
        result = exact.numerator / exact.denominator
    except OverflowError:
        result = math.inf if exact > 0 else -math.inf
    if math.isinf(result):
        limit = math.nextafter(math.inf, 0)
        away = rounding == NEAREST_EVEN or rounding == (UP if exact > 0 else DOWN)
        return result if away else math.copysign(limit, result)
    if rounding == UP and Fraction(result) < exact:
        return math.nextafter(result, math.inf)
    if rounding == DOWN and Fraction(result) > exact:
        return math.nextafter(result, -math.inf)
    if rounding == TOWARD_ZERO and abs(Fraction(result)) > abs(exact):
        return math.nextafter(result, 0)
    return result


def _fma_one(a: float, b: float, c: float, rounding: int, power: int) -> float:
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        # No rounding happens; a product that overflows here must not become an infinity, so only its sign counts.
        product = a * b if not (math.isfinite(a) and math.isfinite(b)) else math.copysign(1.0, a) * math.copysign(1.0, b)
        return product + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        negative = math.copysign(1.0, a) * math.copysign(1.0, b) < 0
        if negative == (math.copysign(1.0, c) < 0) and c == 0 and (a == 0 or b == 0):
            return -0.0 if negative else 0.0
        return -0.0 if rounding == DOWN else 0.0
    result = _round_fraction(exact * Fraction(2) ** power, rounding)
    return math.copysign(result, 1 if exact > 0 else -1)


def _scale_one(a: float, power: int, rounding: int) -> float:
    if not math.isfinite(a) or a == 0:
        return a
    return math.copysign(_round_fraction(Fraction(a) * Fraction(2) ** power, rounding), a)


_FMA_EXACT = np.frompyfunc(_fma_one, 5, 1)
_SCALE_EXACT = np.frompyfunc(_scale_one, 3, 1)


def scale64_exact(a: Values, power: Values, rounding: int) -> Values:
    """a * 2**power of f64 with one rounding, in integers."""
    return np.asarray(_SCALE_EXACT(wide(a), np.asarray(power).astype(object), rounding)).astype(np.float64)


def fma64_exact(a: Values, b: Values, c: Values, rounding: int, power: Values = 0) -> Values:
    """(a*b + c) * 2**power of f64 with one rounding, in integers: for every rounding mode, and slow."""
    return np.asarray(_FMA_EXACT(wide(a), wide(b), wide(c), rounding, np.asarray(power).astype(object))).astype(np.float64)


def fma64(a: Values, b: Values, c: Values, rounding: int) -> Values:
    """a*b + c of f64 with one rounding."""
    if rounding != NEAREST_EVEN:
        return fma64_exact(a, b, c, rounding)
    from asmgen.emulator.semantics.kernels import fma_f64

    a, b, c = (np.ascontiguousarray(array) for array in np.broadcast_arrays(wide(a), wide(b), wide(c)))
    out = np.empty(a.shape, np.float64)
    fma_f64(a.ravel(), b.ravel(), c.ravel(), out.reshape(-1))
    return out


def fused(kind: str) -> Callable[[FloatMode, Values, Values, Values], Values]:
    """fma of one type: a product of two f16 or f32 is exact in f64, so one sum rounded to odd holds it all."""

    def fma(mode: FloatMode, a: Values, b: Values, c: Values) -> Values:
        rounding = mode.rounding(kind)
        if kind == "f64":
            return fma64(a, b, c, rounding)
        return narrow(odd_sum(wide(a) * wide(b), c, rounding), kind, mode)

    return fma


def sum_of(kind: str) -> Callable[[FloatMode, Values, Values], Values]:
    """a + b of one type."""

    def add(mode: FloatMode, a: Values, b: Values) -> Values:
        rounding = mode.rounding(kind)
        if rounding == NEAREST_EVEN and kind != "f16":
            return np.asarray(a) + np.asarray(b)
        if kind == "f64":
            return fma64_exact(a, np.float64(1), b, rounding)
        return narrow(odd_sum(a, b, rounding), kind, mode)

    return add


def product_of(kind: str) -> Callable[[FloatMode, Values, Values], Values]:
    """a * b of one type."""

    def multiply(mode: FloatMode, a: Values, b: Values) -> Values:
        rounding = mode.rounding(kind)
        if rounding == NEAREST_EVEN and kind != "f16":
            return np.asarray(a) * np.asarray(b)
        if kind == "f64":
            # -0 as the addend keeps the product's sign where it is zero.
            return fma64_exact(a, b, np.copysign(0.0, wide(a) * wide(b)), rounding)
        return narrow(wide(a) * wide(b), kind, mode)

    return multiply
