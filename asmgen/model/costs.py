"""What an instruction asks of a compute unit, whoever executes it: its unit, how long it holds it, when its results are there.

The clk are the timing table's (`asmgen.isa.timing`), matrix occupancies those of the instruction table, and what reading a matrix
result takes is the wait states that the hazard rows ask for: 4 clk each and the reader's own slot.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cache

from asmgen.emulator.arrival.boundstep import registers_of, wait_of
from asmgen.emulator.scheduling.trace import LINE, VECTOR_SPACES
from asmgen.isa.arch import LANES
from asmgen.isa.lds import addresses_per_lane, rule
from asmgen.isa.opcode import is_lds_dma
from asmgen.isa.opcodes.mfma import MFMA
from asmgen.isa.operands import Waitcnt
from asmgen.isa.speeds import is_packed_f32, result_states, vector_speed
from asmgen.isa.timing import Timing
from asmgen.program.program import Instruction, Program

DWORD_BYTES = 4
_WIDE_BYTES = 12


class CostKind(Enum):
    """What the model does with an instruction. The value names the issue category: one of each a slot and SIMD; "" has none."""

    MATRIX = "valu", 0
    VALU = "valu", 1
    LDS = "memory", 2
    CROSSING = "memory", 3  # LDS hardware without LDS memory: permutes
    VMEM = "memory", 4
    SCALAR = "scalar", 5
    SMEM = "scalar", 6
    BRANCH = "branch", 7
    WAIT = "", 8
    NOP = "", 9
    BARRIER = "", 10
    PRIORITY = "", 11
    END = "", 12
    INTERNAL = "", 13

    @property
    def category(self) -> str:
        """The issue category."""
        return self.value[0]


@dataclass(frozen=True)
class IssueCost:
    """One instruction. Times in clk.

    `issue` is how long it holds its port, `hold` the wave; `ready` when its register results may be read, from its issue on. A matrix
    instruction holds the core for `occupancy` from `lead` clk after its issue on; `same` tells instructions between which the
    accumulator is forwarded. `accumulator` is the mask of SrcC. `lds_bus` is how long its data takes on the pair's bus, `lds_interval` how
    long its SIMD waits for the next read, `lds_ideal` its bank cycles without conflicts, `lds_conflict` the clk of each more, of which the
    first `lds_overlap` are hidden in the interval. `line_floor` is the least that a vector memory access takes in the cache; `bytes` what
    all lanes move.
    """

    kind: CostKind
    issue: int = 4
    hold: int = 4
    reads: int = 0
    writes: int = 0
    ready: int = 0
    occupancy: int = 0
    lead: int = 0
    same: str = ""
    accumulator: int = 0
    flops: int = 0
    packed: bool = False
    store: bool = False
    dma: bool = False
    returns: bool = False
    lds_bus: int = 0
    lds_interval: int = 0
    lds_ideal: int = 0
    lds_conflict: float = 1.0
    lds_overlap: int = 0
    line_floor: int = 0
    bytes: int = 0
    wait: Waitcnt | None = None
    priority: int = 0
    size: int = 8
    units: int = 0  # 4-clk units of VALU issue
    vm: int = 0
    lgkm: int = 0
    traced: bool = False

    def taken(self, lines: int) -> int:
        """Bytes that a vector memory access moves of so many lines: lanes without memory, as beyond the end of a buffer, move none."""
        return min(self.bytes, lines * LINE)


def costs_of(program: Program, timing: Timing) -> tuple[IssueCost, ...]:
    """The cost of each instruction, by position: those of one text and size are the same."""
    known: dict[tuple[str, int], IssueCost] = {}
    found = []
    for instruction in program.instructions:
        key = instruction.text, instruction.size
        cost = known.get(key)
        if cost is None:
            cost = known[key] = cost_of(instruction, timing)
        found.append(cost)
    return tuple(found)


def cost_of(instruction: Instruction, timing: Timing) -> IssueCost:
    """The cost of one instruction."""
    opcode = instruction.opcode
    classes, size = opcode.classes, instruction.size or 8
    if "mfma" in classes:
        return _matrix(instruction, timing, size)
    if "valu" in classes:
        return _valu(instruction, timing, size)
    row = opcode.memory
    if "lds" in classes:
        return _lds(instruction, timing, size)
    if row is not None and row.space in VECTOR_SPACES:
        return _vmem(instruction, timing, size)
    if "smem" in classes:
        return IssueCost(CostKind.SMEM, reads=instruction.reads, size=size, lgkm=opcode.lgkmcnt)
    if instruction.is_branch:
        return IssueCost(CostKind.BRANCH, reads=instruction.reads, writes=instruction.writes, ready=timing.clocks("salu_latency"),
                        size=size)
    if "salu" in classes:
        return IssueCost(CostKind.SCALAR, reads=instruction.reads, writes=instruction.writes, ready=timing.clocks("salu_latency"),
                        size=size)
    return _internal(instruction, timing, size)


def _internal(instruction: Instruction, timing: Timing, size: int) -> IssueCost:
    name = instruction.name
    number = next((operand for operand in instruction.operands if isinstance(operand, int)), 0)
    slot = timing.clocks("slot")
    if name == "s_waitcnt":
        return IssueCost(CostKind.WAIT, wait=wait_of(instruction), size=size)
    if name == "s_nop":
        return IssueCost(CostKind.NOP, issue=slot * (number + 1), hold=slot * (number + 1), size=size)
    if name == "s_sleep":
        return IssueCost(CostKind.INTERNAL, issue=slot, hold=slot + (number & 127) * timing.clocks("sleep_unit"), size=size)
    if name == "s_barrier":
        return IssueCost(CostKind.BARRIER, size=size)
    if name == "s_setprio":
        return IssueCost(CostKind.PRIORITY, priority=number & 3, size=size)
    if name.startswith("s_endpgm"):
        return IssueCost(CostKind.END, size=size)
    return IssueCost(CostKind.INTERNAL, size=size)


def _matrix(instruction: Instruction, timing: Timing, size: int) -> IssueCost:
    row, modifiers = MFMA[instruction.name], instruction.modifiers
    cbsz, blgp = int(modifiers.get("cbsz", 0)), int(modifiers.get("blgp", 0))
    passes = row.passes_on(timing.arch, cbsz, blgp)
    accumulator = reads = 0
    for spec, operand, reading, writing in instruction.accesses:
        mask = sum(reg.mask for reg in registers_of(operand))
        if spec.name == "src2" and not row.sparse or reading and writing:
            accumulator |= mask
        elif reading:
            reads |= mask
    return IssueCost(CostKind.MATRIX, issue=timing.clocks("valu_issue"), hold=timing.clocks("mfma_operand_read"), reads=reads,
                writes=instruction.writes, ready=4 * (result_states(row, timing.arch, passes) + 1), occupancy=4 * passes,
                lead=timing.clocks("scale_load") if row.scaled else 0, same=f"{row.kind} {passes} {row.m}x{row.n}", accumulator=accumulator,
                flops=2 * row.m * row.n * row.k * row.blocks, size=size)


def _valu(instruction: Instruction, timing: Timing, size: int) -> IssueCost:
    speed = vector_speed(instruction.opcode)
    issue = timing.clocks(f"{speed}_issue")
    return IssueCost(CostKind.VALU, issue=issue, reads=instruction.reads, writes=instruction.writes,
                     ready=timing.clocks(f"{speed}_latency"),
                packed=is_packed_f32(instruction.name), size=size, units=-(-issue // timing.clocks("valu_issue")))


def _lds(instruction: Instruction, timing: Timing, size: int) -> IssueCost:
    row = instruction.opcode.memory
    lgkm = instruction.opcode.lgkmcnt
    if row is None:
        return IssueCost(CostKind.CROSSING, reads=instruction.reads, size=size, lgkm=lgkm)
    bytes_ = LANES * row.bytes
    store = row.kind != "load"
    dwords = max(1, row.bytes // DWORD_BYTES)
    bus = timing["lds_bus"]
    issue = timing.clocks("lds_write_issue") + dwords * timing.clocks("lds_write_issue_dword") if store else timing.clocks("slot")
    interval = round(timing["lds_read_interval"] + bytes_ * timing["lds_read_interval_byte"])
    wide = row.bytes // addresses_per_lane(instruction.name) >= _WIDE_BYTES
    return IssueCost(CostKind.LDS, issue=issue, hold=issue, reads=instruction.reads, store=store, returns=row.kind == "load" or row.returns,
                lds_bus=round((bytes_ + LANES * DWORD_BYTES * store) / bus), lds_interval=interval,
                lds_ideal=_ideal(timing.arch, instruction.name, dwords), lds_overlap=timing.clocks("lds_conflict_overlap"),
                lds_conflict=timing["lds_conflict_wide" if wide else "lds_conflict"], bytes=bytes_, size=size, lgkm=lgkm,
                traced=True)


@cache
def _ideal(arch: str, name: str, dwords: int) -> int:
    """The bank cycles of an access of all lanes without conflicts; 1 for one without lane addresses."""
    if "addtid" in name or name in ("ds_append", "ds_consume"):
        return 1
    served = rule(arch, name)
    return sum(-(-len(phase) * dwords // served.banks) for phase in served.phases)


def read_interval(cost: IssueCost, bank: int) -> int:
    """How long the SIMD of a read that keeps the banks busy for `bank` clk waits for its next one."""
    return cost.lds_interval + max(0, bank - cost.lds_ideal - cost.lds_overlap)


def bank_clocks(cost: IssueCost, cycles: int) -> int:
    """How long the banks are busy with an access that takes so many cycles by its addresses."""
    return min(cycles, cost.lds_ideal) + round(cost.lds_conflict * max(0, cycles - cost.lds_ideal))


def _vmem(instruction: Instruction, timing: Timing, size: int) -> IssueCost:
    row, opcode = instruction.opcode.memory, instruction.opcode
    assert row is not None
    dma = is_lds_dma(opcode, instruction.form)
    store = row.kind != "load"
    bytes_ = LANES * row.bytes
    floor = timing.clocks("tcp_dword" if row.bytes <= DWORD_BYTES else "tcp_wide")
    issue = max(timing.clocks("vmem_issue"), round(bytes_ / timing["vmem_store_rate"])) if store else timing.clocks("vmem_issue")
    return IssueCost(CostKind.VMEM, issue=issue, reads=instruction.reads, store=store, dma=dma, returns=row.kind == "load" or row.returns,
                line_floor=floor, bytes=bytes_, size=size, vm=opcode.vmcnt, lgkm=opcode.lgkmcnt, traced=True)
