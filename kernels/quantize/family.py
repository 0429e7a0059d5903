"""The family quantize: parameters, arguments and rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import asmgen as ag
from asmgen.kernels.quantize.formats import BYTES, ENCODINGS, GROUP, SOURCES
from asmgen.kernels.rows.contract import ROW_GRID, row_parameters, row_stride
from asmgen.kernels.rows.rowshape import with_lanes

_DWORD = 4  # bytes
_ALONE = ("token", "tensor")


def _parameters(variant: ag.Variant) -> tuple[ag.Parameter, ...]:
    groups = (*_ALONE, str(GROUP)) if variant.lanes >= ag.LANES else _ALONE
    return (
        ag.Parameter("from", "build", str, "type of x", default="bf16", choices=SOURCES),
        ag.Parameter("to", "build", str, "type of d", default="fp8", choices=tuple(BYTES)),
        ag.Parameter("encoding", "build", str, "how 8-bit floats encode numbers, which the architecture decides",
                     default=ENCODINGS[variant.arch], choices=(ENCODINGS[variant.arch],)),
        ag.Parameter("group", "build", str, "what has a scale: tensor (given), token (a row), or so many columns of a row", default="token",
                     choices=groups),
        *(one for one in row_parameters(variant) if one.name != "access"),
        ag.Parameter("access", "build", str, "16 bytes a lane, from rows that begin at multiples of 4 bytes", default="wide",
                     choices=("wide",)),
        row_stride(variant, "x"),
        ag.Parameter("d_stride", "run", int, "elements from one row of d to the next", minimum=1, multiple_of=_DWORD,
                     maximum=_most_stride(variant),
                     default_from=ag.Formula("columns, rounded up to a multiple of 4", lambda p: -(-p["columns"] // _DWORD) * _DWORD)),
        ag.Parameter("scale_stride", "run", int, "scales from one row to the next", minimum=1, maximum=1 << 24,
                     default_from=ag.Formula("ceil(columns / 128)", lambda p: -(-p["columns"] // GROUP))),
    )


def _most_stride(variant: ag.Variant) -> int:
    most = row_stride(variant, "x").maximum
    assert isinstance(most, int)
    return most // _DWORD * _DWORD


def _arguments(variant: ag.Variant, build: ag.Values) -> tuple[ag.ContractArgument, ...]:
    """What the build reads and writes."""
    by_columns = build["group"] not in _ALONE
    scales = {"tensor": "one float32, read: what 1 of d stands for", "token": "rows float32", str(GROUP): "rows x columns / 128 float32"}
    return (
        ag.ContractArgument("x", "pointer", "rows x columns, 4-byte aligned"),
        ag.ContractArgument("d", "pointer", "rows x columns bytes"),
        ag.ContractArgument("scale", "pointer", scales[build["group"]]),
        ag.ContractArgument("rows", "u32", "rows"), ag.ContractArgument("each", "u32", "groups of rows of a workgroup"),
        *(ag.ContractArgument(f"{name}_stride", "u32", "elements from row to row")
          for name in ("x", "d", *(["scale"] if by_columns else []))),
    )


def _problem(values: ag.Values, seed: int) -> ag.Problem:
    """Random rows with their bytes and scales. Only this call loads numpy."""
    from asmgen.kernels.quantize.problem import make_problem

    return make_problem(values, seed)


def _algebra(values: ag.Values, inputs: Any) -> Mapping[str, Any]:
    """Scales and results in exact residues."""
    from asmgen.kernels.quantize.algebra import quantized

    return quantized(values, inputs)


def _chosen(candidates: Sequence[ag.Variant], values: ag.Values) -> ag.Variant:
    """The fewest lanes that serve; groups of columns have a wave for a row at least."""
    return with_lanes(candidates, values, 0 if values.get("group", "token") in _ALONE else ag.LANES)


QUANTIZE = ag.Family(
    name="quantize",
    title="d = x / scale, rounded to nearest even, with scales that follow from the largest magnitudes",
    parameters=_parameters,
    arguments=_arguments,
    grid=ROW_GRID,
    problem=_problem,
    algebra=_algebra,
    selection=_chosen,
    rules=(ag.Rule("x_stride must be at least columns, and even", ("x_stride", "columns"),
                   lambda p: p["x_stride"] >= p["columns"] and p["x_stride"] % 2 == 0),
           ag.Rule("d_stride must be at least columns", ("d_stride", "columns"), lambda p: p["d_stride"] >= p["columns"]),
           ag.Rule("scale_stride must be at least columns / 128", ("scale_stride", "columns"),
                   lambda p: p["scale_stride"] * GROUP >= p["columns"])),
    example={"rows": 5},
)
