"""The family norm: parameters, arguments and rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import asmgen as ag
from asmgen.kernels.norm.tensors import EIGHT, TENSORS, figures_of, tensors_of
from asmgen.kernels.rows.contract import ROW_GRID, TYPES, row_parameters, row_stride, stride_rules
from asmgen.kernels.rows.eightbits import ENCODINGS
from asmgen.kernels.rows.rowshape import by_columns


def _parameters(variant: ag.Variant) -> tuple[ag.Parameter, ...]:
    def flag(name: str, doc: str) -> ag.Parameter:
        return ag.Parameter(name, "build", bool, doc, default=False)

    return (
        ag.Parameter("kind", "build", str, "layer: (r - mean) / sqrt(var + eps); rms: r / sqrt(mean(r^2) + eps)", default="layer",
                     choices=("layer", "rms")),
        flag("residual", "r = residual + x is normalised, and stored"),
        flag("dropout", "elements of x become 0 with probability p, others x / (1 - p)"),
        ag.Parameter("rounds", "build", int, "rounds of Philox 4x32", default=7, choices=(7, 10)),
        flag("bias", "b is added"),
        ag.Parameter("save", "build", str, "stats: mean (of layer) and 1 / sqrt(...) of each row in float32", default="none",
                     choices=("none", "stats")),
        ag.Parameter("dtype", "build", str, "type of x, residual, r, w and b", default="bf16", choices=TYPES),
        ag.Parameter("out", "build", str, "type of d; fp8: with a float32 scale for each row", default="bf16", choices=(*TYPES, EIGHT)),
        ag.Parameter("encoding", "build", str, "how 8-bit floats encode numbers, which the architecture decides",
                     default=ENCODINGS[variant.arch], choices=(ENCODINGS[variant.arch],)),
        *row_parameters(variant),
        *(row_stride(variant, name) for name in TENSORS if name != "d"), _stride_of_d(variant),
        ag.Parameter("eps", "run", float, "added under the root", default=1e-5, minimum=0.0, maximum=1.0),
        ag.Parameter("p", "run", float, "probability of dropout", default=0.1, minimum=0.0, maximum=0.999),
        ag.Parameter("seed", "run", int, "key of Philox", default=0, minimum=0, maximum=(1 << 64) - 1),
        ag.Parameter("offset", "run", int, "words 2 and 3 of Philox's counter", default=0, minimum=0, maximum=(1 << 64) - 1),
    )


def _stride_of_d(variant: ag.Variant) -> ag.Parameter:
    return replace(row_stride(variant, "d"), default_from=ag.Formula(
        "columns, rounded up to whole dwords where access is wide",
        lambda p: p["columns"] if p["access"] == "element" else -(-p["columns"] // _multiple(p)) * _multiple(p)))


def _multiple(p: ag.Values) -> int:
    return 4 if p["out"] == EIGHT else 2


def _arguments(variant: ag.Variant, build: ag.Values) -> tuple[ag.ContractArgument, ...]:
    """What the build reads and writes."""
    def pointer(name: str, doc: str) -> ag.ContractArgument:
        return ag.ContractArgument(name, "pointer", f"{doc}, 4-byte aligned")

    named = tensors_of(build)
    return (
        *(pointer(name, "rows x columns") for name in named),
        pointer("w", "columns factors"), *([pointer("b", "columns addends")] if build["bias"] else []),
        *(pointer(name, "rows float32") for name in figures_of(build)),
        ag.ContractArgument("rows", "u32", "rows"), ag.ContractArgument("each", "u32", "groups of rows of a workgroup"),
        *(ag.ContractArgument(f"{name}_stride", "u32", "elements from row to row") for name in named),
        ag.ContractArgument("eps", "f32", "under the root"),
        *((ag.ContractArgument("p", "f32", "of dropout"), ag.ContractArgument("seed", "u64", "of dropout"),
           ag.ContractArgument("offset", "u64", "of dropout")) if build["dropout"] else ()),
    )


def _problem(values: ag.Values, seed: int) -> ag.Problem:
    """Random rows with their reference. Only this call loads numpy."""
    from asmgen.kernels.norm.problem import make_problem

    return make_problem(values, seed)


def _algebra(values: ag.Values, inputs: Any) -> Mapping[str, Any]:
    """The results in exact residues."""
    from asmgen.kernels.norm.algebra import normalised

    if values["out"] == EIGHT:
        raise ag.AsmgenError("norm has no exact residues of 8-bit results, whose scales are largest magnitudes; another out would do")
    return normalised(values, inputs)


NORM = ag.Family(
    name="norm",
    title="d = norm(r) w + b of each row, r = residual + dropout(x), statistics in float32",
    parameters=_parameters,
    arguments=_arguments,
    grid=ROW_GRID,
    problem=_problem,
    algebra=_algebra,
    selection=by_columns,
    rules=(*stride_rules(TENSORS),
           ag.Rule("access must be wide where dtype or out is f32, or out is fp8", ("access", "dtype", "out"),
                   lambda p: p["access"] == "wide" or not {"f32", EIGHT} & {p["dtype"], p["out"]}),
           ag.Rule("d_stride must be a multiple of 4 where out is fp8", ("d_stride", "out"),
                   lambda p: p["out"] != EIGHT or p["d_stride"] % 4 == 0)),
    aliases=lambda variant, build: (ag.Alias(("x", "d"), "their strides and types are equal"),
                                    *((ag.Alias(("residual", "r"), "their strides are equal"),) if build["residual"] else ())),
    example={"rows": 5},
)
