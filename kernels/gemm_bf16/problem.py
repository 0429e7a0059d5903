"""Data for gemm-bf16 with its float64 reference and a tolerance derived from the formats."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from asmgen.author.contract import Values
from asmgen.author.problem import Output, Problem

CANARY = -123.0  # what the columns of D behind n hold, and must go on holding


def make_problem(p: Values, seed: int) -> Problem:
    """A and B of random normal values, D full of canaries.

    |d - ref| <= 1.01 * ulp(ref) / 2 + 2^-20 * sum|a||b|: what rounding to nearest may do to a bf16 (8 significant bits), truncation
    goes beyond, and float32 accumulation errors. Half a unit in the last place is 2^-9 |ref| just below a power of two and
    2^-8 |ref| at one: a bound of 2^-9 |ref| everywhere would ask for more than bf16 has.
    """
    random = np.random.default_rng(seed)
    a = random.standard_normal((p["m"], p["lda"])).astype(ml_dtypes.bfloat16)
    b = random.standard_normal((p["n"], p["ldb"])).astype(ml_dtypes.bfloat16)
    d = np.full((p["m"], p["ldd"]), CANARY, ml_dtypes.bfloat16)
    left, right = a[:, :p["k"]].astype(np.float64), b[:, :p["k"]].astype(np.float64)
    expected = left @ right.T
    half_unit = np.ldexp(1.0, np.frexp(expected)[1] - 9)
    tolerance = 1.01 * half_unit + 2.0**-20 * (np.abs(left) @ np.abs(right).T)
    arguments = {"a": a, "b": b, "d": d} | {name: p[name] for name in ("m", "n", "k", "lda", "ldb", "ldd")}
    return Problem(arguments, (Output("d", expected, tolerance, (slice(None), slice(0, p["n"]))),))
