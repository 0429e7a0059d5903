"""dQ, dK and dV in exact residues: P = 2^S / sum 2^S without a maximum, with the LSE that a forward pass gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import asmgen as ag
from asmgen.kernels.attention_backward.problem import visible
from asmgen.kernels.attention_backward.tensors import OF_KEYS


def gradients(p: ag.Values, inputs: Any) -> Mapping[str, Any]:
    """dS = P (dO V^T - sum of dO O); dQ = scale dS K, dK = scale dS^T Q, dV = P^T dO."""
    groups = p["hq"] // p["hkv"]
    q, o, do = (_rows(p, inputs, name).reshape(p["b"], p["hkv"], groups, p["sq"], p["d"]) for name in ("q", "o", "do"))
    k, v = (_rows(p, inputs, name).reshape(p["b"], p["hkv"], 1, p["sk"], p["d"]) for name in "kv")
    scale, nothing = inputs.number(p["softmax_scale"]), inputs.number(0.0)
    seen = visible(p)
    shares = (scale * inputs.log2_e * (q @ k.swapaxes(-1, -2))).exp2().where(seen, nothing)
    total = shares.sum(-1)
    inputs.give("lse", (total.log2() * inputs.ln_2).reshape(p["b"], p["hq"], p["sq"]))
    shares = (shares * total.reshape(*total.shape, 1).reciprocal()).where(seen, nothing)
    change = do @ v.swapaxes(-1, -2) - (do * o).sum(-1).reshape(*total.shape, 1)
    slopes = (shares * change).where(seen, nothing)
    of_keys = {"dk": scale * (slopes.swapaxes(-1, -2) @ q).sum(2), "dv": (shares.swapaxes(-1, -2) @ do).sum(2)}
    return of_keys | {"dq": (scale * (slopes @ k)).reshape(p["b"], p["hq"], p["sq"], p["d"])}


def _rows(p: ag.Values, inputs: Any, name: str) -> Any:
    """A tensor [b, heads, s, d] of its flat array."""
    sizes = (p["b"], *((p["hkv"], p["sk"]) if name in OF_KEYS else (p["hq"], p["sq"])), p["d"])
    strides = (*(p[f"{name}_stride_{letter}"] for letter in "bhs"), 1)
    axes = np.ix_(*(np.arange(size) * stride for size, stride in zip(sizes, strides, strict=True)))
    return inputs[name][axes[0] + axes[1] + axes[2] + axes[3]]
