"""O and LSE of attention-forward in exact residues: softmax without a maximum, which cancels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import asmgen as ag
from asmgen.kernels.attention_forward.problem import visible
from asmgen.kernels.attention_forward.tensors import TENSORS
from asmgen.kernels.sequences.kept import kept_of_heads
from asmgen.kernels.sequences.lengths import Sequences

_HUGE, _EXPONENT = 2.0**26, 27  # a score from which on a power of two takes the place of the factor; the exponent that it then has


def attention(p: ag.Values, inputs: Any) -> Mapping[str, Any]:
    """O = (2^S V) / sum 2^S with S = scale log2(e) Q K^T of the visible keys; LSE = ln(2) log2(sum 2^S). A sink is one more term of
    sums. Dropout puts 0 or 1 / (1 - p) on 2^S before V. Where scores are huge, another factor than scale log2(e) is between a score and
    the maximum m."""
    views, numbers = {}, {}
    for name in TENSORS:
        if name != "o":
            sizes = (1 if p["varlen"] else p["b"], *((p["hq"], p["sq"]) if name == "q" else (p["hkv"], p["sk"])), p["d"])
            strides = (*(p[f"{name}_stride_{letter}"] for letter in "bhs"), 1)
            places = _indices(sizes, strides)
            views[name], numbers[name] = inputs[name][places], inputs.arguments[name][places]
    parts = [_of_batches(one, number, inputs, views["q"][:, :, queries], views["k"][:, :, keys], views["v"][:, :, keys],
                         _Large.of(one, numbers["q"][:, :, queries], numbers["k"][:, :, keys]))
             for number, (one, queries, keys) in enumerate(Sequences.of(p, inputs.arguments).each(p))]
    o, lse = (some[0].joined(some, 2) for some in zip(*parts, strict=True))
    return {"o": o, "lse": lse} if p["lse"] else {"o": o}


@dataclass(frozen=True)
class _Large:
    """Of queries [b, hkv, group, sq, 1] with scores beyond 2^26, by the floats of the run: where they are, the exponent of the power of
    two that takes the place of softmax_scale log2(e) there, and the key with the largest score. Right where all maxima of a query have one
    exponent."""

    here: Any
    power: Any
    key: Any

    @classmethod
    def of(cls, p: ag.Values, q: Any, k: Any) -> _Large | None:
        """None where no query has such scores."""
        if not (q.size and k.size) or (p["scale"] == "folded" and not p["window"]):
            return None
        factor = p["softmax_scale"] / np.log(2)
        q, k = (one.astype(np.float64) for one in (q, k))
        if not np.abs(q).max() * np.abs(k).max() * q.shape[-1] * factor >= _HUGE:
            return None
        scores = q.reshape(p["b"], p["hkv"], -1, p["sq"], p["d"]) @ k[:, :, None].swapaxes(-1, -2)
        unit = factor if p["scale"] == "folded" else 1.0  # of the scores that the kernel holds
        scores = np.where(visible(p), unit * scores, -np.inf)
        maximum = np.maximum(scores.max(-1, keepdims=True), np.finfo(np.float32).min)
        return cls(np.abs(maximum) * factor / unit >= _HUGE, _EXPONENT - np.frexp(maximum)[1], scores.argmax(-1)[..., None])

    def scores(self, usual: Any, held: Any) -> Any:
        """m + g (s - m) with the scores s that the kernel holds, times the power of two g, and m in units of log2; else the usual ones."""
        *axes, _ = np.ogrid[tuple(map(slice, held.shape))]
        place = (*axes, self.key)
        return (usual[place] + held.scaled(self.power) - held[place].scaled(self.power)).where(self.here, usual)


def _of_batches(p: ag.Values, number: int, inputs: Any, q: Any, k: Any, v: Any, large: _Large | None) -> tuple[Any, Any]:
    """O and LSE of batches of one length, the first of which is `number`."""
    q = q.reshape(p["b"], p["hkv"], p["hq"] // p["hkv"], p["sq"], p["d"])
    k, v = (one.reshape(p["b"], p["hkv"], 1, p["sk"], p["d"]) for one in (k, v))
    seen = visible(p)
    nothing = inputs.number(0.0)
    scores = inputs.number(p["softmax_scale"]) * inputs.log2_e * (q @ k.swapaxes(-1, -2))
    if large is not None:
        scores = large.scores(scores, q @ k.swapaxes(-1, -2) if p["scale"] == "exact" else scores)
    shares = scores.exp2().where(seen, nothing)
    total = shares.sum(-1)
    if p["sink"]:
        total = total + (inputs["sink"] * inputs.log2_e).exp2().reshape(1, p["hkv"], -1, 1)
    if p["dropout"]:
        shares = inputs.number(kept_of_heads(p, number)) * (inputs.number(1.0) - inputs.number(p["p"])).reciprocal() * shares
    o = (shares @ v) * total.reshape(*total.shape, 1).reciprocal()
    if not p["sink"]:  # whose sum without keys is 0
        o = o.where(np.asarray(seen.any(axis=1))[:, None], nothing)
    o = o.reshape(p["b"], p["hq"], p["sq"], p["d"])
    return o, (total.log2() * inputs.ln_2).reshape(p["b"], p["hq"], p["sq"])


def _indices(sizes: Sequence[int], strides: Sequence[int]) -> Any:
    """Where the elements of a tensor lie in its flat array."""
    return sum((np.arange(size).reshape(-1, *[1] * (len(sizes) - 1 - axis)) * stride
                for axis, (size, stride) in enumerate(zip(sizes, strides, strict=True))), np.int64(0))
