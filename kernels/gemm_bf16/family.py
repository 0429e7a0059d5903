"""The family gemm-bf16: parameters, arguments and rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import asmgen as ag
from asmgen.kernels.products.anyk import any_k_parameter, any_stride_parameters, fitted_k
from asmgen.kernels.products.contract import PRODUCT_ALIASES, is_streamed, product_parameters
from asmgen.kernels.products.invariance import settled_parts
from asmgen.kernels.products.layouts import LAYOUT_RULES, further_parameters
from asmgen.kernels.products.partcounts import split_options
from asmgen.kernels.products.partsums import add_parts
from asmgen.kernels.products.persistent import PERSISTENT, PERSISTENT_RULES, several_tiles, workgroups_of
from asmgen.kernels.products.selection import first_serving
from asmgen.kernels.products.split import (
    INVARIANT,
    REDUCE_RULES,
    SPLIT_K,
    STREAM_GRID,
    SUM_GRID,
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

_TYPE = ag.Parameter("dtype", "build", str, "type of A and B", default="bf16", choices=("bf16", "f16"))


def _parameters(variant: ag.Variant) -> tuple[ag.Parameter, ...]:
    parts = SPLIT_K, reduce_parameter(variant), INVARIANT, PERSISTENT, STREAM_K
    of_k = any_k_parameter(variant), *any_stride_parameters(variant)
    return product_parameters((_TYPE, *of_k, *parts), variant, 16,
                              further_parameters(variant, 16, (workgroups_of(variant, "persistent=true and stream_k=true"), SHARE)))


def _work(values: ag.Values, variant: ag.Variant) -> ag.LaunchWork:
    """The steps of workgroups. Only this call loads numpy."""
    from asmgen.kernels.products.work import product_work

    return product_work(values, variant, 16)


def _problem(values: ag.Values, seed: int) -> ag.Problem:
    """Random normal data with some odd numbers. Only this call loads numpy."""
    from asmgen.kernels.gemm_bf16.problem import make_problem

    return make_problem(values, seed, ag.holds_nonfinite(seed))


def _algebra(values: ag.Values, inputs: Any) -> Mapping[str, Any]:
    """D in exact residues."""
    from asmgen.kernels.products.algebra import product, stored_rows

    return product(values, inputs, *(stored_rows(values, name, inputs[name]) for name in "ab"))


def _selection(candidates: Sequence[ag.Variant], values: ag.Values) -> ag.Variant:
    """The first one that serves the values."""
    return first_serving(GEMM, candidates, values)


GEMM = ag.Family(
    name="gemm-bf16",
    title="D[M,N] = alpha A[M,K] x B[N,K]^T + beta C + bias, A and B of bf16 or f16, float32 accumulation",
    parameters=_parameters,
    arguments=split_arguments,
    workspaces=split_workspaces,
    grid=STREAM_GRID,
    problem=_problem,
    work=_work,
    settled=partial(settled_parts, bits=16),
    fitted=fitted_k,
    tuned=partial(split_options, bits=16),
    timed_as=timed_as,
    axes="xyz",
    selection=_selection,
    rules=(*LAYOUT_RULES, *REDUCE_RULES, *PERSISTENT_RULES, *STREAM_RULES),
    aliases=PRODUCT_ALIASES,
    algebra=_algebra,
    example=partial(example_of, sizes={"m": 512, "n": 384, "k": 256}),
    typical={"m": 4096, "n": 4096, "k": 8192},
    typical_of=several_tiles,
    fills_argument_wait=True,
)


@GEMM.companion("sum", "D = alpha (sum of the parts) + beta C + bias", sum_arguments, SUM_GRID, waves_of_sum, axes="xyz",
                when=is_split)
def add(k: ag.TileBuilder) -> None:
    """What follows a product that is split along K."""
    add_parts(k)


@GEMM.companion("shared_sum", "D = alpha (sum of the parts of a shared tile) + beta C + bias", stream_sum_arguments, STREAM_SUM_GRID,
                axes="xy", when=is_streamed)
def add_streamed(k: ag.TileBuilder) -> None:
    """What follows a product whose workgroups share tiles."""
    add_shared(k)
