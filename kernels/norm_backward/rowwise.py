"""The kernel of rows: dx, and the sums of its rows for dw and db. With h = (x - mean) rstd and g = dy w,
dx = rstd (g - mean(g) - h mean(g h)); RMS norm has no means of x and g (docs/facts/row_kernels.md section 1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import asmgen as ag
from asmgen.kernels.norm_backward.family import NORM_BACKWARD
from asmgen.kernels.norm_backward.tensors import figures_of, inputs_of, sums_of
from asmgen.kernels.rows.rowfigures import RowFigures
from asmgen.kernels.rows.rowshape import ROW_LANES, shape_of
from asmgen.kernels.rows.rowsums import RowSums
from asmgen.kernels.rows.rowtensors import RowTensor, RowWalk, row_tile
from asmgen.kernels.rows.weights import Weights

Writer = TypeVar("Writer", bound=Callable[[ag.TileBuilder], None])


def _variants(writer: Writer) -> Writer:
    for arch in ("gfx950", "gfx942"):
        for lanes, waves in sorted(ROW_LANES.items(), key=lambda one: one[0] != ag.LANES):
            writer = NORM_BACKWARD.variant(arch, waves=waves, lanes=lanes)(writer)
    return writer


@_variants
def gradients(k: ag.TileBuilder) -> None:
    """Load, h and g, sums of columns and rows, dx; the loads of the next rows run meanwhile."""
    p, shape = k.p, shape_of(k.variant, k.p.columns)

    # register plan
    walk = RowWalk(k, shape)
    tensors = {name: RowTensor(walk, name, p.dtype) for name in inputs_of(k.parameters)}
    dx = RowTensor(walk, "dx", p.dtype, one_before=True)
    raw = {name: tensors[name].raw(name.upper()) for name in tensors}
    H, G = row_tile(k, "H", "f32", shape), row_tile(k, "G", "f32", shape)
    D = G if p.dtype == "f32" else row_tile(k, "D", p.dtype, shape)
    parts = {name: row_tile(k, f"{name}_sums", "f32", shape) for name in sums_of(k.parameters)}
    weight, sums = Weights(walk, "w", p.dtype, H), RowSums(walk)
    figures = {name: RowFigures(walk, name) for name in figures_of(k.parameters)}
    asked = {name: ag.row_vector(k, f"{name}_asked", H) for name in figures}
    known = {name: ag.row_vector(k, name, H, apart=True) for name in figures}
    of_g, of_h = (ag.row_vector(k, name, H, apart=True) for name in ("mean_g", "mean_gh"))

    def ask(ahead: bool) -> None:
        for name, tile in raw.items():
            tensors[name].load(tile)
        for name, vector in asked.items():
            figures[name].load(vector, ahead)

    for tile in parts.values():
        ag.fill_with(k, tile, 0)
    ask(False)
    k.label("rows")
    tensors["x"].widen(H, raw["x"])
    tensors["dy"].widen(G, raw["dy"])
    for name, vector in known.items():
        ag.move(k, vector, asked[name])
    if "mean" in known:
        ag.sub(k, H, H, known["mean"])
    ag.mul(k, H, H, known["rstd"])
    ag.fma(k, parts["dw"], H, G, parts["dw"])
    if "db" in parts:
        ag.add(k, parts["db"], parts["db"], G)
    ag.mul(k, G, G, weight.ready)
    dx.go_on()
    walk.look_ahead()
    for tensor in tensors.values():
        tensor.go_on()
    _take_means(k, sums, H, G, of_g, of_h)
    ag.mul(k, G, G, known["rstd"])
    if p.residual:
        tensors["dr"].widen(H, raw["dr"])
        ag.add(k, G, G, H)
    ask(True)
    if D is not G:
        ag.convert(k, D, G)
    dx.store(D)
    sums.guard()
    walk.go_on("rows")
    for name, tile in parts.items():
        _store_parts(k, walk, name, tile)


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


def _store_parts(k: ag.TileBuilder, walk: RowWalk, name: str, tile: ag.Tile) -> None:
    """The sums of each row that the wave has at once, in a row of their own."""
    shape, pointer = walk.shape, k.argument(f"{name}_parts")
    with k.scratch("part_row", file="s") as row, k.scratch("part_bytes", 2, "s") as size:
        k.s_mul_i32(row, k.ids["x"], shape.rows)
        with k.scratch("of_wave", file="s") as of_wave:
            k.s_mul_i32(of_wave, k.wave.register, 0 if shape.shares_waves else shape.wave_rows)
            k.s_add_u32(row, row, of_wave)
        k.s_mul_hi_u32(size[1], row, 4 * shape.columns)
        k.s_mul_i32(size[0], row, 4 * shape.columns)
        k.s_add_u32(pointer[0], pointer[0], size[0])
        k.s_addc_u32(pointer[1], pointer[1], size[1])
    count, columns = shape.wave_rows, shape.columns
    matrix = ag.Matrix(f"{name}_parts", "f32", pointer, count, columns, columns, columns, columns, multiple=columns)
    limit = columns if shape.is_cut and count > 1 else None
    ag.store_tile(k, matrix.rows(0, count), tile, columns=walk.along, limit=limit)
