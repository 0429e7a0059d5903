"""The report of a scheduled step, by arithmetic on the timing table: gaps between matrix instructions, bounds, matrix utilisation.

It simulates nothing. It assumes that no access has a bank conflict, that data have arrived when they are waited for, and that all waves run
the loop. It is a prediction; `asmgen profile` runs the code through the cycle model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field
from itertools import pairwise

from asmgen.author.schedule.schedules import Arrangement, Sync
from asmgen.author.step.effects import Unit
from asmgen.isa.arch import LANES, SIMDS
from asmgen.isa.lds import addresses_per_lane, rule
from asmgen.isa.opcode import group_of
from asmgen.isa.opcodes.mfma import MFMA
from asmgen.isa.records import dataclass
from asmgen.isa.timing import Timing, gpu_of, timing
from asmgen.program.program import Instruction


@dataclass(frozen=True)
class ScheduleReport:
    """The report of a steady step.

    `gaps`: by number of instructions between two neighbouring matrix instructions, how often it occurs, over the seam too. `bounds`: by
    resource (matrix cores, LDS, memory port, issue), the least clk that a step of all waves takes. `cycles`: the predicted clk. `waves`:
    the number of waves on a SIMD.
    """

    gpu: str
    waves: int
    gaps: Mapping[int, int] = field(default_factory=dict)
    bounds: Mapping[str, float] = field(default_factory=dict)
    cycles: float = 0

    @property
    def binding(self) -> str:
        """The resource with the largest bound."""
        return max(self.bounds, key=lambda name: self.bounds[name])

    @property
    def fill(self) -> float:
        """The share of the predicted clk in which the matrix cores work."""
        return self.bounds["matrix"] / self.cycles if self.cycles else 0.0

    @property
    def distance(self) -> float:
        """By what share of the bound the predicted clk exceed it."""
        bound = self.bounds[self.binding]
        return self.cycles / bound - 1 if bound else 0.0

    def lines(self) -> list[str]:
        """The lines at the head of the assembly text."""
        bounds = ", ".join(f"{name} {clocks:.0f}" for name, clocks in self.bounds.items())
        gaps = ", ".join(f"{gap} ({count}x)" for gap, count in self.gaps.items())
        return [f"a step by {self.waves} wave{'s' * (self.waves > 1)} a SIMD of {self.gpu}, predicted: {self.cycles:.0f} clk, matrix cores "
                f"filled {self.fill:.1%}",
                f"bounds in clk: {bounds}; {self.binding} binds, {self.distance:.1%} above it",
                *([f"instructions between matrix instructions: {gaps}"] if gaps else [])]


def schedule_report(arch: str, units: Sequence[Unit], arrangement: Arrangement, waves: int, staggered: bool) -> ScheduleReport:
    """The report of a step's units in a schedule's order. `staggered`: half of the waves run a stage after the others. The clk are those of
    the schedule's own arithmetic, where it has some: what it says of waiting matrix cores is then said of the same step."""
    table = timing(gpu_of(arch, None))
    of = {unit.tag.ordinal: unit for unit in units}
    stages: list[list[Instruction]] = [[]]
    for entry in arrangement.order:
        if not isinstance(entry, Sync):
            stages[-1] += of[entry].instructions if not of[entry].is_block else of[entry].instructions[:1]  # mostly skipped
        elif entry.kind == "barrier" and staggered:
            stages.append([])
    code = [instruction for stage in stages for instruction in stage]
    positions = [number for number, instruction in enumerate(code) if instruction.opcode.group == "matrix"]
    gaps = Counter(later - earlier - 1 for earlier, later in pairwise(positions))
    if positions:
        gaps[len(code) - 1 - positions[-1] + positions[0]] += 1
    whole = _Load(code, table)
    bounds = whole.bounds(waves)
    if staggered:
        times = [_stage_clocks(stage, table, waves) for stage in stages if stage]
        cycles = sum(max(one, before) for before, one in pairwise([times[-1], *times])) if times else 0.0
    else:
        cycles = arrangement.clocks or (_stream_clocks(code, table) if waves == 1 else 0.0)
    return ScheduleReport(table.gpu, waves, dict(sorted(gaps.items())), bounds, max(cycles, *bounds.values()))


@dataclass(frozen=True)
class _Load:
    """The demand of one wave's code on each resource."""

    code: Sequence[Instruction]
    table: Timing

    def bounds(self, waves: int) -> dict[str, float]:
        """The least clk of `waves` waves on each SIMD."""
        table = self.table
        matrix = [instruction for instruction in self.code if instruction.opcode.group == "matrix"]
        read = table["mfma_operand_read"]
        own = sum(read if instruction.opcode.group == "matrix" else table["slot"] for instruction in self.code)
        return {"matrix": float(waves * sum(occupancy(instruction, table.arch) for instruction in matrix)), "lds": self.lds(waves, SIMDS),
                "memory_port": self.memory(waves * SIMDS), "issue": own + (waves - 1) * read * len(matrix)}

    def lds(self, waves: int, simds: int) -> float:
        """The largest of three: banks for all waves, the bus of a pair of SIMDs, the reads of one SIMD."""
        banks = bus = reads = 0.0
        for instruction in self.code:
            memory = instruction.opcode.memory
            if memory is None or memory.space != "lds":
                continue
            dwords = max(1, memory.bytes // 4)
            served = rule(self.table.arch, instruction.name) if addresses_per_lane(instruction.name) else None
            banks += sum(-(-len(phase) * dwords // served.banks) for phase in served.phases) if served is not None else 1
            bus += LANES * memory.bytes / self.table["lds_bus"]
            reads += self.table["lds_read_interval"] if memory.kind == "load" else 0
        return max(waves * simds * banks, waves * simds / 2 * bus, waves * reads)

    def memory(self, waves: int) -> float:
        """The clk in which loads and stores of so many waves pass the vector cache."""
        moved = sum(LANES * memory.bytes for instruction in self.code
                    if (memory := instruction.opcode.memory) is not None and memory.space not in ("lds", "scalar"))
        return waves * moved / (128 / self.table["tcp_line"])


def occupancy(instruction: Instruction, arch: str) -> int:
    """The clk for which a matrix instruction keeps its core busy."""
    formats = instruction.modifiers
    return 4 * MFMA[instruction.name].passes_on(arch, int(formats.get("cbsz", 0)), int(formats.get("blgp", 0)))


def _stream_clocks(code: Sequence[Instruction], table: Timing) -> float:
    """The clk of one wave alone: from one matrix instruction to the next, the longer one of the core's time and the issue of the gap."""
    positions = [number for number, instruction in enumerate(code) if instruction.opcode.group == "matrix"]
    if not positions:
        return table["slot"] * len(code)
    clocks, ends = 0.0, [*positions[1:], positions[0] + len(code)]
    for first, following in zip(positions, ends, strict=True):
        clocks += max(occupancy(code[first], table.arch), table["mfma_operand_read"] + table["slot"] * (following - first - 1))
    return clocks


def _stage_clocks(stage: Sequence[Instruction], table: Timing, waves: int) -> float:
    """The clk of a stage between two barriers, for one wave group with one of `waves` waves on each SIMD."""
    if any(instruction.opcode.group == "matrix" for instruction in stage):
        return _stream_clocks(stage, table)
    load = _Load(stage, table)
    reads = any(group_of(instruction.opcode, instruction.form) == "lds_read" for instruction in stage)
    return max(load.lds(1, SIMDS), table["slot"] * len(stage)) + (table["lds_latency"] if reads else 0.0)
