"""Transcendental functions within their error bounds, and the division sequences, which are correctly rounded."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from asmgen.isa.registers import Modified, s, v, vcc
from tests.emulator_harness import MODE_DEFAULT, MODE_KEEP, run
from tests.float_cases import Mode, Reference, fixup
from tests.softfloat import F32, KINDS, NAN, NEAREST, Kind
from tests.valu_cases import patterns, run_case

# Transcendental functions.

_MATH: dict[str, Callable[[float], float]] = {
    "rcp": lambda x: 1 / x, "rsq": lambda x: 1 / math.sqrt(x), "sqrt": math.sqrt, "exp": lambda x: 2.0**x, "log": math.log2,
    "sin": lambda x: _turn(x, 0), "cos": lambda x: _turn(x, 1),
}


def _turn(x: float, quarter: int) -> float:
    eighths = round(Fraction(x) * 4)
    angle = 2 * math.pi * float(Fraction(x) - Fraction(eighths, 4))
    return (math.sin(angle), math.cos(angle), -math.sin(angle), -math.cos(angle))[(eighths + quarter) % 4]


_LIMITS: dict[tuple[str, str], float | None] = {
    ("rcp", "inf"): 0.0, ("rcp", "-inf"): -0.0, ("rcp", "0"): math.inf, ("rcp", "-0"): -math.inf,
    ("rsq", "inf"): 0.0, ("rsq", "-inf"): None, ("rsq", "0"): math.inf, ("rsq", "-0"): -math.inf,
    ("sqrt", "inf"): math.inf, ("sqrt", "-inf"): None, ("sqrt", "0"): 0.0, ("sqrt", "-0"): -0.0,
    ("exp", "inf"): math.inf, ("exp", "-inf"): 0.0, ("exp", "0"): 1.0, ("exp", "-0"): 1.0,
    ("log", "inf"): math.inf, ("log", "-inf"): None, ("log", "0"): -math.inf, ("log", "-0"): -math.inf,
    ("sin", "inf"): None, ("sin", "-inf"): None, ("sin", "0"): 0.0, ("sin", "-0"): -0.0,
    ("cos", "inf"): None, ("cos", "-inf"): None, ("cos", "0"): 1.0, ("cos", "-0"): 1.0,
}


def slow(function: str, kind: Kind, bits: int) -> Reference:
    """The function's value as a pattern; f32 treats denormals as zero, the others as MODE says."""
    mode = Mode(bits, kind)

    def reference(a: int) -> int | str:
        a = kind.flush(a, kind is F32 or not mode.keep_in)
        if kind.is_nan(a):
            return NAN
        sign = "-" if kind.negative(a) else ""
        if kind.is_inf(a) or kind.magnitude(a) == 0:
            limit = _LIMITS[function, sign + ("inf" if kind.is_inf(a) else "0")]
            if limit is None:
                return NAN
            if math.isinf(limit):
                return kind.infinity | (kind.sign if limit < 0 else 0)
            return kind.encode(Fraction(limit), NEAREST, math.copysign(1, limit) < 0)
        value = kind.value(a)
        if value < 0 and function in ("rsq", "sqrt", "log"):
            return NAN
        if function == "exp" and abs(value) > 1000:
            return 0 if value < 0 else kind.infinity
        exact = 1 / value if function == "rcp" else Fraction(_MATH[function](float(value)))
        return kind.flush(kind.encode(exact, NEAREST), kind is F32 or not mode.keep_out)

    return reference


def close(kind: Kind, ulps: int) -> Callable[[int, Any, list[Any]], bool]:
    """Within some units in the last place of the expected number; zeros may differ in sign."""
    def compare(got: int, expected: Any, sources: list[Any]) -> bool:
        if expected == NAN:
            return kind.is_nan(got)
        if kind.magnitude(got) == 0 and kind.magnitude(expected) == 0:
            return kind.magnitude(sources[0]) != 0 or got == expected
        return kind.negative(got) == kind.negative(expected) and abs(kind.magnitude(got) - kind.magnitude(expected)) <= ulps

    return compare


