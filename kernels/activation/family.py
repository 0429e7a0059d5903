"""The family activation: parameters, arguments and rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import asmgen as ag
from asmgen.kernels.activation.tensors import TENSORS, inputs_of, outputs_of
from asmgen.kernels.rows.contract import ROW_GRID, TYPES, pointers, row_counts, row_parameters, row_stride, stride_rules
from asmgen.kernels.rows.rowshape import FEW_FRAGMENTS, PER_LANE, ROW_LANES, by_columns, most_columns

PART = most_columns(max(ROW_LANES), FEW_FRAGMENTS)
"""Columns that a workgroup has at once; a longer row goes through it part by part."""
_PARTS = 4


def _parameters(variant: ag.Variant) -> tuple[ag.Parameter, ...]:
    longest = variant.lanes == max(ROW_LANES)
    return (
        ag.Parameter("kind", "build", str, "silu: x sigmoid(x); gelu: x Phi(x); swiglu: x sigmoid(1.702 x) (up + 1)", default="silu",
                     choices=("gelu", "silu", "swiglu")),
        ag.Parameter("approximate", "build", str, "of gelu: none, or tanh: x sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3))", default="none",
                     choices=("none", "tanh")),
        ag.Parameter("gated", "build", bool, "times up; swiglu always is", default=False),
        ag.Parameter("limit", "build", float, "x is cut above it, and up above it and below its negative, of what is gated; 0: no limit; "
                     "-1: 7 of swiglu, no limit of others", default=-1.0, minimum=-1.0, maximum=65504.0, tried=(0.0, 7.0)),
        ag.Parameter("backward", "build", bool, "dx and dup from dy", default=False),
        ag.Parameter("dtype", "build", str, "type of all tensors", default="bf16", choices=TYPES),
        *row_parameters(variant, _PARTS * PART // (PER_LANE * variant.lanes) if longest else FEW_FRAGMENTS),
        *(row_stride(variant, name) for name in TENSORS),
    )


def _arguments(variant: ag.Variant, build: ag.Values) -> tuple[ag.ContractArgument, ...]:
    """What the build reads and writes."""
    named = (*inputs_of(build), *outputs_of(build))
    return (*pointers(named), *row_counts(named))


def _problem(values: ag.Values, seed: int) -> ag.Problem:
    """Random rows with their reference. Only this call loads numpy."""
    from asmgen.kernels.activation.problem import make_problem

    return make_problem(values, seed)


def _algebra(values: ag.Values, inputs: Any) -> Mapping[str, Any]:
    """The results in exact residues."""
    from asmgen.kernels.activation.algebra import activated

    return activated(values, inputs)


ACTIVATION = ag.Family(
    name="activation",
    title="d = act(x) or act(x) up, element by element in float32; or dx and dup from dy",
    parameters=_parameters,
    arguments=_arguments,
    grid=ROW_GRID,
    problem=_problem,
    algebra=_algebra,
    selection=by_columns,
    rules=(*stride_rules(TENSORS),
           ag.Rule(f"access must be wide where dtype is f32, or columns exceed {PART}", ("access", "dtype", "columns"),
                   lambda p: p["access"] == "wide" or p["dtype"] != "f32" and p["columns"] <= PART),
           ag.Rule("approximate must be none where kind is not gelu", ("approximate", "kind"),
                   lambda p: p["approximate"] == "none" or p["kind"] == "gelu")),
    aliases=lambda variant, build: tuple(
        ag.Alias((source, target), "their strides are equal") for source, target in
        ((("dy", "dx"), ("x", "dx"), ("up", "dup")) if build["backward"] else (("x", "d"), ("up", "d")))
        if source in inputs_of(build) and target in outputs_of(build)),
    example={"rows": 5},
    fills_argument_wait=True,
)
