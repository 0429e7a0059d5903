"""One side of a product on its way from memory through LDS to fragments, where memory has its rows as LDS has them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import asmgen as ag


@dataclass
class Feed:
    """One side of a product. `name` is that of its registers; the halves have `rows` rows of `depth` columns of K. `staged` are registers
    on the way to LDS, by half. `order` deals rows to fragments."""

    k: ag.TileBuilder
    name: str
    rows: int
    depth: int
    shared: ag.SharedTile
    staged: Any = (None, None)
    order: Callable[[int], int] | None = None
    halves: Any = field(default=(), repr=False)
    blocks: Any = None

    @property
    def computes(self) -> bool:
        """Whether vector instructions stand between memory and LDS."""
        return self.blocks is not None

    @property
    def transposes(self) -> bool:
        """Whether memory has the rows as columns."""
        return False

    def begin(self, matrix: ag.Matrix, first: ag.Reg) -> None:
        """The workgroup's rows are those from `first` on."""
        self.halves = matrix.rows(first, 2 * self.rows).halves()

    def read(self, tile: ag.Tile, t: ag.StepIndex, half: int, wave: ag.WaveIndex) -> None:
        """The wave's part of a half of an iteration."""
        self.take(tile, self.shared[t, half], wave)

    def take(self, tile: ag.Tile, cell: ag.SharedPart, wave: ag.WaveIndex) -> None:
        """The wave's part of a half that lies in a cell."""
        ag.read(self.k, tile, cell.part(wave))

    def last(self, half: int) -> ag.SharedPart:
        """The cell that a half of the K tail has: the loop's last step has been read."""
        return ag.SharedPart(self.shared, half, None)

    def refill(self, t: ag.StepIndex, half: int) -> None:
        """A half of an iteration gets its elements."""
        ag.refill(self.k, self.shared[t, half], self.halves[half], self.staged[half], self.order)

    def fill_last(self, matrix: ag.Matrix, first: ag.Reg) -> None:
        """LDS gets what is left of a matrix by columns (`feeds.ColumnFeed`)."""
        raise ag.TileError(f"rows of {matrix.name} go into fragments without LDS after the loop")
