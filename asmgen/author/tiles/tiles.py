"""Register tiles: rows x columns of one element type over pinned or pooled registers, cut into the fragments of a matrix instruction.

A tile of 64 x 64 bf16 of the fragment v_mfma_f32_16x16x32_bf16 a is 4 x 2 fragments, row after row, each of 4 registers of the set.
A `TileGrid` is several equal tiles under one name: `C[1, 0]` of a grid of 2 x 2, `R[t + 1]` of one with stages, `R[t + 1, 0]` of both.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import field
from functools import cached_property
from typing import Any

from asmgen.author.tiles.fragments import Fragment
from asmgen.isa.errors import AsmgenError
from asmgen.isa.records import dataclass
from asmgen.isa.registers import Reg
from asmgen.regalloc.phased import Phased
from asmgen.regalloc.ranges import author_line
from asmgen.regalloc.sets import RegisterSet, phased_sets


class TileError(AsmgenError):
    """Tiles do not fit each other, an instruction, or the hardware: the sentence says what would. `where` is the author's line if not
    given."""

    def __init__(self, sentence: str, where: str = "") -> None:
        super().__init__(sentence, where or author_line())


@dataclass(frozen=True)
class Tile:
    """One register tile. `index` is the step that it belongs to, where it was picked out of stages by one (see `pipeline`)."""

    name: str
    rows: int
    columns: int
    fragment: Fragment
    registers: RegisterSet
    index: Any = None

    @property
    def dtype(self) -> str:
        """The element type."""
        return self.fragment.dtype

    @property
    def down(self) -> int:
        """Fragments along the rows."""
        return self.rows // self.fragment.rows

    @property
    def across(self) -> int:
        """Fragments along the columns."""
        return self.columns // self.fragment.columns

    def base(self, row: int, column: int) -> Reg:
        """The registers of fragment (row, column)."""
        return self.bases[row * self.across + column]

    @cached_property
    def bases(self) -> tuple[Reg, ...]:
        """The registers of each fragment, row after row."""
        size = self.fragment.registers
        return tuple(self.registers.operand(number * size, size) for number in range(self.down * self.across))

    def positions(self) -> Iterator[tuple[int, int]]:
        """(row, column) of each fragment, row after row."""
        return itertools.product(range(self.down), range(self.across))

    def part(self, row: int, column: int, rows: int, columns: int) -> Tile:
        """The tile of `rows` x `columns` elements from (row, column) on, over the same registers.

        Raises TileError where that cuts a fragment.
        """
        f = self.fragment
        if row % f.rows or rows % f.rows or column % f.columns or columns % f.columns or rows < 1 or columns < 1 \
                or row + rows > self.rows or column + columns > self.columns:
            raise TileError(f"{rows} x {columns} elements from ({row}, {column}) on are no part of {self}: fragments are "
                            f"{f.rows} x {f.columns}")
        chosen = [self.base(r, c) for r in range(row // f.rows, (row + rows) // f.rows)
                  for c in range(column // f.columns, (column + columns) // f.columns)]
        return Tile(f"{self.name}[{row}:{row + rows - 1}, {column}:{column + columns - 1}]", rows, columns, f, RegisterSet(tuple(chosen)),
                    self.index)

    def __str__(self) -> str:
        return f"{self.name} ({self.rows} x {self.columns} {self.dtype})"


def tile_registers(rows: int, columns: int, fragment: Fragment, name: str) -> int:
    """How many registers a tile takes. Raises TileError for a shape that is no whole number of fragments."""
    if rows < 1 or columns < 1 or rows % fragment.rows or columns % fragment.columns:
        near = f"{-(-rows // fragment.rows) * fragment.rows} x {-(-columns // fragment.columns) * fragment.columns}"
        raise TileError(f"tile {name} of {rows} x {columns} is cut into fragments of {fragment.rows} x {fragment.columns} "
                        f"({fragment}); the next larger one is {near}")
    return rows // fragment.rows * (columns // fragment.columns) * fragment.registers


@dataclass(frozen=True)
class TileGrid:
    """Equal tiles under one name: `stages` of them take turns by step, times the cells of `shape`.

    Index with the step first where there are stages (`R[t + 1, 0]`), then the cell.
    """

    name: str
    shape: tuple[int, ...]
    stages: int
    tiles: tuple[Tile, ...] = field(repr=False)
    _made: dict[tuple[int, ...], RegisterSet | None] = field(default_factory=dict, repr=False)

    def __getitem__(self, key: Any) -> Tile:
        """One tile. Raises TileError for an index that does not fit."""
        keys = key if isinstance(key, tuple) else (key,)
        step, cell = split_index(self.name, keys, self.stages, self.shape)
        number: Any = step.buffer(self.stages) if step is not None else 0
        for size, position in zip(self.shape, cell, strict=True):
            number = number * size + position
        registers = self._phased(number.values) if isinstance(number, Phased) else None
        tile: Tile = self.tiles[number if registers is None else number.values[0]]
        if step is None:
            return tile
        name = f"{self.name}{''.join(f'[{one}]' for one in (step, *cell))}" if self.stages > 1 else tile.name
        return Tile(name, tile.rows, tile.columns, tile.fragment, registers or tile.registers, step)

    def _phased(self, numbers: tuple[int, ...]) -> RegisterSet | None:
        if numbers not in self._made:
            self._made[numbers] = phased_sets([self.tiles[number].registers for number in numbers])
        return self._made[numbers]

    def __iter__(self) -> Iterator[Tile]:
        return iter(self.tiles)


def split_index(name: str, keys: tuple[Any, ...], stages: int, shape: tuple[int, ...]) -> tuple[Any, tuple[int, ...]]:
    """(step or None, cell) of an index. Raises TileError, with the form that is wanted."""
    step = None
    wanted = ", ".join([*(["t"] if stages > 1 else []), *(f"0..{size - 1}" for size in shape)])
    if keys and hasattr(keys[0], "buffer"):
        step, keys = keys[0], keys[1:]
    elif stages > 1:
        raise TileError(f"{name} has {stages} stages: index it with the step first, {name}[{wanted}]")
    if len(keys) != len(shape) or any(not isinstance(position, int) or not 0 <= position < size
                                      for position, size in zip(keys, shape, strict=False)):
        raise TileError(f"{name}[{', '.join(map(str, keys))}] does not exist; it is indexed {name}[{wanted}]")
    return step, tuple(keys)
