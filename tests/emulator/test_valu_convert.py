"""Conversions of the vector ALU between integers, floats, halves and bytes against fractions."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from asmgen.emulator.semantics.valuconversions import CONVERT
from asmgen.isa.registers import v
from tests.emulator_harness import MODE_DEFAULT, MODE_KEEP, run
from tests.float_cases import Mode
from tests.softfloat import BF16, F16, F32, F64, KINDS, NAN, NEAREST, ZERO, Kind
from tests.valu_cases import Cases

M16, M32 = 0xFFFF, 0xFFFFFFFF
CASES = Cases()
check = CASES.check


def signed(pattern: int, bits: int) -> int:
    return pattern - (1 << bits) if pattern >> bits - 1 else pattern


def to_integer(source: Kind, bits: int, sign: bool, whole: Callable[[Fraction], int] = math.trunc) -> Callable[[int], int]:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if sign else (0, (1 << bits) - 1)

    def reference(a: int) -> int:
        if source.is_nan(a):
            return 0
        if source.is_inf(a):
            value = low if source.negative(a) else high
        else:
            value = min(max(whole(source.value(a)), low), high)
        return value & (1 << bits) - 1

    return reference


@CASES.declares("v_cvt_{result}_{source}")
@pytest.mark.parametrize("result, source", [("i32", "f32"), ("u32", "f32"), ("i32", "f64"), ("u32", "f64"), ("i16", "f16"), ("u16", "f16")])
def test_floats_to_integers(result: str, source: str) -> None:
    check(f"v_cvt_{result}_{source}", to_integer(KINDS[source], int(result[1:]), result[0] == "i"), mode=MODE_KEEP)


@CASES.declares("v_cvt_flr_i32_f32", "v_cvt_rpi_i32_f32")
def test_floor_and_nearest_conversions() -> None:
    check("v_cvt_flr_i32_f32", to_integer(F32, 32, True, math.floor), mode=MODE_KEEP)
    check("v_cvt_rpi_i32_f32", to_integer(F32, 32, True, lambda x: math.floor(x + Fraction(1, 2))), mode=MODE_KEEP)


@CASES.declares("v_cvt_{result}_{source}")
@pytest.mark.parametrize("result, source", [("f64", "i32"), ("f64", "u32"), ("f32", "i32"), ("f32", "u32"), ("f16", "u16"), ("f16", "i16")])
def test_integers_to_floats(result: str, source: str) -> None:
    kind, bits = KINDS[result], int(source[1:])
    for mode in (MODE_DEFAULT, 0x3C5, 0x3CA, 0x3CF):
        rounding = Mode(mode, kind).rounding
        check(f"v_cvt_{result}_{source}", lambda a, r=rounding: kind.encode(Fraction(signed(a, bits) if source[0] == "i" else a), r),
              mode=mode)


@CASES.declares("v_cvt_{result}_{source}")
@pytest.mark.parametrize("result, source", [("f64", "f32"), ("f32", "f16"), ("f32", "f64"), ("f16", "f32")])
def test_floats_to_floats(result: str, source: str) -> None:
    target, kind = KINDS[result], KINDS[source]
    for mode in (MODE_DEFAULT, MODE_KEEP, 0x300, 0x3F5, 0x3FA, 0x3FF):
        into, out_of = Mode(mode, target), Mode(mode, kind)

        def reference(a: int, into: Mode = into, out_of: Mode = out_of) -> Any:
            converted = kind.convert(kind.flush(a, not out_of.keep_in), target, into.rounding)
            return target.flush(converted, not into.keep_out) if isinstance(converted, int) else converted

        check(f"v_cvt_{result}_{source}", reference, mode=mode)


def test_f16_overflow_saturates_where_mode_says() -> None:
    """MODE.FP16_OVFL: too large becomes the largest number, an infinity stays."""
    values = np.tile(np.array([1e6, -1e6, np.inf, 65504], np.float32), 16)
    result = run("gfx942", lambda k: k.v_cvt_f16_f32(v[1], v[0]), vgprs={0: values}, mode=MODE_DEFAULT | 1 << 23)
    assert result.v(1, np.float16)[0, :4].tolist() == [65504, -65504, math.inf, 65504]
    plain = run("gfx942", lambda k: k.v_cvt_f16_f32(v[1], v[0]), vgprs={0: values})
    assert plain.v(1, np.float16)[0, :4].tolist() == [math.inf, -math.inf, math.inf, 65504]


@CASES.declares("v_cvt_f32_bf16", "v_cvt_pk_bf16_f32")
def test_bf16() -> None:
    check("v_cvt_f32_bf16", lambda a: NAN if BF16.is_nan(a) else a << 16, "gfx950")

    def pair(a: int, b: int) -> int:
        low, high = (x >> 16 | 0x40 if F32.is_nan(x) else F32.convert(x, BF16) for x in (a, b))
        return int(low) | int(high) << 16

    check("v_cvt_pk_bf16_f32", pair, "gfx950")
    check("v_cvt_pk_bf16_f32", pair, "gfx950", mode=0x3CF)  # nearest even whatever MODE says


def pack_halves(rounding: int, flush: bool = False) -> Callable[[int, int, int], bool]:
    def one(x: int) -> Any:
        converted = F32.convert(F32.flush(x), F16, rounding)
        return F16.flush(converted, flush) if isinstance(converted, int) else converted

    def compare(got: int, expected: Any, sources: list[Any]) -> bool:
        return all(F16.is_nan(got >> 16 * n & M16) if one(x) == NAN else got >> 16 * n & M16 == one(x) for n, x in enumerate(sources))

    return compare


@CASES.declares("v_cvt_pkrtz_f16_f32", "v_cvt_pk_f16_f32", "v_pack_b32_f16")
def test_packed_halves() -> None:
    check("v_cvt_pkrtz_f16_f32", lambda a, b: 0, compare=pack_halves(ZERO))
    check("v_cvt_pkrtz_f16_f32", lambda a, b: 0, compare=pack_halves(ZERO, True), mode=0x300)
    check("v_cvt_pk_f16_f32", lambda a, b: 0, "gfx950", compare=pack_halves(NEAREST), mode=0x3C8)
    check("v_pack_b32_f16", lambda a, b: a | b << 16)
    check("v_pack_b32_f16", lambda a, b: (a ^ 0x8000) | (b & 0x7FFF) << 16, signs=[(True, False), (False, True)])


def normalised(kind: Kind, sign: bool) -> Callable[[int], int]:
    def reference(a: int) -> int:
        if kind.is_nan(a):
            return 0
        value = kind.value(a) if not kind.is_inf(a) else Fraction(-2 if kind.negative(a) else 2)
        value = min(max(value, Fraction(-1 if sign else 0)), Fraction(1))
        return round(value * (32767 if sign else 65535)) & M16

    return reference


@CASES.declares("v_cvt_pknorm_{result}_{kind}", also=lambda result, kind: [f"v_cvt_norm_{result}_f16"] if kind == "f16" else [])
@pytest.mark.parametrize("kind", ["f16", "f32"])
@pytest.mark.parametrize("result", ["i16", "u16"])
def test_normalised(kind: str, result: str) -> None:
    one = normalised(KINDS[kind], result == "i16")
    check(f"v_cvt_pknorm_{result}_{kind}", lambda a, b: one(a) | one(b) << 16)
    if kind == "f16":
        check(f"v_cvt_norm_{result}_f16", one)


@CASES.declares(*(f"v_cvt_f32_ubyte{number}" for number in range(4)), "v_cvt_off_f32_i4", "v_cvt_pk_u8_f32", "v_cvt_pkaccum_u8_f32")
def test_bytes_and_nibbles() -> None:
    for number in range(4):
        check(f"v_cvt_f32_ubyte{number}", lambda a, n=number: F32.encode(Fraction(a >> 8 * n & 255)))
    check("v_cvt_off_f32_i4", lambda a: F32.encode(Fraction(signed(a & 15, 4), 16)))

    def byte(a: int, rounding: int) -> int:
        if F32.is_nan(a) or F32.negative(a):
            return 0
        if F32.is_inf(a):
            return 255
        value = F32.value(a)
        return min({0: round, 1: math.ceil, 2: math.floor, 3: math.trunc}[rounding](value), 255)

    for rounding in range(4):
        mode = 0x3F0 | rounding

        def packed(a: int, b: int, c: int, r: int = rounding) -> int:
            shift = 8 * (b & 3)
            return c & ~(255 << shift) & M32 | byte(a, r) << shift

        check("v_cvt_pk_u8_f32", packed, mode=mode, seed=rounding)
        check("v_cvt_pkaccum_u8_f32", packed, mode=mode, accumulate=True, seed=rounding)


def test_every_conversion_was_tested() -> None:
    """Every mnemonic of the table is declared by one of the tests above, or is stochastic and in the small formats' tests."""
    assert {name for name in CONVERT if not name.startswith("v_cvt_sr_")} <= CASES.declared
    assert F64.bits == 64
