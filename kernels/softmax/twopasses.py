"""Softmax of rows that are read twice, part by part, forward and backward: once for the sums of a row, once for the result."""

from __future__ import annotations

import asmgen as ag
from asmgen.kernels.rows.rowshape import FEW_FRAGMENTS, PER_LANE, ROW_LANES, RowShape, shape_of
from asmgen.kernels.rows.rowsums import RowSums
from asmgen.kernels.rows.rowtensors import RowTensor, RowWalk, narrow, row_tile
from asmgen.kernels.softmax.exponentials import FINITE, LN_2, LOG2_E, gradient_of, ones_for_zeros
from asmgen.kernels.softmax.family import SOFTMAX
from asmgen.kernels.softmax.visible import Visible

_LANES = max(ROW_LANES)
_PART = FEW_FRAGMENTS * PER_LANE * _LANES
"""Columns that a workgroup has at once; the next ones load meanwhile."""


@SOFTMAX.variant("gfx950", waves=ROW_LANES[_LANES], lanes=_LANES, passes=2)
@SOFTMAX.variant("gfx942", waves=ROW_LANES[_LANES], lanes=_LANES, passes=2)
def two_passes(k: ag.TileBuilder) -> None:
    """The result, or the gradient."""
    (_backward if k.p.backward else _forward)(k)


def _forward(k: ag.TileBuilder) -> None:
    """Each lane has the largest element and the sum of exponentials of its own columns, until the workgroup brings them together."""
    p = k.p
    part = RowShape(_PART, _LANES, k.variant.wave_count)
    starts = range(0, p.columns, _PART)

    # register plan
    walk = RowWalk(k, shape_of(k.variant, p.columns))
    x, d = RowTensor(walk, "x", p.dtype), RowTensor(walk, "d", p.out, one_before=True)
    X = [row_tile(k, f"X{number}", p.dtype, part) for number in range(2)]
    R = row_tile(k, "R", "f32", part)
    D = R if p.out == "f32" else row_tile(k, "D", p.out, part)
    own, top, total, factor = (ag.row_vector(k, name, R, apart=True) for name in ("own", "top", "total", "factor"))
    sums, visible = RowSums(walk), Visible(walk, p.mask)

    x.load(X[0])
    walk.begin("rows")
    visible.find()
    ag.fill_with(k, own, FINITE)
    ag.fill_with(k, total, 0)
    for number, column in enumerate(starts):
        x.load(X[1 - number % 2], starts[(number + 1) % len(starts)])
        x.widen(R, X[number % 2])
        visible.hide(R, column)
        _add(k, R, own, top, total, factor)
    _bring_together(k, sums, own, top, total, factor, p.mask != "none", p.log)
    d.go_on()
    walk.look_ahead()
    for number, column in enumerate(starts):
        turn, last = number + len(starts), column == starts[-1]
        if last:
            x.go_on()
        x.load(X[1 - turn % 2], 0 if last else starts[number + 1])
        x.widen(R, X[turn % 2])
        visible.hide(R, column)
        ag.sub(k, R, R, top)
        if p.log:
            ag.sub(k, R, R, total)
        else:
            ag.mul(k, R, R, LOG2_E)
            ag.exp2(k, R, R)
            ag.mul(k, R, R, total)
        narrow(k, D, R, p.dtype)
        d.store(D, column)
    walk.go_on("rows")


def _backward(k: ag.TileBuilder) -> None:
    """Each lane has the sum of y dy, or of dy, of its own columns, until the workgroup brings them together."""
    p = k.p
    part = RowShape(_PART, _LANES, k.variant.wave_count)
    starts = range(0, p.columns, _PART)

    # register plan
    walk = RowWalk(k, shape_of(k.variant, p.columns))
    inputs = {name: RowTensor(walk, name, p.dtype) for name in ("y", "dy")}
    dx = RowTensor(walk, "dx", p.dtype, one_before=True)
    raw = {name: [row_tile(k, f"{name.upper()}{number}", p.dtype, part) for number in range(2)] for name in inputs}
    wide = {name: row_tile(k, f"{name.upper()}_WIDE", "f32", part) for name in inputs}
    Y, DY = wide.values()
    D = DY if p.dtype == "f32" else ag.narrowed(DY, p.dtype)
    total, sums = ag.row_vector(k, "total", DY, apart=True), RowSums(walk)

    def ask(number: int, column: int) -> None:
        for name, tensor in inputs.items():
            tensor.load(raw[name][number % 2], column)

    def take(number: int) -> None:
        for name, tensor in inputs.items():
            tensor.widen(wide[name], raw[name][number % 2])

    ask(0, 0)
    walk.begin("rows")
    ag.fill_with(k, total, 0)
    for number, _ in enumerate(starts):
        ask(number + 1, starts[(number + 1) % len(starts)])
        take(number)
        if not p.log:
            ag.mul(k, DY, DY, Y)
        ag.row_sum(k, total, DY, across=False, start=True)
    sums.finish("sum", total)
    if p.log:
        ag.neg(k, total, total)
    dx.go_on()
    walk.look_ahead()
    for number, column in enumerate(starts, len(starts)):
        last = column == starts[-1]
        if last:
            for tensor in inputs.values():
                tensor.go_on()
        ask(number + 1, 0 if last else column + _PART)
        take(number)
        gradient_of(k, Y, DY, total, p.log)
        narrow(k, D, DY, p.dtype)
        dx.store(D, column)
    sums.guard()
    walk.go_on("rows")


def _add(k: ag.TileBuilder, R: ag.Tile, own: ag.Vector, top: ag.Vector, total: ag.Vector, factor: ag.Vector) -> None:
    """The lane's largest element and sum, with those of R, of which nothing remains."""
    ag.move(k, top, own)
    ag.row_max(k, own, R, across=False, start=True)
    ag.sub(k, factor, top, own)
    ag.mul(k, factor, factor, LOG2_E)
    ag.exp2(k, factor, factor)
    ag.mul(k, total, total, factor)
    ag.sub(k, R, R, own)
    ag.mul(k, R, R, LOG2_E)
    ag.exp2(k, R, R)
    ag.row_sum(k, total, R, across=False, start=True)


def _bring_together(k: ag.TileBuilder, sums: RowSums, own: ag.Vector, top: ag.Vector, total: ag.Vector, factor: ag.Vector, masked: bool,
                    log: bool) -> None:
    """The row's largest element, and the reciprocal or the logarithm of its sum."""
    ag.move(k, top, own)
    sums.finish("max", top)
    ag.sub(k, factor, own, top)
    ag.mul(k, factor, factor, LOG2_E)
    ag.exp2(k, factor, factor)
    ag.mul(k, total, total, factor)
    sums.finish("sum", total)
    if masked:
        ones_for_zeros(k, total)
    if log:
        ag.log2(k, total, total)
        ag.mul(k, total, total, LN_2)
    else:
        ag.rcp(k, total, total)
