"""Arrays of whole numbers of any length, each exact: of 64 bits where bounds show that they suffice, else Python's integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[Any]
HOLDS = 1 << 62
"""What absolute values of 64-bit arrays stay below, so that sums of two do not wrap."""


@dataclass(frozen=True)
class Exact:
    """Numbers, and what none of them exceeds in size."""

    values: Numbers
    most: int


def exact(values: Numbers) -> Exact:
    if not values.size:
        return Exact(values.astype(np.int64), 0)
    most = max(abs(int(values.min())), abs(int(values.max())))
    return Exact(values.astype(np.int64 if most < HOLDS else object), most)


def product(a: Exact, b: Exact) -> Exact:
    most = a.most * b.most
    return Exact(a.values * b.values, most) if most < HOLDS else exact(a.values.astype(object) * b.values.astype(object))


def times(a: Exact, factor: int) -> Exact:
    most = a.most * abs(factor)
    if factor == 1:
        return a
    return Exact(a.values * factor, most) if most < HOLDS else exact(a.values.astype(object) * factor)


def added(a: Exact, b: Exact) -> Exact:
    most = a.most + b.most
    return Exact(a.values + b.values, most) if most < HOLDS else exact(a.values.astype(object) + b.values.astype(object))
