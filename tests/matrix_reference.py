"""A second opinion on matrix instructions, in plain Python: lanes and bits as docs/facts/instructions.md section 2 has them, typed here.

Nothing of the emulator or of asmgen.isa.mfmaoperands is used: a shape is read from its name, values are decoded bit by bit, sums go
one by one.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

LANES = 64
Words = Sequence[Sequence[int]]  # [register][lane]
NAME = re.compile(r"v_(mfma|mfma_scale|smfmac)_([fi]\d+)_(\d+)x(\d+)x(\d+)(?:_(\d+)b)?_(.*)$")
FORMATS = ("fp8", "bf8", "fp6", "bf6", "fp4")
# name: exponent bits, mantissa bits, bias; then what NaN and infinity are
SMALL = {"fp8": (4, 3, 7), "bf8": (5, 2, 15), "fp6": (2, 3, 1), "bf6": (3, 2, 3), "fp4": (2, 1, 1), "f16": (5, 10, 15), "bf16": (8, 7, 127),
         "f32": (8, 23, 127), "xf32": (8, 23, 127), "fp8fnuz": (4, 3, 8), "bf8fnuz": (5, 2, 16)}


@dataclass(frozen=True)
class Shape:
    """What an instruction's name says."""

    op: str
    result: str
    m: int
    n: int
    k: int
    blocks: int
    a: str
    b: str

    @property
    def sparse(self) -> bool:
        return self.op == "smfmac"


def shape_of(name: str, cbsz: int = 0, blgp: int = 0) -> Shape:
    """The shape; cbsz and blgp choose the formats of f8f6f4."""
    found = NAME.match(name)
    assert found is not None, name
    op, result, m, n, k, blocks, types = found.groups()
    parts = types.split("_")
    a, b = parts[0], parts[-1]
    if a == "f8f6f4":
        a, b = FORMATS[cbsz], FORMATS[blgp]
    return Shape(op, result, int(m), int(n), int(k), int(blocks or 1), a, b)


def bits_of(kind: str) -> int:
    return {"fp8": 8, "bf8": 8, "fp6": 6, "bf6": 6, "fp4": 4, "i8": 8, "f16": 16, "bf16": 16, "f32": 32, "xf32": 32, "f64": 64}[kind]


@lru_cache(maxsize=1 << 16)
def value_of(code: int, kind: str, arch: str = "gfx950", flush: bool = False) -> float:
    """The number that a code means."""
    if kind == "i8":
        return code - 256 if code & 128 else code
    if kind == "f64":
        return struct.unpack("<d", struct.pack("<Q", code))[0]
    fnuz = kind in ("fp8", "bf8") and arch == "gfx942"
    exponent_bits, mantissa_bits, bias = SMALL[kind + "fnuz" if fnuz else kind]
    if kind == "xf32":
        return xf32(code, flush)
    sign = -1.0 if code >> (exponent_bits + mantissa_bits) else 1.0
    exponent = code >> mantissa_bits & ((1 << exponent_bits) - 1)
    mantissa = code & ((1 << mantissa_bits) - 1)
    top = exponent == (1 << exponent_bits) - 1
    if fnuz:
        if code == 0x80:
            return math.nan
    elif kind == "fp8":
        if top and mantissa == 7:
            return math.nan
    elif kind in ("bf8", "f16", "bf16", "f32") and top:
        return math.nan if mantissa else sign * math.inf
    if exponent == 0:
        return sign * 0.0 if flush else sign * mantissa * 2.0 ** (1 - bias - mantissa_bits)
    return sign * (1 + mantissa / (1 << mantissa_bits)) * 2.0 ** (exponent - bias)


def xf32(code: int, flush: bool) -> float:
    """An f32 with 10 mantissa bits, to nearest even (inferred)."""
    value = value_of(code, "f32", flush=flush)
    if not math.isfinite(value) or value == 0:
        return value
    exponent = max(math.frexp(value)[1] - 1, -126)
    unit = Fraction(2) ** (exponent - 10)
    return float(round(Fraction(value) / unit) * unit)  # round() of a Fraction is to nearest even


