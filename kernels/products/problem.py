"""The expected D of a matrix product, with a tolerance derived from its formats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np

import asmgen as ag
from asmgen.kernels.products.odd import Exact, put_odd_addends
from asmgen.kernels.products.split import is_atomic
from asmgen.kernels.products.stored import stored
from asmgen.kernels.products.sums import UNIT, Matrix, Sums

CANARY = -123.0  # the value of columns of D after n; they must keep it
TYPES: dict[str, tuple[Any, int]] = {"bf16": (ml_dtypes.bfloat16, 8), "f16": (np.float16, 11), "f32": (np.float32, 24)}
"""The numpy type and its number of significant bits."""
_NUMBERS = ("m", "n", "k", "lda", "ldb", "ldd", "alpha", "beta", "ldc")
_STRIDES = tuple(f"{name}_stride_batch" for name in "abdc")
_LEAST_HALF_UNIT = {"f16": 2.0**-25}  # the unit of subnormal numbers, for data near them
_FLUSHED = 2.0**-110  # float32 numbers below 2^-126 may be flushed to 0, fewer than 2^16 times


def with_result(p: ag.Values, random: np.random.Generator, operands: dict[str, Matrix], product: Callable[[int], Sums],
                nonfinite: bool = False, exact: Sequence[Exact] = ()) -> ag.Problem:
    """The problem of D = alpha A B^T + beta C + bias, with the terms that p asks for and the tolerance of `tolerance_of`.

    `product` is called with the number of each matrix of a batch when somebody asks what comes out. `nonfinite` puts a NaN and an infinity
    into C and bias; if the kernel must not read them, they are all NaN. `exact` elements of each product have one term. If they are only
    rounded to the type of D (to nearest, ties to even), they have no tolerance.
    """
    given, _ = TYPES[p["out"]]
    m, n = p["m"], p["n"]
    d = stored(p, "d", m, n, given, lambda shape: np.full(shape, CANARY, np.float64))
    c = stored(p, "c", m, n, given, random.standard_normal) if p["beta"] else None
    added_c = random.standard_normal((1, 8)).astype(given) if c is None else c.array
    bias = random.standard_normal(({"row": n, "column": m}.get(p["bias"], 8),)).astype(given)
    if nonfinite:
        put_odd_addends(random, added_c, bool(p["beta"]))
        put_odd_addends(random, bias, p["bias"] != "none")

    def of(number: int) -> tuple[Matrix, Matrix]:
        summed = product(number)
        added = [p["beta"] * c.matrices[number].astype(np.float64)] if c is not None else []
        if p["bias"] != "none":
            added.append(bias.astype(np.float64) if p["bias"] == "row" else bias.astype(np.float64)[:, None])
        if is_atomic(p):  # each of so few additions, in any order, rounds no more than all magnitudes together
            summed = replace(summed, rounded=summed.rounded + p["split_k"] * summed.size)
        with np.errstate(invalid="ignore"):
            expected = p["alpha"] * summed.value
            for more in added:
                expected = expected + more
            tolerance = tolerance_of(p, summed, expected, added)
        if exact and p["alpha"] == 1.0 and not added:
            positions = exact[number].positions(expected.shape)
            expected[positions], tolerance[positions] = expected[positions].astype(given).astype(np.float64), 0.0
        return expected, tolerance

    def outputs() -> tuple[ag.Output, ...]:
        found = [of(number) for number in range(len(d.matrices))]
        if len(found) > 1:
            expected, tolerance = (np.stack([one[part] for one in found]) for part in range(2))
            return (ag.Output("d", expected, tolerance, d.select()),)
        (expected, tolerance), = found
        if p.get("d_layout", "row") == "column":
            return (ag.Output("d", expected.T, tolerance.T, (slice(None), slice(0, m))),)
        return (ag.Output("d", expected, tolerance, (slice(None), slice(0, n))),)

    numbers = [name for name in (*_NUMBERS, *_STRIDES, "batch", "workgroups", "share") if name in p]
    if p.get("pointers"):
        operands = operands | {"d_pointers": d.pointers, "c_pointers": np.zeros(1, np.int64) if c is None else c.pointers}
    return ag.Problem(operands | {"d": d.array, "c": added_c, "bias": bias} | {name: p[name] for name in numbers}, outputs)


def tolerance_of(p: ag.Values, product: Sums, expected: Matrix, added: Sequence[Matrix]) -> Matrix:
    """|d - ref| <= 1.01 (ulp(ref) / 2 + 2^-24 |alpha| rounded) + 2^-20 (|alpha| sum|a||b| + |beta c| + |bias|).

    ulp(ref) / 2 is the error of rounding to nearest in the output's type (bf16 has 8 significant bits); truncation exceeds it. Half a unit
    in the last place of bf16 is 2^-9 |ref| just below a power of two and 2^-8 |ref| at one; bf16 cannot meet 2^-9 |ref| everywhere.
    `rounded` is the sum of the sizes of the partial sums (sums.py). The hundredth covers the effect of errors on later roundings: a factor
    of (1 + 2^-24)^n, which is 1.0003 for the longest K in tests. 2^-20 is 16 roundings of float32. An instruction that adds its products as
    a tree has at most log2(128) = 7 of them, of all magnitudes; the product of two scales and the product with it have 2, alpha 1, beta C
    and its addition 2, the bias 1.
    """
    _, bits = TYPES[p["out"]]
    half_unit = np.maximum(np.ldexp(1.0, np.frexp(expected)[1] - bits - 1), _LEAST_HALF_UNIT.get(p["out"], 0.0))
    alpha = abs(p["alpha"])
    size = alpha * product.size + sum(np.abs(more) for more in added)
    found: Matrix = 1.01 * (half_unit + UNIT * alpha * product.rounded) + 16 * UNIT * size + _FLUSHED * max(1.0, alpha)
    return found
