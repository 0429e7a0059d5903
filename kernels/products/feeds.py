"""Feeds: how one side of a product gets from memory through LDS to fragments, by its layout and architecture.

    feed = feed_of(k, "a", "A", fa, tm, stages=2)   # makes As, and what is on the way to it in registers
    source = feed.sources(matrix, row0)             # the two halves of the workgroup's rows
    feed.read(A, t, 0, wm)                          # half 0 of iteration t, the wave's part of it
    feed.refill(t + 1, 1)                           # half 1 of iteration t + 1

| layout | gfx950 | gfx942 |
|---|---|---|
| row | LDS-DMA of rows, plain reads | through registers, plain reads |
| column | LDS-DMA of the memory's lines, transposing reads | through registers, which transpose blocks; plain reads |

A variant that says `early` is by itself on a compute unit, and asks for rows through registers as many steps before LDS gets them as far
memory takes. Variants of the schedule `elements` load element by element, of either layout (`elements`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import asmgen as ag
from asmgen.kernels.products.contract import ELEMENTS, is_persistent
from asmgen.kernels.products.descent import Descent
from asmgen.kernels.products.elements import element_feed
from asmgen.kernels.products.feed import Feed
from asmgen.kernels.products.layouts import by_columns
from asmgen.kernels.products.sides import side
from asmgen.kernels.products.split import stored_type

_WIDTH = 16  # bytes of a load
_BLOCK = 4  # elements of a line that a lane transposes at a time
_RUN = 8  # bytes of K that it then writes side by side


class ColumnFeed(Feed):
    """Lines of memory have neighbouring rows of one column of K. They lie so in LDS too; transposing reads make fragments of them."""

    @property
    def transposes(self) -> bool:
        """Whether memory has the rows as columns."""
        return True

    def begin(self, matrix: ag.Matrix, first: ag.Reg) -> None:
        """Each half has lines of its own, which go down along K."""
        self.halves = [lines_from(self.k, matrix, first, half * self.rows, self.depth) for half in range(2)]
        if is_persistent(self.k.parameters) or self.k.parameters.get("scales") == "block":  # whose registers are few
            for one, other in (self.halves, self.halves[::-1]):
                one.like = other

    def take(self, tile: ag.Tile, cell: ag.SharedPart, wave: ag.WaveIndex) -> None:
        """The wave's part of a half that lies in a cell."""
        ag.read_transposed(self.k, tile, cell.part(None, wave))

    def refill(self, t: ag.StepIndex, half: int) -> None:
        """A half of an iteration gets its elements."""
        ag.fill(self.k, self.shared[t, half], self.halves[half].step(t))

    def fill_last(self, matrix: ag.Matrix, first: ag.Reg) -> None:
        """LDS gets the workgroup's rows of the lines that the matrix has, no more than those of a step, and zeros in place of the others:
        the descriptor ends with the last line."""
        for half in range(2):
            lines = lines_from(self.k, matrix, first, half * self.rows, self.depth)
            self._fill_half(half, ag.Rows(lines.matrix, 0, 0, self.depth))
            self.k.registers.release(*lines.own)

    def _fill_half(self, half: int, lines: ag.Rows) -> None:
        ag.fill(self.k, self.last(half), lines.k())


class TransposingFeed(ColumnFeed):
    """As `ColumnFeed`, through registers: a wave transposes its blocks of lines on their way to LDS, where rows lie as they are read."""

    def take(self, tile: ag.Tile, cell: ag.SharedPart, wave: ag.WaveIndex) -> None:
        """The wave's part of a half that lies in a cell."""
        Feed.take(self, tile, cell, wave)

    def refill(self, t: ag.StepIndex, half: int) -> None:
        """A half of an iteration gets what was loaded before, and the next iteration's lines are asked for."""
        k, held = self.k, self.staged[half]
        ag.change_layout(k, held, self.blocks.fragment, self.blocks, at=t)
        ag.write(k, self.shared[t, half].part(k.wave), ag.transposed(self.blocks))
        ag.load(k, held, self.halves[half].step(t + 1), columns=k.wave)

    def _fill_half(self, half: int, lines: ag.Rows) -> None:
        k, held = self.k, self.staged[half]
        ag.load(k, held, lines.k(), columns=k.wave)
        ag.change_layout(k, held, self.blocks.fragment, self.blocks)
        ag.write(k, self.last(half).part(k.wave), ag.transposed(self.blocks))


def deals_no_rows(k: ag.TileBuilder, side_name: str) -> bool:
    """Whether rows get to LDS, or to fragments, in the order of memory alone."""
    return k.arch == "gfx950" or k.variant.schedule == ELEMENTS or by_columns(k.parameters, side(k.parameters, side_name))


def order_of_b(k: ag.TileBuilder, fragment: ag.Fragment) -> tuple[Callable[[int], int] | None, ag.Fragment]:
    """Rows of B in an order that gives a lane eight neighbours of a row of D, and the `fragment` of D with them. For f32 four neighbours
    are 16 bytes already, and a wave that has one fragment of a half of B has no more."""
    own = k.variant.tile[1] // 2 // k.variant.waves[-1]
    if deals_no_rows(k, "b") or stored_type(k) == "f32" or own % (2 * fragment.columns):
        return None, fragment
    return ag.dealt(fragment, 2), ag.deep(fragment, 2)


