"""Conversions to and from 8-, 6- and 4-bit floats, stochastic and scaled, against tables typed from the formats' definitions."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from asmgen.emulator.semantics.scaled import small_formats
from asmgen.emulator.semantics.valuconversions import CONVERT
from asmgen.isa.arch import ARCHITECTURES
from tests.emulator_harness import MODE_DEFAULT, MODE_KEEP
from tests.softfloat import BF16, F16, F32, NAN, NEAREST, Kind
from tests.valu_cases import Cases

M16, M32 = 0xFFFF, 0xFFFFFFFF
CASES = Cases()
check = CASES.check


def table_of(name: str) -> list[Fraction | None]:
    """The values of a small format's codes (None: no finite number), from its bits: exponent bits, mantissa bits, bias."""
    exponent, mantissa, bias = {"e4m3": (4, 3, 7), "e5m2": (5, 2, 15), "e4m3fnuz": (4, 3, 8), "e5m2fnuz": (5, 2, 16), "e2m3": (2, 3, 1),
                                "e3m2": (3, 2, 3), "e2m1": (2, 1, 1)}[name]
    values: list[Fraction | None] = []
    for code in range(1 << 1 + exponent + mantissa):
        field, fraction = code >> mantissa & (1 << exponent) - 1, code & (1 << mantissa) - 1
        value = Fraction(fraction + (1 << mantissa if field else 0)) * Fraction(2) ** (max(field, 1) - bias - mantissa)
        sign = code >> exponent + mantissa
        missing = {"e4m3": code & 0x7F == 0x7F, "e5m2": field == 31}.get(name, name.endswith("fnuz") and code == 0x80)
        values.append(None if missing else -value if sign else value)
    return values


FORMATS = {("gfx942", "fp8"): "e4m3fnuz", ("gfx942", "bf8"): "e5m2fnuz", ("gfx950", "fp8"): "e4m3", ("gfx950", "bf8"): "e5m2",
           ("gfx950", "fp6"): "e2m3", ("gfx950", "bf6"): "e3m2", ("gfx950", "fp4"): "e2m1"}
TABLES = {name: table_of(name) for name in set(FORMATS.values())}


def decoded(name: str, code: int, scale: Fraction = Fraction(1), target: Kind = F32) -> int | str:
    value = TABLES[name][code]
    if value is None:
        return target.infinity | (target.sign if code & 0x80 else 0) if name == "e5m2" and code & 3 == 0 else NAN
    negative = bool(code >> len(TABLES[name]).bit_length() - 2)
    return target.encode(value * scale, NEAREST, negative and value == 0)


def nearest_code(name: str, value: Fraction, saturate: bool, negative: bool) -> int | None:
    """The code of the nearest number, ties to the even code; None where it overflows without saturation."""
    table = TABLES[name]
    half = len(table) // 2
    finite = [(x, code) for code, x in enumerate(table[:half]) if x is not None]
    size = abs(value)
    largest = finite[-1][0]
    step = largest - finite[-2][0]
    if size >= largest + step / 2 and not (size == largest + step / 2 and finite[-1][1] % 2 == 0):
        if not saturate:
            return None
        best = finite[-1][1]
    else:
        best = min(finite, key=lambda item: (abs(item[0] - size), item[1] & 1))[1]
    if name.endswith("fnuz") and best == 0:
        return 0
    return best | (half if negative else 0)


def encoded(name: str, pattern: int, kind: Kind, saturate: bool, scale: Fraction | None = Fraction(1)) -> Callable[[int], bool]:
    """Whether a code is right for a source pattern; scale None is a NaN."""
    half = len(TABLES[name]) // 2
    small = name in ("e2m1", "e2m3", "e3m2")

    def good(code: int) -> bool:
        if kind.is_nan(pattern) or scale is None:
            return code & half - 1 == half - 1 if small else decoded(name, code) == NAN
        negative = kind.negative(pattern)
        if kind.is_inf(pattern):
            expected = nearest_code(name, Fraction(10**9), True, negative) if saturate or small else None
        else:
            expected = nearest_code(name, kind.value(pattern) / scale, saturate or small, negative)
        if expected is None:
            return code == (0x7C | (0x80 if negative else 0)) if name == "e5m2" else decoded(name, code) == NAN
        return code == expected

    return good