SLOW = [(f"v_{function}_{kind}", function) for function in _MATH for kind in ("f16", "f32")] \
    + [(f"v_{function}_f64", function) for function in ("rcp", "rsq", "sqrt")] \
    + [("v_rcp_iflag_f32", "rcp"), ("v_exp_legacy_f32", "exp"), ("v_log_legacy_f32", "log")]


@pytest.mark.parametrize("name, function", SLOW)
def test_transcendental(name: str, function: str) -> None:
    kind = KINDS[name[-3:]]
    for number, mode in enumerate((MODE_DEFAULT, MODE_KEEP, 0x3C5, 0x300)):
        run_case("gfx950" if number % 2 else "gfx942", name, slow(function, kind, mode), mode=mode, compare=close(kind, 1), seed=number,
                 encoding=("VOP1", "VOP3")[number % 2])


@pytest.mark.parametrize("pattern, sine, cosine", [
    (0xFF7FFFFF, 0x00000000, 0x3F800000), (0x80000000, 0x80000000, 0x3F800000), (0x3E800000, 0x3F800000, 0x00000000),
    (0x3F000000, 0x00000000, 0xBF800000), (0x3F400000, 0xBF800000, 0x00000000)])
def test_sine_and_cosine_of_quarter_turns(pattern: int, sine: int, cosine: int) -> None:
    result = run("gfx942", lambda k: (k.v_sin_f32(v[1], v[0]), k.v_cos_f32(v[2], v[0])), vgprs={0: np.full(64, pattern, np.uint32)})
    assert (int(result.v(1)[0, 0]), int(result.v(2)[0, 0])) == (sine, cosine)


def test_trig_preop() -> None:
    """Pieces of 53 bits of 2/pi, whose first hexadecimal digits stand here (Payne and Hanek's constant)."""
    digits = 0xA2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163AB
    bits = digits.bit_length() // 4 * 4

    def window(start: int) -> int:
        return digits >> bits - start - 53 & (1 << 53) - 1

    result = run("gfx942", lambda k: [k.v_trig_preop_f64(v[4 + 2 * n:5 + 2 * n], v[0:1], n) for n in range(3)], vgprs={0: np.full(64, 1.0)})
    for n in range(3):
        assert float(result.v(4 + 2 * n, np.float64)[0, 0]) == math.ldexp(window(53 * n), -53 * (n + 1))
    large = run("gfx942", lambda k: (k.v_trig_preop_f64(v[4:5], v[0:1], 1), k.v_trig_preop_f64(v[6:7], v[2:3], 0)),
                vgprs={0: np.full(64, 2.0**100), 2: np.full(64, 2.0**945)})
    shift = 53 + 100 + 1023 - 1077
    assert float(large.v(4, np.float64)[0, 0]) == math.ldexp(window(shift), -53 - shift)
    far = 945 + 1023 - 1077
    scaled = float(large.v(6, np.float64)[0, 0])
    assert math.ldexp(1, -far - 53 + 128) <= scaled < math.ldexp(1, -far + 128)


# Division: the sequence that compilers emit gives the correctly rounded quotient.

def minus(register: Any) -> Modified:
    return Modified(register, neg=True)


def divide_f32(k: Any) -> None:
    """As LLVM writes it, with f32 denormals on in its middle."""
    k.v_div_scale_f32(v[2], s[10:11], v[1], v[1], v[0])
    k.v_div_scale_f32(v[3], vcc, v[0], v[1], v[0])
    k.v_rcp_f32(v[4], v[2])
    k.v_fma_f32(v[5], minus(v[2]), v[4], 1.0)
    k.v_fma_f32(v[4], v[5], v[4], v[4])
    k.v_mul_f32(v[5], v[3], v[4])
    k.v_fma_f32(v[6], minus(v[2]), v[5], v[3])
    k.v_fma_f32(v[5], v[6], v[4], v[5])
    k.v_fma_f32(v[6], minus(v[2]), v[5], v[3])
    k.v_div_fmas_f32(v[6], v[6], v[4], v[5])
    k.v_div_fixup_f32(v[7], v[6], v[1], v[0])


