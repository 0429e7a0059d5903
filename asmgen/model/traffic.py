"""Bytes that a launch moves between the caches and memory: counted in a trace, shared out by the order of tiles or by what there is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from asmgen.emulator.scheduling.trace import LINE, WaveTrace
from asmgen.isa.arch import XCDS
from asmgen.isa.timing import Timing
from asmgen.model.costs import CostKind, IssueCost
from asmgen.model.gridcache import TileLoads, cache_rates
from asmgen.model.gridorder import GridOrder


@dataclass(frozen=True)
class TiledProduct:
    """What makes a launch a matrix product to the cache model: the order of its tiles, a tile's rows, columns and step, and K."""

    order: GridOrder
    tile: tuple[int, int, int]
    k: int


@dataclass(frozen=True)
class Traffic:
    """Predicted bytes of a whole launch: loads from L2, those of them that come from the last-level cache, those that come from HBM; what
    is stored. `how` says what the middle two rest on."""

    l2: float
    llc: float
    hbm: float
    stored: float
    how: str

    @property
    def l2_hit(self) -> float:
        """Share of loads."""
        return 1 - self.llc / self.l2 if self.l2 else 1.0

    @property
    def llc_hit(self) -> float:
        """Share of L2's misses."""
        return 1 - self.hbm / self.llc if self.llc else 1.0


def under_load(timing: Timing, moved: Traffic) -> Timing:
    """The table with the round trip of a product's loads whose hits are known.

    What misses in the last-level cache comes later. All who share a line ask for it while it is under way, as workgroups go through K in
    lock step, so that a hit in L2 waits as long as the miss before it: the share of L2's misses is that of all loads.
    """
    later = timing["llc_miss"] * (1 - moved.llc_hit) * timing["clock_dense"] / 1e3
    return timing.found("latency_grid", timing["latency_grid"] + later)


def traffic(costs: Sequence[IssueCost], traces: Sequence[WaveTrace], level: str, workgroups: int, timing: Timing,
            product: TiledProduct | None = None, footprint: float | None = None, longer: float = 1.0) -> Traffic:
    """The bytes of a launch of `workgroups` of which some were traced; the mean one loads `longer` times as much as these.

    `level` is the cycle model's: with "l2" nothing comes from farther, with "hbm" all does. With "grid" a product goes by the cache model,
    for as many workgroups on a compute unit as were traced; anything else loads each byte of its buffers (`footprint`) once from HBM and
    once into each L2.
    """
    traced = len({trace.workgroup for trace in traces})
    loaded = stored = 0
    for trace in traces:
        lines = iter(trace.costs)
        for position in trace.positions:
            cost = costs[position]
            if cost.traced:
                amount = next(lines)
                if cost.kind is CostKind.VMEM:
                    moved = min(amount * LINE, cost.bytes)
                    loaded += 0 if cost.store else moved
                    stored += moved if cost.store else 0
    factor = workgroups / traced
    total, written = loaded * factor * longer, stored * factor
    if level == "l2":
        return Traffic(total, 0, 0, 0, "everything in L2")
    if level == "hbm":
        return Traffic(total, total, total, written, "everything in HBM")
    if product is not None:
        tm, tn, tk = product.tile
        each = loaded / traced * longer
        a = round(each * tm / (tm + tn))
        rates = cache_rates(product.order, TileLoads(a, round(each) - a, -(-product.k // tk)), timing, traced)
        return Traffic(total, total * (1 - rates.l2_hit), total * (1 - rates.l2_hit) * (1 - rates.llc_hit), written, "the order of tiles")
    if footprint is None:
        return Traffic(total, total, total, written, "no buffer twice")
    return Traffic(total, min(total, footprint * XCDS), min(total, footprint), written, "each byte of the buffers once")
