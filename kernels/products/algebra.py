"""D of a matrix product in exact residues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import asmgen as ag


def product(p: ag.Values, inputs: Any, a: Any, b: Any) -> Mapping[str, Any]:
    """alpha A B^T + beta C + bias, of A and B as rows of K elements; columns after those are not read."""
    d = inputs.number(p["alpha"]) * (a[:, :p["k"]] @ b[:, :p["k"]].swapaxes(0, 1))
    if p["beta"]:
        d = d + inputs.number(p["beta"]) * inputs["c"][:, :p["n"]]
    if p["bias"] == "row":
        d = d + inputs["bias"]
    return {"d": d}
