"""Sums of some rows each for dw and db, and their places in memory."""

from __future__ import annotations

from collections.abc import Mapping

import asmgen as ag
from asmgen.kernels.rows.rowtensors import RowWalk


def normalise(k: ag.TileBuilder, H: ag.Tile, known: Mapping[str, ag.Vector]) -> None:
    """(H - mean) rstd, or H rstd."""
    if "mean" in known:
        ag.sub(k, H, H, known["mean"])
    ag.mul(k, H, H, known["rstd"])


def add_to_sum(k: ag.TileBuilder, name: str, total: ag.Tile, H: ag.Tile, DY: ag.Tile) -> None:
    """What a row adds to dw or db."""
    if name == "dw":
        ag.fma(k, total, H, DY, total)
    else:
        ag.add(k, total, total, DY)


def store_parts(k: ag.TileBuilder, walk: RowWalk, name: str, tile: ag.Tile, run: ag.Reg | None = None) -> None:
    """The sums of each row that the wave has at once, in a row of their own; of a tile of one run those of run number `run` (an SGPR)."""
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
    if run is None:
        ag.store_tile(k, matrix.rows(0, count), tile, columns=walk.along, limit=limit)
        return
    with k.scratch("first_column", file="s") as column:
        k.s_mul_i32(column, run, tile.columns)
        ag.store_tile(k, matrix.rows(0, count), tile, columns=walk.runs, column=column)
