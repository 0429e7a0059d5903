"""The family gemm-mx: parameters, arguments and rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import asmgen as ag
from asmgen.kernels.gemm_mx.formats import (
    BLOCK,
    BLOCKED,
    DEEP,
    DIRECT,
    ELEMENTS,
    FRAGMENT_ROWS,
    GROUP_COLUMNS,
    GROUP_ROWS,
    ORDERS,
    RAW,
    SCALE_ARGUMENTS,
    SHAPES,
    WEIGHT_ORDERS,
    WHOLE_COLUMNS,
    WHOLE_K,
    WIDEST,
    WORDS,
    arranged,
    bits_of,
    cells_of,
    group_rows,
    is_quantised,
    least_stride,
    row_multiple,
    rows_in_memory,
    scale_bytes,
    shapes_of,
    takes_weights,
    word_bytes,
)
from asmgen.kernels.products.batch import MOST_APART, batch_parameters, batch_rules, with_brief
from asmgen.kernels.products.contract import LINE, PRODUCT_ALIASES, PRODUCT_RULES, Further, product_parameters
from asmgen.kernels.products.partcounts import split_options
from asmgen.kernels.products.partsums import add_parts
from asmgen.kernels.products.split import (
    SPLIT_GRID,
    SPLIT_K,
    SUM_GRID,
    is_split,
    split_arguments,
    split_workspaces,
    sum_arguments,
    timed_as,
    waves_of_sum,
)

_SLACK = 1 << 12
"""Bytes before the rows under a descriptor, of which immediates are taken off: one is shorter."""


def _types(variant: ag.Variant) -> tuple[str, ...]:
    """Those that a variant takes, its default first."""
    if variant.schedule in DIRECT:
        return tuple(ELEMENTS)
    return ("fp4",) if variant.tile[2] == DEEP else ("fp8", "bf8", "fp6", "bf6", "fp4")


def _scalings(variant: ag.Variant) -> tuple[str, ...]:
    """What a variant takes as `scales`."""
    return ("block32", "none") if variant.stages == 2 or variant.schedule in DIRECT else ("block32",)


def _raw(variant: ag.Variant) -> tuple[str, ...]:
    """The types of A that a variant quantises."""
    return () if variant.tile[2] == DEEP and variant.schedule not in (*DIRECT, BLOCKED) else RAW


def _parameters(variant: ag.Variant) -> tuple[ag.Parameter, ...]:
    types = _types(variant)
    raw = _raw(variant)
    of_a = raw if variant.schedule == BLOCKED else (*types, *raw)
    operands = (
        ag.Parameter("a_dtype", "build", str, "type of A; bf16 and f16 are quantised in the kernel" if raw else "type of A",
                     default=of_a[0], choices=of_a),
        ag.Parameter("b_dtype", "build", str, "type of B", default=types[0], choices=types),
        ag.Parameter("quantise_to", "build", str, "what A of bf16 or f16 becomes", default="fp4", choices=("fp4", "fp8")),
        ag.Parameter("rounding", "build", str, "how the scale of a block of A follows from its largest magnitude: even: its exponent after "
                     "rounding to the type's bits; floor: its exponent; up: the least that clips nothing", default="even",
                     choices=("even", "floor", "up")),
        ag.Parameter("scales", "build", str, "block32: a scale for 32 columns of a row; none: elements are taken as they are",
                     default="block32", choices=_scalings(variant)),
        ag.Parameter("b_order", "build", str, "where B lies: plain: row after row; shuffled: as AITER's shuffle_weight(16, 16) has it",
                     default=WEIGHT_ORDERS[0], choices=WEIGHT_ORDERS),
        ag.Parameter("fp6_storage", "build", str, "how fp6 and bf6 lie: string: 192 bits for 32 elements, row after row; planes: the first "
                     "128 bits of all blocks of 16 rows by 16 rows, then their last 64", default="string", choices=("string", "planes")),
        ag.Parameter("scale_order", "build", str, "where scales lie: plain: row after row; shuffled: as AITER's shuffle_scale has them",
                     default=ORDERS[0], choices=ORDERS),
        ag.Parameter("mfma", "build", str, "rows and columns of D and columns of K of a matrix instruction", default=SHAPES[0],
                     choices=shapes_of(variant)),
        SPLIT_K,
        *((_NONTEMPORAL,) if variant.schedule in DIRECT else ()),
    )
    strides = (_scale_stride(name, axis, variant) for axis, name in enumerate("ab"))
    most_ahead, widest = ag.BEYOND + _SLACK + 2 * variant.stages * variant.tile[2], 16 if raw else WIDEST
    product = product_parameters(operands, variant, widest, _batches(LINE // widest), cells_of(variant), BLOCK, most_ahead)
    if variant.schedule == WHOLE_K:  # asks for all of K before the first product
        product = tuple(replace(one, maximum=WHOLE_COLUMNS) if one.name == "k" else one for one in product)
    return (*product, *strides, *map(_scales_apart, "ab"))


_NONTEMPORAL = ag.Parameter("b_nontemporal", "build", bool, "loads of B carry nt: what is read once leaves caches before other lines",
                            default=False)


def _batches(line: int) -> Further:
    """The parameters of a batch; strides of A and B are multiples of `line` elements, and of what `_RULES` say."""
    apart = {name: ag.Formula(f"ld{name} x the rows, those of planes up to a multiple of {FRAGMENT_ROWS}", _elements_of(name))
             for name in "ab"}
    return Further(run=batch_parameters({"a": line, "b": line}, apart))


def _elements_of(name: str) -> Callable[[ag.Values], int]:
    return lambda p: int(p[f"ld{name}"]) * rows_in_memory(p, name)


def _scales_apart(name: str) -> ag.Parameter:
    """The stride of scales of a batch."""
    return ag.Parameter(f"{name}_scale_stride_batch", "run", int, f"bytes from the scales of one {name.upper()} of a batch to those of the "
                        "next; 0: one for all", minimum=0, maximum=MOST_APART,
                        default_from=ag.Formula(f"lds{name} x the rows, of shuffled scales up to a multiple of {GROUP_ROWS}",
                                                lambda p: scale_bytes(p, name)))


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


def _row_rule(name: str, stride: str) -> ag.Rule:
    return ag.Rule(f"{stride} must be a multiple of 16 elements of 8 bits, of 32 of fewer, of 8 of more", (stride, f"{name}_dtype"),
                   lambda p: p[stride] % row_multiple(p[f"{name}_dtype"]) == 0)


def _dword_rule(name: str) -> ag.Rule:
    stride = f"{name}_scale_stride_batch"
    return ag.Rule(f"{stride} must be a multiple of 4 where scales are shuffled", (stride, "scale_order"),
                   lambda p: p["scale_order"] == "plain" or p[stride] % 4 == 0)


_WEIGHTS = ag.Rule("b_order=shuffled takes fp4, fp8 and bf8, n a multiple of 16, and k and ldb of 32 bytes: 64 fp4 or 32 of 8 bits",
                   ("b_order", "b_dtype", "n", "k", "ldb"), takes_weights)
_SCALED = ag.Rule("scales=none takes A and B as they are; A of bf16 or f16 is quantised, which makes scales", ("a_dtype", "scales"),
                  lambda p: not is_quantised(p) or p["scales"] != "none")
_RULES = (*map(_stride_rule, ("ldsa", "ldsb")),
          *(_row_rule(name, stride) for name in "ab" for stride in (f"ld{name}", f"{name}_stride_batch")),
          *map(_dword_rule, "ab"), _WEIGHTS, _SCALED, *batch_rules())


def _arguments(variant: ag.Variant, build: ag.Values) -> tuple[ag.ContractArgument, ...]:
    """Those of the product's own kernel."""
    given = () if build["scales"] == "none" else WORDS if arranged(build) else SCALE_ARGUMENTS
    of_scales = (one for one in given if not (is_quantised(build) and one.name in OF_A))
    return with_brief((*split_arguments(variant, build), *of_scales))


