"""O and LSE of attention-forward in exact residues: softmax without a maximum, which cancels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import asmgen as ag
from asmgen.kernels.attention_forward.problem import visible
from asmgen.kernels.attention_forward.tensors import TENSORS


def attention(p: ag.Values, inputs: Any) -> Mapping[str, Any]:
    """O = (2^S V) / sum 2^S with S = scale log2(e) Q K^T of the visible keys; LSE = ln(2) log2(sum 2^S)."""
    views = {}
    for name in TENSORS:
        if name != "o":
            sizes = (p["b"], *((p["hq"], p["sq"]) if name == "q" else (p["hkv"], p["sk"])), p["d"])
            strides = (*(p[f"{name}_stride_{letter}"] for letter in "bhs"), 1)
            views[name] = inputs[name][_indices(sizes, strides)]
    q = views["q"].reshape(p["b"], p["hkv"], p["hq"] // p["hkv"], p["sq"], p["d"])
    k, v = (views[name].reshape(p["b"], p["hkv"], 1, p["sk"], p["d"]) for name in "kv")
    seen = visible(p)
    nothing = inputs.number(0.0)
    scores = inputs.number(p["softmax_scale"]) * inputs.log2_e * (q @ k.swapaxes(-1, -2))
    shares = scores.exp2().where(seen, nothing)
    total = shares.sum(-1)
    o = (shares @ v) * total.reshape(*total.shape, 1).reciprocal()
    o = o.where(seen.max(axis=1)[:, None], nothing).reshape(p["b"], p["hq"], p["sq"], p["d"])
    found = {"o": o}
    if p["lse"]:
        found["lse"] = (total.log2() * inputs.ln_2).reshape(p["b"], p["hq"], p["sq"])
    return found


def _indices(sizes: Sequence[int], strides: Sequence[int]) -> Any:
    """Where the elements of a tensor lie in its flat array."""
    return sum((np.arange(size).reshape(-1, *[1] * (len(sizes) - 1 - axis)) * stride
                for axis, (size, stride) in enumerate(zip(sizes, strides, strict=True))), np.int64(0))
