"""Components of typed buffers: between their bits in memory and what registers hold.

Registers hold floats for normalised, scaled and float formats and integers for the others; 32-bit components are never converted
(CDNA3 ISA, 9.1.3). `half` is the d16 instructions' 16 bits instead of 32.

No public source says how the hardware rounds. Inferred: normalised and scaled values are rounded to nearest even in both directions,
after limiting to the range (a NaN becomes 0); integers lose their upper bits, as byte and short stores do; a 32-bit float is truncated
to 16 bits on a d16 load, all else rounds to nearest even (RDNA3 ISA, 9.3.1); 10- and 11-bit floats have no sign, negative numbers become 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from asmgen.isa.bufferformats import INTEGERS, NUMBER

Words = NDArray[np.uint32]
Array = NDArray[Any]
_SIGNED = frozenset({NUMBER["SNORM"], NUMBER["SSCALED"], NUMBER["SINT"]})
_NORMALISED = frozenset({NUMBER["UNORM"], NUMBER["SNORM"]})


def load_component(field: Words, width: int, number: int, half: bool) -> Words:
    """A component of `width` bits as a register gets it: 32 bits, or 16 in the lower half."""
    if width == 32 and not half:
        return field
    if number in INTEGERS:
        value = _extended(field, width, number in _SIGNED).astype(np.uint32)
        return value & np.uint32(0xFFFF) if half else value
    if number == NUMBER["FLOAT"]:
        return _load_float(field, width, half)
    value = _extended(field, width, number in _SIGNED).astype(np.float64)
    if number in _NORMALISED:
        value = np.maximum(value / _largest(width, number), -1.0)
    return _pattern(value, half)


def store_component(value: Words, width: int, number: int, half: bool) -> Words:
    """The `width` bits in memory of a register's component."""
    if number in INTEGERS:
        if half and number in _SIGNED:
            value = _extended(value & np.uint32(0xFFFF), 16, True).astype(np.uint32)
        return value & _mask(width)
    if width == 32 and not half:
        return value
    if half and width == 16 and number == NUMBER["FLOAT"]:
        return value & np.uint32(0xFFFF)
    real = value.astype(np.uint16).view(np.float16).astype(np.float32) if half else value.view(np.float32)
    if number == NUMBER["FLOAT"]:
        return _store_float(real, width)
    if width == 32:
        return real.view(np.uint32)
    top = _largest(width, number)
    exact = np.where(np.isnan(real), 0.0, real.astype(np.float64)) * (top if number in _NORMALISED else 1)
    # Scaled formats reach the lowest integer, normalised ones stop at -1.
    low = 0 if number not in _SIGNED else -top if number in _NORMALISED else -top - 1
    words: Words = np.rint(np.clip(exact, low, top)).astype(np.int64).astype(np.uint32) & _mask(width)
    return words


def _mask(width: int) -> np.uint32:
    return np.uint32((1 << width) - 1)


def _largest(width: int, number: int) -> int:
    return (1 << width - (number in _SIGNED)) - 1


def _extended(field: Words, width: int, signed: bool) -> NDArray[np.int64]:
    value = field.astype(np.int64)
    return (value ^ 1 << width - 1) - (1 << width - 1) if signed else value


def _pattern(value: Array, half: bool) -> Words:
    if half:
        return value.astype(np.float16).view(np.uint16).astype(np.uint32)
    return value.astype(np.float32).view(np.uint32)


def _load_float(field: Words, width: int, half: bool) -> Words:
    if width == 32:
        return _truncated(field)
    # 11 and 10 bits are an f16 without sign and lowest mantissa bits.
    code = field if width == 16 else field << np.uint32(15 - width)
    return code if half else code.astype(np.uint16).view(np.float16).astype(np.float32).view(np.uint32)


def _truncated(patterns: Words) -> Words:
    """f32 patterns as f16 ones, towards zero."""
    value = patterns.view(np.float32)
    rounded = value.astype(np.float16)
    too_large = np.abs(rounded.astype(np.float32)) > np.abs(value)  # magnitudes are ordered as their patterns are
    return rounded.view(np.uint16).astype(np.uint32) - too_large.astype(np.uint32)


def _store_float(value: Array, width: int) -> Words:
    if width == 32:
        return np.asarray(value.view(np.uint32))
    if width == 16:
        return value.astype(np.float16).view(np.uint16).astype(np.uint32)
    mantissa = width - 5
    infinity = 31 << mantissa
    magnitude = np.where(value > 0, value, 0).astype(np.float64)
    finite = np.where(np.isfinite(magnitude), magnitude, 0.0)
    exponent = np.where(finite > 0, np.maximum(np.frexp(finite)[1] - 1, -14), -14)
    # The mantissa with its leading one counts on into the exponent; denormals have exponent -14 and no leading one.
    code = (exponent.astype(np.int64) + 14 << mantissa) + np.rint(np.ldexp(finite, mantissa - exponent)).astype(np.int64)
    code = np.where(np.isinf(magnitude), infinity, np.minimum(code, infinity))
    return np.where(np.isnan(value), infinity | 1 << mantissa - 1, code).astype(np.uint32)
