"""What executed instructions ask of each unit of a compute unit, and the least clk that each unit needs for it."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from asmgen.emulator.scheduling.trace import NO_ARGUMENT, WaveTrace
from asmgen.isa.arch import SIMDS
from asmgen.isa.timing import Timing
from asmgen.model.costs import CostKind, IssueCost, bank_clocks, read_interval
from asmgen.model.farmemory import FarMemory

BOUNDS = ("matrix", "lds", "memory_port", "l1", "issue", "valu")
_BRANCHES = {True: "branch_taken", False: "branch_not_taken"}


@dataclass
class Usage:
    """Of one wave, or a share of it: clk unless said otherwise. `shadow_slots` counts the VALU slots after matrix instructions."""

    matrix: float = 0
    blocked: float = 0  # no other wave of the SIMD issues
    shadow_slots: float = 0
    valu_units: float = 0  # of 4 clk, not packed
    packed_units: float = 0
    own: float = 0  # in which the wave itself holds its place
    port: float = 0
    lds_banks: float = 0
    lds_bus: float = 0
    lds_reads: float = 0  # of the SIMD's way to its pair's bus
    l1: float = 0
    load_bytes: float = 0
    flight: float = 0  # B x clk that loads are under way without a queue
    flops: float = 0

    def add(self, other: Usage, factor: float = 1.0) -> None:
        """Add so many times another one."""
        for name in self.__dataclass_fields__:
            setattr(self, name, getattr(self, name) + factor * getattr(other, name))


def usage(costs: Sequence[IssueCost], trace: WaveTrace, accesses: Sequence[tuple[int, int]], first: int, last: int, timing: Timing,
          far: FarMemory) -> Usage:
    """Of the executions `first` to `last` - 1 of a wave; `accesses` has cost and argument for each execution (cost 0 where it is no
    access). Executions that ask for the same are counted first."""
    total, positions = Usage(), trace.positions
    following = (*positions[first + 1:last + 1], -1)[:last - first]
    alike = Counter(zip(positions[first:last], following, accesses[first:last], strict=True))
    for (position, then, access), times in alike.items():
        _add(total, costs[position], access, then not in (position + 1, -1), times, timing, far)
    return total


def _add(total: Usage, cost: IssueCost, access: tuple[int, int], taken: bool, times: int, timing: Timing, far: FarMemory) -> None:
    """So many executions of an instruction; `taken` is for branches."""
    kind, read = cost.kind, timing["mfma_operand_read"]
    if kind is CostKind.MATRIX:
        total.matrix += times * cost.occupancy
        total.blocked += times * (read + cost.lead)
        total.shadow_slots += times * (cost.occupancy - read - cost.lead) / timing["slot"]
        total.own += times * (read + cost.lead)
        total.flops += times * cost.flops
        return
    total.own += times * (timing[_BRANCHES[taken]] if kind is CostKind.BRANCH else cost.hold)
    if kind is CostKind.VALU and cost.packed:
        total.packed_units += times * cost.units
    elif kind is CostKind.VALU:
        total.valu_units += times * cost.units
    elif kind.category == "memory":
        total.port += times * cost.issue
        if kind is CostKind.LDS:
            bank = bank_clocks(cost, access[0])
            total.lds_banks += times * bank
            total.lds_bus += times * cost.lds_bus
            total.lds_reads += 0 if cost.store else times * read_interval(cost, bank)
        elif kind is CostKind.VMEM:
            lines, argument = access
            total.l1 += times * (max(cost.line_floor, lines * timing["tcp_line"]) if lines else 1)
            if lines and not cost.store:
                total.load_bytes += times * cost.taken(lines)
                total.flight += times * cost.taken(lines) * far.round_trip(argument)


def accesses_by_execution(costs: Sequence[IssueCost], trace: WaveTrace) -> list[tuple[int, int]]:
    """Cost and argument of each access at the number of its execution, cost 0 elsewhere."""
    nothing = 0, NO_ARGUMENT
    found = zip(trace.costs, trace.arguments or itertools.repeat(NO_ARGUMENT))  # noqa: B905
    return [next(found) if costs[position].traced else nothing for position in trace.positions]


@dataclass(frozen=True)
class ResourceBounds:
    """The least clk by each unit, the largest of them, and what vector memory allows: by what comes back in a clk, and by how much may be
    under way for a round trip (measured facts, section 3: TCP-bound tiles, whose round trip has the queue in it)."""

    clocks: dict[str, float]
    verdict: str
    memory: float

    @property
    def least(self) -> float:
        """The least clk by anything, what vector memory has in flight included."""
        return max(self.memory, *self.clocks.values())

    @property
    def binding(self) -> str:
        """The unit that needs the most."""
        return max(self.clocks, key=lambda name: self.clocks[name])


@dataclass
class UnitLoad:
    """The usage of all waves of a compute unit, by SIMD and wave."""

    by_simd: list[list[Usage]] = field(default_factory=lambda: [[] for _ in range(SIMDS)])

    def times(self, count: int) -> UnitLoad:
        """So many workgroups beside each other that each are this load."""
        return UnitLoad([waves * count for waves in self.by_simd])

    def grown(self, other: UnitLoad, times: float) -> UnitLoad:
        """The same waves with so many times another load of theirs added."""
        found = [[_sum([wave]) for wave in waves] for waves in self.by_simd]
        for waves, more in zip(found, other.by_simd, strict=True):
            for wave, added in zip(waves, more, strict=True):
                wave.add(added, times)
        return UnitLoad(found)

    def loading(self, share: float) -> UnitLoad:
        """The same with so large a share of its loads."""
        return UnitLoad([[replace(wave, load_bytes=wave.load_bytes * share, flight=wave.flight * share) for wave in waves]
                         for waves in self.by_simd])

    def farther(self, ratio: float) -> UnitLoad:
        """The same with round trips that are so many times as long."""
        return UnitLoad([[replace(wave, flight=wave.flight * ratio) for wave in waves] for waves in self.by_simd])

    def in_flight(self, timing: Timing) -> float:
        """The least clk by what vector memory may have on its way for a round trip."""
        return sum(wave.flight for waves in self.by_simd for wave in waves) / timing["vmem_in_flight"]

    def bounds(self, timing: Timing, far: FarMemory) -> ResourceBounds:
        """What each unit needs."""
        together = [_sum(waves) for waves in self.by_simd]
        everything = _sum(together)
        pairs = [_sum(together[number::2]) for number in range(2)]
        clocks = {
            "matrix": max(one.matrix for one in together),
            "lds": max([everything.lds_banks, *(pair.lds_bus for pair in pairs), *(one.lds_reads for one in together)]),
            "memory_port": max(one.port for one in together),
            "l1": everything.l1,
            "issue": max((own.own + simd.blocked - own.blocked for simd, waves in zip(together, self.by_simd, strict=True)
                          for own in waves), default=0.0),
            "valu": max(_valu_bound(one, timing) for one in together),
        }
        memory, verdict = _memory(everything, clocks["matrix"], clocks["l1"], timing, far)
        return ResourceBounds(clocks, verdict, memory)


def _sum(parts: Iterable[Usage]) -> Usage:
    total = Usage()
    for part in parts:
        total.add(part)
    return total


def _valu_bound(one: Usage, timing: Timing) -> float:
    """Plain units fill the shadow slots of matrix instructions. What is beyond them stands outside, and so do packed units,
    no packed one sooner after a matrix instruction than the hazard says."""
    if not one.matrix:
        return timing["slot"] * (one.valu_units + one.packed_units)
    excess = timing["slot"] * max(0.0, one.valu_units - one.shadow_slots)
    return one.matrix + (max(excess, timing["packed_hazard"]) + timing["slot"] * one.packed_units if one.packed_units else excess)


def shadow_optimum(matrix_clocks: int, occupancy: int, units: int, packable: bool, timing: Timing) -> int:
    """The least clk for M matrix instructions (`matrix_clocks` together) and so many 4-clk VALU units: T = 32M + g(N - 6M).

    Where the excess is `packable`, the units that fill the 12 clk after the last matrix instruction stay plain and the rest go in pairs
    (docs/facts/measured_gfx950.md section 1). Otherwise each takes 4 clk more.
    """
    slot = timing.clocks("slot")
    count = matrix_clocks // occupancy
    excess = max(0, units - count * ((occupancy - timing.clocks("mfma_operand_read")) // slot))
    plain = timing.clocks("packed_hazard") // slot
    pairs = max(0, excess - plain) // 2 if packable else 0
    return matrix_clocks + slot * (excess - pairs)


def _memory(total: Usage, matrix: float, l1: float, timing: Timing, far: FarMemory) -> tuple[float, str]:
    """The clk that bytes in flight allow, and whether bandwidth, latency or compute limits."""
    needed = total.flight / timing["vmem_in_flight"]
    returned = max(l1, total.load_bytes / far.rate)
    limit = max(needed, returned)
    if matrix >= limit or not total.load_bytes:
        return limit, "compute"
    return limit, "bandwidth" if returned >= needed else "latency"
