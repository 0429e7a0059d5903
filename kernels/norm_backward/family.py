"""The family norm-backward: parameters, arguments and rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import asmgen as ag
from asmgen.kernels.norm_backward.tensors import TENSORS, figures_of, inputs_of, outputs_of, sums_of
from asmgen.kernels.rows.contract import (
    ROW_GRID,
    TYPES,
    dropout_arguments,
    dropout_parameters,
    flag,
    pointers,
    row_counts,
    row_parameters,
    row_stride,
    stride_rules,
)
from asmgen.kernels.rows.rowshape import by_columns, groups_of, shape_of

_F32 = 4  # bytes


def _parameters(variant: ag.Variant) -> tuple[ag.Parameter, ...]:
    return (
        ag.Parameter("kind", "build", str, "of the norm", default="layer", choices=("layer", "rms")),
        flag("residual", "dr, the gradient that arrives at x by another way, is added to dx"),
        flag("bias", "db, the gradient of the bias, is made"),
        flag("dropout", "dx goes on through the dropout that norm applied: 0 where it dropped, else divided by 1 - p"),
        flag("dresidual", "the gradient before dropout is stored too: that of the residual"),
        ag.Parameter("rounds", "build", int, "rounds of Philox 4x32, those of norm", default=7, choices=(7, 10)),
        ag.Parameter("dtype", "build", str, "type of x, dy, dr, dx, w, dw and db", default="bf16", choices=TYPES),
        *row_parameters(variant, elements=False),
        *(row_stride(variant, name) for name in TENSORS), *dropout_parameters(),
    )


def parts_of_launch(p: ag.Values, variant: ag.Variant) -> int:
    """Rows of partial sums: one for each row that the workgroups of the first kernel have at once."""
    return int(-(-groups_of(variant, p) // p["each"])) * shape_of(variant, p["columns"]).rows


def _arguments(variant: ag.Variant, build: ag.Values) -> tuple[ag.ContractArgument, ...]:
    """Those of the kernel of rows."""
    named = (*inputs_of(build), *outputs_of(build))
    return (
        *pointers(named), *pointers(["w"], "columns factors"), *pointers(figures_of(build), "rows float32, as norm saves them"),
        *row_counts(named), *_parts(build), *(dropout_arguments() if build["dropout"] else ()),
    )


def _parts(build: ag.Values) -> tuple[ag.ContractArgument, ...]:
    return tuple(ag.ContractArgument(f"{name}_parts", "pointer", "sums of some rows each, float32") for name in sums_of(build))


def column_arguments(variant: ag.Variant, build: ag.Values) -> tuple[ag.ContractArgument, ...]:
    """Those of the kernel that adds columns where rows fill the registers."""
    wanted = {"x", "dy", *figures_of(build), "rows", "each", "x_stride", "dy_stride", *(f"{name}_parts" for name in sums_of(build))}
    return tuple(one for one in _arguments(variant, build) if one.name in wanted)


def sum_arguments(variant: ag.Variant, build: ag.Values) -> tuple[ag.ContractArgument, ...]:
    """Those of the kernel that adds the parts."""
    return (*_parts(build), *pointers(sums_of(build), "columns"), *row_counts(()))


def _workspaces(variant: ag.Variant, build: ag.Values) -> tuple[ag.Workspace, ...]:
    size = ag.Formula("4 columns for each row that workgroups have at once", lambda p: _F32 * p["columns"] * parts_of_launch(p, variant))
    return tuple(ag.Workspace(f"{name}_parts", "sums of some rows each, float32", size) for name in sums_of(build))


def _problem(values: ag.Values, seed: int) -> ag.Problem:
    """Random rows with their reference. Only this call loads numpy."""
    from asmgen.kernels.norm_backward.problem import make_problem

    return make_problem(values, seed)


def _algebra(values: ag.Values, inputs: Any) -> Mapping[str, Any]:
    """The gradients in exact residues."""
    from asmgen.kernels.norm_backward.algebra import gradients

    return gradients(values, inputs)


NORM_BACKWARD = ag.Family(
    name="norm-backward",
    title="dx, dw and db of layer or RMS norm from dy, the rows that were normalised and what norm saved of them",
    parameters=_parameters,
    arguments=_arguments,
    workspaces=_workspaces,
    grid=ROW_GRID,
    problem=_problem,
    algebra=_algebra,
    selection=by_columns,
    rules=(*stride_rules(TENSORS), ag.Rule("dresidual must be false where dropout is: it would be dx", ("dresidual", "dropout"),
                                          lambda p: p["dropout"] or not p["dresidual"])),
    aliases=lambda variant, build: tuple(ag.Alias((name, "dx"), "their strides are equal") for name in ("dy",)),
    example={"rows": 5},
    fills_argument_wait=True,
)
