"""Softmax of rows that are read twice, part by part: once for the largest element and the sum of exponentials, once for the result."""

from __future__ import annotations

import asmgen as ag
from asmgen.kernels.rows.rowshape import FEW_FRAGMENTS, PER_LANE, ROW_LANES, RowShape, shape_of
from asmgen.kernels.rows.rowsums import RowSums
from asmgen.kernels.rows.rowtensors import RowTensor, RowWalk, narrow, row_tile
from asmgen.kernels.softmax.exponentials import FINITE, LN_2, LOG2_E, ones_for_zeros
from asmgen.kernels.softmax.family import SOFTMAX
from asmgen.kernels.softmax.visible import Visible

_LANES = max(ROW_LANES)
_PART = FEW_FRAGMENTS * PER_LANE * _LANES
"""Columns that a workgroup has at once; the next ones load meanwhile."""


@SOFTMAX.variant("gfx950", waves=ROW_LANES[_LANES], lanes=_LANES, passes=2)
@SOFTMAX.variant("gfx942", waves=ROW_LANES[_LANES], lanes=_LANES, passes=2)
def two_passes(k: ag.TileBuilder) -> None:
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
