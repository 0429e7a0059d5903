"""A x B^T in float64, with the error bound of float32 accumulation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Matrix = np.ndarray[Any, Any]

UNIT = 2.0**-24
"""Half a unit in the last place of float32, relative to the number: the error of rounding to nearest."""
_PARTS = 16  # parts of K; more parts make the bound tighter for long K, and slower


@dataclass(frozen=True)
class Sums:
    """A x B^T with its error bound: accumulation in float32 is off by at most 2^-24 `rounded`.

    `value` is A x B^T [m, n], `size` the same for magnitudes. `rounded` is the sum of the sizes of the partial sums, one for each matrix
    instruction along K.
    """

    value: Matrix
    size: Matrix
    rounded: Matrix


def sums_of_parts(left: Matrix, right: Matrix, depth: int, columns: list[int]) -> Sums:
    """As `sums`, where so many columns of K each are summed by themselves, and then one after the other: each of those additions is
    rounded too."""
    first = 0
    found: Sums | None = None
    for count in columns:
        part = sums(left[:, first:first + count], right[:, first:first + count], depth)
        first += count
        if found is not None:
            with np.errstate(invalid="ignore"):
                value = found.value + part.value
                part = Sums(value, found.size + part.size, found.rounded + part.rounded + np.abs(value))
        found = part
    assert found is not None and first == left.shape[1]
    return found


def sums(left: Matrix, right: Matrix, depth: int) -> Sums:
    """left [m, k] times right [n, k] transposed, summed by matrix instructions of `depth` products each.

    Products of two numbers of 11 bits or fewer are exact in float32. An accumulator goes through n = K / depth instructions:
    s_i = fl(s_(i-1) + p_i), with p_i the sum of `depth` products. Each rounding has an error of at most 2^-24 |s_i|
    (round to nearest even; matrix instructions ignore MODE.round, docs/facts/instructions.md section 1). All of them have at most
    2^-24 (|s_1| + ... + |s_n|). With products of one sign this grows to n/2 2^-24 |D|. With mixed signs the partial sums are as small as D,
    and so is the bound; gamma_n sum|a||b| would hide a missing product at large K. How an instruction adds its own products is not
    published; `tolerance_of` covers it.

    K is cut into at most 16 parts. Partial sums within a part are at most the sum at its beginning plus all magnitudes in it.
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
