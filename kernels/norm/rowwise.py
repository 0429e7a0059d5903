"""The kernel of the family norm: a workgroup makes groups of rows one after the other, while the next ones load."""

from __future__ import annotations

from collections.abc import Callable

import asmgen as ag
from asmgen.kernels.norm.family import NORM
from asmgen.kernels.norm.registers import plan_of
from asmgen.kernels.norm.results import results_of
from asmgen.kernels.norm.tensors import INPUTS, MASK, saved_of, tensors_of
from asmgen.kernels.rows.absent import replace_beyond
from asmgen.kernels.rows.contract import TYPES
from asmgen.kernels.rows.dropout import Dropout, DropoutMask
from asmgen.kernels.rows.rowfigures import RowFigures
from asmgen.kernels.rows.rowinputs import AddedRows
from asmgen.kernels.rows.rowshape import shape_of
from asmgen.kernels.rows.rowsums import RowSums
from asmgen.kernels.rows.rowtensors import RowTensor, RowWalk, narrow, row_tile
from asmgen.kernels.rows.variants import row_variants
from asmgen.kernels.rows.weights import Weights, weigh


@row_variants(NORM)
def rowwise(k: ag.TileBuilder) -> None:
    """Rows in float32: load, drop and add, sum, normalise, store; the loads of the next ones run meanwhile."""
    p, shape = k.p, shape_of(k.variant, k.p.columns)
    plan, single = plan_of(k.parameters, shape), p.access == "element"

    # register plan
    walk = RowWalk(k, shape)
    tensors = {name: RowTensor(walk, name, p.dtype, single) for name in tensors_of(k.parameters) if name not in ("d", "mask")}
    R = row_tile(k, "R", "f32", shape)
    columns = [name for name in ("w", "b") if name == "w" or p.bias]
    weights = [Weights(walk, name, p.dtype, R, plan.keeps_weights, late=not p.dropout) for name in columns]
    X = tensors["x"].raw("X") if plan.ahead else R
    residual = AddedRows(tensors["residual"], "RESIDUAL", plan.second_ahead) if p.residual else None
    tensors["x"].load(X)
    sum_of_both = row_tile(k, "RAW_R", p.dtype, shape) if p.residual and p.dtype != "f32" else R
    mean, rstd = (ag.row_vector(k, "mean", R) if p.kind == "layer" else None), ag.row_vector(k, "rstd", R)
    sums = RowSums(walk)
    dropout = Dropout(walk, p.rounds, plan.together) if p.dropout else None
    mask = DropoutMask(walk) if p.save == MASK else None
    saved = {name: RowFigures(walk, name) for name in saved_of(k.parameters)}
    results = results_of(walk, R, sums)

    def advance() -> None:
        results.tensor.go_on()
        walk.look_ahead()
        for name in INPUTS:
            if name in tensors:
                tensors[name].go_on()

    def ask() -> None:
        if plan.ahead:
            tensors["x"].load(X)
        if residual is not None:
            residual.ask()

    def leave() -> None:
        if mean is None:
            advance()
        for tensor in (*(tensors[name] for name in tensors if name not in INPUTS), *([mask.tensor] if mask is not None else [])):
            tensor.go_on()

    if residual is not None:
        residual.ask()
    for one in weights if not p.dropout else ():
        one.arrive()
    walk.begin("rows")
    tensors["x"].widen(R, X)
    if dropout is not None:
        dropout.apply(R, mask)
    _scale_and_add(k, R, dropout, residual)
    results.find()
    if p.residual:
        _store(k, tensors["r"], R, sum_of_both)
    if mean is not None:
        _take_mean(k, R, walk, sums, mean, beside=advance)
        ask()
    _find_rstd(k, R, sums, rstd, beside=leave)
    if mean is None:
        ask()
    for name, figures in saved.items():
        figures.store(rstd if mean is None or name == "rstd" else mean)
    counted = not saved and p.out in TYPES  # nothing asks for the row then
    if counted:
        walk.count_on()
    ag.mul(k, R, R, rstd)
    weigh(k, R, weights)
    results.store()
    if not plan.ahead:
        tensors["x"].load(X)
    sums.guard()
    walk.go_on("rows", counted)


def _scale_and_add(k: ag.TileBuilder, R: ag.Tile, dropout: Dropout | None, residual: AddedRows | None) -> None:
    """R = residual + R / (1 - p)."""
    if residual is not None:
        for part, added in residual.beside(R):
            if dropout is None:
                ag.add(k, part, part, added)
            else:
                ag.fma(k, part, part, dropout.scale, added)
    elif dropout is not None:
        ag.mul(k, R, R, dropout.scale)


def _take_mean(k: ag.TileBuilder, R: ag.Tile, walk: RowWalk, sums: RowSums, mean: ag.Vector, beside: Callable[[], None]) -> None:
    """R less its mean; scalar code stands in the sum's waits."""
    sums.sum(mean, R, beside)
    ag.mul(k, mean, mean, 1.0 / walk.shape.columns)
    ag.sub(k, R, R, mean)
    replace_beyond(k, R, walk, 0.0)


def _find_rstd(k: ag.TileBuilder, R: ag.Tile, sums: RowSums, rstd: ag.Vector, beside: Callable[[], None]) -> None:
    """1 / sqrt(mean(R^2) + eps)."""
    sums.sum_of_squares(rstd, R, beside)
    ag.mul(k, rstd, rstd, 1.0 / k.p.columns)
    ag.add(k, rstd, rstd, k.argument("eps"))
    ag.rsq(k, rstd, rstd)


def _store(k: ag.TileBuilder, tensor: RowTensor, R: ag.Tile, D: ag.Tile) -> None:
    """R in the tensor's type, made in D."""
    narrow(k, D, R, k.p.dtype)
    tensor.store(D)
