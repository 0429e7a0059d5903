"""The family gemm-mx: parameters, arguments and rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import asmgen as ag
from asmgen.kernels.gemm_mx.formats import (
    BLOCK,
    DEEP,
    ELEMENTS,
    GROUP_COLUMNS,
    GROUP_ROWS,
    ORDERS,
    SCALE_ARGUMENTS,
    STREAMED,
    WEIGHT_ORDERS,
    WIDEST,
    WORDS,
    arranged,
    cells_of,
    group_rows,
    least_stride,
    row_multiple,
    takes_weights,
    word_bytes,
)
from asmgen.kernels.products.contract import PRODUCT_ALIASES, PRODUCT_ARGUMENTS, PRODUCT_GRID, PRODUCT_RULES, product_parameters

_SLACK = 1 << 12
"""Bytes before the rows under a descriptor, of which immediates are taken off: one is shorter."""


def _types(variant: ag.Variant) -> tuple[str, ...]:
    """Those that a variant takes, its default first."""
    if variant.schedule == STREAMED:
        return ("fp4", "fp6", "bf6", "fp8", "bf8")
    return ("fp4",) if variant.tile[2] == DEEP else ("fp8", "bf8", "fp4")


def _scalings(variant: ag.Variant) -> tuple[str, ...]:
    """What a variant takes as `scales`."""
    return ("block32", "none") if variant.stages == 2 or variant.schedule == STREAMED else ("block32",)


def _parameters(variant: ag.Variant) -> tuple[ag.Parameter, ...]:
    types = _types(variant)
    operands = (
        *(ag.Parameter(f"{name}_dtype", "build", str, f"type of {name.upper()}", default=types[0], choices=types) for name in "ab"),
        ag.Parameter("scales", "build", str, "block32: a scale for 32 columns of a row; none: elements are taken as they are",
                     default="block32", choices=_scalings(variant)),
        ag.Parameter("b_order", "build", str, "where B lies: plain: row after row; shuffled: as AITER's shuffle_weight(16, 16) has it",
                     default=WEIGHT_ORDERS[0], choices=WEIGHT_ORDERS),
        ag.Parameter("scale_order", "build", str, "where scales lie: plain: row after row; shuffled: as AITER's shuffle_scale has them",
                     default=ORDERS[0], choices=ORDERS),
    )
    strides = (_scale_stride(name, axis, variant) for axis, name in enumerate("ab"))
    most_ahead = ag.BEYOND + _SLACK + 2 * variant.stages * variant.tile[2]
    return (*product_parameters(operands, variant, WIDEST, cells_of(variant), BLOCK, most_ahead), *strides)


def _scale_stride(name: str, axis: int, variant: ag.Variant) -> ag.Parameter:
    """The stride of scales. The rows of a tile stand under one descriptor, and so many bytes more as fills are ahead; where scales are
    arranged first, offsets of 32 bits reach three groups of rows."""
    beside = ag.BEYOND + 16 * GROUP_ROWS * GROUP_COLUMNS
    rows = max(variant.tile[axis], 3 * GROUP_ROWS)
    most = ag.most_stride(rows // GROUP_ROWS, 8 * GROUP_ROWS, beside) // GROUP_COLUMNS * GROUP_COLUMNS
    doc = f"scales from one row of {name.upper()} to the next; shuffled: their columns with pads, a multiple of {GROUP_COLUMNS}"
    return ag.Parameter(f"lds{name}", "run", int, doc, minimum=1, maximum=most,
                     default_from=ag.Formula("ceil(k / 32), up to a multiple of 8 where scales are shuffled",
                                             lambda p: least_stride(p["scale_order"], p["k"])))


def _is_stride(p: ag.Values, name: str) -> bool:
    return bool(p[name] >= least_stride(p["scale_order"], p["k"]) and (p["scale_order"] == "plain" or p[name] % GROUP_COLUMNS == 0))


def _stride_rule(name: str) -> ag.Rule:
    return ag.Rule(f"{name} must be at least k / {BLOCK}, and a multiple of {GROUP_COLUMNS} of at least that where scales are shuffled",
                   (name, "k", "scale_order"), lambda p: _is_stride(p, name))


def _row_rule(name: str) -> ag.Rule:
    return ag.Rule(f"ld{name} must be a multiple of 16 elements of 8 bits, of 32 of fewer", (f"ld{name}", f"{name}_dtype"),
                   lambda p: p[f"ld{name}"] % row_multiple(p[f"{name}_dtype"]) == 0)


_WEIGHTS = ag.Rule("b_order=shuffled takes fp4, fp8 and bf8, n a multiple of 16, and k and ldb of 32 bytes: 64 fp4 or 32 of 8 bits",
                   ("b_order", "b_dtype", "n", "k", "ldb"), takes_weights)
_RULES = (*map(_stride_rule, ("ldsa", "ldsb")), *map(_row_rule, "ab"), _WEIGHTS)


def _arguments(variant: ag.Variant, build: ag.Values) -> tuple[ag.ContractArgument, ...]:
    """Those of the product's own kernel."""
    if build["scales"] == "none":
        return PRODUCT_ARGUMENTS
    return (*PRODUCT_ARGUMENTS, *(WORDS if arranged(build) else SCALE_ARGUMENTS))


