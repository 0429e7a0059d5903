"""What the tiled GEMMs do before and behind their loop: which tile of D a workgroup makes from which rows of A and B, and what D is
beside A x B^T."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from asmgen.author.addressing import WaveIndex
from asmgen.author.combine import Numbers, add_along_columns, scale_and_add, unless_plain
from asmgen.author.conversions import doubted
from asmgen.author.corners import each_corner
from asmgen.author.ending import Ending
from asmgen.author.epilogue import Corner, store, store_whole, unless_whole
from asmgen.author.fragments import Fragment
from asmgen.author.globals import Rows
from asmgen.author.tilebuilder import TileBuilder
from asmgen.author.tileorder import place_tile
from asmgen.author.tiles import Tile, TileGrid
from asmgen.isa.records import dataclass
from asmgen.isa.registers import Reg


def place(k: TileBuilder, row0: Reg, column0: Reg) -> None:
    """The first row and column of the workgroup's tile: x over N and y over M, or in the order of `window` and `chunk`."""
    tm, tn, _ = k.variant.tile
    row: Reg = k.ids["y"]
    column: Reg = k.ids["x"]
    if k.p.window or k.p.chunk:
        with k.scratch("tiles", 2, "s") as tiles:
            for count, size, edge in ((tiles[0], "m", tm), (tiles[1], "n", tn)):
                k.s_add_u32(count, k.argument(size), edge - 1)
                _divide(k, count, edge)
            place_tile(k, row0, column0, column, row, tiles[0], tiles[1], max(1, k.p.window), max(1, k.p.chunk))
        row, column = row0, column0
    k.s_mul_i32(row0, row, tm)
    k.s_mul_i32(column0, column, tn)


def _divide(k: TileBuilder, number: Reg, edge: int) -> None:
    """number /= edge, for edges of 64 times a power of two or of three."""
    k.s_lshr_b32(number, number, (edge & -edge).bit_length() - 1)
    if edge & (edge - 1):
        k.s_mul_hi_u32(number, number, 0x55555556)


def halves(k: TileBuilder, steps: Reg, row0: Reg, column0: Reg, of_a: str, of_b: str) -> tuple[tuple[Rows, Rows], tuple[Rows, Rows]]:
    """The halves of the workgroup's rows of A and of B, of these types; `steps` becomes how often K holds the tile's depth."""
    tm, tn, tk = k.variant.tile
    k.s_lshr_b32(steps, k.argument("k"), (tk - 1).bit_length())
    a = k.matrix("a", of_a, rows="m", columns="k", stride="lda").rows(row0, tm).halves()
    b = k.matrix("b", of_b, rows="n", columns="k", stride="ldb").rows(column0, tn).halves()
    return a, b


def corners_of(k: TileBuilder, C: TileGrid, fragment: Fragment | None = None) -> list[Corner]:
    """The accumulators [half of M][half of N], seen as a `fragment` of theirs, and where they stand in the workgroup's tile."""
    tm, tn, _ = k.variant.tile
    return [Corner(Tile(c.name, c.rows, c.columns, fragment or c.fragment, c.registers), row * tm // 2, column * tn // 2)
            for (row, column), c in zip(itertools.product(range(2), repeat=2), C, strict=True)]


@dataclass(frozen=True)
class Ends:
    """What stands behind the loop: an ending for whole tiles, where the kernel has one, and code for what is left."""

    ending: Ending | None
    rest: Callable[[], None]

    def follow(self, k: TileBuilder) -> None:
        """All of it behind the loop: for kernels whose loop leaves an ending no registers."""
        if self.ending is not None:
            label = k.fresh("no_ending")
            self.ending.guard(label)
            self.ending.body()
            self.ending.end(k)
            k.label(label)
        self.rest()


def finish(k: TileBuilder, corners: Sequence[Corner], row0: Reg, column0: Reg, wm: WaveIndex, wn: WaveIndex) -> Ends:
    """alpha A B^T + beta C + bias, rounded to the type of D and stored. Whole tiles of A B^T go to memory while the last step computes;
    what is seldom asked for, factors and cut columns, is done corner by corner."""
    tm, tn, _ = k.variant.tile
    c, d = (k.matrix(name, k.p.out, rows="m", columns="n", stride=f"ld{name}") for name in ("c", "d"))
    alpha, beta = k.argument("alpha"), k.argument("beta")
    whole = d.rows(row0, tm)
    plain = k.p.bias == "none"
    again = k.fresh("with_nans") if plain and doubted(k, k.p.out) else None

    def guard(label: str) -> None:
        unless_plain(k, alpha, beta, label)
        unless_whole(k, whole, column0, corners, tn, label)

    def body() -> None:
        store_whole(k, whole, column0, corners, wm, wn)

    def rest() -> None:
        if again is not None:
            k.label(again)
        with each_corner(k, corners, row0, column0, k.argument("m")) as (corner, row, column):
            scale_and_add(k, [corner], c.rows(row, tm // 2), column, wm, wn, alpha, beta)
            if k.p.bias == "row":
                add_along_columns(k, [corner], Numbers("bias", k.argument("bias"), k.p.out, k.argument("n")), column, wm, wn)
            store(k, d.rows(row, tm // 2), column, [corner], wm, wn, tn // 2)

    d.stride_bytes(k)
    return Ends(Ending(guard, body, again) if plain else None, rest)
