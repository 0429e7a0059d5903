"""What A of bf16 or f16 becomes in the kernel, for references: docs/facts/blockscales.md section 1, in numpy."""

from __future__ import annotations

import numpy as np

from asmgen.kernels.gemm_mx.formats import BLOCK
from asmgen.kernels.products.sums import Matrix

_LARGEST = {"fp4": (6.0, 2, 1), "fp8": (448.0, 8, 3)}
"""The largest value of a type, its exponent, and bits of the mantissa."""
_MANTISSA, _BIAS, _NAN = 23, 127, 255


def exponents(values: Matrix, dtype: str, rule: str) -> Matrix:
    """The e8m0 byte of each block of 32 columns of float32 values."""
    most, exponent, mantissa = _LARGEST[dtype]
    bits = np.abs(values).view(np.uint32).reshape(len(values), -1, BLOCK).max(2).astype(np.int64)
    finite = bits < _NAN << _MANTISSA
    if rule == "up":
        product = (np.where(finite, bits, 0).astype(np.uint32).view(np.float32) * np.float32(1 / most)).view(np.uint32).astype(np.int64)
        found = (product >> _MANTISSA) + (product & (1 << _MANTISSA) - 1 > 0)
    else:
        rounded = bits + (1 << _MANTISSA - 1 - mantissa if rule == "even" else 0)
        found = np.maximum((rounded >> _MANTISSA) - exponent, 0)
    return np.where(finite, found, _NAN).astype(np.uint8)


def elements(values: Matrix, bytes_: Matrix, grid: Matrix) -> Matrix:
    """The codes of float32 values in units of their blocks' scales, to nearest, ties to the even code, beyond the largest value that one.
    `grid` has the numbers of all codes, the positive ones first; where a block is NaN its codes say nothing."""
    scales = np.repeat(np.exp2(bytes_.astype(np.float64) - _BIAS), BLOCK, 1)
    with np.errstate(invalid="ignore"):
        ratio = np.nan_to_num(values.astype(np.float64) / scales, nan=0.0, posinf=0.0, neginf=0.0)
    positive = grid[:len(grid) // 2]
    positive = positive[np.isfinite(positive)]
    middles = (positive[1:] + positive[:-1]) / 2
    below = np.searchsorted(middles, np.abs(ratio), "left")  # a tie is the lower code
    tie = (below < len(middles)) & (np.abs(ratio) == middles[np.minimum(below, len(middles) - 1)])
    codes = below + (tie & (below % 2 == 1))
    found: Matrix = (codes + len(grid) // 2 * np.signbit(ratio)).astype(np.uint8)
    return found
