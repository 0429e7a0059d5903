"""The family gemm-fp8: parameters, arguments and rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import asmgen as ag
from asmgen.kernels.gemm_fp8.operands import BLOCK, ELEMENTS
from asmgen.kernels.gemm_fp8.scaling import factors_of
from asmgen.kernels.products.anyk import any_k_parameter, any_stride_parameters, fitted_k
from asmgen.kernels.products.contract import DEALT, PRODUCT_ALIASES, is_streamed, product_parameters
from asmgen.kernels.products.invariance import settled_parts
from asmgen.kernels.products.layouts import LAYOUT_RULES, further_parameters
from asmgen.kernels.products.partcounts import split_options
from asmgen.kernels.products.partsums import add_parts
from asmgen.kernels.products.persistent import PERSISTENT, PERSISTENT_RULES, several_tiles, workgroups_of
from asmgen.kernels.products.selection import first_serving
from asmgen.kernels.products.sides import side
from asmgen.kernels.products.split import (
    INVARIANT,
    REDUCE_RULES,
    SPLIT_K,
    STREAM_GRID,
    SUM_GRID,
    adds_own_parts,
    example_of,
    is_split,
    reduce_parameter,
    split_arguments,
    split_workspaces,
    sum_arguments,
    timed_as,
    waves_of_sum,
)
from asmgen.kernels.products.streamed import add_shared, stream_sum_arguments
from asmgen.kernels.products.streams import SHARE, STREAM_K, STREAM_RULES, STREAM_SUM_GRID


def _parameters(variant: ag.Variant) -> tuple[ag.Parameter, ...]:
    formats, encoding = tuple(ELEMENTS), ag.architecture(variant.arch).fp8
    operands = (
        ag.Parameter("a_dtype", "build", str, "type of A", default="e4m3", choices=formats),
        ag.Parameter("b_dtype", "build", str, "type of B", default="e4m3", choices=formats),
        ag.Parameter("encoding", "build", str, "how 8-bit floats encode numbers, which the architecture decides", default=encoding,
                  choices=(encoding,)),
        ag.Parameter("scales", "build", str, "what a scale belongs to: tensor: all of A, all of B; row: a row of A, a row of B; "
                  "block: 128 columns of a row of A, 128 x 128 of B, in tiles of their own", default="tensor", choices=("tensor", "row")),
    )
    of_k = any_k_parameter(variant), *any_stride_parameters(variant)
    return product_parameters((*operands, *of_k, SPLIT_K, reduce_parameter(variant), INVARIANT, PERSISTENT, STREAM_K),
                              variant, 8, further_parameters(variant, 8, (workgroups_of(variant, "persistent=true and stream_k=true"),
                                                                          SHARE)))


_SCALES = (
    ag.ContractArgument("a_scale", "pointer", "f32: one for scales=tensor, m for row, [k/128 rounded up][m] for block"),
    ag.ContractArgument("b_scale", "pointer", "f32: one for scales=tensor, n for row, [n/128][k/128], both rounded up, for block"),
)


def _arguments(variant: ag.Variant, build: ag.Values) -> tuple[ag.ContractArgument, ...]:
    """Those of the product's own kernel: scales are multiplied before parts of K are added. Brief ones stand last."""
    given = split_arguments(variant, build)
    early = (is_streamed(build) or adds_own_parts(build)) and build["scales"] == "tensor"  # loops without registers for pointers
    return (*(one for one in given if not one.brief), *(replace(one, brief=early) for one in _SCALES),
            *(one for one in given if one.brief))


def _shared_sum_arguments(variant: ag.Variant, build: ag.Values) -> tuple[ag.ContractArgument, ...]:
    """Those of the kernel that adds parts of tiles, which are sums without scales."""
    return (*stream_sum_arguments(variant, build), *_SCALES)


def _work(values: ag.Values, variant: ag.Variant) -> ag.LaunchWork:
    """The steps of workgroups. Only this call loads numpy."""
    from asmgen.kernels.products.work import product_work

    return product_work(values, variant, 8)


def _problem(values: ag.Values, seed: int) -> ag.Problem:
    """Random normal data with some odd numbers. Only this call loads numpy."""
    from asmgen.kernels.gemm_fp8.problem import make_problem

    return make_problem(values, seed, ag.holds_nonfinite(seed))


def _algebra(values: ag.Values, inputs: Any) -> Mapping[str, Any]:
    """D in exact residues: A and B times their scales."""
    from asmgen.kernels.products.algebra import product, stored_rows

    k, n, batch = values["k"], values["n"], values["batch"]
    scales = [[inputs[name]] * batch if values["scales"] == "tensor" or batch == 1 else [inputs[name][number] for number in range(batch)]
              for name in ("a_scale", "b_scale")]
    if values["scales"] == "block":
        factors = [[one.swapaxes(0, 1).repeat(BLOCK, 1)[:, :k] for one in scales[0]],
                   [one.repeat(BLOCK, 0)[:n].repeat(BLOCK, 1)[:, :k] for one in scales[1]]]
    else:
        factors = [[one.reshape(-1, 1) for one in each] for each in scales]
    operands = (stored_rows(values, name, inputs[name]) for name in "ab")
    return product(values, inputs, *([one[:, :k] * factor for one, factor in zip(matrices, each, strict=True)]
                                     for matrices, each in zip(operands, factors, strict=True)))


