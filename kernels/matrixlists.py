"""Lists of matrices whose products are one launch: what they must not share, and the arrays of their addresses."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import numpy as np

from asmgen.kernels.tensors import Facts, TensorError, shares, span_of


def called(name: str) -> str:
    """The name of a kernel's argument in a call."""
    return "out" if name == "d" else name


def check_apart(of: str, every: Mapping[str, list[Any]], where: Mapping[str, list[tuple[int | None, Facts]]]) -> None:
    """Raises TensorError where a matrix of `out` has an element of A, of B or of another one of `out`."""
    names = [(name, number) for name in "abd" for number in range(len(every[name]))]
    begins, ends = np.array([span_of(where[name][number]) for name, number in names], np.uint64).T
    for number, out in enumerate(every["d"]):
        begin, end = span_of(where["d"][number])
        for index in np.flatnonzero((begins < end) & (ends > begin)):
            name, other = names[index]
            if (name, other) != ("d", number) and shares(every[name][other], out, where[name][other], where["d"][number]):
                raise TensorError(f"out[{number}] of {of} shares elements with {called(name)}[{other}]; another out would do")


def addresses(stack: ExitStack, device: Any, like: Any, numbers: list[int]) -> Any:
    """An array of addresses where a tensor is. PyTorch keeps its memory until the kernel has run; else the stack waits for that."""
    if hasattr(like, "new_tensor"):
        return like.new_tensor(numbers, dtype=importlib.import_module("torch").int64)
    buffer = device.upload(np.array(numbers, np.uint64))
    stack.callback(device.free, buffer)
    stack.callback(device.synchronize)
    return buffer
