"""The result of softmax, or its gradient, in exact residues: exponentials without a maximum, which cancels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import asmgen as ag
from asmgen.kernels.softmax.problem import seen_columns


def softmax(p: ag.Values, inputs: Any) -> Mapping[str, Any]:
    """d, or dx of a build with backward. Of a logarithm, what is not seen is minus infinity, which has no residue."""
    columns = p["columns"]
    if p["backward"]:
        y, dy = (inputs[name][:, :columns] for name in ("y", "dy"))
        if p["log"]:
            return {"dx": dy - (y * inputs.log2_e).exp2() * dy.sum(1).reshape(-1, 1)}
        return {"dx": y * (dy - (y * dy).sum(1).reshape(-1, 1))}
    seen = seen_columns(p, inputs.arguments["lengths"])
    x = inputs["x"][:, :columns]
    shares = (x * inputs.log2_e).exp2().where(seen, inputs.number(0.0))
    total = shares.sum(1).reshape(-1, 1)
    if p["log"]:
        return {"d": (x - total.log2() * inputs.ln_2).where(seen, inputs.number(-np.inf))}
    return {"d": (shares * total.reciprocal()).where(seen.any(1, keepdims=True), inputs.number(0.0))}
