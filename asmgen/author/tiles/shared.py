"""Shared tiles: rows x columns of one element type in LDS, in stages and cells, placed so that the declared accesses meet no conflict.

    As = shared(k, "As", "bf16", 128, 64, stages=2, grid=(2,), serves=(M.a,))
    As[t + 1, 1]                # cell 1 of the stage of the next step
    As[t, 0].part(wm)           # its rows for this wave: the part number wm of wm.count equal parts

Each stage of each cell is one range of the LDS map, and one token.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from asmgen.author.address.addressing import WaveIndex
from asmgen.author.emit.ldsmap import LdsRange
from asmgen.author.step.iterations import StepIndex
from asmgen.author.tiles.swizzles import Access, choose
from asmgen.author.tiles.tiles import TileError, split_index
from asmgen.isa.layouts_mfma import element_bits
from asmgen.isa.placement import Placement
from asmgen.isa.records import dataclass

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
class SharedPart:
    """A cell of a shared tile, or the part of its rows that belongs to a wave."""

    tile: SharedTile
    number: int
    index: StepIndex | None = None
    wave: WaveIndex | None = None

    @property
    def rows(self) -> int:
        """Rows of the part."""
        return self.tile.rows if self.wave is None else self.tile.rows // self.wave.count

    @property
    def range(self) -> LdsRange:
        """The bytes of the whole cell, and their token."""
        return self.tile.ranges[self.number]

    def part(self, wave: WaveIndex) -> SharedPart:
        """The rows of this wave. Raises TileError where they are no equal whole parts."""
        if self.wave is not None or self.tile.rows % wave.count:
            raise TileError(f"{self.tile} is not cut into {wave.count} equal parts of rows")
        return SharedPart(self.tile, self.number, self.index, wave)

    def __str__(self) -> str:
        return f"{self.range.name}{f'.part({self.wave.name})' if self.wave is not None else ''}"


def shared(k: Builder, lds: LdsMap, name: str, dtype: str, rows: int, columns: int, stages: int = 1, grid: Sequence[int] = (),
           serves: Sequence[Access] = (), placement: Placement | None = None, pads: bool = True) -> SharedTile:
    """A shared tile placed by the solver for what it serves (or as given), with its ranges taken from the LDS map; without `pads` where
    LDS has no room for any.

    Raises TileError where no placement is free of conflicts, with the best one and the accesses that collide, and AsmgenError where LDS
    is full.
    """
    chosen = placement if placement is not None else choose(k.arch, name, rows, columns, element_bits(dtype), serves, pads)
    ranges = []
    for stage in range(stages):
        for cell in itertools.product(*map(range, grid)):
            label = "".join(f"[{number}]" for number in ((stage, *cell) if stages > 1 else cell))
            ranges.append(lds.take(f"{name}{label}", chosen.size))
    return SharedTile(name, dtype, rows, columns, stages, tuple(grid), chosen, tuple(ranges))

