"""Typed buffers against exact arithmetic: every data and number format, d16, destination selects, bounds, LDS-DMA, what is refused."""

from __future__ import annotations

import math
import struct
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from asmgen.emulator.machine.compiled import Work
from asmgen.emulator.machine.errors import EmulatorError
from asmgen.isa.bufferformats import FIELDS
from asmgen.isa.modifiers import DATA_FORMATS, NUMBER_FORMATS
from asmgen.isa.operands import OFF
from asmgen.isa.registers import m0, s, v
from tests.emulator_harness import run
from tests.vmem_bench import Bench

# Typed from the ISA's table of DFMT (CDNA3 ISA, 9.1.2): bits of x, y, z, w, the first in the lowest bits.
COMPONENTS = {"8": (8,), "16": (16,), "8_8": (8, 8), "32": (32,), "16_16": (16, 16), "10_11_11": (11, 11, 10), "11_11_10": (10, 11, 11),
              "10_10_10_2": (2, 10, 10, 10), "2_10_10_10": (10, 10, 10, 2), "8_8_8_8": (8, 8, 8, 8), "32_32": (32, 32),
              "16_16_16_16": (16, 16, 16, 16), "32_32_32": (32, 32, 32), "32_32_32_32": (32, 32, 32, 32)}
NUMBERS = {"UNORM": 0, "SNORM": 1, "USCALED": 2, "SSCALED": 3, "UINT": 4, "SINT": 5, "FLOAT": 7}
DATA = {name: code for code, name in enumerate(("", "8", "16", "8_8", "32", "16_16", "10_11_11", "11_11_10", "10_10_10_2", "2_10_10_10",
                                                "8_8_8_8", "32_32", "16_16_16_16", "32_32_32", "32_32_32_32")) if name}
LETTERS = ("x", "xy", "xyz", "xyzw")
LEGAL = [(data, number) for data in COMPONENTS for number in NUMBERS if number != "FLOAT" or not set(COMPONENTS[data]) & {2, 8}]
IDENTITY = 4 | 5 << 3 | 6 << 6 | 7 << 9


@pytest.fixture(params=["numpy", "compiled"], autouse=True)
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    chosen: str = request.param
    monkeypatch.setattr(Work, "pays", lambda self, more: chosen == "compiled")
    return chosen


def nearest(value: Fraction, mantissa: int, bias: int, bits: int) -> int:
    """The code of a float format with that many mantissa bits, nearest to `value`, ties to even; by search over exact values."""
    sign = 1 << bits - 1 if value < 0 else 0
    magnitude = abs(value)
    infinity = (2 * bias + 1) << mantissa
    low, high = 0, infinity
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if exact(middle, mantissa, bias) <= magnitude else (low, middle)
    below, above = magnitude - exact(low, mantissa, bias), exact(high, mantissa, bias) - magnitude
    return sign | (low if below < above or below == above and low % 2 == 0 else high)


def exact(code: int, mantissa: int, bias: int) -> Fraction:
    """The value of a positive code; infinity as the number that would follow the largest."""
    exponent, rest = code >> mantissa, code & (1 << mantissa) - 1
    if exponent == 0:
        return Fraction(rest, 1 << mantissa) * Fraction(2) ** (1 - bias)
    return Fraction(rest + (1 << mantissa), 1 << mantissa) * Fraction(2) ** (exponent - bias)


def as_f32(value: Fraction) -> int:
    return nearest(value, 23, 127, 32)


def as_f16(value: Fraction) -> int:
    return nearest(value, 10, 15, 16)


