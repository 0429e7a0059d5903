"""The prologue of the tiled products: which tile of D a workgroup makes, and from which rows of A and B."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import asmgen as ag
from asmgen.kernels.products.anyk import takes_any_k
from asmgen.kernels.products.contract import is_dealt
from asmgen.kernels.products.feed import Feed
from asmgen.kernels.products.layouts import by_columns, most_apart
from asmgen.kernels.products.sides import argument, divide_by_edge, side
from asmgen.kernels.products.split import is_split, part_of_k, part_of_wave, to_own_matrices, whole_steps


def clear(k: ag.TileBuilder, C: ag.TileGrid) -> Callable[[], None] | None:
    """C = 0 while the arguments are in flight. With `preload` the first loads wait for none: then nothing is emitted, and what is given
    clears C among them, as `meanwhile` of the pipeline. A product without a whole step has no loop that would do so."""
    if k.p.preload and not takes_any_k(k.parameters):
        return partial(ag.zero, k, *C)
    ag.zero(k, *C)
    return None


def place(k: ag.TileBuilder, row0: ag.Reg, column0: ag.Reg) -> None:
    """The first row and column of the workgroup's tile: x over N and y over M, or in the order of `window` and `chunk`. Pointers move to
    the workgroup's matrices."""
    tm, tn, _ = k.variant.tile
    to_own_matrices(k)
    row: ag.Reg = k.ids["y"]
    column: ag.Reg = k.ids["x"]
    if k.p.window or k.p.chunk:
        with k.scratch("tiles", 2, "s") as tiles:
            for count, size, edge in ((tiles[0], "m", tm), (tiles[1], "n", tn)):
                k.s_add_u32(count, argument(k, size), edge - 1)
                divide_by_edge(k, count, edge)
            ag.place_tile(k, row0, column0, column, row, tiles[0], tiles[1], max(1, k.p.window), max(1, k.p.chunk))
        row, column = row0, column0
    k.s_mul_i32(row0, row, tm)
    k.s_mul_i32(column0, column, tn)


def halves(k: ag.TileBuilder, steps: ag.Reg, row0: ag.Reg, column0: ag.Reg, of_a: str,
           of_b: str) -> tuple[tuple[ag.Rows, ag.Rows], tuple[ag.Rows, ag.Rows]]:
    """The halves of the workgroup's rows of A and of B, as `tiles`."""
    a, b = tiles(k, steps, row0, column0, of_a, of_b)
    return a.halves(), b.halves()


def tiles(k: ag.TileBuilder, steps: ag.Reg, row0: ag.Reg, column0: ag.Reg, of_a: str, of_b: str) -> tuple[ag.Rows, ag.Rows]:
    """The workgroup's rows of A and of B, as `operands`, which are stored by rows."""
    tm, tn, _ = k.variant.tile
    a, b = operands(k, steps, of_a, of_b)
    return a.rows(row0, tm), b.rows(column0, tn)


def operands(k: ag.TileBuilder, steps: ag.Reg, of_a: str, of_b: str) -> tuple[ag.Matrix, ag.Matrix]:
    """A and B, of these types, from the first column of K on that the workgroup multiplies. `steps` becomes K divided by the tile's depth;
    where K is split, all of them are the workgroup's part."""
    a, b = operand(k, "a", of_a), operand(k, "b", of_b)
    if is_dealt(k.variant):
        k.wave  # noqa: B018  the wave's number is computed before branches
    if is_split(k.parameters):
        a, b = part_of_k(k, steps, a, b)
    else:
        whole_steps(k, steps)
    if is_dealt(k.variant):
        a, b = part_of_wave(k, steps, a, b)
    return a, b


def begin_feeds(k: ag.TileBuilder, steps: ag.Reg, dtypes: tuple[str, str], feeds: tuple[Feed, Feed], row0: ag.Reg, column0: ag.Reg,
                left: ag.Reg | None = None) -> None:
    """The feeds of A and B begin at the workgroup's first row and column of D. `steps` and `dtypes` as of `operands`. Where an item has
    steps of its own, `left` has the columns from its first on, at which the pointers stand."""
    if left is None:
        a, b = operands(k, steps, *dtypes)
    else:
        a, b = (_from_item(k, name, dtype, left) for name, dtype in zip("ab", dtypes, strict=True))
    feeds[0].begin(a, row0)
    feeds[1].begin(b, column0)


def _from_item(k: ag.TileBuilder, name: str, dtype: str, left: ag.Reg) -> ag.Matrix:
    """A or B with so many columns of K left, or lines where these are lines."""
    made = operand(k, name, dtype)
    return replace(made, rows_register=left) if by_columns(k.parameters, made.name) else replace(made, columns_register=left)


def operand(k: ag.TileBuilder, name: str, dtype: str) -> ag.Matrix:
    """A or B of what the kernel's code computes, as its lines lie in memory."""
    build = k.parameters
    edge, stride = side(build, "m" if name == "a" else "n"), side(build, f"ld{name}")
    rows, columns = ("k", edge) if by_columns(build, side(build, name)) else (edge, "k")
    made = k.matrix(side(build, name), dtype, rows=rows, columns=columns, stride=stride)
    return replace(made, most=min(made.most or 0, most_apart(build, name)))


def corners_of(k: ag.TileBuilder, C: ag.TileGrid, fragment: ag.Fragment | None = None) -> list[ag.Corner]:
    """The accumulators [half of M][half of N] in a `fragment` layout, with their positions in the workgroup's tile."""
    tm, tn, _ = k.variant.tile
    return [ag.Corner(ag.Tile(c.name, c.rows, c.columns, fragment or c.fragment, c.registers), row * tm // 2, column * tn // 2)
            for (row, column), c in zip(itertools.product(range(2), repeat=2), C, strict=True)]
