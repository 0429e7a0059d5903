"""Row and column vectors: one f32 for each row (or column) of a tile, in the lanes that hold that row, as reductions leave it.

    m = column_vector(k, "m", S)       # one value a column of S, in as few registers as S's lanes hold different columns
    column_max(k, m, S)
    sub(k, P, S, m)                    # every element minus its column's value

A vector fits every tile whose lanes hold the same rows (or columns), whatever the tile's other extent.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from asmgen.author.tiles.fragments import Fragment
from asmgen.author.tiles.tiles import Tile, TileError
from asmgen.isa.arch import LANES
from asmgen.isa.registers import Reg
from asmgen.regalloc.sets import RegisterSet

if TYPE_CHECKING:
    from asmgen.author.builders.tilebuilder import TileBuilder

AXES = ("row", "column")


@functools.cache
def profile(fragment: Fragment, axis: str) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """(class of each item, coordinate by lane of each class): items of a class have one row (or column) in every lane."""
    position = AXES.index(axis)
    classes: dict[tuple[int, ...], int] = {}
    numbers = [classes.setdefault(tuple(at[position] for at in line), len(classes)) for line in fragment.table]
    return tuple(numbers), tuple(classes)


@dataclass(frozen=True)
class Vector:
    """One f32 for each row (axis "row") or column of a tile; `registers` go by fragment, then by class of `profile`."""

    name: str
    axis: str
    size: int
    fragment: Fragment
    registers: RegisterSet
    index: Any = None

    @property
    def per(self) -> int:
        """Registers for each fragment along the axis."""
        return len(self._coordinates)

    @functools.cached_property
    def _coordinates(self) -> tuple[tuple[int, ...], ...]:
        """By register of a fragment, the coordinate of each lane."""
        return profile(self.fragment, self.axis)[1]

    def fits(self, fragment: Fragment, size: int) -> bool:
        """Whether a tile of `size` rows (columns) of that fragment has its rows in the lanes where this vector has them."""
        return self.size == size and set(self._coordinates) == set(profile(fragment, self.axis)[1])

    def of(self, tile: Tile, row: int, column: int, item: int) -> Reg:
        """The register that goes with an item of fragment (row, column) of a tile that it fits."""
        numbers, coordinates = profile(tile.fragment, self.axis)
        position = self._coordinates.index(coordinates[numbers[item]])
        return self.registers.items[(row if self.axis == "row" else column) * self.per + position]

    @functools.cached_property
    def shared_lanes(self) -> tuple[int, ...]:
        """The bits of a lane's number that do not matter: lanes that differ in them hold the same rows."""
        coordinates = self._coordinates
        return tuple(bit for bit in range(LANES.bit_length() - 1)
                     if all(line[lane] == line[lane ^ 1 << bit] for line in coordinates for lane in range(LANES)))

    def __str__(self) -> str:
        return f"{self.name} ({self.size} {self.axis}s)"


def row_vector(k: TileBuilder, name: str, like: Tile, at: Reg | Sequence[Reg] | None = None, apart: bool = False) -> Vector:
    """A value for each row of tiles like that one, pinned `at` registers or from the pool. Raises TileError or PlanError.

    `apart`: each register from the pool is the even one of a pair of its own, so that packed instructions of gfx950 too take it twice;
    the odd ones are cleared at once.
    """
    return _vector(k, name, "row", like, at, apart)


def column_vector(k: TileBuilder, name: str, like: Tile, at: Reg | Sequence[Reg] | None = None, apart: bool = False) -> Vector:
    """A value for each column of tiles like that one, as `row_vector`."""
    return _vector(k, name, "column", like, at, apart)


def _vector(k: TileBuilder, name: str, axis: str, like: Tile, at: Reg | Sequence[Reg] | None, apart: bool) -> Vector:
    held: Reg | RegisterSet
    size, f = (like.rows, like.fragment.rows) if axis == "row" else (like.columns, like.fragment.columns)
    count = size // f * len(profile(like.fragment, axis)[1])
    if at is None and apart:
        pairs = k.registers.vgprs(2 * count, name, align=2, note="the even ones, which packed instructions take twice")
        held = RegisterSet(tuple(pairs[number:number] for number in range(0, 2 * count, 2)))
        for number in range(1, 2 * count, 2):
            k.v_mov_b32(pairs[number], 0)  # a pair is read as a whole, though only half of it counts
    elif at is None:
        # Whole, and at an even register, so that packed instructions can name its pairs.
        held = k.registers.vgprs(count, name)
    else:
        held = k.registers.pin(name, at if isinstance(at, Reg) else tuple(at))
    registers = held if isinstance(held, RegisterSet) else RegisterSet((held,))
    if registers.count != count:
        raise TileError(f"vector {name} of {like} takes {count} registers, one for each of the lanes' {axis}s, not {registers.count}",
                        k.here())
    return Vector(name, axis, size, like.fragment, registers)
