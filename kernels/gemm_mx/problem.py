"""Data for gemm-mx with its float64 reference, which takes the elements and scales as they lie in memory."""

from __future__ import annotations

from typing import Any

import numpy as np

import asmgen as ag
from asmgen.kernels.gemm_mx.formats import BLOCK, GROUP_COLUMNS, GROUP_ROWS, padded_rows
from asmgen.kernels.products.odd import GROUP, Exact
from asmgen.kernels.products.problem import with_result
from asmgen.kernels.products.sums import Matrix, Sums, sums

_MAGNITUDES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
VALUES = np.concatenate([_MAGNITUDES, -_MAGNITUDES])
"""fp4 by code."""
BIAS, NAN, DEPTH = 127, 255, 128
_SPREAD = {"f16": 1}  # binary orders of scales to both sides of 1: D stays below 65504
_WIDE_SPREAD = 6


def make_problem(p: ag.Values, seed: int, nonfinite: bool) -> ag.Problem:
    """Random codes and scales. In each 16 rows one has a single element other than zero, and its products are exact; with `nonfinite`
    another one has a block whose scale is NaN. Pads of elements and scales are random, and with `nonfinite` scales there are NaN."""
    random = np.random.default_rng(seed)
    m, n, k = p["m"], p["n"], p["k"]
    spread = _SPREAD.get(p["out"], _WIDE_SPREAD)
    a, a_scale, exact_rows = _operand(random, (m, k), p["lda"], p["ldsa"], spread, nonfinite)
    b, b_scale, exact_columns = _operand(random, (n, k), p["ldb"], p["ldsb"], spread, nonfinite)

    def product() -> Sums:
        return sums(decoded(a, a_scale, k), decoded(b, b_scale, k), DEPTH)

    order = shuffled if p["scale_order"] == "shuffled" else np.asarray
    given = {"a": packed(a), "b": packed(b), "a_scale": order(a_scale), "b_scale": order(b_scale), "ldsa": p["ldsa"], "ldsb": p["ldsb"]}
    return with_result(p, random, given, product, nonfinite, Exact(exact_rows, exact_columns))


def _operand(random: np.random.Generator, size: tuple[int, int], stride: int, scale_stride: int, spread: int,
             nonfinite: bool) -> tuple[Matrix, Matrix, tuple[int, ...]]:
    """Codes [rows, stride], scales [rows, scale_stride], and the rows with one element."""
    rows, k = size
    codes = random.integers(0, 16, (rows, stride), dtype=np.uint8)
    scales = random.integers(BIAS - spread, BIAS + spread + 1, (rows, scale_stride), dtype=np.uint8)
    if nonfinite:
        scales[:, -(-k // BLOCK):] = NAN
    single = []
    for first in range(0, rows - rows % GROUP, GROUP):
        odd, one = (first + int(row) for row in random.permutation(GROUP)[:2])
        codes[one, :k] = 0
        codes[one, random.integers(k)] = 3
        single.append(one)
        if nonfinite:
            scales[odd, random.integers(k // BLOCK)] = NAN
    return codes, scales, tuple(single)


def packed(codes: Matrix) -> Matrix:
    """Two codes a byte, the even column's in the low half."""
    found: Matrix = codes[:, ::2] | codes[:, 1::2] << 4
    return found


def decoded(codes: Matrix, scales: Matrix, k: int) -> Matrix:
    """The values of the first k columns."""
    blocks = scales[:, :-(-k // BLOCK)].astype(np.float64)
    factors = np.where(blocks == NAN, np.nan, np.exp2(blocks - BIAS))
    found: Matrix = VALUES[codes[:, :k]] * np.repeat(factors, BLOCK, 1)[:, :k]
    return found


def shuffled(scales: Matrix) -> Matrix:
    """Scales [rows, columns] in AITER's order, rows padded to 32 by NaN; columns are a multiple of 8."""
    rows, columns = scales.shape
    whole = np.full((padded_rows(rows), columns), NAN, np.uint8)
    whole[:rows] = scales
    # group, half of it, row | 256 columns of K, 128 of them, block
    parts: Any = whole.reshape(-1, 2, GROUP_ROWS // 2, columns // GROUP_COLUMNS, 2, GROUP_COLUMNS // 2)
    found: Matrix = np.ascontiguousarray(parts.transpose(0, 3, 5, 2, 4, 1)).reshape(whole.shape)
    return found
