"""r, mean, 1 / sqrt(...) and d of norm in exact residues; the inverse root is a keyed hash."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import asmgen as ag
from asmgen.kernels.norm.tensors import EIGHT
from asmgen.kernels.rows.eightbits import LARGEST, LEAST_MAGNITUDE
from asmgen.kernels.rows.reference import Array, kept


def normalised(p: ag.Values, inputs: Any) -> Mapping[str, Any]:
    """The outputs by name. 1 / columns stands for the ratio whose rounded value it is."""
    columns = p["columns"]
    inputs.declare(1 / columns, 1, columns)
    share = inputs.number(1 / columns)
    r = inputs["x"][:, :columns]
    if p["dropout"]:
        stays = kept(p["rows"], columns, p["p"], p["seed"], p["offset"], p["rounds"])
        scale = (inputs.number(1.0) - inputs.number(p["p"])).reciprocal()
        r = (r * scale).where(stays, inputs.number(0.0))
    if p["residual"]:
        r = r + inputs["residual"][:, :columns]
    found = {"r": r}
    centred = r
    if p["kind"] == "layer":
        found["mean"] = r.sum(1) * share
        centred = r - found["mean"].reshape(-1, 1)
    found["rstd"] = ((centred * centred).sum(1) * share + inputs.number(p["eps"])).hashed("rsq")
    d = centred * found["rstd"].reshape(-1, 1) * inputs["w"]
    d = d + inputs["b"] if p["bias"] else d
    return found | (_in_units(p, inputs, d) if p["out"] == EIGHT else {"d": d})


def _in_units(p: ag.Values, inputs: Any, d: Any) -> dict[str, Any]:
    """d in units of each row's scale: the number that is its largest one, over the type's largest."""
    values, most = _values(p, inputs.arguments), LARGEST[EIGHT, p["encoding"]]
    inputs.declare(1 / most, 1, int(most))
    place = np.argmax(np.abs(values), 1)[:, None]
    one = d[np.arange(len(values))[:, None], place]
    size = (-one).where(np.signbit(np.take_along_axis(values, place, 1)), one)
    size = inputs.number(LEAST_MAGNITUDE).where(np.take_along_axis(np.abs(values), place, 1) < LEAST_MAGNITUDE, size)
    scale = size * inputs.number(1 / most)
    inputs.hold("d", EIGHT)
    return {"d": d * scale.reciprocal(), "scale": scale[:, 0]}


def _values(p: ag.Values, given: Mapping[str, Any]) -> Array:
    """d, with the mean in float32: of equal numbers nothing may remain."""
    columns = p["columns"]
    r: Array = given["x"][:, :columns].astype(float)
    if p["dropout"]:
        r = np.where(kept(p["rows"], columns, p["p"], p["seed"], p["offset"], p["rounds"]), r / (1 - p["p"]), 0.0)
    if p["residual"]:
        r = r + given["residual"][:, :columns].astype(float)
    if p["kind"] == "layer":
        r = r - (r.sum(1, keepdims=True).astype(np.float32) * np.float32(1 / columns)).astype(float)
    d: Array = r / np.sqrt((r**2).mean(1, keepdims=True) + p["eps"]) * given["w"].astype(float)
    return d + given["b"].astype(float) if p["bias"] else d