def feed_of(k: ag.TileBuilder, side_name: str, name: str, fragment: ag.Fragment, edge: int, stages: int,
            deal: Callable[[int], int] | None = None) -> Feed:
    """The feed of a side of the product ("a" or "b") whose rows are read as `fragment`, of a tile of `edge` rows.

    `deal` is an order of rows that a feed through registers may give them.
    """
    depth, rows = k.variant.tile[2], edge // 2
    if k.variant.schedule == ELEMENTS:
        return element_feed(k, name, fragment, rows, stages)
    if not by_columns(k.parameters, side(k.parameters, side_name)):
        way = ag.Refills(k, fragment)
        ahead = way.steps_ahead(sum(k.variant.tile[:2]) * depth * fragment.bits / 8) if dict(k.variant.further).get("early") else 1
        staged = way.staged(f"R{name}", rows, depth, 2, ahead)
        shared = k.shared(f"{name}s", fragment.dtype, rows, depth, stages=stages, grid=(2,), serves=way.serves, pads=way.dma)
        return Feed(k, name, rows, depth, shared, staged, deal)
    if k.arch != "gfx950":
        return _transposing(k, name, fragment, rows, stages)
    shared = k.shared(f"{name}s", fragment.dtype, depth, rows, stages=stages, grid=(2,), serves=(ag.TransposedRead(fragment), ag.DmaFill()))
    return ColumnFeed(k, name, rows, depth, shared)


def _transposing(k: ag.TileBuilder, name: str, fragment: ag.Fragment, rows: int, stages: int) -> Feed:
    """Lanes have blocks of 8 bytes of K x 4 elements, as many lanes side by side as the wave's rows take."""
    depth, own, deep = k.variant.tile[2], rows // k.variant.wave_count, 8 * _RUN // fragment.bits
    across = max(own // _BLOCK, deep * ag.LANES // depth)
    lines, columns = (ag.block_fragment(fragment, deep, _BLOCK, across, order) for order in (False, True))
    staged = k.tile(f"R{name}", depth, own, lines, grid=(2,), note="on their way to LDS")
    key = "transposed blocks", depth, own, fragment.bits
    other = k.made.get(key) if k.variant.schedule == "ping-pong" else None  # a memory stage there transposes one side, and then writes it
    assert other is None or isinstance(other, ag.Tile)
    blocks = k.made[key] = k.tile(f"T{name}", depth, own, columns, note="transposed", shares=other)
    assert isinstance(blocks, ag.Tile)
    shared = k.shared(f"{name}s", fragment.dtype, rows, depth, stages=stages, grid=(2,),
                      serves=(ag.FragmentRead(fragment), ag.FragmentRead(columns.T, write=True)), pads=False)
    return TransposingFeed(k, name, rows, depth, shared, staged, None, (), blocks)


def lines_from(k: ag.TileBuilder, matrix: ag.Matrix, first: ag.Reg, further: int, depth: int) -> Descent:
    """The lines of a matrix from their element `first` + `further` on. Lines that have no such element show their last ones instead:
    nothing of it is used."""
    name = f"{matrix.name}{further or ''}"
    own: tuple[ag.Reg, ...]
    if k.arch == "gfx950" and is_persistent(k.parameters) and not all(by_columns(k.parameters, one) for one in "ab"):  # a descriptor's
        own = (k.registers.sgprs(4, k.registers.unused(f"{name}_lines"), align=4),)
        pointer, left = own[0][0:1], own[0][2]
    else:
        pointer = k.registers.sgprs(2, k.registers.unused(f"{name}_lines"), align=2)
        left = k.registers.sgprs(1, k.registers.unused(f"{name}_elements"), note="elements of a line from there on")
        own = pointer, left
    to_lines = partial(_to_lines, k, matrix, first, further)
    to_lines(pointer, left)
    lines = ag.Matrix(name, matrix.dtype, pointer, matrix.rows_register, left, matrix.stride, matrix.least, matrix.most)
    return Descent(lines, 0, 0, depth, own=own, to_first=to_lines)


def _to_lines(k: ag.TileBuilder, matrix: ag.Matrix, first: ag.Reg, further: int, pointer: ag.Reg, left: ag.Reg) -> None:
    """Where `lines_from` has its lines in the matrix as it lies now, and how many of their elements there are. Changes SCC."""
    size = matrix.bits // 8
    assert isinstance(matrix.columns_register, ag.Reg)
    with k.scratch("first_element", file="s") as at, k.scratch("last_line", file="s") as last:
        k.s_add_u32(at, first, further)
        k.s_sub_u32(last, matrix.columns_register, 1)
        k.s_and_b32(last, last, -(_WIDTH // size))
        k.s_min_u32(at, at, last)
        k.s_sub_u32(left, matrix.columns_register, at)
        k.s_mul_hi_u32(last, at, size)
        k.s_mul_i32(at, at, size)
        k.s_add_u32(pointer[0], matrix.pointer[0], at)
        k.s_addc_u32(pointer[1], matrix.pointer[1], last)
