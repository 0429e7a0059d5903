"""Bytes that a launch moves between the caches and memory: counted in a trace by argument, shared out by which workgroups load the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from asmgen.emulator.scheduling.trace import NO_ARGUMENT, PRIVATE, TracedArgument, WaveTrace
from asmgen.isa.timing import Timing
from asmgen.model.costs import CostKind, IssueCost
from asmgen.model.farmemory import GridLoads
from asmgen.model.gridcache import Slabs, slab_rates


@dataclass(frozen=True)
class LoadOrder:
    """Which workgroups load the same: the slabs of each in the order of the grid, the argument of each operand, and in how many steps a
    workgroup goes through its slabs. `how` says where that is from. A workgroup that makes several `items`, on average, goes through the
    slabs of each, those of its next item as many later as there are workgroups."""

    slabs: Sequence[Slabs]
    arguments: tuple[int, ...]
    steps: int
    how: str
    items: float = 1.0


@dataclass(frozen=True)
class ArgumentTraffic:
    """Predicted bytes of one argument in a whole launch; those that lie in none are of the argument ""."""

    name: str
    loaded: float
    stored: float


@dataclass(frozen=True)
class Traffic:
    """Predicted bytes of a whole launch: loads from L2, those of them that come from the last-level cache, those that come from HBM; what
    is stored. `how` says what the middle two rest on, `first` by argument which share of an XCD's first loads misses L2."""

    l2: float
    llc: float
    hbm: float
    stored: float
    how: str
    arguments: tuple[ArgumentTraffic, ...] = ()
    first: Mapping[int, float] = field(default_factory=dict)

    @property
    def l2_hit(self) -> float:
        """Share of loads."""
        return 1 - self.llc / self.l2 if self.l2 else 1.0

    @property
    def llc_hit(self) -> float:
        """Share of L2's misses."""
        return 1 - self.hbm / self.llc if self.llc else 1.0

    def loads(self, units: int) -> GridLoads:
        """What loads of so many compute units at once meet."""
        return GridLoads(self.first, self.l2, self.llc, self.hbm, units)


@dataclass(frozen=True)
class MovedBytes:
    """Bytes that a workgroup loads and stores, the mean of some, by argument; those of none at last. `together` workgroups were on a
    compute unit."""

    loaded: tuple[float, ...]
    stored: tuple[float, ...]
    together: int


def traffic(costs: Sequence[IssueCost], traces: Sequence[WaveTrace], level: str, workgroups: int, timing: Timing,
            arguments: Sequence[TracedArgument] = (), order: LoadOrder | None = None, read: float | None = None,
            longer: float = 1.0) -> Traffic:
    """The bytes of a launch of `workgroups` of which some were traced, as `traffic_of` counts them."""
    return traffic_of(moved_by_each(costs, traces, len(arguments)), level, workgroups, timing, arguments, order, read, longer)


def traffic_of(each: MovedBytes, level: str, workgroups: int, timing: Timing, arguments: Sequence[TracedArgument] = (),
               order: LoadOrder | None = None, read: float | None = None, longer: float = 1.0) -> Traffic:
    """The bytes of a launch of `workgroups`; the mean one loads `longer` times as much as `each`.

    `level` is the cycle model's: with "l2" nothing comes from farther, with "hbm" all does. With "grid" arguments in an order go by the
    cache model, for as many workgroups on a compute unit as were traced; the bytes of any other come once from HBM and once into each L2,
    as far as they are loaded so often. What a workgroup stores and loads again, as sums of parts of K, it does so as often in a longer
    launch. `read` is what the launch reads in all, where its arguments are larger than the traced ones.
    """
    again = {number for number, bytes_ in enumerate(each.stored) if bytes_}
    loaded = [one * workgroups * (1.0 if number in again else longer) for number, one in enumerate(each.loaded)]
    stored = [one * workgroups for one in each.stored]
    total, written = sum(loaded), sum(stored)
    rows = tuple(ArgumentTraffic(arguments[number].name if number < len(arguments) else "", loaded[number], stored[number])
                 for number in range(len(loaded)) if loaded[number] or stored[number])
    if level == "l2":
        return Traffic(total, 0, 0, 0, "everything in L2", rows)
    if level == "hbm":
        return Traffic(total, total, total, written, "everything in HBM", rows)
    llc, hbm, first, how = 0.0, 0.0, {}, "no argument known"
    if order is not None:
        how = order.how
        slab_bytes = [loaded[number] / workgroups / order.items for number in order.arguments]
        rates = slab_rates(order.slabs, slab_bytes, order.steps, timing, each.together)
        scale = workgroups * order.items / len(order.slabs)
        sizes = [arguments[number].nbytes * (1.0 if read is None else longer) for number in order.arguments]
        for number, size, one in zip(order.arguments, sizes, rates.operands, strict=True):
            far = one.hbm_bytes * scale
            if scale > 1 and sum(sizes) <= timing["llc_bytes"]:  # all stays in the last-level cache: later rounds load nothing of HBM
                far = min(far, max(one.hbm_bytes, size))
            llc, hbm, first[number] = llc + one.llc_bytes * scale, hbm + far, one.first
    rest = [number for number in range(len(arguments)) if loaded[number] and (order is None or number not in order.arguments)]
    once = sum(arguments[number].nbytes for number in rest)
    larger = read / once if read is not None and once and order is None else 1.0
    for number in rest:
        how = how if order is not None else "each byte of the arguments once"
        far = min(loaded[number], arguments[number].nbytes * larger)
        near = min(loaded[number], far * timing["xcds"])
        llc, hbm, first[number] = llc + near, hbm + far, 1.0
    llc, hbm = llc + loaded[NO_ARGUMENT], hbm + loaded[NO_ARGUMENT]
    return Traffic(total, llc, hbm, written, how, rows, first)


def moved_by_each(costs: Sequence[IssueCost], traces: Sequence[WaveTrace], arguments: int) -> MovedBytes:
    """What a traced workgroup moves."""
    traced = len({trace.workgroup for trace in traces})
    loaded, stored = moved_bytes(costs, traces, arguments)
    return MovedBytes(tuple(one / traced for one in loaded), tuple(one / traced for one in stored), traced)


def moved_bytes(costs: Sequence[IssueCost], traces: Sequence[WaveTrace], arguments: int) -> tuple[list[float], list[float]]:
    """Bytes that waves load and store by argument, those of none at last: of the lines that are touched what the lanes take.
    Private memory is left out: L2 keeps it, and a unit's own time for it is the cycle model's."""
    loaded, stored = [0.0] * (arguments + 1), [0.0] * (arguments + 1)
    for trace in traces:
        accesses = zip(trace.costs, trace.arguments or [NO_ARGUMENT] * len(trace.costs), strict=True)
        for position in trace.positions:
            cost = costs[position]
            if cost.traced:
                lines, argument = next(accesses)
                if cost.kind is CostKind.VMEM and argument != PRIVATE:
                    (stored if cost.store else loaded)[argument] += cost.taken(lines)
    return loaded, stored
