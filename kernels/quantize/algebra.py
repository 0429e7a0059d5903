"""Scales and numbers of quantize in exact residues. Where a number is too large for its type, the type's largest one takes its place;
integers are those of the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import asmgen as ag
from asmgen.kernels.quantize.formats import GROUP, group_of
from asmgen.kernels.rows.eightbits import LARGEST, LEAST_MAGNITUDE


def quantized(p: ag.Values, inputs: Any) -> Mapping[str, Any]:
    """d and the scales. Elements that are the largest ones of their group together are one number: which of them a kernel finds is its own
    business."""
    columns, group, most = p["columns"], group_of(p), LARGEST[p["to"], p["encoding"]]
    inputs.declare(1 / most, 1, int(most))
    found, values = {}, inputs.arguments["x"][:, :columns].astype(np.float32)
    if group == "tensor":
        scaled = inputs["x"][:, :columns] * inputs["scale"].reshape(1, 1).reciprocal()
        quotients = values * np.float32(1 / float(inputs.arguments["scale"][0]))
    else:
        width = GROUP if group == str(GROUP) else columns
        parts = [_by_largest(inputs, slice(first, min(first + width, columns))) for first in range(0, columns, width)]
        x, scale = (inputs.beside([part[number] for part in parts]) for number in (0, 1))
        inputs.give("x", inputs.beside([x, inputs["x"][:, columns:]]))
        scale = scale * inputs.number(1 / most)
        scaled = x * scale.repeat(width, 1)[:, :columns].reciprocal()
        found["scale"] = scale[:, 0] if group == "token" else scale
        largest = [np.abs(values[:, first:first + width]).max(1) for first in range(0, columns, width)]
        sizes = np.maximum(largest, np.float32(LEAST_MAGNITUDE))
        scales = np.repeat(sizes.T * np.float32(1 / most), width, 1)[:, :columns]
        quotients = values * (1 / scales.astype(float)).astype(np.float32)
    if p["to"] == "int8":
        return found | {"d": np.clip(np.rint(quotients), -128, 127).astype(np.int8).view(np.uint8)}
    inputs.hold("d", p["to"])
    return found | {"d": inputs.number(np.copysign(most, quotients)).where(np.abs(quotients) > 1.01 * most, scaled)}


def _by_largest(inputs: Any, columns: slice) -> tuple[Any, Any]:
    """A group's elements, and the largest magnitude of each row."""
    drawn, own = inputs["x"][:, columns], inputs.arguments["x"][:, columns].astype(np.float32)
    sizes = np.abs(own)
    place = np.argmax(sizes, 1)[:, None]
    largest = np.take_along_axis(sizes, place, 1)
    one = drawn[np.arange(len(own))[:, None], place]
    size = (-one).where(np.signbit(np.take_along_axis(own, place, 1)), one)
    tied = (-size).where(np.signbit(own), size)
    return tied.where(sizes == largest, drawn), inputs.number(LEAST_MAGNITUDE).where(largest < np.float32(LEAST_MAGNITUDE), size)