def divide_f64(k: Any) -> None:
    k.v_div_scale_f64(v[4:5], s[10:11], v[2:3], v[2:3], v[0:1])
    k.v_rcp_f64(v[6:7], v[4:5])
    for _ in range(2):
        k.v_fma_f64(v[8:9], minus(v[4:5]), v[6:7], 1.0)
        k.v_fma_f64(v[6:7], v[6:7], v[8:9], v[6:7])
    k.v_div_scale_f64(v[8:9], vcc, v[0:1], v[2:3], v[0:1])
    k.v_mul_f64(v[10:11], v[8:9], v[6:7])
    k.v_fma_f64(v[4:5], minus(v[4:5]), v[10:11], v[8:9])
    k.v_div_fmas_f64(v[4:5], v[4:5], v[6:7], v[10:11])
    k.v_div_fixup_f64(v[12:13], v[4:5], v[2:3], v[0:1])


def quotient(kind: Kind, top: int, bottom: int) -> int | str:
    if kind.is_nan(top) or kind.is_nan(bottom):
        return NAN
    special = fixup(kind, None)(Mode(MODE_KEEP, kind), 0, bottom, top)
    finite = not (kind.is_inf(top) or kind.is_inf(bottom) or not kind.magnitude(top) or not kind.magnitude(bottom))
    return kind.encode(kind.value(top) / kind.value(bottom)) if finite else special


@pytest.mark.parametrize("name, program, out", [("f32", divide_f32, 7), ("f64", divide_f64, 12)])
def test_division_is_correctly_rounded(name: str, program: Callable[[Any], None], out: int) -> None:
    kind, generator = KINDS[name], np.random.default_rng(11)
    waves = 24
    top, bottom = (patterns(name, generator, (waves, 64)) for _ in range(2))
    exponent_top, exponent_bottom = (generator.integers(0, (1 << kind.exponent) - 1, (8, 64)).astype(np.uint64) for _ in range(2))
    top[:8] = top[:8] & np.uint64(kind.sign | (1 << kind.mantissa) - 1) | exponent_top << np.uint64(kind.mantissa)
    bottom[:8] = bottom[:8] & np.uint64(kind.sign | (1 << kind.mantissa) - 1) | exponent_bottom << np.uint64(kind.mantissa)
    bottom[8:12] = np.clip(np.uint64(kind.largest) - (bottom[8:12] & np.uint64(0xFFFF)) * np.uint64(1 << kind.mantissa - 14), 0,
                           kind.largest)
    if name == "f32":
        given: dict[int, Any] = {0: top.astype(np.uint32), 1: bottom.astype(np.uint32)}
    else:
        given = {0: top, 2: bottom}
    result = run("gfx942", program, vgprs=given, waves=waves, mode=MODE_KEEP)
    got = result.v(out, np.uint32 if name == "f32" else np.uint64)
    for wave in range(waves):
        for lane in range(64):
            a, b = int(top[wave, lane]), int(bottom[wave, lane])
            expected, found = quotient(kind, a, b), int(got[wave, lane])
            if expected == NAN:
                assert kind.is_nan(found)
            else:
                assert found == expected, (hex(a), hex(b), hex(found), hex(expected))


