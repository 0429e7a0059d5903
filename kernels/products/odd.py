"""Odd numbers in the data of matrix products: NaN, infinities, subnormal numbers, zeros of either sign, and products that round as ties."""

from __future__ import annotations

import numpy as np

from asmgen.kernels.products.sums import Matrix

LEAST = 16  # rows, or columns of D, below which each would be too large a part of all
_SMALL = {"bfloat16": 2.0**-120, "float16": 2.0**-14, "float8_e4m3fn": 2.0**-6, "float8_e5m2": 2.0**-14, "float8_e4m3fnuz": 2.0**-7,
          "float8_e5m2fnuz": 2.0**-15}
"""The smallest normal number of a type, but for bf16, where products of subnormal numbers are too small for float32."""


def put_odd(random: np.random.Generator, a: Matrix, b: Matrix, k: int) -> int | None:
    """Changes A [m, lda] and B [n, ldb] in place. What stands behind column k is NaN, as no kernel may use it.

    Of at least 16 rows one of A has a NaN, another an infinity, one is so small that its numbers are mostly subnormal, one has zeros
    of either sign in places, and one is 1.5 at one k and zero elsewhere: these products are exact, and many are ties of the type of B.
    One row of B, of as many, has an infinity. All of D but two rows and a column is finite. Returns the number of the row whose products
    are exact, if there is one.
    """
    one: int | None = None
    a[:, k:] = np.nan
    b[:, k:] = np.nan
    if len(a) >= LEAST:
        with_nan, with_infinity, small, with_zeros, one = (int(row) for row in random.choice(len(a), 5, replace=False))
        a[with_nan, random.integers(k)] = np.nan
        a[with_infinity, random.integers(k)] = -np.inf
        a[small, :k] = (a[small, :k].astype(np.float64) * _SMALL[a.dtype.name]).astype(a.dtype)
        a[with_zeros, random.integers(k, size=max(1, k // 8))] = 0.0
        a[with_zeros, random.integers(k, size=max(1, k // 8))] = -0.0
        a[one, :k] = 0.0
        a[one, random.integers(k)] = 1.5
    if len(b) >= LEAST:
        b[random.integers(len(b)), random.integers(k)] = np.inf
    return one


def put_odd_addends(random: np.random.Generator, c: Matrix, used: bool) -> None:
    """Changes C or a bias in place: one NaN, one infinity and a zero where it is `used` and has at least 16 columns, else all NaN."""
    if not used:
        c[...] = np.nan
    elif c.shape[-1] >= LEAST:
        places = [tuple(random.integers(size) for size in c.shape) for _ in range(3)]
        for place, value in zip(places, (np.nan, np.inf, -0.0), strict=True):
            c[place] = value
