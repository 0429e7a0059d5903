"""Shared tiles: rows x columns of one element type in LDS, in stages and cells, placed so that the declared accesses meet no conflict.

    As = shared(k, "As", "bf16", 128, 64, stages=2, grid=(2,), serves=(M.a,))
    As[t + 1, 1]                # cell 1 of the stage of the next step
    As[t, 0].part(wm)           # its rows for this wave: the part number wm of wm.count equal parts
    As[t, 0].part(wm, wn)       # rows and columns
    Ks[()].part(PartOf(16, first=4 * b, wave=k.wave))   # part 4 b + wave of 16; without a wave a constant one

Each stage of each cell is one range of the LDS map, and one token.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from asmgen.author.address.addressing import WaveIndex
from asmgen.author.emit.ldsmap import LdsRange
from asmgen.author.step.iterations import StepIndex
from asmgen.author.tiles.placementsearch import choose
from asmgen.author.tiles.swizzles import Access
from asmgen.author.tiles.tiles import TileError, split_index
from asmgen.isa.layouts_mfma import element_bits
from asmgen.isa.placement import Placement
from asmgen.isa.records import dataclass
from asmgen.regalloc.phased import Phased

if TYPE_CHECKING:
    from asmgen.author.emit.builder import Builder
    from asmgen.author.emit.ldsmap import LdsMap


@dataclass(frozen=True, eq=False)
class SharedTile:
    """One shared tile: `placement` says where an element of a cell lies, `ranges` where each (stage, cell) begins, cells innermost."""

    name: str
    dtype: str
    rows: int
    columns: int
    stages: int
    shape: tuple[int, ...]
    placement: Placement
    ranges: tuple[LdsRange, ...]
    of: str = ""  # the type of 4 or 6 bits whose bytes it holds

    @property
    def bits(self) -> int:
        """Bits of an element."""
        return element_bits(self.dtype)

    @property
    def lows(self) -> tuple[int, ...]:
        """The first byte of each range."""
        return tuple(item.low for item in self.ranges)

    def __getitem__(self, key: Any) -> SharedPart:
        """The cell of a step. Raises TileError for an index that does not fit."""
        step, cell = split_index(self.name, key if isinstance(key, tuple) else (key,), self.stages, self.shape)
        number = step.buffer(self.stages) if step is not None else 0
        for size, position in zip(self.shape, cell, strict=True):
            number = number * size + position
        return SharedPart(self, number, step)

    def __str__(self) -> str:
        return f"{self.name} ({self.rows} x {self.columns} {self.dtype} in LDS)"


@dataclass(frozen=True)
class PartOf:
    """One of `count` equal parts of the rows (or columns) of a shared tile: number `first` + `every` times the wave's number, or number
    `first` for all waves. A part is rows side by side, or, where `strided`, row number n, n + count, n + 2 count, ..."""

    count: int
    first: int = 0
    wave: WaveIndex | None = None
    every: int = 1
    strided: bool = False
    run: int = 1

    @property
    def last(self) -> int:
        """The largest number."""
        return self.first + (self.every * (self.wave.count - 1) if self.wave is not None else 0)

    def at(self, position: int, size: int, waves: Mapping[str, int]) -> int:
        """The row of a tile that is number `position` of the part, of `size` rows, for the wave's number among `waves`."""
        number = self.first + (self.every * waves[self.wave.name] if self.wave is not None else 0)
        if not self.strided:
            return number * size + position
        runs, rest = divmod(position, self.run)
        return (runs * self.count + number) * self.run + rest

    def __str__(self) -> str:
        plain = self.wave is not None and (self.count, self.first, self.every) == (self.wave.count, 0, 1)
        number = " + ".join([*([str(self.first)] if self.first or self.wave is None else []),
                             *([f"{self.every} {self.wave.name}" if self.every != 1 else self.wave.name] if self.wave is not None else [])])
        return f"{number if plain else f'{number} of {self.count}'}{', strided' if self.strided else ''}" \
            f"{f' by {self.run}' if self.run > 1 else ''}"


_WHOLE = PartOf(1)


