"""What steps of `pinned` multiply with rows of queries: a wave's own keys for S, and its columns of all keys for dQ. They stay in
registers where there is room, else each step reads them from LDS. There is room for all but 64 keys of 128 elements, and for none where
two waves share the registers of a SIMD.
"""

from __future__ import annotations

from dataclasses import dataclass

import asmgen as ag
from asmgen.kernels.attention_backward.work import KeyPart, Ring, forget_loads, meet


@dataclass(frozen=True)
class KeyOperands:
    """`values` are V of the wave's keys. `own` are the wave's keys and `all` its columns of all keys (none where dQ has a kernel of its
    own), where they stay in registers; `shared` are all keys in LDS."""

    values: ag.Tile
    own: ag.Tile | None
    all: ag.Tile | None
    shared: ag.SharedTile
    narrow: ag.MatrixShape

    @property
    def names(self) -> tuple[str, ...]:
        """The tiles."""
        return tuple(tile.name for tile in (self.values, self.own, self.all) if tile is not None)

    def rows(self, k: ag.TileBuilder, ring: Ring, own: int, depth: int, t: ag.StepIndex) -> ag.Tile:
        """Elements from 16 `depth` on of the wave's keys."""
        if self.own is not None:
            return self.own.part(0, 16 * depth, own, 16)
        found = ring.take("K", ring.fragment, own // 32)
        ag.read(k, found, self.shared[()].part(k.wave, ag.PartOf(k.variant.d // 16, depth)), at=t)
        return found

    def columns(self, k: ag.TileBuilder, ring: Ring, part: ag.PartOf, t: ag.StepIndex) -> ag.Tile:
        """The wave's columns of a part of all keys."""
        fragment = self.narrow.b
        if self.all is not None:
            return self.all.part(0, part.first * fragment.columns, self.all.rows, fragment.columns)
        found = ring.take("Kt", fragment)
        ag.read_transposed(k, found, self.shared[()].part(part, k.wave), at=t)
        return found


def operands_of_keys(k: ag.TileBuilder, at: KeyPart, shape: ag.MatrixShape, narrow: ag.MatrixShape) -> KeyOperands:
    """V and K of the workgroup. `narrow` is the shape of dQ.

    Both go through LDS: a line of a fill is whole rows, where a fragment has 32 bytes of each of 32 rows, which takes memory four times as
    long. The bytes of V, which stays in registers, are those of what the loop fills.
    """
    keys, d = k.variant.tile[1], k.variant.d
    waves, summed = k.variant.wave_count, k.p.dq != "ordered"
    own = keys // waves
    resident = waves == 4 and own * d < 64 * 128
    serves = (ag.FragmentRead(shape.b), *((ag.TransposedRead(narrow.b),) if summed else ()), ag.DmaFill())
    shared = k.shared("Ks", k.p.dtype, keys, d, serves=serves)
    # V has a placement of its own: that of K, with transposing reads, costs a fill twice the code.
    on_its_way = k.shared("Vs", k.p.dtype, keys, d, serves=(ag.FragmentRead(shape.b), ag.DmaFill()))
    for tensor, tile in (("v", on_its_way), ("k", shared)):
        ag.fill(k, tile[()], at.rows(k, tensor).k())
        ag.release_fill(k, tile)
    forget_loads(k)
    values = k.tile("V", own, d, shape.b, file="a")
    rows = k.tile("K", own, d, shape.b, file="a") if resident else None
    whole = k.tile("Kt", d // waves, keys, narrow.b, file="a", note="the wave's columns of all keys") if resident and summed else None
    meet(k)
    ag.read(k, values, on_its_way[()].part(k.wave))
    if rows is not None:
        ag.read(k, rows, shared[()].part(k.wave))
    depth = narrow.b.columns
    for first in range(0, keys if whole is not None else 0, depth):
        assert whole is not None
        ag.read_transposed(k, whole.part(0, first, d // waves, depth), shared[()].part(ag.PartOf(keys // depth, first // depth), k.wave))
    meet(k)
    k.lds.release(*on_its_way.ranges, *(shared.ranges if resident else ()))
    return KeyOperands(values, rows, whole, shared, narrow)


def ring_of_rest(k: ag.TileBuilder, fragment: ag.Fragment) -> Ring:
    """Places for fragments of operands in all AGPRs that are left."""
    return Ring(k, k.registers.left("a") // fragment.registers, fragment)


def add_columns(k: ag.TileBuilder, out: ag.Tile, operands: list[tuple[ag.Tile, ag.Tile]], start: ag.Tile) -> None:
    """Each column of `out` is the sum of a column `start` and the products of the operands, rows of queries and of keys cut along their
    elements; one column after the other, so that vector instructions soon have one."""
    width = out.fragment.columns
    for first in range(0, out.columns, width):
        for depth, (rows, keys) in enumerate(operands):
            ag.mma(k, out.part(0, first, out.rows, width), rows, keys.part(first, 0, width, keys.columns), first=False if depth else start)
