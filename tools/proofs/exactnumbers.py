"""Arrays of whole numbers of any length, each exact: of 64 bits where bounds show that they suffice, else Python's integers.

Products in a sum may be long where the sum is short, as numbers are without what is cut from them. So a sum is computed modulo 2^64, and
beside that as floats: where these show that it is shorter than 64 bits, the former is the sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[Any]
HOLDS = 1 << 62
"""What absolute values of 64-bit arrays stay below, so that sums of two do not wrap."""
_WORDS = 1 << 64
_MANTISSA, _LONGEST = 53, 1 << 1000
"""Bits of a float64, which rounds to half of the last of them, and what all numbers that it has stay below."""


class ExactNumbers:
    """Numbers, and what none of them exceeds in size. Long ones are `made` where they are asked for."""

    def __init__(self, most: int, made: Callable[[], Numbers], low: Callable[[], Numbers], near: Callable[[], Numbers],
                 roundings: int) -> None:
        self.most, self._made, self._low, self._near = most, made, low, near
        self.roundings = roundings

    @cached_property
    def values(self) -> Numbers:
        """All of them, of one length."""
        return self._made()

    @cached_property
    def low(self) -> Numbers:
        """Modulo 2^64, as signed numbers of 64 bits."""
        return self._low()

    @cached_property
    def near(self) -> Numbers:
        """As floats, after so many `roundings`: off by no more than half of the last bit of `most` for each."""
        return self._near()

    def part(self, rows: NDArray[np.int64]) -> ExactNumbers:
        """Some of them; one that stands for all stays."""
        if len(self.low) == 1:
            return self
        return ExactNumbers(self.most, lambda: self.values[rows], lambda: self.low[rows], lambda: self.near[rows], self.roundings)


def exact(values: Numbers) -> ExactNumbers:
    """With a bound that one of them is."""
    most = max(abs(int(values.min())), abs(int(values.max()))) if values.size else 0
    short = most < HOLDS
    values = values.astype(np.int64 if short else object)
    return ExactNumbers(most, lambda: values, lambda: values if short else _wrapped(values), lambda: values.astype(np.float64), 1)


def product(a: ExactNumbers, b: ExactNumbers) -> ExactNumbers:
    """Element by element."""
    most = a.most * b.most
    if most < HOLDS:
        return exact(a.values * b.values)
    return ExactNumbers(most, lambda: a.values.astype(object) * b.values.astype(object), lambda: a.low * b.low, lambda: a.near * b.near,
                 a.roundings + b.roundings + 1)


def total(parts: Sequence[tuple[ExactNumbers, int]]) -> ExactNumbers:
    """The sum of some numbers, each times a factor: one or more of them. 0 times what 64 bits do not hold is 0."""
    parts = [one for one in parts if one[0].most] or [(parts[0][0], 1)]
    most = sum(one.most * abs(factor) for one, factor in parts)
    if most < HOLDS:
        return exact(_sum(one.values * factor for one, factor in parts))
    if most < _LONGEST:
        near = np.abs(_sum(one.near * float(factor) for one, factor in parts))
        roundings = max(one.roundings for one, _ in parts) + 2 + len(parts)
        if float(near.max(initial=0.0)) + float(2 * roundings * (most >> _MANTISSA) + 1) < HOLDS / 2:
            return exact(_sum(one.low * np.int64(_signed(factor)) for one, factor in parts))
    return exact(_sum(one.values.astype(object) * factor for one, factor in parts))


def _sum(arrays: Iterator[Numbers]) -> Numbers:
    return reduce(np.add, arrays)


def _wrapped(values: Numbers) -> Numbers:
    return np.asarray(values % _WORDS, np.uint64).view(np.int64)


def _signed(number: int) -> int:
    """Modulo 2^64."""
    return (number + _WORDS // 2) % _WORDS - _WORDS // 2
