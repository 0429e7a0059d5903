"""The family attention-forward: parameters, arguments, rules and selection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import asmgen as ag
from asmgen.kernels.attention_forward.tensors import TENSORS
from asmgen.kernels.rowsapart import rows_are_apart
from asmgen.kernels.sequences import contract as sequences

_MOST_ROWS = sequences.MOST_ROWS
_MOST_ELEMENTS = (1 << 32) - 8
_BITS = 16  # of an element of Q, K, V, O
_LINE = 8  # rows begin at multiples of so many elements
ROWS_AHEAD = 512
"""Rows by which the scalar offset of a head's keys may exceed the last row. One descriptor covers all rows of a head's K or V, with offsets
of 32 bits from the first row on."""
_MOST_WORKGROUPS = 1 << 22


def _parameters(variant: ag.Variant) -> tuple[ag.Parameter, ...]:
    return (
        ag.Parameter("dtype", "build", str, "type of Q, K, V and O; scores, sums and O are float32 until they are rounded", default="bf16",
                  choices=("bf16", "f16")),
        ag.Parameter("d", "build", int, "elements of a head's row", default=128, choices=(128, 64)),
        ag.Parameter("waves", "build", int, "waves of a workgroup; not given: 4 on gfx950 for d=64, else 8", default=8, choices=(8, 4)),
        ag.Parameter("causal", "build", bool, "query i sees keys up to i + sk - sq", default=False),
        ag.Parameter("window", "build", bool, "query i sees keys from i + sk - sq - left to i + sk - sq + right", default=False),
        ag.Parameter("lse", "build", bool, "write the natural logarithm of the sum of exponentials of each row too", default=False),
        ag.Parameter("scale", "build", str, "exact: scores, any finite ones, are scaled in float32; folded: Q is, and rounded to its type "
                  "again; scores times log2(e) and their differences must be finite then, and without a window a row's are as exact as "
                  "2^-24 of the largest magnitude that its maximum has had, so that a row is wrong whose scores rise from below -2^20 to "
                  "near zero", default="exact", choices=("exact", "folded")),
        ag.Parameter("rescale", "build", str,
                     "lazy: O is scaled when a row's maximum has grown by more than 8 powers of two; eager: always",
                     default="lazy", choices=("lazy", "eager")),
        ag.Parameter("rounding", "build", str, "how P becomes an operand of the second product; truncated on gfx942 alone",
                     default="nearest", choices=("nearest", "truncated") if variant.arch == "gfx942" else ("nearest",)),
        *sequences.build_parameters(),
        _size("b", "batches", default=1),
        _size("hq", "heads of Q and O"),
        _size("hkv", "heads of K and V", default_from="hq"),
        _size("sq", "queries"),
        _size("sk", "keys", default_from="sq"),
        *sequences.run_parameters(),
        *sequences.draw_parameters(),
        ag.Parameter("softmax_scale", "run", float, "factor of the scores", default=variant.d**-0.5, minimum=2.0**-32, maximum=2.0**16),
        ag.Parameter("left", "run", int, "keys before its own that a query sees in a build with window, -1 for all", default=-1,
                     minimum=-1, maximum=_MOST_ROWS),
        ag.Parameter("right", "run", int, "keys after its own that a query sees in a build with window, -1 for all", default=-1,
                     minimum=-1, maximum=_MOST_ROWS),
        *(stride for tensor in TENSORS for stride in _strides(tensor, variant)),
    )


def _size(name: str, doc: str, default: int | None = None, default_from: str = "") -> ag.Parameter:
    return ag.Parameter(name, "run", int, doc, default=default, minimum=1, maximum=_MOST_ROWS, default_from=default_from)


def _strides(tensor: str, variant: ag.Variant) -> tuple[ag.Parameter, ...]:
    """The strides of a tensor with dimensions (b, s, h, d); rows begin at multiples of 16 bytes.

    The row stride of Q and O is limited by the descriptor of a workgroup's rows, that of K and V by `_head_fits`.
    """
    heads, rows, shown = ("hq", "sq", variant.tile[0]) if tensor in "qo" else ("hkv", "sk", ROWS_AHEAD)
    d, most = variant.d, ag.most_stride(shown, _BITS) // _LINE * _LINE

    def stride(name: str, what: str, text: str, default: ag.Formula, minimum: int, maximum: int) -> ag.Parameter:
        return ag.Parameter(f"{tensor}_stride_{name}", "run", int, f"elements of {tensor.upper()} from one {what} to the next{text}",
                         minimum=minimum, maximum=maximum, multiple_of=_LINE, default_from=default)

    return (
        stride("s", "row", "; 16-byte loads want a multiple of 8", ag.Formula(f"{heads} * d", lambda p: p[heads] * d), d, most),
        stride("h", "head", "", ag.Formula("d", lambda p: d), 0, _MOST_ELEMENTS),
        stride("b", "batch", "", ag.Formula(f"the larger one of {rows} * {tensor}_stride_s and {heads} * {tensor}_stride_h",
                                         lambda p: max(p[rows] * p[f"{tensor}_stride_s"], p[heads] * p[f"{tensor}_stride_h"])),
               0, _MOST_ELEMENTS),
    )


def _head_fits(tensor: str) -> ag.Rule:
    stride = f"{tensor}_stride_s"
    most = (ag.MOST_RECORDS + 1) * 8 // _BITS
    return ag.Rule(f"(sk + {ROWS_AHEAD}) * {stride} must be at most {most}, as offsets inside of one head are 32 bits", ("sk", stride),
                lambda p: (p["sk"] + ROWS_AHEAD) * p[stride] <= most)


def _problem(values: ag.Values, seed: int) -> ag.Problem:
    """Random data with some odd numbers. Only this call loads numpy."""
    from asmgen.kernels.attention_forward.problem import make_problem

    return make_problem(values, seed, nonfinite=ag.holds_nonfinite(seed))


def _algebra(values: ag.Values, inputs: Any) -> Mapping[str, Any]:
    """O and LSE in exact residues."""
    from asmgen.kernels.attention_forward.algebra import attention

    return attention(values, inputs)


def _work(values: ag.Values, variant: ag.Variant) -> ag.LaunchWork:
    """The lengths of workgroups. Only this call loads numpy."""
    from asmgen.kernels.attention_forward.work import launch_work

    return launch_work(values, variant.tile)


def _workgroups(p: ag.Values, rows: int) -> int:
    return int(p["b"] * p["hq"] * -(-p["max_sq"] // rows))


def _preferred(serving: Sequence[ag.Variant], _: ag.Values) -> ag.Variant:
    """The first declared variant; for d=64 the one with 4 waves, which is predicted faster for any number of keys."""
    first = serving[0]
    return next((variant for variant in serving if variant.d == first.d == 64 and variant.wave_count == 4), first)


def _arguments(variant: ag.Variant, p: ag.Values) -> tuple[ag.ContractArgument, ...]:
    return (
        *(ag.ContractArgument(name, "pointer", f"{name.upper()}, 16-byte aligned") for name in TENSORS),
        ag.ContractArgument("lse", "pointer", "float32 [b, hq, sq], side by side, [hq, sq] where lengths vary; not written in a build "
                            "without lse"),
        ag.ContractArgument("b", "u32", "batches"),
        ag.ContractArgument("hq", "u32", "heads of Q and O"),
        ag.ContractArgument("hkv", "u32", "heads of K and V"),
        ag.ContractArgument("sq", "u32", "queries"),
        ag.ContractArgument("sk", "u32", "keys"),
        ag.ContractArgument("softmax_scale", "f32", "factor of the scores"),
        ag.ContractArgument("left", "i32", "keys before its own that a query sees, -1 for all"),
        ag.ContractArgument("right", "i32", "keys after its own that a query sees, -1 for all"),
        *(ag.ContractArgument(f"{tensor}_stride_{name}", "u32", f"stride of {tensor.upper()} in elements") for tensor in TENSORS
          for name in ("sh" if p["varlen"] else "bsh")),
        *sequences.given_lengths(p),
        *((sequences.SINK,) if p["sink"] else ()),
        *sequences.draw_arguments(p),
    )


ATTENTION = ag.Family(
    name="attention-forward",
    title="O = softmax(scale Q K^T + mask) V, softmax in float32",
    parameters=_parameters,
    arguments=_arguments,
    grid=ag.GridRule("one workgroup for each {v.tile[0]} queries of a head of a batch",
                  lambda p, variant: (_workgroups(p, variant.tile[0]), 1, 1)),
    problem=_problem,
    algebra=_algebra,
    work=_work,
    selection=_preferred,
    rules=(
        ag.Rule("hq must be a multiple of hkv", ("hq", "hkv"), lambda p: p["hq"] % p["hkv"] == 0),
        ag.Rule(f"b * hq * max_sq / 128 must be at most {_MOST_WORKGROUPS}, the workgroups of a grid", ("b", "hq", "max_sq"),
             lambda p: _workgroups(p, 128) <= _MOST_WORKGROUPS),
        ag.Rule("left and right must be -1 in a build without window", ("window", "left", "right"),
             lambda p: p["window"] or p["left"] == p["right"] == -1),
        ag.Rule("right must be 0 or -1 where causal, which both say that no later key is seen", ("causal", "right"),
             lambda p: not p["causal"] or p["right"] <= 0),
        _head_fits("k"),
        _head_fits("v"),
        *sequences.rules(),
        rows_are_apart("o", {"b": "b", "s": "sq", "h": "hq"}),
    ),
    example={"b": 2, "hq": 16, "hkv": 4, "sq": 1024, "sk": 1024},
    fills_argument_wait=True,
)