@dataclass(frozen=True)
class SharedPart:
    """A cell of a shared tile, or the part of its rows and columns that belongs to a wave. With stages the number of the cell takes
    turns."""

    tile: SharedTile
    number: int | Phased
    index: StepIndex | None = None
    of_rows: PartOf = _WHOLE
    of_columns: PartOf = _WHOLE

    @property
    def rows(self) -> int:
        """Rows of the part."""
        return self.tile.rows // self.of_rows.count

    @property
    def columns(self) -> int:
        """Columns of the part."""
        return self.tile.columns // self.of_columns.count

    @property
    def range(self) -> Any:
        """The bytes of the whole cell, and their token: an `LdsRange`, which takes turns with stages."""
        return self.by_number(self.tile.ranges.__getitem__)

    def by_number(self, of: Callable[[int], Any]) -> Any:
        """A function of the cell's number; with stages it takes turns."""
        return self.number.map(of) if isinstance(self.number, Phased) else of(self.number)

    @property
    def waves(self) -> tuple[WaveIndex, ...]:
        """The numbers of waves that decide which part it is."""
        named = {part.wave.name: part.wave for part in (self.of_rows, self.of_columns) if part.wave is not None}
        return tuple(named.values())

    def element(self, row: int, column: int, waves: Mapping[str, int]) -> tuple[int, int]:
        """(row, column) of the tile for one of the part, in the wave with those numbers."""
        return self.of_rows.at(row, self.rows, waves), self.of_columns.at(column, self.columns, waves)

    def part(self, rows: WaveIndex | PartOf | None = None, columns: WaveIndex | PartOf | None = None) -> SharedPart:
        """The rows, and the columns, of this wave, or of a `PartOf`. Raises TileError where they are no equal whole parts."""
        down = self._cut("rows", self.tile.rows, rows, self.of_rows)
        across = self._cut("columns", self.tile.columns, columns, self.of_columns)
        one, other = down.wave, across.wave
        if one is not None and other is not None and one.name == other.name and one != other:
            raise TileError(f"{self.tile}: its rows and its columns are cut by two numbers of the name {one.name}")
        return SharedPart(self.tile, self.number, self.index, down, across)

    def _cut(self, axis: str, size: int, part: WaveIndex | PartOf | None, before: PartOf) -> PartOf:
        if part is None:
            return before
        one = PartOf(part.count, wave=part) if isinstance(part, WaveIndex) else part
        if before != _WHOLE or one.count < 1 or size % (one.count * one.run if one.strided else one.count):
            raise TileError(f"{self.tile} is not cut into {one.count} equal parts of {axis}")
        if not 0 <= one.first <= one.last < one.count:
            raise TileError(f"{self.tile}: its {axis} have parts 0 to {one.count - 1}, and part({one}) goes from {one.first} to {one.last}")
        return one

    def __str__(self) -> str:
        cut = ", ".join(f"{name}{part}" for name, part in (("", self.of_rows), ("columns=", self.of_columns)) if part != _WHOLE)
        if isinstance(self.number, Phased):
            stage, *cell = self.tile.ranges[self.number.values[0]].name.removeprefix(self.tile.name)[1:-1].split("][")
            name = self.tile.name + "".join(f"[{one}]" for one in (self.index or stage, *cell))
        else:
            name = self.tile.ranges[self.number].name
        return f"{name}{f'.part({cut})' if cut else ''}"


def shared(k: Builder, lds: LdsMap, name: str, dtype: str, rows: int, columns: int, stages: int = 1, grid: Sequence[int] = (),
           serves: Sequence[Access] = (), placement: Placement | None = None, pads: bool = True,
           of: str = "", conflicts: int = 0) -> SharedTile:
    """A shared tile placed by the solver for what it serves (or as given), with its ranges taken from the LDS map; without `pads` where
    LDS has no room for any. `conflicts` are cycles that they may cost where none is free (`choose`).

    Raises TileError where no placement is free of conflicts, with the best one and the accesses that collide, and AsmgenError where LDS
    is full.
    """
    chosen = placement if placement is not None else choose(k.arch, name, rows, columns, element_bits(dtype), serves, pads,
                                                                conflicts)
    ranges = []
    for stage in range(stages):
        for cell in itertools.product(*map(range, grid)):
            label = "".join(f"[{number}]" for number in ((stage, *cell) if stages > 1 else cell))
            ranges.append(lds.take(f"{name}{label}", chosen.size))
    return SharedTile(name, dtype, rows, columns, stages, tuple(grid), chosen, tuple(ranges), of)

