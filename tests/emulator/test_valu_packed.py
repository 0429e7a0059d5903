"""Packed, mixed and dot-product instructions against fractions and integers, with every use of op_sel and neg."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from asmgen.emulator.semantics.packed import DOT, MIXED, PACKED, PACKED_SATURATING
from asmgen.isa.registers import Modified, s, v
from tests.emulator_harness import MODE_DEFAULT, MODE_KEEP, run
from tests.float_cases import Mode, choose, propagating, three
from tests.softfloat import BF16, F16, F32, NAN, NEAREST, Kind
from tests.valu_cases import run_case

M16, M32 = 0xFFFF, 0xFFFFFFFF
SELECTIONS = [((0, 0, 0), (1, 1, 1)), ((1, 0, 1), (0, 1, 1)), ((0, 1, 0), (0, 0, 1)), ((1, 1, 1), (1, 0, 0))]


def sx(value: int, bits: int = 16) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def limit(value: int, signed: bool) -> int:
    low, high = (-32768, 32767) if signed else (0, 65535)
    return min(max(value, low), high) & M16


INTEGER: dict[str, Callable[..., int]] = {
    "v_pk_mul_lo_u16": lambda a, b: a * b, "v_pk_lshlrev_b16": lambda a, b: b << (a & 15), "v_pk_lshrrev_b16": lambda a, b: b >> (a & 15),
    "v_pk_ashrrev_i16": lambda a, b: sx(b) >> (a & 15),
    "v_pk_mad_u16": lambda a, b, c: a * b + c, "v_pk_add_u16": lambda a, b: a + b, "v_pk_sub_u16": lambda a, b: a - b,
    "v_pk_min_u16": min, "v_pk_max_u16": max,
    "v_pk_mad_i16": lambda a, b, c: sx(a) * sx(b) + sx(c), "v_pk_add_i16": lambda a, b: sx(a) + sx(b), "v_pk_sub_i16": lambda a,
    b: sx(a) - sx(b),
    "v_pk_min_i16": lambda a, b: min(sx(a), sx(b)), "v_pk_max_i16": lambda a, b: max(sx(a), sx(b)),
}
HALVES: dict[str, Callable[..., Any]] = {
    "v_pk_fma_f16": lambda m, a, b, c: F16.fma(a, b, c, m.rounding), "v_pk_add_f16": lambda m, a, b: F16.add(a, b, m.rounding),
    "v_pk_mul_f16": lambda m, a, b: F16.mul(a, b, m.rounding), "v_pk_min_f16": choose(F16, False), "v_pk_max_f16": choose(F16, True),
    "v_pk_minimum3_f16": three(propagating(F16, False)), "v_pk_maximum3_f16": three(propagating(F16, True)),
}
SINGLES: dict[str, Callable[..., Any]] = {
    "v_pk_fma_f32": lambda m, a, b, c: F32.fma(a, b, c, m.rounding), "v_pk_add_f32": lambda m, a, b: F32.add(a, b, m.rounding),
    "v_pk_mul_f32": lambda m, a, b: F32.mul(a, b, m.rounding),
}
GFX950 = {"v_pk_minimum3_f16", "v_pk_maximum3_f16", "v_dot2_f32_bf16", "v_dot2c_f32_bf16"}


def arch_of(name: str) -> str:
    return "gfx950" if name in GFX950 else "gfx942"


def count(name: str) -> int:
    return 3 if "mad" in name or "fma" in name or "imum3" in name else 2


def half(word: int, upper: int) -> int:
    return word >> 16 * upper & M16


def test_every_function_has_a_case() -> None:
    assert set(PACKED) == set(INTEGER) | set(HALVES) | set(SINGLES) | {"v_pk_fmac_f16"}
    assert set(PACKED_SATURATING) <= set(INTEGER)
    assert set(DOT) == set(DOT_INTEGERS) | set(DOT_FLOATS) and set(MIXED) == {"v_fma_mix_f32", "v_fma_mixlo_f16", "v_fma_mixhi_f16"}


@pytest.mark.parametrize("name", sorted(INTEGER))
def test_packed_integers(name: str) -> None:
    for number, (low, high) in enumerate(SELECTIONS):
        used = count(name)

        def reference(*words: int, low: Any = low, high: Any = high) -> int:
            parts = [INTEGER[name](*(half(word, select[n]) for n, word in enumerate(words))) & M16 for select in (low, high)]
            return parts[0] | parts[1] << 16

        run_case("gfx942", name, reference, seed=number, modifiers={"op_sel": low[:used], "op_sel_hi": high[:used]} if number else {})


@pytest.mark.parametrize("name", sorted(PACKED_SATURATING))
def test_packed_integers_saturate(name: str) -> None:
    def reference(*words: int) -> int:
        parts = [limit(INTEGER[name](*(half(word, n) for word in words)), "i16" in name) for n in range(2)]
        return parts[0] | parts[1] << 16

    run_case("gfx942", name, reference, modifiers={"clamp": True})


def pairwise(kind: Kind, mode: int, one: Callable[..., Any], low: Any, high: Any, negate: Any = ((0, 0, 0), (0, 0, 0)),
             clamp: bool = False) -> Callable[[int, Any, list[Any]], bool]:
    """Compares both results; sources are words of two halves, or lists of two registers."""
    settled = Mode(mode, kind)

    def compare(got: int, expected: Any, sources: list[Any]) -> bool:
        for side, select in enumerate((low, high)):
            values = []
            for n, word in enumerate(sources):
                value = word[select[n]] if isinstance(word, list) else half(word, select[n])
                values.append(kind.flush(value ^ (kind.sign if negate[side][n] else 0), not settled.keep_in))
            wanted = one(settled, *values)
            found = got >> kind.bits * side & (1 << kind.bits) - 1
            if isinstance(wanted, int):
                wanted = kind.flush(wanted, not settled.keep_out)
            if clamp:
                wanted = 0 if wanted == NAN or kind.is_nan(wanted) or kind.negative(wanted) else min(wanted, kind.bias << kind.mantissa)
            if not (kind.is_nan(found) if wanted == NAN else found == wanted):
                return False
        return True

    return compare


@pytest.mark.parametrize("name", sorted(HALVES) + sorted(SINGLES))
def test_packed_floats(name: str) -> None:
    kind, one = (F16, HALVES[name]) if name in HALVES else (F32, SINGLES[name])
    used = count(name)
    for number, ((low, high), mode) in enumerate(itertools.product(SELECTIONS, (MODE_DEFAULT, 0x3F0, 0x300, 0x3CB))):
        bits = [number >> n & 1 for n in range(4)] if number > 3 else [0, 0, 0, 0]
        negate = ((bits[0], bits[1], bits[2]), (bits[1], int(number > 3) - bits[0], bits[3]))
        modifiers: dict[str, Any] = {"op_sel": low[:used], "op_sel_hi": high[:used]} if number > 3 else {}
        if number > 3:
            modifiers |= {"neg_lo": negate[0][:used], "neg_hi": negate[1][:used]}
        if number == 5:
            modifiers["clamp"] = True
        run_case(arch_of(name), name, lambda *words: 0, mode=mode, seed=number, modifiers=modifiers,
                 compare=pairwise(kind, mode, one, low, high, negate, number == 5),
                 kinds=dict.fromkeys(range(3), "b32") if number % 3 else None)


def test_packed_f16_on_ordinary_numbers() -> None:
    """Values of moderate size in both halves: the random words above are often far apart."""
    generator = np.random.default_rng(5)
    words = [(generator.normal(size=(64, 2)).astype(np.float16)).view(np.uint32)[:, 0] for _ in range(3)]
    result = run("gfx942", lambda k: k.v_pk_fma_f16(v[3], v[0], v[1], v[2]), vgprs=dict(enumerate(words)))
    for lane in range(64):
        for side in range(2):
            a, b, c = (half(int(word[lane]), side) for word in words)
            assert half(int(result.v(3)[0, lane]), side) == F16.fma(a, b, c)


def test_packed_fmac() -> None:
    def reference(a: int, b: int, c: int) -> Any:
        return 0

    run_case("gfx942", "v_pk_fmac_f16", reference, encoding="VOP2", accumulate=True,
             compare=pairwise(F16, MODE_DEFAULT, lambda m, a, b, c: F16.fma(a, b, c), (0, 0, 0), (1, 1, 1)))


def test_packed_move_and_scalar_pairs() -> None:
    given = {0: np.arange(64, dtype=np.uint32), 1: np.arange(64, dtype=np.uint32) + 100, 2: np.arange(64, dtype=np.uint32) + 200,
             3: np.arange(64, dtype=np.uint32) + 300}
    result = run("gfx942",
                 lambda k: (k.v_pk_mov_b32(v[4:5], v[0:1], v[2:3], op_sel=(1, 0)), k.v_pk_mov_b32(v[6:7], v[0:1], v[2:3], op_sel=(0, 1)),
                                      k.v_pk_mov_b32(v[8:9], s[4:5], s[4:5], op_sel=(0, 1)),
                                      k.v_pk_mov_b32(v[0:1], v[0:1], v[0:1], op_sel=(1, 0))),
                 vgprs=given, sgprs={4: 11, 5: 22})
    lanes = np.arange(64)
    assert (result.v(4)[0] == lanes + 100).all() and (result.v(5)[0] == lanes + 200).all()
    assert (result.v(6)[0] == lanes).all() and (result.v(7)[0] == lanes + 300).all()
    assert (result.v(8)[0] == 11).all() and (result.v(9)[0] == 22).all()
    assert (result.v(0)[0] == lanes + 100).all() and (result.v(1)[0] == lanes).all()


def test_packed_f32_reads_both_results_sources_first() -> None:
    result = run("gfx950", lambda k: k.v_pk_mul_f32(v[0:1], v[0:1], v[0:1], op_sel=(1, 1), op_sel_hi=(0, 0)),
                 vgprs={0: np.full(64, 3, np.float32), 1: np.full(64, 5, np.float32)})
    assert (result.v(0, np.float32)[0, 0], result.v(1, np.float32)[0, 0]) == (25, 9)
    scalar = run("gfx950",
                 lambda k: (k.v_pk_mul_f32(v[2:3], v[0:1], s[4:5]), k.v_pk_fma_f32(v[4:5], v[0:1], 2.0, 1.0, op_sel_hi=(1, 0, 0))),
                 vgprs={0: np.full(64, 3, np.float32), 1: np.full(64, 5, np.float32)}, sgprs={4: 0x40000000, 5: 0x40400000})
    assert [float(scalar.v(n, np.float32)[0, 0]) for n in (2, 3, 4, 5)] == [6, 15, 7, 11]


def test_constants_of_packed_f16_fill_the_lower_half_only() -> None:
    result = run("gfx942", lambda k: (k.v_pk_add_f16(v[1], v[0], 1.0), k.v_pk_add_f16(v[2], v[0], 1.0, op_sel_hi=(1, 0)),
                                      k.v_pk_add_u16(v[3], v[0], -1)), vgprs={0: np.full(64, 0x3C003C00, np.uint32)})
    assert [int(result.v(n)[0, 0]) for n in (1, 2, 3)] == [0x3C004000, 0x40004000, 0x3BFF3BFF]


@pytest.mark.parametrize("name", ["v_fma_mix_f32", "v_fma_mixlo_f16", "v_fma_mixhi_f16"])
def test_mixed(name: str) -> None:
    """Each source f32, or the half of a register that op_sel names, as op_sel_hi says; one rounding to f32, one more to f16."""
    for number, (wide,
                 high) in enumerate(itertools.product([(0, 0, 0), (1, 1, 1), (1, 0, 1), (0, 1, 0)], [(0, 0, 0), (1, 1, 0), (0, 1, 1)])):
        mode = (MODE_DEFAULT, 0x3F0, 0x300)[number % 3]
        signs = [(bool(number & 1), False), (False, bool(number & 2)), (bool(number & 4), bool(number & 1))]
        single, halved = Mode(mode, F32), Mode(mode, F16)

        def source(word: int, n: int, wide: Any = wide, high: Any = high, signs: Any = signs, single: Mode = single,
                   halved: Mode = halved) -> int | str:
            value: Any
            if wide[n]:
                value = F16.convert(F16.flush(half(word, high[n]), not halved.keep_in), F32)
            else:
                value = F32.flush(word, not single.keep_in)
            if value == NAN or F32.is_nan(value):
                return NAN
            negate, absolute = signs[n]
            value = value & ~F32.sign if absolute else value
            return value ^ F32.sign if negate else value

        def exact(words: list[int], source: Any = source) -> Any:
            values = [source(word, n) for n, word in enumerate(words)]
            if NAN in values:
                return NAN
            return F32.fma(*values, NEAREST)  # type: ignore[arg-type]

        def compare(got: int, expected: Any, sources: list[Any], exact: Any = exact, single: Mode = single, halved: Mode = halved) -> bool:
            result = exact(sources)
            if isinstance(result, int):
                result = F32.flush(result, not single.keep_out)
            if name == "v_fma_mix_f32":
                return F32.is_nan(got) if result == NAN else got == result
            upper = name == "v_fma_mixhi_f16"
            if isinstance(result, int):
                result = F16.flush(F32.convert(result, F16), not halved.keep_out)  # type: ignore[arg-type]
            found = half(got, int(upper))
            return F16.is_nan(found) if result == NAN else found == result

        mixed_registers(name, wide, high, signs, mode, compare, number)


def mixed_registers(name: str, wide: Any, high: Any, signs: Any, mode: int, compare: Any, seed: int) -> None:
    """Whole registers as sources; the f16 forms keep the other half of their destination."""
    generator = np.random.default_rng(seed)
    exponent = generator.integers((0, 110)[seed % 2], 140, (3, 64), dtype=np.uint32) << np.uint32(23)
    words = generator.integers(0, 1 << 32, (3, 64), dtype=np.uint32)
    words = np.where(np.array(wide)[:, None] == 1, words, words & np.uint32(0x807FFFFF) | exponent)
    operands = [Modified(v[n], neg=neg, abs=absolute) if neg or absolute else v[n] for n, (neg, absolute) in enumerate(signs)]
    result = run("gfx950", lambda k: k.emit(name, v[3], *operands, op_sel=high, op_sel_hi=wide),
                 vgprs={0: words[0], 1: words[1], 2: words[2], 3: np.full(64, 0xABCD1234, np.uint32)}, mode=mode)
    for lane in range(64):
        got = int(result.v(3)[0, lane])
        assert name == "v_fma_mix_f32" or half(got, int(name == "v_fma_mixlo_f16")) == (0xABCD if name == "v_fma_mixlo_f16" else 0x1234)
        assert compare(got, 0, [int(word[lane]) for word in words]), (name, wide, high, hex(got), [hex(int(word[lane])) for word in words])


def test_mixed_constants() -> None:
    result = run("gfx942", lambda k: (k.v_fma_mix_f32(v[1], v[0], 2.0, 1.0), k.v_fma_mix_f32(v[2], v[0], 2.0, 1.0, op_sel_hi=(1, 1, 1)),
                                      k.v_fma_mix_f32(v[3], v[0], s[4], 1.0, op_sel_hi=(1, 1, 0), op_sel=(0, 1, 0))),
                 vgprs={0: np.full(64, 0x40404200, np.uint32)}, sgprs={4: 0x40003C00})
    assert result.v(1, np.float32)[0, 0] == np.float32(2) * np.array(0x40404200, np.uint32).view(np.float32) + 1
    assert (result.v(2, np.float32)[0, 0], result.v(3, np.float32)[0, 0]) == (7, 7)


def fields(word: int, bits: int, signed: bool) -> list[int]:
    return [sx(word >> n, bits) if signed else word >> n & (1 << bits) - 1 for n in range(0, 32, bits)]


DOT_INTEGERS = {"v_dot2_i32_i16": (16, True), "v_dot2c_i32_i16": (16, True), "v_dot2_u32_u16": (16, False), "v_dot4_i32_i8": (8, True),
                "v_dot4c_i32_i8": (8, True), "v_dot4_u32_u8": (8, False), "v_dot8_i32_i4": (4, True), "v_dot8c_i32_i4": (4, True),
                "v_dot8_u32_u4": (4, False)}


@pytest.mark.parametrize("name", sorted(DOT_INTEGERS))
def test_dot_products_of_integers(name: str) -> None:
    bits, signed = DOT_INTEGERS[name]
    low, high = (-(1 << 31), (1 << 31) - 1) if signed else (0, M32)

    def exact(a: int, b: int, c: int) -> int:
        return sum(x * y for x, y in zip(fields(a, bits, signed), fields(b, bits, signed), strict=True)) + (sx(c, 32) if signed else c)

    accumulate = name.split("_")[1].endswith("c")
    for encoding in ("VOP2", "VOP3") if accumulate else ("VOP3P",):
        run_case("gfx942", name, lambda a, b, c: exact(a, b, c) & M32, accumulate=accumulate, encoding=encoding)
    run_case("gfx950", name, lambda a, b, c: min(max(exact(a, b, c), low), high) & M32, accumulate=accumulate, modifiers={"clamp": True})


DOT_FLOATS = {"v_dot2_f32_f16": F16, "v_dot2c_f32_f16": F16, "v_dot2_f32_bf16": BF16, "v_dot2c_f32_bf16": BF16}


@pytest.mark.parametrize("name", sorted(DOT_FLOATS))
def test_dot_products_of_floats(name: str) -> None:
    """Step by step in f32, denormals flushed whatever MODE says; gfx950's bf16 form adds its third source last."""
    kind = DOT_FLOATS[name]
    accumulate = name.startswith("v_dot2c")

    def wide(word: int, upper: int) -> Any:
        return kind.convert(kind.flush(half(word, upper)), F32)

    def step(a: Any, b: Any, c: Any) -> Any:
        if NAN in (a, b, c):
            return NAN
        result = F32.fma(a, b, c)
        return F32.flush(result) if isinstance(result, int) else result

    def exact(a: int, b: int, c: int) -> Any:
        addend: Any = NAN if F32.is_nan(c) else F32.flush(c)
        one = 0x3F800000
        if name == "v_dot2_f32_bf16":
            x, y = wide(a, 0), wide(b, 0)
            first = NAN if NAN in (x, y) else F32.mul(x, y)
            first = F32.flush(first) if isinstance(first, int) else first
            return step(step(wide(a, 1), wide(b, 1), first), one, addend)
        return step(wide(a, 1), wide(b, 1), step(wide(a, 0), wide(b, 0), addend))

    for seed, mode in enumerate((MODE_DEFAULT, MODE_KEEP)):
        run_case(arch_of(name), name, exact, accumulate=accumulate, mode=mode, seed=seed)
    if not accumulate:
        run_case(arch_of(name), name, lambda a, b, c: exact(a ^ 0x8000, b ^ 0x80000000, c ^ F32.sign),
                 modifiers={"neg_lo": (1, 0, 1), "neg_hi": (0, 1, 0)})
    generator = np.random.default_rng(9)
    numbers = [Fraction(int(x), 64) for x in generator.integers(-300, 300, 5)]
    patterns = [kind.encode(x) for x in numbers[:4]]
    expected = F32.encode(numbers[0] * numbers[1] + numbers[2] * numbers[3] + numbers[4])
    assert exact(patterns[0] | patterns[2] << 16, patterns[1] | patterns[3] << 16, F32.encode(numbers[4])) == expected
