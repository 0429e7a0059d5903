"""Problems with known answers: the data of one launch, and what must come out of it."""

from __future__ import annotations

from collections.abc import Mapping
from types import EllipsisType
from typing import TYPE_CHECKING, Any

from asmgen.isa.records import dataclass

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Output:
    """One output buffer of a problem, to be compared after the launch.

    `expected` is the float64 reference, `tolerance` the largest legal |error| of each element, or of all; both have the shape of the
    elements that the kernel writes, `select` (slices, or arrays of indices) picks them out of the whole buffer, whose other elements must
    stay as they were. An infinity that is expected and found has no error.
    """

    argument: str
    expected: np.ndarray[Any, Any]
    tolerance: np.ndarray[Any, Any] | float = 0.0
    select: tuple[slice | EllipsisType | np.ndarray[Any, Any], ...] = (...,)


@dataclass(frozen=True)
class Problem:
    """Arguments of one launch by name, arrays for pointers and numbers for the rest, and what must come out."""

    arguments: Mapping[str, Any]
    outputs: tuple[Output, ...]
