"""The family attention-backward: parameters, arguments, workspaces and rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import asmgen as ag
from asmgen.kernels.attention_backward.tensors import BLOCK, MAIN, OF_KEYS, QUERIES, TENSORS, WRITTEN
from asmgen.kernels.rowsapart import rows_are_apart
from asmgen.kernels.sequences import contract as sequences

_MOST_ROWS = sequences.MOST_ROWS
_MOST_HEADS = 65535  # of a grid's y and z
_MOST_ELEMENTS = (1 << 32) - 8
_BITS = 16  # of an element of the tensors
_LINE = 8  # rows begin at multiples of so many elements
_F32 = 4  # bytes
ROWS_AHEAD = 128
"""Rows by which the scalar offset of a head's keys may exceed the last row, and that of queries where d is 128."""
_MOST_WORKGROUPS = 1 << 22


def rows_ahead(d: int) -> int:
    """The same of queries for any d: where rows are short, a step takes less time than a fetch, which is a step earlier."""
    return ROWS_AHEAD + (BLOCK if d < 128 else 0)


def _parameters(variant: ag.Variant) -> tuple[ag.Parameter, ...]:
    return (
        ag.Parameter("dtype", "build", str, "type of the tensors; all sums are float32", default="bf16", choices=("bf16", "f16")),
        ag.Parameter("d", "build", int, "elements of a head's row", default=128, choices=(128, 64)),
        *((ag.Parameter("waves", "build", int, "waves of a workgroup; 8 for d=128 without dropout", default=4, choices=(4, 8)),)
          if variant.arch == "gfx950" else ()),
        ag.Parameter("dq", "build", str, "how dQ is added up. atomic: workgroups of keys add float32 to memory, in any order; ordered: a "
                     "kernel of its own has all keys of a query, which gives the same bits each time", default="atomic",
                     choices=("atomic", "ordered")),
        ag.Parameter("dq_type", "build", str, "type in which dq=atomic adds up dQ in memory; bf16 moves half as much, and its "
                     "errors grow with the square root of sk", default="f32", choices=("f32", "bf16")),
        ag.Parameter("rounding", "build", str, "how P and dS become operands; truncated on gfx942 alone", default="nearest",
                     choices=("nearest", "truncated") if variant.arch == "gfx942" else ("nearest",)),
        ag.Parameter("causal", "build", bool, "query i sees keys up to i + sk - sq", default=False),
        ag.Parameter("window", "build", bool, "query i sees keys from i + sk - sq - left to i + sk - sq + right", default=False),
        *sequences.build_parameters(),
        _size("b", "batches", _MOST_HEADS, default=1),
        _size("hq", "heads of Q", _MOST_HEADS),
        _size("hkv", "heads of K and V", _MOST_HEADS, default_from="hq"),
        _size("sq", "queries"),
        _size("sk", "keys", default_from="sq"),
        *sequences.run_parameters(),
        *sequences.draw_parameters(),
        ag.Parameter("softmax_scale", "run", float, "factor of the scores", default=variant.d**-0.5, minimum=2.0**-32, maximum=2.0**16),
        *(ag.Parameter(name, "run", int, f"keys {where} its own that a query sees in a build with window, -1 for all", default=-1,
                       minimum=-1, maximum=_MOST_ROWS) for name, where in (("left", "before"), ("right", "after"))),
        *(stride for tensor in TENSORS for stride in _strides(tensor, variant)),
    )


def _size(name: str, doc: str, most: int = _MOST_ROWS, default: int | None = None, default_from: str = "") -> ag.Parameter:
    return ag.Parameter(name, "run", int, doc, default=default, minimum=1, maximum=most, default_from=default_from)


