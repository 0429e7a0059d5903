"""What the tiled GEMMs do before and behind their loop: which tile of D a workgroup makes from which rows of A and B, and what D is
beside A x B^T."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import asmgen as ag
from asmgen.kernels.products.factors import Factors


def place(k: ag.TileBuilder, row0: ag.Reg, column0: ag.Reg) -> None:
    """The first row and column of the workgroup's tile: x over N and y over M, or in the order of `window` and `chunk`."""
    tm, tn, _ = k.variant.tile
    row: ag.Reg = k.ids["y"]
    column: ag.Reg = k.ids["x"]
    if k.p.window or k.p.chunk:
        with k.scratch("tiles", 2, "s") as tiles:
            for count, size, edge in ((tiles[0], "m", tm), (tiles[1], "n", tn)):
                k.s_add_u32(count, k.argument(size), edge - 1)
                _divide(k, count, edge)
            ag.place_tile(k, row0, column0, column, row, tiles[0], tiles[1], max(1, k.p.window), max(1, k.p.chunk))
        row, column = row0, column0
    k.s_mul_i32(row0, row, tm)
    k.s_mul_i32(column0, column, tn)


def _divide(k: ag.TileBuilder, number: ag.Reg, edge: int) -> None:
    """number /= edge, for edges of 64 times a power of two or of three."""
    k.s_lshr_b32(number, number, (edge & -edge).bit_length() - 1)
    if edge & (edge - 1):
        k.s_mul_hi_u32(number, number, 0x55555556)


def halves(k: ag.TileBuilder, steps: ag.Reg, row0: ag.Reg, column0: ag.Reg, of_a: str,
           of_b: str) -> tuple[tuple[ag.Rows, ag.Rows], tuple[ag.Rows, ag.Rows]]:
    """The halves of the workgroup's rows of A and of B, of these types; `steps` becomes how often K holds the tile's depth."""
    tm, tn, tk = k.variant.tile
    k.s_lshr_b32(steps, k.argument("k"), (tk - 1).bit_length())
    a = k.matrix("a", of_a, rows="m", columns="k", stride="lda").rows(row0, tm).halves()
    b = k.matrix("b", of_b, rows="n", columns="k", stride="ldb").rows(column0, tn).halves()
    return a, b


def corners_of(k: ag.TileBuilder, C: ag.TileGrid, fragment: ag.Fragment | None = None) -> list[ag.Corner]:
    """The accumulators [half of M][half of N], seen as a `fragment` of theirs, and where they stand in the workgroup's tile."""
    tm, tn, _ = k.variant.tile
    return [ag.Corner(ag.Tile(c.name, c.rows, c.columns, fragment or c.fragment, c.registers), row * tm // 2, column * tn // 2)
            for (row, column), c in zip(itertools.product(range(2), repeat=2), C, strict=True)]


@dataclass(frozen=True)
class ProductEpilogue:
    """The epilogue of a product. Whole tiles take `overlapped`, which a pipeline mixes with its last step, or `follows`, which stands after
    the loop. `rest` emits the code for all other tiles."""

    overlapped: ag.Epilogue | None
    follows: ag.Epilogue | None
    rest: Callable[[], None]

    def follow(self, k: ag.TileBuilder) -> None:
        """All that is not in the loop."""
        if self.follows is not None:
            label = k.fresh("no_ending")
            self.follows.guard(label)
            self.follows.body()
            self.follows.end_kernel(k)
            k.label(label)
        self.rest()


def product_epilogue(k: ag.TileBuilder, corners: Sequence[ag.Corner], row0: ag.Reg, column0: ag.Reg, wm: ag.WaveIndex, wn: ag.WaveIndex,
                     factors: Factors | None = None, overlaps: bool = True) -> ProductEpilogue:
    """alpha A B^T + beta C + bias, rounded to the type of D and stored; `factors` stand for alpha where accumulators have them.

    Whole tiles without alpha and C go to memory while the last step computes. They go right after the loop if the loop leaves no registers
    for that (`overlaps` is False). All other tiles (alpha, C, cut columns, rows so far apart that the tile spans 4 GiB) go corner by corner:
    each wave uses descriptors of its own rows.
    """
    tm, tn, _ = k.variant.tile
    c, d = (k.matrix(name, k.p.out, rows="m", columns="n", stride=f"ld{name}") for name in ("c", "d"))
    alpha, beta = None if factors is not None else k.argument("alpha"), k.argument("beta")
    whole = d.rows(row0, tm)
    bias = ag.Numbers("bias", k.argument("bias"), k.p.out, k.argument("n")) if k.p.bias == "row" else None
    alone = bias is None and (factors is None or not factors.differ)
    again = k.fresh("with_nans") if alone and ag.doubted(k, k.p.out) else None

    def guard(label: str) -> None:
        with k.scratch("factors", file="s") as not_plain:
            ag.ask_plain(k, alpha, beta, not_plain)
            ag.unless_whole(k, whole, column0, corners, tn, label, not_plain)

    def body() -> None:
        added = ag.load_columns(k, corners, bias, column0, wm, wn) if bias is not None else {}
        narrow = set(added)  # columns whose numbers are still as memory has them: they are on their way until they are needed

        def change(run: ag.ColumnRun, values: Sequence[ag.Reg]) -> None:
            shadow = overlaps and run.row < tm // 2
            if factors is not None:
                factors.change(run, values, shadow)
            if run.column in narrow:
                ag.widen(k, added[run.column], k.p.out)
                narrow.remove(run.column)
            if added:
                ag.add_to_run(k, values, added[run.column], shadow)

        ag.store_whole(k, whole, column0, corners, wm, wn, change if factors is not None or bias is not None else None, again is not None)
        if bias is not None:
            k.registers.release(bias.name)
        if factors is not None and again is not None and corners[0].tile.registers.items[0].file == "v":
            factors.forget()  # changed in place

    def rest() -> None:
        if again is not None:
            k.label(again)
        beside = [factors.of(corner) for corner in corners] if factors is not None else ()
        with ag.each_corner(k, corners, row0, column0, k.argument("m"), wm, beside) as at:
            if factors is not None:
                factors.at(at).apply(at.corner)
            rows = at.corner.tile.rows
            ag.scale_and_add(k, [at.corner], c.rows(at.row, rows), at.column, None, wn, alpha, beta)
            if bias is not None:
                ag.add_along_columns(k, [at.corner], bias, at.column, None, wn)
            ag.store(k, d.rows(at.row, rows), at.column, [at.corner], None, wn, tn // 2)

    d.stride_bytes(k)
    straight = ag.Epilogue(guard, body, again)
    return ProductEpilogue(straight if overlaps else None, None if overlaps else straight, rest)
