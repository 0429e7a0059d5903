"""Which columns of a row are seen."""

from __future__ import annotations

import asmgen as ag
from asmgen.kernels.rows.absent import mask_from, replace_beyond
from asmgen.kernels.rows.rowtensors import RowWalk

LOWEST = float("-inf")


class Visible:
    """The columns of the wave's row that count: all, or as a mask says. Made before the loop; `find` comes in it, before `look_ahead`."""

    def __init__(self, walk: RowWalk, mask: str) -> None:
        k = walk.k
        self.k, self.walk, self.mask = k, walk, mask
        if mask == "none":
            return
        self.left = k.registers.sgprs(1, "visible", note="columns of the row that are seen")
        if mask == "causal":
            self.by = ag.Divisor(k, k.argument("queries"), k.registers.sgprs(1, "queries_reciprocal"))
            self.first = k.registers.sgprs(1, "first_visible", note="columns that the first row of a matrix sees")
            k.s_sub_u32(self.first, walk.shape.columns + 1, k.argument("queries"))

    def find(self) -> None:
        """Of the group in work. Changes SCC."""
        if self.mask == "none":
            return
        k, walk, left = self.k, self.walk, self.left
        with k.scratch("row", file="s") as row:
            k.s_add_u32(row, walk.first, k.wave.register if walk.shape.has_own_row else 0)
            if self.mask == "causal":
                with k.scratch("matrix", file="s") as matrix:
                    self.by.divide(k, matrix, row, row)
                k.s_add_u32(left, row, self.first)
            else:
                with k.scratch("last_row", file="s") as last:
                    k.s_sub_u32(last, k.argument("rows"), 1)
                    k.s_min_u32(row, row, last)
                k.s_lshl_b32(row, row, 2)
                k.s_load_dword(left, k.argument("lengths"), row)
        k.s_max_i32(left, left, 0)
        k.s_min_i32(left, left, walk.shape.columns)

    def hide(self, tile: ag.Tile, column: int = 0) -> None:
        """Minus infinity in columns that do not count, of a tile that begins at that one."""
        k = self.k
        if self.mask == "none":
            replace_beyond(k, tile, self.walk, LOWEST, column)
            return
        with k.scratch("from_column", file="s") as left:
            k.s_sub_u32(left, self.left, column)
            mask_from(k, tile, self.walk, left, LOWEST)
