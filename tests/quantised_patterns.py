"""What quantize and gemm-mx make of blocks whose largest magnitude is each of the 65,536 patterns of bf16 or f16:
`python -m tests.quantised_patterns [quantize|gemm-mx] [bf16|f16] [RULE ...]`.

Of quantize all bytes and scales are compared. In gemm-mx B has a one in each row, so D is A as the matrix cores see it. References are
typed from docs/facts/blockscales.md section 1, with numbers and powers of two, not with bits.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from asmgen.kernels.registry import family
from asmgen.launch.emulated import EmulatedDevice
from asmgen.tools.running.build import Built, build_kernel
from asmgen.tools.running.runner import launch

LIBRARY, QUANTIZE = family("gemm-mx"), family("quantize")
BLOCK, COLUMNS = 32, 128
KINDS = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}
MAGNITUDES = {"fp4": np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6]),
              "fp8": np.unique(np.abs(np.arange(256).astype(np.uint8).view(ml_dtypes.float8_e4m3fn).astype(float)))[:-1]}
"""OCP Microscaling Formats (MX) 1.0: e2m1; e4m3, whose NaN is the last."""
MAGNITUDES |= {"fp6": np.concatenate([np.arange(8) / 8, np.outer([1, 2, 4], 1 + np.arange(8) / 8).ravel()]),
               "bf6": np.concatenate([np.arange(4) / 16, np.outer(2.0 ** np.arange(-2, 5), 1 + np.arange(4) / 4).ravel()]),
               "bf8": np.concatenate([np.arange(4) * 2.0**-16, np.outer(2.0 ** np.arange(-14, 16), 1 + np.arange(4) / 4).ravel()])}
"""e2m3, e3m2, and the finite numbers of e5m2, by code."""
TOP = {"fp4": (2.0, 1), "fp8": (8.0, 3), "fp6": (2.0, 3), "bf6": (4.0, 2), "bf8": (15.0, 2)}
"""The exponent of the largest value, and bits of the mantissa."""
BITS = {"fp4": 4, "fp6": 6, "bf6": 6, "fp8": 8, "bf8": 8}


def blocks(kind: str, patterns: np.ndarray[Any, Any], random: np.random.Generator) -> np.ndarray[Any, Any]:
    """A block for each pattern [count, 32]: the pattern, magnitudes that are not larger, ties of fp4 and fp8, zeros of both signs."""
    largest = patterns.astype(np.uint16).view(KINDS[kind])
    with np.errstate(all="ignore"):
        size = np.abs(np.where(np.isfinite(largest), largest, 0).astype(float))[:, None]
        found = size * random.uniform(-1, 1, (len(patterns), BLOCK))
        found[:, 8:16] = np.exp2(np.floor(np.log2(np.maximum(size, 1e-300)))) * random.integers(-15, 16, (len(patterns), 8)) / 16
        found = np.clip(found, -size, size)
    found[:, 20:22] = 0.0, -0.0
    held = found.astype(KINDS[kind])
    held[:, 3] = largest
    return held


Array = np.ndarray[Any, Any]


def bytes_of(largest: Array, dtype: str, rule: str) -> Array:
    """The scale bytes of blocks by the rules' sentences, with powers of two: largest is m 2^e with m in [1, 2)."""
    (top, mantissa), most = TOP[dtype], MAGNITUDES[dtype][-1]
    usable = np.where(np.isfinite(largest), largest, 0.0)
    ratio = (usable.astype(np.float32) * np.float32(1 / most)).astype(np.float64) if rule == "up" else usable
    fraction, power = np.frexp(ratio)
    m, e = 2 * fraction, power - 1
    if rule == "up":  # a subnormal ratio has exponent 0 and a mantissa
        found = np.maximum(e + (m > 1) + 127, 1)
    else:
        found = np.maximum(e + (rule == "even") * (m >= 2 - 2.0 ** -(mantissa + 1)) - top + 127, 0)
    found = np.where(usable == 0, 0, found)
    return np.where(np.isfinite(largest), found, 255).astype(int)


def nearest(ratios: Array, dtype: str) -> Array:
    """The nearest numbers of a type, of two the one with an even code, and the largest one beyond it."""
    grid = MAGNITUDES[dtype]
    above = np.clip(np.searchsorted(grid, np.abs(ratios)), 1, len(grid) - 1)
    up, down = np.abs(grid[above] - np.abs(ratios)), np.abs(np.abs(ratios) - grid[above - 1])
    chosen = np.where((down < up) | (down == up) & (above % 2 == 1), above - 1, above)
    return np.copysign(grid[chosen], ratios)


def expected(blocks_: Array, dtype: str, rule: str) -> Array:
    """The values of blocks [count, 32]; NaN where the scale is."""
    with np.errstate(invalid="ignore"):  # signalling NaN among the patterns
        values = blocks_.astype(np.float64)
        bytes_ = bytes_of(np.abs(values).max(1), dtype, rule)[:, None]
    scales = 2.0 ** (bytes_ - 127.0)
    return np.where(bytes_ == 255, np.nan, nearest(np.where(bytes_ == 255, 0.0, values) / scales, dtype) * scales)


@cache
def built(build: tuple[tuple[str, Any], ...]) -> Built:
    """A kernel, built once."""
    return build_kernel(LIBRARY, "gfx950", dict(build))


