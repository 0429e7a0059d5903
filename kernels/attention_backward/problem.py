"""Data for attention-backward with its float64 reference and tolerances derived from the formats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import asmgen as ag
from asmgen.kernels.attention_backward.tensors import OF_KEYS, TENSORS, WRITTEN
from asmgen.kernels.sequences.kept import kept_of_heads
from asmgen.kernels.sequences.lengths import Sequences

CANARY = -123.0  # the value of elements between the rows of what is written; they must keep it
_TYPES: dict[str, tuple[Any, float]] = {"bf16": (ml_dtypes.bfloat16, 2.0**-8), "f16": (np.float16, 2.0**-11)}
"""The numpy type, and the largest relative error of rounding to nearest."""
_LEAST_HALF_UNIT = {"bf16": 2.0**-134, "f16": 2.0**-25}  # of subnormal numbers
_SMALLEST = {"bfloat16": 2.0**-133, "float16": 2.0**-24}  # subnormal numbers
_LEAST_QUERIES = 16  # with fewer queries one would be too large a part of all
_FLUSHED = 2.0**-126  # float32 numbers below may be flushed to 0
_EPSILON = 2.0**-24  # of float32
_FEWEST_KEYS = 128  # of a workgroup that adds to dQ

Array = np.ndarray[Any, Any]


def make_problem(p: ag.Values, seed: int, logits: float = 1.0, nonfinite: bool | None = None) -> ag.Problem:
    """Random normal Q, K, V and dO, with O and LSE as attention-forward rounds them; what is written is full of canaries.

    Q is multiplied by `logits`: large scores leave a softmax of few keys. `nonfinite` adds odd numbers: an eighth of K and V are zeros of
    both signs or subnormal numbers, and where it is true and there are 16 queries, one has a NaN, so that its row of dQ and all rows of dK
    and dV of its head are NaN. In a build with masks a value has it instead, so that all gradients but dV are NaN of queries that see it,
    and nothing else: products with a P or dS of 0 do not meet it.
    """
    random = np.random.default_rng(seed)
    taken, unit = _TYPES[p["dtype"]]
    arguments: dict[str, Any] = {}
    views, selections = {}, {}
    for name in TENSORS:
        sizes = (1 if p["varlen"] else p["b"], *((p["hkv"], p["sk"]) if name in OF_KEYS else (p["hq"], p["sq"])), p["d"])
        strides = (*(p[f"{name}_stride_{letter}"] for letter in "bhs"), 1)
        flat = arguments[name] = np.full(1 + sum(one * (size - 1) for one, size in zip(strides, sizes, strict=True)), CANARY, taken)
        views[name] = np.lib.stride_tricks.as_strided(flat, sizes, tuple(flat.itemsize * one for one in strides))
        if name in WRITTEN:
            selections[name] = np.lib.stride_tricks.as_strided(np.arange(flat.size), sizes, tuple(8 * one for one in strides))
        elif name != "o":
            views[name][...] = (random.standard_normal(sizes, np.float32) * np.float32(logits if name == "q" else 1.0)).astype(taken)
    if nonfinite is not None:
        _put_odd(random, views, nonfinite, "v" if p["causal"] or p["window"] else "q")
    sequences = Sequences.draw(p, random)
    arguments |= sequences.arguments
    if p["dropout"]:
        arguments |= {"p": p["p"], **({"rng_state": np.array([p["seed"], p["offset"]], np.uint64)} if p["rng_state"] else
                                      {"seed": p["seed"], "offset": p["offset"]})}
    sinks: Array | None = random.standard_normal((p["hq"],), np.float32) if p["sink"] else None
    if sinks is not None:
        arguments |= {"sink": sinks, "dsink": np.full(p["hq"], CANARY, np.float32)}
    lse = arguments["lse"] = np.full((sizes[0], p["hq"], p["sq"]), np.nan, np.float32)
    for number, (one, queries, keys) in enumerate(sequences.each(p)):
        forward = Scores.of(one, _of_sequence(views, queries, keys), sinks)
        views["o"][:, :, queries] = forward.out(one, views["v"][:, :, keys], _left_by_dropout(one, number)).astype(taken)
        lse[:, :, queries] = forward.lse
    for argument in ("b", "hq", "hkv", "sq", "sk", "softmax_scale"):
        arguments[argument] = p[argument]
    arguments |= {"left": p["left"], "right": p["right"]}
    strided = "sh" if p["varlen"] else "bsh"
    arguments |= {f"{name}_stride_{letter}": p[f"{name}_stride_{letter}"] for name in TENSORS for letter in strided}
    inputs = {name: view.astype(np.float64) for name, view in views.items() if name not in WRITTEN}
    whole = 2 if p["rounding"] == "truncated" else 1  # operands are off by a whole unit where they are cut

    def expected() -> tuple[ag.Output, ...]:
        parts: dict[str, list[tuple[Array, ...]]] = {name: [] for name in WRITTEN}
        for number, (one, queries, keys) in enumerate(sequences.each(p)):
            found = gradients(one, _of_sequence(inputs, queries, keys), lse[:, :, queries], whole * unit,
                              whole * _LEAST_HALF_UNIT[p["dtype"]], _left_by_dropout(one, number))
            for name, (value, tolerance) in found.items():
                rounded = tolerance + np.maximum(unit * (np.abs(value) + tolerance), _LEAST_HALF_UNIT[p["dtype"]])
                parts[name].append((value, rounded, selections[name][:, :, keys if name in OF_KEYS else queries]))
        of_sinks = []
        if sinks is not None:
            changes = [sink_gradient(_of_sequence(inputs, queries, keys), lse[:, :, queries], sinks)
                       for _, queries, keys in sequences.each(p)]
            value, tolerance = (np.sum(some, axis=0) for some in zip(*changes, strict=True))
            of_sinks = [ag.Output("dsink", value, tolerance)]
        joined = {name: [np.concatenate(some, axis=2) for some in zip(*found, strict=True)] for name, found in parts.items()}
        return (*(ag.Output(name, value, tolerance, (places,)) for name, (value, tolerance, places) in joined.items()), *of_sinks)

    return ag.Problem(arguments, expected)


def _left_by_dropout(p: ag.Values, number: int) -> Array | float:
    """The factors that dropout puts on P, 0 or 1 / (1 - p); 1 in a build without. `number` is that of the first batch."""
    return kept_of_heads(p, number) / float(1 - np.float32(p["p"])) if p["dropout"] else 1.0


def _of_sequence(tensors: dict[str, Array], queries: slice, keys: slice) -> dict[str, Array]:
    """The rows of one sequence."""
    return {name: tensor[:, :, keys if name in OF_KEYS else queries] for name, tensor in tensors.items()}


def _put_odd(random: np.random.Generator, views: dict[str, Array], nonfinite: bool, bad: str) -> None:
    """Put odd numbers into K and V, and a NaN into the tensor `bad` if `nonfinite`."""
    q = views["q"]
    for name in "kv":
        chosen = np.asarray(random.random(views[name].shape) < 1 / 8)
        small = _SMALLEST[views[name].dtype.name]
        views[name][chosen] = random.choice(np.array([0.0, -0.0, small, -3 * small]).astype(q.dtype), int(chosen.sum()))
    if nonfinite and q[..., 0].size >= _LEAST_QUERIES:
        views[bad][tuple(random.integers(size) for size in views[bad].shape)] = np.nan


def visible(p: ag.Values) -> Array:
    """The keys [sk] that each query [sq] sees, aligned at the bottom right: the last query's own key is the last key."""
    after = np.arange(p["sk"])[None, :] - (np.arange(p["sq"])[:, None] + p["sk"] - p["sq"])
    seen = np.ones(after.shape, bool)
    right = 0 if p["causal"] else p["right"]
    if right >= 0:
        seen &= after <= right
    if p["left"] >= 0:
        seen &= -after <= p["left"]
    return seen


