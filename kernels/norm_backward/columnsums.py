"""The kernel between those of rows and of addition, where rows fill the registers: it reads x and dy again, and adds runs of their
columns."""

from __future__ import annotations

import asmgen as ag
from asmgen.kernels.norm_backward.family import NORM_BACKWARD, column_arguments, parts_of_launch
from asmgen.kernels.norm_backward.parts import add_to_sum, normalise, store_parts
from asmgen.kernels.norm_backward.registers import sums_are_apart
from asmgen.kernels.norm_backward.tensors import figures_of, sums_of
from asmgen.kernels.rows.rowfigures import RowFigures
from asmgen.kernels.rows.rowshape import ROW_LANES, shape_of
from asmgen.kernels.rows.rowtensors import RowTensor, RowWalk, row_tile


@NORM_BACKWARD.companion("columns", "dw and db: sums of some rows each", column_arguments,
                         ag.GridRule("ceil(rows / each), runs of a lane, 1",
                                     lambda p, variant: (parts_of_launch(p, variant), shape_of(variant, p["columns"]).fragments, 1)),
                         waves=ROW_LANES[max(ROW_LANES)], axes="xy", when=sums_are_apart)
def sum_columns(k: ag.TileBuilder) -> None:
    """Workgroup x, y adds run y of the rows of workgroup x of the first kernel; the next row loads meanwhile."""
    p, shape, run = k.p, shape_of(k.variant, k.p.columns), k.ids["y"]

    # register plan
    walk = RowWalk(k, shape)
    tensors = {name: RowTensor(walk, name, p.dtype) for name in ("x", "dy")}
    raw = {name: tensors[name].raw_run(name.upper()) for name in tensors}
    H, DY = row_tile(k, "H", "f32", shape, 1), row_tile(k, "DY32", "f32", shape, 1)
    totals = {name: row_tile(k, f"{name}_sums", "f32", shape, 1) for name in sums_of(k.parameters)}
    figures = {name: RowFigures(walk, name) for name in figures_of(k.parameters)}
    asked = {name: ag.row_vector(k, f"{name}_asked", H) for name in figures}

    def ask(ahead: bool) -> None:
        for name, tensor in tensors.items():
            tensor.load_run(raw[name], run)
        for name, vector in asked.items():
            figures[name].load(vector, ahead)

    for tile in totals.values():
        ag.fill_with(k, tile, 0)
    ask(False)
    k.label("rows")  # no stores stand in this loop, which `begin` would wait for
    tensors["x"].widen(H, raw["x"])
    tensors["dy"].widen(DY, raw["dy"])
    normalise(k, H, asked)
    walk.look_ahead()
    for tensor in tensors.values():
        tensor.go_on()
    ask(True)
    for name, tile in totals.items():
        add_to_sum(k, name, tile, H, DY)
    walk.go_on("rows")
    for name, tile in totals.items():
        store_parts(k, walk, name, tile, run)
