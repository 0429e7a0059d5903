"""The solver for shared tiles: which XOR pattern or padding serves every declared access without bank conflicts.

Candidates are tried in the order of what they cost the loop: plain rows, then padding (one base register for all reads), then XOR
patterns (one register for each distinct pattern). With a DMA fill, pads can stand between its lines only (64 lanes side by side),
so a padded tile spreads the rows of a fragment over lines: row r lies in line r mod lines.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator, Sequence
from typing import Protocol

from asmgen.author.tiles.fragments import Fragment
from asmgen.author.tiles.immediates import DS_IMMEDIATES, split_immediates
from asmgen.author.tiles.tiles import TileError
from asmgen.isa.arch import LANES
from asmgen.isa.bankcost import Cost, bank_cost
from asmgen.isa.layout import Layout, LayoutError, identity
from asmgen.isa.placement import Pads, Placement, Swizzle
from asmgen.isa.records import dataclass

READS = {32: "ds_read_b32", 64: "ds_read_b64", 96: "ds_read_b96", 128: "ds_read_b128"}
WRITES = {32: "ds_write_b32", 64: "ds_write_b64", 96: "ds_write_b96", 128: "ds_write_b128"}
"""LDS instructions by the bits that a lane moves."""


_cost = functools.lru_cache(maxsize=512)(bank_cost)  # tiles of one shape meet the same addresses


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
        ops = WRITES if self.write else READS
        pieces = [(f.table[item], bits) for item, bits in chunks(f, addresses)]
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


def chunks(fragment: Fragment, addresses: TileAddresses) -> list[tuple[int, int]]:
    """(first item, bits) of each run of a lane's items that are neighbours in LDS, in pieces that one instruction moves.

    Raises LayoutError where an item is no whole bytes or a run has no whole dword.
    """
    bits = fragment.bits
    if bits % 8:
        raise LayoutError(f"{fragment} has items of {bits} bits, which are no whole bytes in LDS")
    step = bits // 8
    at = [addresses(*lanes[0]) for lanes in fragment.table]
    found = []
    item = 0
    while item < len(at):
        run = 1
        while item + run < len(at) and at[item + run] == at[item] + run * step:
            run += 1
        # What is an aligned run in one lane must be one in all.
        least = functools.reduce(operator.or_, addresses.of(fragment.table[item], 0, 0), 16)
        size = next((width for width in (128, 64, 32) if width <= run * bits and least % (width // 8) == 0), 0)
        if not size:
            raise LayoutError(f"item {item} of {fragment} has no whole dword of neighbours in LDS")
        found.append((item, size))
        item += size // bits
    return found


@dataclass(frozen=True)
class Judged:
    """A placement, how many instructions it takes and what conflicts cost, and how many base registers its accesses need."""

    placement: Placement
    instructions: int
    extra: int
    bases: int
    worst: tuple[LaneAccess, Cost] | None


def choose(arch: str, name: str, rows: int, columns: int, bits: int, serves: Sequence[Access], pads: bool = True) -> Placement:
    """The first placement without conflicts, in the order of its cost to the loop: fewest instructions, then fewest base registers.

    Without `pads` it takes no more bytes than the elements do.
    Raises TileError where there is none: it gives the best one, its instruction and the pair of lanes that collide.
    """
    best: Judged | None = None
    free: Judged | None = None
    fewest = 0  # instructions of the densest placement: a pad may take the alignment that wide ones need
    for placement in candidates(rows, columns, bits, max((access.line for access in serves), default=0), pads):
        judged = judge(arch, placement, rows, columns, serves, only_free=free is not None)
        if judged is None:
            continue
        fewest = fewest or judged.instructions
        if not judged.extra:
            if judged.bases <= 1 and judged.instructions <= fewest:
                return placement
            if free is None or (judged.instructions, judged.bases) < (free.instructions, free.bases):
                free = judged
        if best is None or judged.extra < best.extra:
            best = judged
    if free is not None:
        return free.placement
    if best is None or best.worst is None:
        raise TileError(f"shared tile {name} ({rows} x {columns} of {bits} bits) has no placement in which every access stays whole")
    access, found = best.worst
    raise TileError(f"shared tile {name} ({rows} x {columns} of {bits} bits) has no placement without bank conflicts among those that are "
                    f"searched; the best one costs {best.extra} cycles more: {access.op} is {found.ways}-way, lanes {found.lanes} collide")


def judge(arch: str, placement: Placement, rows: int, columns: int, serves: Sequence[Access], only_free: bool) -> Judged | None:
    """What a placement costs; None where it tears an access, or, with `only_free`, has a conflict."""
    extra, bases, count = 0, 0, 0
    worst: tuple[LaneAccess, Cost] | None = None
    addresses = TileAddresses(placement, rows, columns)
    for access in serves:
        accesses: list[tuple[int, ...]] = []
        patterns: set[tuple[int, ...]] = set()
        try:
            for one in access.instructions(addresses):
                accesses.append(one.addresses)
                low = min(one.addresses)
                pattern = tuple([address - low for address in one.addresses])
                if pattern in patterns:
                    continue
                patterns.add(pattern)
                found = _cost(arch, one.op, one.addresses, one.bits)
                extra += found.extra
                if extra and only_free:
                    return None
                if found.extra and (worst is None or found.extra > worst[1].extra):
                    worst = one, found
        except LayoutError:
            return None
        count += len(accesses)
        if accesses:
            bases = max(bases, len(split_immediates(accesses, DS_IMMEDIATES).bases))
    return Judged(placement, count, extra, bases, worst)


def candidates(rows: int, columns: int, bits: int, line: int, pads: bool = True) -> Iterator[Placement]:
    """Placements in the order of what they cost: plain, padded (where `pads` are allowed), XORed."""
    dense = plain(rows, columns, bits)
    yield Placement(dense)
    if pads:
        yield from _padded(dense, rows, columns, bits, line)
    for mask in (0x70, 0x30, 0x10, 0x60, 0x20, 0xF0, 0xE0, 0x1F0):
        for shift in range(1, 9):
            if mask < columns * bits // 8:
                try:
                    yield Placement(dense, Swizzle(((shift, mask),)))
                except LayoutError:
                    continue


def _padded(dense: Layout, rows: int, columns: int, bits: int, line: int) -> Iterator[Placement]:
    row_bytes = columns * bits // 8
    size = row_bytes * rows
    lines = size // line if line else 0
    if line and size % line == 0 and line % row_bytes == 0 and rows % lines == 0:
        spread = spread_rows(rows, columns, bits, lines)
        slots = ((12, 4),) if line == 12 * LANES else ()
        for add in (16, 32, 48, 64, 80, 96, 112, 128):
            yield Placement(spread, pads=Pads((*slots, (line, add))))
    elif not line:
        for add in (8, 16, 32, 48, 64):
            yield Placement(dense, pads=Pads(((row_bytes, add),)))
    if bits == 8 and row_bytes % 12 == 0 and not line:
        for add in (0, 16, 32, 48, 64, 80, 96, 112):  # slots of 16 elements of 6 bits, as ds_read_b96_tr_b6 wants them
            yield Placement(dense, pads=Pads(((12, 4), (row_bytes, add))))


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
