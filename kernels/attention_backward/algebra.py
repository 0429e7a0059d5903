"""dQ, dK and dV in exact residues: P = 2^S / sum 2^S without a maximum, with the LSE that a forward pass gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import asmgen as ag
from asmgen.kernels.attention_backward.problem import visible
from asmgen.kernels.attention_backward.tensors import OF_KEYS
from asmgen.kernels.sequences.kept import kept_of_heads
from asmgen.kernels.sequences.lengths import Sequences


def gradients(p: ag.Values, inputs: Any) -> Mapping[str, Any]:
    """dS = P (dO V^T - sum of dO O); dQ = scale dS K, dK = scale dS^T Q, dV = P^T dO. A sink is one more term of sums. Dropout puts 0 or
    1 / (1 - p) on P where dV is made, and on dO V^T."""
    views = {name: _rows(p, inputs, name) for name in ("q", "k", "v", "o", "do")}
    sequences = Sequences.of(p, inputs.arguments)
    parts = [_of_batches(one, number, inputs, {name: view[:, :, keys if name in OF_KEYS else queries] for name, view in views.items()})
             for number, (one, queries, keys) in enumerate(sequences.each(p))]
    found = {name: parts[0][name].joined([one[name] for one in parts], 2) for name in parts[0]}
    inputs.give("lse", _with_padding(p, sequences, found.pop("lse")))
    if p["sink"]:
        found["dsink"] = (inputs.number(0.0) - found["dsink"].sum(2)).sum(0)
    return found


def _of_batches(p: ag.Values, number: int, inputs: Any, views: Mapping[str, Any]) -> dict[str, Any]:
    """Gradients and LSE of batches of one length, the first of which is `number`; of dsink the terms [b, hq, sq]."""
    groups = p["hq"] // p["hkv"]
    q, o, do = (views[name].reshape(p["b"], p["hkv"], groups, p["sq"], p["d"]) for name in ("q", "o", "do"))
    k, v = (views[name].reshape(p["b"], p["hkv"], 1, p["sk"], p["d"]) for name in "kv")
    scale, nothing = inputs.number(p["softmax_scale"]), inputs.number(0.0)
    seen = visible(p)
    shares = (scale * inputs.log2_e * (q @ k.swapaxes(-1, -2))).exp2().where(seen, nothing)
    total = shares.sum(-1)
    delta = (do * o).sum(-1)
    found = {}
    if p["sink"]:
        of_sink = (inputs["sink"] * inputs.log2_e).exp2().reshape(1, p["hkv"], groups, 1)
        total = total + of_sink
        found["dsink"] = (of_sink * total.reciprocal() * delta).reshape(p["b"], p["hq"], p["sq"])
    shares = (shares * total.reshape(*total.shape, 1).reciprocal()).where(seen, nothing)
    weights, changes = shares, do @ v.swapaxes(-1, -2)
    if p["dropout"]:
        left = inputs.number(kept_of_heads(p, number)) * (inputs.number(1.0) - inputs.number(p["p"])).reciprocal()
        weights, changes = left * weights, left * changes
    slopes = (shares * (changes - delta.reshape(*total.shape, 1))).where(seen, nothing)
    return found | {
        "dq": (scale * (slopes @ k)).reshape(p["b"], p["hq"], p["sq"], p["d"]),
        "dk": scale * (slopes.swapaxes(-1, -2) @ q).sum(2),
        "dv": (weights.swapaxes(-1, -2) @ do).sum(2),
        "lse": (total.log2() * inputs.ln_2).reshape(p["b"], p["hq"], p["sq"]),
    }


def _with_padding(p: ag.Values, sequences: Sequences, lse: Any) -> Any:
    """LSE of all rows from that of the rows that count; padding has the one of any row."""
    if not p["varlen"]:
        return lse
    places = np.zeros(p["sq"], np.int64)
    done = 0
    for one in sequences.queries:
        places[one.rows] = np.arange(done, done + one.count)
        done += one.count
    return lse[:, :, places]


def _rows(p: ag.Values, inputs: Any, name: str) -> Any:
    """A tensor [b, heads, s, d] of its flat array; one batch where lengths vary."""
    sizes = (1 if p["varlen"] else p["b"], *((p["hkv"], p["sk"]) if name in OF_KEYS else (p["hq"], p["sq"])), p["d"])
    strides = (*(p[f"{name}_stride_{letter}"] for letter in "bhs"), 1)
    axes = np.ix_(*(np.arange(size) * stride for size, stride in zip(sizes, strides, strict=True)))
    return inputs[name][axes[0] + axes[1] + axes[2] + axes[3]]