OF_A = ("a_scale", "ldsa", "a_scale_stride_batch", "a_words")
"""Arguments that a kernel which quantises A does not take."""


def _workspaces(variant: ag.Variant, build: ag.Values) -> tuple[ag.Workspace, ...]:
    """The dwords that `arranging` makes, and the sums of parts."""
    words = tuple(_words(variant, axis) for axis in range(is_quantised(build), 2)) if arranged(build) else ()
    return (*split_workspaces(variant, build), *words)


def _words(variant: ag.Variant, axis: int) -> ag.Workspace:
    size = ag.Formula(f"256 * batch * ceil({'mn'[axis]} / {group_rows(variant.tile, axis)}) * ceil(k / {variant.tile[2]})",
                      lambda p: p["batch"] * word_bytes(p, variant.tile, axis))
    return ag.Workspace(WORDS[axis].name, WORDS[axis].doc, size)


def _selection(candidates: Sequence[ag.Variant], values: ag.Values) -> ag.Variant:
    """The first variant that takes the types and scales; those that are not given are what the variant has."""
    asked = [values[name] for name in ("a_dtype", "b_dtype") if name in values]
    return next((one for one in candidates if {*asked} <= {*_types(one), *_raw(one)} and values.get("scales", "block32") in _scalings(one)),
                candidates[0])


def _work(values: ag.Values, variant: ag.Variant) -> ag.LaunchWork:
    """The steps of workgroups. Only this call loads numpy."""
    from asmgen.kernels.products.work import product_work

    depth = variant.tile[2]
    k = -(-values["k"] // depth) * depth
    return product_work({**values, "k": k, **{name: max(values[name], k) for name in ("lda", "ldb")}}, variant, bits_of(values["a_dtype"]))


_ALIKE = {"bf8": "fp8", "bf6": "fp6", "f16": "bf16"}
"""Types of A and B of one size, which take the same time."""


def _timed_as(build: ag.Values) -> ag.Values:
    """The build whose times are nearly those of one: of types of the same sizes, rounded to even, with loads of one kind."""
    types = {name: _ALIKE.get(str(build[name]), build[name]) for name in ("a_dtype", "b_dtype")}
    temporal = {"b_nontemporal": False} if "b_nontemporal" in build else {}
    return {**timed_as(build), **types, "rounding": "even", **temporal}


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
    grid=SPLIT_GRID,
    problem=_problem,
    algebra=_algebra,
    work=_work,
    tuned=split_options,
    timed_as=_timed_as,
    axes="xyz",
    selection=_selection,
    rules=(*PRODUCT_RULES, *_RULES),
    aliases=PRODUCT_ALIASES,
    example={"m": 512, "n": 384, "k": 512},
    typical={"m": 4096, "n": 4096, "k": 8192},
    fills_argument_wait=True,
)


@GEMM.companion("sum", "D = alpha (sum of the parts) + beta C + bias", sum_arguments, SUM_GRID, waves_of_sum, axes="xyz",
                when=is_split)
def add(k: ag.TileBuilder) -> None:
    """What follows a product that is split along K."""
    add_parts(k)
