"""What a schedule makes of a step, by arithmetic on the timing table: gaps between matrix instructions, bounds, and the fill to expect.

Nothing is simulated here: every access is free of bank conflicts, data are there when they are waited for, and all waves run the loop.
What it says is a prediction; `asmgen profile` runs the code through the cycle model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field
from itertools import pairwise

from asmgen.author.schedule.schedules import Arrangement, Sync
from asmgen.author.step.effects import Unit
from asmgen.isa.arch import LANES
from asmgen.isa.lds import addresses_per_lane, rule
from asmgen.isa.opcode import group_of
from asmgen.isa.opcodes.mfma import MFMA
from asmgen.isa.records import dataclass
from asmgen.isa.timing import Timing, gpu_of, timing
from asmgen.program.program import Instruction

SIMDS = 4


@dataclass(frozen=True)
class ScheduleReport:
    """Of a steady step: `gaps` counts how many instructions stand between two neighbouring matrix instructions, over the seam too.

    `bounds` are the least clk that a step of all waves takes by the matrix cores, LDS, the memory port (what loads return) and issue;
    `cycles` the clk predicted; `waves` how many there are on a SIMD.
    """

    gpu: str
    waves: int
    gaps: Mapping[int, int] = field(default_factory=dict)
    bounds: Mapping[str, float] = field(default_factory=dict)
    cycles: float = 0

    @property
    def binding(self) -> str:
        """The resource that needs the most."""
        return max(self.bounds, key=lambda name: self.bounds[name])

    @property
    def fill(self) -> float:
        """The share of the predicted clk in which the matrix cores work."""
        return self.bounds["matrix"] / self.cycles if self.cycles else 0.0

    @property
    def distance(self) -> float:
        """How far the predicted clk lie above the bound, as a share of it."""
        bound = self.bounds[self.binding]
        return self.cycles / bound - 1 if bound else 0.0

    def lines(self) -> list[str]:
        """For the head of the assembly text."""
        bounds = ", ".join(f"{name} {clocks:.0f}" for name, clocks in self.bounds.items())
        gaps = ", ".join(f"{gap} ({count}x)" for gap, count in self.gaps.items())
        return [f"a step by {self.waves} wave{'s' * (self.waves > 1)} a SIMD of {self.gpu}, predicted: {self.cycles:.0f} clk, matrix cores "
                f"filled {self.fill:.1%}",
                f"bounds in clk: {bounds}; {self.binding} binds, {self.distance:.1%} above it",
                *([f"instructions between matrix instructions: {gaps}"] if gaps else [])]


def schedule_report(arch: str, units: Sequence[Unit], arrangement: Arrangement, waves: int, staggered: bool) -> ScheduleReport:
    """The report of a step's units in a schedule's order; `staggered` says that half of the waves run a stage behind the others."""
    table = timing(gpu_of(arch, None))
    of = {unit.tag.ordinal: unit for unit in units}
    stages: list[list[Instruction]] = [[]]
    for entry in arrangement.order:
        if not isinstance(entry, Sync):
            stages[-1] += of[entry].instructions
        elif entry.kind == "barrier" and staggered:
            stages.append([])
    code = [instruction for stage in stages for instruction in stage]
    places = [number for number, instruction in enumerate(code) if instruction.opcode.group == "matrix"]
    gaps = Counter(later - earlier - 1 for earlier, later in pairwise(places))
    if places:
        gaps[len(code) - 1 - places[-1] + places[0]] += 1
    whole = _Load(code, table)
    bounds = whole.bounds(waves)
    if staggered:
        times = [_stage_clocks(stage, table, waves) for stage in stages if stage]
        cycles = sum(max(one, before) for before, one in pairwise([times[-1], *times])) if times else 0.0
    else:
        cycles = max(*bounds.values(), _stream_clocks(code, table) if waves == 1 else 0.0)
    return ScheduleReport(table.gpu, waves, dict(sorted(gaps.items())), bounds, max(cycles, *bounds.values()))


@dataclass(frozen=True)
class _Load:
    """What the code of one wave asks for."""

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
        """Banks of all, the bus of each pair of SIMDs, the reads of one."""
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
        """What loads and stores of so many waves move through the vector cache."""
        moved = sum(LANES * memory.bytes for instruction in self.code
                    if (memory := instruction.opcode.memory) is not None and memory.space not in ("lds", "scalar"))
        return waves * moved / (128 / self.table["tcp_line"])


def occupancy(instruction: Instruction, arch: str) -> int:
    """Clk for which a matrix instruction keeps its core busy."""
    formats = instruction.modifiers
    return 4 * MFMA[instruction.name].passes_on(arch, int(formats.get("cbsz", 0)), int(formats.get("blgp", 0)))


def _stream_clocks(code: Sequence[Instruction], table: Timing) -> float:
    """One wave alone: between two matrix instructions either the core or the issue of what stands there is longer."""
    places = [number for number, instruction in enumerate(code) if instruction.opcode.group == "matrix"]
    if not places:
        return table["slot"] * len(code)
    clocks, ends = 0.0, [*places[1:], places[0] + len(code)]
    for first, behind in zip(places, ends, strict=True):
        clocks += max(occupancy(code[first], table.arch), table["mfma_operand_read"] + table["slot"] * (behind - first - 1))
    return clocks


def _stage_clocks(stage: Sequence[Instruction], table: Timing, waves: int) -> float:
    """A stage of one group of waves, one of `waves` on each SIMD, between two barriers."""
    if any(instruction.opcode.group == "matrix" for instruction in stage):
        return _stream_clocks(stage, table)
    load = _Load(stage, table)
    reads = any(group_of(instruction.opcode, instruction.form) == "lds_read" for instruction in stage)
    return max(load.lds(1, SIMDS), table["slot"] * len(stage)) + (table["lds_latency"] if reads else 0.0)
