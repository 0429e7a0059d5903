"""Q comes and O leaves by whole lines of memory, through LDS of their own.

A fragment's load or store has 32 bytes of each of 32 rows, and the vector cache moves lines of 128: Q of a workgroup of 256 queries of 128
takes 4.1 k clk of it, and O as much. A fill has four rows of 256 bytes, or eight of 128, and takes a quarter of that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import asmgen as ag

_LINE = 128  # bytes


@dataclass(frozen=True)
class QueryLines:
    """LDS for the workgroup's rows of Q. Before a read come the barriers that checks count where halves of the waves run `stagger` barriers
    apart."""

    shared: ag.SharedTile
    stagger: int

    def read(self, k: ag.TileBuilder, out: ag.Tile) -> None:
        """Read the wave's rows here, for code before the loop."""
        self._read(k, out)
        ag.release_read(k, out, self.shared[()].part(k.wave))

    def meanwhile(self, k: ag.TileBuilder, out: ag.Tile) -> Callable[[], None]:
        """What reads them in each prologue, while the first keys come; their addresses are made here."""
        ag.prepare_read(k, out, self.shared[()].part(k.wave))
        return partial(self._read, k, out)

    def _read(self, k: ag.TileBuilder, out: ag.Tile) -> None:
        for _ in range(1 + self.stagger):
            k.s_barrier()
        ag.read(k, out, self.shared[()].part(k.wave))


def query_lines(k: ag.TileBuilder, operand: ag.Fragment, schedule: ag.Schedule) -> QueryLines:
    """For waves that read them as operands of this pattern."""
    return QueryLines(k.shared("Qs", k.p.dtype, k.variant.tile[0], k.variant.d, serves=(ag.FragmentRead(operand), ag.DmaFill())),
                      schedule.stagger)


class OutputLines:
    """The wave's rows of O on their way, in the bytes of Q, which all waves have read before the loop's first barrier. Each wave reads only
    what it wrote."""

    def __init__(self, k: ag.TileBuilder, queries: QueryLines, stored: ag.Fragment) -> None:
        self.k = k
        self.width = _LINE * 8 // stored.bits
        self.row = k.lanes(k.p.dtype, 8, self.width // 8)
        k.lds.release(*queries.shared.ranges)
        serves = ag.FragmentRead(stored, write=True), ag.FragmentRead(self.row)
        self.shared = k.shared("Os", k.p.dtype, k.variant.tile[0], k.variant.d, serves=serves)

    def store(self, target: ag.Rows, part: ag.Tile, first: int) -> None:
        """Put columns from `first` on of O there, and store each line that is whole then."""
        k, columns = self.k, self.shared.columns
        ag.write(k, self.shared[()].part(k.wave, ag.PartOf(columns // part.columns, first // part.columns)), part, own=True)
        if (first + part.columns) % self.width:
            return
        number = first // self.width
        rows = k.tile(f"O_rows{number}", part.rows, self.width, self.row)
        ag.read(k, rows, self.shared[()].part(k.wave, ag.PartOf(columns // self.width, number)), own=True)
        ag.store_tile(k, target, rows, rows=k.wave, column=number * self.width)
        k.registers.release(rows.name)
