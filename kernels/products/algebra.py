"""D of a matrix product in exact residues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import asmgen as ag


def product(p: ag.Values, inputs: Any, a: Any, b: Any) -> Mapping[str, Any]:
    """alpha A B^T + beta C + bias, of A and B as rows of K elements; columns after those are not read."""
    d = inputs.number(p["alpha"]) * (a[:, :p["k"]] @ b[:, :p["k"]].swapaxes(0, 1))
    if p["beta"]:
        d = d + inputs.number(p["beta"]) * rows_of(p, "c", inputs["c"])[:, :p["n"]]
    if p["bias"] == "row":
        d = d + inputs["bias"]
    if p["bias"] == "column":
        d = d + inputs["bias"].reshape(-1, 1)
    return {"d": rows_of(p, "d", d)}


def rows_of(p: ag.Values, name: str, matrix: Any) -> Any:
    """A matrix as rows, where it is stored by columns, and the other way round. A batch has one matrix here."""
    return matrix.swapaxes(0, 1) if p.get(f"{name}_layout") == "column" else matrix
