"""The family gemm-mx: parameters, arguments and rules."""

from __future__ import annotations

import asmgen as ag
from asmgen.kernels.gemm_mx.formats import BLOCK, ELEMENTS, GROUP_COLUMNS, GROUP_ROWS, ORDERS, SCALE_ARGUMENTS, cells_of, least_stride
from asmgen.kernels.products.contract import PRODUCT_ALIASES, PRODUCT_ARGUMENTS, PRODUCT_GRID, PRODUCT_RULES, product_parameters

BITS = 4


def _parameters(variant: ag.Variant) -> tuple[ag.Parameter, ...]:
    operands = (
        *(ag.Parameter(f"{name}_dtype", "build", str, f"type of {name.upper()}", default="fp4", choices=ELEMENTS) for name in "ab"),
        ag.Parameter("scales", "build", str, "what a scale belongs to: 32 columns of a row", default="block32", choices=("block32",)),
        ag.Parameter("scale_order", "build", str, "where scales lie: plain: row after row; shuffled: as AITER's shuffle_scale has them",
                  default=ORDERS[0], choices=ORDERS),
    )
    strides = (_scale_stride(name, axis, variant) for axis, name in enumerate("ab"))
    return (*product_parameters(operands, variant, BITS, cells_of(variant)), *strides)


def _scale_stride(name: str, axis: int, variant: ag.Variant) -> ag.Parameter:
    """The stride of scales. The rows of a tile stand under one descriptor, and so many bytes more as fills are ahead."""
    beside = 2 * variant.stages * GROUP_ROWS * GROUP_COLUMNS
    most = ag.most_stride(variant.tile[axis] // GROUP_ROWS, 8 * GROUP_ROWS, beside) // GROUP_COLUMNS * GROUP_COLUMNS
    doc = f"scales from one row of {name.upper()} to the next; shuffled: their columns with pads, a multiple of {GROUP_COLUMNS}"
    return ag.Parameter(f"lds{name}", "run", int, doc, minimum=1, maximum=most,
                     default_from=ag.Formula("ceil(k / 32), up to a multiple of 8 where scales are shuffled",
                                             lambda p: least_stride(p["scale_order"], p["k"])))


def _is_stride(p: ag.Values, name: str) -> bool:
    return bool(p[name] >= least_stride(p["scale_order"], p["k"]) and (p["scale_order"] == "plain" or p[name] % GROUP_COLUMNS == 0))


def _stride_rule(name: str) -> ag.Rule:
    return ag.Rule(f"{name} must be at least k / {BLOCK}, and a multiple of {GROUP_COLUMNS} of at least that where scales are shuffled",
                   (name, "k", "scale_order"), lambda p: _is_stride(p, name))


_RULES = tuple(map(_stride_rule, ("ldsa", "ldsb")))


def _work(values: ag.Values, variant: ag.Variant) -> ag.LaunchWork:
    """The steps of workgroups. Only this call loads numpy."""
    from asmgen.kernels.products.work import product_work

    return product_work(values, variant, BITS)


def _problem(values: ag.Values, seed: int) -> ag.Problem:
    """Random blocks with some odd numbers. Only this call loads numpy."""
    from asmgen.kernels.gemm_mx.problem import make_problem

    return make_problem(values, seed, ag.holds_nonfinite(seed))


GEMM = ag.Family(
    name="gemm-mx",
    title="D[M,N] = alpha A[M,K] x B[N,K]^T + beta C + bias, each 32 columns of A and B with a scale, float32 accumulation",
    parameters=_parameters,
    arguments=(*PRODUCT_ARGUMENTS, *SCALE_ARGUMENTS),
    grid=PRODUCT_GRID,
    problem=_problem,
    work=_work,
    axes="xy",
    rules=(*PRODUCT_RULES, *_RULES),
    aliases=PRODUCT_ALIASES,
    example={"m": 512, "n": 384, "k": 512},
    typical={"m": 4096, "n": 4096, "k": 8192},
)
