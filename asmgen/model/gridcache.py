"""What share of a matrix product's loads finds its data in L2 and in the last-level cache, by the order of its tiles.

Workgroups run in rounds, as many together as the GPU holds, number n on XCD n mod 8; those of a round go through K in lock step. A
workgroup asks for its rows of A and its columns of B once a step; both caches are fully associative and keep what was used last. So a
load finds its data where another one of the same round and cache had it, or one of an earlier round if what was loaded in between fits
into the cache. Nothing is fitted: the sizes are the timing table's. Stores of D, the sets of the caches and workgroups that drift apart
are left out (docs/facts/microarchitecture.md section 3).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from asmgen.isa.arch import XCDS
from asmgen.isa.errors import AsmgenError
from asmgen.isa.timing import Timing
from asmgen.model.gridorder import GridOrder

LARGEST_GRID = 1 << 20
"""Tiles of a grid that is ordered one by one."""


@dataclass(frozen=True)
class TileLoads:
    """What a workgroup loads: bytes of its rows of A and of its columns of B over all of K, in so many steps."""

    a: int
    b: int
    steps: int


@dataclass(frozen=True)
class CacheRates:
    """Predicted: shares of loads that hit in L2, and of L2's misses that hit in the last-level cache; bytes asked of L2, of it and of
    HBM by the whole grid."""

    l2_hit: float
    llc_hit: float
    l2_bytes: float
    llc_bytes: float
    hbm_bytes: float

    def weighted(self, timing: Timing) -> float:
        """The paper's equation 1: one figure, in TB/s, by which orders of the same product compare."""
        return timing["order_l2"] * self.l2_hit + timing["order_llc"] * self.llc_hit


@dataclass(frozen=True)
class _Used:
    """Tile rows and tile columns that are in use, as masks."""

    rows: int = 0
    columns: int = 0

    def __or__(self, other: _Used) -> _Used:
        return _Used(self.rows | other.rows, self.columns | other.columns)

    def bytes(self, loads: TileLoads) -> int:
        return self.rows.bit_count() * loads.a + self.columns.bit_count() * loads.b


class _Cache:
    """Which rounds used what last, and what share of a slab is still there."""

    def __init__(self, capacity: float, loads: TileLoads) -> None:
        self.capacity, self.loads = capacity, loads
        self.rounds: list[_Used] = []

    def begin(self, used: _Used) -> tuple[dict[int, float], dict[int, float]]:
        """A round that uses so much: for tile rows and tile columns that earlier rounds used, what share of each is still there."""
        left, between = used, _Used()
        rows: dict[int, float] = {}
        columns: dict[int, float] = {}
        for earlier in reversed(self.rounds):
            shared = _Used(left.rows & earlier.rows, left.columns & earlier.columns)
            if shared.rows or shared.columns:
                # What is at a share f of K lies after the end of the earlier round, what was between, and the share f of this one.
                share = _share_below(self.capacity, (earlier | between).bytes(self.loads), (used | between).bytes(self.loads))
                rows.update(dict.fromkeys(_bits(shared.rows), share))
                columns.update(dict.fromkeys(_bits(shared.columns), share))
                left = _Used(left.rows & ~shared.rows, left.columns & ~shared.columns)
            between |= earlier
            if between.bytes(self.loads) >= self.capacity:
                break
        self.rounds.append(used)
        return rows, columns


def _share_below(limit: float, first: float, last: float) -> float:
    """The share of a straight line from `first` to `last` that is no higher than the limit."""
    low, high = min(first, last), max(first, last)
    if high <= limit:
        return 1.0
    return 0.0 if low >= limit else (limit - low) / (high - low)


def cache_rates(order: GridOrder, loads: TileLoads, timing: Timing, resident: int = 1) -> CacheRates:
    """The hit rates of a grid with `resident` workgroups on a compute unit. Raises AsmgenError for more tiles than LARGEST_GRID."""
    return rates_of(ordered(order), loads, timing, resident)


