"""Data for rope with its float64 reference, and how far float32 may be from it."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

import asmgen as ag
from asmgen.kernels.rope.shape import shape_of
from asmgen.kernels.rope.tensors import SCALES, TENSORS, heads_of, is_cache, pairs_of, type_of
from asmgen.kernels.rope.tokenarrays import element_numbers, positions_of, random_tokens, stored_tokens
from asmgen.kernels.rows.bounded import Bounded
from asmgen.kernels.rows.eightbits import LARGEST
from asmgen.kernels.rows.reference import CANARY, FLUSHED, TYPES, UNIT, Array, rounded

_NUMBERS = ("s", "h", "h2", "each", "angles", "angle_stride", "ratio", "eps", "position_stride", "slots",
            *(f"{name}_stride_{axis}" for name in TENSORS for axis in "bsh"))
_EIGHT = {"ocp": ml_dtypes.float8_e4m3fn, "fnuz": ml_dtypes.float8_e4m3fnuz}
_EIGHT_BITS, _HALF_LEAST = 4, {"ocp": 2.0**-10, "fnuz": 2.0**-11}
"""Significant bits, and half of the smallest subnormal number."""
_DOUBLE = 2.0**-53
"""The relative error of an operation of float64."""


def make_problem(p: ag.Values, seed: int) -> ag.Problem:
    """Normal heads; in even seeds NaN and infinities among them. Cosines and sines are numbers of their own, as no kernel may derive one
    from the other; some positions lie outside of the table, and some slots outside of the cache."""
    random = np.random.default_rng(seed)
    arguments = random_tokens(random, p, seed)
    arguments |= {name: _heads(random, p, arguments, name, seed) for name in TENSORS}
    table = TYPES[p["table"]][0]
    rows = (1, 1) if p["computed"] else (p["angles"], p["angle_stride"])
    arguments |= {name: random.uniform(-1, 1, rows).astype(table) for name in ("cos", "sin")}
    arguments |= {name: random.uniform(0.5, 2, (p["d"],)).astype(TYPES[p["dtype"]][0]) for name in ("w", "w2")}
    arguments |= {name: np.array([random.uniform(0.05, 0.5)], np.float32) for name in SCALES.values()}
    arguments |= {name: p[name] for name in _NUMBERS}
    return ag.Problem(arguments, lambda: tuple(_output(p, arguments, source, target) for source, target in pairs_of(p)))


def _heads(random: np.random.Generator, p: ag.Values, arguments: dict[str, Any], name: str, seed: int) -> Array:
    at = element_numbers(p, arguments, name)
    size = int(at.max()) + 1 if at.size else 1
    if is_cache(p, name):
        size = (p["slots"] - 1) * p[f"{name}_stride_s"] + (p[heads_of(name)] - 1) * p[f"{name}_stride_h"] + p["d"]
    flat = np.full(size, CANARY)
    if name in ("x", "x2", "v"):
        values = random.standard_normal(at.shape) * 2.0 ** random.integers(-6, 7, at.shape[:-1] + (1,))
        if ag.holds_nonfinite(seed):
            flat[:] = np.nan
            for value in (np.nan, np.inf, -np.inf):
                values[tuple(random.integers(size) for size in at.shape)] = value
        flat[at] = values
    made: Array = flat.astype(_EIGHT[p["encoding"]] if type_of(p, name) == "fp8" else TYPES[p["dtype"]][0])
    return made


def rows_of_angles(p: ag.Values, arguments: ag.Values) -> Array:
    """The row of cos and sin of each token, -1 outside of the table."""
    found = positions_of(p, arguments)
    return np.where((found >= 0) & (found < p["angles"]), found, -1)


def _angles(p: ag.Values, arguments: ag.Values) -> tuple[Bounded, Bounded]:
    """Cosine and sine of each token and pair, for all heads."""
    shape = shape_of(p)
    if not p["computed"]:
        rows = rows_of_angles(p, arguments)
        cos, sin = (np.where(rows[..., None] >= 0, arguments[name].astype(float)[rows, :shape.pairs], 0.0)[:, :, None]
                    for name in ("cos", "sin"))
        return Bounded.exact(cos), Bounded.exact(sin)
    pairs = np.arange(shape.pairs)
    angles = positions_of(p, arguments)[:, :, None, None] * p["theta"] ** (-pairs / shape.pairs)
    # The ratio is rounded and raised to power i, each product rounds, and this reference's own pow and sine are as far off. Then an angle
    # of at most half a quarter turn is rounded to float32, and each of its two series ends in a rounding near 1 of what two more made.
    off = np.abs(angles) * (4 * pairs + 32) * _DOUBLE + 2 * UNIT * np.pi / 4 + 4 * UNIT
    return Bounded(np.cos(angles), off), Bounded(np.sin(angles), off)


def _normalised(p: ag.Values, x: Array, w: Array) -> Bounded:
    """x / sqrt(mean(x^2) + eps) w. A lane adds its own columns in two chains, then lanes add theirs."""
    eps, chain = float(np.float32(p["eps"])), p["d"] // shape_of(p).across + 8
    mean = (x**2).mean(-1, keepdims=True)
    of_mean = chain * UNIT * (mean + eps) + FLUSHED
    rstd = 1 / np.sqrt(mean + eps)
    # The root falls, so that its error is largest at one of the ends; v_rsq_f32 has 1 ulp.
    ends = [1 / np.sqrt(np.maximum(mean + eps + sign * of_mean, 2.0**-149)) for sign in (-1, 1)]
    error = np.maximum(np.abs(ends[0] - rstd), np.abs(ends[1] - rstd)) + 3 * UNIT * rstd
    return Bounded.exact(x) * Bounded(rstd, np.where(np.isfinite(rstd), error, 0.0)) * Bounded.exact(w)


def _output(p: ag.Values, arguments: ag.Values, source: str, target: str) -> ag.Output:
    with np.errstate(all="ignore"):
        x = arguments[source].astype(float)[element_numbers(p, arguments, source)]
        held = Bounded.exact(x)
        if source != "v":
            if p["norm"] != "none":
                held = _normalised(p, x, arguments[f"w{source[1:]}"].astype(float))
            held = _rotated(p, held, *_angles(p, arguments))
        eight = type_of(p, target) == "fp8"
        tolerance = rounded(held.value, held.error, p["dtype"]) if not eight else np.empty(0)
        if eight:
            held = held * Bounded.exact((1 / arguments[SCALES[target]].astype(float)).astype(np.float32))
            held, tolerance = _in_eight(p, held)
    at, stored = element_numbers(p, arguments, target), stored_tokens(p, arguments, target)
    expected, tolerance, at = (values[stored].reshape(-1, p["d"]) for values in (held.value, tolerance, at))
    return ag.Output(target, expected, tolerance, (at,))


def _in_eight(p: ag.Values, x: Bounded) -> tuple[Bounded, Array]:
    """Numbers of a cache of 8 bits, the largest ones for larger ones, and how far off they may be."""
    most = LARGEST["fp8", p["encoding"]]
    value = np.clip(x.value, -most, most)
    half = np.maximum(np.ldexp(1.0, np.frexp(np.nan_to_num(value))[1] - _EIGHT_BITS - 1), _HALF_LEAST[p["encoding"]])
    return Bounded(value, x.error), 1.01 * (half + np.where(np.isfinite(x.value), x.error, 0.0))


def _rotated(p: ag.Values, x: Bounded, cos: Bounded, sin: Bounded) -> Bounded:
    shape = shape_of(p)
    sin = sin.negative() if p["backward"] else sin
    start, end = shape.first, shape.first + shape.rotated
    first, second = (slice(start, start + shape.pairs), slice(start + shape.pairs, end)) if p["style"] == "neox" \
        else (slice(start, end, 2), slice(start + 1, end, 2))
    value, error = x.value.copy(), x.error.copy()
    for columns, own, other, factor in ((first, first, second, sin.negative()), (second, second, first, sin)):
        parts = [Bounded(x.value[..., one], x.error[..., one]) for one in (own, other)]
        made = parts[1] * factor + parts[0] * cos
        value[..., columns], error[..., columns] = made.value, made.error
    return Bounded(value, error)
