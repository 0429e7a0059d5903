"""The columns of K after the last whole step, which are multiplied after the loop.

    k.pipeline(step, steps, schedule, empty=takes_any_k(k.parameters), then=after_last_columns(k, ends, LastColumns(...)))

The step is that of the loop, with zeros in the columns that A and B do not have; nothing there is read. So D has the bits that a step of
zeros would give, in the same order of K. Of matrices stored by rows each wave loads its own fragments, as wide as columns allow. Lines of
those stored by columns go through LDS as in the loop, by descriptors that end with the last line, so that lines after it are zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace

import asmgen as ag
from asmgen.kernels.products.anyk import takes_any_k
from asmgen.kernels.products.directsides import DirectSide
from asmgen.kernels.products.epilogue import ProductEpilogue
from asmgen.kernels.products.feed import Feed
from asmgen.kernels.products.persistent import Tiles
from asmgen.kernels.products.prologue import operand
from asmgen.kernels.products.split import all_steps, from_column, is_split, own_part, steps_of_each


@dataclass(frozen=True)
class LastProduct:
    """How the K tail is multiplied where that is more than a product: `begin` asks for what else it takes, and `add(c, half of M, half of
    N, A, B)` adds a product to accumulators. Both need registers of the loop, `held`."""

    begin: Callable[[], None]
    add: Callable[[ag.Tile, int, int, ag.Tile, ag.Tile], None]
    held: tuple[ag.Reg, ...]


@dataclass(frozen=True)
class LastColumns:
    """What multiplies: accumulators [half of M][half of N], registers of a half of A and of B as the loop has them, their feeds, the tile's
    first row and column, and the waves along both. `tiles` are those of a workgroup that makes several. The loop's registers of A and B
    are `idle` if they hold nothing from one step to the next. `product` multiplies, if it is given."""

    C: ag.TileGrid
    A: ag.Tile
    B: ag.Tile
    feeds: tuple[Feed, Feed]
    first: tuple[ag.Reg, ag.Reg]
    waves: tuple[ag.WaveIndex, ag.WaveIndex]
    tiles: Tiles | None = None
    idle: bool = False
    product: LastProduct | None = None

    def multiply(self, k: ag.TileBuilder, left: ag.Reg, column: ag.Reg) -> None:
        """C += A B^T of the `left` columns from `column` on."""
        A, B = self._registers(k)
        if self.product is not None:
            self.product.begin()
        a, b = (self._matrix(k, name, tile.dtype, left, column) for name, tile in (("a", A), ("b", B[0])))
        by_lines = [(feed, one, first) for feed, one, first in zip(self.feeds, (a, b), self.first, strict=True) if feed.transposes]
        if by_lines:
            k.barrier_where_needed()  # all waves have read the last step
            for feed, one, first in by_lines:
                feed.fill_last(one, first)
            for _ in range(2 if k.variant.schedule == "ping-pong" else 1):  # lint does not see that both groups are level
                k.s_barrier()
        for number in range(2) if len(B) == 2 else ():
            self._load(k, 1, B[number], b, number, left)
        for half in range(2):
            self._load(k, 0, A, a, half, left)
            for number in range(2):
                if len(B) == 1:
                    self._load(k, 1, B[0], b, number, left)
                if self.product is not None:
                    self.product.add(self.C[half, number], half, number, A, B[number % len(B)])
                else:
                    ag.mma(k, self.C[half, number], A, B[number % len(B)])
        if not self.idle:
            k.registers.release(A.registers, *(one.registers for one in B))

    def spare(self, k: ag.TileBuilder) -> None:
        """The loop's registers of A are for an epilogue that finds no others, if the next item reads nothing of what they hold."""
        if self.idle:
            k.registers.spare(self.A.registers, at_need=True)

    def _registers(self, k: ag.TileBuilder) -> tuple[ag.Tile, list[ag.Tile]]:
        """Those of a half of A, and of both halves of B, or of one at a time."""
        if self.idle:
            return self.A, [self.B]
        A = k.tile("A_left", self.A.rows, self.A.columns, self.A.fragment, note="a half of the K tail at a time")
        return A, [k.tile(f"B{half}_left", self.B.rows, self.B.columns, self.B.fragment) for half in range(2)]

    def _matrix(self, k: ag.TileBuilder, name: str, dtype: str, left: ag.Reg, column: ag.Reg) -> ag.Matrix:
        if self.tiles is None:
            return from_last_columns(k, name, dtype, left, column)
        return replace(operand(k, name, dtype), columns_register=left)  # its pointer stands there

    def _load(self, k: ag.TileBuilder, number: int, tile: ag.Tile, matrix: ag.Matrix, half: int, left: ag.Reg) -> None:
        feed = self.feeds[number]
        if feed.transposes:
            feed.take(tile, feed.last(half), self.waves[number])
        else:
            rows = matrix.rows(self.first[number], 2 * feed.rows).halves()[half]
            ag.load(k, tile, rows, rows=self.waves[number], limit=left, order=feed.order)
            if self.tiles is not None:  # the loop of the next tile has its own
                k.registers.release(*rows.descriptors.values())


