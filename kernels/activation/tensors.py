"""What a build of activation reads and writes, by name, and its numbers."""

from __future__ import annotations

import math

import asmgen as ag

TENSORS = ("x", "up", "d", "dy", "dx", "dup")
ALPHA = 1.702
"""Of swiglu's sigmoid (docs/facts/row_kernels.md section 6)."""
SWIGLU_LIMIT = 7.0
"""What swiglu cuts at where nothing else is asked for."""
CUBIC = 0.044715
LINEAR = 2 * math.sqrt(2 / math.pi)
"""gelu by tanh is x sigmoid(LINEAR (x + CUBIC x^3))."""


def is_gated(build: ag.Values) -> bool:
    """Whether the activation is multiplied by `up`."""
    return bool(build["gated"]) or build["kind"] == "swiglu"


def limit_of(build: ag.Values) -> float:
    """What the gate and the magnitude of `up` are cut at; 0 for no limit."""
    asked = float(build["limit"])
    if asked >= 0 or not is_gated(build):
        return max(0.0, asked)
    return SWIGLU_LIMIT if build["kind"] == "swiglu" else 0.0


def inputs_of(build: ag.Values) -> tuple[str, ...]:
    """The tensors that are read."""
    return ("x", *(["up"] if is_gated(build) else []), *(["dy"] if build["backward"] else []))


def outputs_of(build: ag.Values) -> tuple[str, ...]:
    """The tensors that are written."""
    return ("dx", *(["dup"] if is_gated(build) else [])) if build["backward"] else ("d",)
