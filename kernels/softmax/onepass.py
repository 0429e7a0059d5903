"""Softmax of rows that stay in registers, forward and backward: a workgroup makes groups of rows one after the other, while the next ones
load."""

from __future__ import annotations

import asmgen as ag
from asmgen.kernels.rows.budget import RowPlan, first_that_fits, plans, run_vgprs
from asmgen.kernels.rows.rowshape import PER_LANE, RowShape, shape_of
from asmgen.kernels.rows.rowsums import RowSums
from asmgen.kernels.rows.rowtensors import RowTensor, RowWalk, narrow, row_tile
from asmgen.kernels.rows.variants import row_variants
from asmgen.kernels.softmax.exponentials import NEAR, exponentials, gradient_of, inverse_of, logarithm_of
from asmgen.kernels.softmax.family import SOFTMAX
from asmgen.kernels.softmax.visible import Visible


@row_variants(SOFTMAX, passes=1)
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
    walk.begin("rows")
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
        walk.count_on()
        ag.mul(k, R, R, total)
    narrow(k, D, R, p.dtype)
    d.store(D)
    walk.go_on("rows", counted=not p.log)


def _backward(k: ag.TileBuilder) -> None:
    """dx = y (dy - sum(y dy)); of log-softmax dy - exp(y) sum(dy)."""
    p, shape = k.p, shape_of(k.variant, k.p.columns)
    single = p.access == "element"

    # register plan
    walk = RowWalk(k, shape)
    inputs = {name: RowTensor(walk, name, p.dtype, single) for name in ("y", "dy")}
    dx = RowTensor(walk, "dx", p.dtype, single, one_before=True)
    wide = {name: row_tile(k, name.upper(), "f32", shape) for name in inputs}
    ahead = _loads_ahead(k.parameters, shape)
    raw = {name: inputs[name].raw(f"{name.upper()}_RAW") for name in inputs} if ahead else wide
    Y, DY = wide.values()
    D = DY if p.dtype == "f32" else ag.narrowed(DY, p.dtype)
    total = ag.row_vector(k, "total", Y, apart=True)
    sums = RowSums(walk)

    def advance() -> None:
        dx.go_on()
        walk.look_ahead()
        for tensor in inputs.values():
            tensor.go_on()

    def ask() -> None:
        for name, tensor in inputs.items():
            tensor.load(raw[name])

    ask()
    walk.begin("rows")
    for name, tensor in inputs.items():
        tensor.widen(wide[name], raw[name])
    if p.log:
        sums.sum(total, DY, beside=advance)
    else:
        sums.sum_of_products(total, Y, DY, beside=advance)
    if ahead:
        ask()
    if p.log:
        ag.neg(k, total, total)
    gradient_of(k, Y, DY, total, p.log)
    narrow(k, D, DY, p.dtype)
    dx.store(D)
    if not ahead:
        ask()
    sums.guard()
    walk.go_on("rows")


def _loads_ahead(build: ag.Values, shape: RowShape) -> bool:
    """Whether y and dy of the next rows have registers beside those in work. They are not needed where each element has one anyway."""
    single = build["access"] == "element"

    def need(plan: RowPlan) -> int:
        """y and dy in float32, of which dx is made in place, and as memory has them."""
        return 2 * shape.fragments * (PER_LANE + (run_vgprs(build["dtype"], single) if plan.ahead else 0))

    return first_that_fits(shape, plans(shape, in_place=single or build["dtype"] == "f32"), need).ahead