def _selection(candidates: Sequence[ag.Variant], values: ag.Values) -> ag.Variant:
    """The first one that serves the values; a variant that fixes `scales` serves only that value."""
    wanted = ("scales", "block") if values.get("scales") == "block" else None
    return first_serving(GEMM, [one for one in candidates if (wanted in one.further) == (wanted is not None)] or candidates, values)


def _fits_registers(p: ag.Values) -> bool:
    if p["schedule"] == "ping-pong" and p["encoding"] == "fnuz":
        return bool(p[side(p, "a_layout")] == "row")
    return p["schedule"] != DEALT or "row" in (p["a_layout"], p["b_layout"])


def _fits_scalars(p: ag.Values) -> bool:
    """Whether an item's descriptors, four SGPRs side by side each, find room (docs/PRODUCT_TILES.md)."""
    columns, most = (p["a_layout"], p["b_layout"]).count("column"), 2
    if p["encoding"] == "fnuz":
        if p["stream_k"]:
            most = int(p["scales"] == "tensor" and (p["bias"] == "none" or not p["preload"]))
        elif p["persistent"]:
            most = 1
    elif p["stream_k"] and p["scales"] == "row" and "256" in p["tile"].split("x")[:2]:
        most = 1
    return columns <= most


_LINES_OF_ONE = ag.Rule(f"A or B must be by rows with schedule={DEALT}, and A (B where D is by columns) with ping-pong on gfx942: lines of "
                        "more take more than 256 VGPRs", ("schedule", "encoding", "a_layout", "b_layout", "d_layout"), _fits_registers)
_ITEMS_BY_ROWS = ag.Rule("A or B must be by rows with persistent=true or stream_k=true on gfx942, and with stream_k=true and scales=row in "
                         "tiles of 256 rows or columns; both with stream_k=true on gfx942 beside scales=row, or beside a bias and "
                         "preload=true: next to lines and what transposes them, 102 SGPRs have no room for an item's descriptors",
                         ("persistent", "stream_k", "encoding", "scales", "bias", "preload", "a_layout", "b_layout", "tile"), _fits_scalars)
_ONE_SCALE_OF_PARTS = ag.Rule("persistent=true with split_k above 1 needs scales=tensor", ("persistent", "split_k", "scales"),
                             lambda p: not p["persistent"] or p["split_k"] == 1 or p["scales"] == "tensor")
_SCALES_BY_ROWS = ag.Rule("d_layout must be row with scales=block, whose scales of A and B differ in shape", ("scales", "d_layout"),
                          lambda p: p["scales"] != "block" or p["d_layout"] == "row")


GEMM = ag.Family(
    name="gemm-fp8",
    title="D[M,N] = alpha a_scale b_scale A[M,K] x B[N,K]^T + beta C + bias, A and B of 8-bit floats, float32 accumulation",
    parameters=_parameters,
    arguments=_arguments,
    workspaces=split_workspaces,
    grid=STREAM_GRID,
    problem=_problem,
    work=_work,
    settled=partial(settled_parts, bits=8),
    fitted=fitted_k,
    tuned=partial(split_options, bits=8),
    timed_as=timed_as,
    axes="xyz",
    selection=_selection,
    rules=(*LAYOUT_RULES, *REDUCE_RULES, *PERSISTENT_RULES, *STREAM_RULES, _SCALES_BY_ROWS, _LINES_OF_ONE, _ITEMS_BY_ROWS,
           _ONE_SCALE_OF_PARTS),
    aliases=PRODUCT_ALIASES,
    algebra=_algebra,
    example=partial(example_of, sizes={"m": 512, "n": 384, "k": 512}),  # steps enough for persistent workgroups
    typical={"m": 4096, "n": 4096, "k": 8192},
    typical_of=several_tiles,
    fills_argument_wait=True,
)


@GEMM.companion("sum", "D = alpha (sum of the parts) + beta C + bias", sum_arguments, SUM_GRID, waves_of_sum, axes="xyz",
                when=is_split)
def add(k: ag.TileBuilder) -> None:
    """What follows a product that is split along K."""
    add_parts(k)


@GEMM.companion("shared_sum", "D = alpha a_scale b_scale (sum of the parts of a shared tile) + beta C + bias", _shared_sum_arguments,
                STREAM_SUM_GRID, axes="xy", when=is_streamed)
def add_streamed(k: ag.TileBuilder) -> None:
    """What follows a product whose workgroups share tiles."""
    add_shared(k, partial(factors_of, k, ag.WaveIndex("one", 0, 1)))
