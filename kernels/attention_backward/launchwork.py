"""The number of steps of each workgroup of attention-backward, and a small problem whose first workgroups represent all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import asmgen as ag
from asmgen.kernels.attention_backward.tensors import BLOCK, QUERIES, TENSORS
from asmgen.kernels.sequences.lengths import even

_MOST_TRACED, _CAUSAL, _COPIES = 24, 64, 4
"""The approximate number of steps of a head in the small problem's first workgroup, also where it is causal, and the copies of a step in a
loop: whole rounds are left out. 8 steps of a causal workgroup are masked, of 68 on average where there are 4096 queries and keys."""
_LINE_ELEMENTS = 64  # of a cache line: rows that begin at multiples touch the same number of lines at any stride
_MADE = 4
"""Products that the main kernel always has. That of dQ, the fifth, counts where it is made; beside it there S and dP are made again."""

Array = np.ndarray[Any, Any]


def _limits(p: ag.Values) -> tuple[int | None, int | None]:
    """Keys before and after its own that a query sees, None for all."""
    right = 0 if p["causal"] else p["right"]
    return (p["left"] if p["left"] >= 0 else None), (right if right >= 0 else None)


def steps_of_keys(p: ag.Values, queries: int, keys: int) -> Array:
    """The steps, of so many queries, of each tile of keys in one head of queries, as `masks.visit` computes them in scalar code."""
    own = np.arange(0, p["sk"], keys) + p["sq"] - p["sk"]
    left, right = _limits(p)
    first = np.zeros(len(own), np.int64) if right is None else np.maximum(own - right, 0) // queries * queries
    end = np.full(len(own), p["sq"]) if left is None else np.minimum(p["sq"], own + left + keys)
    return np.asarray(-(-np.maximum(end - first, 0) // queries))


def steps_of_queries(p: ag.Values) -> Array:
    """The steps of each tile of queries, as `keymasks.visit_keys` computes them."""
    row0 = np.arange(0, p["sq"], QUERIES)
    own = row0 + p["sk"] - p["sq"]
    left, right = _limits(p)
    end = np.full(len(row0), p["sk"])
    if right is not None:
        end = np.minimum(end, own + np.minimum(p["sq"] - row0, QUERIES) + right)
    first = np.zeros(len(row0), np.int64) if left is None else np.maximum(own - left, 0) // BLOCK * BLOCK
    return np.asarray(-(-np.maximum(end - first, 0) // BLOCK))


def launch_work(p: ag.Values, queries: int, keys: int) -> ag.LaunchWork:
    """The work of the main kernel. Sequences with lengths of their own count as equal ones."""
    p = even(p)
    steps, group = steps_of_keys(p, queries, keys), p["hq"] // p["hkv"]
    places = ag.heads_in_order(p["b"] * p["hkv"], 1, len(steps), p["causal"])
    order = [len(steps) - 1 - tile if p["causal"] else tile for _, _, tile in places]
    units = [unit for unit, _, _ in places]
    tiles = [unit * len(steps) + tile for unit, tile in zip(units, order, strict=True)]
    first = _one_head(p)
    traced = group * int(steps_of_keys(first, queries, keys)[0])
    made = _MADE if p["dq"] == "ordered" else _MADE + 1
    read = 2 * p["d"] * p["b"] * 2 * (p["hq"] * p["sq"] + p["hkv"] * p["sk"])
    return ag.LaunchWork(first, traced, group * steps[order], 2.0 * made * queries * keys * p["d"], read, made * _product(p),
                         {"q": units, "do": units, "k": tiles, "v": tiles})


def query_work(p: ag.Values, small: ag.Values) -> ag.LaunchWork:
    """The work of the kernel that makes dQ by itself; needed is one product."""
    p = even(p)
    steps, own = steps_of_queries(p), steps_of_queries(small)
    group = p["hq"] // p["hkv"]
    heads = ag.heads_in_order(p["b"] * p["hkv"], group, len(steps), p["causal"])
    rows = [(unit * group + member) * len(steps) + tile for unit, member, tile in heads]
    units = [unit for unit, _, _ in heads]
    read = 2 * p["d"] * p["b"] * 2 * (p["hq"] * p["sq"] + p["hkv"] * p["sk"])
    return ag.LaunchWork(small, int(own[-1 if p["causal"] else 0]), steps[[tile for _, _, tile in heads]],
                         6.0 * BLOCK * QUERIES * p["d"], read, _product(p), {"q": rows, "do": rows, "k": units, "v": units})


def _product(p: ag.Values) -> float:
    """The operations of one product over the pairs of a query and a key that it sees."""
    own = np.arange(p["sq"]) + p["sk"] - p["sq"]
    left, right = _limits(p)
    end = np.full(p["sq"], p["sk"]) if right is None else np.clip(own + right + 1, 0, p["sk"])
    first = np.zeros(p["sq"], np.int64) if left is None else np.clip(own - left, 0, p["sk"])
    return float(2 * p["d"] * p["b"] * p["hq"] * int(np.maximum(0, end - first).sum()))


def _one_head(p: ag.Values) -> Mapping[str, Any]:
    """The problem with the first head of K and those of queries that read it, and without a window with fewer queries and keys: as many of
    both where that matters to masks. Rows are dense where that touches as many cache lines."""
    most = _CAUSAL if p["causal"] else _MOST_TRACED
    cut = [max(0, p[name] // BLOCK - most) // _COPIES * _COPIES * BLOCK * (not p["window"]) for name in ("sq", "sk")]
    if p["causal"]:
        cut = [min(cut)] * 2
    group, sq, sk = p["hq"] // p["hkv"], p["sq"] - cut[0], p["sk"] - cut[1]
    found = {**p, "b": 1, "hq": group, "hkv": 1, "sq": sq, "sk": sk, "max_sq": sq, "max_sk": sk}
    for tensor in TENSORS:
        if p[f"{tensor}_stride_s"] % _LINE_ELEMENTS == 0:
            found |= {f"{tensor}_stride_s": p["d"], f"{tensor}_stride_h": max(sq, sk) * p["d"]}
    return found
