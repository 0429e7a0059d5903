"""Matrices of a problem as they lie in memory: by rows or by columns, with a stride, one or a batch of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import asmgen as ag
from asmgen.kernels.products.sums import Matrix


@dataclass(frozen=True)
class Stored:
    """`array` is what a launch gets. `matrices` are views of rows x columns of it, one for each of a batch, and `lines` the same with what
    stands between a line of memory and the next one: rows x stride, or stride x columns where it is stored by columns."""

    array: Matrix
    matrices: tuple[Matrix, ...]
    lines: tuple[Matrix, ...]

    @property
    def pointers(self) -> Matrix:
        """Where each matrix begins, in bytes from the array's beginning on."""
        begin = self.array.__array_interface__["data"][0]
        return np.array([one.__array_interface__["data"][0] - begin for one in self.matrices], np.int64)

    @property
    def apart(self) -> bool:
        """Whether no two matrices have an element in common."""
        return len(self.matrices) == 1 or not np.shares_memory(self.lines[0], self.lines[1])

    def select(self) -> tuple[Any, ...]:
        """What picks the elements of all matrices out of the array: [batch, rows, columns], or [rows, columns] of a single one."""
        numbers = np.arange(self.array.size).reshape(self.array.shape)
        size = self.array.itemsize
        found = [np.lib.stride_tricks.as_strided(
            numbers.reshape(-1)[(one.__array_interface__["data"][0] - self.array.__array_interface__["data"][0]) // size:],
            one.shape, tuple(step // size * numbers.itemsize for step in one.strides)) for one in self.matrices]
        return np.unravel_index(np.stack(found) if len(found) > 1 else found[0], self.array.shape)


def stored(p: ag.Values, name: str, rows: int, columns: int, dtype: Any, values: Any) -> Stored:
    """The matrices `name` of a launch, rows x columns each. `values(shape)` makes the elements, those between matrices too."""
    stride, by_columns = p[f"ld{name}"], p.get(f"{name}_layout", "row") == "column"
    lines = columns if by_columns else rows
    batch = p["batch"]
    if batch == 1:
        array = values((lines, stride)).astype(dtype)
        whole = [array]
    else:
        apart = p[f"{name}_stride_batch"]
        array = values(((batch - 1) * apart + lines * stride,)).astype(dtype)
        whole = [array[number * apart:][:lines * stride].reshape(lines, stride) for number in range(batch)]
        if p.get("pointers"):
            whole.reverse()  # any order does
    views = [one.T if by_columns else one for one in whole]
    return Stored(array, tuple(one[:rows, :columns] for one in views), tuple(views))


def operands_of(p: ag.Values, a: Stored, b: Stored) -> dict[str, Matrix]:
    """The arguments of a launch for A and B."""
    return {"a": a.array, "b": b.array} | ({"a_pointers": a.pointers, "b_pointers": b.pointers} if p.get("pointers") else {})
