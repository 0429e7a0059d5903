"""Float64 references of row kernels: types, rounding of results, Philox, rows with odd numbers."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

import asmgen as ag

Array = NDArray[Any]
CANARY = -123.0
"""What outputs hold before; elements after the columns must keep it."""
TYPES: dict[str, tuple[Any, int, float]] = {"bf16": (ml_dtypes.bfloat16, 8, 2.0**-134), "f16": (np.float16, 11, 2.0**-25),
                                            "f32": (np.float32, 24, 2.0**-150)}
"""The numpy type, its significant bits, and half of its smallest subnormal number."""
_LARGEST_EXPONENT = {"bf16": 127, "f16": 15, "f32": 127}
UNIT = 2.0**-24
"""The relative error of an operation of float32, rounded to nearest."""
FLUSHED = 2.0**-126
"""Results of float32 below it may be 0."""
_FAR, _BLOCK = (200.0, 600.0), 32
"""Where strained rows go: exp(200) is no float32, and twice 600 is far within float16; columns of a block."""
_MULTIPLIERS, _BUMPS = (0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85)
"""Of counter and key (docs/facts/draws.md section 1)."""
_WORD = np.uint64(0xFFFFFFFF)


def rows_of(random: np.random.Generator, rows: int, columns: int, stride: int, dtype: str, seed: int) -> Array:
    """Normal random rows with offsets and sizes of their own, zeros and equal numbers among them. In even seeds NaN and infinities too,
    and NaN where no kernel may read."""
    x = random.standard_normal((rows, stride)) * 2.0 ** random.integers(-6, 7, (rows, 1)) + random.standard_normal((rows, 1))
    x[random.integers(rows), :columns] = 0.0
    x[random.integers(rows), :columns] = 1.5
    x[random.integers(rows), random.integers(columns)] = -0.0
    if ag.holds_nonfinite(seed):
        for value in (np.nan, np.inf, -np.inf):
            x[random.integers(rows), random.integers(columns)] = value
        x[:, columns:] = np.nan
    if ag.strained(seed):
        _strain(random, x[:, :columns])
    made: Array = x.astype(TYPES[dtype][0])
    return made


def _strain(random: np.random.Generator, x: Array) -> None:
    """Of four rows one has an element far above its others in each block, and one of these far above those of the other blocks, one such
    elements below, one is far above 0 and one below."""
    rows, columns = x.shape
    heights = random.uniform(*_FAR, (rows, -(-columns // _BLOCK)))
    heights[np.arange(rows), random.integers(heights.shape[1], size=rows)] += _FAR[1]
    places = np.minimum(_BLOCK * np.arange(heights.shape[1]) + random.integers(0, _BLOCK, heights.shape), columns - 1)
    kind = (np.arange(rows) + random.integers(4))[:, None] % 4
    np.put_along_axis(x, places, np.select([kind == 0, kind == 1], [heights, -heights]), 1)
    x += np.select([kind == 2, kind == 3], [_FAR[0], -_FAR[0]])


def canaries(rows: int, stride: int, dtype: str) -> Array:
    """An output before the launch."""
    return np.full((rows, stride), CANARY, TYPES[dtype][0])


def rounded(expected: Array, error: Array, dtype: str) -> Array:
    """The tolerance of a result whose error in float32 is at most `error` before it is rounded to nearest in its type. The hundredth is for
    results that the error moves to the next power of two."""
    _, bits, least = TYPES[dtype]
    with np.errstate(invalid="ignore"):
        half = np.maximum(np.ldexp(1.0, np.frexp(expected)[1] - bits - 1), least)
    tolerance: Array = 1.01 * (half + error) + FLUSHED
    return tolerance


def result(name: str, expected: Array, error: Array, dtype: str, columns: int | None = None) -> ag.Output:
    """The output `name` of rows, or a vector where no `columns` are given: `expected`, of which float32 is off by `error` at most, rounded
    to nearest in its type. From half a unit beyond the type's largest number on that is an infinity; so near that number that the error
    decides, both are right."""
    beyond = (2 - 2.0 ** -TYPES[dtype][1]) * 2.0 ** _LARGEST_EXPONENT[dtype]
    with np.errstate(invalid="ignore"):
        size, finite = np.abs(expected), np.isfinite(expected)
        overflows = finite & (size - error >= beyond)
        tolerance = np.where(finite & ~overflows & (size + error >= beyond), np.inf, rounded(expected, error, dtype))
    made = np.where(overflows, np.copysign(np.inf, expected), expected)
    return ag.Output(name, made, tolerance, (...,) if columns is None else (slice(None), slice(columns)))


def flushed(x: Array) -> Array:
    """Numbers as float32 instructions take and give them: 0 for what is below the smallest normal one, which makes NaN of infinities."""
    found: Array = np.where(np.abs(x) < FLUSHED, np.copysign(0.0, x), x)
    return found


def philox(counter: tuple[Array, Array, Array, Array], key: tuple[int, int], rounds: int) -> list[Array]:
    """Four words for each counter, in uint64."""
    c = [np.asarray(word).astype(np.uint64) for word in counter]
    k = [np.uint64(word) for word in key]
    for _ in range(rounds):
        low, high = ([(np.uint64(m) * word) & _WORD, (np.uint64(m) * word) >> np.uint64(32)] for m, word in
                     zip(_MULTIPLIERS, (c[0], c[2]), strict=True))
        c = [high[1] ^ c[1] ^ k[0], high[0], low[1] ^ c[3] ^ k[1], low[0]]
        k = [(word + np.uint64(bump)) & _WORD for word, bump in zip(k, _BUMPS, strict=True)]
    return c


def kept(rows: int, columns: int, p: float, seed: int, offset: int, rounds: int) -> NDArray[np.bool_]:
    """Which elements dropout keeps (dropout.py)."""
    row, column = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
    words = philox((column // 8, row, np.full(row.shape, offset & 0xFFFFFFFF), np.full(row.shape, offset >> 32)),
                   (seed & 0xFFFFFFFF, seed >> 32), rounds)
    word = np.choose(column % 8 // 2, words)
    bits = (word >> (16 * (column % 2)).astype(np.uint64)) & np.uint64(0xFFFF)
    found: NDArray[np.bool_] = bits >= np.uint64(np.rint(65536 * np.float32(p)))
    return found