@dataclass(frozen=True)
class Scores:
    """Scores [b, hkv, group, sq, sk] in float64, -infinity where a key is not seen, and LSE [b, hq, sq]."""

    scores: Array
    lse: Array

    @staticmethod
    def of(p: ag.Values, views: dict[str, Array], sinks: Array | None = None) -> Scores:
        """Those of q [b, hq, sq, d] and k [b, hkv, sk, d]; a sink [hq] is one more term of LSE."""
        q, keys = grouped(p, views["q"]), views["k"].astype(np.float64)[:, :, None]
        with np.errstate(invalid="ignore", divide="ignore"):
            scores = np.where(visible(p), float(np.float32(p["softmax_scale"])) * (q @ keys.swapaxes(-1, -2)), -np.inf)
            largest = scores.max(axis=-1, keepdims=True, initial=-np.inf)
            largest = np.where(largest == -np.inf, 0.0, largest)
            of_sink = 0.0 if sinks is None else np.exp(sinks.astype(np.float64).reshape(p["hkv"], -1, 1, 1) - largest)
            lse = (np.log(np.exp(scores - largest).sum(axis=-1, keepdims=True) + of_sink) + largest)[..., 0]
        return Scores(scores, lse.reshape(p["b"], p["hq"], p["sq"]))

    def shares(self, lse: Array) -> Array:
        """P; 0 for a query that sees nothing."""
        shape = (*self.scores.shape[:-1], 1)
        at = np.where(lse == -np.inf, np.inf, lse).astype(np.float64).reshape(shape)
        with np.errstate(invalid="ignore", over="ignore"):
            return np.asarray(np.where(self.scores == -np.inf, 0.0, np.exp(self.scores - at)))

    def out(self, p: ag.Values, v: Array, left: Array | float) -> Array:
        """O [b, hq, sq, d], where P has the factors `left`. A NaN of V is seen by those who see its key."""
        values, bad = (one[:, :, None] for one in (v.astype(np.float64), np.isnan(v)))
        with np.errstate(invalid="ignore"):
            found = np.where(left == 0, 0.0, self.shares(self.lse) * left) @ np.where(bad, 0.0, values)
            found = np.where(visible(p).astype(float) @ bad > 0, np.nan, found)
        return np.asarray(found.reshape(*self.lse.shape, v.shape[-1]))


