"""Data for rope with its float64 reference, and how far float32 may be from it."""

from __future__ import annotations

import numpy as np

import asmgen as ag
from asmgen.kernels.rope.shape import shape_of
from asmgen.kernels.rope.tensors import TENSORS, tensors_of
from asmgen.kernels.rows.bounded import Bounded
from asmgen.kernels.rows.reference import CANARY, TYPES, Array, rounded

_NUMBERS = ("s", "h", "h2", "each", "angles", "angle_stride", "position_stride", *(f"{name}_stride_{axis}" for name in TENSORS
                                                                                  for axis in "bsh"))


def make_problem(p: ag.Values, seed: int) -> ag.Problem:
    """Normal heads; in even seeds NaN and infinities among them. Cosines and sines are numbers of their own, as no kernel may derive one
    from the other; some positions lie outside of the table."""
    random = np.random.default_rng(seed)
    arguments = {name: _heads(random, p, name, seed) for name in TENSORS}
    table = TYPES[p["table"]][0]
    arguments |= {name: random.uniform(-1, 1, (p["angles"], p["angle_stride"])).astype(table) for name in ("cos", "sin")}
    positions = random.integers(0, p["angles"], (p["b"], max(p["position_stride"], p["s"]))).astype(np.int32)
    if seed % 3 == 0:
        positions[random.integers(p["b"]), random.integers(p["s"])] = p["angles"]
        positions[random.integers(p["b"]), random.integers(p["s"])] = -1
    if p["position_stride"] < p["s"]:
        positions = positions[:1]
    arguments["positions"] = positions
    arguments |= {name: p[name] for name in _NUMBERS}
    return ag.Problem(arguments, lambda: tuple(_output(p, arguments, source, target) for source, target in
                                              zip(tensors_of(p)[::2], tensors_of(p)[1::2], strict=True)))


def heads_of(p: ag.Values, name: str) -> int:
    """How many heads a tensor has."""
    return int(p["h2" if name.endswith("2") else "h"])


def _extents(p: ag.Values, name: str) -> tuple[tuple[int, int, int, int], tuple[int, int, int]]:
    strides = p[f"{name}_stride_b"], p[f"{name}_stride_s"], p[f"{name}_stride_h"]
    return (p["b"], p["s"], heads_of(p, name), p["d"]), strides


def element_numbers(p: ag.Values, name: str) -> Array:
    """The number of each element (batch, token, head, column) in the tensor's array."""
    (b, s, h, d), strides = _extents(p, name)
    axes = np.meshgrid(np.arange(b), np.arange(s), np.arange(h), np.arange(d), indexing="ij")
    found: Array = np.add.reduce([axis * stride for axis, stride in zip(axes, (*strides, 1), strict=True)])
    return found


def _heads(random: np.random.Generator, p: ag.Values, name: str, seed: int) -> Array:
    at = element_numbers(p, name)
    flat = np.full(int(at.max()) + 1, CANARY)
    if name.startswith("x"):
        values = random.standard_normal(at.shape) * 2.0 ** random.integers(-6, 7, at.shape[:-1] + (1,))
        if ag.holds_nonfinite(seed):
            flat[:] = np.nan
            for value in (np.nan, np.inf, -np.inf):
                values[tuple(random.integers(size) for size in at.shape)] = value
        flat[at] = values
    made: Array = flat.astype(TYPES[p["dtype"]][0])
    return made


def rows_of_angles(p: ag.Values, positions: Array) -> Array:
    """The row of cos and sin of each token, -1 outside of the table."""
    if p["positions"] == "none":
        found = np.broadcast_to(np.arange(p["s"]), (p["b"], p["s"]))
    else:
        found = np.broadcast_to(positions[:, :p["s"]], (p["b"], p["s"]))
    return np.where((found >= 0) & (found < p["angles"]), found, -1)


def _output(p: ag.Values, arguments: ag.Values, source: str, target: str) -> ag.Output:
    shape = shape_of(p)
    x = arguments[source].astype(float)[element_numbers(p, source)]
    rows = rows_of_angles(p, arguments["positions"])
    cos, sin = (np.where(rows[..., None] >= 0, arguments[name].astype(float)[rows, :shape.pairs], 0.0)[:, :, None]
                for name in ("cos", "sin"))
    sin = -sin if p["backward"] else sin
    first, second = (slice(0, shape.pairs), slice(shape.pairs, shape.rotated)) if p["style"] == "neox" \
        else (slice(0, shape.rotated, 2), slice(1, shape.rotated, 2))
    a, b = x[..., first], x[..., second]
    expected, error = x.copy(), np.zeros_like(x)
    with np.errstate(all="ignore"):
        expected[..., first], expected[..., second] = a * cos - b * sin, b * cos + a * sin
        for columns, own, other, factor in ((first, a, b, -sin), (second, b, a, sin)):
            made = Bounded.exact(other) * Bounded.exact(factor) + Bounded.exact(own) * Bounded.exact(cos)
            error[..., columns] = made.error
        tolerance = rounded(expected, error, p["dtype"])
    at = element_numbers(p, target).reshape(-1, p["d"])
    return ag.Output(target, expected.reshape(-1, p["d"]), tolerance.reshape(-1, p["d"]), (at,))
