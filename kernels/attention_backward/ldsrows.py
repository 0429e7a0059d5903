"""Rows in LDS, to be read as operands as they are and transposed, and how they get there. gfx950 has LDS-DMA and transposing reads; gfx942
moves rows through registers, and transposes a second copy of them there."""

from __future__ import annotations

from typing import Protocol

import asmgen as ag
from asmgen.kernels.attention_backward.family import ROWS_AHEAD
from asmgen.kernels.attention_backward.sums import new_sums

_LINE = 8  # elements that a load takes where rows stay as they are
_BLOCK, _PAIR = 4, 2  # rows and columns of the block that a lane transposes


class RowsInLds(Protocol):
    """Rows of a step, in LDS. Their columns may be read so many steps later as it was made for (`later`)."""

    def advance(self, k: ag.TileBuilder, t: ag.StepIndex, source: ag.Walk) -> None:
        """LDS gets rows before they are read, which here are those of step `t`."""

    def read(self, k: ag.TileBuilder, out: ag.Tile, t: ag.StepIndex, first: int) -> None:
        """All rows, the tile's columns from `first` on."""

    def read_transposed(self, k: ag.TileBuilder, out: ag.Tile, t: ag.StepIndex, rows: ag.PartOf, columns: ag.PartOf) -> None:
        """Some columns by some rows."""


