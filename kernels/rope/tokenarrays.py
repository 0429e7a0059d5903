"""Where tokens stand: random sequences, positions and slots for rope, and the elements of its tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

import asmgen as ag
from asmgen.kernels.rope.tensors import heads_of, is_cache
from asmgen.kernels.rows.reference import Array

_FAR = 1 << 20
"""Computed angles take any position."""
_INDEX = {"i32": np.int32, "i64": np.int64}


def random_tokens(random: np.random.Generator, p: ag.Values, seed: int) -> dict[str, Any]:
    """cu_seqlens, positions, offsets and slot_mapping."""
    count = p["s"] if p["varlen"] else (p["b"] - 1) * p["position_stride"] + p["s"]
    index = _INDEX[p["index"]]
    most = _FAR if p["computed"] else p["angles"]
    positions = random.integers(-_FAR if p["computed"] else 0, most, count).astype(index)
    offsets = random.integers(0, max(1, most // 4), count).astype(index)
    slots = random.permutation(max(count, p["slots"]))[:count].astype(index)
    if seed % 3 == 0:
        for values, outside in ((positions, most), (positions, -1), (slots, -1), (slots, p["slots"])):
            values[random.integers(count)] = outside
    return {"cu_seqlens": _sequences(random, p), "positions": positions, "offsets": offsets, "slot_mapping": slots}


def _sequences(random: np.random.Generator, p: ag.Values) -> Array:
    """The first token of each sequence, and the number of all: any lengths that max_s allows."""
    starts = [0]
    for sequence in range(p["b"]):
        left = p["s"] - starts[-1]
        least, most = max(0, left - (p["b"] - 1 - sequence) * p["max_s"]), min(p["max_s"], left)
        starts.append(starts[-1] + int(random.integers(least, most + 1)))
    return np.array(starts, np.int32)


def _tokens(p: ag.Values) -> tuple[Array, Array]:
    """Batch and number of each token: in a build with varlen all are of one batch."""
    batch, number = np.meshgrid(np.arange(1 if p["varlen"] else p["b"]), np.arange(p["s"]), indexing="ij")
    return batch, number


def _of_tokens(p: ag.Values, values: Array) -> Array:
    batch, number = _tokens(p)
    found: Array = values[batch * p["position_stride"] + number].astype(np.int64)
    return found


def positions_of(p: ag.Values, arguments: ag.Values) -> Array:
    """The position of each token."""
    _, number = _tokens(p)
    if p["positions"] == "given":
        found = _of_tokens(p, arguments["positions"])
    elif p["varlen"]:
        starts = arguments["cu_seqlens"]
        found = number - starts[np.searchsorted(starts, number, "right") - 1]
    else:
        found = number
    places: Array = found + (_of_tokens(p, arguments["offsets"]) if p["offsets"] else 0)
    return places


def stored_tokens(p: ag.Values, arguments: ag.Values, name: str) -> Array:
    """Which tokens have a row in a tensor."""
    if not is_cache(p, name):
        return np.ones(_tokens(p)[0].shape, bool)
    slots = _of_tokens(p, arguments["slot_mapping"])
    found: Array = (slots >= 0) & (slots < p["slots"])
    return found


def element_numbers(p: ag.Values, arguments: ag.Values, name: str) -> Array:
    """The number of each element (batch, token, head, column) in the tensor's array."""
    batch, number = _tokens(p)
    rows = batch * p[f"{name}_stride_b"] + number * p[f"{name}_stride_s"]
    if is_cache(p, name):
        rows = _of_tokens(p, arguments["slot_mapping"]) * p[f"{name}_stride_s"]
    head, column = np.meshgrid(np.arange(p[heads_of(name)]), np.arange(p["d"]), indexing="ij")
    found: Array = rows[:, :, None, None] + head * p[f"{name}_stride_h"] + column
    return found
