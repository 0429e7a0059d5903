"""How far the data of a compute unit's loads is: the round trip of each argument's loads without a queue, and what comes back in a clk.

With "l2" and "hbm" all data is there. With "grid" the whole GPU loads: a load goes to where the first workgroup of its XCD that asks for
its lines finds them, as all who share a line ask while it is under way (workgroups go through K in lock step). The share of first loads
that L2 still has comes from L2, the rest from the last-level cache. XCDs drift apart: what a miss of that cache adds counts by the share
of L2's misses that come from HBM, over all arguments, as a step waits for the loads of all. It is longer the more of what HBM gives the
loading units can ask for. One unit gets no more of each level than was measured of one by itself. What the caches and memory of the GPU
give in a second is shared by its compute units over a time: while one asks for little, others have its share, so what a unit has not
asked for it gets later at its own full rate, up to a burst. Queues are not part of a round trip: the cycle model has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from asmgen.emulator.scheduling.trace import NO_ARGUMENT, PRIVATE
from asmgen.isa.timing import WHOLE_XCDS, Timing

LEVELS = ("grid", "l2", "hbm")
"""Where vector memory finds its data: as a whole grid does, all in L2, all in HBM."""


@dataclass(frozen=True)
class FarMemory:
    """`rate` in B/clk of a compute unit over a time, round trips in clk: `usual` is that of loads of arguments without one of their own.
    `burst` bytes that the unit has not asked for at that rate come as fast as its own path allows."""

    rate: float
    usual: int
    store: int
    by_argument: Mapping[int, int] = field(default_factory=dict)
    burst: float = 0.0

    def round_trip(self, argument: int = NO_ARGUMENT) -> int:
        """Of a load of that argument; private memory, of which a wave has little, stays in L2."""
        return self.store if argument == PRIVATE else self.by_argument.get(argument, self.usual)


@dataclass(frozen=True)
class GridLoads:
    """What is known of the loads of a whole launch: by argument the share of an XCD's `first` loads of a line that miss L2, the bytes that
    L2, the last-level cache and HBM are asked for, and how many compute units ask at once (0: all)."""

    first: Mapping[int, float] = field(default_factory=dict)
    l2: float = 1.0
    llc: float = 0.0
    hbm: float = 0.0
    units: int = 0


def far_memory(timing: Timing, level: str, loads: GridLoads | None = None, clock: float = 0) -> FarMemory:
    """For a level of LEVELS; with "grid" at a clock in MHz, by default that of dense matrix work."""
    if level != "grid":
        return FarMemory(timing[f"rate_{level}"], timing.clocks(f"latency_{level}"), timing.clocks("latency_l2"))
    loads, clock = loads if loads is not None and loads.l2 else GridLoads(), clock or timing["clock_dense"]
    llc = timing["latency_llc"] * clock / 1e3
    later = _miss(timing, loads) * clock / 1e3 * (loads.hbm / loads.llc if loads.llc else 0.0)
    trips = {argument: round((1 - missed) * timing["latency_l2"] + missed * (llc + later)) for argument, missed in loads.first.items()}
    rate = min(timing["rate_l2"], _share(timing, loads) / clock)
    return FarMemory(rate, round(llc + later), timing.clocks("latency_l2"), trips, timing["load_burst"])


def _miss(timing: Timing, loads: GridLoads) -> float:
    """ns that a miss of the last-level cache adds: from that of a unit by itself to that of units that ask for all HBM gives."""
    asked = _units(timing, loads) * timing["rate_hbm"] * timing["clock_idle"] / (read_rates(timing, "grid")["hbm"] * 1e6)
    return timing["llc_miss_alone"] + min(1.0, asked) * (timing["llc_miss"] - timing["llc_miss_alone"])


def _share(timing: Timing, loads: GridLoads) -> float:
    """Bytes a microsecond for one compute unit while `units` load: of what L2 and fabric give all, or a farther level for what comes from
    there, and no more of that than one by itself gets."""
    rates, units = read_rates(timing, "grid"), _units(timing, loads)
    llc, hbm = loads.llc / loads.l2, loads.hbm / loads.l2
    together = max(1 / rates["l2"], llc / rates["llc"], hbm / rates["hbm"]) / 1e6 * units
    alone = max(llc / timing["rate_llc"], hbm / timing["rate_hbm"]) / timing["clock_idle"]
    return 1 / max(together, alone)


def _units(timing: Timing, loads: GridLoads) -> int:
    return loads.units or timing.clocks("compute_units")


def read_rates(timing: Timing, level: str) -> dict[str, float]:
    """TB/s that L2 with its fabric, the last-level cache and HBM give the loads of the GPU. A partition has the L2s of its XCDs, and gets
    of the others no more than these can read of the fabric, unless a user has said what it gets."""
    xcds, l2 = timing["xcds"], "grid_load" if level == "grid" else "l2_read"
    most = {l2: timing[l2] * xcds / WHOLE_XCDS, "llc_read": xcds * timing["xcd_read"], "hbm_read": xcds * timing["xcd_read"]}
    found = [timing[name] if name in timing.overridden else min(timing[name], most[name]) for name in most]
    return dict(zip(("l2", "llc", "hbm"), found, strict=True))