class _Cells:
    """Rows as they are."""

    _cells: ag.SharedTile

    def read(self, k: ag.TileBuilder, out: ag.Tile, t: ag.StepIndex, first: int) -> None:
        """All rows, the tile's columns from `first` on."""
        ag.read(k, out, self._cells[t].part(None, ag.PartOf(k.variant.d // out.columns, first // out.columns)))


class FilledRows(_Cells):
    """Rows on gfx950, two steps ahead; `transposed` is the fragment of transposing reads."""

    _ahead = 2

    def __init__(self, k: ag.TileBuilder, name: str, rows: int, fragment: ag.Fragment, transposed: ag.Fragment | None = None,
                 later: int = 0) -> None:
        serves = (ag.FragmentRead(fragment), *(() if transposed is None else (ag.TransposedRead(transposed),)), ag.DmaFill())
        self._cells = k.shared(f"{name}s", k.p.dtype, rows, k.variant.d, stages=self._ahead + 1 + later, serves=serves)

    def advance(self, k: ag.TileBuilder, t: ag.StepIndex, source: ag.Walk) -> None:
        """LDS gets the rows of the step after the next one."""
        ag.fill(k, self._cells[t + self._ahead], source.step(t + self._ahead))

    def read_transposed(self, k: ag.TileBuilder, out: ag.Tile, t: ag.StepIndex, rows: ag.PartOf, columns: ag.PartOf) -> None:
        """Some columns by some rows."""
        ag.read_transposed(k, out, self._cells[t].part(rows, columns))


class RowsBothWays(_Cells):
    """Rows on gfx942, fetched two steps before their writes where that is no more rows ahead than the contract keeps below 4 GiB, else one;
    without `transposed`, only as they are."""

    _AHEAD = 2  # steps of the loop from the one that writes LDS to those written

    def __init__(self, k: ag.TileBuilder, name: str, rows: int, fragment: ag.Fragment, transposed: ag.Fragment | None = None,
                 later: int = 0) -> None:
        self._early = 2 if (self._AHEAD + 2 + 1) * rows <= ROWS_AHEAD else 1
        d, waves, self._both = k.variant.d, k.variant.wave_count, transposed is not None
        line = ag.block_fragment(fragment, 1, _LINE, d // _LINE)
        self._whole = k.tile(f"{name}_rows", rows // waves, d, line, stages=self._early, note="on their way to LDS")
        self._cells = k.shared(f"{name}s", k.p.dtype, rows, d, stages=2,
                               serves=(ag.FragmentRead(fragment), ag.FragmentRead(line, write=True)))
        if transposed is not None:
            self._blocks = k.tile(f"{name}_blocks", rows, d // waves, blocks(k, rows, False), stages=self._early,
                                  note="on their way to LDS")
            self.by_columns = k.tile(f"{name}_by_columns", rows, d // waves, blocks(k, rows, True), note="transposed")
            self.transposed = k.shared(f"{name}ts", k.p.dtype, d, rows, stages=2 + later,
                                   serves=(ag.FragmentRead(transposed), ag.FragmentRead(self.by_columns.fragment.T, write=True)))

    def advance(self, k: ag.TileBuilder, t: ag.StepIndex, source: ag.Walk) -> None:
        """LDS gets the rows of the next step, which were fetched, and later ones are fetched."""
        n = t + 1
        later = n + self._early
        ag.write(k, self._cells[n].part(k.wave), tile_of(self._whole, n))
        ag.load(k, tile_of(self._whole, later), source.step(later), rows=k.wave)
        if self._both:
            ag.change_layout(k, tile_of(self._blocks, n), self.by_columns.fragment, self.by_columns, at=n)
            ag.write(k, self.transposed[n].part(k.wave), ag.transposed(self.by_columns))
            ag.load(k, tile_of(self._blocks, later), source.step(later), columns=k.wave)

    def read_transposed(self, k: ag.TileBuilder, out: ag.Tile, t: ag.StepIndex, rows: ag.PartOf, columns: ag.PartOf) -> None:
        """Some columns by some rows."""
        ag.read(k, out, self.transposed[t].part(columns, rows))


def tile_of(tile: ag.Tile | ag.TileGrid, t: ag.StepIndex) -> ag.Tile:
    """The tile of a step, where tiles take turns."""
    return tile if isinstance(tile, ag.Tile) else tile[t]


def rows_in_lds(k: ag.TileBuilder, name: str, rows: int, fragment: ag.Fragment, transposed: ag.Fragment | None = None,
                later: int = 0) -> RowsInLds:
    """So many rows of the tensor of that name, to be read as `fragment`, and their columns as `transposed`."""
    return (FilledRows if k.arch == "gfx950" else RowsBothWays)(k, name, rows, fragment, transposed, later)


def blocks(k: ag.TileBuilder, rows: int, by_columns: bool) -> ag.Fragment:
    """Blocks that lanes transpose, for so many rows; a lane's elements go row by row, or column by column."""
    like = ag.with_dtype(k.matrix_shape("f32_16x16x16_f16").a, k.p.dtype)
    return ag.block_fragment(like, _BLOCK, _PAIR, ag.LANES * _BLOCK // rows, by_columns)


class QuerySums:
    """What a wave of gfx942 makes its columns of dQ = dS K from: its columns of all `keys`, and the `slopes` dS of all waves in LDS, by
    fragments of keys below one another."""

    def __init__(self, k: ag.TileBuilder, shape: ag.MatrixShape, slopes: ag.Tile, rows: ag.Rows, through: RowsBothWays,
                 stages: int) -> None:
        (queries, keys), columns = k.variant.tile, k.variant.d // k.variant.wave_count
        edge = slopes.fragment.columns
        self.keys = k.tile("columns_of_wave", columns, keys, shape.b, file="a", note="the wave's columns of all keys")
        self.slopes = k.shared("dSs", k.p.dtype, queries * keys // edge, edge, stages=stages,
                               serves=(ag.FragmentRead(shape.a), ag.FragmentRead(slopes.fragment, write=True)))
        held = k.tile("columns_of_keys", keys, columns, blocks(k, queries, False))
        ag.load(k, held, rows, columns=k.wave)
        self._transpose(k, held, through)
        k.registers.release("columns_of_keys")
        self.dQ = new_sums(k, queries, columns, shape)

    def read(self, k: ag.TileBuilder, out: ag.Tile, t: ag.StepIndex, first: int) -> None:
        """dS of step `t`, of keys from `first` on."""
        width = self.slopes.columns
        block, inside = divmod(first, width)
        columns = ag.PartOf(width // out.columns, inside // out.columns)
        ag.read(k, out, self.slopes[t].part(ag.PartOf(k.variant.tile[1] // width, block), columns))

    def _transpose(self, k: ag.TileBuilder, held: ag.Tile, through: RowsBothWays) -> None:
        """Through the LDS that transposed queries will have."""
        step, cell = k.variant.tile[0], ag.SharedPart(through.transposed, 0, None)
        for first in range(0, held.rows, step):
            ag.change_layout(k, held.part(first, 0, step, held.columns), through.by_columns.fragment, through.by_columns)
            ag.write(k, cell.part(k.wave), ag.transposed(through.by_columns))
            k.s_barrier()
            ag.read(k, self.keys.part(0, first, held.columns, step), cell.part(k.wave))
            k.s_barrier()


def stacked(tile: ag.Tile) -> ag.Tile:
    """The fragments of a tile below one another, those that stand side by side one after the other."""
    f = tile.fragment
    bases = tuple(tile.base(row, column) for column in range(tile.across) for row in range(tile.down))
    return ag.Tile(f"{tile.name}_stacked", tile.rows * tile.across, f.columns, f, ag.RegisterSet(bases), tile.index)
