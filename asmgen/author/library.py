"""What a kernel of the library gives to those who run it: its contract, its builder, and problems with known answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from asmgen.author.contract import KernelContract
from asmgen.author.kernel import Kernel

if TYPE_CHECKING:
    import numpy as np

Parameters = Mapping[str, Any]


@dataclass(frozen=True)
class Output:
    """One output buffer of a problem, to be compared after the launch.

    `expected` is the float64 reference, `tolerance` the largest legal |error| of each element; both have the shape of the
    elements that the kernel writes, `select` picks them out of the whole buffer, whose other elements must stay as they were.
    """

    argument: str
    expected: np.ndarray[Any, Any]
    tolerance: np.ndarray[Any, Any]
    select: tuple[slice, ...]


@dataclass(frozen=True)
class Problem:
    """Arguments of one launch by name, arrays for pointers and numbers for the rest, and what must come out."""

    arguments: Mapping[str, Any]
    outputs: tuple[Output, ...]


@dataclass(frozen=True)
class LibraryKernel:
    """One kernel of the library. `make_problem(parameters, seed)` draws random data; both functions take resolved parameters."""

    contract: KernelContract
    build: Callable[[str, Parameters], Kernel]
    make_problem: Callable[[Parameters, int], Problem]
