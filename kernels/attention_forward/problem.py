"""Data for attention-forward with its float64 reference and tolerances derived from the formats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import asmgen as ag
from asmgen.kernels.attention_forward.tensors import TENSORS
from asmgen.kernels.sequences.kept import kept_of_heads
from asmgen.kernels.sequences.lengths import Sequences

CANARY = -123.0  # the value of elements between the rows of O; they must keep it
LSE_ERROR = 1e-5  # of max(1, |LSE|)
_TYPES: dict[str, tuple[Any, float]] = {"bf16": (ml_dtypes.bfloat16, 2.0**-8), "f16": (np.float16, 2.0**-11)}
"""The numpy type, and the largest relative error of rounding to nearest."""
_LEAST_HALF_UNIT = {"bf16": 2.0**-134, "f16": 2.0**-25}  # of subnormal numbers
_SMALLEST = {"bfloat16": 2.0**-133, "float16": 2.0**-24}  # subnormal numbers
_LARGE_SPREAD = 4.0  # standard deviation of scores
_RISE = 1 / 128  # the growth of keys, from one to the next
_LEAST_QUERIES = 16  # with fewer queries one would be too large a part of all
_FLUSHED = 2.0**-126  # float32 numbers below may be flushed to 0: products with a row of V, and their sum
_HUGE = {"bfloat16": 2.0**90}  # of the types that have one
_TALL = 16.0  # elements of strained queries
_LARGE = {"bfloat16": 2.0**30, "float16": 2.0**12}  # scores are 64 to 128 times the square
_ALIKE, _APART = (12.0, 8.0), 5.0  # of Q and K, an element with a product of 96; the deviation of the sum of all others
_EPSILON = 2.0**-24  # of float32
_LOG2_E = np.float32(1.4426950408889634)

Array = np.ndarray[Any, Any]


def make_problem(p: ag.Values, seed: int, logits: float = 1.0, nonfinite: bool | None = None) -> ag.Problem:
    """Random normal Q, K and V; O and LSE are full of canaries. Q is multiplied by `logits`: large scores leave a softmax of few keys.

    |O - ref| <= u sum(p|v|)/l + u_out |O| + float32 terms, |LSE - ref| <= 1e-5 max(1, |LSE|). u is the rounding error of p in the
    type that the second product takes, u_out that of O; for a subnormal O it is half a subnormal unit. The float32 terms: the error of a
    score is (d + 2) 2^-24 sum|q||k|, that of its exponent 2^-22 of its size, which changes p relative to the sum; that of products and sums
    of up to sk terms is sk 2^-24. A query with a single element has exact scores, with exact distances from the maximum. If the scale is
    folded into Q, the reference takes the rounded Q. `nonfinite` adds odd numbers (`_put_odd`).
    """
    random = np.random.default_rng(seed)
    taken, unit = _TYPES[p["dtype"]]
    arguments: dict[str, Any] = {}
    views = {}
    for name in TENSORS:
        sizes = (1 if p["varlen"] else p["b"], *((p["hq"], p["sq"]) if name in "qo" else (p["hkv"], p["sk"])), p["d"])
        strides = (*(p[f"{name}_stride_{letter}"] for letter in "bhs"), 1)
        flat = arguments[name] = np.full(_elements(sizes, strides), CANARY, taken)
        if name != "o":
            views[name] = np.lib.stride_tricks.as_strided(flat, sizes, tuple(flat.itemsize * stride for stride in strides))
            data = random.standard_normal(sizes, np.float32) * np.float32(logits if name == "q" else 1.0)
            views[name][...] = data.astype(taken)
    if nonfinite is not None and not ag.huge(seed):
        _put_odd(random, views, nonfinite, p["softmax_scale"] * p["d"]**0.5)
    if ag.strained(seed):
        _strain(random, views, p["softmax_scale"])
    if ag.huge(seed):
        _enlarge(views)
    sequences = Sequences.draw(p, random)
    arguments |= sequences.arguments
    sinks: Array | None = random.standard_normal((p["hq"],), np.float32) if p["sink"] else None
    if sinks is not None:
        arguments["sink"] = sinks
    if p["dropout"]:
        arguments |= {"p": p["p"], **({"rng_state": np.array([p["seed"], p["offset"]], np.uint64)} if p["rng_state"] else
                                      {"seed": p["seed"], "offset": p["offset"]})}
    lse = arguments["lse"] = np.full((sizes[0], p["hq"], p["sq"]) if p["lse"] else (1, 1, 1), CANARY, np.float32)
    for argument in ("b", "hq", "hkv", "sq", "sk", "softmax_scale", "left", "right"):
        arguments[argument] = p[argument]
    strided = "sh" if p["varlen"] else "bsh"
    arguments |= {f"{name}_stride_{letter}": p[f"{name}_stride_{letter}"] for name in TENSORS for letter in strided}
    unwritten = lse.astype(np.float64)

    def expected() -> tuple[ag.Output, ...]:
        positions = np.lib.stride_tricks.as_strided(np.arange(flat.size), sizes, tuple(8 * stride for stride in strides))
        whole = 2 if p["rounding"] == "truncated" else 1  # operands are off by a whole unit where they are cut
        parts = []
        for number, (one, queries, keys) in enumerate(sequences.each(p)):
            mask = kept_of_heads(one, number) if p["dropout"] else None
            found = reference(one, views["q"][:, :, queries], views["k"][:, :, keys], views["v"][:, :, keys],
                              whole * unit, whole * _LEAST_HALF_UNIT[p["dtype"]], sinks, mask)
            tolerance = found.tolerance + np.maximum(unit * (np.abs(found.o) + found.tolerance), _LEAST_HALF_UNIT[p["dtype"]])
            parts.append((found.o, tolerance + _FLUSHED * (one["sk"] + 1), found.lse, positions[:, :, queries],
                          np.arange(unwritten.size).reshape(unwritten.shape)[:, :, queries]))
        o, tolerance, expected_lse, places, lse_places = (np.concatenate(some, axis=2) for some in zip(*parts, strict=True))
        if not p["lse"]:
            return ag.Output("o", o, tolerance, (places,)), ag.Output("lse", unwritten)
        lse_tolerance = LSE_ERROR * np.maximum(1.0, np.abs(np.where(np.isfinite(expected_lse), expected_lse, 0.0)))
        chosen = np.unravel_index(lse_places, unwritten.shape)
        return ag.Output("o", o, tolerance, (places,)), ag.Output("lse", expected_lse, lse_tolerance, chosen)

    return ag.Problem(arguments, expected)


def _put_odd(random: np.random.Generator, views: dict[str, Array], nonfinite: bool, spread: float) -> None:
    """Put odd numbers into the data. An eighth of K and V are zeros of both signs or subnormal numbers.

    With `nonfinite` and at least 16 queries, one query has a NaN, so that its rows of O and LSE are NaN. Infinities would make a NaN of
    each key that is hidden or far from its row's maximum. Another query, of bf16, has a single element of 2^90, so that its scores are huge
    and exact. If the `spread` of scores is large, so that few keys count, later keys are larger: each step then raises the maximum of some
    query.
    """
    q, k = views["q"], views["k"]
    if spread > _LARGE_SPREAD:
        k *= (1 + _RISE * np.arange(k.shape[2]))[:, None].astype(k.dtype)
    if nonfinite and q[..., 0].size >= _LEAST_QUERIES:
        position = tuple(random.integers(size) for size in q.shape)
        q[position] = np.nan
        if q.dtype.name in _HUGE and q.shape[2] > 1:
            row = (*position[:2], (position[2] + 1) % q.shape[2])
            q[row] = 0
            q[(*row, position[3])] = _HUGE[q.dtype.name]
    for name in "kv":
        chosen = np.asarray(random.random(views[name].shape) < 1 / 8)
        small = _SMALLEST[views[name].dtype.name]
        views[name][chosen] = random.choice(np.array([0.0, -0.0, small, -3 * small]).astype(q.dtype), int(chosen.sum()))


def _strain(random: np.random.Generator, views: dict[str, Array], scale: float) -> None:
    """Each query has some keys whose scores are 200 to 600 above those of all others, each by another number, in any order."""
    q, k = views["q"], views["k"]
    queries, keys = np.arange(q.shape[2]), np.arange(k.shape[2])
    q[:, :, queries, queries % q.shape[3]] = _TALL
    k[:, :, keys, random.permutation(keys) % q.shape[3]] = random.uniform(200, 600, k.shape[:3]) / (_TALL * scale)


def _enlarge(views: dict[str, Array]) -> None:
    """Scores that lie between one power of two and the next, far apart from each other: all maxima of a query have one exponent."""
    for name, first in zip("qk", _ALIKE, strict=True):
        view = views[name]
        size = view.dtype.type(_LARGE[view.dtype.name])
        view *= size * view.dtype.type(_APART**0.5 / view.shape[-1]**0.25)
        view[..., 0] = view.dtype.type(first) * size


def _elements(sizes: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """The values from the first to the last one."""
    return 1 + sum(stride * (size - 1) for stride, size in zip(strides, sizes, strict=True))


@dataclass(frozen=True)
class Reference:
    """O [b, hq, sq, d] and LSE [b, hq, sq] in float64. `tolerance` is that of O before it is rounded to its type."""

    o: Array
    lse: Array
    tolerance: Array


def visible(p: ag.Values) -> Array:
    """The keys [sk] that each query [sq] sees, aligned at the bottom right: the last query's own key is the last key."""
    own = np.arange(p["sq"])[:, None] + p["sk"] - p["sq"]
    key = np.arange(p["sk"])[None, :]
    seen = np.ones((p["sq"], p["sk"]), bool)
    right = 0 if p["causal"] else p["right"]
    if right >= 0:
        seen &= key <= own + right
    if p["left"] >= 0:
        seen &= key >= own - p["left"]
    return seen


