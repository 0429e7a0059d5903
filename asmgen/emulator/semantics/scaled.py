"""Conversions to and from 8-, 6- and 4-bit floats, plain and with a block scale: functions (mode, *sources), by mnemonic and architecture.

A scale is an f32 of which only the exponent counts. To fp8 and bf8, MODE.FP16_OVFL decides between the largest number and NaN or
infinity; fp4 and fp6 saturate (CDNA4 ISA 7.3, 12.11; asmgen.isa.formats says what is inferred). Results of several elements:
`[registers, waves, 64]`; to fp8 and fp4 the 16 or 8 bits that the binder puts into the half or byte that op_sel names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from asmgen.emulator.machine.floatmode import FloatMode
from asmgen.emulator.semantics.integers import u32
from asmgen.isa.arch import Architecture
from asmgen.isa.formats import Format, decode, encode, hardware_format, prng_step, scale_decode, scale_from_f32

Values = Any
Function = Callable[..., Values]


def _saturates(fmt: Format, mode: FloatMode) -> bool:
    return fmt.bits < 8 or mode.fp16_overflow


def _numbers(words: Values, kind: str) -> Values:
    """The halves of packed registers, or registers, as what `encode` takes: f16, bf16, f32. [..., items]"""
    words = np.asarray(words)
    if kind == "f32":
        return words.view(np.float32)
    halves = np.stack([words & np.uint32(0xFFFF), words >> np.uint32(16)], axis=-1).astype(np.uint16)
    return halves.view(np.float16) if kind == "f16" else halves.view(ml_dtypes.bfloat16)


def _encode(values: Values, fmt: Format, mode: FloatMode, scale: Values | None = None, seed: Values | None = None) -> Values:
    codes = None
    if scale is not None:
        codes = np.broadcast_to(scale_from_f32(scale), np.shape(values))
    if seed is None:
        return encode(values, fmt, "nearest_even", _saturates(fmt, mode), scale=codes)
    return encode(values, fmt, "stochastic", _saturates(fmt, mode), np.broadcast_to(seed, np.shape(values)), codes)


def _join(low: Values, high: Values, bits: int) -> Values:
    return u32(low) | u32(high) << np.uint32(bits)


def _plain_to(fmt: Format) -> dict[str, Function]:
    """v_cvt_pk_x_f32 and v_cvt_sr_x_f32."""

    def pair(mode: FloatMode, a: Values, b: Values) -> Values:
        return _join(_encode(a, fmt, mode), _encode(b, fmt, mode), 8)

    def one(mode: FloatMode, a: Values, seed: Values) -> Values:
        a, seed = np.broadcast_arrays(np.asarray(a), np.asarray(seed))
        return u32(_encode(a, fmt, mode, seed=seed))

    return {"pk": pair, "sr": one}


def _plain_from(fmt: Format) -> dict[str, Function]:
    """v_cvt_f32_x and v_cvt_pk_f32_x, of the low byte or half of the source."""
    byte = np.uint32(0xFF)

    def one(mode: FloatMode, a: Values) -> Values:
        return decode(np.asarray(a) & byte, fmt)

    def pair(mode: FloatMode, a: Values) -> Values:
        return np.stack([decode(np.asarray(a) & byte, fmt), decode(np.asarray(a) >> np.uint32(8) & byte, fmt)])

    return {"one": one, "pk": pair}


def _scaled_pair(fmt: Format, kind: str, random: bool) -> Function:
    """Two numbers to fp8, bf8 or fp4: two f32 sources, a pair of f32 [2, ...], or a register of two halves."""

    def convert(mode: FloatMode, first: Values, second: Values, seed: Values | None, scale: Values) -> Values:
        next_seed = None if seed is None else prng_step(seed)
        shape = np.broadcast_shapes(np.shape(first), np.shape(second), np.shape(scale), np.shape(seed) if seed is not None else ())
        values = [np.broadcast_to(x, shape) for x in (first, second)]
        codes = [_encode(x, fmt, mode, scale, s) for x, s in zip(values, (seed, next_seed), strict=True)]
        return _join(codes[0], codes[1], fmt.bits)

    def halves(mode: FloatMode, source: Values, *rest: Values) -> Values:
        items = _numbers(source, kind)
        return convert(mode, items[..., 0], items[..., 1], rest[0] if random else None, rest[-1])

    def singles(mode: FloatMode, a: Values, b: Values, scale: Values) -> Values:
        return convert(mode, a, b, None, scale)

    def pair(mode: FloatMode, source: Values, seed: Values, scale: Values) -> Values:
        return convert(mode, source[0], source[1], seed, scale)

    return halves if kind != "f32" else pair if random else singles


def _scaled_one(fmt: Format, kind: str) -> Function:
    """v_cvt_scalef32_sr_x_*: one number, stochastically."""

    def function(mode: FloatMode, a: Values, seed: Values, scale: Values) -> Values:
        value = np.asarray(a).view(ml_dtypes.bfloat16) if kind == "bf16" else np.asarray(a)
        value, seed, scale = np.broadcast_arrays(value, np.asarray(seed), np.asarray(scale))
        return u32(_encode(value, fmt, mode, scale, seed))

    return function


def _narrow_to(values: Values, kind: str, mode: FloatMode) -> Values:
    """f64 products as f32, f16 or (bit patterns) bf16, nearest even, once rounded."""
    if kind == "f32":
        return values.astype(np.float32)
    return encode(values, kind, "nearest_even", kind == "f16" and mode.fp16_overflow)


def _unscaled(codes: Values, fmt: Format, scale: Values, kind: str, mode: FloatMode) -> Values:
    factor = scale_decode(scale_from_f32(scale), np.float64)
    return _narrow_to(decode(codes, fmt).astype(np.float64) * factor, kind, mode)


def _scaled_from(fmt: Format, kind: str, count: int) -> Function:
    """v_cvt_scalef32_*_x: one or two elements of the low bits of the source, times the scale."""
    field = np.uint32((1 << fmt.bits) - 1)

    def function(mode: FloatMode, source: Values, scale: Values) -> Values:
        parts = [_unscaled(np.asarray(source) >> np.uint32(n * fmt.bits) & field, fmt, scale, kind, mode) for n in range(count)]
        if count == 1:
            return parts[0].view(np.float16) if kind == "f16" else parts[0]
        return np.stack(parts) if kind == "f32" else _join(parts[0], parts[1], 16)

    return function


def _pack_six(codes: Values) -> Values:
    """32 codes of 6 bits [32, ...] as 6 registers."""
    words = np.zeros((6, *codes.shape[1:]), np.uint32)
    for item in range(32):
        word, bit = divmod(6 * item, 32)
        words[word] |= u32(codes[item]) << np.uint32(bit)
        if bit > 26:
            words[word + 1] |= u32(codes[item]) >> np.uint32(32 - bit)
    return words


def _unpack_six(words: Values) -> Values:
    """6 registers as 32 codes of 6 bits [32, ...]."""
    items = []
    for item in range(32):
        word, bit = divmod(6 * item, 32)
        value = words[word] >> np.uint32(bit)
        if bit > 26:
            value = value | words[word + 1] << np.uint32(32 - bit)
        items.append(value & np.uint32(63))
    return np.stack(items)


def _lists(source: Values, kind: str) -> Values:
    """32 numbers [32, ...] of 32 registers of f32 or 16 of two halves."""
    if kind == "f32":
        return np.asarray(source).view(np.float32)
    halves = np.moveaxis(_numbers(source, kind), -1, 1)
    return halves.reshape(32, *halves.shape[2:])


def _to_six(fmt: Format, kind: str, random: bool) -> Function:
    def function(mode: FloatMode, source: Values, *rest: Values) -> Values:
        values, scale = _lists(source, kind), rest[-1]
        if not random:
            return _pack_six(_encode(values, fmt, mode, scale))
        seeds = np.empty(values.shape, np.uint32)
        seed = np.broadcast_to(rest[0], values.shape[1:])
        for item in range(32):
            seeds[item] = seed
            seed = prng_step(seed)
        return _pack_six(_encode(values, fmt, mode, scale, seeds))

    return function


def _interleave_to_six(fmt: Format) -> Function:
    def function(mode: FloatMode, even: Values, odd: Values, scale: Values) -> Values:
        values = np.stack([np.asarray(even).view(np.float32), np.asarray(odd).view(np.float32)], axis=1)
        return _pack_six(_encode(values.reshape(32, *values.shape[2:]), fmt, mode, scale))

    return function


def _from_six(fmt: Format, kind: str) -> Function:
    def function(mode: FloatMode, source: Values, scale: Values) -> Values:
        values = _unscaled(_unpack_six(source), fmt, np.asarray(scale), kind, mode)
        return values.view(np.uint32) if kind == "f32" else _join(values[0::2], values[1::2], 16)

    return function


def small_formats(arch: Architecture) -> dict[str, Function]:
    """The functions of this module by mnemonic, with the formats that `arch` has."""
    table: dict[str, Function] = {}
    for name in ("fp8", "bf8"):
        fmt = hardware_format(name, arch)
        to, out = _plain_to(fmt), _plain_from(fmt)
        table |= {f"v_cvt_pk_{name}_f32": to["pk"], f"v_cvt_sr_{name}_f32": to["sr"], f"v_cvt_f32_{name}": out["one"],
                  f"v_cvt_pk_f32_{name}": out["pk"]}
    if arch.fp8 != "ocp":
        return table
    for name in ("fp8", "bf8", "fp4"):
        fmt = hardware_format(name, arch)
        for kind in ("f32", "f16", "bf16"):
            table[f"v_cvt_scalef32_pk_{name}_{kind}"] = _scaled_pair(fmt, kind, False)
            table[f"v_cvt_scalef32_pk_{kind}_{name}"] = _scaled_from(fmt, kind, 2)
            if name == "fp4":
                table[f"v_cvt_scalef32_sr_pk_{name}_{kind}"] = _scaled_pair(fmt, kind, True)
                continue
            table[f"v_cvt_scalef32_sr_{name}_{kind}"] = _scaled_one(fmt, kind)
            if kind != "bf16":
                table[f"v_cvt_scalef32_{kind}_{name}"] = _scaled_from(fmt, kind, 1)
    for name in ("fp6", "bf6"):
        fmt = hardware_format(name, arch)
        table[f"v_cvt_scalef32_2xpk16_{name}_f32"] = _interleave_to_six(fmt)
        for kind in ("f32", "f16", "bf16"):
            if kind != "f32":
                table[f"v_cvt_scalef32_pk32_{name}_{kind}"] = _to_six(fmt, kind, False)
            table[f"v_cvt_scalef32_sr_pk32_{name}_{kind}"] = _to_six(fmt, kind, True)
            table[f"v_cvt_scalef32_pk32_{kind}_{name}"] = _from_six(fmt, kind)
    return table
