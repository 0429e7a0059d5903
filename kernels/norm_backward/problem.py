"""Data for norm-backward with its float64 reference, and how far float32 may be from it."""

from __future__ import annotations

import numpy as np

import asmgen as ag
from asmgen.kernels.norm_backward.tensors import TENSORS, inputs_of, sums_of
from asmgen.kernels.rows.reference import FLUSHED, TYPES, UNIT, Array, canaries, flushed, kept, result, rows_of
from asmgen.kernels.rows.rowshape import MOST_FRAGMENTS, PER_LANE

_CHAIN = PER_LANE * MOST_FRAGMENTS + 16
"""Roundings on the way of an element into a sum over a row: the items of a lane, then lanes and waves, and the share."""
_NUMBERS = ("rows", "each", "p", "seed", "offset", *(f"{name}_stride" for name in TENSORS))


def make_problem(p: ag.Values, seed: int) -> ag.Problem:
    """Rows with odd numbers (rows/reference.py), random weights, and what a norm saves of the rows."""
    random = np.random.default_rng(seed)
    rows, columns, dtype = p["rows"], p["columns"], p["dtype"]
    given = {name: rows_of(random, rows, columns, p[f"{name}_stride"], dtype, seed) for name in ("x", "dy", "dr")}
    w: Array = np.asarray(random.standard_normal(columns)).astype(TYPES[dtype][0])
    x = given["x"][:, :columns].astype(float)
    with np.errstate(all="ignore"):
        mean = x.mean(1) if p["kind"] == "layer" else np.zeros(rows)
        rstd = 1 / np.sqrt(((x - mean[:, None])**2).mean(1) + 1e-5)
    figures = {"mean": mean.astype(np.float32), "rstd": rstd.astype(np.float32)}
    results = {name: canaries(rows, p[f"{name}_stride"], dtype) for name in ("dx", "dresidual")}
    results |= {name: canaries(1, columns, dtype)[0] for name in ("dw", "db")}
    arguments = {**given, "w": w, **figures, **results, **{name: p[name] for name in _NUMBERS}}
    wide = {name: given[name][:, :columns].astype(float) for name in inputs_of(p)}
    return ag.Problem(arguments, lambda: _outputs(p, wide, w.astype(float), {name: one.astype(float)[:, None] for name, one in
                                                                             figures.items()}))


def _outputs(p: ag.Values, given: dict[str, Array], w: Array, figures: dict[str, Array]) -> tuple[ag.Output, ...]:
    """By the operations of rowwise.py and addition.py; an error is at most so many roundings of the sizes that are added."""
    x, dy, columns, rows = flushed(given["x"]), flushed(given["dy"]), p["columns"], p["rows"]
    with np.errstate(all="ignore"):
        layer = p["kind"] == "layer"
        h = flushed(flushed(x - figures["mean"] if layer else x) * figures["rstd"])
        of_h = 2 * UNIT * np.abs(h) + FLUSHED * (1 + figures["rstd"])
        g = flushed(dy * w)
        of_g = UNIT * np.abs(g) + FLUSHED
        products = g * h
        of_product = np.abs(g) * of_h + np.abs(h) * of_g + _CHAIN * UNIT * np.abs(products)
        share, of_share = products.mean(1, keepdims=True), of_product.mean(1, keepdims=True) + FLUSHED
        level, of_level = (g.mean(1, keepdims=True), (of_g + _CHAIN * UNIT * np.abs(g)).mean(1, keepdims=True)) if layer else (0.0, 0.0)
        inner = g - level - h * share
        size = np.abs(g) + np.abs(level) + np.abs(h * share)
        error = of_g + of_level + np.abs(h) * of_share + np.abs(share) * of_h + 4 * UNIT * size + FLUSHED
        dx, of_dx = inner * figures["rstd"], error * figures["rstd"]
        of_dx = of_dx + UNIT * np.abs(dx) + FLUSHED
        if p["residual"]:
            dx = dx + given["dr"]
            of_dx = of_dx + UNIT * np.abs(dx)
        sums = {"dw": (dy * h, np.abs(dy) * of_h), "db": (dy, np.zeros(dy.shape))}
        found = [result("dresidual", dx, 1.01 * of_dx, p["dtype"], columns)] if p["dresidual"] else []
        if p["dropout"]:
            stays = kept(rows, columns, p["p"], p["seed"], p["offset"], p["rounds"])
            scale = 1 / (1 - float(np.float32(p["p"])))
            dx, of_dx = np.where(stays, dx * scale, 0.0), np.where(stays, of_dx * scale + 4 * UNIT * np.abs(dx * scale), 0.0)
        found.append(result("dx", dx, 1.01 * of_dx, p["dtype"], columns))
        for name in sums_of(p):
            added, off = sums[name]
            total, of_total = added.sum(0), (off + (rows + 32) * (UNIT * np.abs(added) + FLUSHED)).sum(0)
            found.append(result(name, total, 1.01 * of_total, p["dtype"]))
    return tuple(found)
