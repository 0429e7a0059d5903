"""What a unit asks of a compute unit, for schedules: its issue, its resource, and when its results are there.

All numbers come from the timing table and the tables of instructions (`asmgen.isa`); none from a kernel. Time is counted in *ticks*, the
slots of issue of the timing table (4 clk).
"""

from __future__ import annotations

from enum import Enum
from functools import cache

from asmgen.author.step.effects import Unit
from asmgen.isa.arch import LANES, SIMDS
from asmgen.isa.lds import addresses_per_lane, rule
from asmgen.isa.opcode import is_lds_dma
from asmgen.isa.opcodes.mfma import MFMA
from asmgen.isa.records import cached_property, dataclass
from asmgen.isa.registers import m0
from asmgen.isa.speeds import is_packed_f32, result_states, vector_speed
from asmgen.isa.timing import Timing, gpu_of, timing
from asmgen.program.program import Instruction


class UnitKind(Enum):
    """How a schedule treats a unit."""

    MATRIX = "matrix"  # the clock
    LDS_READ = "lds read"
    LOAD = "load"  # from memory into registers
    FILL = "fill"  # of LDS, from memory or from registers that a load writes
    ADDRESS = "address"  # writes M0 for a fill
    COMPUTE = "compute"  # everything else, in the order of its stream


@dataclass(frozen=True)
class StepMachine:
    """Who runs a step: the architecture, and the waves on each SIMD."""

    arch: str
    waves: int = 1

    @cached_property
    def timing(self) -> Timing:
        """The timing table of the architecture's default GPU."""
        return timing(gpu_of(self.arch))


@dataclass(frozen=True)
class UnitCost:
    """Times in ticks.

    `issue`: how long the wave issues nothing else. `busy`: how long the resource of its kind is taken for all waves: a matrix core, the
    vector port, LDS, the memory port. `ready`: when results may be read, from the issue on; `chained`: the same for the accumulator of
    the next matrix unit. `bus`: how long the bus on which LDS instructions issue is taken by the waves that share it; other instructions
    issue meanwhile. `port`: how long accesses of memory take the cache's port, whose queue holds some of them; `busy` is longer where data
    from memory come back slower.
    """

    issue: int
    busy: int
    ready: int
    chained: int = 0
    bus: int = 0
    port: int = 0
    packed: bool = False


def cost_of(unit: Unit, machine: StepMachine) -> UnitCost:
    """The cost of a unit. A block is mostly skipped: it costs a branch."""
    if unit.is_block:
        table = machine.timing
        return UnitCost(1, 0, ticks(table["branch_not_taken"], table.clocks("slot")))
    instruction, formats = unit.first, unit.first.modifiers
    if instruction.name in MFMA:
        return _matrix(instruction.name, int(formats.get("cbsz", 0)), int(formats.get("blgp", 0)), machine)
    return _other(instruction, machine)


def ticks(clk: float, slot: int) -> int:
    """So many clk in ticks, rounded up."""
    return -int(-clk // slot)


@cache
def _matrix(name: str, cbsz: int, blgp: int, machine: StepMachine) -> UnitCost:
    table, row = machine.timing, MFMA[name]
    slot = table.clocks("slot")
    passes = row.passes_on(machine.arch, cbsz, blgp)
    lead = table["scale_load"] if row.scaled else 0
    return UnitCost(ticks(table["mfma_operand_read"] + lead, slot), passes * 4 // slot, result_states(row, machine.arch, passes) + 1,
                    passes * 4 // slot)


def _other(instruction: Instruction, machine: StepMachine) -> UnitCost:
    table, opcode, name = machine.timing, instruction.opcode, instruction.name
    slot, memory = table.clocks("slot"), opcode.memory
    if memory is not None and memory.space == "lds":
        dwords = max(1, memory.bytes // 4)
        served = rule(machine.arch, name) if addresses_per_lane(name) else None
        banks = sum(-(-len(phase) * dwords // served.banks) for phase in served.phases) if served is not None else 1
        busy = ticks(machine.waves * SIMDS * banks, slot)
        issue = 1 if memory.kind == "load" else ticks(table["lds_write_issue"] + dwords * table["lds_write_issue_dword"], slot)
        bus = ticks(SIMDS // 2 * machine.waves * table["lds_issue_bus"], slot)
        queued = table["lds_fifo"] * table["lds_read_interval"]  # reads come in bursts: those before it fill the queue
        return UnitCost(issue, busy, ticks(table["lds_latency"] + queued, slot), bus=bus)
    if memory is not None and memory.space != "scalar":
        moved = LANES * memory.bytes
        port = max(table["tcp_dword" if memory.bytes <= 4 else "tcp_wide"], moved / 128 * table["tcp_line"])
        busy = ticks(machine.waves * SIMDS * max(port, moved / table["vmem_burst"]), slot)
        issue = 1 if memory.kind == "load" else ticks(max(table["vmem_issue"], moved / table["vmem_store_rate"]), slot)
        return UnitCost(issue, busy, ticks(table["latency_hbm"], slot) + busy, port=ticks(machine.waves * SIMDS * port, slot))
    if memory is not None:
        return UnitCost(1, 0, ticks(table["smem_latency"], slot))
    if "valu" in opcode.classes:
        speed = vector_speed(opcode)
        return UnitCost(1, ticks(table[f"{speed}_issue"], slot), ticks(table[f"{speed}_latency"], slot),
                        packed=is_packed_f32(name))
    return UnitCost(1, 0, ticks(table["salu_latency"], slot))


def kinds_of(units: list[Unit]) -> dict[int, UnitKind]:
    """The kind of each unit of a step, by ordinal."""
    loaded = 0  # registers that loads from memory write
    for unit in units:
        loaded |= unit.effects.writes if _loads(unit, "global") and not _writes(unit, "lds") else 0
    return {unit.tag.ordinal: _kind(unit, loaded) for unit in units}


def _kind(unit: Unit, loaded: int) -> UnitKind:
    if unit.is_block:
        return UnitKind.COMPUTE
    if unit.first.name in MFMA:
        return UnitKind.MATRIX
    if _writes(unit, "lds"):
        return UnitKind.FILL if is_lds_dma(unit.first.opcode, unit.first.form) or unit.effects.reads & loaded else UnitKind.COMPUTE
    if _loads(unit, "lds"):
        return UnitKind.LDS_READ
    if _loads(unit, "global") and unit.effects.writes:
        return UnitKind.LOAD
    return UnitKind.ADDRESS if unit.effects.writes & m0.mask else UnitKind.COMPUTE


def _loads(unit: Unit, space: str) -> bool:
    return any(access.space == space and not access.write for access in unit.effects.memory)


def _writes(unit: Unit, space: str) -> bool:
    return any(access.space == space and access.write for access in unit.effects.memory)
