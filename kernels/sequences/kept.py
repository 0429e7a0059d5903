"""What dropout keeps, typed from docs/facts/draws.md section 2: the reference of problems."""

from __future__ import annotations

from typing import Any

import numpy as np

import asmgen as ag
from asmgen.kernels.rows.reference import philox

Array = np.ndarray[Any, Any]


def kept(p: ag.Values, number: int, queries: int, keys: int) -> Array:
    """Which elements [queries, keys] of head `number`, counted over all batches, stay."""
    row, column = np.meshgrid(np.arange(queries), np.arange(keys), indexing="ij")
    within = row % 32
    lane = column % 32 + 32 * (within // 8 % 2)
    byte = 8 * (within // 16) + within % 8
    count = (int(p["offset"]) + 64 * number + lane.astype(object)) % (1 << 64)
    low, high = (count & 0xFFFFFFFF).astype(np.uint64), (count >> 32).astype(np.uint64)
    words = philox((low, high, row // 32, column // 32), (int(p["seed"]) & 0xFFFFFFFF, int(p["seed"]) >> 32), 7)
    drawn = np.choose(byte // 4, words) >> (8 * (byte % 4)).astype(np.uint64) & np.uint64(0xFF)
    share = np.float32(1) - np.float32(p["p"])
    return np.asarray(drawn <= np.uint64(np.floor(np.float32(255) * share)))


def kept_of_heads(p: ag.Values, first: int) -> Array:
    """Those of `b` batches of a launch, [b, hkv, group, sq, sk]; `first` is the number of the first of them."""
    heads = [kept(p, first * p["hq"] + number, p["sq"], p["sk"]) for number in range(p["b"] * p["hq"])]
    return np.stack(heads).reshape(p["b"], p["hkv"], p["hq"] // p["hkv"], p["sq"], p["sk"])
