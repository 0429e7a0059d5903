"""Float instructions of the vector ALU against exact fractions: rounding and denormal modes, NaNs, infinities, denormals."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from asmgen.emulator.floats import FLOAT
from asmgen.isa.operands import Modified
from asmgen.isa.registers import exec_, s, v, vcc
from tests.emulator_harness import MODE_DEFAULT, MODE_KEEP, run
from tests.softfloat import DOWN, F16, F32, F64, KINDS, NAN, NEAREST, UP, ZERO, Kind
from tests.valu_cases import patterns, run_case

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
KEEPS = {"v_fma_f16", "v_mad_f16", "v_div_fixup_f16", "v_max3_f16", "v_min3_f16", "v_med3_f16"}
GFX950 = {"v_minimum3_f32", "v_maximum3_f32"}
NOT_THERE = {f"v_{name}_f64" for name in ("sub", "subrev", "max3", "min3", "med3")}
ELSEWHERE = {f"v_{name}_{kind}" for name in ("ldexp", "rcp", "rsq", "sqrt", "exp", "log", "sin", "cos") for kind in KINDS} \
    | {"v_frexp_exp_i16_f16", "v_frexp_exp_i32_f32", "v_frexp_exp_i32_f64", "v_rcp_iflag_f32", "v_exp_legacy_f32", "v_log_legacy_f32",
       "v_trig_preop_f64", "v_div_scale_f32", "v_div_scale_f64", "v_div_fmas_f32", "v_div_fmas_f64"}
ACCUMULATE = {"v_fmac_f32", "v_fmac_f64", "v_mac_f16"}


def test_every_function_has_a_case() -> None:
    assert set(FLOAT) <= set(CASES) - NOT_THERE | ELSEWHERE


def keeping(name: str, reference: Reference) -> Reference:
    """Results in 16 bits that keep the upper half of their register."""
    if name not in KEEPS:
        return reference

    def function(*sources: int) -> Any:
        result = reference(*sources)
        return result if result == NAN else lambda old: old & 0xFFFF0000 | result

    return function


def equal(kind: Kind, name: str) -> Callable[[int, Any, list[Any]], bool] | None:
    if name in KEEPS or name.startswith("v_cube"):

        def partly(got: int, expected: Any, sources: list[Any]) -> bool:
            if expected is None:
                return True
            low = got & (1 << kind.bits) - 1
            if callable(expected):
                expected = expected(0) & (1 << kind.bits) - 1
            if expected == NAN:
                return kind.is_nan(low)
            return low == expected or name.startswith("v_med3") and same_number(kind)(low, expected, sources)

        return partly
    return same_number(kind) if name.startswith("v_med3") else None


@pytest.mark.parametrize("name", sorted(set(CASES) - NOT_THERE))
def test_against_fractions(name: str) -> None:
    kind, reference = CASES[name]
    modes = [*MODES, MODE_DEFAULT | 1 << 23] if kind is F16 else MODES
    for number, bits in enumerate(modes):
        if bits & 1 << 23:
            continue  # FP16_OVFL has its own test
        arch = "gfx950" if name in GFX950 or number % 2 else "gfx942"
        run_case(arch, name, keeping(name, wrapped(kind, bits, reference)), mode=bits, seed=number, accumulate=name in ACCUMULATE,
                 compare=equal(kind, name) if not (name.startswith("v_med3") and name in KEEPS) or True else None)


@pytest.mark.parametrize("name", sorted(KEEPS))
def test_results_that_keep_the_upper_half(name: str) -> None:
    """Where the exact comparison above only looks at the lower half."""
    result = run("gfx942", lambda k: k.emit(name, v[3], v[0], v[1], v[2]), vgprs={0: np.full(64, 0x3C00, np.uint32),
                 1: np.full(64, 0x3C00, np.uint32), 2: np.full(64, 0x3C00, np.uint32), 3: np.full(64, 0xABCD1234, np.uint32)})
    assert (result.v(3) >> 16 == 0xABCD).all()
    upper = run("gfx942", lambda k: k.emit(name, v[3], v[0], v[1], v[2], op_sel=(1, 0, 1, 1)), vgprs={
        0: np.full(64, 0x3C000000, np.uint32), 1: np.full(64, 0x3C00, np.uint32), 2: np.full(64, 0x3C000000, np.uint32),
        3: np.full(64, 0xABCD1234, np.uint32)})
    expected = {"v_fma_f16": 0x4000, "v_mad_f16": 0x4000}.get(name, 0x3C00)
    assert (upper.v(3) == expected << 16 | 0x1234).all()


@pytest.mark.parametrize("name, bits", [("v_ldexp_f16", 16), ("v_ldexp_f32", 32), ("v_ldexp_f64", 32)])
def test_ldexp(name: str, bits: int) -> None:
    kind = KINDS[name[-3:]]
    powers = [0, 1, -1, 5, -5, 24, -24, 126, -126, 149, -149, 200, -200, 1022, -1022, 1074, -1074, 2100, -2100]
    for number, mode in enumerate(MODES):
        reference = ldexp(kind, bits)
        settled = Mode(mode, kind)

        def function(a: int, b: int, settled: Mode = settled, reference: Reference = reference) -> Any:
            result = reference(settled, kind.flush(a, not settled.keep_in), b)
            return kind.flush(result, not settled.keep_out) if isinstance(result, int) else result

        run_case("gfx942", name, function, mode=mode, seed=number, given={1: [power & (1 << bits) - 1 for power in powers]})


@pytest.mark.parametrize("name", ["v_frexp_exp_i16_f16", "v_frexp_exp_i32_f32", "v_frexp_exp_i32_f64"])
def test_frexp_exponent(name: str) -> None:
    kind, bits = KINDS[name[-3:]], int(name.split("_")[3][1:])
    for mode in (MODE_DEFAULT, MODE_KEEP, 0x300):
        settled = Mode(mode, kind)
        run_case("gfx942", name, lambda a, m=settled: exponent(kind, bits)(m, kind.flush(a, not m.keep_in)), mode=mode)


def test_f16_overflow_is_the_largest_number_where_mode_says() -> None:
    """Infinities that were there before stay."""
    result = run("gfx942", lambda k: (k.v_add_f16(v[2], v[0], v[1]), k.v_mul_f16(v[3], v[0], v[0])),
                 vgprs={0: np.tile(np.array([65504, -65504, np.inf, 1], np.float16).view(np.uint16).astype(np.uint32), 16),
                        1: np.tile(np.array([65504, -65504, 1, 1], np.float16).view(np.uint16).astype(np.uint32), 16)},
                 mode=MODE_DEFAULT | 1 << 23)
    assert result.v(2, np.float16)[0, :4].tolist() == [65504, -65504, math.inf, 2]
    assert result.v(3, np.float16)[0, :4].tolist() == [65504, 65504, math.inf, 1]


def test_fma_f32_rounds_once() -> None:
    """A double rounding through float64 gives another last bit here."""
    a, b, c = 0x3F800001, 0x3F800001, 0x33000000  # (1 + e)**2 lies just beside a half of the last place after c
    lanes = np.full(64, 0, np.uint32)
    generator = np.random.default_rng(3)
    first = 0x3F800000 | generator.integers(0, 1 << 23, 64, dtype=np.uint32)
    result = run("gfx942", lambda k: k.v_fma_f32(v[3], v[0], v[1], v[2]), vgprs={0: first, 1: first[::-1].copy(), 2: lanes + c})
    for lane in range(64):
        assert int(result.v(3)[0, lane]) == F32.fma(int(first[lane]), int(first[::-1][lane]), c)
    # Made so: the product is 1 + 2**-23 + ..., the sum falls on a tie in f64 but beside it exactly.
    tie = run("gfx942", lambda k: k.v_fma_f32(v[3], v[0], v[1], v[2]),
              vgprs={0: lanes + 0x3F800001, 1: lanes + 0x3F7FFFFE, 2: lanes + 0x5A000000})
    assert int(tie.v(3)[0, 0]) == F32.fma(0x3F800001, 0x3F7FFFFE, 0x5A000000)
    assert a == b


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
            elif kind.magnitude(expected) < kind.infinity >> kind.exponent:  # a denormal quotient is rounded twice, by the scaling last
                assert abs(found - expected) <= 1, (hex(a), hex(b), hex(found), hex(expected))
            else:
                assert found == expected, (hex(a), hex(b), hex(found), hex(expected))


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


# Comparisons.

RELATIONS: dict[str, Callable[[Any, Any, bool], bool]] = {
    "f": lambda a, b, o: False, "tru": lambda a, b, o: True, "lt": lambda a, b, o: o and a < b, "eq": lambda a, b, o: o and a == b,
    "le": lambda a, b, o: o and a <= b, "gt": lambda a, b, o: o and a > b, "lg": lambda a, b, o: o and a != b, "ge": lambda a, b,
    o: o and a >= b,
    "o": lambda a, b, o: o, "u": lambda a, b, o: not o, "nge": lambda a, b, o: not (o and a >= b), "nlg": lambda a, b,
    o: not (o and a != b),
    "ngt": lambda a, b, o: not (o and a > b), "nle": lambda a, b, o: not (o and a <= b), "neq": lambda a, b, o: not (o and a == b),
    "nlt": lambda a, b, o: not (o and a < b),
}


def number(kind: Kind, pattern: int) -> Any:
    if kind.is_inf(pattern):
        return -math.inf if kind.negative(pattern) else math.inf
    return kind.value(pattern)


@pytest.mark.parametrize("name", ["f16", "f32", "f64"])
@pytest.mark.parametrize("relation", sorted(RELATIONS))
def test_compare_floats(relation: str, name: str) -> None:
    kind = KINDS[name]
    for mode in (MODE_DEFAULT, MODE_KEEP, 0x300):
        settled = Mode(mode, kind)

        def reference(a: int, b: int, settled: Mode = settled) -> bool:
            a, b = (kind.flush(x, not settled.keep_in) for x in (a, b))
            ordered = not (kind.is_nan(a) or kind.is_nan(b))
            return RELATIONS[relation](number(kind, a), number(kind, b), True) if ordered else RELATIONS[relation](0, 0, False)

        run_case("gfx942", f"v_cmp_{relation}_{name}", reference, mode=mode)
    run_case("gfx950", f"v_cmp_{relation}_{name}", reference, mode=0x300, encoding="VOPC")


@pytest.mark.parametrize("kind", ["i16", "u16", "i32", "u32", "i64", "u64"])
@pytest.mark.parametrize("relation", ["f", "lt", "eq", "le", "gt", "ne", "ge", "t"])
def test_compare_integers(relation: str, kind: str) -> None:
    bits = int(kind[1:])

    def reference(a: int, b: int) -> bool:
        if kind[0] == "i":
            a, b = (x - (1 << bits) if x >> bits - 1 else x for x in (a, b))
        return {"f": False, "t": True, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b, "eq": a == b, "ne": a != b}[relation]

    small = [0, 1, 5, (1 << bits) - 1, (1 << bits) - 5, 1 << bits - 1]
    run_case("gfx942", f"v_cmp_{relation}_{kind}", reference, given={0: small, 1: small})
    run_case("gfx950", f"v_cmp_{relation}_{kind}", reference, encoding="VOPC")


@pytest.mark.parametrize("name", ["f16", "f32", "f64"])
def test_compare_class(name: str) -> None:
    kind = KINDS[name]

    def reference(a: int, classes: int) -> bool:
        negative = kind.negative(a)
        if kind.is_nan(a):
            bit = 0 if kind.is_signaling(a) else 1
        elif kind.is_inf(a):
            bit = 2 if negative else 9
        elif kind.magnitude(a) == 0:
            bit = 5 if negative else 6
        elif kind.is_denormal(a):
            bit = 4 if negative else 7
        else:
            bit = 3 if negative else 8
        return bool(classes >> bit & 1)

    for mode in (MODE_DEFAULT, 0x300):
        run_case("gfx942", f"v_cmp_class_{name}", reference, mode=mode, given={1: [1 << n for n in range(10)] + [0x3FF, 0x1F8, 0x264]})


@pytest.mark.parametrize("name", ["v_cmpx_lt_f32", "v_cmpx_class_f32", "v_cmpx_ge_u16", "v_cmpx_eq_i64"])
def test_cmpx_writes_exec_too(name: str) -> None:
    mask = 0xFF00FF00FF00FFFF
    lanes = np.arange(64, dtype=np.uint32)
    kind = name.rsplit("_", 1)[1]
    if kind == "f32":
        left: Any = lanes.astype(np.float32)
        right: Any = np.full(64, 1 << 8, np.uint32) if "class" in name else np.full(64, 20, np.float32)
        expected = sum(1 << n for n in range(64) if mask >> n & 1 and (n >= 1 if "class" in name else n < 20))
    elif kind == "u16":
        left, right = lanes, np.full(64, 20, np.uint32)
        expected = sum(1 << n for n in range(64) if mask >> n & 1 and n >= 20)
    else:
        left, right = lanes.astype(np.int64), np.where(lanes % 3 == 0, lanes, 0).astype(np.int64)
        expected = sum(1 << n for n in range(64) if mask >> n & 1 and n % 3 == 0)
    first, second = (v[0:1], v[2:3]) if kind == "i64" else (v[0], v[2])
    result = run("gfx942", lambda k: (k.emit(name, s[10:11], first, second), k.v_mov_b32(v[9], 7)), vgprs={0: left, 2: right},
                 exec_mask=mask)
    assert result.exec_mask == result.s64(10) == expected
    assert [int(x) for x in result.v(9)[0]] == [7 if expected >> n & 1 else 0 for n in range(64)]
    assert exec_.count == 2


# Modifiers.

def test_neg_and_abs_change_signs_only() -> None:
    for signs, change in (((True, False), lambda x: x ^ F32.sign), ((False, True), lambda x: x & ~F32.sign),
                          ((True, True), lambda x: x | F32.sign)):
        run_case("gfx942", "v_max_f32", lambda a, b, change=change: wrapped(F32, MODE_DEFAULT, choose(F32, True))(change(a), b),
                 signs=[signs])
        run_case("gfx942", "v_cndmask_b32", lambda a, b, c, change=change: b if c else change(a), signs=[signs])
    run_case("gfx950", "v_mul_f64", lambda a, b: wrapped(F64, MODE_DEFAULT, lambda m, x, y: F64.mul(x, y))(a & ~F64.sign, b ^ F64.sign),
             signs=[(False, True), (True, False)])
    run_case("gfx950", "v_add_f16", lambda a, b: F16.add(a | F16.sign, b), signs=[(True, True)])


@pytest.mark.parametrize("mode", [MODE_DEFAULT, 0x2C0, MODE_KEEP])
def test_clamp(mode: int) -> None:
    for kind, name in ((F32, "v_add_f32"), (F16, "v_add_f16"), (F64, "v_add_f64")):
        plain = wrapped(kind, mode, lambda m, a, b, kind=kind: kind.add(a, b))

        def reference(a: int, b: int, plain: Reference = plain, kind: Kind = kind) -> Any:
            result = plain(a, b)
            if result == NAN:
                return 0 if mode >> 8 & 1 else NAN
            one = kind.bias << kind.mantissa
            return 0 if kind.negative(result) else min(result, one)

        run_case("gfx942", name, reference, mode=mode, modifiers={"clamp": True})


@pytest.mark.parametrize("modifiers, power", [({"mul": 2}, 1), ({"mul": 4}, 2), ({"div": 2}, -1)])
def test_omod(modifiers: dict[str, int], power: int) -> None:
    """Only without IEEE, and only where denormal results are flushed; then -0 becomes 0 as well."""
    def reference(a: int, b: int) -> Any:
        result = wrapped(F32, 0x100, lambda m, x, y: F32.mul(x, y))(a, b)
        if result == NAN or F32.is_inf(result):
            return result
        scaled = F32.flush(F32.encode(F32.value(result) * Fraction(2) ** power, NEAREST, F32.negative(result)))
        return 0 if F32.magnitude(scaled) == 0 else scaled

    run_case("gfx942", "v_mul_f32", reference, mode=0x1C0, modifiers=modifiers)
    run_case("gfx942", "v_mul_f32", wrapped(F32, MODE_DEFAULT, lambda m, x, y: F32.mul(x, y)), mode=MODE_DEFAULT, modifiers=modifiers)
    run_case("gfx942", "v_mul_f32", wrapped(F32, 0x1F0, lambda m, x, y: F32.mul(x, y)), mode=0x1F0, modifiers=modifiers)


def test_constants_and_scalars_as_sources() -> None:
    result = run("gfx942", lambda k: (k.v_mul_f32(v[1], 0.5, v[0]), k.v_add_f32(v[2], s[4], v[0]), k.v_fma_f64(v[4:5], v[6:7], 4.0, -1.0),
                                      k.v_add_f16(v[3], 1.0, v[8]), k.v_add_u32(v[9], -5, v[10]), k.v_max_f32(v[11], 0x40490FDB, v[0])),
                 vgprs={0: np.arange(64, dtype=np.float32), 6: np.arange(64, dtype=np.float64), 8: np.full(64, 0x4000, np.uint32),
                        10: np.full(64, 3, np.uint32)}, sgprs={4: 0x40400000})
    lanes = np.arange(64)
    assert (result.v(1, np.float32)[0] == lanes / 2).all() and (result.v(2, np.float32)[0] == lanes + 3).all()
    assert (result.v(4, np.float64)[0] == 4 * lanes - 1).all() and (result.v(3, np.float16)[0] == 3).all()
    assert (result.v(9)[0] == 0xFFFFFFFE).all() and result.v(11, np.float32)[0, 2] == np.float32(math.pi)


def test_modes_are_what_their_numbers_say() -> None:
    assert (NEAREST, UP, DOWN, ZERO) == (0, 1, 2, 3)
