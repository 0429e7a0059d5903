"""What rope computes, in exact residues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import asmgen as ag
from asmgen.kernels.rope.problem import rows_of_angles
from asmgen.kernels.rope.shape import shape_of
from asmgen.kernels.rope.tensors import pairs_of
from asmgen.kernels.rope.tokenarrays import element_numbers, stored_tokens


def rotated(p: ag.Values, inputs: Any) -> Mapping[str, Any]:
    """The outputs by name, in the shape that the problem compares."""
    shape = shape_of(p)
    rows = rows_of_angles(p, inputs.arguments)
    pairs = np.arange(shape.pairs)
    first, second = (pairs, pairs + shape.pairs) if p["style"] == "neox" else (2 * pairs, 2 * pairs + 1)
    first, second = shape.first + first, shape.first + second
    factors = {name: inputs[name][rows[:, :, None, None], pairs].where(rows[:, :, None, None] >= 0, inputs.number(0.0))
               for name in ("cos", "sin")}
    cos, sin = factors["cos"], factors["sin"] * inputs.number(-1.0) if p["backward"] else factors["sin"]
    found = {}
    for source, target in pairs_of(p):
        at = element_numbers(p, inputs.arguments, source)
        whole = inputs[source][at]
        if source != "v":
            a, b = inputs[source][at[..., first]], inputs[source][at[..., second]]
            parts = [a * cos + b * sin * inputs.number(-1.0), b * cos + a * sin]
            others = np.setdiff1d(np.arange(shape.d), np.concatenate([first, second]))
            order = np.argsort(np.concatenate([first, second, others]))
            whole = inputs.beside([*parts, whole[:, :, :, others]], axis=3)[:, :, :, order]
        found[target] = whole[stored_tokens(p, inputs.arguments, target)].reshape(-1, p["d"])
    return found
