"""What rope computes, in exact residues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import asmgen as ag
from asmgen.kernels.rope.problem import element_numbers, rows_of_angles
from asmgen.kernels.rope.shape import shape_of
from asmgen.kernels.rope.tensors import tensors_of


def rotated(p: ag.Values, inputs: Any) -> Mapping[str, Any]:
    """The outputs by name, in the shape that the problem compares."""
    shape, names = shape_of(p), tensors_of(p)
    rows = rows_of_angles(p, inputs.arguments["positions"])
    pairs = np.arange(shape.pairs)
    first, second = (pairs, pairs + shape.pairs) if p["style"] == "neox" else (2 * pairs, 2 * pairs + 1)
    factors = {name: inputs[name][rows[:, :, None, None], pairs].where(rows[:, :, None, None] >= 0, inputs.number(0.0))
               for name in ("cos", "sin")}
    cos, sin = factors["cos"], factors["sin"] * inputs.number(-1.0) if p["backward"] else factors["sin"]
    found = {}
    for source, target in zip(names[::2], names[1::2], strict=True):
        at = element_numbers(p, source)
        x = inputs[source][at]
        a, b = inputs[source][at[..., first]], inputs[source][at[..., second]]
        parts = [a * cos + b * sin * inputs.number(-1.0), b * cos + a * sin]
        order = np.argsort(np.concatenate([first, second]))
        joined = inputs.beside(parts, axis=3)[:, :, :, order]
        whole = inputs.beside([joined, x[:, :, :, shape.rotated:]], axis=3) if shape.rotated < shape.d else joined
        found[target] = whole.reshape(-1, p["d"])
    return found
