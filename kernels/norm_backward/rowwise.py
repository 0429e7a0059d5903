"""The kernel of rows: dx, and the sums of its rows for dw and db. With h = (x - mean) rstd and g = dy w,
dx = rstd (g - mean(g) - h mean(g h)); RMS norm has no means of x and g (docs/facts/row_kernels.md section 1)."""

from __future__ import annotations

import asmgen as ag
from asmgen.kernels.norm_backward.family import NORM_BACKWARD
from asmgen.kernels.norm_backward.parts import add_to_sum, normalise, store_parts
from asmgen.kernels.norm_backward.registers import plan_of, sums_are_apart
from asmgen.kernels.norm_backward.tensors import figures_of, inputs_of, outputs_of, sums_of
from asmgen.kernels.rows.dropout import Dropout
from asmgen.kernels.rows.rowfigures import RowFigures
from asmgen.kernels.rows.rowinputs import AddedRows
from asmgen.kernels.rows.rowshape import shape_of
from asmgen.kernels.rows.rowsums import RowSums
from asmgen.kernels.rows.rowtensors import RowTensor, RowWalk, narrow, row_tile
from asmgen.kernels.rows.variants import row_variants
from asmgen.kernels.rows.weights import Weights, weigh


@row_variants(NORM_BACKWARD)
def gradients(k: ag.TileBuilder) -> None:
    """Load, h and g, sums of columns and rows, dx; the loads of the next rows run meanwhile."""
    p, shape, plan = k.p, shape_of(k.variant, k.p.columns), plan_of(k.parameters)

    # register plan
    walk = RowWalk(k, shape)
    tensors = {name: RowTensor(walk, name, p.dtype) for name in inputs_of(k.parameters)}
    written = {name: RowTensor(walk, name, p.dtype, one_before=True) for name in outputs_of(k.parameters)}
    H, G = row_tile(k, "H", "f32", shape), row_tile(k, "G", "f32", shape)
    weight, sums = Weights(walk, "w", p.dtype, H, plan.keeps_weights, late=not p.dropout), RowSums(walk)
    raw = {name: tensors[name].raw(name.upper()) if plan.ahead else tile for name, tile in (("x", H), ("dy", G))}
    added = AddedRows(tensors["dr"], "DR", plan.second_ahead) if p.residual else None
    parts = {} if sums_are_apart(k.parameters) else {name: row_tile(k, f"{name}_sums", "f32", shape) for name in sums_of(k.parameters)}
    figures = {name: RowFigures(walk, name) for name in figures_of(k.parameters)}
    asked = {name: ag.row_vector(k, f"{name}_asked", H) for name in figures}
    known = {name: ag.row_vector(k, name, H, apart=True) for name in figures}
    dropout = Dropout(walk, p.rounds, plan.together, idle=H) if p.dropout else None
    of_g, of_h = (ag.row_vector(k, name, H, apart=True) for name in ("mean_g", "mean_gh"))

    def ask(ahead: bool) -> None:
        for name, tile in raw.items():
            tensors[name].load(tile)
        if added is not None:
            added.ask()
        for name, vector in asked.items():
            figures[name].load(vector, ahead)

    for tile in parts.values():
        ag.fill_with(k, tile, 0)
    ask(False)
    if not p.dropout:
        weight.arrive()
    walk.begin("rows")
    tensors["x"].widen(H, raw["x"])
    tensors["dy"].widen(G, raw["dy"])
    for name, vector in known.items():
        ag.move(k, vector, asked[name])
    normalise(k, H, known)
    for name, tile in parts.items():
        add_to_sum(k, name, tile, H, G)
    weigh(k, G, [weight])
    for tensor in written.values():
        tensor.go_on()
    _take_means(k, sums, H, G, of_g, of_h)
    ag.mul(k, G, G, known["rstd"])
    if added is not None:
        for part, beside in added.beside(G):
            ag.add(k, part, part, beside)
    walk.look_ahead()
    for tensor in tensors.values():
        tensor.go_on()
    if p.dresidual:
        _store(k, written["dresidual"], G, G if p.dtype == "f32" else raw["x"])
    if plan.ahead:
        ask(True)
    if dropout is not None:
        dropout.apply(G)
        ag.mul(k, G, G, dropout.scale)
    _store(k, written["dx"], G, G if p.dtype == "f32" else ag.narrowed(G, p.dtype))
    if not plan.ahead:
        ask(True)
    sums.guard()
    walk.go_on("rows")
    for name, tile in parts.items():
        store_parts(k, walk, name, tile)


def _store(k: ag.TileBuilder, tensor: RowTensor, G: ag.Tile, D: ag.Tile) -> None:
    """G in the tensor's type, made in D."""
    narrow(k, D, G, "f32")  # mean and rstd are float32
    tensor.store(D)


def _take_means(k: ag.TileBuilder, sums: RowSums, H: ag.Tile, G: ag.Tile, of_g: ag.Vector, of_h: ag.Vector) -> None:
    """G - mean(G) - H mean(G H)."""
    share = 1.0 / k.p.columns
    sums.sum_of_products(of_h, G, H)
    ag.mul(k, of_h, of_h, -share)
    if k.p.kind == "layer":
        sums.sum(of_g, G)
        ag.mul(k, of_g, of_g, share)
        ag.sub(k, G, G, of_g)
    ag.fma(k, G, H, of_h, G)