def reference(p: ag.Values, q: Array, k: Array, v: Array, rounding: float, least: float, sinks: Array | None = None,
              kept: Array | None = None) -> Reference:
    """The result for q [b, hq, sq, d], k and v [b, hkv, sk, d], with the tolerance of O. p is rounded with the relative error `rounding`,
    or the absolute error `least` if it is subnormal. A query without visible keys has O = 0 and LSE = -inf, or that of its sink [hq].
    Dropout leaves the elements of P that are `kept` [b, hkv, group, sq, sk], times 1 / (1 - p), and so their rounding errors; others
    are 0, NaN too."""
    b, hq, sq, d = q.shape
    group = hq // k.shape[1]
    scale = float(np.float32(p["softmax_scale"]))
    if p["scale"] == "folded":
        q, scale = (q.astype(np.float32) * (np.float32(scale) * _LOG2_E)).astype(q.dtype), np.log(2.0)
    grouped = q.astype(np.float64).reshape(b, k.shape[1], group, sq, d)
    keys, values = k.astype(np.float64)[:, :, None], v.astype(np.float64)[:, :, None]
    seen = visible(p)
    scores = np.where(seen, scale * (grouped @ keys.swapaxes(-1, -2)), -np.inf)
    sink = np.full((1, k.shape[1], group, 1, 1), -np.inf) if sinks is None else sinks.astype(np.float64).reshape(1, k.shape[1], group, 1, 1)
    largest = np.maximum(scores.max(axis=-1, keepdims=True, initial=-np.inf), sink)
    base = np.where(np.isfinite(largest), largest, 0.0)
    shares, of_sink = np.exp(scores - base), np.exp(sink - base)
    total = shares.sum(axis=-1, keepdims=True) + of_sink
    with np.errstate(divide="ignore"):
        lse = (np.log(total) + largest)[..., 0]
    shares /= np.where(total > 0, total, 1.0)
    factors = seen if kept is None else np.where(kept & seen, 1 / float(1 - np.float32(p["p"])), 0.0)
    left = np.where(factors == 0, 0.0, shares * factors)
    o, magnitude = left @ values, left @ np.abs(values)
    sizes = np.abs(np.where(seen, scores, 0.0)) + np.abs(base)
    off = (d + 2) * _EPSILON * scale * (np.abs(grouped) @ np.abs(keys).swapaxes(-1, -2)) + 4 * _EPSILON * (1 + sizes)
    if p["scale"] == "exact":  # a score of a single product is exact, and so is its distance from the maximum
        below = np.where(seen, base - scores, 0.0)
        off = np.where(np.count_nonzero(grouped, axis=-1, keepdims=True) == 1, 4 * _EPSILON * (1 + below), off)
    moved, moved_left = shares * off, left * off
    all_moved = moved.sum(axis=-1, keepdims=True) + of_sink / np.where(total > 0, total, 1.0) * 4 * _EPSILON * (1 + np.abs(
        np.where(np.isfinite(sink), sink, 0.0)) + np.abs(base))
    tolerance = (rounding + 2 * p["sk"] * _EPSILON) * magnitude + moved_left @ np.abs(values) + np.abs(o) * all_moved
    tolerance += least * (factors @ np.abs(values)) * (total > 0)
    return Reference(o.reshape(b, hq, sq, d), lse.reshape(b, hq, sq), tolerance.reshape(b, hq, sq, d))
