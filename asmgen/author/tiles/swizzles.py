"""Accesses that shared tiles serve, and the bytes of elements in a placement: what the search (`placementsearch`) looks at."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator, Sequence
from typing import Protocol

from asmgen.author.tiles.fragments import Fragment
from asmgen.author.tiles.tiles import TileError
from asmgen.isa.arch import LANES
from asmgen.isa.layout import Layout, LayoutError, identity
from asmgen.isa.placement import Placement
from asmgen.isa.records import dataclass

READS = {32: "ds_read_b32", 64: "ds_read_b64", 96: "ds_read_b96", 128: "ds_read_b128"}
WRITES = {16: "ds_write_b16", 32: "ds_write_b32", 64: "ds_write_b64", 96: "ds_write_b96", 128: "ds_write_b128"}
"""LDS instructions by the bits that a lane moves. Reads of 16 bits are not among them: two of them make one register."""
UPPER_WRITE = "ds_write_b16_d16_hi"
"""The write of 16 bits from a register's upper half."""

_HALF = 16  # bits of half a register


@dataclass(frozen=True)
class LaneAccess:
    """One LDS instruction of a wave: its name, each lane's byte address, bits a lane moves."""

    op: str
    addresses: tuple[int, ...]
    bits: int


class Access(Protocol):
    """A kind of access that a shared tile serves. `line` is the bytes that a DMA instruction fills side by side."""

    @property
    def line(self) -> int:
        """Bytes of a DMA instruction, 0 where it is none."""
        ...

    def instructions(self, addresses: TileAddresses) -> Iterator[LaneAccess]:
        """The instructions of one wave for the whole tile, made one by one; raises LayoutError where an access would be torn."""
        ...


@dataclass(frozen=True)
class FragmentRead:
    """Reads of matrix fragments, as wide as a lane's elements are neighbours; of `write`, the stores of the same."""

    fragment: Fragment
    write: bool = False
    line: int = 0

    def instructions(self, addresses: TileAddresses) -> Iterator[LaneAccess]:
        """Every fragment of the tile, chunk by chunk."""
        f = self.fragment
        if f.rows > addresses.rows or f.columns > addresses.columns:
            raise LayoutError(f"{addresses.rows} x {addresses.columns} elements hold no fragment {f}")
        ops = WRITES if self.write else READS
        pieces = [(f.table[item], bits) for item, bits in chunks(f, addresses, self.write)]
        for row in range(0, addresses.rows - f.rows + 1, f.rows):
            for column in range(0, addresses.columns - f.columns + 1, f.columns):
                for lanes, bits in pieces:
                    yield LaneAccess(ops[bits], tuple(addresses.of(lanes, row, column)), bits)


@dataclass(frozen=True)
class DmaFill:
    """Fills straight from memory, `bytes_` a lane: the lines lie as the hardware writes them, without conflicts."""

    bytes_: int = 16

    @property
    def line(self) -> int:
        """Bytes of one instruction."""
        return LANES * self.bytes_

    def instructions(self, addresses: TileAddresses) -> Iterator[LaneAccess]:
        """None: a lane's place follows from its number."""
        return iter(())


class TileAddresses:
    """The byte of each element of a tile in a placement, quickly: dense offsets of rows and of columns add up where rows are laid out
    as `plain` and `spread_rows` do."""

    def __init__(self, placement: Placement, rows: int, columns: int) -> None:
        self.rows, self.columns = rows, columns
        self._row, self._column = _dense_offsets(placement.dense, rows, columns)
        self._swizzle, self._pads = placement.swizzle, placement.pads

    def __call__(self, row: int, column: int) -> int:
        return self._pads(self._swizzle(self._row[row] + self._column[column]))

    def of(self, elements: Sequence[tuple[int, int]], row: int, column: int) -> list[int]:
        """Those of (row, column) elements of what begins at that row and column."""
        of_row, of_column = self._row, self._column
        dense = [of_row[row + r] + of_column[column + c] for r, c in elements]
        return self._pads.all(self._swizzle.all(dense))


@functools.lru_cache(maxsize=16)
def _dense_offsets(dense: Layout, rows: int, columns: int) -> tuple[list[int], list[int]]:
    """Offsets of the rows and of the columns: many placements are tried on one dense layout."""
    of_row, of_column = ([at["offset"] for at in dense.along(name)] for name in ("row", "column"))
    if any(dense(row=rows - 1, column=column)["offset"] != of_row[-1] + of_column[column] for column in (1 % columns, columns - 1)):
        raise LayoutError("offsets of rows and columns do not add up in this dense layout")
    return of_row, of_column


class ElementAddresses(Protocol):
    """The bytes of elements, as `TileAddresses` has them."""

    def __call__(self, row: int, column: int) -> int:
        """Of one element."""
        ...

    def of(self, elements: Sequence[tuple[int, int]], row: int, column: int) -> list[int]:
        """Those of (row, column) elements of what begins at that row and column."""
        ...


def chunks(fragment: Fragment, addresses: ElementAddresses, write: bool = False) -> list[tuple[int, int]]:
    """(first item, bits) of each run of a lane's items that are neighbours in LDS, in pieces that one instruction moves.

    Writes of 16-bit elements that are no neighbours of a row in any lane move one at a time.
    Raises LayoutError where an item is no whole bytes or a run has no whole dword.
    """
    bits = fragment.bits
    if bits % 8:
        raise LayoutError(f"{fragment} has items of {bits} bits, which are no whole bytes in LDS")
    step, widths = bits // 8, (128, 64, 32, *((16,) if write and parted(fragment) else ()))
    at = [addresses(*lanes[0]) for lanes in fragment.table]
    found = []
    item = 0
    while item < len(at):
        run = 1
        while item + run < len(at) and at[item + run] == at[item] + run * step:
            run += 1
        # What is an aligned run in one lane must be one in all.
        least = functools.reduce(operator.or_, addresses.of(fragment.table[item], 0, 0), 16)
        size = next((width for width in widths if width <= run * bits and least % (width // 8) == 0), 0)
        if not size:
            raise LayoutError(f"item {item} of {fragment} has no whole dword of neighbours in LDS")
        found.append((item, size))
        item += size // bits
    return found


def parted(fragment: Fragment) -> bool:
    """Whether no lane of 16-bit elements holds two neighbours of a row: writes go one by one, and there are no reads."""
    own = {lanes[0] for lanes in fragment.table}
    return fragment.bits == _HALF and not any((row, column + 1) in own for row, column in own)


def plain(rows: int, columns: int, bits: int) -> Layout:
    """Row after row without a gap: (column, row) -> offset in bytes. Raises TileError where an element is no whole bytes."""
    if bits % 8:
        raise TileError(f"elements of {bits} bits are no whole bytes: a shared tile of them counts bytes as columns")
    return identity("byte", "offset", bits // 8) * identity("column", "offset", columns) * identity("row", "offset", rows)


def spread_rows(rows: int, columns: int, bits: int, lines: int) -> Layout:
    """Row r in line r mod `lines`, so that the rows of a fragment lie in different lines; `lines` divides the rows."""
    order = identity("row", "low", lines) * identity("row", "high", rows // lines)
    placed = (identity("byte", "offset", bits // 8) * identity("column", "offset", columns)
             * identity("high", "offset", rows // lines) * identity("low", "offset", lines))
    return (order * identity("byte", "byte", bits // 8) * identity("column", "column", columns)).then(placed)
