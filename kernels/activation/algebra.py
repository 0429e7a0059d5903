"""What activation computes, in exact residues; the polynomial of Phi is part of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

import asmgen as ag
from asmgen.kernels.activation.formulas import DENSITY, SATURATED, TERMS, P
from asmgen.kernels.activation.tensors import ALPHA, CUBIC, LINEAR, is_gated, limit_of, outputs_of


def activated(p: ag.Values, inputs: Any) -> Mapping[str, Any]:
    """The outputs by name. Selections follow the numbers of the run."""
    columns, limit = p["columns"], limit_of(p)
    numbers = {name: inputs.arguments[name][:, :columns].astype(np.float64) for name in ("x", "up") if name == "x" or is_gated(p)}
    x = inputs["x"][:, :columns]
    high = numbers["x"] > (limit or np.inf)
    gate = inputs.number(limit).where(high, x) if limit else x
    value, slope = _function(p, inputs, gate, np.where(high, limit, numbers["x"]) if limit else numbers["x"])
    if not is_gated(p):
        return {"dx": slope * inputs["dy"][:, :columns]} if p["backward"] else {"d": value}
    up = factor = inputs["up"][:, :columns]
    if limit:
        factor = inputs.number(limit).where(numbers["up"] > limit, inputs.number(-limit).where(numbers["up"] < -limit, up))
    if p["kind"] == "swiglu":
        factor = factor + inputs.number(1.0)
    if not p["backward"]:
        return {"d": value * factor}
    dy = inputs["dy"][:, :columns]
    found = {"dx": slope * factor * dy, "dup": value * dy}
    if limit:
        zero = inputs.number(0.0)
        found = {"dx": zero.where(high, found["dx"]), "dup": zero.where(np.abs(numbers["up"]) > limit, found["dup"])}
    return {name: found[name] for name in outputs_of(p)}


def _function(p: ag.Values, inputs: Any, x: Any, numbers: Any) -> tuple[Any, Any]:
    one, n = inputs.number(1.0), inputs.number
    if p["kind"] == "gelu" and p["approximate"] == "none":
        return _by_erfc(inputs, x, numbers)
    argument = {"silu": lambda: x, "swiglu": lambda: x * n(ALPHA), "gelu": lambda: (x * x * n(LINEAR * CUBIC) + n(LINEAR)) * x}[p["kind"]]()
    share = ((argument * inputs.log2_e * n(-1.0)).exp2() + one).reciprocal()
    value = x * share
    rest = (one - share) * value
    square = (x * x).where(np.float32(numbers) ** 2 < SATURATED, n(SATURATED))
    inner = {"silu": lambda: one, "swiglu": lambda: n(ALPHA), "gelu": lambda: square * n(3 * LINEAR * CUBIC) + n(LINEAR)}[p["kind"]]()
    return value, rest * inner + share


def _by_erfc(inputs: Any, x: Any, numbers: Any) -> tuple[Any, Any]:
    n = inputs.number
    one = n(1.0)
    magnitude = (x * n(-1.0)).where(np.signbit(numbers), x)
    t = (magnitude * n(P / math.sqrt(2)) + one).reciprocal()
    power = (x * x * n(0.5) * inputs.log2_e * n(-1.0)).exp2()
    series = n(0.5 * TERMS[-1]) * t
    for number, term in enumerate(reversed(TERMS[:-1])):
        series = series + n(0.5 * term)
        if number < len(TERMS) - 2:
            series = series * t
    half = series * power * t
    share = (one - half).where(numbers > 0, half)
    return x * share, x * (power * n(DENSITY)) + share