def _workspaces(variant: ag.Variant, build: ag.Values) -> tuple[ag.Workspace, ...]:
    """The dwords that `arranging` makes."""
    return tuple(_words(variant, axis) for axis in range(2)) if arranged(build) else ()


def _words(variant: ag.Variant, axis: int) -> ag.Workspace:
    size = ag.Formula(f"256 * ceil({'mn'[axis]} / {group_rows(variant.tile, axis)}) * ceil(k / {variant.tile[2]})",
                      lambda p: word_bytes(p, variant.tile, axis))
    return ag.Workspace(WORDS[axis].name, WORDS[axis].doc, size)


def _selection(candidates: Sequence[ag.Variant], values: ag.Values) -> ag.Variant:
    """The first variant that takes the types and scales; those that are not given are what the variant has."""
    asked = [values[name] for name in ("a_dtype", "b_dtype") if name in values]
    return next((one for one in candidates if {*asked} <= {*_types(one)} and values.get("scales", "block32") in _scalings(one)),
                candidates[0])


def _work(values: ag.Values, variant: ag.Variant) -> ag.LaunchWork:
    """The steps of workgroups. Only this call loads numpy."""
    from asmgen.kernels.products.work import product_work

    depth = variant.tile[2]
    k = -(-values["k"] // depth) * depth
    return product_work({**values, "k": k, **{name: max(values[name], k) for name in ("lda", "ldb")}}, variant, ELEMENTS[values["a_dtype"]])


def _problem(values: ag.Values, seed: int) -> ag.Problem:
    """Random blocks with some odd numbers. Only this call loads numpy."""
    from asmgen.kernels.gemm_mx.problem import make_problem

    return make_problem(values, seed, ag.holds_nonfinite(seed))


def _algebra(values: ag.Values, inputs: Any) -> Mapping[str, Any]:
    """D in exact residues."""
    from asmgen.kernels.gemm_mx.algebra import scaled_product

    return scaled_product(values, inputs)


GEMM = ag.Family(
    name="gemm-mx",
    title="D[M,N] = alpha A[M,K] x B[N,K]^T + beta C + bias, each 32 columns of A and B with a scale, float32 accumulation",
    parameters=_parameters,
    arguments=_arguments,
    workspaces=_workspaces,
    grid=PRODUCT_GRID,
    problem=_problem,
    algebra=_algebra,
    work=_work,
    axes="xy",
    selection=_selection,
    rules=(*PRODUCT_RULES, *_RULES),
    aliases=PRODUCT_ALIASES,
    example={"m": 512, "n": 384, "k": 512},
    typical={"m": 4096, "n": 4096, "k": 8192},
)
