"""Lists of matrices as `gemm.matmul` takes them: their number, kind and place, the scales of each, and what none may share."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import numpy as np

from asmgen.kernels.tensors import Facts, TensorError, located, location_of, plain_name, shares, span_of
from asmgen.kernels.usableviews import can_copy

Located = Mapping[str, list[tuple[int | None, Facts]]]
"""What `located` says of each matrix of each list."""


def called(name: str) -> str:
    """The name of a kernel's argument in a call."""
    return "out" if name == "d" else name


def count_of(of: str, given: Mapping[str, Any], beta: float) -> int:
    """How many products there are, of arguments by the kernels' names. Raises TensorError for lists that do not belong together."""
    lengths = {name: len(one) for name, one in given.items() if isinstance(one, list | tuple)}
    count = max(lengths.values())
    for name, length in lengths.items():
        if name not in "abdc":
            its = "a bias" if name == "bias" else f"a tensor, whose leading axis is one of {count} where each product has its own"
            raise TensorError(f"{name} of {of} is the same for all products, got a list; {its} would work")
        if length != count:
            raise TensorError(f"{called(name)} of {of} has {length} matrices, and another list {count}; lists of equal length would work, "
                              "and one matrix a or b for all")
    for name in "dc":
        if given[name] is not None and name not in lengths and (name == "d" or beta):
            raise TensorError(f"{called(name)} of {of} must be a list of {count} matrices, as there are so many products")
    return count


def check_matrices(of: str, every: Mapping[str, list[Any]]) -> None:
    """Raises TensorError for a member of a list that is no matrix, or is elsewhere than a[0]."""
    place = location_of(every["a"][0], f"a[0] of {of}")
    for name, some in every.items():
        for number, one in enumerate(some):
            what = f"{called(name)}[{number}]"
            shape = located(what, one, of)[1][0]
            if len(shape) != 2:
                raise TensorError(f"{what} of {of} must be a matrix where a, b or out is a list, got the shape {list(shape)}; "
                                  "a list of its matrices would work, or tensors with leading axes in place of all lists")
            its = location_of(one, f"{what} of {of}")
            if its != place:
                raise TensorError(f"{what} of {of} is {its}, and a[0] {place}: the matrices of lists must be in one memory; a copy there "
                                  "would work")


def located_alike(of: str, every: Mapping[str, list[Any]]) -> Located:
    """Where the matrices are. Raises TensorError for those of a list that differ in shape, strides or type."""
    found = {name: [located(f"{called(name)}[{number}]", one, of) for number, one in enumerate(some)] for name, some in every.items()}
    for name, some in found.items():
        for number, (_, its) in enumerate(some):
            if its != some[0][1]:
                one, first = (f"{list(shape)} elements of {plain_name(dtype)} with the strides {list(strides)}"
                              for shape, strides, dtype in (its, some[0][1]))
                raise TensorError(f"{called(name)}[{number}] of {of} has {one}, and {called(name)}[0] has {first}: the matrices of a list "
                                  "must be of one kind")
    return found


def check_apart(of: str, every: Mapping[str, list[Any]], more: Mapping[str, Any], found: Located, beta: float) -> None:
    """Raises TensorError where a matrix of `out` has an element of what is read, `more` too, or of another one of `out`. The matrix of C
    of the same product may be it: each wave reads its own elements. Such an array of numpy is read before anything is written."""
    held = [(name, number, every[name][number], found[name][number])
            for name in ("a", "b", "d", *(["c"] if beta else [])) for number in range(len(every[name]))]
    held += [(name, -1, one, located(name, one, of)) for name, one in more.items()]
    begins, ends = np.array([span_of(tensor, place) for _, _, tensor, place in held], np.uint64).T
    for number, (out, where) in enumerate(zip(every["d"], found["d"], strict=True)):
        begin, end = span_of(out, where)
        for index in np.flatnonzero((begins < end) & (ends > begin)):
            name, other, tensor, place = held[index]
            own = other == number and (name == "d" or (name == "c" and (place[0] is None or place == where)))
            if not own and shares(tensor, out, place, where):
                its = name if other < 0 else f"{called(name)}[{other}]"
                raise TensorError(f"out[{number}] of {of} shares elements with {its}; another out would do")


def is_own(of: str, name: str, scale: Any, count: int, rows: int, blocks: tuple[int, int]) -> bool:
    """Whether each of `count` products has scales of its own along the leading axis, one or one for each of `rows`, or those of `blocks`;
    otherwise all share them. Raises TensorError for a shape that is neither, or both."""
    shape = tuple(scale.shape)
    size = math.prod(shape)
    if count == 1 and shape == blocks:
        return False
    if len(shape) > 1 and shape[0] == count:
        if size == count == rows > 1:
            raise TensorError(f"{name} of {of} has the shape {list(shape)}: one for each of {count} products or one for each of "
                              f"{rows} rows; [{rows}] would work for rows of all, and {[count, rows]} for each row of each product")
        if size in (count, count * rows) or shape[1:] == blocks:
            return True
    if size in (1, rows) or shape == blocks:
        return False
    raise TensorError(f"{name} of {of} must be of 1 scale or of {rows} for all products, or {[count, 1]} or {[count, rows]} for {count} of "
                      f"them, got the shape {list(shape)}")


def member(of: str, name: str, scale: Any, number: int) -> Any:
    """The scales of one product, of those that each product has of its own."""
    if not hasattr(scale, "__getitem__"):
        raise TensorError(f"{name} of {of} must be for all products where it is a {type(scale).__name__}, got {list(scale.shape)}")
    return scale[number]


def for_each_row(of: str, name: str, scale: Any, count: int, rows: int) -> Any:
    """Scales of their own of each product, as a launch of all products reads them: one for each row."""
    if count == 1:
        return member(of, name, scale, 0)
    if math.prod(scale.shape) != count:
        return scale
    if isinstance(scale, np.ndarray):
        return np.repeat(scale.reshape(count, 1), rows, 1)
    if not (can_copy(scale) and hasattr(scale, "reshape")):
        raise TensorError(f"{name} of {of} must have {[count, rows]} scales where it is a {type(scale).__name__}, got {list(scale.shape)}")
    return scale.reshape(count, 1).expand(count, rows)


def addresses(stack: ExitStack, device: Any, like: Any, numbers: list[int], stream: Any) -> Any:
    """An array of addresses where a tensor is. PyTorch keeps its memory until what its current stream holds has run; for a `stream`, and
    for other tensors, the stack waits for the kernel."""
    if stream is None and hasattr(like, "new_tensor"):
        return like.new_tensor(numbers, dtype=importlib.import_module("torch").int64)
    buffer = device.upload(np.array(numbers, np.uint64))
    stack.callback(device.free, buffer)
    stack.callback(device.synchronize)
    return buffer
