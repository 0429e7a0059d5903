"""Transposing reads of gfx950 as an access to LDS: which bytes each lane names, and what a shared tile that serves them must keep whole."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from asmgen.author.tiles.fragments import Fragment
from asmgen.author.tiles.swizzles import ElementAddresses, LaneAccess, TileAddresses
from asmgen.isa.arch import LANES
from asmgen.isa.layout import LayoutError
from asmgen.isa.layouts_lds import transposing_items, transposing_read
from asmgen.isa.records import dataclass

READS = {16: "ds_read_b64_tr_b16", 8: "ds_read_b64_tr_b8", 4: "ds_read_b64_tr_b4", 6: "ds_read_b96_tr_b6"}
"""By bits of an element."""


@functools.cache
def transposed_pieces(fragment: Fragment) -> tuple[tuple[tuple[int, int], ...], ...]:
    """For each read of a fragment (rows i, columns k), the (stored row k, stored column i) of what each lane's address names.

    Raises LayoutError for a type without such a read, or a fragment whose lanes do not take 16 neighbours of a stored row at a time.
    """
    op = READS.get(fragment.bits)
    if op is None:
        raise LayoutError(f"{fragment} has elements of {fragment.bits} bits; transposing reads move 16, 8, 6 and 4 bits")
    count, source = transposing_items(op), transposing_read(op)
    if fragment.items % count:
        raise LayoutError(f"a lane of {fragment} has {fragment.items} items, of which {op} brings {count} at a time")
    reads = []
    for first in range(0, fragment.items, count):
        named: dict[tuple[int, int], tuple[int, int]] = {}
        for item in range(count):
            for lane in range(LANES):
                held = source(item=item, lane=lane)
                row, k = fragment.table[first + item][lane]
                named[held["source_lane"], held["source_item"]] = k, row
        for (lane, item), (k, row) in named.items():
            start = named[lane, 0]
            if (k, row) != (start[0], start[1] + item):
                raise LayoutError(f"{op} cannot bring items {first} to {first + count - 1} of {fragment}: what lane {lane} would name is "
                                  "no run of a stored row")
        reads.append(tuple(named[lane, 0] for lane in range(LANES)))
    return tuple(reads)


@dataclass(frozen=True)
class TransposedRead:
    """Transposing reads as an access that a shared tile serves; the fragment's rows are the stored tile's columns."""

    fragment: Fragment
    line: int = 0

    def instructions(self, addresses: TileAddresses) -> Iterator[LaneAccess]:
        """Every fragment of the stored tile. Raises LayoutError where an access would be torn."""
        f, op = self.fragment, READS[self.fragment.bits]
        width = 96 if f.bits == 6 else 64
        rows, step = addresses.columns * _elements(f), f.rows
        size, apart, align = _shape(f)
        reads = []
        for lanes in transposed_pieces(f):
            first = [(k, _column(f, row)) for k, row in lanes]
            reads.append((lanes, first, [(k, column + size // apart - 1) for k, column in first]))
        for k in range(0, addresses.rows - f.columns + 1, f.columns):
            for row in range(0, rows - step + 1, step):
                for lanes, first, last in reads:
                    begins, ends = (addresses.of(elements, k, _column(f, row)) for elements in (first, last))
                    torn = next((lane for lane, (begin, end) in enumerate(zip(begins, ends, strict=True))
                                 if end != begin + size - apart or begin % align), None)
                    if torn is not None:
                        raise _torn(size, k + lanes[torn][0], row + lanes[torn][1])
                    yield LaneAccess(op, tuple(begins), width)


def _elements(fragment: Fragment) -> int:
    """Elements in a stored column: 1, or those of a byte where the tile counts bytes (6 bits: 4 elements in 3 bytes, see `address_of`)."""
    return 1 if fragment.bits % 8 == 0 else 8 // fragment.bits


def _column(fragment: Fragment, row: int) -> int:
    """The stored column of an element of a stored row."""
    return row if fragment.bits % 8 == 0 else row * fragment.bits // 8


def _shape(fragment: Fragment) -> tuple[int, int, int]:
    """Of a lane's read: its bytes, those of a stored column, and the alignment."""
    size = 12 if fragment.bits == 6 else 8
    return size, max(1, fragment.bits // 8), 16 if size == 12 else 8


def _torn(size: int, k: int, row: int) -> LayoutError:
    return LayoutError(f"{size} bytes of row {k} from element {row} on are no aligned neighbours in LDS")


def address_of(addresses: ElementAddresses, fragment: Fragment, k: int, row: int) -> int:
    """The byte at which a lane's read of stored row k begins, at element `row`. Raises LayoutError where the read would be torn."""
    column = _column(fragment, row)
    address = addresses(k, column)
    size, apart, align = _shape(fragment)
    if addresses(k, column + size // apart - 1) != address + size - apart or address % align:
        raise _torn(size, k, row)
    return address
