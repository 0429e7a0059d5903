"""Views of tensors as kernels of products read them: copies of those that no kernel reads where they are.

A kernel reads a matrix whose rows, or columns, have their elements side by side, lines that do not overlap, and one stride through all
matrices of a batch. PyTorch makes a copy of another view, on its current stream, where the kernel runs too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from importlib import import_module
from itertools import pairwise
from typing import Any

import numpy as np

from asmgen.kernels.tensors import Facts, TensorError, has_own_elements, is_dense, numpy_type, plain_name


def batch_strides(shape: Sequence[int], strides: Sequence[int], batch: Sequence[int]) -> list[tuple[int, int]]:
    """Length and stride of the axes of a batch that a tensor steps through, one after the other; 0 for those that it lacks."""
    missing = len(batch) - len(shape)
    steps = [(size, 0 if axis < missing or shape[axis - missing] == 1 else strides[axis - missing]) for axis, size in enumerate(batch)]
    return [(size, stride) for size, stride in steps if size > 1]


def is_one_stride(steps: Sequence[tuple[int, int]]) -> bool:
    """Whether one stride goes through all axes of a batch."""
    return all(outer == size * inner for (_, outer), (size, inner) in pairwise(steps))


def layout_of(shape: Sequence[int], strides: Sequence[int], wanted: str = "") -> tuple[str, int]:
    """How a matrix lies, by "row" or by "column", and the elements from one of these to the next; "" where it lies in neither way. A single
    row or column may lie in both: as `wanted`, or else by rows."""
    (rows, columns), (down, across) = shape[-2:], strides[-2:]
    ways = {"row": down if rows > 1 else columns} if across == 1 or columns == 1 else {}
    if down == 1 or rows == 1:
        ways["column"] = across if columns > 1 else rows
    chosen = wanted if wanted in ways else next(iter(ways), "")
    return chosen, ways.get(chosen, 0)


def readable_matrix(of: str, name: str, tensor: Any, facts: Facts, batch: Sequence[int], stream: Any, layout: str = "") -> Any:
    """A matrix, or a batch of them, that a kernel reads, of a `layout` if that is given; a copy where `tensor` is none."""
    shape, strides, _ = facts
    lies, apart = layout_of(shape, strides, layout)
    line = shape[-1] if lies == "row" else shape[-2]
    one = is_one_stride(batch_strides(shape[:-2], strides[:-2], batch))
    if lies and lies == (layout or lies) and apart >= line and one:
        return tensor
    if isinstance(tensor, np.ndarray) or not can_copy(tensor):
        return tensor  # the plan says what is wrong
    check_stream(of, name, stream)
    whole = tensor if one else tensor.expand(*batch, *shape[-2:])
    return whole.transpose(-1, -2).contiguous().transpose(-1, -2) if layout == "column" else whole.contiguous()


def readable_numbers(of: str, name: str, tensor: Any, facts: Facts, stream: Any, by_columns: bool = False) -> Any:
    """Numbers side by side, a bias or scales; those of a matrix `by_columns` if so."""
    shape, strides, _ = facts
    if isinstance(tensor, np.ndarray):
        return np.ascontiguousarray(tensor.T) if by_columns else tensor  # a launch moves it in C order
    order = [*reversed(range(len(shape)))] if not by_columns else [*range(len(shape))]
    side, dense = 1, True
    for axis in order:
        dense = dense and (shape[axis] == 1 or strides[axis] == side)
        side *= shape[axis]
    if dense:
        return tensor
    if not can_copy(tensor):
        raise TensorError(f"{name} of {of} must have its {'columns' if by_columns else 'elements'} side by side, got the shape "
                          f"{list(shape)} and the strides {list(strides)}: a contiguous copy would work")
    check_stream(of, name, stream)
    return tensor.transpose(-1, -2).contiguous().transpose(-1, -2) if by_columns else tensor.contiguous()


def repeated(of: str, name: str, scales: Any, axes: tuple[int, ...], whole: tuple[int, ...], stream: Any) -> Any:
    """Scales of some axes where a kernel reads a `whole`, to which they broadcast: again for each row or for each matrix of a batch."""
    if math.prod(scales.shape) == math.prod(whole):
        return scales
    if isinstance(scales, np.ndarray):
        return np.ascontiguousarray(np.broadcast_to(scales.reshape(axes), whole))
    if not (can_copy(scales) and hasattr(scales, "reshape")):
        raise TensorError(f"{name} of {of} must have {math.prod(whole)} scales where it is a {type(scales).__name__}, got "
                          f"{list(scales.shape)}")
    check_stream(of, name, stream)
    return scales.reshape(*axes).expand(*whole).contiguous()


def with_zeros(tensor: Any, axis: int, size: int) -> Any:
    """A copy of a matrix, or a batch of them, with zeros up to that size along an axis, whose elements lie side by side. None for what
    makes no copies."""
    shape = (*tensor.shape[:-2], tensor.shape[-1 if axis == -2 else -2], size)
    if isinstance(tensor, np.ndarray):
        made = np.zeros(shape, tensor.dtype)
    elif can_copy(tensor) and hasattr(tensor, "new_zeros"):
        made = tensor.new_zeros(shape)
    else:
        return None
    transposed = made if axis == -1 else made.swapaxes(-1, -2) if isinstance(made, np.ndarray) else made.transpose(-1, -2)
    inside = transposed[..., :tensor.shape[axis]] if axis == -1 else transposed[..., :tensor.shape[axis], :]
    if isinstance(made, np.ndarray):
        inside[...] = tensor
    else:
        inside.copy_(tensor)
    return transposed


def zeros_of(of: str, tensor: Any, shape: Sequence[int], stream: Any, kind: str = "") -> Any:
    """Zeros of that shape beside a tensor of `a` or `b` without columns of K, of its type or another; numpy's for a `stream`, as a copy of
    PyTorch's is made on the current one."""
    name = kind or plain_name(str(tensor.dtype))
    if isinstance(tensor, np.ndarray) or hasattr(tensor, "new_zeros") and stream is not None:
        return np.zeros(shape, numpy_type(name))
    if hasattr(tensor, "new_zeros"):
        return tensor.new_zeros(shape, dtype=getattr(import_module("torch"), name)) if kind else tensor.new_zeros(shape)
    raise TensorError(f"a and b of {of} must have K = 1 or more where they are a {type(tensor).__name__}")


def dense_copies(tensors: Mapping[str, Any], facts: Mapping[str, Facts]) -> dict[str, Any]:
    """Contiguous copies of those matrices that have gaps, a new one for "d"; none for what makes no copies, nor where elements of "d"
    overlap."""
    found: dict[str, Any] = {}
    for name, tensor in tensors.items():
        shape, strides, _ = facts[name]
        if name == "d" and not has_own_elements(shape, strides):
            return {}
        if not isinstance(tensor, np.ndarray) and can_copy(tensor) and not is_dense(facts[name]):
            found[name] = tensor.new_empty(shape) if name == "d" else tensor.contiguous()
    return found


def can_copy(tensor: Any) -> bool:
    """Whether a tensor makes copies of itself, as PyTorch's do."""
    return hasattr(tensor, "contiguous") and hasattr(tensor, "expand")


def check_stream(of: str, name: str, stream: Any) -> None:
    """Raises TensorError for a copy that a kernel on another stream would not wait for."""
    if stream is not None:
        raise TensorError(f"{name} of {of} is a view that no kernel reads, and a copy of it would run on PyTorch's current stream, not on "
                          f"the given one; {name}.contiguous() on that stream, or no stream, would work")
