"""Data for softmax with its float64 reference, and how far float32 may be from it."""

from __future__ import annotations

import numpy as np

import asmgen as ag
from asmgen.kernels.rows.reference import FLUSHED, TYPES, UNIT, Array, canaries, flushed, result, rows_of
from asmgen.kernels.rows.rowshape import MOST_FRAGMENTS, PER_LANE
from asmgen.kernels.softmax.tensors import TENSORS, tensors_of

_CHAIN = 2 * PER_LANE * MOST_FRAGMENTS + 24
"""Roundings on the way of an element into a sum: the items of a lane, then lanes and waves; where there are two passes, a factor for each
of 4 parts too."""


def make_problem(p: ag.Values, seed: int) -> ag.Problem:
    """Rows with odd numbers (rows/reference.py); of y the logarithms or quotients of such rows."""
    random = np.random.default_rng(seed)
    rows, columns = p["rows"], p["columns"]
    arguments = {name: rows_of(random, rows, columns, p[f"{name}_stride"], p["dtype"], seed) for name in ("x", "dy")}
    y = arguments["x"].astype(float)[:, :1] + np.zeros((rows, p["y_stride"]))
    with np.errstate(all="ignore"):
        y[:, :columns] = _forward(arguments["x"].astype(float)[:, :columns], np.ones((rows, columns), bool), p["log"])
    arguments["y"] = y.astype(TYPES[p["dtype"]][0])
    arguments |= {"d": canaries(rows, p["d_stride"], p["out"]), "dx": canaries(rows, p["dx_stride"], p["dtype"])}
    arguments["lengths"] = random.choice([0, columns, columns + 5, -3, *random.integers(0, columns + 1, 8)], rows).astype(np.int32)
    arguments |= {name: p[name] for name in ("rows", "each", "queries", *(f"{name}_stride" for name in TENSORS))}
    return ag.Problem(arguments, lambda: (_output(p, {name: arguments[name][:, :columns].astype(float) for name in ("x", "y", "dy")},
                                                  seen_columns(p, arguments["lengths"])),))


def seen_columns(p: ag.Values, lengths: Array) -> Array:
    """Which elements of each row take part."""
    rows, columns = p["rows"], p["columns"]
    if p["mask"] == "none":
        return np.ones((rows, columns), bool)
    left = lengths if p["mask"] == "length" else np.arange(rows) % p["queries"] + columns - p["queries"] + 1
    found: Array = np.arange(columns) < left[:, None]
    return found


def _forward(x: Array, seen: Array, log: bool) -> Array:
    x = np.where(seen, x, -np.inf)
    top = x.max(1, keepdims=True)
    lower = x - top
    total = np.exp(lower).sum(1, keepdims=True)
    made: Array = lower - np.log(total) if log else np.exp(lower) / total
    return made


def _output(p: ag.Values, given: dict[str, Array], seen: Array) -> ag.Output:
    with np.errstate(all="ignore"):
        made, error = (_gradient if p["backward"] else _result)(p, given, seen)
    name = tensors_of(p)[-1]
    return result(name, made, error, p["out" if name == "d" else "dtype"], p["columns"])


def _result(p: ag.Values, given: dict[str, Array], seen: Array) -> tuple[Array, Array]:
    """The operations of onepass.py and twopasses.py. An exponent is off by the roundings of x - top, its product with log2(e) and that
    number, and by that of a row's shift, which is at most 1; v_exp_f32, v_log_f32 and v_rcp_f32 have 1 ulp."""
    x = np.where(seen, given["x"], -np.inf)
    nothing = p["mask"] != "none" and np.isneginf(x).all(1, keepdims=True)
    expected = np.where(nothing, -np.inf if p["log"] else 0.0, _forward(x, seen, p["log"]))
    lower = np.where(np.isfinite(x), x - x.max(1, keepdims=True), 0.0)
    of_exponent = UNIT * (4 * np.abs(lower) + 8)
    shares = np.exp(lower) / np.exp(lower).sum(1, keepdims=True)
    of_total = (shares * of_exponent).sum(1, keepdims=True) + _CHAIN * UNIT + x.shape[1] * FLUSHED
    if not p["log"]:
        return expected, 1.01 * expected * (of_exponent + of_total + 4 * UNIT) + 4 * FLUSHED
    logarithm = np.log(np.exp(lower).sum(1, keepdims=True))
    return expected, 1.01 * (of_total + 4 * UNIT * logarithm + 2 * UNIT * np.abs(lower) + UNIT * np.abs(np.where(np.isfinite(expected),
                                                                                                              expected, 0.0)))


def _gradient(p: ag.Values, given: dict[str, Array], seen: Array) -> tuple[Array, Array]:
    y, dy = flushed(given["y"]), flushed(given["dy"])
    if p["log"]:
        share = flushed(np.exp(y))
        total, size = dy.sum(1, keepdims=True), np.abs(dy).sum(1, keepdims=True)
        made = dy - share * total
        of_share = share * UNIT * (4 * np.abs(np.where(share > 0, y, 0.0)) + 4) + FLUSHED
        return made, of_share * np.abs(total) + 1.01 * share * _CHAIN * UNIT * size + UNIT * np.abs(made)
    total, size = (y * dy).sum(1, keepdims=True), np.abs(y * dy).sum(1, keepdims=True)
    made = y * (dy - total)
    of_total = _CHAIN * UNIT * size + FLUSHED * (y.shape[1] + np.abs(dy).sum(1, keepdims=True))
    return made, 1.01 * np.abs(y) * of_total + 3 * UNIT * np.abs(made) + FLUSHED * (1 + np.abs(dy - total))