ARCH_FP8 = [(arch, name) for arch in ("gfx942", "gfx950") for name in ("fp8", "bf8")]
MODERATE = {"fp8": 20, "bf8": 24}


@CASES.declares("v_cvt_f32_{name}", "v_cvt_pk_f32_{name}")
@pytest.mark.parametrize("arch, name", ARCH_FP8)
def test_fp8_to_f32(arch: str, name: str) -> None:
    form = FORMATS[arch, name]

    def one(a: int) -> Any:
        return decoded(form, a & 255)

    check(f"v_cvt_f32_{name}", one, arch)
    for number, part in enumerate(("BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3")):
        check(f"v_cvt_f32_{name}", lambda a, n=number: one(a >> 8 * n), arch, encoding="SDWA", modifiers={"src0_sel": part})

    def close_pair(got: int, expected: Any, sources: list[Any]) -> bool:
        return all(F32.is_nan(got >> 32 * n & M32) if one(sources[0] >> 8 * n) == NAN else got >> 32 * n & M32 == one(sources[0] >> 8 * n)
                   for n in range(2))

    check(f"v_cvt_pk_f32_{name}", lambda a: 0, arch, compare=close_pair)
    check(f"v_cvt_pk_f32_{name}", lambda a: 0, arch, encoding="SDWA", modifiers={"src0_sel": "WORD_1"},
          compare=lambda got, expected, sources: close_pair(got, expected, [sources[0] >> 16]))


