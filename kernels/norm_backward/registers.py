"""What a wave's registers hold of norm-backward's rows, and the plan that follows."""

from __future__ import annotations

import asmgen as ag
from asmgen.kernels.norm_backward.tensors import sums_of
from asmgen.kernels.rows.budget import RowPlan, first_that_fits, fits, passing_vgprs, plans, run_vgprs, second_vgprs, weight_vgprs
from asmgen.kernels.rows.rowshape import PER_LANE, ROW_LANES, RowShape


def plan_of(build: ag.Values) -> RowPlan:
    """The plan of a build."""
    shape = RowShape(build["columns"], build["lanes"], ROW_LANES[build["lanes"]])
    sums = 0 if sums_are_apart(build) else len(sums_of(build))
    return first_that_fits(shape, _plans(build, shape), lambda plan: _need(build, shape, plan, sums))


def sums_are_apart(build: ag.Values) -> bool:
    """Whether registers have no room for sums of columns beside rows: a kernel of its own makes them then, which reads rows again."""
    shape = RowShape(build["columns"], build["lanes"], ROW_LANES[build["lanes"]])
    return not any(fits(shape, _need(build, shape, plan, len(sums_of(build)))) for plan in _plans(build, shape))


def _plans(build: ag.Values, shape: RowShape) -> list[RowPlan]:
    return list(plans(shape, draws=build["dropout"], in_place=build["dtype"] == "f32"))


def _need(build: ag.Values, shape: RowShape, plan: RowPlan, sums: int) -> int:
    """h and g in float32, of which dx is made in place, and so many sums; x and dy of the next rows; what is added; w.
    Draws are made in the registers of h."""
    dtype, size = build["dtype"], shape.fragments
    held = (2 + sums) * size * PER_LANE + (2 * size * run_vgprs(dtype) if plan.ahead else 0)
    held += passing_vgprs(shape, dtype, plan, build["residual"], build["dropout"], 1)
    return held + weight_vgprs(shape, dtype, plan) + (second_vgprs(shape, dtype, False, plan) if build["residual"] else 0)
