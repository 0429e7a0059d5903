"""The family norm: parameters, arguments and rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import asmgen as ag
from asmgen.kernels.norm.tensors import BLOCKS, EIGHT, MASK, TENSORS, figures_of, is_blocks, row_bytes, scales_of_row, tensors_of
from asmgen.kernels.rows.contract import (
    ROW_GRID,
    TYPES,
    dense,
    dropout_arguments,
    dropout_parameters,
    flag,
    most_byte_stride,
    pointers,
    row_counts,
    row_parameters,
    row_stride,
    stride_rules,
)
from asmgen.kernels.rows.rowshape import with_lanes

_DWORD = 4  # bytes


def _parameters(variant: ag.Variant) -> tuple[ag.Parameter, ...]:
    blocks = tuple(BLOCKS) if variant.arch == "gfx950" and variant.lanes >= ag.LANES else ()
    return (
        ag.Parameter("kind", "build", str, "layer: (r - mean) / sqrt(var + eps); rms: r / sqrt(mean(r^2) + eps)", default="layer",
                     choices=("layer", "rms")),
        flag("residual", "r = residual + x is normalised, and stored"),
        flag("dropout", "elements of x become 0 with probability p, others x / (1 - p)"),
        ag.Parameter("rounds", "build", int, "rounds of Philox 4x32", default=7, choices=(7, 10)),
        flag("bias", "b is added"),
        ag.Parameter("save", "build", str, "stats: mean (of layer) and 1 / sqrt(...) of each row in float32; mask: these, and a byte for "
                     "each element, 1 where dropout keeps it, else 0", default="none", choices=("none", "stats", MASK)),
        ag.Parameter("dtype", "build", str, "type of x, residual, r, w and b", default="bf16", choices=TYPES),
        ag.Parameter("out", "build", str, "type of d; fp8: with a float32 scale for each row; mxfp8 and mxfp4: with an e8m0 scale for 32 "
                     "columns", default="bf16", choices=(*TYPES, EIGHT, *blocks)),
        ag.Parameter("layout", "build", str, "where scales of MX types lie: plain: row after row; shuffled: as gemm-mx takes them, with "
                     "zeros in pads of columns", default="plain", choices=("plain", "shuffled") if blocks else ("plain",)),
        ag.Parameter("rounding", "build", str, "of the scales of MX types, as quantize has it", default="even",
                     choices=("even", "floor", "up") if blocks else ("even",)),
        ag.Parameter("encoding", "build", str, "how 8-bit floats encode numbers, which the architecture decides",
                     default=ag.architecture(variant.arch).fp8, choices=(ag.architecture(variant.arch).fp8,)),
        *row_parameters(variant),
        *(row_stride(variant, name) for name in TENSORS if name not in ("d", MASK)), _stride_of_d(variant),
        replace(row_stride(variant, MASK), doc="bytes from one row of mask to the next", multiple_of=_DWORD,
                maximum=most_byte_stride(variant), default_from=ag.Formula("columns, rounded up to a multiple of 4",
                                                                           lambda p: -(-p["columns"] // _DWORD) * _DWORD)),
        ag.Parameter("scale_stride", "run", int, "scales of MX types from one row to the next", minimum=1, maximum=1 << 24,
                     default_from=ag.Formula("ceil(columns / 32), up to a multiple of 8 where shuffled", scales_of_row)),
        ag.Parameter("eps", "run", float, "added under the root", default=1e-5, minimum=0.0, maximum=1.0),
        *dropout_parameters(),
    )


def _stride_of_d(variant: ag.Variant) -> ag.Parameter:
    """In bytes where elements have 8 bits or less."""
    def default(p: ag.Values) -> int:
        if _is_narrow(p):
            return -(-row_bytes(p) // _DWORD) * _DWORD
        return dense(p)

    return replace(row_stride(variant, "d"), doc="elements from one row of d to the next, of fp8 and MX types bytes",
                   default_from=ag.Formula("columns, rounded up to whole dwords where access is wide; of MX types whole blocks",
                                           default))


def _is_narrow(p: ag.Values) -> bool:
    return p["out"] == EIGHT or is_blocks(p)


def _arguments(variant: ag.Variant, build: ag.Values) -> tuple[ag.ContractArgument, ...]:
    """What the build reads and writes."""
    named = tensors_of(build)
    return (
        *pointers(named),
        *(pointers(["scale"], "rows x columns / 32 e8m0 bytes") if is_blocks(build) else ()),
        *pointers(["w"], "columns factors"), *(pointers(["b"], "columns addends") if build["bias"] else ()),
        *pointers(figures_of(build), "rows float32"),
        *row_counts((*named, "scale") if is_blocks(build) else named),
        ag.ContractArgument("eps", "f32", "under the root"),
        *(dropout_arguments() if build["dropout"] else ()),
    )


def _problem(values: ag.Values, seed: int) -> ag.Problem:
    """Random rows with their reference. Only this call loads numpy."""
    from asmgen.kernels.norm.problem import make_problem

    return make_problem(values, seed)


def _algebra(values: ag.Values, inputs: Any) -> Mapping[str, Any]:
    """The results in exact residues."""
    from asmgen.kernels.norm.algebra import normalised

    if is_blocks(values):
        raise ag.AsmgenError("norm has no exact residues of MX blocks, whose scales are powers of 2; another out would do")
    return normalised(values, inputs)


def _chosen(candidates: Sequence[ag.Variant], values: ag.Values) -> ag.Variant:
    """The fewest lanes that serve; rows that go element by element, or become MX blocks, have a wave for themselves at least."""
    alone = values.get("access") == "element" or values.get("out") in BLOCKS
    return with_lanes(candidates, values, ag.LANES if alone else 0)


NORM = ag.Family(
    name="norm",
    title="d = norm(r) w + b of each row, r = residual + dropout(x), statistics in float32",
    parameters=_parameters,
    arguments=_arguments,
    grid=ROW_GRID,
    problem=_problem,
    algebra=_algebra,
    selection=_chosen,
    rules=(*stride_rules(("x", "residual", "r")),
           ag.Rule("d_stride must be at least columns, of MX types the bytes of whole blocks", ("d_stride", "columns", "out"),
                   lambda p: p["d_stride"] >= row_bytes(p)),
           ag.Rule("d_stride must be even where access is wide and out has 16 bits; access=element takes any",
                   ("d_stride", "access", "out"), lambda p: p["access"] == "element" or p["out"] == "f32" or p["d_stride"] % 2 == 0),
           ag.Rule("access must be wide where dtype or out is f32, or out is fp8 or an MX type", ("access", "dtype", "out"),
                   lambda p: p["access"] == "wide" or not _is_narrow(p) and "f32" not in (p["dtype"], p["out"])),
           ag.Rule("d_stride must be a multiple of 4 where out is fp8 or an MX type", ("d_stride", "out"),
                   lambda p: not _is_narrow(p) or p["d_stride"] % _DWORD == 0),
           ag.Rule("mask_stride must be at least columns", ("mask_stride", "columns"), lambda p: p["mask_stride"] >= p["columns"]),
           ag.Rule("save must not be mask where dropout is false", ("save", "dropout"), lambda p: p["save"] != MASK or p["dropout"]),
           ag.Rule("layout must be plain and rounding even but for MX types", ("layout", "rounding", "out"),
                   lambda p: is_blocks(p) or (p["layout"], p["rounding"]) == ("plain", "even")),
           ag.Rule("scale_stride must be at least columns / 32, and a multiple of 8 where layout is shuffled",
                   ("scale_stride", "columns", "layout"), lambda p: p["scale_stride"] >= scales_of_row(p)
                   and (p["layout"] == "plain" or p["scale_stride"] % 8 == 0))),
    aliases=lambda variant, build: (ag.Alias(("x", "d"), "their strides and types are equal"),
                                    *((ag.Alias(("residual", "r"), "their strides are equal"),) if build["residual"] else ())),
    example={"rows": 5},
    fills_argument_wait=True,
)