@pytest.mark.parametrize("name, program, out", [("f32", divide_f32, 7), ("f64", divide_f64, 12)])
def test_subnormal_quotients_are_rounded_once(name: str, program: Callable[[Any], None], out: int) -> None:
    """Quotients of which most bits fall away, some of them exactly in the middle between two."""
    kind, generator, waves = KINDS[name], np.random.default_rng(23), 16
    shape = (waves, 64)
    fraction = np.uint64((1 << kind.mantissa) - 1)
    noise = [generator.integers(0, 1 << 63, shape).astype(np.uint64) & fraction for _ in range(2)]
    short = fraction ^ np.uint64((1 << kind.mantissa - 4) - 1)
    noise[0][::2] &= short
    noise[1][::4] = 0
    low = generator.integers(1, kind.bias - 10, shape).astype(np.uint64)
    high = low + np.uint64(kind.bias) + generator.integers(0, kind.mantissa, shape).astype(np.uint64) - np.uint64(2)
    high = np.minimum(high, np.uint64(2 * kind.bias))
    sign = generator.integers(0, 2, shape).astype(np.uint64) * np.uint64(kind.sign)
    top, bottom = (noise[0] | low << np.uint64(kind.mantissa) | sign), noise[1] | high << np.uint64(kind.mantissa)
    if name == "f64":
        top[0, 0], bottom[0, 0] = 0xC004000000000000, 0x7FEFDCF158ADBB99
    words = np.uint32 if name == "f32" else np.uint64
    result = run("gfx942", program, vgprs={0: top.astype(words), 1 if name == "f32" else 2: bottom.astype(words)}, waves=waves,
                 mode=MODE_KEEP)
    got = result.v(out, words)
    subnormal = 0
    for a, b, found in zip(top.ravel().tolist(), bottom.ravel().tolist(), got.ravel().tolist(), strict=True):
        assert found == quotient(kind, a, b), (hex(a), hex(b), hex(found))
        subnormal += 0 < kind.magnitude(found) < 1 << kind.mantissa
    assert subnormal > 500


@pytest.mark.parametrize("name", ["f32", "f64"])
def test_division_helpers_by_case(name: str) -> None:
    """Scaled by 2**64 (2**128): near overflow the denominator, a tiny quotient the numerator, a denormal denominator both."""
    kind, shift = KINDS[name], 64 if name == "f32" else 128
    number = np.float32 if name == "f32" else np.float64
    top_power, bottom_power = (100, -20) if name == "f32" else (800, -20)

    def scaled(value: float, bottom: float, top: float, mode: int = MODE_KEEP) -> tuple[float, int]:
        wide = 2 if name == "f64" else 1
        regs = [v[2 * n:2 * n + wide - 1] if wide == 2 else v[2 * n] for n in range(4)]
        result = run("gfx950", lambda k: k.emit(f"v_div_scale_{name}", regs[3], vcc, regs[0], regs[1], regs[2]), mode=mode,
                     vgprs={0: np.full(64, value, number), 2: np.full(64, bottom, number), 4: np.full(64, top, number)})
        return float(result.v(6, number)[0, 0]), int(result.vcc == (1 << 64) - 1)

    top, bottom = math.ldexp(1.5, top_power), math.ldexp(1.25, bottom_power)
    assert scaled(bottom, bottom, top) == (math.ldexp(bottom, shift), 1)
    assert scaled(top, bottom, top) == (top, 1)
    assert scaled(3.0, 3.0, 7.0) == (3.0, 0)
    tiny = float(np.nextafter(number(0), number(1)) * 3)
    assert scaled(tiny, tiny, 7.0 * tiny) == (math.ldexp(tiny, shift), 0)
    huge = float(np.finfo(number).max)
    assert scaled(huge, huge, huge / 2) == (math.ldexp(huge, -shift), 0)
    assert scaled(huge, huge, 1.0) == (math.ldexp(huge, -shift), 1)
    assert scaled(1.0, huge, 1.0) == (1.0, 1)
    small, large = math.ldexp(1.5, -kind.bias + 60), math.ldexp(1.0, 100 if name == "f32" else 500)
    assert scaled(small, large, small) == (math.ldexp(small, shift), 1)
    assert scaled(large, large, small) == (large, 1)
    least = math.ldexp(1.5, -kind.bias + 10)
    assert scaled(least, 1.0, least) == (math.ldexp(least, shift), 0)
    assert math.isnan(scaled(1.0, 0.0, 1.0)[0]) and math.isnan(scaled(1.0, 1.0, 0.0)[0])
