"""Data for gemm-mx with its float64 reference, which takes the elements and scales as they lie in memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import asmgen as ag
from asmgen.kernels.gemm_mx.blockrules import elements, exponents
from asmgen.kernels.gemm_mx.formats import (
    BLOCK,
    ELEMENTS,
    GROUP_COLUMNS,
    GROUP_ROWS,
    RAW,
    arranged,
    is_quantised,
    least_stride,
    padded_rows,
)
from asmgen.kernels.products.odd import GROUP, Exact
from asmgen.kernels.products.problem import TYPES, with_result
from asmgen.kernels.products.split import steps_of_parts
from asmgen.kernels.products.sums import Matrix, Sums, sums_of_parts

_FORMATS = {"fp4": (2, 1, 1), "fp6": (2, 3, 1), "bf6": (3, 2, 3), "fp8": (4, 3, 7), "bf8": (5, 2, 15)}
"""Bits of exponent and mantissa, and the bias. Source: OCP Microscaling Formats (MX) 1.0, OCP 8-bit Floating Point Specification 1.0."""
BIAS, NAN, DEPTH = 127, 255, 128
_SPREAD = {"f16": 1}  # binary orders of scales to both sides of 1: D stays below 65504
_WIDE_SPREAD = 6
_LARGEST = {"f16": 4.0}  # magnitudes of elements, likewise
_WIDE = 32.0


def values_of(dtype: str) -> Matrix:
    """The numbers of a type by code. fp4, fp6 and bf6 have neither NaN nor infinity, fp8 (e4m3) has a NaN of each sign, bf8 (e5m2) both."""
    exponent_bits, mantissa_bits, bias = _FORMATS[dtype]
    codes = np.arange(1 << 1 + exponent_bits + mantissa_bits)
    exponent, mantissa = codes >> mantissa_bits & (1 << exponent_bits) - 1, codes & (1 << mantissa_bits) - 1
    one = 1 << mantissa_bits
    found: Matrix = np.where(exponent > 0, (one + mantissa) * np.exp2(exponent - bias), mantissa * np.exp2(1.0 - bias)) / one
    if dtype == "fp8":
        found[codes % 128 == 127] = np.nan
    if dtype == "bf8":
        found[exponent == 31] = np.where(mantissa[exponent == 31] > 0, np.nan, np.inf)
    return np.where(codes >> exponent_bits + mantissa_bits, -found, found)


def make_problem(p: ag.Values, seed: int, nonfinite: bool) -> ag.Problem:
    """Random codes and scales. In each 16 rows one has a single element other than zero, and its products are exact; with `nonfinite`
    another one has NaN: a block's scale, or without scales an element of a type that has it. Pads of elements and scales are random, and
    with `nonfinite` NaN where their type has it."""
    random = np.random.default_rng(seed)
    raw = is_quantised(p)
    operands = {name: _operand(random, p, name, nonfinite) for name in "ab"}
    given: dict[str, Any] = {name: one.array for name, one in operands.items()}
    scales: dict[str, InMemory] = {}
    if p["scales"] != "none":
        for name in "b" if raw else "ab":
            scales[name] = _scales_in_memory(random, p, name, nonfinite)
            given |= {f"{name}_scale": scales[name].array, f"lds{name}": p[f"lds{name}"],
                      f"{name}_scale_stride_batch": p[f"{name}_scale_stride_batch"]}

    def factor(name: str, number: int) -> Matrix:
        elements = operands[name].matrix(number)
        if name == "a" and raw:
            return quantised(elements, p["k"], p["quantise_to"], p["rounding"])
        of_blocks = scales[name].matrix(number) if scales else None
        return decoded(unpacked(elements, p[f"{name}_dtype"]), of_blocks, p["k"], p[f"{name}_dtype"])

    def product(number: int) -> Sums:
        return sums_of_parts(factor("a", number), factor("b", number), DEPTH, _columns(p))

    apart = all(one.apart for one in operands.values())
    exact = [Exact(*ones) for ones in zip(*(operands[name].single for name in "ab"), strict=True)] if apart else []
    return with_result(p, random, given, product, nonfinite, exact)


@dataclass(frozen=True)
class InMemory:
    """The matrices of a batch as a launch gets them, of one `shape`, `stride` elements of the array apart (0: one for all). `single` are
    the rows of each with one element other than zero. `back` is how rows are read from memory."""

    array: Matrix
    batch: int
    shape: tuple[int, ...]
    stride: int
    single: tuple[tuple[int, ...], ...] = ()
    back: Callable[[Matrix], Matrix] = np.asarray

    @property
    def apart(self) -> bool:
        """Whether no two matrices share some bytes but not all."""
        return self.batch == 1 or not 0 < self.stride < math.prod(self.shape)

    def matrix(self, number: int) -> Matrix:
        """The rows of one matrix."""
        flat = self.array.reshape(-1)[number * self.stride:][:math.prod(self.shape)]
        return self.back(flat.reshape(self.shape))


def _in_memory(random: np.random.Generator, p: ag.Values, stride: int, one: Callable[[], tuple[Matrix, tuple[int, ...]]],
               back: Callable[[Matrix], Matrix]) -> InMemory:
    """What `one` makes for each matrix, `stride` elements of the array apart, with any bytes between."""
    made = [one() for _ in range(p["batch"] if stride else 1)]
    first, batch = made[0][0], p["batch"]
    array = first
    if len(made) > 1:
        size = (batch - 1) * stride + first.size
        array = random.integers(0, 256, size * first.itemsize, dtype=np.uint8).view(first.dtype)
        for number, (matrix, _) in enumerate(made):
            array[number * stride:][:matrix.size] = matrix.reshape(-1)
    single = tuple(rows for _, rows in made) * (batch // len(made))
    return InMemory(array, batch, first.shape, stride, single, back)


def _operand(random: np.random.Generator, p: ag.Values, name: str, nonfinite: bool) -> InMemory:
    """A or B."""
    dtype, rows, stride = p[f"{name}_dtype"], p["m" if name == "a" else "n"], p[f"{name}_stride_batch"]
    if dtype in RAW:
        return _in_memory(random, p, stride, lambda: _raw(random, p, nonfinite), np.asarray)
    by_planes = p["fp6_storage"] == "planes" and ELEMENTS[dtype] == 6
    by_fragments = name == "b" and p["b_order"] == "shuffled"

    def one() -> tuple[Matrix, tuple[int, ...]]:
        codes, single = _elements(random, p, name, rows, nonfinite)
        held = packed(codes, dtype)
        return planes(held) if by_planes else shuffled_weights(held) if by_fragments else held, single

    def back(held: Matrix) -> Matrix:
        return (from_planes(held) if by_planes else shuffled_weights(held, back=True) if by_fragments else held)[:rows]

    return _in_memory(random, p, stride * ELEMENTS[dtype] // 8, one, back)


def _scales_in_memory(random: np.random.Generator, p: ag.Values, name: str, nonfinite: bool) -> InMemory:
    """The scales of A or B."""
    rows, by_groups = p["m" if name == "a" else "n"], p["scale_order"] == "shuffled"

    def one() -> tuple[Matrix, tuple[int, ...]]:
        scales = _scales(random, p, rows, p[f"lds{name}"], nonfinite)
        return shuffled(scales) if by_groups else scales, ()

    return _in_memory(random, p, p[f"{name}_scale_stride_batch"], one, (lambda held: by_rows(held)[:rows]) if by_groups else np.asarray)


def _columns(p: ag.Values) -> list[int]:
    """The columns of each part of K. The first part begins with the last columns, but so few more or less do not change a bound."""
    depth = int(str(p["tile"]).rpartition("x")[2])
    ends = [min(p["k"], depth * count) for count in np.cumsum(steps_of_parts(p, depth))]
    return [end - begin for begin, end in zip([0, *ends[:-1]], ends, strict=True)]


def _raw(random: np.random.Generator, p: ag.Values, nonfinite: bool) -> tuple[Matrix, tuple[int, ...]]:
    """A of bf16 or f16 [m, lda], and the rows with one element other than zero, a power of two. Blocks differ in size; others are zeros,
    have ties of all types, or subnormal numbers; with `nonfinite` one in 16 rows has a NaN or an infinity, and pads have NaN."""
    kind, k, rows = TYPES[p["a_dtype"]][0], p["k"], p["m"]
    sizes = np.exp2(random.integers(-_SPREAD.get(p["out"], _WIDE_SPREAD), _SPREAD.get(p["out"], _WIDE_SPREAD) + 1, (rows, k // BLOCK)))
    values = random.standard_normal((rows, p["lda"]))
    values[:, :k] *= np.repeat(sizes, BLOCK, 1)
    kinds = np.repeat(random.integers(0, 16, (rows, k // BLOCK)), BLOCK, 1)
    found = values[:, :k]
    found[kinds == 0] = 0.0
    found[kinds == 1] = np.round(4 * found[kinds == 1]) / 4
    found[kinds == 2] *= 2.0**-130
    found[kinds == 3] = np.copysign(0.0, found[kinds == 3])
    single = []
    for number, first in enumerate(range(0, rows - rows % GROUP, GROUP)):
        odd, one = (first + int(row) for row in random.permutation(GROUP)[:2])
        values[one, :k] = 0
        values[one, random.integers(k)] = 0.5
        single.append(one)
        if nonfinite:
            values[odd, random.integers(k)] = (np.nan, np.inf)[number % 2]
    if nonfinite:
        values[:, k:] = np.nan
    with np.errstate(over="ignore", under="ignore"):
        return values.astype(kind), tuple(single)


def quantised(a: Matrix, k: int, dtype: str, rule: str) -> Matrix:
    """The values that A has after its quantisation."""
    with np.errstate(invalid="ignore"):
        exact = a[:, :k].astype(np.float32)
    bytes_ = exponents(exact, dtype, rule)
    return decoded(elements(exact, bytes_, values_of(dtype)), bytes_, k, dtype)


def _elements(random: np.random.Generator, p: ag.Values, name: str, rows: int, nonfinite: bool) -> tuple[Matrix, tuple[int, ...]]:
    """Codes [rows, stride], and the rows with one element."""
    dtype, k = p[f"{name}_dtype"], p["k"]
    values = values_of(dtype)
    with np.errstate(invalid="ignore"):
        usual = np.flatnonzero(np.abs(values) <= _LARGEST.get(p["out"], _WIDE)).astype(np.uint8)
    nans = np.flatnonzero(np.isnan(values)).astype(np.uint8)
    codes = random.choice(usual, (rows, p[f"ld{name}"]))
    if nonfinite and nans.size:
        codes[:, k:] = nans[0]
    one_and_half = int(np.flatnonzero(values == 1.5)[0])
    single = []
    for first in range(0, rows - rows % GROUP, GROUP):
        odd, one = (first + int(row) for row in random.permutation(GROUP)[:2])
        codes[one, :k] = 0
        codes[one, random.integers(k)] = one_and_half
        single.append(one)
        if nonfinite and nans.size and p["scales"] == "none":
            codes[odd, random.integers(k)] = nans[-1]
    return codes, tuple(single)


def _scales(random: np.random.Generator, p: ag.Values, rows: int, stride: int, nonfinite: bool) -> Matrix:
    """Scales [rows, stride]. Those of pads that a kernel reads, in the last 8 of a shuffled row, are finite."""
    spread, blocks = _SPREAD.get(p["out"], _WIDE_SPREAD), p["k"] // BLOCK
    scales = random.integers(BIAS - spread, BIAS + spread + 1, (rows, stride), dtype=np.uint8)
    if nonfinite:
        scales[:, blocks if arranged(p) else least_stride(p["scale_order"], p["k"]):] = NAN
        for first in range(0, rows - rows % GROUP, GROUP):
            scales[first + random.integers(GROUP), random.integers(blocks)] = NAN
    return scales


def packed(codes: Matrix, dtype: str) -> Matrix:
    """Codes as bytes: a string of bits, a code's lowest bit first."""
    bits = ELEMENTS[dtype]
    if bits == 8:
        return codes
    string = (codes[..., None] >> np.arange(bits, dtype=np.uint8) & 1).reshape(len(codes), -1)
    return np.packbits(string, axis=1, bitorder="little")


