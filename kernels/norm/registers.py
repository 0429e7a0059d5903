"""What a wave's registers hold of norm's rows, and the plan that follows."""

from __future__ import annotations

import asmgen as ag
from asmgen.kernels.norm.tensors import BLOCKS, MASK, is_blocks
from asmgen.kernels.rows.budget import RowPlan, draws_vgprs, first_that_fits, passing_vgprs, plans, run_vgprs, second_vgprs, weight_vgprs
from asmgen.kernels.rows.rowshape import PER_LANE, RowShape


def plan_of(build: ag.Values, shape: RowShape) -> RowPlan:
    """The plan of a build."""
    by_element = build["access"] == "element"

    def need(plan: RowPlan) -> int:
        """Rows in float32, which d is made of in place, or blocks beside; x of the next ones; what is added; r in its type; w and b; what
        dropout keeps, and its draws."""
        dtype, size = build["dtype"], shape.fragments
        held = size * PER_LANE + (size * run_vgprs(dtype, by_element) if plan.ahead else 0)
        held += (2 if build["bias"] else 1) * weight_vgprs(shape, dtype, plan)
        if build["residual"]:
            held += second_vgprs(shape, dtype, by_element, plan) + (size * run_vgprs(dtype) if dtype != "f32" else 0)
        if is_blocks(build):
            held += size * (run_vgprs(BLOCKS[build["out"]]) + 1)  # and a scale
        if build["save"] == MASK:
            held += size * run_vgprs("i8")
        held += draws_vgprs(shape, plan) if build["dropout"] else 0
        return held + passing_vgprs(shape, dtype, plan, build["residual"], build["dropout"], 2 if build["bias"] else 1)

    return first_that_fits(shape, plans(shape, draws=build["dropout"], in_place=by_element or build["dtype"] == "f32"), need)
