"""Data for activation with its float64 reference, and how far float32 may be from it."""

from __future__ import annotations

import math

import numpy as np

import asmgen as ag
from asmgen.kernels.activation.formulas import SATURATED
from asmgen.kernels.activation.tensors import ALPHA, CUBIC, LINEAR, TENSORS, inputs_of, is_gated, limit_of, outputs_of
from asmgen.kernels.rows.bounded import Bounded
from asmgen.kernels.rows.reference import Array, canaries, flushed, result, rows_of

_LOG2_E = 1 / math.log(2)
_OF_ERFC = 1.5e-7 / 2
"""What the polynomial for Phi is off by (formulas.py)."""
_ERFC = np.vectorize(math.erfc, otypes=[float])


def make_problem(p: ag.Values, seed: int) -> ag.Problem:
    """Rows with odd numbers (rows/reference.py); some are exactly at a limit, and beyond it."""
    random = np.random.default_rng(seed)
    rows, columns = p["rows"], p["columns"]
    arguments = {name: rows_of(random, rows, columns, p[f"{name}_stride"], p["dtype"], seed) for name in inputs_of(p)}
    arguments |= {name: canaries(rows, p[f"{name}_stride"], p["dtype"]) for name in outputs_of(p)}
    if limit := limit_of(p):
        for name in ("x", "up"):
            arguments[name][random.integers(rows), random.integers(columns)] = limit
            arguments[name][random.integers(rows), random.integers(columns)] = -2 * limit
    numbers = {name: p[name] for name in ("rows", "each", *(f"{name}_stride" for name in TENSORS))}
    return ag.Problem(arguments | numbers, lambda: _outputs(p, {name: arguments[name][:, :columns].astype(float)
                                                                     for name in inputs_of(p)}))


def _outputs(p: ag.Values, given: dict[str, Array]) -> tuple[ag.Output, ...]:
    with np.errstate(all="ignore"):
        values, bounds = _values(p, given), _bounds(p, given)
        return tuple(result(name, values[name], bounds[name].error, p["dtype"], p["columns"]) for name in outputs_of(p))


def _values(p: ag.Values, given: dict[str, Array]) -> dict[str, Array]:
    """By the definitions of docs/facts/row_kernels.md section 6; np.minimum and np.clip keep NaN."""
    limit, x = limit_of(p), given["x"]
    up = given["up"] if is_gated(p) else np.ones_like(x)
    gate, cut = (np.minimum(x, limit), np.clip(up, -limit, limit)) if limit else (x, up)
    factor = cut + 1 if p["kind"] == "swiglu" else cut
    value, slope = map(flushed, _function(p, gate))
    if not p["backward"]:
        return {"d": value * factor}
    dy = given["dy"]
    return {"dx": np.where(x > limit, 0.0, dy * slope * factor) if limit else dy * slope * factor,
            "dup": np.where(np.abs(up) > limit, 0.0, dy * value) if limit else dy * value}


def _function(p: ag.Values, x: Array) -> tuple[Array, Array]:
    """f(x) and f'(x)."""
    if p["kind"] == "gelu" and p["approximate"] == "none":
        share = np.where(np.isnan(x), np.nan, 0.5 * _ERFC(-np.nan_to_num(x / math.sqrt(2), nan=0.0)))
        return x * share, share + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    if p["kind"] == "gelu":
        # The definition by tanh; 1 + tanh is computed without cancellation.
        t = math.sqrt(2 / math.pi) * (x + CUBIC * x**3)
        share = 1 / (1 + np.exp(-2 * t))
        return x * share, share + x * 2 * share * (1 - share) * math.sqrt(2 / math.pi) * (1 + 3 * CUBIC * x**2)
    alpha = ALPHA if p["kind"] == "swiglu" else 1.0
    share = 1 / (1 + np.exp(-alpha * x))
    return x * share, share + alpha * x * share * (1 - share)


def _bounds(p: ag.Values, given: dict[str, Array]) -> dict[str, Bounded]:
    """The operations of formulas.py and rowwise.py, one after the other."""
    limit, x = limit_of(p), given["x"]
    up = given["up"] if is_gated(p) else np.ones_like(x)
    gate, cut = (np.minimum(x, limit), np.clip(up, -limit, limit)) if limit else (x, up)
    factor = Bounded.exact(cut)
    factor = factor + 1.0 if p["kind"] == "swiglu" else factor
    value, slope = _kernel(p, Bounded.exact(gate))
    if not p["backward"]:
        return {"d": value * factor}
    dy = Bounded.exact(given["dy"])
    return {"dx": slope * factor * dy, "dup": value * dy}


def _kernel(p: ag.Values, x: Bounded) -> tuple[Bounded, Bounded]:
    share = _share(p, x)
    value = x * share
    if p["kind"] == "gelu" and p["approximate"] == "none":
        density = (x * x * 0.5 * -_LOG2_E).exp2() * (1 / math.sqrt(2 * math.pi))
        return value, x * density + share
    rest = (share.negative() + 1.0) * value
    if p["kind"] == "silu":
        return value, share + rest
    if p["kind"] == "swiglu":
        return value, rest * ALPHA + share
    square = x * x
    square = square.where(square.value < SATURATED, Bounded.exact(np.full(square.value.shape, SATURATED)))
    return value, rest * (square * (3 * LINEAR * CUBIC) + LINEAR) + share


def _share(p: ag.Values, x: Bounded) -> Bounded:
    if p["kind"] == "gelu" and p["approximate"] == "none":
        share = 0.5 * _ERFC(-np.nan_to_num(x.value / math.sqrt(2), nan=0.0))
        exponential = (x * x * 0.5 * -_LOG2_E).exp2()
        # Five steps of Horner's rule with numbers up to 1.5 and a t that is off by 4 roundings, then two products.
        error = _OF_ERFC + 64 * exponential.value * 2.0**-24 + exponential.error + 2.0**-24
        return Bounded(share, np.where(np.isfinite(x.value), error, 0.0))
    argument = x
    if p["kind"] == "swiglu":
        argument = x * ALPHA
    elif p["kind"] == "gelu":
        argument = (x * x * (LINEAR * CUBIC) + LINEAR) * x
    return ((argument * -_LOG2_E).exp2() + 1.0).reciprocal()
