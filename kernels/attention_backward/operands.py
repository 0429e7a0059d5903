"""What steps of `pinned` multiply with rows of queries: a wave's own keys for S, and its columns of all keys for dQ. They stay in
registers where there is room, else each step reads them from LDS. There is room for all but 64 keys of 128 elements.
"""

from __future__ import annotations

from dataclasses import dataclass

import asmgen as ag
from asmgen.kernels.attention_backward.work import KeyPart, Ring, forget_loads


@dataclass(frozen=True)
class KeyOperands:
    """`own` are the wave's keys and `all` its columns of all keys (none where dQ has a kernel of its own), where they stay in registers;
    `shared` are all keys in LDS."""

    own: ag.Tile | None
    all: ag.Tile | None
    shared: ag.SharedTile | None
    narrow: ag.MatrixShape

    @property
    def names(self) -> tuple[str, ...]:
        """The tiles."""
        return tuple(tile.name for tile in (self.own, self.all) if tile is not None)

    def rows(self, k: ag.TileBuilder, ring: Ring, own: int, depth: int, t: ag.StepIndex) -> ag.Tile:
        """Elements from 16 `depth` on of the wave's keys."""
        if self.own is not None:
            return self.own.part(0, 16 * depth, own, 16)
        assert self.shared is not None
        found = ring.take("K", ring.fragment, own // 32)
        ag.read(k, found, self.shared[()].part(k.wave, ag.PartOf(k.variant.d // 16, depth)), at=t)
        return found

    def columns(self, k: ag.TileBuilder, ring: Ring, part: ag.PartOf, t: ag.StepIndex) -> ag.Tile:
        """The wave's columns of a part of all keys."""
        fragment = self.narrow.b
        if self.all is not None:
            return self.all.part(0, part.first * fragment.columns, self.all.rows, fragment.columns)
        assert self.shared is not None
        found = ring.take("Kt", fragment)
        ag.read_transposed(k, found, self.shared[()].part(part, k.wave), at=t)
        return found


def operands_of_keys(k: ag.TileBuilder, at: KeyPart, shape: ag.MatrixShape, narrow: ag.MatrixShape) -> KeyOperands:
    """Load K of the workgroup. `narrow` is the shape of dQ."""
    keys, d = k.variant.tile[1], k.variant.d
    own, summed = keys // 4, k.p.dq != "ordered"
    resident = own * d < 64 * 128
    shared = None
    if summed or not resident:
        shared = k.shared("Ks", k.p.dtype, keys, d, serves=(*(() if resident else (ag.FragmentRead(shape.b),)),
                                                            *((ag.TransposedRead(narrow.b),) if summed else ())))
    rows = k.tile("K", own, d, shape.b, file="a" if resident else "v")
    ag.load(k, rows, at.rows(k, "k"), rows=k.wave)
    if shared is not None:
        ag.write(k, shared[()].part(k.wave), rows)  # others read it for dQ, after the loop's first barrier
    forget_loads(k, *(() if resident else ("K",)))
    if not resident or shared is None:
        return KeyOperands(rows if resident else None, None, shared, narrow)
    depth = narrow.b.columns
    whole = k.tile("Kt", d // 4, keys, narrow.b, file="a", note="the wave's columns of all keys")
    k.s_barrier()
    for first in range(0, keys, depth):
        ag.read_transposed(k, whole.part(0, first, d // 4, depth), shared[()].part(ag.PartOf(keys // depth, first // depth), k.wave))
    return KeyOperands(rows, whole, None, narrow)


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
