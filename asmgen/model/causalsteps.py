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
"""Keys of a step, or queries: workgroups are counted in these, whatever the code's own steps are."""
_MOST = 1.25
"""Times the longest workgroup's work: what does more does not do it in this way."""


def causal_steps(sizes: Mapping[str, int], pair: float, backward: bool, workgroups: int, flops: float,
                 heads: Sequence[int] = ()) -> Steps | None:
    """The steps of `workgroups`, of which the first executed so many `flops`, `pair` of them for a query and a key; None where they are all
    alike, or not as many for each head, or where the first one did more than there is to do.

    `sizes` has b, hq, hkv, sq and sk; `heads` says for the first workgroups in the order of the grid which of them have keys in common. Of
    gradients (`backward`) a workgroup has some keys of a head, and its length is that of the queries that see them.
    """
    tiles, rest = divmod(workgroups, sizes["b"] * sizes["hq"])
    if rest or tiles < 2:
        return None
    along, across = (sizes["sk"], sizes["sq"]) if backward else (sizes["sq"], sizes["sk"])
    rows = -(-along // tiles)
    if backward:
        seen = across - np.maximum(np.arange(tiles) * rows + across - along, 0)
    else:
        seen = np.minimum(np.arange(1, tiles + 1) * rows, along) + across - along
    seen = np.clip(seen, 1, across)
    first = flops / (pair * rows)
    most, least = max(seen[0], seen[-1]), min(seen[0], seen[-1])
    alike, longest, shortest = (abs(first - one) for one in (seen.mean(), most, least))
    if alike <= min(longest, shortest) or first > _MOST * most:
        return None
    ranks = _ranks(workgroups, tiles, heads, tiles * sizes["hq"] // sizes["hkv"])
    order = np.sort(seen)
    each = np.asarray(-(-order // _KEYS)[tiles - 1 - ranks if longest < shortest else ranks], np.int64)
    return Steps(int(each[0]), each, pair * rows * _KEYS)


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
