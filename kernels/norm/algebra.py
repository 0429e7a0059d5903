"""r, mean, 1 / sqrt(...) and d of norm in exact residues; the inverse root is a keyed hash."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import asmgen as ag
from asmgen.kernels.rows.reference import kept


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
    return found | {"d": d + inputs["b"] if p["bias"] else d}