def kept(size: int, low: int, goods: Callable[..., list[Callable[[int], bool]]], width: int) -> dict[str, Any]:
    """Comparison of codes that fill `size` bits from bit `low`, the rest of the old register kept."""
    def reference(*sources: Any) -> Any:
        return lambda old: old

    def compare(got: int, expected: Any, sources: list[Any]) -> bool:
        field = (1 << size) - 1
        codes = [got >> low + width * n & (1 << width) - 1 for n in range(size // width)]
        fine = all(good(code) for good, code in zip(goods(*sources), codes, strict=True))
        # Old registers hold lane * 2654435761 + constant, so that a lost remainder cannot look kept.
        rest = _OLD_REST.setdefault((size, low), {value & ~(field << low) & M32 for value in _OLD})
        return fine and (got & ~(field << low) & M32) in rest

    return {"reference": reference, "compare": compare}


_OLD = [(lane * 2654435761 + 0xCAFEF00D) & M32 for lane in range(192)]
_OLD_REST: dict[tuple[int, int], set[int]] = {}


@CASES.declares("v_cvt_pk_{name}_f32")
@pytest.mark.parametrize("saturate", [False, True])
@pytest.mark.parametrize("arch, name", ARCH_FP8)
def test_f32_to_fp8(arch: str, name: str, saturate: bool) -> None:
    form = FORMATS[arch, name]
    mode = MODE_DEFAULT | 3 | (1 << 23 if saturate else 0)  # always nearest even
    for upper in (0, 1):
        options = kept(16, 16 * upper, lambda a, b: [encoded(form, x, F32, saturate) for x in (a, b)], 8)
        check(f"v_cvt_pk_{name}_f32", options["reference"], arch, compare=options["compare"], mode=mode, seed=upper,
              modifiers={"op_sel": (0, 0, 1)} if upper else {})


def stochastic_code(name: str, pattern: int, kind: Kind, seed: int, saturate: bool, scale: Fraction = Fraction(1)) -> Callable[[int], bool]:
    """The seed's upper bits added just below the last kept bit of the source's own mantissa, then truncated."""
    plain = encoded(name, pattern, kind, saturate, scale)
    if kind.is_nan(pattern) or kind.is_inf(pattern) or kind.magnitude(pattern) == 0:
        return plain
    table = TABLES[name]
    half = len(table) // 2
    finite = [x for x in table[:half] if x is not None]
    value = abs(kind.value(pattern)) / scale
    mantissa = {"e4m3": 3, "e4m3fnuz": 3, "e5m2": 2, "e5m2fnuz": 2, "e2m3": 3, "e3m2": 2, "e2m1": 1}[name]
    least = finite[1] * (1 << mantissa)  # the least normal number
    power = Fraction(1)
    while power > value:
        power /= 2
    while power * 2 <= value:
        power *= 2
    power = max(power, least)
    dropped = kind.mantissa - mantissa
    units = math.floor(value / power * (1 << kind.mantissa))
    steps = units + (seed >> 32 - dropped) >> dropped
    size = power * steps / (1 << mantissa)

    def good(code: int) -> bool:
        negative = kind.negative(pattern)
        if size > finite[-1]:
            if saturate or name in ("e2m1", "e2m3", "e3m2"):
                return code == finite.index(finite[-1]) | (half if negative else 0)
            return code & 0x7F == 0x7C if name == "e5m2" else decoded(name, code) == NAN
        expected = finite.index(size)
        return code == (0 if name.endswith("fnuz") and expected == 0 else expected | (half if negative else 0))

    return good


@CASES.declares("v_cvt_sr_{name}_f32")
@pytest.mark.parametrize("arch, name", ARCH_FP8)
def test_stochastic_fp8(arch: str, name: str) -> None:
    form = FORMATS[arch, name]
    for byte in range(4):
        options = kept(8, 8 * byte, lambda a, b: [stochastic_code(form, a, F32, b, False)], 8)
        check(f"v_cvt_sr_{name}_f32", options["reference"], arch, compare=options["compare"], seed=byte, mode=MODE_KEEP,
              modifiers={"op_sel": (0, 0, byte & 1, byte >> 1)} if byte else {})


@CASES.declares("v_cvt_sr_{name}_f32")
@pytest.mark.parametrize("name, kind", [("f16", F16), ("bf16", BF16)])
def test_stochastic_halves(name: str, kind: Kind) -> None:
    """Towards zero after adding the seed's upper bits below the last kept one."""
    def reference(a: int, seed: int) -> Any:
        if F32.is_nan(a):
            return NAN
        if F32.is_inf(a) or F32.magnitude(a) == 0:
            return F32.convert(a, kind)
        value, dropped = abs(F32.value(a)), 23 - kind.mantissa
        field = max((F32.magnitude(a) >> 23) - 127, 1 - kind.bias)
        power = Fraction(2) ** field
        units = math.floor(value / power * (1 << 23)) + (seed >> 32 - dropped) >> dropped
        size = power * units / (1 << kind.mantissa)
        return (kind.infinity if size >= Fraction(2) ** (kind.bias + 1) else kind.encode(size)) | (kind.sign if F32.negative(a) else 0)

    def compare(upper: int) -> Callable[[int, Any, list[Any]], bool]:
        def same(got: int, expected: Any, sources: list[Any]) -> bool:
            half = got >> 16 * upper & M16
            other = got >> 16 * (1 - upper) & M16
            fine = kind.is_nan(half) if expected == NAN else half == expected
            return fine and other in {value >> 16 * (1 - upper) & M16 for value in _OLD}

        return same

    for upper in (0, 1):
        check(f"v_cvt_sr_{name}_f32", reference, "gfx950", compare=compare(upper), modifiers={"op_sel": (0, 0, 1)} if upper else {},
              mode=MODE_KEEP)


def scale_of(pattern: int) -> Fraction | None:
    """Only the exponent of the f32 counts; all ones is NaN."""
    field = pattern >> 23 & 255
    return None if field == 255 else Fraction(2) ** (field - 127)


SCALES = [0x3F800000, 0x40000000, 0x3E800000, 0xC1234567, 0x3F7FFFFF, 0x7F800000, 0x42800000]
SOURCES = [("f32", F32), ("f16", F16), ("bf16", BF16)]


def halves(word: int) -> list[int]:
    return [word & M16, word >> 16]


@CASES.declares("v_cvt_scalef32_pk_{name}_{source}")
@pytest.mark.parametrize("source, kind", SOURCES)
@pytest.mark.parametrize("name", ["fp8", "bf8", "fp4"])
def test_scaled_pairs(name: str, source: str, kind: Kind) -> None:
    form, bits = FORMATS["gfx950", name], 4 if name == "fp4" else 8
    size = 2 * bits

    def goods(*sources: Any) -> list[Callable[[int], bool]]:
        values = list(sources[:2]) if source == "f32" else halves(sources[0])
        return [encoded(form, x, kind, False, scale_of(sources[-1])) for x in values]

    last = 2 if source == "f32" else 1
    for place in range(32 // size if name == "fp4" else 2):
        select = (0, 0, place & 1, place >> 1) if name == "fp4" else (0, 0, 0, place) if source == "f32" else (0, 0, place)
        options = kept(size, size * place, goods, bits)
        check(f"v_cvt_scalef32_pk_{name}_{source}", options["reference"], "gfx950", compare=options["compare"], given={last: SCALES},
              seed=place,
              modifiers={"op_sel": select} if any(select) else {})


@CASES.declares("v_cvt_scalef32_sr_fp8_{source}", "v_cvt_scalef32_sr_bf8_{source}", "v_cvt_scalef32_sr_pk_fp4_{source}")
@pytest.mark.parametrize("source, kind", SOURCES)
def test_scaled_stochastic(source: str, kind: Kind) -> None:
    scales = [x for x in SCALES if scale_of(x)]

    def prng(seed: int) -> int:
        return (seed << 1 ^ (197 if seed >> 31 else 0)) & M32

    for name in ("fp8", "bf8"):
        form = FORMATS["gfx950", name]
        for byte in range(4):
            options = kept(8, 8 * byte, lambda a, b, c, form=form: [stochastic_code(form, a, kind, b, False, scale_of(c) or Fraction(1))],
                           8)
            check(f"v_cvt_scalef32_sr_{name}_{source}", options["reference"], "gfx950", compare=options["compare"], given={2: scales},
                  seed=byte,
                  modifiers={"op_sel": (0, 0, byte & 1, byte >> 1)} if byte else {})
    for byte in range(4):

        def goods(a: Any, b: int, c: int) -> list[Callable[[int], bool]]:
            values = a if source == "f32" else halves(a)
            seeds = [b, prng(b)]
            return [stochastic_code("e2m1", x, kind, r, True, scale_of(c) or Fraction(1)) for x, r in zip(values, seeds, strict=True)]

        options = kept(8, 8 * byte, goods, 4)
        check(f"v_cvt_scalef32_sr_pk_fp4_{source}", options["reference"], "gfx950", compare=options["compare"], given={2: scales},
              seed=byte,
              modifiers={"op_sel": (0, 0, byte & 1, byte >> 1)} if byte else {})


@CASES.declares("v_cvt_scalef32_pk_{target}_{name}",
                also=lambda name, target, kind: [f"v_cvt_scalef32_{target}_{name}"] if name != "fp4" and target != "bf16" else [])
@pytest.mark.parametrize("target, kind", SOURCES)
@pytest.mark.parametrize("name", ["fp8", "bf8", "fp4"])
def test_scaled_to_wide(name: str, target: str, kind: Kind) -> None:
    form, bits = FORMATS["gfx950", name], 4 if name == "fp4" else 8
    size = kind.bits

    def one(code: int, scale: int) -> int | str:
        factor = scale_of(scale)
        return NAN if factor is None else decoded(form, code & (1 << bits) - 1, factor, kind)

    def compare(shift: int, count: int) -> Callable[[int, Any, list[Any]], bool]:
        def same(got: int, expected: Any, sources: list[Any]) -> bool:
            for n in range(count):
                found, wanted = got >> size * n & (1 << size) - 1, one(sources[0] >> shift + bits * n, sources[1])
                if not (kind.is_nan(found) if wanted == NAN else found == wanted):
                    return False
            return True

        return same

    pairs = range(4) if name == "fp4" else range(2)
    for place in pairs:
        select = (place & 1, place >> 1) if name == "fp4" else (place, 0)
        check(f"v_cvt_scalef32_pk_{target}_{name}", lambda a, b: 0, "gfx950", compare=compare(2 * bits * place, 2), given={1: SCALES},
              seed=place,
              modifiers={"op_sel": select} if any(select) else {})
    if name == "fp4" or target == "bf16":
        return
    for byte in range(4):
        for upper in (0, 1) if target == "f16" else (0,):
            select = (byte & 1, byte >> 1, upper)
            low = compare(8 * byte, 1)

            def same(got: int, expected: Any, sources: list[Any], low: Any = low, upper: int = upper) -> bool:
                other = {value >> 16 * (1 - upper) & M16 for value in _OLD}
                return low(got >> 16 * upper, expected, sources) and (target == "f32" or got >> 16 * (1 - upper) & M16 in other)

            check(f"v_cvt_scalef32_{target}_{name}", lambda a, b: 0, "gfx950", compare=same, given={1: SCALES}, seed=byte,
                  modifiers={"op_sel": select[:3 if upper else 2]} if any(select) else {})


def six_bits(words: list[int]) -> list[int]:
    joined = sum(word << 32 * n for n, word in enumerate(words))
    return [joined >> 6 * n & 63 for n in range(32)]


def list_of(words: list[int], source: str) -> list[int]:
    return words if source == "f32" else [half for word in words for half in halves(word)]


@CASES.declares("v_cvt_scalef32_sr_pk32_{name}_{source}", "v_cvt_scalef32_pk32_{source}_{name}",
                also=lambda name, source, kind: [f"v_cvt_scalef32_{'2xpk16' if source == 'f32' else 'pk32'}_{name}_{source}"])
@pytest.mark.parametrize("name", ["fp6", "bf6"])
@pytest.mark.parametrize("source, kind", SOURCES)
def test_scaled_six_bits(name: str, source: str, kind: Kind) -> None:
    form = FORMATS["gfx950", name]

    def words_of(got: int) -> list[int]:
        return [got >> 32 * n & M32 for n in range(6)]

    def plain(got: int, expected: Any, sources: list[Any]) -> bool:
        if source == "f32":
            values = [x for pair in zip(sources[0], sources[1], strict=True) for x in pair]
        else:
            values = list_of(sources[0], source)
        scale = scale_of(sources[-1])
        return all(encoded(form, x, kind, True, scale)(code) for x, code in zip(values, six_bits(words_of(got)), strict=True))

    if source == "f32":
        check(f"v_cvt_scalef32_2xpk16_{name}_f32", lambda a, b, c: 0, "gfx950", compare=plain, given={2: SCALES})
    else:
        check(f"v_cvt_scalef32_pk32_{name}_{source}", lambda a, b: 0, "gfx950", compare=plain, given={1: SCALES})

    def random(got: int, expected: Any, sources: list[Any]) -> bool:
        seed, fine = sources[1], True
        for x, code in zip(list_of(sources[0], source), six_bits(words_of(got)), strict=True):
            fine &= stochastic_code(form, x, kind, seed, True, scale_of(sources[2]) or Fraction(1))(code)
            seed = (seed << 1 ^ (197 if seed >> 31 else 0)) & M32
        return fine

    check(f"v_cvt_scalef32_sr_pk32_{name}_{source}", lambda a, b, c: 0, "gfx950", compare=random,
          given={2: [x for x in SCALES if scale_of(x)]})

    def back(words: list[int], scale: int) -> Any:
        return 0

    def wide(got: int, expected: Any, sources: list[Any]) -> bool:
        scale = scale_of(sources[1])
        for n, code in enumerate(six_bits(sources[0])):
            found = got >> kind.bits * n & (1 << kind.bits) - 1
            wanted = NAN if scale is None else decoded(form, code, scale, kind)
            if not (kind.is_nan(found) if wanted == NAN else found == wanted):
                return False
        return True

    check(f"v_cvt_scalef32_pk32_{source}_{name}", back, "gfx950", compare=wide, given={1: SCALES})


def test_every_small_conversion_was_tested() -> None:
    """Every mnemonic of the architectures' tables is declared by one of the tests above, the stochastic halves too."""
    halves = {name for name in CONVERT if name.startswith("v_cvt_sr_")}
    assert halves | {name for arch in ARCHITECTURES.values() for name in small_formats(arch)} <= CASES.declared
