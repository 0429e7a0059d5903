"""Problems with known answers: the data of one launch, and what must come out of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import EllipsisType
from typing import TYPE_CHECKING, Any

from asmgen.author.contract.contract import ContractError
from asmgen.isa.records import dataclass

if TYPE_CHECKING:
    import numpy as np

_FLOATS = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}


def holds_nonfinite(seed: int) -> bool:
    """Whether the library's data of that seed holds NaN and infinities: that of even ones does.

    Odd seeds are for what these hide: where a NaN makes a kernel store its tile once more, nobody sees what it stored at first.
    """
    return seed % 2 == 0


FIRST_STRAINED, FIRST_HUGE = 1 << 30, 1 << 31


def strained(seed: int) -> bool:
    """Whether the library's data of that seed is such that a wrong maximum or mean shows: rows far from 0, rows with single elements far
    above or below all others, so that exp overflows or vanishes. These are the seeds from 2^30 to 2^31.

    Exact algebra does not see a maximum: exp(x - m) / sum exp(x - m) is the same number for each m.
    """
    return FIRST_STRAINED <= seed < FIRST_HUGE


def huge(seed: int) -> bool:
    """Whether the library's data of that seed is as large as code for large numbers needs, and such that this code computes a formula that
    the family's exact reference knows. These are the seeds from 2^31 on; a family without such code has its usual data."""
    return seed >= FIRST_HUGE


def random_array(seed: int, shape: Sequence[int], dtype: str = "f32") -> np.ndarray[Any, Any]:
    """Normal random numbers, rounded to a tile's type: f32, f16 or bf16. One seed gives one array."""
    import numpy as np

    return np.random.default_rng(seed).standard_normal(tuple(shape)).astype(_numpy_type(dtype))


def zero_array(shape: Sequence[int], dtype: str = "f32") -> np.ndarray[Any, Any]:
    """Zeros of a tile's type: f32, f16 or bf16."""
    import numpy as np

    return np.zeros(tuple(shape), _numpy_type(dtype))


def _numpy_type(dtype: str) -> Any:
    if dtype not in _FLOATS:
        raise ContractError(f"arrays of {dtype!r} were asked for; arrays are of {', '.join(_FLOATS)}")
    if dtype == "bf16":
        import ml_dtypes

        return ml_dtypes.bfloat16
    return _FLOATS[dtype]


@dataclass(frozen=True)
class Output:
    """One output buffer of a problem, to be compared after the launch.

    `expected` is the float64 reference, `tolerance` the largest legal |error| of each element, or of all; both have the shape of the
    elements that the kernel writes, `select` (slices, or arrays of indices) picks them out of the whole buffer, whose other elements must
    stay as they were. An infinity that is expected and found has no error, and so has a NaN. Where a number is expected with an infinite
    tolerance, the infinity of its sign has none either.
    """

    argument: str
    expected: np.ndarray[Any, Any]
    tolerance: np.ndarray[Any, Any] | float = 0.0
    select: tuple[slice | EllipsisType | np.ndarray[Any, Any], ...] = (...,)


@dataclass(frozen=True)
class Problem:
    """Arguments of one launch by name, arrays for pointers and numbers for the rest, and what must come out: a function where that is
    dear, which is called when somebody asks."""

    arguments: Mapping[str, Any]
    expected: tuple[Output, ...] | Callable[[], tuple[Output, ...]]

    @cached_property
    def outputs(self) -> tuple[Output, ...]:
        """What must come out."""
        return self.expected() if callable(self.expected) else self.expected


@dataclass(frozen=True)
class LaunchWork:
    """How long the workgroups of a launch are, for those who run only its first ones to predict the time of all.

    `first` is a smaller problem whose first workgroup executes what this one's does, but for `traced` steps, as a rule fewer; `steps` are
    those of each workgroup, in the order of the grid, `flops` those of a whole step; `read_bytes` is the size of what the launch reads,
    `needed_flops` the operations of the problem without what tiles have beyond its edges (0: those that are executed).
    `slabs` are, by argument, the numbers of what each workgroup loads of it: workgroups with one number load the same. `items` is how many
    tiles a workgroup makes one after another, on average; `pieces` how many sums the first one makes by themselves, as tiles or parts of K
    in turn (0: not known).
    """

    first: Mapping[str, Any]
    traced: int
    steps: np.ndarray[Any, Any]
    flops: float
    read_bytes: int
    needed_flops: float = 0.0
    slabs: Mapping[str, Sequence[int]] | None = None
    items: float = 1.0
    pieces: int = 0
