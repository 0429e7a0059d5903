"""Which variants are nearest to a request that none serves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from asmgen.author.contract.contract import Values

Key = TypeVar("Key")
HOW = ("tile", "schedule", "waves")
"""Build parameters that say how a variant computes. Others that a variant fixes say what it computes."""


def nearest_first(fixed: Mapping[Key, Mapping[str, Any]], lacking: Mapping[Key, Sequence[str]], given: Values) -> Sequence[Key]:
    """By what variants fix, and by the names of what else they do not have: those that compute what is asked come first, then those of
    nearly its tile, then those of its schedule."""
    def distance(one: Key) -> tuple[int, int, float, int]:
        own = fixed[one]
        differs = [name for name, value in own.items() if given.get(name, value) != value]
        apart = _apart(str(own.get("tile", "")), str(given.get("tile", "")))
        return len(lacking[one]), sum(name not in HOW for name in differs), apart, sum(name != "tile" for name in differs)

    return sorted(fixed, key=distance)


def _apart(one: str, other: str) -> float:
    """How often the edges of two tiles double, in all; 0 where one is none."""
    edges = [tile.split("x") for tile in (one, other)]
    if not all(part.isdecimal() and int(part) for tile in edges for part in tile) or len(edges[0]) != len(edges[1]):
        return 0.0
    return sum(abs(math.log2(int(mine) / int(its))) for mine, its in zip(*edges, strict=True))
