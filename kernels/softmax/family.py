"""The family softmax: parameters, arguments and rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import asmgen as ag
from asmgen.kernels.rows.contract import ROW_GRID, TYPES, flag, pointers, row_counts, row_parameters, row_stride, stride_rules
from asmgen.kernels.rows.rowshape import MOST_FRAGMENTS, PER_LANE, ROW_LANES, most_columns, with_lanes
from asmgen.kernels.softmax.tensors import TENSORS, tensors_of

ONE_PASS = most_columns(max(ROW_LANES), MOST_FRAGMENTS)
"""Columns that stay in registers."""
_TWO_PASSES = 2 * ONE_PASS


def _parameters(variant: ag.Variant) -> tuple[ag.Parameter, ...]:
    one_pass = variant.passes == 1
    fragments = MOST_FRAGMENTS if one_pass else _TWO_PASSES // (PER_LANE * variant.lanes)
    return (
        ag.Parameter("passes", "build", int, "1: rows stay in registers; 2: they are read twice", default=1),
        flag("log", "d = x - log(sum(exp(x)))"),
        ag.Parameter("mask", "build", str, "causal: row r sees columns up to r % queries + columns - queries; length: columns before "
                     "lengths[r]; others become 0, of log minus infinity", default="none",
                     choices=("none", "causal", "length") if variant.lanes >= ag.LANES else ("none",)),
        ag.Parameter("backward", "build", bool, "dx from dy and the result y, which says what was masked", default=False),
        ag.Parameter("dtype", "build", str, "type of x, y, dy and dx", default="bf16", choices=TYPES),
        ag.Parameter("out", "build", str, "type of d", default="bf16", choices=TYPES),
        *row_parameters(variant, fragments),
        *(row_stride(variant, name) for name in TENSORS),
        ag.Parameter("queries", "run", int, "rows of a matrix of scores", minimum=1, maximum=1 << 24,
                     default_from=ag.Formula("columns", lambda p: p["columns"])),
    )


def _arguments(variant: ag.Variant, build: ag.Values) -> tuple[ag.ContractArgument, ...]:
    """What the build reads and writes."""
    named = tensors_of(build)
    masked = not build["backward"]
    return (
        *pointers(named),
        *([ag.ContractArgument("lengths", "pointer", "rows i32")] if masked and build["mask"] == "length" else []),
        *row_counts(named),
        *([ag.ContractArgument("queries", "u32", "rows of a matrix of scores")] if masked and build["mask"] == "causal" else []),
    )


def _problem(values: ag.Values, seed: int) -> ag.Problem:
    """Random rows with their reference. Only this call loads numpy."""
    from asmgen.kernels.softmax.problem import make_problem

    return make_problem(values, seed)


def _algebra(values: ag.Values, inputs: Any) -> Mapping[str, Any]:
    """The result in exact residues."""
    from asmgen.kernels.softmax.algebra import softmax

    return softmax(values, inputs)


def _chosen(candidates: Sequence[ag.Variant], values: ag.Values) -> ag.Variant:
    """One pass where registers hold a row; rows that are masked, or go element by element, have a wave for themselves at least."""
    passes = values.get("passes", 2 if (values.get("columns") or 0) > ONE_PASS else 1)
    alone = values.get("access") == "element" or values.get("mask", "none") != "none"
    return with_lanes([one for one in candidates if one.passes == passes] or candidates, values, ag.LANES if alone else 0)


SOFTMAX = ag.Family(
    name="softmax",
    title="d = softmax(x) of each row, or its logarithm, in float32; or dx from dy",
    parameters=_parameters,
    arguments=_arguments,
    grid=ROW_GRID,
    problem=_problem,
    algebra=_algebra,
    selection=_chosen,
    rules=(*stride_rules(TENSORS, {"d": "out"}),
           ag.Rule("access must be wide where dtype or out is f32, or passes is 2", ("access", "dtype", "out", "passes"),
                   lambda p: p["access"] == "wide" or "f32" not in (p["dtype"], p["out"]) and p["passes"] == 1),
           ag.Rule("mask must be none where backward is true: y says what was masked", ("mask", "backward"),
                   lambda p: not p["backward"] or p["mask"] == "none")),
    aliases=lambda variant, build: (ag.Alias(("dy", "dx"), "their strides are equal") if build["backward"]
                                    else ag.Alias(("x", "d"), "their strides and types are equal"),),
    example={"rows": 5},
    fills_argument_wait=True,
)
