"""Conversions of the vector ALU: functions (mode, *sources) on typed arrays, by mnemonic.

Rounding follows MODE of the result's type unless the ISA fixes it. bf16 are bit patterns (uint16). Sources: CDNA3 and CDNA4 ISA.
Unconfirmed: that v_cvt_pk_u8_f32 rounds as MODE says (its users rely on nearest), that normalised conversions round to nearest even.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from asmgen.emulator.machine.floatmode import DOWN, NEAREST_EVEN, TOWARD_ZERO, UP, FloatMode
from asmgen.emulator.semantics.integers import u32
from asmgen.emulator.semantics.rounding import flush, narrow, quiet, wide
from asmgen.isa.formats import encode

Values = Any
Function = Callable[..., Values]

_ROUND = {NEAREST_EVEN: np.rint, UP: np.ceil, DOWN: np.floor, TOWARD_ZERO: np.trunc}
INTEGERS: dict[str, type[np.integer[Any]]] = {"i32": np.int32, "u32": np.uint32, "i16": np.int16, "u16": np.uint16}


def to_integer(kind: type[np.integer[Any]], whole: Callable[[Values], Values] = np.trunc) -> Function:
    """To a whole number, limited to the type's range; a NaN becomes 0."""
    limits = np.iinfo(kind)

    def function(mode: FloatMode, a: Values) -> Values:
        value = np.nan_to_num(whole(wide(a)), nan=0.0, posinf=2.0**40, neginf=-(2.0**40))
        return np.clip(value, limits.min, limits.max).astype(kind)

    return function


def _nearest_up(value: Values) -> Values:
    return np.floor(value + 0.5)


def to_float(kind: str) -> Function:
    """From an integer or another float type, rounded as MODE says; signaling NaNs become quiet."""

    def function(mode: FloatMode, a: Values) -> Values:
        a = np.asarray(a)
        return narrow(quiet(a) if a.dtype.kind == "f" else a, kind, mode)

    return function


def bf16_pattern(a: Values) -> Values:
    """f32 to bf16 bits, nearest even; NaNs keep their upper payload and become quiet."""
    return encode(a, "bf16", "nearest_even")


def from_bf16(a: Values) -> Values:
    """The f32 of bf16 bits."""
    return (u32(a) << np.uint32(16)).view(np.float32)


def pack(low: Values, high: Values) -> Values:
    """Two 16-bit halves as one register."""
    low, high = (np.asarray(x) for x in (low, high))
    return u32(low.view(np.uint16)) | u32(high.view(np.uint16)) << np.uint32(16)


def _normalised(kind: type[np.integer[Any]]) -> Function:
    limits = np.iinfo(kind)
    least = -limits.max if limits.min else 0

    def function(mode: FloatMode, a: Values) -> Values:
        value = np.rint(np.nan_to_num(np.clip(wide(a), -1.0, 1.0), nan=0.0) * limits.max)
        return np.maximum(value, least).astype(kind)

    return function


def _pack_with(function: Function) -> Function:
    return lambda mode, a, b: pack(function(mode, a), function(mode, b))


def _to_byte(mode: FloatMode, a: Values) -> Values:
    value = np.nan_to_num(_ROUND[mode.round32](wide(a)), nan=0.0, posinf=255.0, neginf=0.0)
    return np.clip(value, 0, 255).astype(np.uint32)


def _pack_byte(mode: FloatMode, a: Values, position: Values, old: Values) -> Values:
    shift = (u32(position) & np.uint32(3)) << np.uint32(3)
    return np.asarray(old) & ~(np.uint32(0xFF) << shift) | _to_byte(mode, a) << shift


def _offset_i4(mode: FloatMode, a: Values) -> Values:
    """A signed 4-bit number in sixteenths."""
    nibble = np.asarray(a) & np.uint32(15)
    return ((nibble ^ np.uint32(8)).astype(np.int32) - np.int32(8)).astype(np.float32) / np.float32(16)


def _byte(number: int) -> Function:
    return lambda mode, a: (np.asarray(a) >> np.uint32(8 * number) & np.uint32(0xFF)).astype(np.float32)


def _half(a: Values, mode: FloatMode, rounding: int) -> Values:
    return narrow(quiet(a), "f16", mode, rounding)


def _stochastic(name: str) -> Function:
    def function(mode: FloatMode, a: Values, seed: Values) -> Values:
        a, seed = np.broadcast_arrays(np.asarray(a), np.asarray(seed))
        return encode(a, name, "stochastic", name == "f16" and mode.fp16_overflow, seed)

    return function


def _pack_half(rounding: int) -> Function:
    def function(mode: FloatMode, a: Values, b: Values) -> Values:
        low, high = (_half(x, mode, rounding) for x in (a, b))
        if mode.flush_wide_out:
            low, high = flush(low), flush(high)
        return pack(low, high)

    return function


CONVERT: dict[str, Function] = {
    "v_cvt_f32_bf16": lambda mode, a: from_bf16(a),
    "v_cvt_rpi_i32_f32": to_integer(np.int32, _nearest_up), "v_cvt_flr_i32_f32": to_integer(np.int32, np.floor),
    "v_cvt_norm_i16_f16": _normalised(np.int16), "v_cvt_norm_u16_f16": _normalised(np.uint16),
    "v_cvt_pknorm_i16_f32": _pack_with(_normalised(np.int16)), "v_cvt_pknorm_u16_f32": _pack_with(_normalised(np.uint16)),
    "v_cvt_pknorm_i16_f16": _pack_with(_normalised(np.int16)), "v_cvt_pknorm_u16_f16": _pack_with(_normalised(np.uint16)),
    "v_cvt_off_f32_i4": _offset_i4, "v_cvt_pk_u8_f32": _pack_byte, "v_cvt_pkaccum_u8_f32": _pack_byte,
    "v_cvt_pkrtz_f16_f32": _pack_half(TOWARD_ZERO), "v_cvt_pk_f16_f32": _pack_half(NEAREST_EVEN),
    "v_cvt_pk_bf16_f32": lambda mode, a, b: pack(bf16_pattern(a), bf16_pattern(b)),
    "v_cvt_sr_f16_f32": _stochastic("f16"), "v_cvt_sr_bf16_f32": _stochastic("bf16"),
    "v_pack_b32_f16": lambda mode, a, b: pack(a, b),
}
"""Conversions by mnemonic; v_cvt_pkaccum_u8_f32 has its destination last."""

for _kind, _source in (("i32", "f32"), ("u32", "f32"), ("i32", "f64"), ("u32", "f64"), ("i16", "f16"), ("u16", "f16")):
    CONVERT[f"v_cvt_{_kind}_{_source}"] = to_integer(INTEGERS[_kind])
for _kind, _sources in (("f64", ("i32", "u32", "f32")), ("f32", ("i32", "u32", "f16", "f64")), ("f16", ("f32", "u16", "i16"))):
    for _source in _sources:
        CONVERT[f"v_cvt_{_kind}_{_source}"] = to_float(_kind)
for _number in range(4):
    CONVERT[f"v_cvt_f32_ubyte{_number}"] = _byte(_number)
