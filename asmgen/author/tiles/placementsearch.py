"""The solver for shared tiles: which XOR pattern or padding serves every declared access without bank conflicts.

Candidates are tried in the order of what they cost the loop: plain rows, then padding (one base register for all reads), then XOR
patterns (one register for each distinct pattern). With a DMA fill, pads can stand between its lines only (64 lanes side by side),
so a padded tile spreads the rows of a fragment over lines: row r lies in line r mod lines. Where none of these serves all accesses, as
by rows and by columns, subtiles and any XOR of higher bits into lower ones are searched (`linearswizzles`), and XOR with pads.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence

from asmgen.author.tiles.immediates import DS_IMMEDIATES, split_immediates
from asmgen.author.tiles.linearswizzles import linear_swizzles
from asmgen.author.tiles.swizzles import Access, LaneAccess, TileAddresses, plain, spread_rows
from asmgen.author.tiles.tiles import TileError
from asmgen.isa.arch import LANES
from asmgen.isa.bankcost import Cost, bank_cost
from asmgen.isa.layout import Layout, LayoutError, identity
from asmgen.isa.placement import Pads, Placement, Swizzle, subtiled
from asmgen.isa.records import dataclass

_MASKS = 0x30, 0x10, 0x70, 0x20, 0x60, 0x38, 0x18, 0x08
_NARROWEST = 64  # bits of a subtile's rows
_FEW = 2  # base registers of a placement after which no better one is looked for
_TRIED = 16  # linear patterns of one order of elements that are judged

_cost = functools.lru_cache(maxsize=512)(bank_cost)  # tiles of one shape meet the same addresses


@dataclass(frozen=True)
class Judged:
    """A placement, how many instructions it takes and what conflicts cost, and how many base registers its accesses need."""

    placement: Placement
    instructions: int
    extra: int
    bases: int
    worst: tuple[LaneAccess, Cost] | None


def choose(arch: str, name: str, rows: int, columns: int, bits: int, serves: Sequence[Access], pads: bool = True,
           conflicts: int = 0) -> Placement:
    """The first placement without conflicts, in the order of its cost to the loop: fewest instructions, then fewest base registers.

    Without `pads` it takes no more bytes than the elements do. `conflicts` are cycles that conflicts may cost where nothing is free: those
    of all accesses once, by one wave.
    Raises TileError where there is none: it gives the best one, as `placement=` takes it, its instruction and the lanes that collide.
    """
    placement, best = _search(arch, rows, columns, bits, tuple(serves), pads)
    if placement is not None:
        return placement
    if best is None or best.worst is None:
        raise TileError(f"shared tile {name} ({rows} x {columns} of {bits} bits) has no placement in which every access stays whole")
    if best.extra <= conflicts:
        return best.placement
    access, found = best.worst
    raise TileError(f"shared tile {name} ({rows} x {columns} of {bits} bits) has no placement without bank conflicts among those that are "
                    f"searched; the best one costs {best.extra} cycles more: {access.op} is {found.ways}-way, lanes {found.lanes} collide. "
                    f"conflicts={best.extra} accepts that, or placement={placement_text(rows, columns, bits, best.placement)}")


@functools.lru_cache(maxsize=256)  # the kernels of a process have tiles of the same few shapes
def _search(arch: str, rows: int, columns: int, bits: int, serves: tuple[Access, ...],
            pads: bool) -> tuple[Placement | None, Judged | None]:
    """The first placement without conflicts; None where there is none, with the best of the simple ones."""
    best: Judged | None = None
    free: Judged | None = None
    fewest = 0  # instructions of the densest placement: a pad may take the alignment that wide ones need
    line = max((access.line for access in serves), default=0)
    for placement in candidates(rows, columns, bits, line, pads):
        judged = judge(arch, placement, rows, columns, serves, 0 if free is not None else best.extra if best is not None else None)
        if judged is None:
            continue
        fewest = fewest or judged.instructions
        if not judged.extra:
            if judged.bases <= 1 and judged.instructions <= fewest:
                return placement, None
            if free is None or (judged.instructions, judged.bases) < (free.instructions, free.bases):
                free = judged
        if best is None or judged.extra < best.extra:
            best = judged
    for judged in _others(arch, rows, columns, bits, serves, line, pads) if free is None else ():
        if free is None or (judged.instructions, judged.bases) < (free.instructions, free.bases):
            free = judged
        if free.bases <= _FEW:
            break
    return (free.placement, None) if free is not None else (None, best)


def _others(arch: str, rows: int, columns: int, bits: int, serves: Sequence[Access], line: int, pads: bool) -> Iterator[Judged]:
    """Placements without conflicts where simple ones have some: any XOR of higher bits into lower ones, on rows as they are or in subtiles,
    then a simple XOR with pads."""
    for inner in _inner_tiles(rows, columns, bits):
        try:
            for swizzle in itertools.islice(linear_swizzles(arch, inner.dense, inner.rows, inner.columns, serves), _TRIED):
                judged = judge(arch, Placement(inner.repeated(rows, columns), swizzle), rows, columns, serves, 0)
                if judged is not None:
                    yield judged
                    break
        except LayoutError:  # a torn access, or fragments larger than the inner tile
            continue
    for placement in _padded_and_swizzled(rows, columns, bits, line) if pads else ():
        judged = judge(arch, placement, rows, columns, serves, 0)
        if judged is not None:
            yield judged


@dataclass(frozen=True)
class _Inner:
    """A tile of powers of two that a larger one repeats, the copies side by side first."""

    dense: Layout
    rows: int
    columns: int

    def repeated(self, rows: int, columns: int) -> Layout:
        """The larger tile."""
        if (rows, columns) == (self.rows, self.columns):
            return self.dense
        return self.dense * identity("column", "offset", columns // self.columns) * identity("row", "offset", rows // self.rows)


def _inner_tiles(rows: int, columns: int, bits: int) -> Iterator[_Inner]:
    """Parts on which XORs are searched: rows as they are and subtiles, of the largest tile of powers of two that fills the whole one."""
    height, width = rows & -rows, columns & -columns
    yield _Inner(plain(height, width, bits), height, width)
    for size in _subtiles(height, width, bits):
        yield _Inner(subtiled(height, width, bits, *size), height, width)


def _subtiles(rows: int, columns: int, bits: int) -> list[tuple[int, int]]:
    """Heights and widths: those of operands, narrow ones for 8-byte accesses, and whole columns of the tile."""
    widths = [width for width in (32, 64, 16, 8, 4) if width < columns and columns % width == 0 and width * bits >= _NARROWEST]
    return [(height, width) for width in widths for height in dict.fromkeys((16, 32, rows)) if rows % height == 0]


def _padded_and_swizzled(rows: int, columns: int, bits: int, line: int) -> Iterator[Placement]:
    """Rows as they are, with a pad after each row or line of a DMA fill, and a simple XOR."""
    every = line or columns * bits // 8
    dense = plain(rows, columns, bits)
    if rows * columns * bits // 8 % every == 0:
        yield from _swizzled([(dense, Pads(((every, add),)), mask) for mask in _MASKS for add in (16, 32, 64, 128)])


def _swizzled(orders: Sequence[tuple[Layout, Pads, int]]) -> Iterator[Placement]:
    """Each order of elements with pads, some bits inverted by bits a few places above."""
    for (dense, pads, mask), shift in itertools.product(orders, range(1, 9)):
        try:
            yield Placement(dense, Swizzle(((shift, mask),)), pads)
        except LayoutError:
            continue


def placement_text(rows: int, columns: int, bits: int, placement: Placement) -> str:
    """A placement of such a tile, of those that `candidates` gives or of subtiles, as an author writes it."""
    named = {plain(rows, columns, bits): f"ag.row_major({columns}, {rows}, {bits})"}
    named |= {subtiled(rows, columns, bits, *size): f"ag.subtiled({rows}, {columns}, {bits}, {size[0]}, {size[1]})"
              for size in _subtiles(rows, columns, bits)}
    named |= {spread_rows(rows, columns, bits, lines): f"ag.spread_rows({rows}, {columns}, {bits}, {lines})"
              for lines in range(2, rows) if rows % lines == 0}
    terms = ", ".join(f"({shift}, {mask:#x})" for shift, mask in placement.swizzle.terms)
    return (f"ag.Placement({named[placement.dense]}{f', ag.Swizzle(({terms},))' if terms else ''}"
            f"{f', pads=ag.Pads({placement.pads.pads})' if placement.pads.pads else ''})")


def judge(arch: str, placement: Placement, rows: int, columns: int, serves: Sequence[Access], most: int | None = None) -> Judged | None:
    """What a placement costs; None where it tears an access, or conflicts cost more than `most` cycles."""
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
                if most is not None and extra > most:
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
