"""The number of steps of each workgroup of attention-forward, and a small problem whose first workgroup represents all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import asmgen as ag
from asmgen.kernels.attention_forward.tensors import TENSORS
from asmgen.kernels.sequences.lengths import even

_MOST_TRACED, _COPIES = 24, 4
"""The approximate number of steps of the small problem's first workgroup, and the copies of a step in a loop: whole rounds are left out."""
_LINE_ELEMENTS = 64  # of a cache line: rows that begin at multiples touch the same number of lines at any stride


def steps_of_tiles(p: ag.Values, tile: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """The steps of each tile of queries, as `place` computes them in scalar code. `tile` is the queries and the keys of a step."""
    queries, keys = tile
    sq, sk = p["sq"], p["sk"]
    row0 = np.arange(0, sq, queries)
    end = np.full(len(row0), sk)
    first = np.zeros(len(row0), np.int64)
    right = 0 if p["causal"] else p["right"]
    if right >= 0:
        end = np.clip(row0 + np.minimum(sq - row0, queries) + sk - sq + right, 0, sk)
    if p["left"] >= 0:
        first = np.maximum(row0 + sk - sq - p["left"], 0) // keys * keys
    return np.asarray(np.maximum(1, -(-(np.maximum(end, first) - first) // keys)))


def launch_work(p: ag.Values, tile: tuple[int, ...]) -> ag.LaunchWork:
    """The work of a launch. Without a window, the small problem is the first workgroup's tile of one head, with fewer keys. Sequences
    with lengths of their own count as equal ones, and workgroups without queries, which end at once, not at all."""
    p = even(p)
    queries, keys = tile
    steps = steps_of_tiles(p, tile)
    group = p["hq"] // p["hkv"]
    heads = ag.heads_in_order(p["b"] * p["hkv"], group, len(steps), p["causal"])
    order = [tile for _, _, tile in heads]
    units = [unit for unit, _, _ in heads]
    slabs = {"q": [(unit * group + member) * len(steps) + tile for unit, member, tile in heads], "k": units, "v": units}
    traced, first = int(steps[order[0]]), _one_head(p)
    if not p["window"]:
        cut = max(0, traced - _MOST_TRACED) // _COPIES * _COPIES
        rows = p["sq"] - queries * (len(steps) - 1) if p["causal"] else min(p["sq"], queries)
        first, traced = {**first, "sq": rows, "sk": p["sk"] - cut * keys}, traced - cut
    first = {**first, "max_sq": first["sq"], "max_sk": first["sk"]}
    read = 2 * p["d"] * p["b"] * (p["hq"] * p["sq"] + 2 * p["hkv"] * p["sk"])
    needed = 4.0 * p["b"] * p["hq"] * p["d"] * _seen_keys(p)
    return ag.LaunchWork(first, traced, steps[order], 4.0 * queries * keys * p["d"], read, needed, slabs)


def _seen_keys(p: ag.Values) -> int:
    """Pairs of a query and a key that it sees."""
    last = np.arange(p["sq"]) + p["sk"] - p["sq"]
    right, left = 0 if p["causal"] else p["right"], p["left"]
    end = np.clip(last + right + 1, 0, p["sk"]) if right >= 0 else np.full(p["sq"], p["sk"])
    first = np.clip(last - left, 0, p["sk"]) if left >= 0 else np.zeros(p["sq"], np.int64)
    return int(np.maximum(0, end - first).sum())


def _one_head(p: ag.Values) -> Mapping[str, Any]:
    """The problem with only the first head. Its rows are dense if that touches the same number of cache lines."""
    close = {f"{tensor}_stride_s": p["d"] for tensor in TENSORS if p[f"{tensor}_stride_s"] % _LINE_ELEMENTS == 0}
    return {**p, "b": 1, "hq": 1, "hkv": 1, **close}
