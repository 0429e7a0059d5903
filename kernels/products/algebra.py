"""D of a matrix product in exact residues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import asmgen as ag


def product(p: ag.Values, inputs: Any, a: Sequence[Any], b: Sequence[Any]) -> Mapping[str, Any]:
    """alpha A B^T + beta C + bias, of each A and B of a batch as rows of K elements; columns after those are not read. Of one matrix D is
    as it is stored, of several [batch, rows, columns]."""
    c = stored_rows(p, "c", inputs["c"]) if p["beta"] else [None] * len(a)
    made = [_result(p, inputs, *matrices) for matrices in zip(a, b, c, strict=True)]
    if len(made) == 1:
        return {"d": _rows_of(p, "d", made[0])}
    return {"d": inputs.beside([one.reshape(1, p["m"], p["n"]) for one in made], 0)}


def _result(p: ag.Values, inputs: Any, a: Any, b: Any, c: Any) -> Any:
    """D as rows, of matrices as rows."""
    d = inputs.number(p["alpha"]) * (a[:, :p["k"]] @ b[:, :p["k"]].swapaxes(0, 1))
    if c is not None:
        d = d + inputs.number(p["beta"]) * c[:, :p["n"]]
    if p["bias"] == "row":
        d = d + inputs["bias"]
    if p["bias"] == "column":
        d = d + inputs["bias"].reshape(-1, 1)
    return d


def stored_rows(p: ag.Values, name: str, array: Any) -> list[Any]:
    """The matrices of that name as rows, as `stored.stored` lays them out: one after another, with pointers the last one first."""
    found = [_rows_of(p, name, one) for one in matrices_of(p["batch"], array, p[f"{name}_stride_batch"], p[f"ld{name}"])]
    return found[::-1] if p.get("pointers") else found


def matrices_of(batch: int, array: Any, stride: int, columns: int) -> list[Any]:
    """The matrices of a batch, lines of so many columns each, in an array of a line for each, or in one of elements, `stride` apart."""
    size = array.shape[0] - (batch - 1) * stride
    return [array] if batch == 1 else [array[number * stride:number * stride + size].reshape(-1, columns) for number in range(batch)]


def _rows_of(p: ag.Values, name: str, matrix: Any) -> Any:
    """A matrix as rows, where it is stored by columns, and the other way round."""
    return matrix.swapaxes(0, 1) if p.get(f"{name}_layout") == "column" else matrix
