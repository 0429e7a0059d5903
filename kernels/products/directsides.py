"""One side of a product on its way from memory straight to fragments, by its layout.

A side that is stored by columns has lines of neighbouring rows. A lane loads of each k that its fragments have as many neighbours as it has
fragments: 16 lanes side by side load a line of the tile. So fragment f has rows f, f + count, f + 2 count and so on of the tile, and one
v_perm_b32 makes a register of two k of one row (two and an or for 8-bit elements). The sums have their rows in that order; they are put in
order on their way to LDS (`sums_in_order`).
A line of the tile has at least a dword for each of them (`layouts.LEAST_LINE`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import asmgen as ag
from asmgen.kernels.products.descent import Descent
from asmgen.kernels.products.feeds import lines_from
from asmgen.kernels.products.layouts import by_columns
from asmgen.kernels.products.sides import side

_ROWS = 16  # of a fragment


@dataclass
class DirectSide:
    """A side that is stored by rows: `held` are its fragments, in stages. `edge` are its rows in a tile."""

    k: ag.TileBuilder
    name: str
    edge: int
    fragment: ag.Fragment
    held: Any
    source: ag.Rows | None = None

    @property
    def dealt(self) -> bool:
        """Whether fragments have rows that are no neighbours."""
        return False

    def begin(self, matrix: ag.Matrix, first: ag.Reg) -> None:
        """The workgroup's rows are those from `first` on."""
        self.source = matrix.rows(first, self.edge)

    def load(self, t: ag.StepIndex) -> None:
        """Ask for an iteration."""
        assert self.source is not None
        ag.load(self.k, self.held[t], self.source.k(t))

    def fragments(self, t: ag.StepIndex) -> ag.Tile:
        """What a product takes of an iteration."""
        found: ag.Tile = self.held[t]
        return found

    def last(self, matrix: ag.Matrix, first: ag.Reg, left: ag.Reg) -> ag.Tile:
        """The `left` columns of K that a matrix has, and zeros up to those of a step."""
        tile = self.k.tile(f"{self.name}_left", self.edge, self.k.variant.tile[2], self.fragment, note="columns after the last whole step")
        assert isinstance(tile, ag.Tile)
        ag.load(self.k, tile, matrix.rows(first, tile.rows), limit=left)
        return tile


@dataclass
class DirectLines(DirectSide):
    """A side that is stored by columns: `held` are lines, which become fragments in `made`."""

    made: ag.Tile | None = field(default=None)

    @property
    def dealt(self) -> bool:
        """Whether fragments have rows that are no neighbours."""
        return True

    def begin(self, matrix: ag.Matrix, first: ag.Reg) -> None:
        """The workgroup's lines go down along K."""
        self.source = lines_from(self.k, matrix, first, 0, self.k.variant.tile[2])

    def load(self, t: ag.StepIndex) -> None:
        """Ask for an iteration."""
        assert isinstance(self.source, Descent)
        ag.load(self.k, self.held[t], self.source.step(t))

    def fragments(self, t: ag.StepIndex) -> ag.Tile:
        """What a product takes of an iteration."""
        assert self.made is not None
        return self._of_lines(self.held[t], self.made, t)

    def last(self, matrix: ag.Matrix, first: ag.Reg, left: ag.Reg) -> ag.Tile:
        """The lines that a matrix has, as fragments: the descriptor ends with the last one."""
        k, depth, count = self.k, self.k.variant.tile[2], self.edge // _ROWS
        lines = lines_from(k, matrix, first, 0, depth)
        tile = k.tile(f"{self.name}_lines_left", depth, self.edge, _lines(self.fragment, count), note="lines after the last whole step")
        ag.load(k, tile, ag.Rows(lines.matrix, 0, 0, depth).k())
        k.registers.release(*lines.own)
        made = k.tile(f"{self.name}_left", depth, self.edge, _lines(self.fragment, count, True), note="columns after the last whole step")
        assert isinstance(tile, ag.Tile) and isinstance(made, ag.Tile)
        found = self._of_lines(tile, made, None)
        k.registers.release(f"{self.name}_lines_left")
        return found

    def _of_lines(self, lines: ag.Tile, made: ag.Tile, t: ag.StepIndex | None) -> ag.Tile:
        f, count = self.fragment, self.edge // _ROWS
        ag.change_layout(self.k, lines, made.fragment, made, at=t)
        size = f.registers
        parts = [made.base(depth, 0)[number * size:(number + 1) * size - 1] for number in range(count) for depth in range(made.down)]
        return ag.Tile(made.name, self.edge, made.rows, f, ag.RegisterSet(tuple(parts)), t)


