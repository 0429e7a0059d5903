"""What D of any matrix product must be, with a tolerance derived from its formats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

import asmgen as ag
from asmgen.kernels.products.odd import Exact, put_odd_addends
from asmgen.kernels.products.sums import UNIT, Matrix, Sums

CANARY = -123.0  # what the columns of D behind n hold, and must go on holding
TYPES: dict[str, tuple[Any, int]] = {"bf16": (ml_dtypes.bfloat16, 8), "f16": (np.float16, 11), "f32": (np.float32, 24)}
"""numpy's type, and how many significant bits it has."""
_NUMBERS = ("m", "n", "k", "lda", "ldb", "ldd", "alpha", "beta", "ldc")
_LEAST_HALF_UNIT = {"f16": 2.0**-25}  # of subnormal numbers, where data comes near to them
_FLUSHED = 2.0**-110  # float32 numbers below 2^-126 may be flushed to 0, fewer than 2^16 times


def with_result(p: ag.Values, random: np.random.Generator, operands: dict[str, Matrix], product: Sums,
                nonfinite: bool = False, exact: Exact | None = None) -> ag.Problem:
    """The problem of D = alpha A B^T + beta C + bias, as far as p asks for them, with the tolerance of `tolerance_of`.

    `nonfinite` puts a NaN and an infinity into C and bias, and leaves nothing but NaN in them where they may not be read. What is
    `exact` of the product has one term: where nothing is done to it but rounding to the type of D, that is to nearest, ties to even,
    and has no tolerance.
    """
    given, _ = TYPES[p["out"]]
    d = np.full((p["m"], p["ldd"]), CANARY, given)
    c = random.standard_normal((p["m"], p["ldc"]) if p["beta"] else (1, 8)).astype(given)
    bias = random.standard_normal(p["n"] if p["bias"] == "row" else 8).astype(given)
    if nonfinite:
        put_odd_addends(random, c, bool(p["beta"]))
        put_odd_addends(random, bias, p["bias"] == "row")
    added = ([p["beta"] * c[:, :p["n"]].astype(np.float64)] if p["beta"] else []) + \
        ([bias.astype(np.float64)] if p["bias"] == "row" else [])
    with np.errstate(invalid="ignore"):
        expected = p["alpha"] * product.value
        for more in added:
            expected = expected + more
        tolerance = tolerance_of(p, product, expected, added)
    if exact is not None and p["alpha"] == 1.0 and not added:
        places = exact.places(expected.shape)
        expected[places], tolerance[places] = expected[places].astype(given).astype(np.float64), 0.0
    return ag.Problem(operands | {"d": d, "c": c, "bias": bias} | {name: p[name] for name in _NUMBERS},
                   (ag.Output("d", expected, tolerance, (slice(None), slice(0, p["n"]))),))


def tolerance_of(p: ag.Values, product: Sums, expected: Matrix, added: Sequence[Matrix]) -> Matrix:
    """|d - ref| <= 1.01 (ulp(ref) / 2 + 2^-24 |alpha| rounded) + 2^-20 (|alpha| sum|a||b| + |beta c| + |bias|).

    ulp(ref) / 2 is what rounding to nearest may do to the output's type (bf16 has 8 significant bits); truncation goes beyond. Half a unit
    in the last place of bf16 is 2^-9 |ref| just below a power of two and 2^-8 |ref| at one: a bound of 2^-9 |ref| everywhere would ask
    for more than bf16 has. `rounded` is the sum of the partial sums' sizes (sums.py). The hundredth is for what errors do to later
    roundings: a factor of (1 + 2^-24)^n, 1.0003 for the longest K that tests have.
    2^-20 is 16 roundings of float32. An instruction that adds its products as a tree takes log2(128) = 7 at most, of all their
    magnitudes; the product of two scales and the product with it 2, alpha 1, beta C and adding it 2, the bias 1.
    """
    _, bits = TYPES[p["out"]]
    half_unit = np.maximum(np.ldexp(1.0, np.frexp(expected)[1] - bits - 1), _LEAST_HALF_UNIT.get(p["out"], 0.0))
    alpha = abs(p["alpha"])
    size = alpha * product.size + sum(np.abs(more) for more in added)
    found: Matrix = 1.01 * (half_unit + UNIT * alpha * product.rounded) + 16 * UNIT * size + _FLUSHED * max(1.0, alpha)
    return found
