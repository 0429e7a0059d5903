"""Odd numbers in the data of matrix products: NaN, infinities, subnormal numbers, zeros of both signs, and products that round as ties."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from asmgen.kernels.products.stored import Stored
from asmgen.kernels.products.sums import Matrix

GROUP = 16
"""One of so many rows is odd. The smallest fragment has as many rows, so that each fragment has an odd one."""
_SMALL = {"bfloat16": 2.0**-120, "float16": 2.0**-14, "float8_e4m3fn": 2.0**-6, "float8_e5m2": 2.0**-14, "float8_e4m3fnuz": 2.0**-7,
          "float8_e5m2fnuz": 2.0**-15}
"""The smallest normal number of a type; larger for bf16, whose products of subnormal numbers are too small for float32."""


@dataclass(frozen=True)
class Exact:
    """Rows and columns of the product with a single term other than zero, which are exact in float32."""

    rows: tuple[int, ...]
    columns: tuple[int, ...]

    def positions(self, shape: tuple[int, ...]) -> NDArray[np.bool_]:
        """A mask [m, n] of the elements whose product is exact."""
        found = np.zeros(shape, bool)
        found[list(self.rows)] = True
        found[:, list(self.columns)] = True
        return found


def put_odd_pairs(random: np.random.Generator, a: Stored, b: Stored, k: int, nonfinite: bool) -> list[Exact]:
    """`put_odd` for each pair of a batch. Nothing is known to be exact where matrices share elements.

    With `nonfinite` all elements between lines are NaN too.
    """
    if nonfinite:
        for one in (a, b):
            kept = [matrix.copy() for matrix in one.matrices]
            one.array[...] = np.nan
            for matrix, values in zip(one.matrices, kept, strict=True):
                matrix[...] = values
    found = [put_odd(random, *pair, k, nonfinite) for pair in zip(a.matrices, b.matrices, strict=True)]
    return found if a.apart and b.apart else []


def put_odd(random: np.random.Generator, a: Matrix, b: Matrix, k: int, nonfinite: bool) -> Exact:
    """Change A [m, lda] and B [n, ldb] in place. Returns which rows and columns of D are exact.

    In each 16 rows of A and of B, one is 1.5 at one k and zero elsewhere. Its products are exact, and many are ties in the type of the
    other operand: one in each row and column of the accumulators of any matrix instruction. One row of A has mostly subnormal numbers,
    another one zeros of both signs. With `nonfinite`, one other row in each 16 has a NaN or an infinity, alternately, and all elements
    after column k are NaN, as no kernel may use them. More than three quarters of D do not change.
    """
    exact: list[list[int]] = []
    for array, values in ((a, (np.nan, -np.inf)), (b, (np.inf, np.nan))):
        ones = []
        for number in range(len(array) // GROUP):
            odd, one, small, with_zeros = (GROUP * number + int(row) for row in random.permutation(GROUP)[:4])
            if nonfinite:
                array[odd, random.integers(k)] = values[number % 2]
            array[one, :k] = 0.0
            array[one, random.integers(k)] = 1.5
            ones.append(one)
            if array is a and number == 0:
                array[small, :k] = (array[small, :k].astype(np.float64) * _SMALL[array.dtype.name]).astype(array.dtype)
                for zero in (0.0, -0.0):
                    array[with_zeros, random.integers(k, size=max(1, k // 8))] = zero
        exact.append(ones)
        if nonfinite:
            array[:, k:] = np.nan
    return Exact(tuple(exact[0]), tuple(exact[1]))


def put_odd_addends(random: np.random.Generator, c: Matrix, used: bool) -> None:
    """Change C or a bias in place. If it is `used` and has at least 16 columns, it gets a NaN, an infinity and a zero; else all NaN."""
    if not used:
        c[...] = np.nan
    elif c.shape[-1] >= GROUP:
        positions = [tuple(random.integers(size) for size in c.shape) for _ in range(3)]
        for position, value in zip(positions, (np.nan, np.inf, -0.0), strict=True):
            c[position] = value
