"""Columns that are no part of a row: beyond its last one, or masked."""

from __future__ import annotations

import asmgen as ag
from asmgen.kernels.rows.rowtensors import RowWalk, parts_of


def replace_beyond(k: ag.TileBuilder, tile: ag.Tile, walk: RowWalk, value: float, column: int = 0) -> None:
    """The value in columns that do not exist, of a tile that begins at that column of the rows."""
    shape = walk.shape
    left = shape.columns - column
    if left >= tile.columns * (shape.waves if shape.shares_waves else 1):
        return
    if shape.shares_waves:
        mask_from(k, tile, walk, left, value)
        return
    for number, part in enumerate(parts_of(tile)):
        if left < (number + 1) * part.columns:
            ag.mask_columns(k, part, left - number * part.columns, value)


def mask_from(k: ag.TileBuilder, tile: ag.Tile, walk: RowWalk, left: ag.Reg | int, value: float) -> None:
    """The value in a tile's columns from number `left` of the row on; SGPRs are signed. Changes SCC."""
    if not walk.shape.shares_waves:
        ag.mask_columns(k, tile, left, value)
        return
    with k.scratch("columns_left", file="s") as own:
        k.s_mul_i32(own, k.wave.register, tile.columns)
        k.s_sub_u32(own, left, own)
        ag.mask_columns(k, tile, own, value)
