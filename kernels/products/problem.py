"""What D of any matrix product must be, with a tolerance derived from its formats."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from asmgen.author.contract import Values
from asmgen.author.problem import Output, Problem

Matrix = np.ndarray[Any, Any]

CANARY = -123.0  # what the columns of D behind n hold, and must go on holding
TYPES: dict[str, tuple[Any, int]] = {"bf16": (ml_dtypes.bfloat16, 8), "f16": (np.float16, 11), "f32": (np.float32, 24)}
"""numpy's type, and how many significant bits it has."""
_NUMBERS = ("m", "n", "k", "lda", "ldb", "ldd", "alpha", "beta", "ldc")
_LEAST_HALF_UNIT = {"f16": 2.0**-25}  # of subnormal numbers, where data comes near to them


def with_result(p: Values, random: np.random.Generator, operands: dict[str, Matrix], expected: Matrix, size: Matrix) -> Problem:
    """The problem of D = alpha `expected` + beta C + bias, as far as p asks for them; `size` is the product of magnitudes.

    |d - ref| <= 1.01 * ulp(ref) / 2 + 2^-20 * (|alpha| sum|a||b| + |beta c| + |bias|): what rounding to nearest may do to the output's
    type (bf16 has 8 significant bits), truncation goes beyond, and float32 accumulation errors. Half a unit in the last place of bf16 is
    2^-9 |ref| just below a power of two and 2^-8 |ref| at one: a bound of 2^-9 |ref| everywhere would ask for more than bf16 has.
    """
    given, bits = TYPES[p["out"]]
    d = np.full((p["m"], p["ldd"]), CANARY, given)
    c = random.standard_normal((p["m"], p["ldc"]) if p["beta"] else (1, 8)).astype(given)
    bias = random.standard_normal(p["n"] if p["bias"] == "row" else 8).astype(given)
    expected, size = p["alpha"] * expected, abs(p["alpha"]) * size
    for more in ([p["beta"] * c[:, :p["n"]].astype(np.float64)] if p["beta"] else []) + \
            ([bias.astype(np.float64)] if p["bias"] == "row" else []):
        expected, size = expected + more, size + np.abs(more)
    half_unit = np.maximum(np.ldexp(1.0, np.frexp(expected)[1] - bits - 1), _LEAST_HALF_UNIT.get(p["out"], 0.0))
    return Problem(operands | {"d": d, "c": c, "bias": bias} | {name: p[name] for name in _NUMBERS},
                   (Output("d", expected, 1.01 * half_unit + 2.0**-20 * size, (slice(None), slice(0, p["n"]))),))
