"""dx, dw and db of norm-backward in exact residues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import asmgen as ag
from asmgen.kernels.rows.reference import kept


def gradients(p: ag.Values, inputs: Any) -> Mapping[str, Any]:
    """The outputs by name. 1 / columns stands for the ratio whose rounded value it is."""
    columns = p["columns"]
    for sign in (1, -1):
        inputs.declare(sign / columns, sign, columns)
    share = inputs.number(1 / columns)
    x, dy = (inputs[name][:, :columns] for name in ("x", "dy"))
    rstd = inputs["rstd"].reshape(-1, 1)
    h = (x - inputs["mean"].reshape(-1, 1) if p["kind"] == "layer" else x) * rstd
    g = dy * inputs["w"]
    inner = g - h * ((g * h).sum(1) * share).reshape(-1, 1)
    if p["kind"] == "layer":
        inner = inner - (g.sum(1) * share).reshape(-1, 1)
    dx = inner * rstd
    if p["residual"]:
        dx = dx + inputs["dr"][:, :columns]
    found = {"dw": (dy * h).sum(0), "db": dy.sum(0), "dresidual": dx}
    if p["dropout"]:
        stays = kept(p["rows"], columns, p["p"], p["seed"], p["offset"], p["rounds"])
        scale = (inputs.number(1.0) - inputs.number(p["p"])).reciprocal()
        dx = (dx * scale).where(stays, inputs.number(0.0))
    return found | {"dx": dx}
