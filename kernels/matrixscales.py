"""Scales of float8 products of tensors: what each belongs to, and what the kernel reads of them."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from asmgen.kernels.tensors import Facts, TensorError, plain_name

BLOCK = 128  # columns of K, and rows of B, that share a scale of scales=block


Axes = tuple[int, ...]


@dataclass(frozen=True)
class Scaling:
    """The build parameter of scales, which of them a kernel reads, and those that it wants by columns. `axes` has for each argument the
    axes of what is given, and those to which they are repeated."""

    build: Mapping[str, str]
    axes: Mapping[str, tuple[Axes, Axes]]
    by_columns: tuple[str, ...]


def scaling_of(of: str, known: Mapping[str, Facts], family: str, m: int, n: int, k: int, batch: Axes) -> Scaling:
    """The kind of scales that serves those that are given to a product, or to a batch of them, and how many the kernel reads then."""
    if family != "gemm-fp8":
        if "a_scale" in known or "b_scale" in known:
            raise TensorError(f"a_scale and b_scale of {of} belong to float8; a factor of all is alpha")
        return Scaling({}, {}, ())
    rows_of, in_blocks = {"a_scale": m, "b_scale": n}, blocks_of(m, n, k)
    held = {name: known[name][0] for name in rows_of if name in known}
    for name in held:
        if plain_name(known[name][2]) != "float32":
            raise TensorError(f"{name} of {of} must be float32, got {plain_name(known[name][2])}")
    if any(_in_blocks(shape, rows_of[name], in_blocks[name], batch) for name, shape in held.items()):
        if any(name not in held or not _ends(held[name], shape, batch) for name, shape in in_blocks.items()):
            raise TensorError(f"a_scale and b_scale of {of} must be of one kind where a scale belongs to a block: "
                              f"{list(in_blocks['a_scale'])} and {list(in_blocks['b_scale'])}, and of one product")
        return Scaling({"scales": "block"}, {}, ("a_scale",))
    axes = {name: _axes(of, name, held[name], rows_of[name], in_blocks[name], batch) if name in held else (1,) for name in rows_of}
    if all(math.prod(one) == 1 for one in axes.values()):
        return Scaling({"scales": "tensor"}, dict.fromkeys(rows_of, ((1,), (1,))), ())
    return Scaling({"scales": "row"}, {name: (one, (*batch, rows_of[name])) for name, one in axes.items()}, ())


def blocks_of(m: int, n: int, k: int) -> dict[str, tuple[int, int]]:
    """The shapes of scales that belong to blocks."""
    across = -(-k // BLOCK)
    return {"a_scale": (m, across), "b_scale": (-(-n // BLOCK), across)}


def without_empty_blocks(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """The tensors of a product whose K is 0, without scales of its blocks: there are none, and nothing that they would scale."""
    of_d = _shape(tensors["d"])
    blocks = blocks_of(of_d[-2], of_d[-1], 0) if len(of_d) > 1 else {}
    return {name: one for name, one in tensors.items() if name not in blocks or _shape(one)[-2:] != blocks[name]}


def _shape(tensor: Any) -> Axes:
    """The axes of what may be no tensor, which `located` refuses later."""
    return tuple(getattr(tensor, "shape", ()))


def _in_blocks(held: Axes, rows: int, blocks: tuple[int, int], batch: Axes) -> bool:
    """Whether scales belong to blocks and to nothing else."""
    return _ends(held, blocks, batch) and (blocks[1] > 1 or math.prod(held) not in (1, rows))


def _ends(held: Axes, blocks: tuple[int, int], batch: Axes) -> bool:
    """Whether scales have the shape of blocks of one product."""
    return math.prod(batch) == 1 and held[-2:] == blocks and held[:-2] in ((), batch)


def _axes(of: str, name: str, held: Axes, rows: int, blocks: tuple[int, int], batch: Axes) -> Axes:
    """The axes that stretch to those of a batch and a scale for each row. A scale may have one for each row of all matrices or of each
    one, which the last axis has, or the one before an axis of 1, or one for each matrix."""
    if math.prod(held) == 1:
        return (1,)
    found = {(*held[:-len(end)], last) for end, last in (((rows,), rows), ((rows, 1), rows), ((1, rows), rows), ((1,), 1), ((1, 1), 1))
             if held[-len(end):] == end and stretches(held[:-len(end)], batch)}
    whole = math.prod(batch) * rows
    if held in ((whole,), (math.prod(batch), rows)):
        found.add((*batch, rows))
    ways = {(1,) * (len(batch) + 1 - len(one)) + one for one in found}
    if len(ways) > 1:
        raise TensorError(f"{name} of {of} has the shape {list(held)}: one for each of {rows} rows or for each matrix of {list(batch)}; "
                          f"{[rows]} would work for rows of all, and {[*batch, rows]} for each row of each matrix")
    if not ways:
        raise TensorError(f"{name} of {of} must have 1, {rows} or {whole if whole > rows else list(blocks)} scales, got the shape "
                          f"{list(held)}")
    return ways.pop()


def stretches(held: Axes, batch: Axes) -> bool:
    """Whether axes broadcast to those of a batch."""
    return len(held) <= len(batch) and all(one in (1, other) for one, other in zip(held[::-1], batch[::-1], strict=False))


def ones(of: str, like: Any, count: int, stream: Any) -> Any:
    """So many scales of 1 where a tensor is. For a `stream` they are numpy's, for which the launch waits: a kernel there would not wait for
    those that PyTorch makes on its current stream."""
    if isinstance(like, np.ndarray) or stream is not None:
        return np.ones(count, np.float32)
    if hasattr(like, "new_ones"):
        return like.new_ones((count,), dtype=importlib.import_module("torch").float32)
    raise TensorError(f"a_scale and b_scale of {of} must be given where a is a {type(like).__name__}")