def direct_side(k: ag.TileBuilder, name: str, edge: int, fragment: ag.Fragment, stages: int) -> DirectSide:
    """A side ("a" or "b") of `edge` rows of a tile, in such fragments and so many stages."""
    depth, called = k.variant.tile[2], name.upper()
    if not by_columns(k.parameters, side(k.parameters, name)):
        return DirectSide(k, called, edge, fragment, k.tile(called, edge, depth, fragment, stages=stages))
    count = edge // _ROWS
    held = k.tile(called, depth, edge, _lines(fragment, count), stages=stages, note="lines of memory")
    made = k.tile(f"{called}_rows", depth, edge, _lines(fragment, count, True), note="fragments of a step")
    assert isinstance(made, ag.Tile)
    return DirectLines(k, called, edge, fragment, held, made=made)


def _lines(fragment: ag.Fragment, count: int, by_rows: bool = False) -> ag.Fragment:
    """`count` fragments of an operand, seen as lines k of memory: a lane's items are the neighbours of a line, line after line; or
    `by_rows`, in the order in which the fragments have them."""
    def place(k: int, number: int) -> list[tuple[int, int]]:
        return [(at, row * count + number) for row, at in fragment.table[k]]

    numbers, depths = range(count), range(fragment.items)
    table = tuple(tuple(place(k, number)) for number in numbers for k in depths) if by_rows else \
        tuple(tuple(place(k, number)) for k in depths for number in numbers)
    return ag.Fragment(fragment.row, f"lines of {fragment.operand}", fragment.dtype, fragment.columns, fragment.rows * count,
                       ag.linear_layout(table, fragment.columns, fragment.rows * count), fragment.registers * count)


def sums_fragment(k: ag.TileBuilder, fragment: ag.Fragment, sides: tuple[DirectSide, DirectSide]) -> ag.Fragment:
    """How a wave writes its sums to LDS: in fragments of accumulators, or, where rows are dealt to them, all in order of the tile."""
    return _whole(k, fragment, sides, True) if any(one.dealt for one in sides) else fragment


def sums_in_order(k: ag.TileBuilder, C: ag.Tile, sides: tuple[DirectSide, DirectSide]) -> ag.Tile:
    """A wave's sums with its elements in order of rows and columns of the tile. Where rows are dealt, they are moved."""
    if not any(one.dealt for one in sides):
        return C
    held = ag.Tile(C.name, C.rows, C.columns, _whole(k, C.fragment, sides, False), C.registers)
    ordered = k.tile("C_in_order", C.rows, C.columns, _whole(k, C.fragment, sides, True), note="sums on their way to LDS")
    assert isinstance(ordered, ag.Tile)
    ag.change_layout(k, held, ordered.fragment, ordered)
    return ordered


def _whole(k: ag.TileBuilder, fragment: ag.Fragment, sides: tuple[DirectSide, DirectSide], ordered: bool) -> ag.Fragment:
    """All accumulators of a tile as one fragment, in the order of registers or of places."""
    tm, tn, _ = k.variant.tile
    down, across = tm // fragment.rows, tn // fragment.columns

    def of(one: DirectSide, size: int, count: int) -> Callable[[int, int], int]:
        return (lambda number, at: at * count + number) if one.dealt else (lambda number, at: number * size + at)

    row_of, column_of = of(sides[0], fragment.rows, down), of(sides[1], fragment.columns, across)
    table = [tuple((row_of(i, row), column_of(j, column)) for row, column in line)
             for i in range(down) for j in range(across) for line in fragment.table]
    if ordered:
        table.sort(key=lambda line: line[0])
    return ag.Fragment(fragment.row, "sums", fragment.dtype, tm, tn, ag.linear_layout(tuple(table), tm, tn),
                       fragment.registers * down * across)
