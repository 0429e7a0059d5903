"""What attention's functions take as flash_attn_func does, though no kernel does: rows that no load of 16 bytes serves, windows wider than
the sequences, counts that are only bounds, and no queries or keys at all."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

import numpy as np

from asmgen.kernels.tensors import Facts, TensorError, located

_LINE = 8  # elements: rows, heads and batches begin at multiples of them
_ALIGNMENT = 16  # bytes


def usable(name: str, tensor: Any, of: str) -> Any:
    """A PyTorch tensor of rows whose elements lie side by side, the rows 16-byte aligned and apart: itself, or a copy."""
    if isinstance(tensor, np.ndarray) or not hasattr(tensor, "contiguous"):
        return tensor
    address, (shape, strides, _) = located(name, tensor, of)
    if 0 in shape or len(shape) < 3:
        return tensor
    apart = all(stride % _LINE == 0 for size, stride in zip(shape[:-1], strides, strict=False) if size > 1)
    rows = strides[-3] >= shape[-1] or shape[-3] == 1
    aligned = (address or 0) % _ALIGNMENT == 0
    if aligned and apart and rows and (strides[-1] == 1 or shape[-1] == 1):
        return tensor
    copy = tensor.contiguous()
    return copy if (copy.data_ptr() or 0) % _ALIGNMENT == 0 else copy.clone()


def with_sizes(chosen: Mapping[str, Any], run: Mapping[str, Any], sizes: Mapping[str, int]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Build and run parameters for these sizes. A side of a window that hides nothing has no limit, and one without later keys is a causal
    mask. The longest sequence is no longer than all rows, and of sequences that fill no more than a part of the rows, as long as an equal
    share of them: it only says how many workgroups start."""
    build, values = dict(chosen), dict(run)
    if build["varlen"]:
        for name in ("sq", "sk"):
            least = 1 if build["padded"] else -(-sizes[name] // sizes["b"])
            values[f"max_{name}"] = min(max(int(values[f"max_{name}"]), least), sizes[name])
    left, right = values["left"], values["right"]
    left = -1 if left >= values.get("max_sk", sizes["sk"]) - 1 else left
    right = -1 if right >= values.get("max_sq", sizes["sq"]) - 1 else right
    if right == 0:
        build["causal"], right = True, -1
    build["window"] = left >= 0 or right >= 0
    return build, {**values, "left": left, "right": right}


def is_empty(facts: Mapping[str, Facts]) -> bool:
    """Whether there are no batches, queries or keys."""
    return any(0 in facts[name][0][:-2] for name in "qk")


def write_of_nothing(written: Mapping[str, Any], sink: Any) -> None:
    """What is written where there are no queries, or no keys: zeros, and logarithms of sums of nothing but the sink."""
    for name, tensor in written.items():
        if name == "lse" and sink is not None:
            _copy(tensor, sink)
        elif isinstance(tensor, np.ndarray):
            tensor[...] = -inf if name == "lse" else 0
        elif hasattr(tensor, "fill_"):
            tensor.fill_(-inf if name == "lse" else 0)
        elif 0 not in located(name, tensor, "attention")[1][0]:
            raise TensorError(f"{name} has elements where there are no queries or keys, and a {type(tensor).__name__} cannot be filled; a "
                              "PyTorch tensor or a numpy array would do")


def _copy(lse: Any, sink: Any) -> None:
    """A head's sink for each of its queries."""
    if isinstance(lse, np.ndarray):
        lse[...] = np.asarray(sink)[:, None]
    else:
        lse.copy_(sink.reshape(-1, 1).expand(*lse.shape))