def _strides(tensor: str, variant: ag.Variant) -> tuple[ag.Parameter, ...]:
    """The strides of a tensor with dimensions (b, s, h, d); rows begin at multiples of 16 bytes."""
    heads, rows, shown = ("hkv", "sk", variant.tile[1]) if tensor in OF_KEYS else ("hq", "sq", rows_ahead(variant.d))
    d, most = variant.d, ag.most_stride(shown, _BITS) // _LINE * _LINE

    def stride(name: str, what: str, text: str, default: ag.Formula, minimum: int, maximum: int) -> ag.Parameter:
        return ag.Parameter(f"{tensor}_stride_{name}", "run", int, f"elements of {tensor} from one {what} to the next{text}",
                         minimum=minimum, maximum=maximum, multiple_of=_LINE, default_from=default)

    return (
        stride("s", "row", "; 16-byte loads want a multiple of 8", ag.Formula(f"{heads} * d", lambda p: p[heads] * d), d, most),
        stride("h", "head", "", ag.Formula("d", lambda p: d), 0, _MOST_ELEMENTS),
        stride("b", "batch", "", ag.Formula(f"the larger one of {rows} * {tensor}_stride_s and {heads} * {tensor}_stride_h",
                                         lambda p: max(p[rows] * p[f"{tensor}_stride_s"], p[heads] * p[f"{tensor}_stride_h"])),
               0, _MOST_ELEMENTS),
    )


def _axes(tensor: str) -> dict[str, str]:
    """What counts a tensor's batches, rows and heads."""
    heads, rows = ("hkv", "sk") if tensor in OF_KEYS else ("hq", "sq")
    return {"b": "b", "s": rows, "h": heads}


_AHEAD_TEXT = f"{rows_ahead(128)}, with d 64 {rows_ahead(64)}"


def _head_fits(tensor: str) -> ag.Rule:
    """Whether loops reach all rows of a head; only that of the kernel of dQ goes over keys."""
    stride, most = f"{tensor}_stride_s", (ag.MOST_RECORDS + 1) * 8 // _BITS
    if tensor in OF_KEYS:
        return ag.Rule(f"(sk + {ROWS_AHEAD}) * {stride} must be at most {most} where dq is ordered, as offsets inside of one head are 32 "
                       "bits", ("dq", "sk", stride), lambda p: not is_ordered(p) or (p["sk"] + ROWS_AHEAD) * p[stride] <= most)
    return ag.Rule(f"(sq + {_AHEAD_TEXT}) * {stride} must be at most {most}, as offsets inside of one head are 32 bits",
                   ("d", "sq", stride), lambda p: (p["sq"] + rows_ahead(p["d"])) * p[stride] <= most)


