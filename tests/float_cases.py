"""Exact references of the vector ALU's float functions: one of each mnemonic, in fractions, with MODE's rounding and denormals."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from tests.emulator_harness import MODE_DEFAULT, MODE_KEEP
from tests.softfloat import DOWN, F16, F32, F64, NAN, NEAREST, Kind

MODES = [MODE_DEFAULT, MODE_KEEP, 0x300, 0x3D5, 0x3EA, 0x3FF, 0x3F5, 0x0F0]
IEEE = 1 << 9
Reference = Callable[..., Any]


class Mode:
    """A MODE value, decoded here on its own."""

    def __init__(self, bits: int, kind: Kind) -> None:
        wide = kind is not F32
        self.rounding = bits >> 2 & 3 if wide else bits & 3
        self.keep_in, self.keep_out = (bits >> 6 & 1, bits >> 7 & 1) if wide else (bits >> 4 & 1, bits >> 5 & 1)
        self.ieee = bool(bits >> 9 & 1)
        self.overflow = bool(bits >> 23 & 1)


def wrapped(kind: Kind, bits: int, reference: Reference) -> Reference:
    """Denormal sources and results as MODE says; `reference` gets (mode, *sources)."""
    mode = Mode(bits, kind)

    def function(*sources: int) -> Any:
        result = reference(mode, *(kind.flush(x, not mode.keep_in) for x in sources))
        return kind.flush(result, not mode.keep_out) if isinstance(result, int) else result

    return function


def choose(kind: Kind, larger: bool) -> Reference:
    def function(mode: Mode, a: int, b: int) -> int:
        if mode.ieee and kind.is_signaling(a):
            return a | kind.quiet
        if mode.ieee and kind.is_signaling(b):
            return b | kind.quiet
        if kind.is_nan(a):
            return b
        if kind.is_nan(b):
            return a
        order = [(-1 if kind.negative(x) else 1) * (kind.magnitude(x) + 1) for x in (a, b)]
        return (a if order[0] > order[1] else b) if larger else (a if order[0] < order[1] else b)

    return function


def three(function: Reference) -> Reference:
    return lambda mode, a, b, c: function(mode, function(mode, a, b), c)


def middle(kind: Kind) -> Reference:
    def function(mode: Mode, a: int, b: int, c: int) -> int:
        if any(kind.is_nan(x) for x in (a, b, c)):
            return three(choose(kind, False))(mode, a, b, c)
        key = {x: (-1 if kind.negative(x) else 1) * (kind.magnitude(x) + 1) for x in (a, b, c)}
        return sorted((a, b, c), key=lambda x: key[x])[1]

    return function


def same_number(kind: Kind) -> Callable[[int, Any, list[Any]], bool]:
    """Equal but for the sign of zero, which v_med3 leaves to the order of its sources."""
    def compare(got: int, expected: int, sources: list[Any]) -> bool:
        return got == expected or kind.magnitude(got) == kind.magnitude(expected) == 0

    return compare


def whole(kind: Kind, how: str) -> Reference:
    def function(mode: Mode, a: int) -> int | str:
        if kind.is_nan(a):
            return NAN
        if kind.is_inf(a):
            return a
        value = kind.value(a)
        result = {"trunc": math.trunc, "floor": math.floor, "ceil": math.ceil, "rndne": round}[how](value)
        return kind.encode(Fraction(result), NEAREST, kind.negative(a))

    return function


def fract(kind: Kind) -> Reference:
    def function(mode: Mode, a: int) -> int | str:
        if kind.is_nan(a) or kind.is_inf(a):
            return NAN
        value = kind.value(a)
        result = kind.encode(value - math.floor(value), mode.rounding, kind.negative(a) and value == 0 and mode.rounding == DOWN)
        below_one = (kind.bias << kind.mantissa) - 1
        if value == math.floor(value):
            return kind.sign if mode.rounding == DOWN else 0
        return min(result, below_one)

    return function


def ldexp(kind: Kind, exponent_bits: int) -> Reference:
    def function(mode: Mode, a: int, b: int) -> int | str:
        if kind.is_nan(a):
            return NAN
        if kind.is_inf(a):
            return a
        power = b - (1 << exponent_bits) if b >> exponent_bits - 1 else b
        value = kind.value(a) * Fraction(2) ** min(max(power, -5000), 5000)
        return kind.encode(value, mode.rounding, kind.negative(a))

    return function


def mantissa(kind: Kind) -> Reference:
    def function(mode: Mode, a: int) -> int | str:
        if kind.is_nan(a):
            return NAN
        if kind.is_inf(a) or kind.magnitude(a) == 0:
            return a
        value = kind.value(a)
        while abs(value) >= 1:
            value /= 2
        while abs(value) < Fraction(1, 2):
            value *= 2
        return kind.encode(value)

    return function


def exponent(kind: Kind, bits: int) -> Reference:
    def function(mode: Mode, a: int) -> int:
        if kind.is_nan(a) or kind.is_inf(a) or kind.magnitude(a) == 0:
            return 0
        value, power = abs(kind.value(a)), 0
        while value >= 1:
            value, power = value / 2, power + 1
        while value < Fraction(1, 2):
            value, power = value * 2, power - 1
        return power & (1 << bits) - 1

    return function


def sign_of(kind: Kind, *patterns_: int) -> int:
    result = 0
    for pattern in patterns_:
        result ^= pattern & kind.sign
    return result


def fixup(kind: Kind, least: int | None) -> Reference:
    def function(mode: Mode, quotient: int, bottom: int, top: int) -> int | str:
        sign = sign_of(kind, bottom, top)
        if kind.is_nan(top) or kind.is_nan(bottom):
            return NAN
        zero_top, zero_bottom = kind.magnitude(top) == 0, kind.magnitude(bottom) == 0
        if zero_top and zero_bottom or kind.is_inf(top) and kind.is_inf(bottom):
            return NAN
        if zero_bottom or kind.is_inf(top):
            return kind.infinity | sign
        if zero_top or kind.is_inf(bottom):
            return sign
        fields = [kind.magnitude(x) >> kind.mantissa for x in (top, bottom)]
        if least is not None and fields[0] - fields[1] < least:
            tiny = kind.encode(Fraction(-1 if sign else 1) * Fraction(2) ** (1 - kind.bias - kind.mantissa - 20), mode.rounding)
            return tiny
        if least is not None and kind.magnitude(quotient) >= kind.infinity:
            return kind.encode(Fraction(-1 if sign else 1) * Fraction(2) ** (kind.bias + 20), mode.rounding)
        return kind.magnitude(quotient) | sign

    return function


def legacy_product(mode: Mode, a: int, b: int) -> int | str:
    return 0 if not F32.magnitude(a) or not F32.magnitude(b) else F32.mul(a, b, mode.rounding)


def propagating(kind: Kind, larger: bool) -> Reference:
    def function(mode: Mode, a: int, b: int) -> int | str:
        for x in (a, b):
            if kind.is_nan(x):
                return x | kind.quiet
        return choose(kind, larger)(mode, a, b)

    return function


def negated(kind: Kind, pattern: int) -> int:
    return pattern ^ kind.sign


def cube(part: str) -> Reference:
    def function(mode: Mode, x: int, y: int, z: int) -> Any:
        if any(F32.is_nan(c) for c in (x, y, z)):
            return None
        ax, ay, az = (F32.magnitude(c) for c in (x, y, z))
        less = [F32.negative(c) and F32.magnitude(c) != 0 for c in (x, y, z)]
        axis = 2 if az >= ax and az >= ay else 1 if ay >= ax else 0
        below = less[axis]
        if part == "id":
            return F32.encode(Fraction(2 * axis + below))
        if part == "ma":
            return F32.mul((x, y, z)[axis], 0x40000000)
        if part == "sc":
            return (z if below else negated(F32, z)) if axis == 0 else x if axis == 1 else negated(F32, x) if below else x
        return (negated(F32, z) if below else z) if axis == 1 else negated(F32, y)

    return function


def cases(name: str, kind: Kind) -> dict[str, Reference]:
    """The references of one type, by mnemonic."""
    fma = lambda mode, a, b, c: kind.fma(a, b, c, mode.rounding)  # noqa: E731
    table: dict[str, Reference] = {
        f"v_add_{name}": lambda mode, a, b: kind.add(a, b, mode.rounding),
        f"v_sub_{name}": lambda mode, a, b: kind.add(a, negated(kind, b), mode.rounding),
        f"v_subrev_{name}": lambda mode, a, b: kind.add(b, negated(kind, a), mode.rounding),
        f"v_mul_{name}": lambda mode, a, b: kind.mul(a, b, mode.rounding), f"v_fma_{name}": fma,
        f"v_max_{name}": choose(kind, True), f"v_min_{name}": choose(kind, False), f"v_max3_{name}": three(choose(kind, True)),
        f"v_min3_{name}": three(choose(kind, False)), f"v_med3_{name}": middle(kind), f"v_fract_{name}": fract(kind),
        f"v_frexp_mant_{name}": mantissa(kind),
    }
    table |= {f"v_{how}_{name}": whole(kind, how) for how in ("trunc", "floor", "ceil", "rndne")}
    if kind is F32:
        table |= {"v_fmac_f32": fma, "v_fmamk_f32": fma, "v_fmaak_f32": fma, "v_mul_legacy_f32": legacy_product,
                  "v_minimum3_f32": three(propagating(kind, False)), "v_maximum3_f32": three(propagating(kind, True)),
                  "v_div_fixup_f32": fixup(kind, -150)}
        table |= {f"v_cube{part}_f32": cube(part) for part in ("id", "sc", "tc", "ma")}
    if kind is F64:
        table |= {"v_fmac_f64": fma, "v_div_fixup_f64": fixup(kind, -1075)}
    if kind is F16:
        table |= {f"v_{other}_f16": fma for other in ("mad", "mac", "madmk", "madak", "mad_legacy", "fma_legacy")}
        table |= {"v_div_fixup_f16": fixup(kind, None), "v_div_fixup_legacy_f16": fixup(kind, None)}
    return table


CASES = {name: (kind, reference) for label, kind in (("f16", F16), ("f32", F32), ("f64", F64)) for name,
         reference in cases(label, kind).items()}
GFX950 = {"v_minimum3_f32", "v_maximum3_f32"}