@dataclass(frozen=True)
class AfterLastColumns:
    """The epilogue of a product. If it takes any k: where K is whole steps it overlaps the last one, if `then` does; else it stands after
    the columns that are left."""

    multiply: LastColumns
    then: ProductEpilogue
    overlapped: ag.Epilogue | None

    def follow(self, k: ag.TileBuilder) -> None:
        """Multiply what is left of K, if this workgroup has it, and store."""
        if takes_any_k(k.parameters):
            product = self.multiply.product
            held = k.registers.keep(*product.held) if product is not None else []
            where_columns_are_left(k, self.multiply.multiply, tiles=self.multiply.tiles)
            k.registers.spare(*held, at_need=True)
        self.multiply.spare(k)
        if takes_any_k(k.parameters) and self.then.overlapped is not None:
            self.then.overlapped.follow(k)
        self.then.follow(k)


def after_last_columns(k: ag.TileBuilder, then: ProductEpilogue, columns: LastColumns) -> ProductEpilogue | AfterLastColumns:
    """What follows the loop of a product."""
    straight = then.overlapped
    if straight is None or not takes_any_k(k.parameters):
        return AfterLastColumns(columns, then, straight)
    of_tiles = straight.guard

    def guard(label: str) -> None:
        with k.scratch("k_left", file="s") as left:
            k.s_and_b32(left, k.argument("k"), k.variant.tile[2] - 1)
        k.s_cbranch_scc1(label)
        of_tiles(label)

    return AfterLastColumns(columns, then, replace(straight, guard=guard))


def by_last_wave(k: ag.TileBuilder, C: ag.Tile, sides: tuple[DirectSide, DirectSide], first: tuple[ag.Reg, ag.Reg],
                 add: Callable[[ag.Tile, ag.Tile], None] | None = None) -> None:
    """C += A B^T of the K tail, in the last wave alone, of products whose waves share K; `add` adds the product, if given."""
    def multiply(k: ag.TileBuilder, left: ag.Reg, column: ag.Reg) -> None:
        tiles = [one.last(from_last_columns(k, one.name.lower(), one.fragment.dtype, left, column), row, left)
                 for one, row in zip(sides, first, strict=True)]
        if add is not None:
            add(*tiles)
        else:
            ag.mma(k, C, *tiles)
        k.registers.release(*(f"{one.name}_left" for one in sides))

    where_columns_are_left(k, multiply, k.wave)


def where_columns_are_left(k: ag.TileBuilder, multiply: Callable[[ag.TileBuilder, ag.Reg, ag.Reg], None],
                        wave: ag.WaveIndex | None = None, tiles: Tiles | None = None) -> None:
    """Call `multiply(k, left, column)` for code that is passed by where K is whole steps, or where another workgroup has its last columns;
    or another wave than the last `wave`, if that is given. Of `tiles` one after another, the loop has gone over to the next one."""
    depth = k.variant.tile[2]
    without = k.fresh("k_is_done")
    left, column = k.registers.sgprs(1, "k_left", note="columns of the K tail"), k.registers.sgprs(1, "k_done")
    if wave is not None:
        k.s_cmp_lg_u32(wave.register, wave.count - 1)
        k.s_cbranch_scc1(without)
    if tiles is not None:
        tiles.pass_without_last(without)
    if is_split(k.parameters):
        with k.scratch("all_steps", file="s") as steps, k.scratch("each", file="s") as each:
            all_steps(k, steps)
            steps_of_each(k, each, steps)
            own_part(k, left)
            k.s_add_u32(left, left, 1)
            k.s_mul_i32(each, each, left)
            k.s_cmp_lt_u32(each, steps)
            k.s_cbranch_scc1(without)
    k.s_and_b32(left, k.argument("k"), depth - 1)
    k.s_cbranch_scc0(without)
    k.s_sub_u32(column, k.argument("k"), left)
    with k.apart(), k.registers.scope("K tail") if tiles is not None else nullcontext(), \
            tiles.at_own(column) if tiles is not None else nullcontext():
        multiply(k, left, column)
    k.label(without)
    k.registers.release("k_left")
    k.registers.release("k_done")


def from_last_columns(k: ag.TileBuilder, name: str, dtype: str, left: ag.Reg, column: ag.Reg) -> ag.Matrix:
    """A or B of what the kernel's code computes from a column of K on, of which there are `left`."""
    return from_column(k, operand(k, name, dtype), column, left, "any_k")
