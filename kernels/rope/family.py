"""The family rope: parameters, arguments and rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import asmgen as ag
from asmgen.kernels.rope.shape import WAVES, heads_of_workgroup, most_heads, shape_of, tokens_of_grid
from asmgen.kernels.rope.tensors import CACHES, SCALES, TENSORS, axes_of, heads_of, is_cache, numbers_of, pairs_of, tensors_of, type_of
from asmgen.kernels.rows.budget import MOST
from asmgen.kernels.rows.contract import preload_parameter
from asmgen.kernels.rowsapart import rows_are_apart

TYPES = ("bf16", "f16", "f32")
_MOST_COLUMNS = 512
_MOST_TOKENS = WAVES * ag.LANES
_MOST = (1 << 32) - 1
_USUAL_THETA = 10000.0


def _parameters(variant: ag.Variant) -> tuple[ag.Parameter, ...]:
    return (*_build_parameters(variant), *_run_parameters(variant))


def _build_parameters(variant: ag.Variant) -> tuple[ag.Parameter, ...]:
    return (
        ag.Parameter("style", "build", str, "pairs: neox columns i and i + rotated / 2; gptj columns 2 i and 2 i + 1", default="neox",
                     choices=("neox", "gptj")),
        ag.Parameter("d", "build", int, "columns of a head", default=128, minimum=4, maximum=_MOST_COLUMNS, multiple_of=4, tried=(96,)),
        ag.Parameter("rotated", "build", int, "columns that are rotated; others are copied; 0: all", default=0, minimum=0,
                     maximum=_MOST_COLUMNS, multiple_of=4, tried=(24, 64)),
        ag.Parameter("nope_first", "build", bool, "the last columns are rotated, not the first ones", default=False),
        ag.Parameter("positions", "build", str, "none: token i of a batch has position i; given: positions[batch, i]", default="none",
                     choices=("none", "given")),
        ag.Parameter("offsets", "build", bool, "offsets[batch, i] is added to the position of token i", default=False),
        ag.Parameter("index", "build", str, "type of positions, offsets and slot_mapping; of i64 the lower 32 bits are used", default="i32",
                     choices=("i32", "i64")),
        ag.Parameter("computed", "build", bool, "angle i of a position is position theta^(-2 i / rotated); else cos and sin are read",
                     default=False),
        ag.Parameter("varlen", "build", bool, "sequences of any lengths, their tokens one after the other as cu_seqlens say: tensors are "
                     "(tokens, heads, d), s counts the tokens of all, b the sequences", default=False),
        ag.Parameter("second", "build", bool, "x2 is rotated into y2 too, which has heads of its own", default=False),
        ag.Parameter("norm", "build", str, "rms: heads are normalised first, x / sqrt(mean(x^2) + eps) w, with w2 those of x2",
                     default="none", choices=("none", "rms")),
        ag.Parameter("cache", "build", bool, "y2 is a cache: token i goes to row slot_mapping[batch, i], and v is copied so into "
                     "v_cache", default=False),
        ag.Parameter("cache_dtype", "build", str, "type of the caches: auto: that of x; fp8: e4m3 as the architecture has it, of numbers "
                     "over k_scale and v_scale, the largest ones for larger ones", default="auto", choices=("auto", "fp8")),
        ag.Parameter("encoding", "build", str, "how 8-bit floats encode numbers, which the architecture decides",
                     default=ag.architecture(variant.arch).fp8, choices=(ag.architecture(variant.arch).fp8,)),
        ag.Parameter("backward", "build", bool, "by the opposite angles, which is the gradient", default=False),
        preload_parameter(),
        ag.Parameter("dtype", "build", str, "type of x and y", default="bf16", choices=TYPES),
        ag.Parameter("table", "build", str, "type of cos and sin", default="f32", choices=TYPES),
    )


def _run_parameters(variant: ag.Variant) -> tuple[ag.Parameter, ...]:
    return (
        ag.Parameter("b", "run", int, "batches, or sequences", default=1, minimum=1, maximum=65535),
        ag.Parameter("s", "run", int, "tokens of a batch, or of all sequences", minimum=1, maximum=1 << 24),
        ag.Parameter("max_s", "run", int, "the most tokens of one sequence in a build with varlen", minimum=1, maximum=1 << 24,
                     default_from="s"),
        ag.Parameter("h", "run", int, "heads of x", minimum=1, maximum=65535),
        ag.Parameter("h2", "run", int, "heads of x2 and v", minimum=1, maximum=65535, default_from="h"),
        *(parameter for name in TENSORS for parameter in _strides(name)),
        ag.Parameter("angles", "run", int, "rows of cos and sin; a position beyond them gives 0", minimum=1, maximum=1 << 24,
                     default_from="s"),
        ag.Parameter("angle_stride", "run", int, "elements from one row of cos, and of sin, to the next", minimum=1, maximum=1 << 20,
                     default_from=ag.Formula("rotated / 2", lambda p: shape_of(p).pairs)),
        ag.Parameter("theta", "run", float, "of computed angles", default=_USUAL_THETA, minimum=1.0, maximum=1e12),
        ag.Parameter("ratio", "run", float, "of the angles of a pair to those of the pair before", minimum=0.0, maximum=1.0,
                     default_from=ag.Formula("theta^(-2 / rotated)", lambda p: p["theta"] ** (-1 / shape_of(p).pairs))),
        ag.Parameter("eps", "run", float, "of rms", default=1e-6, minimum=0.0, maximum=1.0),
        ag.Parameter("position_stride", "run", int, "elements from batch to batch of positions, offsets and slot_mapping", minimum=0,
                     maximum=_MOST, default_from="s"),
        ag.Parameter("slots", "run", int, "rows of a cache; a token whose slot is none of them is not stored", minimum=1, maximum=1 << 31,
                     default_from=ag.Formula("b s", lambda p: p["b"] * p["s"])),
        ag.Parameter("each", "run", int, "heads of x, and of x2, that a workgroup rotates, one after the other", minimum=1, maximum=65535,
                     default_from=ag.Formula("as many as fill the GPU once", lambda p: heads_of_workgroup(variant, p))),
    )


def _strides(name: str) -> tuple[ag.Parameter, ...]:
    h = heads_of(name)
    return (
        ag.Parameter(f"{name}_stride_h", "run", int, f"elements from head to head of {name}", minimum=1, maximum=_MOST, default_from="d"),
        ag.Parameter(f"{name}_stride_s", "run", int, f"elements from token to token of {name}", minimum=1,
                     maximum=ag.most_stride(_MOST_TOKENS, 32, ag.BEYOND),
                     default_from=ag.Formula(f"{h} d", lambda p: p[h] * p["d"])),
        ag.Parameter(f"{name}_stride_b", "run", int, f"elements from batch to batch of {name}", minimum=1, maximum=_MOST,
                     default_from=ag.Formula(f"the larger one of s {name}_stride_s and {h} {name}_stride_h",
                                             lambda p: min(_MOST, max(p["s"] * p[f"{name}_stride_s"], p[h] * p[f"{name}_stride_h"])))),
    )


def _arguments(variant: ag.Variant, build: ag.Values) -> tuple[ag.ContractArgument, ...]:
    """What the build reads and writes."""
    named, numbers = tensors_of(build), numbers_of(build)
    return (
        *(ag.ContractArgument(name, "pointer", "b x s x h x d, or rows x h x d of a cache, 4-byte aligned") for name in named),
        *_angle_arguments(build),
        *(ag.ContractArgument(name, "pointer", "d factors of the type of x, 4-byte aligned")
          for name in (("w", "w2") if build["second"] else ("w",)) if build["norm"] != "none"),
        *(ag.ContractArgument(name, "pointer", "one float32") for name in SCALES.values() if build["cache_dtype"] != "auto"),
        *(ag.ContractArgument(name, "pointer", f"b x s {build['index']}") for name in numbers),
        *([ag.ContractArgument("cu_seqlens", "pointer", "int32 [b + 1]: the first token of each sequence, and how many tokens there are")]
          if build["varlen"] else []),
        ag.ContractArgument("s", "u32", "tokens"), ag.ContractArgument("h", "u32", "heads"),
        *([ag.ContractArgument("h2", "u32", "heads of x2 and v")] if build["second"] else []),
        ag.ContractArgument("each", "u32", "heads of a workgroup"),
        *(ag.ContractArgument(f"{name}_stride_{axis}", "u32", "elements") for name in named for axis in axes_of(build, name)),
        *([ag.ContractArgument("position_stride", "u32", "elements")] if numbers and not build["varlen"] else []),
        *([ag.ContractArgument("slots", "u32", "rows of a cache")] if build["cache"] else []),
        *([ag.ContractArgument("eps", "f32", "of rms")] if build["norm"] != "none" else []),
    )


def _angle_arguments(build: ag.Values) -> tuple[ag.ContractArgument, ...]:
    if build["computed"]:
        return (ag.ContractArgument("ratio", "f64", "of the angles of a pair to those of the pair before"),)
    return (
        ag.ContractArgument("cos", "pointer", "angles x rotated / 2, 4-byte aligned"),
        ag.ContractArgument("sin", "pointer", "angles x rotated / 2, 4-byte aligned"),
        ag.ContractArgument("angles", "u32", "rows of cos and sin"), ag.ContractArgument("angle_stride", "u32", "elements"),
    )


def _problem(values: ag.Values, seed: int) -> ag.Problem:
    """Random heads with their reference. Only this call loads numpy."""
    from asmgen.kernels.rope.problem import make_problem

    return make_problem(values, seed)


def _algebra(values: ag.Values, inputs: Any) -> Mapping[str, Any]:
    """The results in exact residues."""
    from asmgen.kernels.rope.algebra import rotated

    if values["computed"] or values["norm"] != "none" or values["cache_dtype"] != "auto":
        raise ag.AsmgenError("rope has no exact residues of computed angles, of normalised heads or of caches of fp8; computed=false, "
                             "norm=none and cache_dtype=auto would do")
    return rotated(values, inputs)


def _fits(name: str) -> ag.Rule:
    return ag.Rule(f"{name}_stride_h and {name}_stride_s must be at least d, and multiples of 4 bytes",
                   (f"{name}_stride_h", f"{name}_stride_s", "d", "dtype", "cache", "cache_dtype"),
                   lambda p: all(p[f"{name}_stride_{axis}"] >= p["d"] and p[f"{name}_stride_{axis}"] * _size(p, name) % 4 == 0
                                 for axis in "sh"))


def _even(name: str) -> ag.Rule:
    return ag.Rule(f"{name}_stride_b must be a multiple of 2 where dtype has 16 bits", (f"{name}_stride_b", "dtype"),
                   lambda p: p["dtype"] == "f32" or p[f"{name}_stride_b"] % 2 == 0)


def _apart(name: str) -> ag.Rule:
    """Of a result that the build has. A token goes to any row of a cache."""
    counts = {"b": "b", "s": "s", "h": heads_of(name)}

    def of_build(p: ag.Values) -> dict[str, str]:
        own = counts | ({"s": "slots"} if is_cache(p, name) else {})
        return {axis: own[axis] for axis in axes_of(p, name)} if name in tensors_of(p) else {}

    return rows_are_apart(name, counts, of_build, ("second", "cache", "varlen", "slots"))


def _reaches(name: str) -> ag.Rule:
    return ag.Rule(f"slots times {name}_stride_s must be at most 2^32 bytes in a build with a cache",
                   ("slots", f"{name}_stride_s", "cache", "dtype", "cache_dtype"),
                   lambda p: not p["cache"] or p["slots"] * p[f"{name}_stride_s"] * _size(p, name) <= 1 << 32)


def _size(p: ag.Values, name: str) -> int:
    """Bytes of an element."""
    return int(ag.element_bits(type_of(p, name)) // 8)


ROPE = ag.Family(
    name="rope",
    title="y = x with pairs of columns rotated: (a cos - b sin, b cos + a sin), in float32",
    parameters=_parameters,
    arguments=_arguments,
    grid=ag.GridRule("ceil(tokens of a batch or of the longest sequence / tokens of a workgroup), b, ceil(heads of x or x2 / each)",
                     lambda p, variant: (-(-tokens_of_grid(p) // shape_of(p).tokens), p["b"], -(-most_heads(p) // p["each"]))),
    axes="xyz",
    problem=_problem,
    algebra=_algebra,
    rules=(*(rule for name in TENSORS for rule in (_fits(name), _even(name))),
           *(_apart(name) for name in TENSORS[1::2]),
           *(_reaches(name) for name in CACHES),
           ag.Rule("rotated must be at most d", ("rotated", "d"), lambda p: p["rotated"] <= p["d"]),
           ag.Rule(f"rotated and d must leave room in {MOST} VGPRs for what a lane has of a head: as many lanes share it, up to 16, "
                   "as the largest power of two whose runs of up to 8 neighbours divide each half of neox, or all of gptj, and whose "
                   "dwords divide the rest", ("rotated", "d", "style", "dtype", "table", "norm", "cache", "cache_dtype", "nope_first"),
                   lambda p: shape_of(p).vgprs(p) <= MOST),
           ag.Rule("cache must be false where second is", ("cache", "second"), lambda p: p["second"] or not p["cache"]),
           ag.Rule("cache_dtype must be auto where cache is false", ("cache", "cache_dtype"),
                   lambda p: p["cache"] or p["cache_dtype"] == "auto"),
           ag.Rule("4 must divide each half of neox, all of gptj, and what a lane has of columns that are not rotated, where cache_dtype "
                   "is fp8", ("cache_dtype", "d", "rotated", "style", "nope_first"),
                   lambda p: p["cache_dtype"] == "auto" or shape_of(p).run % 4 == 0 and shape_of(p).rest_run % 4 == 0),
           ag.Rule("backward must be false where heads are normalised, or go to a cache", ("backward", "norm", "cache"),
                   lambda p: not p["backward"] or p["norm"] == "none" and not p["cache"]),
           ag.Rule("table must be f32 where angles are computed", ("table", "computed"),
                   lambda p: p["table"] == "f32" or not p["computed"]),
           ag.Rule("max_s must be s in a build without varlen", ("varlen", "s", "max_s"), lambda p: p["varlen"] or p["max_s"] == p["s"]),
           ag.Rule("max_s must be at most s, and b * max_s at least s", ("b", "s", "max_s"),
                   lambda p: p["max_s"] <= p["s"] <= p["b"] * p["max_s"]),
           ag.Rule("angle_stride must be at least rotated / 2, and a multiple of 2 where table has 16 bits",
                   ("angle_stride", "rotated", "d", "table"),
                   lambda p: p["angle_stride"] >= shape_of(p).pairs and (p["table"] == "f32" or p["angle_stride"] % 2 == 0)),
           ag.Rule("angles times angle_stride must be less than 2^29", ("angles", "angle_stride", "computed"),
                   lambda p: p["computed"] or p["angles"] * p["angle_stride"] < 1 << 29)),
    aliases=lambda variant, build: tuple(ag.Alias(pair, "their strides are equal") for pair in pairs_of(build)
                                         if not (build["cache"] and pair[1] in CACHES)),
    example={"s": 40, "h": 3},
    fills_argument_wait=True,
)