def grouped(p: ag.Values, tensor: Array) -> Array:
    """A tensor of queries [b, hq, sq, d] as [b, hkv, group, sq, d] in float64."""
    return tensor.astype(np.float64).reshape(p["b"], p["hkv"], p["hq"] // p["hkv"], p["sq"], p["d"])


def gradients(p: ag.Values, inputs: dict[str, Array], lse: Array, unit: float, least: float,
              left: Array | float = 1.0) -> dict[str, tuple[Array, Array]]:
    """dQ, dK and dV for what the kernel gets, O and LSE too, each with its tolerance before it is rounded.

    P and dS are rounded as operands: relative error `unit`, or `least` if subnormal. float32 terms: a score is off by (d + 4) 2^-24 of the
    magnitudes that its accumulator goes through, which begins at LSE; P by that much of itself, and 2^-21 for exp2 and its factor; dP and
    delta by (d + 4) 2^-24 of their magnitudes; a sum over n products by (n + 4) 2^-24 of theirs. Dropout puts the factors `left` on P
    and on dP; the kernel rounds dS without 1 / (1 - p), so a subnormal one is off by that much more.
    """
    q, out, grad = (grouped(p, inputs[name]) for name in ("q", "o", "do"))
    keys, values = inputs["k"][:, :, None], inputs["v"][:, :, None]
    scale, d = float(np.float32(p["softmax_scale"])), p["d"]
    kept_scale = 1 / float(1 - np.float32(p["p"])) if p["dropout"] else 1.0
    with np.errstate(invalid="ignore", over="ignore"):
        shares = Scores.of(p, inputs).shares(lse)
        level = np.abs(np.where(np.isfinite(lse), lse, 0.0)).reshape(*shares.shape[:-1], 1)
        delta = (grad * out).sum(axis=-1, keepdims=True)
        change = np.where(left == 0, 0.0, left * (grad @ values.swapaxes(-1, -2))) - delta
        seen = visible(p)
        slope = np.where(seen, shares * change, 0.0)
        moved = (d + 4) * _EPSILON * (scale * (np.abs(q) @ np.abs(keys).swapaxes(-1, -2)) + level) + 8 * _EPSILON
        share_off = shares * moved
        change_size = left * (np.abs(grad) @ np.abs(values).swapaxes(-1, -2)) + (np.abs(grad) * np.abs(out)).sum(axis=-1, keepdims=True)
        slope_off = share_off * np.abs(change) + shares * (d + 4) * _EPSILON * change_size + 2 * _EPSILON * np.abs(slope)
        slope_off = np.where(seen, slope_off, 0.0)
        share_off = (share_off + np.maximum(unit * (shares + share_off), least * (shares > 0))) * left
        slope_off = slope_off + np.maximum(unit * (np.abs(slope) + slope_off), least * kept_scale * (shares > 0)) + _FLUSHED
        shares = np.where(left == 0, 0.0, shares * left)
        found = {
            "dq": (scale * (slope @ keys), scale * _sum_off(slope, slope_off, np.abs(keys), p["sk"])),
            "dk": (scale * (slope.swapaxes(-1, -2) @ q).sum(axis=2),
                   scale * _sum_off(slope.swapaxes(-1, -2), slope_off.swapaxes(-1, -2), np.abs(q), p["sq"] * p["hq"]).sum(axis=2)),
            "dv": ((shares.swapaxes(-1, -2) @ grad).sum(axis=2),
                   _sum_off(shares.swapaxes(-1, -2), share_off.swapaxes(-1, -2), np.abs(grad), p["sq"] * p["hq"]).sum(axis=2)),
        }
    shape = (p["b"], p["hq"], p["sq"], d)
    if p["dq_type"] == "bf16":  # each workgroup's sum is rounded, and so is each addition of it
        value, off = found["dq"]
        found["dq"] = value, off + (1 + -(-p["sk"] // _FEWEST_KEYS)) * _TYPES["bf16"][1] * (scale * (np.abs(slope) @ np.abs(keys)) + off)
    return {name: (value.reshape(shape), off.reshape(shape)) if name == "dq" else (value, off) for name, (value, off) in found.items()}


def sink_gradient(inputs: dict[str, Array], lse: Array, sinks: Array) -> tuple[Array, Array]:
    """dsink [hq] with its tolerance: a share is off by 2^-22 of its exponent, delta by (d + 4) 2^-24 of its magnitudes, and so is a sum."""
    score, count, d = sinks.astype(np.float64).reshape(1, -1, 1), lse.shape[0] * lse.shape[2], inputs["q"].shape[-1]
    with np.errstate(invalid="ignore", over="ignore"):
        share = np.exp(score - np.where(lse == -np.inf, np.inf, lse))
        delta, size = (inputs["do"] * inputs["o"]).sum(axis=-1), np.abs(inputs["do"] * inputs["o"]).sum(axis=-1)
        level = 1 + np.abs(score) + np.abs(np.where(np.isfinite(lse), lse, 0.0))
        off = share * size * (4 * level + d + 4 + count) * _EPSILON
        return -(share * delta).sum(axis=(0, 2)), off.sum(axis=(0, 2)) + _FLUSHED


def _sum_off(left: Array, off: Array, right: Array, count: int) -> Array:
    """The error of a sum of products of `left`, each off by `off`, with `right`, which are magnitudes."""
    return np.asarray((off + (count + 4) * _EPSILON * np.abs(left)) @ right + _FLUSHED * count)
