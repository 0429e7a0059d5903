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


def new_sums(k: ag.TileBuilder, queries: int, columns: int, shape: ag.MatrixShape, place: ag.Tile | None = None) -> AddedSums:
    """Those of so many queries and columns, in the registers of a tile that is done before them, or in others."""
    across = bool(k.p.dq_type != "f32")
    sizes = (columns, queries) if across else (queries, columns)
    held = k.tile("dQ", *sizes, shape.d, file="v" if across else "a") if place is None else _inside(place, *sizes, shape.d)
    return AddedSums(held, across, k.p.dq_type)


def _inside(place: ag.Tile, rows: int, columns: int, fragment: ag.Fragment) -> ag.Tile:
    """A tile in the first registers of another one, whose fragments are larger."""
    width = fragment.registers
    free = [base[first:first + width - 1] for base in place.bases for first in range(0, place.fragment.registers, width)]
    return ag.Tile("dQ", rows, columns, fragment, ag.RegisterSet(tuple(free[:rows * columns // (fragment.rows * fragment.columns)])))
