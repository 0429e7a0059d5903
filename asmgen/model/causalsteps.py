"""The steps of each workgroup of causal attention of anyone's code, from the problem and from what the first workgroup executed.

A workgroup has some queries of a head. The keys that these see say how long it is, unless the code gives each the same work, as where one
takes a tile from either end. What the first one executed tells the three ways apart: the longest first, the shortest first, all alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from asmgen.model.unequal import Steps

_KEYS = 64
"""Keys of a step: workgroups are counted in these, whatever the code's own steps are."""


def causal_steps(sizes: Mapping[str, int], workgroups: int, flops: float, heads: Sequence[int] = ()) -> Steps | None:
    """The steps of `workgroups`, of which the first executed so many `flops`; None where they are all alike, or not as many for each head.

    `sizes` has b, hq, hkv, sq, sk and d; `heads` says for the first workgroups in the order of the grid which of them have keys in common.
    """
    tiles, rest = divmod(workgroups, sizes["b"] * sizes["hq"])
    if rest or tiles < 2:
        return None
    rows = -(-sizes["sq"] // tiles)
    ends = np.minimum(np.arange(1, tiles + 1) * rows, sizes["sq"]) + sizes["sk"] - sizes["sq"]
    keys = np.clip(ends, 1, sizes["sk"])
    first = flops / (4.0 * rows * sizes["d"])
    alike, falling, rising = (abs(first - one) for one in (keys.mean(), keys[-1], keys[0]))
    if alike <= min(falling, rising):
        return None
    ranks = _ranks(workgroups, tiles, heads, tiles * sizes["hq"] // sizes["hkv"])
    each = np.asarray(-(-keys // _KEYS)[tiles - 1 - ranks if falling < rising else ranks], np.int64)
    return Steps(int(each[0]), each, 4.0 * rows * _KEYS * sizes["d"])


def _ranks(workgroups: int, tiles: int, heads: Sequence[int], each: int) -> NDArray[np.int64]:
    """Which tile of its head each workgroup has, in their order: by how many with the same keys came before it, of `each` in all. The
    order of the known workgroups repeats; without a whole head among them the tiles of all heads go side by side."""
    every = np.arange(workgroups)
    seen: Counter[int] = Counter()
    known = []
    for head in heads:
        known.append(seen[head] * tiles // each)
        seen[head] += 1
    if not seen or set(seen.values()) != {each}:
        return np.asarray(every * tiles // workgroups, np.int64)
    return np.asarray(np.array(known)[every % len(known)], np.int64)