def blocks(p: ag.Values, variant: ag.Variant) -> int:
    """Blocks of a step's queries of a head, the longest one where lengths vary."""
    return int(-(-p["max_sq"] // variant.tile[0]))


def _problem(values: ag.Values, seed: int) -> ag.Problem:
    """Random data with some odd numbers. Only this call loads numpy."""
    from asmgen.kernels.attention_backward.problem import make_problem

    return make_problem(values, seed, nonfinite=ag.holds_nonfinite(seed))


def _algebra(values: ag.Values, inputs: Any) -> Mapping[str, Any]:
    """The gradients in exact residues."""
    from asmgen.kernels.attention_backward.algebra import gradients

    return gradients(values, inputs)


def _work(values: ag.Values, variant: ag.Variant) -> ag.LaunchWork:
    """The lengths of workgroups. Only this call loads numpy."""
    from asmgen.kernels.attention_backward.launchwork import launch_work

    return launch_work(values, *variant.tile)


def query_work(values: ag.Values, small: ag.Values) -> ag.LaunchWork:
    """The lengths of workgroups of the kernel that makes dQ by itself."""
    from asmgen.kernels.attention_backward import launchwork

    return launchwork.query_work(values, small)


def _stride_arguments(p: ag.Values, *tensors: str) -> tuple[ag.ContractArgument, ...]:
    return tuple(ag.ContractArgument(f"{tensor}_stride_{name}", "u32", f"stride of {tensor} in elements")
                 for tensor in tensors for name in ("sh" if p["varlen"] else "bsh"))


def _pointers(*tensors: str) -> tuple[ag.ContractArgument, ...]:
    return tuple(ag.ContractArgument(tensor, "pointer", f"{tensor}, 16-byte aligned") for tensor in tensors)


_SIZES = {name: ag.ContractArgument(name, "u32", doc) for name, doc in (
    ("b", "batches"), ("hq", "heads of Q"), ("hkv", "heads of K and V"), ("sq", "queries"), ("sk", "keys"))}
_SCALE = ag.ContractArgument("softmax_scale", "f32", "factor of the scores")
_SIDES = tuple(ag.ContractArgument(name, "i32", f"keys {where} its own that a query sees, -1 for all")
               for name, where in (("left", "before"), ("right", "after")))
_LSE = ag.ContractArgument("lse", "pointer", "float32 [b, hq, sq], side by side, [hq, sq] where lengths vary: the natural "
                            "logarithm that attention-forward writes")
_STATISTICS = ag.ContractArgument("statistics", "pointer", "for each step's queries of a head, -LSE / softmax_scale and -sum of dO O")
_PARTS = ag.ContractArgument("sink_parts", "pointer", "float32 [hq, b, blocks]: for each step's queries their part of dsink")
_SUMS = ag.ContractArgument("dq_sums", "pointer", "of dq_type, [b, hq, sq, d], [hq, sq, d] where lengths vary: dQ / softmax_scale")


def delta_arguments(variant: ag.Variant, p: ag.Values) -> tuple[ag.ContractArgument, ...]:
    """Those of the kernel before the main one."""
    sinks = (sequences.SINK, _PARTS, _SIZES["b"]) if p["sink"] else ()
    return (*_pointers("o", "do"), _LSE, _STATISTICS, _SIZES["hq"], _SIZES["sq"], _SCALE, *_stride_arguments(p, "o", "do"),
            *sequences.given_lengths(p, keys=False), *sinks, *_kept_share(p))


def convert_arguments(variant: ag.Variant, p: ag.Values) -> tuple[ag.ContractArgument, ...]:
    """Those of the kernel that rounds dQ."""
    return (_SUMS, *_pointers("dq"), _SIZES["hq"], _SIZES["sq"], _SCALE, *_stride_arguments(p, "dq"),
            *sequences.given_lengths(p, keys=False), *_kept_share(p))


def _kept_share(p: ag.Values) -> tuple[ag.ContractArgument, ...]:
    """What kernels that draw nothing need of dropout."""
    return sequences.draw_arguments(p)[:1]


def query_arguments(variant: ag.Variant, p: ag.Values) -> tuple[ag.ContractArgument, ...]:
    """Those of the kernel that makes dQ by itself."""
    tensors = ("q", "k", "v", "do", "dq")
    return (*_pointers(*tensors), _STATISTICS, *_SIZES.values(), _SCALE, *_SIDES, *_stride_arguments(p, *tensors),
            *sequences.given_lengths(p), *sequences.draw_arguments(p))


def sink_arguments(variant: ag.Variant, p: ag.Values) -> tuple[ag.ContractArgument, ...]:
    """Those of the kernel that adds up gradients of sinks."""
    longest = [one for one in sequences.given_lengths(p, keys=False) if one.name == "max_sq"]
    return (_PARTS, ag.ContractArgument("dsink", "pointer", "float32 [hq]: the gradients of sinks"), _SIZES["b"], _SIZES["hq"],
            _SIZES["sq"], *longest)


SINK_GRID = ag.GridRule("one workgroup for each head of Q", lambda p, variant: (p["hq"], 1, 1))
BLOCK_GRID = ag.GridRule("x: ceil(max_sq / {v.tile[0]}); y: hq; z: b", lambda p, variant: (blocks(p, variant), p["hq"], p["b"]))


QUERY_GRID = ag.GridRule(f"one workgroup for each {QUERIES} queries of a head of a batch",
                      lambda p, variant: (_query_workgroups(p), 1, 1))


def _query_workgroups(p: ag.Values) -> int:
    return int(p["b"] * p["hq"] * -(-p["max_sq"] // QUERIES))


def is_ordered(p: ag.Values) -> bool:
    """Whether dQ is made by a kernel of its own."""
    return bool(p["dq"] == "ordered")


def sum_bytes(p: ag.Values) -> int:
    """Bytes of a sum of dQ in memory."""
    return ag.element_bits(p["dq_type"]) // 8


def _main_arguments(variant: ag.Variant, p: ag.Values) -> tuple[ag.ContractArgument, ...]:
    sums = () if is_ordered(p) else (_SUMS,)
    return (*_pointers(*MAIN), _STATISTICS, *sums, *_SIZES.values(), _SCALE, *_SIDES, *_stride_arguments(p, *MAIN),
            *sequences.given_lengths(p), *sequences.draw_arguments(p))


def _workspaces(variant: ag.Variant, p: ag.Values) -> tuple[ag.Workspace, ...]:
    rows = variant.tile[0]
    statistics = ag.Workspace("statistics", _STATISTICS.doc, ag.Formula(
        f"{2 * rows * _F32} b hq ceil(max_sq / {rows})", lambda p: 2 * rows * _F32 * p["b"] * p["hq"] * blocks(p, variant)))
    parts = ag.Workspace("sink_parts", _PARTS.doc, ag.Formula(f"{_F32} hq b ceil(max_sq / {rows})",
                                                              lambda p: _F32 * p["hq"] * p["b"] * blocks(p, variant)), zeroed=True)
    size = sum_bytes(p)
    sums = ag.Workspace("dq_sums", _SUMS.doc, ag.Formula(
        f"{size} hq sq d" if p["varlen"] else f"{size} b hq sq d",
        lambda p: size * (1 if p["varlen"] else p["b"]) * p["hq"] * p["sq"] * p["d"]), zeroed=True)
    return (statistics, *(() if is_ordered(p) else (sums,)), *((parts,) if p["sink"] else ()))


def _workgroups(p: ag.Values, keys: int) -> int:
    return int(p["b"] * p["hkv"] * -(-p["max_sk"] // keys))


BACKWARD = ag.Family(
    name="attention-backward",
    title="dQ, dK, dV of O = softmax(scale Q K^T + mask) V from dO",
    parameters=_parameters,
    arguments=_main_arguments,
    workspaces=_workspaces,
    grid=ag.GridRule("one workgroup for each {v.tile[1]} keys of a head of K of a batch",
                  lambda p, variant: (_workgroups(p, variant.tile[1]), 1, 1)),
    problem=_problem,
    algebra=_algebra,
    work=_work,
    rules=(
        ag.Rule("dq_type must be f32 where dq is ordered, which has no sums in memory", ("dq", "dq_type"),
                lambda p: not is_ordered(p) or p["dq_type"] == "f32"),
        ag.Rule("hq must be a multiple of hkv", ("hq", "hkv"), lambda p: p["hq"] % p["hkv"] == 0),
        ag.Rule(f"b * hkv * max_sk / 256 must be at most {_MOST_WORKGROUPS}, the workgroups of a grid", ("b", "hkv", "max_sk"),
             lambda p: _workgroups(p, 256) <= _MOST_WORKGROUPS),
        ag.Rule("left and right must be -1 in a build without window", ("window", "left", "right"),
             lambda p: p["window"] or p["left"] == p["right"] == -1),
        ag.Rule("right must be 0 or -1 where causal, which both say that no later key is seen", ("causal", "right"),
             lambda p: not p["causal"] or p["right"] <= 0),
        ag.Rule(f"b * hq * max_sq / {QUERIES} must be at most {_MOST_WORKGROUPS} where dq is ordered, the workgroups of a grid",
                ("dq", "b", "hq", "max_sq"), lambda p: not is_ordered(p) or _query_workgroups(p) <= _MOST_WORKGROUPS),
        *(_head_fits(tensor) for tensor in ("q", "k", "v", "do")),
        ag.Rule(f"(sq + {_AHEAD_TEXT}) * d must be at most {(ag.MOST_RECORDS + 1) // _F32}, as offsets inside of one head are 32 bits",
                ("sq", "d"), lambda p: (p["sq"] + rows_ahead(p["d"])) * p["d"] * _F32 <= ag.MOST_RECORDS + 1),
        *(rows_are_apart(tensor, _axes(tensor)) for tensor in WRITTEN),
        *sequences.rules(),
    ),
    example={"b": 1, "hq": 4, "hkv": 2, "sq": 512, "sk": 512},
    fills_argument_wait=True,
)