def made(build: dict[str, Any], a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A [rows, 128] as the kernel of a build quantises it."""
    parameters = LIBRARY.contract("gfx950", build).resolve_run({**build, "m": len(a), "n": COLUMNS, "k": COLUMNS})
    one = built(tuple(build.items()))
    problem = LIBRARY.problem(parameters, 1)
    problem.arguments["a"][:] = a
    problem.arguments["b"][:] = 0
    for row in range(COLUMNS):
        if build["b_dtype"] == "fp4":
            problem.arguments["b"][row, row // 2] = 0x2 << 4 * (row % 2)
        else:
            problem.arguments["b"][row, row] = 0x38
    problem.arguments["b_scale"].reshape(-1)[:] = 127
    with np.errstate(over="ignore"), EmulatedDevice("gfx950", None, {one.kernel.resources.name: one.kernel.program}) as device:
        found = launch(device, one, problem, parameters)["d"]
    return np.asarray(found, np.float64)


def wrong(build: dict[str, Any], patterns: np.ndarray[Any, Any], seed: int = 0) -> Iterator[str]:
    """What differs, block by block. A NaN of a block is one of its whole row of D."""
    a = blocks(build["a_dtype"], patterns, np.random.default_rng(seed))
    found = made(build, a.reshape(-1, COLUMNS))
    want = expected(a, build["quantise_to"], build["rounding"])
    with np.errstate(over="ignore"):
        want = want.astype(np.float32).astype(np.float64).reshape(found.shape)
    want[np.isnan(want).any(1)] = np.nan
    for pattern, block, values, wanted in zip(patterns, a, found.reshape(-1, BLOCK), want.reshape(-1, BLOCK), strict=True):
        if not np.array_equal(values, wanted, equal_nan=True):
            at = int(np.flatnonzero((values != wanted) & ~(np.isnan(values) & np.isnan(wanted)))[0])
            yield f"{pattern:#06x}: element {at}, {float(block[at])!r}, became {values[at]!r}, not {wanted[at]!r}"


def wrong_bytes(build: dict[str, Any], patterns: Array, seed: int = 0) -> Iterator[str]:
    """What differs in quantize's bytes and scales, block by block; of a block whose scale is NaN the elements may be any."""
    a, dtype = blocks(build["from"], patterns, np.random.default_rng(seed)), build["to"].removeprefix("mx")
    rows = len(patterns) * BLOCK // build["columns"]
    parameters = QUANTIZE.contract("gfx950", build).resolve_run({**build, "rows": rows})
    one = build_kernel(QUANTIZE, "gfx950", dict(build))
    problem = QUANTIZE.problem(parameters, 1)
    problem.arguments["x"][:] = a.reshape(rows, -1)
    with EmulatedDevice("gfx950", None, {one.kernel.resources.name: one.kernel.program}) as device:
        found = launch(device, one, problem, parameters)
    bits = np.unpackbits(found["d"].reshape(len(patterns), -1), axis=1, bitorder="little")
    codes = (bits.reshape(len(patterns), BLOCK, BITS[dtype]) << np.arange(BITS[dtype], dtype=np.uint8)).sum(2)
    half = 1 << BITS[dtype] - 1
    values = a.astype(np.float64)
    with np.errstate(invalid="ignore"):
        scales = bytes_of(np.abs(values).max(1), dtype, build["rounding"])
    usable = np.where((scales == 255)[:, None] | ~np.isfinite(values), 0.0, values)
    want = nearest(usable / 2.0 ** (scales[:, None] - 127.0), dtype)
    number = np.searchsorted(MAGNITUDES[dtype], np.abs(want)) + half * np.signbit(want)
    differs = (codes != number) & (scales != 255)[:, None]
    given = found["scale"].reshape(-1)
    for at in np.flatnonzero(differs.any(1) | (given != scales)):
        yield f"{patterns[at]:#06x}: scale {given[at]}, not {scales[at]}; elements {np.flatnonzero(differs[at]).tolist()}"


def main(arguments: list[str]) -> int:
    """All patterns by these rules; the number of builds with a difference."""
    named = [one for one in arguments if one in ("gemm-mx", "quantize")] or ["quantize", "gemm-mx"]
    failures = 0
    for rule in [one for one in arguments if one not in (*named, *KINDS)] or ["even", "floor", "up"]:
        for kind in [one for one in KINDS if one in arguments] or KINDS:
            builds: list[tuple[str, dict[str, Any]]] = [
                (to, {"from": kind, "to": f"mx{to}", "rounding": rule, "columns": 2048}) for to in MAGNITUDES if "quantize" in named]
            builds += [(to, {"tile": "32x128x256", "a_dtype": kind, "quantise_to": to, "rounding": rule, "b_dtype": to, "out": "f32"})
                       for to in ("fp4", "fp8") if "gemm-mx" in named]
            for to, build in builds:
                lines = list((wrong if "tile" in build else wrong_bytes)(build, np.arange(1 << 16)))
                failures += bool(lines)
                print(f"{'gemm-mx' if 'tile' in build else 'quantize'} {kind} to {to}, {rule}: {len(lines)} of 65536 blocks differ",
                      *lines[:4], sep="\n  ", flush=True)
    return failures


if __name__ == "__main__":
    sys.exit(1 if main(sys.argv[1:]) else 0)
