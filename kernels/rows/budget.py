"""The VGPRs of a wave, and how a kernel goes through rows so that it needs no more.

A kernel says what it would like best, then what takes less: its `plans`, in order. `need` adds up what a plan holds, from the tiles that
the kernel declares; `first_that_fits` takes the first plan with room for them and for what all rows need beside.
tests/kernels/test_row_budget.py builds the widest rows of each kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import product

import asmgen as ag
from asmgen.kernels.rows.rowshape import PAGE, PER_LANE, RowShape

MOST = 256
"""Registers that a vector instruction names (docs/facts/instructions.md section 1); two waves of a SIMD have as many each."""
_OVERHEAD = 24
"""What stands beside tiles: the numbers of lane and work-item, a byte of the lane for each size of element, two words of sums of waves, up
to six figures of a row, and what operations hold on their way, at most eight."""
PHILOX_STATE = 8
"""Registers of a call on its way (author/ops/draws.py)."""
_CALLS = 4
"""Philox calls of a lane whose products take turns; more of them at once save nothing."""


@dataclass(frozen=True)
class RowPlan:
    """How a wave goes through rows.

    `ahead`: inputs load while the rows before are made, into registers beside them; else into the registers where rows are made, as soon as
    those are stored. `second_ahead`: so does the input that is added; else it comes a run ahead. `keeps_weights`: factors of columns stay
    in registers; else they come from L2 for each row, a run ahead. `together`: Philox calls at once.
    """

    ahead: bool = True
    second_ahead: bool = True
    keeps_weights: bool = True
    together: int = 1


def plans(shape: RowShape, draws: bool = False, in_place: bool = False) -> Iterator[RowPlan]:
    """Plans, the best one first. Inputs load ahead before anything else: HBM then works while rows are made. `in_place`: the kernel can
    load into the registers where rows are made."""
    calls = [count for count in (4, 2, 1) if count <= min(shape.fragments, _CALLS)] if draws else [1]
    for ahead, second, keeps, together in product((True, False) if in_place else (True,), (True, False), (True, False), calls):
        yield RowPlan(ahead, second, keeps, together)


def fits(shape: RowShape, held: int) -> bool:
    """Whether registers hold so much beside what all rows need."""
    return _with_overhead(shape, held) <= MOST


def _with_overhead(shape: RowShape, held: int) -> int:
    return held + _OVERHEAD + -(-shape.fragments * PER_LANE * shape.across * 4 // PAGE)


def first_that_fits(shape: RowShape, candidates: Iterable[RowPlan], need: Callable[[RowPlan], int]) -> RowPlan:
    """The first plan whose registers there are. Raises AsmgenError where even the last one wants more."""
    wanted = 0
    for plan in candidates:
        if fits(shape, need(plan)):
            return plan
        wanted = _with_overhead(shape, need(plan))
    raise ag.AsmgenError(f"a row of these columns wants {wanted} VGPRs of a wave, which has {MOST}; more lanes for a row would do")


def run_vgprs(dtype: str, by_element: bool = False) -> int:
    """Registers of PER_LANE neighbours; one for each where elements come one by one."""
    return PER_LANE if by_element else PER_LANE * ag.element_bits(dtype) // 32


def weight_vgprs(shape: RowShape, dtype: str, plan: RowPlan) -> int:
    """Registers of one number a column: in float32 for all runs, or for one run and, as memory has them, for two."""
    return shape.fragments * PER_LANE if plan.keeps_weights else PER_LANE + 2 * run_vgprs(dtype)


def second_vgprs(shape: RowShape, dtype: str, by_element: bool, plan: RowPlan) -> int:
    """Registers of an input that is added: of a row, or of two runs."""
    return (shape.fragments if plan.second_ahead else 2) * run_vgprs(dtype, by_element)


def draws_vgprs(shape: RowShape, plan: RowPlan) -> int:
    """Registers of dropout: four words and a counter for each call, and numbers of rows where a wave has several."""
    return plan.together * (5 + (shape.wave_rows > 1))


def passing_vgprs(shape: RowShape, dtype: str, plan: RowPlan, adds: bool, draws: bool, weights: int) -> int:
    """Registers of what is on its way, one after the other: before the loop so many weights as memory has them, unless there are draws,
    whose registers must lie side by side; then a run in float32 that is added, and Philox calls."""
    late = weights * shape.fragments * run_vgprs(dtype) if plan.keeps_weights and dtype != "f32" and not draws else 0
    return max(late, PER_LANE if adds else 0, PHILOX_STATE * plan.together if draws else 0)
