"""D of a matrix product in exact residues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import asmgen as ag


def product(p: ag.Values, inputs: Any, a: Any, b: Any) -> Mapping[str, Any]:
    """alpha A B^T + beta C + bias, of A and B as rows of K elements; columns after those are not read."""
    c = rows_of(p, "c", inputs["c"]) if p["beta"] else None
    return {"d": rows_of(p, "d", _result(p, inputs, a, b, c))}


def batch_product(p: ag.Values, inputs: Any) -> Mapping[str, Any]:
    """As `product`, of A and B as they are stored; of a batch D is [batch, rows, columns]."""
    if p["batch"] == 1:
        return product(p, inputs, *(rows_of(p, name, inputs[name]) for name in "ab"))
    names = "abc" if p["beta"] else "ab"
    made = [_result(p, inputs, *matrices) for matrices in zip(*(_batch(p, name, inputs[name]) for name in names), strict=True)]
    return {"d": inputs.beside([one.reshape(1, p["m"], p["n"]) for one in made], 0)}


def _result(p: ag.Values, inputs: Any, a: Any, b: Any, c: Any = None) -> Any:
    """D as rows, of matrices as rows."""
    d = inputs.number(p["alpha"]) * (a[:, :p["k"]] @ b[:, :p["k"]].swapaxes(0, 1))
    if c is not None:
        d = d + inputs.number(p["beta"]) * c[:, :p["n"]]
    if p["bias"] == "row":
        d = d + inputs["bias"]
    if p["bias"] == "column":
        d = d + inputs["bias"].reshape(-1, 1)
    return d


def _batch(p: ag.Values, name: str, array: Any) -> list[Any]:
    """The matrices of a batch as rows, as `stored.stored` lays them out: one after another, or from the last one on where pointers say."""
    rows, columns = {"a": (p["m"], p["k"]), "b": (p["n"], p["k"])}.get(name, (p["m"], p["n"]))
    stride, apart = p[f"ld{name}"], p[f"{name}_stride_batch"]
    lines = columns if p.get(f"{name}_layout") == "column" else rows
    found = [rows_of(p, name, array[number * apart:number * apart + lines * stride].reshape(lines, stride)) for number in range(p["batch"])]
    return found[::-1] if p.get("pointers") else found


def rows_of(p: ag.Values, name: str, matrix: Any) -> Any:
    """A matrix as rows, where it is stored by columns, and the other way round."""
    return matrix.swapaxes(0, 1) if p.get(f"{name}_layout") == "column" else matrix