def ordered(order: GridOrder) -> list[tuple[int, int]]:
    """(row, column) of every workgroup. Raises AsmgenError for more tiles than LARGEST_GRID."""
    if order.tiles > LARGEST_GRID:
        raise AsmgenError(f"a grid of {order.rows} x {order.columns} tiles is larger than {LARGEST_GRID}; its order is not listed")
    return order.tiles_in_order()


def rates_of(tile_positions: Sequence[tuple[int, int]], loads: TileLoads, timing: Timing, resident: int) -> CacheRates:
    """The same for the places of all workgroups."""
    l2 = [_Cache(timing["l2_bytes"], loads) for _ in range(XCDS)]
    llc = _Cache(timing["llc_bytes"], loads)
    llc_bytes = hbm_bytes = 0.0
    for round_ in _rounds(tile_positions, timing.clocks("compute_units") * resident):
        rows: dict[int, float] = {}
        columns: dict[int, float] = {}
        for cache, inside in zip(l2, round_, strict=True):
            used = _used(inside)
            found = cache.begin(used)
            step = used.bytes(loads) / loads.steps
            again = min(1.0, cache.capacity / step) if step else 1.0  # that another workgroup of the round finds it
            for operand, (asked, kept) in enumerate(zip((rows, columns), found, strict=True)):
                for bit, count in Counter(place[operand] for place in inside).items():
                    asked[bit] = asked.get(bit, 0.0) + 1 - kept.get(bit, 0.0) + (count - 1) * (1 - again)
        found = llc.begin(_Used(*(sum(1 << bit for bit, count in asked.items() if count > 0) for asked in (rows, columns))))
        for asked, kept, size in zip((rows, columns), found, (loads.a, loads.b), strict=True):
            for bit, misses in asked.items():
                llc_bytes += misses * size
                hbm_bytes += min(1.0, misses) * (1 - kept.get(bit, 0.0)) * size
    total = float(len(tile_positions) * (loads.a + loads.b))
    return CacheRates(1 - llc_bytes / total, 1 - hbm_bytes / llc_bytes if llc_bytes else 1.0, total, llc_bytes, hbm_bytes)


def _rounds(tile_positions: Sequence[tuple[int, int]], together: int) -> Iterator[list[list[tuple[int, int]]]]:
    """The places of each round by XCD."""
    for first in range(0, len(tile_positions), together):
        last = min(len(tile_positions), first + together)
        yield [list(tile_positions[first + (xcd - first) % XCDS:last:XCDS]) for xcd in range(XCDS)]


def _used(tile_positions: Sequence[tuple[int, int]]) -> _Used:
    rows = columns = 0
    for row, column in tile_positions:
        rows |= 1 << row
        columns |= 1 << column
    return _Used(rows, columns)


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


@dataclass(frozen=True)
class FoundOrder:
    """An order that a search tried, with what is predicted of it."""

    window: int
    chunk: int
    rates: CacheRates
    weighted: float


def search(rows: int, columns: int, loads: TileLoads, timing: Timing, resident: int = 1) -> list[FoundOrder]:
    """The windows and chunks that were tried, the best by the paper's equation 1 first.

    Windows up to 16 rows; chunks of whole columns of a window up to a round's share of an XCD, and twice and four times that, so that
    an XCD's workgroups are beside each other, and all of its share.
    """
    together = timing.clocks("compute_units") * resident // XCDS
    share = max(1, -(-rows * columns // XCDS))
    found = []
    for window in range(1, min(16, rows) + 1):
        chunks = {min(share, window * count) for count in range(1, together // window + 2)} | {min(share, together * n) for n in (1, 2, 4)}
        for chunk in sorted(chunks | {share}):
            rates = cache_rates(GridOrder(rows, columns, window, chunk), loads, timing, resident)
            found.append(FoundOrder(window, chunk, rates, rates.weighted(timing)))
    return sorted(found, key=lambda one: (-one.weighted, one.window, one.chunk))