def loaded(code: int, width: int, number: str, half: bool) -> int | None:
    """What a register gets; None for a NaN."""
    signed_code = code - (1 << width) if code >> width - 1 else code
    if number in ("UINT", "SINT"):
        return (code if number == "UINT" else signed_code) & (0xFFFF if half else 0xFFFFFFFF)
    if width == 32 and not half:
        return code
    if number == "FLOAT":
        mantissa, bias = {32: (23, 127), 16: (10, 15), 11: (6, 15), 10: (5, 15)}[width]
        has_sign = width >= 16
        magnitude = code & (1 << width - has_sign) - 1
        sign = code >> width - 1 if has_sign else 0
        infinity = (2 * bias + 1) << mantissa
        if magnitude > infinity:
            return None
        if magnitude == infinity:
            return (sign << 15 | 0x7C00) if half else (sign << 31 | 0x7F800000)
        value = exact(magnitude, mantissa, bias)
        if half and width == 32:
            rounded = as_f16(value)
            return sign << 15 | (rounded - (rounded == 0x7C00 or exact(rounded, 10, 15) > value))
        return (sign << 15 | as_f16(value)) if half else (sign << 31 | as_f32(value))
    if number == "UNORM":
        value = Fraction(code, (1 << width) - 1)
    elif number == "SNORM":
        value = max(Fraction(signed_code, (1 << width - 1) - 1), Fraction(-1))
    else:
        value = Fraction(code if number == "USCALED" else signed_code)
    return as_f16(value) if half else as_f32(value)


def real(pattern: int, half: bool) -> float:
    return struct.unpack("<e", struct.pack("<H", pattern & 0xFFFF))[0] if half else struct.unpack("<f", struct.pack("<I", pattern))[0]


def half_even(value: Fraction) -> int:
    return round(value)  # Python's rounding of a Fraction is to even


def stored(pattern: int, width: int, number: str, half: bool) -> int | None:
    """A component's bits in memory; None for a NaN."""
    if number in ("UINT", "SINT"):
        if half:
            pattern &= 0xFFFF
            if number == "SINT" and pattern >> 15:
                pattern -= 1 << 16
        return pattern & (1 << width) - 1
    if width == 32 and not half:
        return pattern
    value = real(pattern, half)
    if number == "FLOAT" or width == 32:
        if math.isnan(value):
            return None
        if width == 32:
            return int(struct.unpack("<I", struct.pack("<f", value))[0])
        negative = math.copysign(1, value) < 0
        mantissa, unsigned = {16: (10, False), 11: (6, True), 10: (5, True)}[width]
        if unsigned and negative:
            return 0
        sign = 1 << width - 1 if negative else 0
        return sign | (31 << mantissa if math.isinf(value) else nearest(abs(Fraction(value)), mantissa, 15, 16))
    if math.isnan(value):
        return 0
    top = (1 << width - (number[0] == "S")) - 1
    scale = top if number.endswith("NORM") else 1
    low = 0 if number[0] == "U" else -top if number == "SNORM" else -top - 1
    limited = max(min(Fraction(value) * scale if math.isfinite(value) else Fraction(math.copysign(1 << 40, value)), Fraction(top)),
                  Fraction(low))
    return half_even(limited) & (1 << width) - 1


def element_bytes(data: str) -> int:
    return sum(COMPONENTS[data]) // 8


