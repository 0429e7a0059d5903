"""A x B^T in float64, with what float32 accumulation may be off by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Matrix = np.ndarray[Any, Any]

UNIT = 2.0**-24
"""Half a unit in the last place of float32, of a number's size: what rounding to nearest is off by."""
_PARTS = 16  # sums along K that are looked at; more make the bound tighter for long K, and dearer


@dataclass(frozen=True)
class Sums:
    """`value` is A x B^T [m, n], `size` the same of magnitudes, `rounded` the sum of the sizes of its partial sums, one for each matrix
    instruction along K: accumulation in float32 is off by 2^-24 `rounded` at most."""

    value: Matrix
    size: Matrix
    rounded: Matrix


def sums(left: Matrix, right: Matrix, depth: int) -> Sums:
    """left [m, k] times right [n, k] transposed, added up by matrix instructions that take `depth` products each.

    Products of two numbers of 11 bits or fewer are exact in float32. An accumulator goes through n = K / depth instructions:
    s_i = fl(s_(i-1) + p_i), with p_i the sum of `depth` products. Each of these roundings is off by 2^-24 |s_i| at most (round to
    nearest even; matrix instructions do not look at MODE.round, docs/facts/instructions.md section 1), so all of them by
    2^-24 (|s_1| + ... + |s_n|). Where products have one sign this grows to n/2 2^-24 |D|; where signs are mixed the partial sums are
    as small as D, and so is the bound: gamma_n sum|a||b| would hide a product that is missing at large K.
    How an instruction adds its own products is not published: what that takes is `tolerance_of`'s.

    K is cut into 16 parts at most. In a part of several instructions, partial sums are no larger than at its beginning plus all of its
    magnitudes.
    """
    k = left.shape[1]
    instructions = -(-k // depth)
    each = -(-instructions // _PARTS)  # instructions of a part
    value, size, rounded = (np.zeros((left.shape[0], right.shape[0])) for _ in range(3))
    with np.errstate(invalid="ignore", over="ignore"):
        for first in range(0, instructions, each):
            a, b = (array[:, first * depth:(first + each) * depth] for array in (left, right))
            part = np.abs(a) @ np.abs(b).T
            before = np.abs(value)
            value += a @ b.T
            steps = min(each, instructions - first)
            rounded += np.abs(value) + (steps - 1) * (before + part) if steps > 1 else np.abs(value)
            size += part
    return Sums(value, size, rounded)
