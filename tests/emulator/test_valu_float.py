"""Float instructions of the vector ALU against exact fractions: rounding and denormal modes, NaNs, infinities, denormals, modifiers."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from asmgen.emulator.semantics.floats import FLOAT
from asmgen.isa.registers import s, v
from tests.emulator_harness import MODE_DEFAULT, MODE_KEEP, run
from tests.float_cases import CASES, GFX950, MODES, Mode, Reference, choose, exponent, ldexp, same_number, wrapped
from tests.softfloat import DOWN, F16, F32, F64, KINDS, NAN, NEAREST, UP, ZERO, Kind
from tests.valu_cases import run_case

KEEPS = {"v_fma_f16", "v_mad_f16", "v_div_fixup_f16", "v_max3_f16", "v_min3_f16", "v_med3_f16"}
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