def prepare(data: str, seed: int) -> Bench:
    """Aligned offsets in v2, some out of range; special values among the data."""
    bench = Bench(seed=seed)
    size = element_bytes(data)
    step = max(size, 4) if size > 4 else size
    bench.machine.vector[2] = bench.rng.integers(0, 4400 // step, (bench.machine.waves, 64)) * step
    return bench


def data_registers(name: str, half: bool) -> int:
    return -(-len(name) // 2) if half else len(name)


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize(("data", "number"), LEGAL)
def test_tbuffer_loads(data: str, number: str, half: bool) -> None:
    """All components; those that the format has not are 0; an element is in range as a whole."""
    bench, records, widths = prepare(data, LEGAL.index((data, number))), 4001, COMPONENTS[data]
    bench.model()
    nans = []
    for wave, lane in bench.lanes():
        at = bench.word(2, wave, lane) + 16
        inside = at + element_bytes(data) <= records
        element = bench.load(at, element_bytes(data))
        words = [0] * (2 if half else 4)
        for n in range(4):
            width, begin = (widths[n], sum(widths[:n])) if n < len(widths) else (0, 0)
            value = loaded(element >> begin & (1 << width) - 1, width, number, half) if inside and width else 0
            if value is None:
                nans.append((10 + (n // 2 if half else n), wave, lane, 16 * (n % 2) if half else 0))
                value = 0
            words[n // 2 if half else n] |= value << (16 * (n % 2) if half else 0)
        for n, word in enumerate(words):
            bench.put(10 + n, wave, lane, word)
    code = DATA[data] | NUMBERS[number] << 4
    name = "tbuffer_load_format_" + ("d16_xyzw" if half else "xyzw")
    result = bench.run(lambda k: k.emit(name, v[10:11 if half else 13], v[2], s[4:7], 0, offen=True, offset=16, format=code),
                       sgprs=bench.descriptor(records))
    for register, wave, lane, shift in nans:
        got = int(bench.machine.vector[register, wave, lane]) >> shift
        assert math.isnan(real(got, half))
        bench.machine.vector[register, wave, lane] &= ~np.uint32((0xFFFF if half else 0xFFFFFFFF) << shift)
    assert NUMBER_FORMATS[NUMBERS[number]] == number and DATA_FORMATS[DATA[data]] == data
    bench.compare(result)


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize(("data", "number"), LEGAL)
def test_tbuffer_stores(data: str, number: str, half: bool) -> None:
    """Values around every limit; lanes in order; nothing outside the range."""
    bench, records, widths = prepare(data, 7), 4001, COMPONENTS[data]
    special = np.array([0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, 2.5, 300.25, -300.5, 1e-6, 6e-8, 70000.0, -70000.0, np.inf, -np.inf, np.nan,
                        0.999, 127.5, 0.25, 511.5, 1e30, 3e-5, 65519.0], np.float32)
    for n in range(2 if half else 4):
        values = special[bench.rng.integers(0, len(special), (bench.machine.waves, 64, 2))]
        scaled = values * bench.rng.uniform(0.5, 2, values.shape).astype(np.float32)
        values = np.where(bench.rng.random(values.shape) < 0.5, values, scaled).astype(np.float32)
        with np.errstate(over="ignore"):
            bench.machine.vector[10 + n] = values.astype(np.float16).view(np.uint32)[..., 0] if half else values.view(np.uint32)[..., 0]
    if number in ("UINT", "SINT"):
        bench.machine.vector[10:14] = bench.rng.integers(0, 1 << 32, (4, bench.machine.waves, 64), dtype=np.uint32)
    if half and widths[0] == 32:  # without NaNs, whose payload an f32 has room to keep or not
        for n in (10, 11):
            halves = bench.machine.vector[n].view(np.float16)
            halves[np.isnan(halves)] = 3
    bench.model()
    for wave, lane in bench.lanes():
        at = bench.word(2, wave, lane) + 8
        element = 0
        for n, width in enumerate(widths):
            pattern = bench.word(10 + n // 2, wave, lane) >> 16 * (n % 2) & 0xFFFF if half else bench.word(10 + n, wave, lane)
            value = stored(pattern, width, number, half)
            if value is None:
                value = (pattern & 0xFFFF if half else real_nan(pattern)) if width == 16 else {11: 0x7E0, 10: 0x3F0}[width]
            element |= value << sum(widths[:n])
        if at + element_bytes(data) <= records:
            bench.store(at, element, element_bytes(data))
    code = DATA[data] | NUMBERS[number] << 4
    name = "tbuffer_store_format_" + ("d16_xyzw" if half else "xyzw")
    bench.compare(bench.run(lambda k: k.emit(name, v[10:11 if half else 13], v[2], s[4:7], 0, offen=True, offset=8, format=code),
                            sgprs=bench.descriptor(records)))


def real_nan(pattern: int) -> int:
    """An f16 NaN with the upper mantissa bits of an f32 one."""
    return pattern >> 16 & 0x8000 | 0x7C00 | pattern >> 13 & 0x3FF | 0x200


@pytest.mark.parametrize("components", range(1, 5))
@pytest.mark.parametrize("half", [False, True])
def test_as_many_components_as_the_name_says(components: int, half: bool) -> None:
    """Registers after the last are left alone; of an odd number of d16 components the last one's upper half is 0."""
    bench = Bench()
    bench.machine.vector[2] = bench.rng.integers(0, 100, (bench.machine.waves, 64)) * 8
    bench.model()
    for wave, lane in bench.lanes():
        element = bench.load(bench.word(2, wave, lane), 8)
        values = [element >> 16 * n & 0xFFFF for n in range(components)]
        if half:
            values = [values[n] | (values[n + 1] << 16 if n + 1 < components else 0) for n in range(0, components, 2)]
        for n, value in enumerate(values):
            bench.put(10 + n, wave, lane, value)
    name = f"buffer_load_format_{'d16_' if half else ''}{LETTERS[components - 1]}"
    flags = IDENTITY | NUMBERS["UINT"] << 12 | DATA["16_16_16_16"] << 15
    count = data_registers(LETTERS[components - 1], half)
    bench.compare(bench.run(lambda k: k.emit(name, v[10:9 + count], v[2], s[4:7], 0, offen=True), sgprs=bench.descriptor(8000, 0, flags)))


@pytest.mark.parametrize("number", ["UINT", "UNORM"])
@pytest.mark.parametrize("half", [False, True])
def test_destination_selects_of_the_descriptor(number: str, half: bool) -> None:
    """x = A, y = 1, z = R, w = 0. Lanes out of range get the constants, too; other components are 0 there."""
    bench, records = Bench(), 90
    bench.machine.vector[2] = bench.rng.integers(0, 120, (bench.machine.waves, 64))
    bench.model()
    one = 1 if number == "UINT" else 0x3C00 if half else 0x3F800000
    for wave, lane in bench.lanes():
        index = bench.word(2, wave, lane)
        element = bench.load(4 * index, 4) if index < records else 0
        x, z = (loaded(element >> shift & 255, 8, number, half) or 0 for shift in (24, 0))
        for n, value in enumerate([x | one << 16, z] if half else [x, one, z, 0]):
            bench.put(10 + n, wave, lane, value)
    flags = 7 | 1 << 3 | 4 << 6 | 0 << 9 | NUMBERS[number] << 12 | DATA["8_8_8_8"] << 15
    name = "buffer_load_format_d16_xyzw" if half else "buffer_load_format_xyzw"
    bench.compare(bench.run(lambda k: k.emit(name, v[10:11 if half else 13], v[2], s[4:7], 0, idxen=True),
                            sgprs=bench.descriptor(records, 4, flags)))


def test_a_store_by_destination_selects() -> None:
    """x goes where A is, y where R is; G and B, which no select names, take x (inferred)."""
    bench = Bench()
    bench.machine.vector[2] = np.arange(bench.machine.waves * 64).reshape(-1, 64)
    bench.model()
    for wave, lane in bench.lanes():
        x, y = (bench.word(10 + n, wave, lane) & 255 for n in (0, 1))
        bench.store(4 * bench.word(2, wave, lane), y | x << 8 | x << 16 | x << 24, 4)
    flags = 7 | 4 << 3 | NUMBERS["UINT"] << 12 | DATA["8_8_8_8"] << 15
    bench.compare(bench.run(lambda k: k.buffer_store_format_xy(v[10:11], v[2], s[4:7], 0, idxen=True),
                            sgprs=bench.descriptor(1000, 4, flags)))


def test_upper_halves() -> None:
    """d16_hi loads keep the lower half, d16_hi stores take the upper one."""
    bench = Bench()
    bench.machine.vector[2] = np.arange(bench.machine.waves * 64).reshape(-1, 64) * 2
    bench.model()
    for wave, lane in bench.lanes():
        at = bench.word(2, wave, lane)
        bench.put(10, wave, lane, bench.word(10, wave, lane) & 0xFFFF | bench.load(at, 2) << 16)
        bench.store(at + 2048, bench.word(12, wave, lane) >> 16, 2)
    flags = IDENTITY | NUMBERS["UINT"] << 12 | DATA["16"] << 15

    def emit(k: Any) -> None:
        k.buffer_load_format_d16_hi_x(v[10], v[2], s[4:7], 0, offen=True)
        k.buffer_store_format_d16_hi_x(v[12], v[2], s[4:7], 0, offen=True, offset=2048)

    bench.compare(bench.run(emit, sgprs=bench.descriptor(8000, 0, flags)))


def test_waves_with_different_formats() -> None:
    """The descriptor stands in scalar registers, so waves at the same instruction may have different ones."""
    bench = Bench()
    bench.machine.vector[2] = np.arange(bench.machine.waves * 64).reshape(-1, 64) * 4
    bench.model()
    formats = [("8", "UINT"), ("16", "SINT"), ("8", "UINT")]
    for wave, lane in bench.lanes():
        data, number = formats[wave]
        width = COMPONENTS[data][0]
        bench.put(10, wave, lane, loaded(bench.load(bench.word(2, wave, lane), width // 8), width, number, False) or 0)
    flags = np.array([IDENTITY | NUMBERS[number] << 12 | DATA[data] << 15 for data, number in formats])
    bench.compare(bench.run(lambda k: k.buffer_load_format_x(v[10], v[2], s[4:7], 0, offen=True),
                            sgprs={**bench.descriptor(8000), 7: flags}))


def test_an_unbound_buffer() -> None:
    """Data format 0: constants too are 0, stores are dropped."""
    bench = Bench()
    bench.machine.vector[2] = 0
    bench.model()
    for wave, lane in bench.lanes():
        for n in range(4):
            bench.put(10 + n, wave, lane, 0)

    def emit(k: Any) -> None:
        k.buffer_load_format_xyzw(v[10:13], v[2], s[4:7], 0, offen=True)
        k.buffer_store_format_x(v[20], v[2], s[4:7], 0, offen=True)

    bench.compare(bench.run(emit, sgprs=bench.descriptor(8000, 0, 0o1111)))


def test_a_format_load_into_lds() -> None:
    """buffer_load_format_x lds: the converted component, 4 bytes a lane from M0 on; out of range it is 0."""
    bench = Bench()
    bench.machine.vector[2] = bench.rng.integers(0, 1100, (bench.machine.waves, 64))
    bench.model()
    flags = IDENTITY | NUMBERS["SNORM"] << 12 | DATA["8"] << 15
    expected = bench.machine.lds.copy()
    for wave, lane in bench.lanes():  # waves in order, all to the same place
        at = bench.word(2, wave, lane)
        value = loaded(bench.load(at, 1), 8, "SNORM", False) if at < 1000 else 0
        expected[64 + 4 * lane:68 + 4 * lane] = np.frombuffer(struct.pack("<I", value), np.uint8)

    def emit(k: Any) -> None:
        k.s_mov_b32(m0, 64)
        k.buffer_load_format_x(v[2], s[4:7], 0, offen=True, lds=True)
        k.s_waitcnt(0)

    bench.compare(bench.run(emit, sgprs=bench.descriptor(1000, 0, flags)))
    assert (bench.machine.lds == expected).all()


def test_the_tables_agree_with_the_document() -> None:
    assert {name: FIELDS[code] for name, code in DATA.items()} == COMPONENTS
    assert FIELDS[0] == FIELDS[15] == ()


@pytest.mark.parametrize("code", [4 | 6 << 4, 15 | 4 << 4, 1 | 7 << 4, 10 | 7 << 4, 8 | 7 << 4])
def test_formats_without_a_meaning_are_refused(code: int) -> None:
    """Reserved numbers, and floats of 8 or 2 bits: by the instruction and by the descriptor."""
    with pytest.raises(EmulatorError, match="reserved|floats have"):
        run("gfx942", lambda k: k.emit("tbuffer_load_format_x", v[1], OFF, s[4:7], 0, format=code))
    flags = IDENTITY | code >> 4 << 12 | (code & 15) << 15
    with pytest.raises(EmulatorError, match="reserved|floats have"):
        run("gfx942", lambda k: k.buffer_load_format_x(v[1], OFF, s[4:7], 0), sgprs={4: 0, 5: 0, 6: 0, 7: flags})
