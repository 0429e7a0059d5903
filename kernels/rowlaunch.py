"""Launches of row kernels on tensors: what their rows are, which build serves them, and results of the same kind as what is read."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from asmgen.kernels.built import launches
from asmgen.kernels.registry import family as find_family
from asmgen.kernels.tensors import TensorError, check_writable, gpu_of, located, numpy_type, plain_name

FLOATS = {"bfloat16": "bf16", "bfloat": "bf16", "float16": "f16", "float32": "f32"}
"""Types of elements by their names in numpy, PyTorch and DLPack."""
_WORD = 4  # bytes that an address and a stride are multiples of where accesses are wide


@dataclass(frozen=True)
class TensorRows:
    """A tensor as rows that lie `stride` elements apart."""

    rows: int
    columns: int
    stride: int
    dtype: str
    wide: bool
    shape: tuple[int, ...]


def rows_of(name: str, tensor: Any, of: str) -> TensorRows:
    """The rows of a tensor, along its last axis. Raises TensorError for one whose elements or rows lie at no equal distances."""
    address, (shape, strides, dtype) = located(name, tensor, of)
    kind = FLOATS.get(plain_name(dtype))
    if kind is None:
        raise TensorError(f"{name} of {of} must be bfloat16, float16 or float32, got {plain_name(dtype)}")
    if not shape or 0 in shape:
        raise TensorError(f"{name} of {of} must have 1 row and 1 column or more, got the shape {list(shape)}")
    if strides[-1] != 1 and shape[-1] > 1:
        raise TensorError(f"{name} of {of} must have its rows' elements side by side (stride 1), got the strides {list(strides)}")
    stride, extent = shape[-1], 0
    for count, apart in zip(reversed(shape[:-1]), reversed(strides[:-1]), strict=True):
        if count == 1:
            continue
        if extent and apart != extent:
            raise TensorError(f"{name} of {of} must have its rows at equal distances, got the shape {list(shape)} and the strides "
                              f"{list(strides)}; a contiguous copy would do")
        stride, extent = (stride if extent else apart), apart * count
    size = 4 if kind == "f32" else 2
    wide = (address or 0) % _WORD == 0 and stride * size % _WORD == 0
    return TensorRows(math.prod(shape[:-1]), shape[-1], stride, kind, wide, shape)


def same_shape(of: str, name: str, one: TensorRows, like: TensorRows) -> None:
    """Raises TensorError for a tensor of another shape."""
    if one.shape != like.shape:
        raise TensorError(f"{name} of {of} must have the shape {list(like.shape)}, got {list(one.shape)}")


def empty(like: Any, shape: tuple[int, ...], dtype: str = "") -> Any:
    """A tensor of the same kind, of the type of that name or of the same type."""
    if isinstance(like, np.ndarray):
        return np.empty(shape, numpy_type(dtype) if dtype else like.dtype)
    if hasattr(like, "new_empty"):
        return like.new_empty(shape, dtype=getattr(importlib.import_module("torch"), dtype)) if dtype else like.new_empty(shape)
    raise TensorError(f"results must be given where the tensor is a {type(like).__name__}")


def ones(like: Any, count: int, stream: Any) -> Any:
    """So many ones of the same type. For a `stream` they are numpy's, for which the launch waits: a kernel there would not wait for those
    that PyTorch makes on its current stream."""
    if isinstance(like, np.ndarray):
        return np.ones(count, like.dtype)
    if hasattr(like, "new_ones"):
        return like.new_ones((count,)) if stream is None else np.ones(count, numpy_type(plain_name(str(like.dtype))))
    raise TensorError(f"weight must be given where x is a {type(like).__name__}")


def vector(name: str, tensor: Any, of: str, count: int, dtype: str) -> Any:
    """A vector of so many elements of that type. Raises TensorError for another one."""
    _, (shape, strides, kind) = located(name, tensor, of)
    if shape != (count,) or FLOATS.get(plain_name(kind)) != dtype or strides[0] != 1 and count > 1:
        raise TensorError(f"{name} of {of} must be {count} elements of {dtype}, side by side, got {list(shape)} of "
                          f"{plain_name(kind)}")
    return tensor


@dataclass(frozen=True)
class _Plan:
    launches: Any
    numbers: Mapping[str, Any]
    pointers: tuple[str, ...]


@cache
def _plan(name: str, arch: str, build: tuple[tuple[str, Any], ...], shape: tuple[tuple[str, Any], ...]) -> _Plan:
    family = find_family(name)
    contract = family.contract(family.check_arch(arch), dict(build))
    values = contract.resolve_run({**dict(build), **dict(shape)})
    given = contract.given
    numbers = {argument.name: values[argument.name] for argument in given if argument.type != "pointer" and argument.name in values}
    numbers |= {name: value for name, value in shape if name in {argument.name for argument in given} and name not in numbers}
    return _Plan(launches(family, arch, dict(build), values), numbers,
                 tuple(argument.name for argument in given if argument.type == "pointer"))


def launch(name: str, of: str, build: Mapping[str, Any], shape: Mapping[str, Any], tensors: Mapping[str, Any], written: tuple[str, ...],
           device: Any, stream: Any, further: Mapping[str, Any] | None = None) -> None:
    """Launch a family's build. `device` is by default the GPU of the first tensor; `further` are numbers that follow from parameters.

    Raises TensorError or ContractError before any launch, and LaunchError if the emulator finds an error.
    """
    first = next(iter(tensors.values()))
    used = device if device is not None else gpu_of(first, of)
    for one in written:
        check_writable(tensors[one], of)
    plan = _plan(name, used.arch, tuple(sorted(build.items())), tuple(sorted(shape.items())))
    plan.launches.start(used, {**tensors, **plan.numbers, **(further or {})}, stream)
