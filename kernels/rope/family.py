"""The family rope: parameters, arguments and rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import asmgen as ag
from asmgen.kernels.rope.shape import WAVES, heads_of_workgroup, shape_of
from asmgen.kernels.rope.tensors import TENSORS, tensors_of

TYPES = ("bf16", "f16", "f32")
_MOST_COLUMNS = 512
_VGPRS = 256
"""Of a lane, without AGPRs."""
_MOST_TOKENS = WAVES * ag.LANES
_MOST = (1 << 32) - 1


def _parameters(variant: ag.Variant) -> tuple[ag.Parameter, ...]:
    def heads(name: str) -> str:
        return "h2" if name.endswith("2") else "h"

    def strides(name: str) -> tuple[ag.Parameter, ...]:
        h = heads(name)
        return (
            ag.Parameter(f"{name}_stride_h", "run", int, f"elements from head to head of {name}", minimum=1, maximum=_MOST,
                         default_from="d"),
            ag.Parameter(f"{name}_stride_s", "run", int, f"elements from token to token of {name}", minimum=1,
                         maximum=ag.most_stride(_MOST_TOKENS, 32, ag.BEYOND),
                         default_from=ag.Formula(f"{h} d", lambda p: p[h] * p["d"])),
            ag.Parameter(f"{name}_stride_b", "run", int, f"elements from batch to batch of {name}", minimum=1, maximum=_MOST,
                         default_from=ag.Formula(f"s {name}_stride_s", lambda p: min(_MOST, p["s"] * p[f"{name}_stride_s"]))),
        )

    return (
        ag.Parameter("style", "build", str, "pairs: neox columns i and i + rotated / 2; gptj columns 2 i and 2 i + 1", default="neox",
                     choices=("neox", "gptj")),
        ag.Parameter("d", "build", int, "columns of a head", default=128, minimum=4, maximum=_MOST_COLUMNS, multiple_of=4, tried=(96,)),
        ag.Parameter("rotated", "build", int, "the first columns, which are rotated; others are copied; 0: all", default=0, minimum=0,
                     maximum=_MOST_COLUMNS, multiple_of=4, tried=(24, 64)),
        ag.Parameter("positions", "build", str, "none: token i of a batch has the angles of row i; given: those of row positions[batch, i]",
                     default="none", choices=("none", "given")),
        ag.Parameter("second", "build", bool, "x2 is rotated into y2 too, which has heads of its own", default=False),
        ag.Parameter("backward", "build", bool, "by the opposite angles, which is the gradient", default=False),
        ag.Parameter("dtype", "build", str, "type of x and y", default="bf16", choices=TYPES),
        ag.Parameter("table", "build", str, "type of cos and sin", default="f32", choices=TYPES),
        ag.Parameter("b", "run", int, "batches", default=1, minimum=1, maximum=65535),
        ag.Parameter("s", "run", int, "tokens of a batch", minimum=1, maximum=1 << 24),
        ag.Parameter("h", "run", int, "heads of x", minimum=1, maximum=65535),
        ag.Parameter("h2", "run", int, "heads of x2", minimum=1, maximum=65535, default_from="h"),
        *(parameter for name in TENSORS for parameter in strides(name)),
        ag.Parameter("angles", "run", int, "rows of cos and sin; a position beyond them gives 0", minimum=1, maximum=1 << 24,
                     default_from="s"),
        ag.Parameter("angle_stride", "run", int, "elements from one row of cos, and of sin, to the next", minimum=1, maximum=1 << 20,
                     default_from=ag.Formula("rotated / 2", lambda p: shape_of(p).pairs)),
        ag.Parameter("position_stride", "run", int, "elements from batch to batch of positions", minimum=0, maximum=_MOST,
                     default_from="s"),
        ag.Parameter("each", "run", int, "heads of x that a workgroup rotates, one after the other; of x2 as large a share", minimum=1,
                     maximum=65535, default_from=ag.Formula("as many as fill the GPU once", lambda p: heads_of_workgroup(variant, p))),
    )


def _arguments(variant: ag.Variant, build: ag.Values) -> tuple[ag.ContractArgument, ...]:
    """What the build reads and writes."""
    named, given = tensors_of(build), build["positions"] == "given"
    return (
        *(ag.ContractArgument(name, "pointer", "b x s x h x d, 4-byte aligned") for name in named),
        ag.ContractArgument("cos", "pointer", "angles x rotated / 2, 4-byte aligned"),
        ag.ContractArgument("sin", "pointer", "angles x rotated / 2, 4-byte aligned"),
        *([ag.ContractArgument("positions", "pointer", "b x s i32")] if given else []),
        ag.ContractArgument("s", "u32", "tokens"), ag.ContractArgument("h", "u32", "heads"),
        *([ag.ContractArgument("h2", "u32", "heads of x2")] if build["second"] else []),
        ag.ContractArgument("each", "u32", "heads of a workgroup"),
        *(ag.ContractArgument(f"{name}_stride_{axis}", "u32", "elements") for name in named for axis in "bsh"),
        ag.ContractArgument("angles", "u32", "rows of cos and sin"), ag.ContractArgument("angle_stride", "u32", "elements"),
        *([ag.ContractArgument("position_stride", "u32", "elements")] if given else []),
    )


def _problem(values: ag.Values, seed: int) -> ag.Problem:
    """Random heads with their reference. Only this call loads numpy."""
    from asmgen.kernels.rope.problem import make_problem

    return make_problem(values, seed)


def _algebra(values: ag.Values, inputs: Any) -> Mapping[str, Any]:
    """The results in exact residues."""
    from asmgen.kernels.rope.algebra import rotated

    return rotated(values, inputs)


def _fits(name: str) -> ag.Rule:
    return ag.Rule(f"{name}_stride_h and {name}_stride_s must be at least d, and multiples of 2 where dtype has 16 bits",
                   (f"{name}_stride_h", f"{name}_stride_s", "d", "dtype"),
                   lambda p: all(p[f"{name}_stride_{axis}"] >= p["d"] and (p["dtype"] == "f32" or p[f"{name}_stride_{axis}"] % 2 == 0)
                                 for axis in "sh"))


def _even(name: str) -> ag.Rule:
    return ag.Rule(f"{name}_stride_b must be a multiple of 2 where dtype has 16 bits", (f"{name}_stride_b", "dtype"),
                   lambda p: p["dtype"] == "f32" or p[f"{name}_stride_b"] % 2 == 0)


ROPE = ag.Family(
    name="rope",
    title="y = x with pairs of columns rotated: (a cos - b sin, b cos + a sin), in float32",
    parameters=_parameters,
    arguments=_arguments,
    grid=ag.GridRule("ceil(s / tokens of a workgroup), b, ceil(h / each)",
                     lambda p, variant: (-(-p["s"] // shape_of(p).tokens), p["b"], -(-p["h"] // p["each"]))),
    axes="xyz",
    problem=_problem,
    algebra=_algebra,
    rules=(*(rule for name in TENSORS for rule in (_fits(name), _even(name))),
           ag.Rule("rotated must be at most d", ("rotated", "d"), lambda p: p["rotated"] <= p["d"]),
           ag.Rule(f"rotated and d must leave room in {_VGPRS} VGPRs for what a lane has of a head: as many lanes share it, up to 16, as "
                   "the largest power of two whose runs of up to 8 neighbours divide each half of neox, or all of gptj, and whose dwords "
                   "divide the rest", ("rotated", "d", "style", "dtype", "table"),
                   lambda p: shape_of(p).vgprs(p["dtype"], p["table"]) <= _VGPRS),
           ag.Rule("angle_stride must be at least rotated / 2, and a multiple of 2 where table has 16 bits",
                   ("angle_stride", "rotated", "d", "table"),
                   lambda p: p["angle_stride"] >= shape_of(p).pairs and (p["table"] == "f32" or p["angle_stride"] % 2 == 0)),
           ag.Rule("angles times angle_stride must be less than 2^29", ("angles", "angle_stride"),
                   lambda p: p["angles"] * p["angle_stride"] < 1 << 29)),
    aliases=lambda variant, build: tuple(ag.Alias((source, target), "their strides are equal") for source, target in
                                         zip(tensors_of(build)[::2], tensors_of(build)[1::2], strict=True)),
    example={"s": 40, "h": 3},
)