def unpacked(held: Matrix, dtype: str) -> Matrix:
    """The codes of rows of bytes."""
    bits = ELEMENTS[dtype]
    if bits == 8:
        return held
    string = np.unpackbits(held, axis=1, bitorder="little").reshape(len(held), -1, bits)
    found: Matrix = np.packbits(string, axis=2, bitorder="little")[:, :, 0]
    return found


def decoded(codes: Matrix, scales: Matrix | None, k: int, dtype: str) -> Matrix:
    """The values of the first k columns."""
    found: Matrix = values_of(dtype)[codes[:, :k]]
    if scales is None:
        return found
    blocks = scales[:, :-(-k // BLOCK)].astype(np.float64)
    with np.errstate(invalid="ignore"):
        factors = np.where(blocks == NAN, np.nan, np.exp2(blocks - BIAS))
        scaled: Matrix = found * np.repeat(factors, BLOCK, 1)[:, :k]
        return scaled


def shuffled(scales: Matrix) -> Matrix:
    """Scales [rows, columns] in AITER's order, rows padded to 32 by NaN; columns are a multiple of 8."""
    rows, columns = scales.shape
    whole = np.full((padded_rows(rows), columns), NAN, np.uint8)
    whole[:rows] = scales
    # group, half of it, row | 256 columns of K, 128 of them, block
    parts: Any = whole.reshape(-1, 2, GROUP_ROWS // 2, columns // GROUP_COLUMNS, 2, GROUP_COLUMNS // 2)
    found: Matrix = np.ascontiguousarray(parts.transpose(0, 3, 5, 2, 4, 1)).reshape(whole.shape)
    return found


def by_rows(scales: Any) -> Any:
    """Scales in AITER's order as rows: what lies there as group, 256 columns of K, block, row, 128 of the columns, half of the group."""
    rows, columns = scales.shape
    parts = scales.reshape(rows // GROUP_ROWS, columns // GROUP_COLUMNS, GROUP_COLUMNS // 2, GROUP_ROWS // 2, 2, 2)
    return parts.transpose(0, 5, 3, 1, 4, 2).reshape(rows, columns)


def shuffled_weights(rows: Matrix, chunk: int = 16, back: bool = False) -> Matrix:
    """Rows of bytes in AITER's order: 16 bytes of each of 16 rows, then the next 16 columns; `back`: such bytes as rows."""
    parts: Any = rows.reshape((len(rows) // 16, -1, 16, chunk) if back else (len(rows) // 16, 16, -1, chunk))
    found: Matrix = np.ascontiguousarray(parts.transpose(0, 2, 1, 3)).reshape(rows.shape)
    return found


def planes(strings: Matrix) -> Matrix:
    """Rows of strings of 24 bytes as two planes, in the bytes of as many whole 16 rows: the first 16 bytes of each, then the last 8."""
    rows = -(-len(strings) // 16) * 16
    whole = np.full((rows, strings.shape[1]), NAN, np.uint8)
    whole[:len(strings)] = strings
    blocks = whole.reshape(rows, -1, 24)
    parts = (np.ascontiguousarray(blocks[..., :16]), np.ascontiguousarray(blocks[..., 16:]))
    return np.concatenate([shuffled_weights(part.reshape(rows, -1), part.shape[2]).reshape(-1) for part in parts]).reshape(whole.shape)


def from_planes(held: Matrix) -> Matrix:
    """Two planes as rows of strings, of whole 16 rows."""
    rows, flat = len(held), held.reshape(-1)
    first = flat.size * 2 // 3
    parts = [shuffled_weights(part.reshape(rows, -1), chunk, back=True).reshape(rows, -1, chunk)
             for part, chunk in ((flat[:first], 16), (flat[first:], 8))]
    return np.concatenate(parts, axis=2).reshape(held.shape)
