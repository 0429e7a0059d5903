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


@dataclass(frozen=True)
class Scaling:
    """The build parameter of scales, how many of each a kernel reads, and those that it wants by columns."""

    build: Mapping[str, str]
    counts: Mapping[str, int]
    by_columns: tuple[str, ...]


def scaling_of(of: str, known: Mapping[str, Facts], family: str, m: int, n: int, k: int, batch: int) -> Scaling:
    """The kind of scales that serves those that are given, and how many the kernel reads then."""
    if family != "gemm-fp8":
        if "a_scale" in known or "b_scale" in known:
            raise TensorError(f"a_scale and b_scale of {of} belong to float8; a factor of all is alpha")
        return Scaling({}, {}, ())
    rows_of, in_blocks = {"a_scale": m, "b_scale": n}, blocks_of(m, n, k)
    kinds = {name: _kind(of, name, known[name], rows_of[name], in_blocks[name], batch) for name in rows_of if name in known}
    if "block" in kinds.values():
        if batch > 1 or any(name not in known or known[name][0] != shape for name, shape in in_blocks.items()):
            raise TensorError(f"a_scale and b_scale of {of} must be of one kind where a scale belongs to a block: "
                              f"{list(in_blocks['a_scale'])} and {list(in_blocks['b_scale'])}, and of one product")
        return Scaling({"scales": "block"}, {}, ("a_scale",))
    if "row" in kinds.values():
        return Scaling({"scales": "row"}, {name: batch * rows for name, rows in rows_of.items()}, ())
    return Scaling({"scales": "tensor"}, dict.fromkeys(rows_of, 1), ())


def blocks_of(m: int, n: int, k: int) -> dict[str, tuple[int, int]]:
    """The shapes of scales that belong to blocks."""
    across = -(-k // BLOCK)
    return {"a_scale": (m, across), "b_scale": (-(-n // BLOCK), across)}


def _kind(of: str, name: str, facts: Facts, rows: int, in_blocks: tuple[int, int], batch: int) -> str:
    """What a scale belongs to."""
    held, _, dtype = facts
    if plain_name(dtype) != "float32":
        raise TensorError(f"{name} of {of} must be float32, got {plain_name(dtype)}")
    count = math.prod(held)
    if held == in_blocks and batch == 1 and (in_blocks[1] > 1 or count not in (1, rows)):
        return "block"
    if count not in (1, rows, batch * rows):
        raise TensorError(f"{name} of {of} must have 1, {rows} or {batch * rows if batch > 1 else list(in_blocks)} scales, got the "
                          f"shape {list(held)}")
    return "row" if count > 1 else "tensor"


def ones(of: str, like: Any, count: int, stream: Any) -> Any:
    """So many scales of 1 where a tensor is. For a `stream` they are numpy's, for which the launch waits: a kernel there would not wait for
    those that PyTorch makes on its current stream."""
    if isinstance(like, np.ndarray) or stream is not None:
        return np.ones(count, np.float32)
    if hasattr(like, "new_ones"):
        return like.new_ones((count,), dtype=importlib.import_module("torch").float32)
    raise TensorError(f"a_scale and b_scale of {of} must be given where a is a {type(like).__name__}")
