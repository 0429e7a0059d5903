"""`asmgen layout KERNEL:TILE`: where a kernel's tile lies, element by element: lane and register, or the bytes of LDS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from asmgen.author.contract.contract import did_you_mean
from asmgen.author.emit.kernel import Kernel
from asmgen.author.tiles.shared import SharedTile
from asmgen.author.tiles.swizzles import TileAddresses
from asmgen.author.tiles.tiles import Tile
from asmgen.isa.errors import OperandError
from asmgen.isa.quote import quoted
from asmgen.tools.layout_command import Drawing, drawings_svg

Index = tuple[int, int, int]


@dataclass(frozen=True)
class TileElement:
    """One element: `index` is [cell, row, column], cells of a grid counted stages first; it lies in bits of a lane's register, or, in
    LDS, at a byte address."""

    index: Index
    bits: int
    lane: int | None = None
    register: str | None = None
    bit: int = 0
    address: int | None = None

    def as_json(self) -> dict[str, Any]:
        """Fields of an element: those of an instruction's, or the address."""
        location = {"lane": self.lane, "register": self.register} if self.address is None else {"address": self.address}
        return {"index": list(self.index), **location, "bit": self.bit, "bits": self.bits}

    def cell(self) -> str:
        """lane:register, and its lowest bit where a register holds several; or the address."""
        if self.address is not None:
            return f"{self.address:#x}"
        return f"{self.lane}:{self.register}" + (f".{self.bit}" if self.bits < 32 else "")

    @property
    def hue(self) -> int:
        """What a picture colours by: lanes, or the groups of four banks."""
        return self.lane if self.lane is not None else (self.address or 0) // 4 % 64


@dataclass(frozen=True)
class TileTable:
    """A tile of a kernel, or all cells of a grid: `cells` are their names."""

    kernel: str
    arch: str
    tile: str
    dtype: str
    what: str
    cells: tuple[str, ...]
    elements: tuple[TileElement, ...]
    instruction: str | None = None
    operand: str | None = None

    def as_json(self) -> dict[str, Any]:
        """The fields of `asmgen layout --json`."""
        return {"kernel": self.kernel, "arch": self.arch, "tile": self.tile, "type": self.dtype, "instruction": self.instruction,
                "operand": self.operand, "what": self.what, "cells": list(self.cells),
                "elements": [element.as_json() for element in self.elements]}

    @property
    def title(self) -> str:
        """What stands above a picture."""
        return f"{self.kernel} ({self.arch}) {self.tile}: {self.what}"

    def text(self, listed: bool) -> str:
        """For people: a grid for each cell, or (`listed`) a line an element."""
        lines = [self.title]
        if listed:
            lines += [f"  {self.cells[one.index[0]]} row {one.index[1]} column {one.index[2]}: lane {one.lane} register {one.register} "
                      f"bits {one.bit} to {one.bit + one.bits - 1}" for one in self.elements]
            return "\n".join(lines) + "\n"
        for number, grid in self.grids():
            width = max(len(one.cell()) for line in grid for one in line)
            lines += [self.cells[number], " row\\c " + " ".join(str(column).rjust(width) for column in range(len(grid[0])))]
            lines += [str(row).rjust(6) + " " + " ".join(one.cell().rjust(width) for one in line) for row, line in enumerate(grid)]
        return "\n".join(lines) + "\n"

    def svg(self) -> str:
        """A picture: a square for each element, coloured by lane, in LDS by bank."""
        def cells(grid: list[list[TileElement]]) -> list[list[tuple[str, int]]]:
            return [[(one.cell(), one.hue) for one in line] for line in grid]

        return drawings_svg([Drawing(f"{self.cells[cell]}: {self.title}", ("row", "column"), cells(grid)) for cell, grid in self.grids()])

    def grids(self) -> list[tuple[int, list[list[TileElement]]]]:
        """Rows of elements by cell. Of an element that several lanes hold, the first."""
        cells: dict[int, dict[int, dict[int, TileElement]]] = {}
        for one in self.elements:
            cell, row, column = one.index
            cells.setdefault(cell, {}).setdefault(row, {}).setdefault(column, one)
        return [(cell, [[line[column] for column in sorted(line)] for _, line in sorted(rows.items())])
                for cell, rows in sorted(cells.items())]


def tile_table(kernel: Kernel, name: str, lane: int | None = None, register: int | None = None) -> TileTable:
    """Where the elements of a tile lie. `name` is a tile's, a grid's ("C", all its cells) or a cell's ("C[0][1]").

    `lane` and `register` (counted in the tile's own) keep a part. Raises OperandError for a name that the kernel does not have.
    """
    tiles = {str(key): value for key, value in kernel.tiles.items()}
    locations = [tile for tile in tiles.values() if isinstance(tile, SharedTile)]
    shared = next((tile for tile in locations if name in (tile.name, *(item.name for item in tile.ranges))), None)
    arch = kernel.resources.arch
    if shared is not None:
        if lane is not None or register is not None:
            raise OperandError(f"{shared} lies in LDS: it has neither lanes nor registers")
        ranges = [item for item in shared.ranges if name in (shared.name, item.name)]
        at = TileAddresses(shared.placement, shared.rows, shared.columns)
        elements = [TileElement((cell, row, column), shared.bits, address=item.low + at(row, column))
                    for cell, item in enumerate(ranges) for row in range(shared.rows) for column in range(shared.columns)]
        what = f"{shared.rows} x {shared.columns} {shared.dtype} in LDS, byte addresses"
        return TileTable(kernel.name, arch, name, shared.dtype, what, tuple(item.name for item in ranges), tuple(elements))
    held = [tile for one in tiles.values() if not isinstance(one, SharedTile) for tile in _cells(one)]
    chosen = [tile for tile in held if tile.name == name] or [tile for key, one in tiles.items() if key == name for tile in _cells(one)]
    if not chosen:
        known = [key for key, value in tiles.items() if not isinstance(value, SharedTile) or value.ranges]
        raise OperandError(f"{kernel.name} has no tile {quoted(name)}; {did_you_mean(name, known) if known else 'it has none at all'}")
    first, f = chosen[0], chosen[0].fragment
    what = f"{first.rows} x {first.columns} {first.dtype}, {f}: lane:register" + (".lowest bit" if f.bits < 32 else "")
    found = tuple(one for cell, tile in enumerate(chosen) for one in _elements(cell, tile, lane, register))
    if not found:
        raise OperandError(f"{name} has nothing there: lanes go from 0 to 63, registers from 0 to {first.registers.count - 1}")
    return TileTable(kernel.name, arch, name, first.dtype, what, tuple(tile.name for tile in chosen), found, f.row.name,
                     f.operand + ".T" * f.transposed)


def _cells(held: object) -> Sequence[Tile]:
    return [held] if isinstance(held, Tile) else list(held)  # type: ignore[call-overload]


def _elements(cell: int, tile: Tile, lane: int | None, register: int | None) -> list[TileElement]:
    f, found = tile.fragment, []
    for number, (row, column) in enumerate(tile.positions()):
        base = tile.base(row, column)
        for item, locations in enumerate(f.table):
            held, bit = divmod(item * f.bits, 32)
            if register is not None and register not in range(number * f.registers + held,
                                                              number * f.registers + held + (bit + f.bits - 1) // 32 + 1):
                continue
            for at, (r, c) in enumerate(locations):
                if lane in (None, at):
                    found.append(TileElement((cell, row * f.rows + r, column * f.columns + c), f.bits, at, str(base[held]), bit))
    return found
