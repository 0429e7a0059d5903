"""A wave's part of dQ = dS K, as memory adds it up: float32, or dQ^T rounded to pairs of bf16."""

from __future__ import annotations

from dataclasses import dataclass, replace

import asmgen as ag


@dataclass(frozen=True)
class AddedSums:
    """The sums of a step, queries by columns, or columns by queries where a lane's neighbours are to be those of a row."""

    tile: ag.Tile
    across: bool
    dtype: str

    @property
    def rows(self) -> ag.Tile:
        """Queries by columns, of the type that memory adds."""
        return ag.transposed(ag.narrowed(self.tile, self.dtype)) if self.across else self.tile

    def add(self, k: ag.TileBuilder, slopes: ag.Tile, keys: ag.Tile, first: bool) -> None:
        """Products of dS and columns of keys. As both operands of a matrix instruction lie alike, either may be the first one."""
        if self.across:
            slopes, keys = _as(keys, "a"), _as(slopes, "b")
        ag.mma(k, self.tile, slopes, keys, first=first)

    def round(self, k: ag.TileBuilder) -> None:
        """As memory adds them."""
        if self.across:
            ag.convert(k, ag.narrowed(self.tile, self.dtype), self.tile, nan=False)


def _as(tile: ag.Tile, operand: str) -> ag.Tile:
    """The tile as the other operand of its matrix instruction."""
    return ag.Tile(tile.name, tile.rows, tile.columns, replace(tile.fragment, operand=operand), tile.registers, tile.index)


def new_sums(k: ag.TileBuilder, queries: int, columns: int, shape: ag.MatrixShape) -> AddedSums:
    """Those of so many queries and columns."""
    across = bool(k.p.dq_type != "f32")
    sizes = (columns, queries) if across else (queries, columns)
    return AddedSums(k.tile("dQ", *sizes, shape.d, file="v" if across else "a"), across, k.p.dq_type)
