"""What share of a launch's loads finds its data in L2 and in the last-level cache, by which workgroups load the same slabs.

A slab is what one workgroup loads of one argument: of a matrix product its rows of A, its columns of B. Workgroups run in rounds, as many
together as the GPU holds, number n on XCD n mod 8 (of a GPU with 8); those of a round go through their slabs in lock step. Both caches are
fully associative and keep what was used last. So a load finds its data where another one of the same round and cache had it, or one of
an earlier round if what was loaded in between fits into the cache. Nothing is fitted: the sizes are the timing table's. Stores, the sets
of the caches and workgroups that drift apart are left out (docs/facts/microarchitecture.md section 3).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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
class OperandRates:
    """Of the loads of one argument: bytes asked of L2, of the last-level cache and of HBM; the share of an XCD's first loads of a round
    that miss L2."""

    l2_bytes: float
    llc_bytes: float
    hbm_bytes: float
    first: float


@dataclass(frozen=True)
class CacheRates:
    """Predicted: shares of loads that hit in L2, and of L2's misses that hit in the last-level cache; bytes asked of L2, of it and of
    HBM by the whole grid."""

    operands: tuple[OperandRates, ...]

    @property
    def l2_bytes(self) -> float:
        """All loads."""
        return sum(one.l2_bytes for one in self.operands)

    @property
    def llc_bytes(self) -> float:
        """What misses in L2."""
        return sum(one.llc_bytes for one in self.operands)

    @property
    def hbm_bytes(self) -> float:
        """What misses in the last-level cache too."""
        return sum(one.hbm_bytes for one in self.operands)

    @property
    def l2_hit(self) -> float:
        """Share of loads."""
        return 1 - self.llc_bytes / self.l2_bytes if self.l2_bytes else 1.0

    @property
    def llc_hit(self) -> float:
        """Share of L2's misses."""
        return 1 - self.hbm_bytes / self.llc_bytes if self.llc_bytes else 1.0

    def weighted(self, timing: Timing) -> float:
        """The paper's equation 1: one figure, in TB/s, by which orders of the same product compare."""
        return timing["order_l2"] * self.l2_hit + timing["order_llc"] * self.llc_hit


Slabs = tuple[int, ...]
"""The number of a slab of each operand."""


@dataclass(frozen=True)
class _Used:
    """Slabs of each operand that are in use, as masks."""

    masks: tuple[int, ...]

    def __or__(self, other: _Used) -> _Used:
        return _Used(tuple(mine | its for mine, its in zip(self.masks, other.masks, strict=True)))

    def bytes(self, sizes: Sequence[float]) -> float:
        return sum(mask.bit_count() * size for mask, size in zip(self.masks, sizes, strict=True))


class _Cache:
    """Which rounds used what last, and what share of a slab is still there."""

    def __init__(self, capacity: float, sizes: Sequence[float]) -> None:
        self.capacity, self.sizes = capacity, sizes
        self.rounds: list[_Used] = []

    def begin(self, used: _Used) -> list[dict[int, float]]:
        """A round that uses so much: for the slabs of each operand that earlier rounds used, what share of each is still there."""
        left, between = used, _Used((0,) * len(used.masks))
        kept: list[dict[int, float]] = [{} for _ in used.masks]
        for earlier in reversed(self.rounds):
            shared = [mine & its for mine, its in zip(left.masks, earlier.masks, strict=True)]
            if any(shared):
                # What is at a share f of K lies after the end of the earlier round, what was between, and the share f of this one.
                share = _share_below(self.capacity, (earlier | between).bytes(self.sizes), (used | between).bytes(self.sizes))
                for found, mask in zip(kept, shared, strict=True):
                    found.update(dict.fromkeys(_bits(mask), share))
                left = _Used(tuple(mine & ~its for mine, its in zip(left.masks, earlier.masks, strict=True)))
            between |= earlier
            if between.bytes(self.sizes) >= self.capacity:
                break
        self.rounds.append(used)
        return kept


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
    return slab_rates(tile_positions, (loads.a, loads.b), loads.steps, timing, resident)


def slab_rates(loaded: Sequence[Slabs], sizes: Sequence[float], steps: int, timing: Timing, resident: int) -> CacheRates:
    """The same for any launch: the slabs of all workgroups in their order, the bytes of a slab of each operand, and in how many steps a
    workgroup goes through them."""
    l2 = [_Cache(timing["l2_bytes"], sizes) for _ in range(timing.clocks("xcds"))]
    llc = _Cache(timing["llc_bytes"], sizes)
    operands = range(len(sizes))
    asked_llc, asked_hbm, first, missed = ([0.0] * len(sizes) for _ in range(4))
    for round_ in _rounds(loaded, timing.clocks("compute_units") * resident, timing.clocks("xcds")):
        asked: list[dict[int, float]] = [{} for _ in operands]
        for cache, inside in zip(l2, round_, strict=True):
            used = _used(inside, len(sizes))
            kept = cache.begin(used)
            step = used.bytes(sizes) / steps
            again = min(1.0, cache.capacity / step) if step else 1.0  # that another workgroup of the round finds it
            for operand in operands:
                for slab, count in Counter(slabs[operand] for slabs in inside).items():
                    miss = 1 - kept[operand].get(slab, 0.0)
                    asked[operand][slab] = asked[operand].get(slab, 0.0) + miss + (count - 1) * (1 - again)
                    first[operand] += 1
                    missed[operand] += miss
        found = llc.begin(_Used(tuple(sum(1 << slab for slab, count in one.items() if count > 0) for one in asked)))
        for operand in operands:
            for slab, misses in asked[operand].items():
                asked_llc[operand] += misses * sizes[operand]
                asked_hbm[operand] += min(1.0, misses) * (1 - found[operand].get(slab, 0.0)) * sizes[operand]
    shares = [missed[operand] / first[operand] if first[operand] else 0.0 for operand in operands]
    return CacheRates(tuple(OperandRates(len(loaded) * sizes[operand], asked_llc[operand], asked_hbm[operand], shares[operand])
                            for operand in operands))


def _rounds(loaded: Sequence[Slabs], together: int, xcds: int) -> Iterator[list[list[Slabs]]]:
    """The slabs of each round by XCD."""
    for first in range(0, len(loaded), together):
        inside = loaded[first:first + together]
        yield [list(inside[(xcd - first) % xcds::xcds]) for xcd in range(xcds)]


def _used(workgroups: Sequence[Slabs], operands: int) -> _Used:
    """What some workgroups load."""
    masks = [0] * operands
    for slabs in workgroups:
        for operand, slab in enumerate(slabs):
            masks[operand] |= 1 << slab
    return _Used(tuple(masks))


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
    together = timing.clocks("compute_units") * resident // timing.clocks("xcds")
    share = max(1, -(-rows * columns // timing.clocks("xcds")))
    found = []
    for window in range(1, min(16, rows) + 1):
        chunks = {min(share, window * count) for count in range(1, together // window + 2)} | {min(share, together * n) for n in (1, 2, 4)}
        for chunk in sorted(chunks | {share}):
            rates = cache_rates(GridOrder(rows, columns, window, chunk), loads, timing, resident)
            found.append(FoundOrder(window, chunk, rates, rates.weighted(timing)))
    return sorted(found, key=lambda one: (-one.weighted, one.window, one.chunk))
