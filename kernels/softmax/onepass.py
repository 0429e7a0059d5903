"""Softmax of rows that stay in registers, forward and backward: a workgroup makes groups of rows one after the other, while the next ones
load."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import asmgen as ag
from asmgen.kernels.rows.rowshape import ROW_LANES, shape_of
from asmgen.kernels.rows.rowsums import RowSums
from asmgen.kernels.rows.rowtensors import RowTensor, RowWalk, row_tile
from asmgen.kernels.softmax.exponentials import LOG2_E, NEAR, exponentials, inverse_of, logarithm_of
from asmgen.kernels.softmax.family import SOFTMAX
from asmgen.kernels.softmax.visible import Visible

Writer = TypeVar("Writer", bound=Callable[[ag.TileBuilder], None])


def _variants(writer: Writer) -> Writer:
    for arch in ("gfx950", "gfx942"):
        for lanes, waves in sorted(ROW_LANES.items(), key=lambda one: one[0] != ag.LANES):
            writer = SOFTMAX.variant(arch, waves=waves, lanes=lanes, passes=1)(writer)
    return writer


@_variants
def one_pass(k: ag.TileBuilder) -> None:
    """The result, or the gradient."""
    (_backward if k.p.backward else _forward)(k)


def _forward(k: ag.TileBuilder) -> None:
    """Load, largest element, exponentials, their sum, quotients, store."""
    p, shape = k.p, shape_of(k.variant, k.p.columns)
    single = p.access == "element"

    # register plan
    walk = RowWalk(k, shape)
    x, d = RowTensor(walk, "x", p.dtype, single), RowTensor(walk, "d", p.out, single, one_before=True)
    X, R = x.raw("X"), row_tile(k, "R", "f32", shape)
    D = R if p.out == "f32" else row_tile(k, "D", p.out, shape)
    top, total = ag.row_vector(k, "top", R, apart=True), ag.row_vector(k, "total", R, apart=True)
    sums, visible, near = RowSums(walk), Visible(walk, p.mask), k.registers.sgprs(1, "near")
    k.s_mov_b32(near, NEAR)

    def advance() -> None:
        d.go_on()
        walk.look_ahead()
        x.go_on()

    x.load(X)
    k.label("rows")
    visible.find()
    x.widen(R, X)
    visible.hide(R)
    sums.largest(top, R, beside=advance)
    x.load(X)
    if p.log:
        logarithm_of(k, total, R, top, sums, p.mask != "none")
        ag.sub(k, R, R, total)
    else:
        exponentials(k, R, top, near, p.mask != "none")
        sums.sum(total, R)
        inverse_of(k, total, p.mask != "none")
        ag.mul(k, R, R, total)
    if D is not R:
        ag.convert(k, D, R)
    d.store(D)
    walk.go_on("rows")


def _backward(k: ag.TileBuilder) -> None:
    """dx = y (dy - sum(y dy)); of log-softmax dy - exp(y) sum(dy)."""
    p, shape = k.p, shape_of(k.variant, k.p.columns)
    single = p.access == "element"

    # register plan
    walk = RowWalk(k, shape)
    inputs = {name: RowTensor(walk, name, p.dtype, single) for name in ("y", "dy")}
    dx = RowTensor(walk, "dx", p.dtype, single, one_before=True)
    raw = {name: inputs[name].raw(name.upper()) for name in inputs}
    wide = {name: row_tile(k, f"{name.upper()}32", "f32", shape) for name in inputs}
    Y, DY = wide.values()
    D = DY if p.dtype == "f32" else row_tile(k, "D", p.dtype, shape)
    total = ag.row_vector(k, "total", Y, apart=True)
    sums = RowSums(walk)

    def advance() -> None:
        dx.go_on()
        walk.look_ahead()
        for tensor in inputs.values():
            tensor.go_on()

    for name, tensor in inputs.items():
        tensor.load(raw[name])
    k.label("rows")
    for name, tensor in inputs.items():
        tensor.widen(wide[name], raw[name])
    if p.log:
        sums.sum(total, DY, beside=advance)
    else:
        sums.sum_of_products(total, Y, DY, beside=advance)
    for name, tensor in inputs.items():
        tensor.load(raw[name])
    if p.log:
        ag.mul(k, Y, Y, LOG2_E)
        ag.exp2(k, Y, Y)
        ag.neg(k, total, total)
        ag.fma(k, DY, Y, total, DY)
    else:
        ag.sub(k, DY, DY, total)
        ag.mul(k, DY, DY, Y)
    if D is not DY:
        ag.convert(k, D, DY)
    dx.store(D)
    sums.guard()
    walk.go_on("rows")
