"""Row and column vectors: one number for each row (or column) of a tile, in the lanes that hold that row, as reductions leave it.

    m = column_vector(k, "m", S)       # one value a column of S, in as few registers as S's lanes hold different columns
    column_max(k, m, S)
    sub(k, P, S, m)                    # every element minus its column's value
    load(k, lse[t + 1], line.k(t + 1)) # of row_vector(k, "lse", S, stages=2), from memory; `read` takes one from LDS

A vector fits every tile whose lanes hold the same rows (or columns), whatever the tile's other extent. Movement and conversion see it as
a tile of one row (`Vector.tile`), of which several lanes hold the same elements.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, overload

from asmgen.author.tiles.fragments import Fragment
from asmgen.author.tiles.tiles import Tile, TileError, split_index
from asmgen.author.tiles.views import linear_layout
from asmgen.isa.arch import LANES
from asmgen.isa.layouts_mfma import element_bits
from asmgen.isa.placement import Packing
from asmgen.isa.registers import Reg
from asmgen.regalloc.phased import Phased
from asmgen.regalloc.sets import RegisterSet, join, phased_sets

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


@functools.cache
def line_fragment(fragment: Fragment, axis: str, dtype: str) -> Fragment:
    """A vector's elements of one fragment as a tile of one row: each lane holds those of its rows (columns), so several lanes hold the
    same ones."""
    classes = profile(fragment, axis)[1]
    size = fragment.rows if axis == "row" else fragment.columns
    layout = linear_layout(tuple(tuple((0, at) for at in line) for line in classes), 1, size)
    return Fragment(fragment.row, f"{axis}s of {fragment.operand}", dtype, 1, size, layout,
                    Packing(element_bits(dtype)).registers(len(classes)))


@dataclass(frozen=True)
class Vector:
    """One number for each row (axis "row") or column of a tile; `registers` go by fragment, then by class of `profile`."""

    name: str
    axis: str
    size: int
    fragment: Fragment
    registers: RegisterSet
    index: Any = None
    dtype: str = "f32"

    @property
    def per(self) -> int:
        """Registers for each fragment along the axis."""
        return Packing(element_bits(self.dtype)).registers(len(self._coordinates))

    @property
    def tile(self) -> Tile:
        """The vector as a tile of one row, in the same registers."""
        return Tile(self.name, 1, self.size, line_fragment(self.fragment, self.axis, self.dtype), self.registers, self.index)

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


@dataclass(frozen=True)
class VectorGrid:
    """Equal vectors that take turns by step: `lse[t + 1]`."""

    name: str
    vectors: tuple[Vector, ...]

    def __getitem__(self, key: Any) -> Vector:
        """That of a step. Raises TileError for anything but a step."""
        step, _ = split_index(self.name, (key,), len(self.vectors), ())
        number: Any = 0 if step is None else step.buffer(len(self.vectors))
        registers = phased_sets([self.vectors[one].registers for one in number.values]) if isinstance(number, Phased) else None
        chosen: Vector = self.vectors[number.values[0] if registers is not None else number]
        return replace(chosen, index=step, registers=registers or chosen.registers)


@overload
def row_vector(k: TileBuilder, name: str, like: Tile, at: Reg | Sequence[Reg] | None = None, apart: bool = False, dtype: str = "f32") \
    -> Vector: ...


@overload
def row_vector(k: TileBuilder, name: str, like: Tile, at: Reg | Sequence[Reg] | None = None, apart: bool = False, dtype: str = "f32",
               *, stages: int) -> VectorGrid: ...


def row_vector(k: TileBuilder, name: str, like: Tile, at: Reg | Sequence[Reg] | None = None, apart: bool = False, dtype: str = "f32",
               *, stages: int | None = None) -> Vector | VectorGrid:
    """A value for each row of tiles like that one, pinned `at` registers or from the pool. Raises TileError or PlanError.

    `apart`: each register from the pool is the even one of a pair of its own, so that packed instructions of gfx950 too take it twice;
    the odd ones are cleared at once. `dtype`: mathematics takes f32 and i32; elements of 8 and 16 bits are packed, for movement and
    `convert`. With `stages` the vectors take turns by step.
    """
    return _vectors(k, name, "row", like, at, apart, dtype, stages)


@overload
def column_vector(k: TileBuilder, name: str, like: Tile, at: Reg | Sequence[Reg] | None = None, apart: bool = False, dtype: str = "f32") \
    -> Vector: ...


@overload
def column_vector(k: TileBuilder, name: str, like: Tile, at: Reg | Sequence[Reg] | None = None, apart: bool = False, dtype: str = "f32",
                  *, stages: int) -> VectorGrid: ...


def column_vector(k: TileBuilder, name: str, like: Tile, at: Reg | Sequence[Reg] | None = None, apart: bool = False, dtype: str = "f32",
                  *, stages: int | None = None) -> Vector | VectorGrid:
    """A value for each column of tiles like that one, as `row_vector`."""
    return _vectors(k, name, "column", like, at, apart, dtype, stages)


def as_vector(tile: Tile, axis: str, like: Tile) -> Vector:
    """The registers of a tile of one row as a vector of tiles like that one. Raises TileError where other lanes hold the elements."""
    f = line_fragment(like.fragment, axis, tile.dtype)
    size = like.rows if axis == "row" else like.columns
    if (tile.rows, tile.columns) != (1, size) or not tile.fragment.same_coordinates(f):
        raise TileError(f"{tile} is no {axis} vector of {like}: that has 1 x {size} elements in fragments {f}")
    return Vector(tile.name, axis, size, like.fragment, tile.registers, tile.index, tile.dtype)


def _vectors(k: TileBuilder, name: str, axis: str, like: Tile, at: Reg | Sequence[Reg] | None, apart: bool, dtype: str,
             stages: int | None) -> Vector | VectorGrid:
    size, f = (like.rows, like.fragment.rows) if axis == "row" else (like.columns, like.fragment.columns)
    count = size // f * Packing(element_bits(dtype)).registers(len(profile(like.fragment, axis)[1]))
    # In each stage registers are as even as in the others, so that the same instructions take them.
    own = count + count % 2 if stages is not None and at is None and not apart else count
    held = _registers(k, name, own * (stages or 1), at, apart, like)
    parts = [RegisterSet(join(held[number * own:number * own + count])) for number in range(stages or 1)]
    for spare in held[count::own] if own > count else ():
        k.v_mov_b32(spare, 0)  # a pair is read as a whole, though only half of it counts
    if stages is None:
        return Vector(name, axis, size, like.fragment, parts[0], dtype=dtype)
    return VectorGrid(name, tuple(Vector(f"{name}[{number}]", axis, size, like.fragment, part, dtype=dtype)
                                    for number, part in enumerate(parts)))


def _registers(k: TileBuilder, name: str, count: int, at: Reg | Sequence[Reg] | None, apart: bool, like: Tile) -> tuple[Reg, ...]:
    if at is not None:
        pinned = k.registers.pin(name, at if isinstance(at, Reg) else tuple(at))
        held = pinned if isinstance(pinned, RegisterSet) else RegisterSet((pinned,))
        if held.count != count:
            raise TileError(f"vector {name} of {like} takes {count} registers, for each stage one for each row or column of a lane, "
                            f"not {held.count}", k.here())
        return tuple(held.items)
    if not apart:
        # Whole, and at an even register, so that packed instructions can name its pairs.
        whole = k.registers.vgprs(count, name)
        return tuple(whole[number:number] for number in range(count))
    pairs = k.registers.vgprs(2 * count, name, align=2, note="the even ones, which packed instructions take twice")
    for number in range(1, 2 * count, 2):
        k.v_mov_b32(pairs[number], 0)  # a pair is read as a whole, though only half of it counts
    return tuple(pairs[number:number] for number in range(0, 2 * count, 2))