def item_place(shape: Shape, operand: str, x: int, k: int, block: int) -> tuple[int, int]:
    """(lane, item) of row (of A) or column (of B) x at k."""
    edge = shape.m if operand == "a" else shape.n
    bits = bits_of(shape.a if operand == "a" else shape.b)
    if shape.sparse:
        groups = LANES // edge
        if operand == "a":  # packed, consecutive for a lane in all shapes
            items = shape.k // 2 // groups
            return x + edge * (k // items), k % items
        items = 8 if bits == 16 else 16  # of four registers; the shapes with eight repeat that at K / 2
        doubled = groups * items < shape.k
        upper, rest = divmod(k, shape.k // 2) if doubled else (0, k)
        return x + edge * (rest // items), upper * items + rest % items
    if shape.k in (64, 128) and shape.blocks == 1 and bits_of(shape.a) <= 8 and shape.result == "f32" and shape.k * edge == 2048:
        if bits < 8:  # f8f6f4, 4 and 6 bits: 32 consecutive k
            return x + edge * (k // 32), k % 32
        upper, rest = divmod(k, shape.k // 2)
        return x + edge * (rest // 16), 16 * upper + rest % 16
    groups = LANES // (edge * shape.blocks)
    length = shape.k // groups
    return x + edge * (block + shape.blocks * (k // length)), k % length


def strings_of(words: Words) -> list[int]:
    """Each lane's registers as one string of bits."""
    return [sum(register[lane] << 32 * number for number, register in enumerate(words)) for lane in range(LANES)]


def result_place(shape: Shape, block: int, i: int, j: int) -> tuple[int, int]:
    """(lane, register) of D and C; of f64 the first register of the pair."""
    if shape.result == "f64":
        return (16 * i + 4 * block + j, 0) if shape.blocks == 4 else (16 * (i % 4) + j, 2 * (i // 4))
    if shape.m == 32:
        return j + 32 * (i // 4 % 2), 16 * block + 4 * (i // 8) + i % 4
    if shape.m == 16:
        return j + 16 * (i // 4), 4 * block + i % 4
    return 4 * block + j, i


def broadcast(lane: int, cbsz: int, abid: int) -> int:
    size = 64 >> cbsz
    return lane % size + size * abid


def permuted(lane: int, blgp: int) -> int:
    return [lane, lane % 32, lane % 32 + 32, (lane + 16) % 64, lane % 16, lane % 16 + 16, lane % 16 + 32, lane % 16 + 48][blgp]


@dataclass(frozen=True)
class Setting:
    """Everything besides the registers."""

    arch: str = "gfx950"
    cbsz: int = 0
    abid: int = 0
    blgp: int = 0
    flush_in: bool = False
    flush_out: bool = False
    scale_bytes: tuple[int, int] = (0, 0)
    negate: tuple[int, int, int] = (0, 0, 0)


def scale_of(byte: int) -> float:
    return math.nan if byte == 255 else 2.0 ** (byte - 127)


def reference(name: str, a: Words, b: Words, c: Callable[[int, int], int], setting: Setting,
              scales: tuple[Sequence[int], Sequence[int]] | None = None, index: Sequence[int] | None = None) -> dict[tuple[int, int], int]:
    """D as {(lane, register): pattern}. `c(lane, register)` gives C's pattern (64 bits for f64)."""
    shape = shape_of(name, setting.cbsz, setting.blgp)
    moves = "f8f6f4" not in name and not shape.sparse and shape.result != "f64"
    depth = shape.k // 2 if shape.sparse else shape.k
    flush = setting.flush_in and shape.a in ("f32", "xf32")
    strings = {"a": strings_of(a), "b": strings_of(b)}

    def element(operand: str, x: int, k: int, block: int) -> float:
        lane, item = item_place(shape, operand, x, k, block)
        kind = shape.a if operand == "a" else shape.b
        bits = bits_of(kind)
        if moves:
            lane = broadcast(lane, setting.cbsz, setting.abid) if operand == "a" else permuted(lane, setting.blgp)
        value = value_of(strings[operand][lane] >> item * bits & (1 << bits) - 1, kind, setting.arch, flush)
        if scales is not None:
            which = operand == "b"
            edge = shape.n if which else shape.m
            value *= scale_of(scales[which][x + edge * (k // 32)] >> 8 * setting.scale_bytes[which] & 255)
        return value

    rows = [[[element("a", i, k, block) for k in range(depth)] for i in range(shape.m)] for block in range(shape.blocks)]
    columns = [[[element("b", j, k, block) for k in range(shape.k)] for j in range(shape.n)] for block in range(shape.blocks)]
    found = {}
    for block in range(shape.blocks):
        for i in range(shape.m):
            chosen = list(range(depth)) if index is None else [4 * (p // 2) + pair(shape, index, i, p, setting) for p in range(depth)]
            for j in range(shape.n):
                lane, register = result_place(shape, block, i, j)
                column = columns[block][j]
                terms = [(rows[block][i][p], column[k]) for p, k in enumerate(chosen)]
                found[lane, register] = total(shape, terms, c(lane, register), setting)
    return found


def pair(shape: Shape, index: Sequence[int], i: int, p: int, setting: Setting) -> int:
    """The 2-bit index of a packed value."""
    lane, item = item_place(shape, "a", i, p, 0)
    items = 32 * {16: 2, 8: 2}[bits_of(shape.a)] // bits_of(shape.a)
    if shape.k in (64, 128) and shape.m == 16 and bits_of(shape.a) * shape.k == 1024 or shape.m == 32 and bits_of(shape.a) * shape.k == 512:
        items *= 2  # the shapes of gfx950 with twice the K
    chosen = setting.abid % (16 // items) if setting.cbsz == 0 else 0
    return index[lane] >> (2 * items * chosen + 2 * item) & 3


def total(shape: Shape, terms: list[tuple[float, float]], addend: int, setting: Setting) -> int:
    """C plus the products, one after the other."""
    if shape.result == "i32":
        return (addend + sum(int(x) * int(y) for x, y in terms)) & 0xFFFFFFFF
    if shape.result == "f64":
        return total_f64(terms, addend, setting)
    flushes = shape.a in ("f32", "xf32")
    value = value_of(addend, "f32", flush=flushes and setting.flush_in)
    for x, y in terms:
        value = value + x * y
    return f32_pattern(value, flushes and setting.flush_out)


def f32_pattern(value: float, flush: bool) -> int:
    """A float64 rounded to f32, as a pattern; every NaN is 0x7fc00000."""
    if math.isnan(value):
        return 0x7FC00000
    sign = 0x80000000 if math.copysign(1, value) < 0 else 0
    if math.isinf(value):
        return sign | 0x7F800000
    if value == 0:
        return sign
    fraction, exponent = math.frexp(abs(value))
    exact, exponent = int(fraction * 2.0 ** 53), exponent - 1
    dropped = 29 + max(-126 - exponent, 0)  # of 53 bits, 24 stay, or fewer of a denormal
    exponent = max(exponent, -126)
    units = exact + (1 << dropped - 1) - 1 + (exact >> dropped & 1) >> dropped  # to nearest even
    pattern = units + (exponent + 126 << 23)  # the hidden bit counts the exponent up, also where rounding carried
    if units < 1 << 23 and exponent == -126:
        pattern = 0 if flush else units
    return sign | min(pattern, 0x7F800000)


def total_f64(terms: list[tuple[float, float]], addend: int, setting: Setting) -> int:
    """Fused multiply-adds with fractions."""
    signs = [-1.0 if flag else 1.0 for flag in setting.negate]
    value = value_of(addend, "f64") * signs[2]
    for x, y in terms:
        x, y = x * signs[0], y * signs[1]
        if all(map(math.isfinite, (x, y, value))):
            exact = Fraction(x) * Fraction(y) + Fraction(value)
            try:
                # A sum of nothing keeps the sign that ordinary arithmetic gives it.
                value = float(exact) if exact else x * y + value if x * y == 0 or value == 0 else 0.0
            except OverflowError:
                value = math.copysign(math.inf, exact)
        else:
            value = x * y + value
    return 0x7FF8 << 48 if math.isnan(value) else struct.unpack("<Q", struct.pack("<d", value))[0]
