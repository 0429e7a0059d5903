"""Number formats in exact fractions, from the layouts that the specifications print, and values worth trying."""

from __future__ import annotations

import bisect
import functools
import math
from fractions import Fraction

import ml_dtypes
import numpy as np

from asmgen.isa.formats import (
    FORMATS,
    ROUNDINGS,
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
