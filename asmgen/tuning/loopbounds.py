"""A lower bound of each loop, from its code and the timing table alone: no scheduler and no cycle model had a hand in it.

One wave issues the loop's instructions in order, alone on its SIMD: each takes its slots; a matrix core, the vector port and registers are
waited for; branches that leave the straight code are not taken, the last one is. Data from LDS and memory are always there. The ticks
between two rounds of that wave are the first bound. The others are what all waves together ask of a shared unit: matrix cores, vector
ports, the LDS bus and its banks, the cache that vector memory passes. No run of the loop is faster than the largest, if its waves run it
together, as barriers make them: without one, a wave may be through before another one begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from asmgen.isa.arch import LANES, SIMDS
from asmgen.isa.lds import addresses_per_lane, rule
from asmgen.isa.opcodes.mfma import MFMA
from asmgen.isa.speeds import is_packed_f32, result_states, vector_speed
from asmgen.isa.timing import Timing
from asmgen.program.program import Instruction, Program

_ROUNDS = 6  # of one wave, until a round takes the same time again


@dataclass(frozen=True)
class LoopBound:
    """Clk of one trip from `first` to `last`, by resource: no trip takes less."""

    first: int
    last: int
    clocks: dict[str, float]

    @property
    def binding(self) -> str:
        """The resource with the largest bound."""
        return max(self.clocks, key=lambda name: self.clocks[name])

    @property
    def least(self) -> float:
        """The largest bound."""
        return self.clocks[self.binding]


def loop_bound(program: Program, first: int, last: int, waves: int, table: Timing) -> LoopBound | None:
    """The bound of the loop from position `first` to `last` that `waves` waves of a compute unit run.

    None where a branch may skip a part of it: a trip may then take less than its text. Raises ValueError where there is no instruction.
    """
    code = program.instructions[first:last + 1]
    if not code:
        raise ValueError(f"there is no instruction from position {first} to {last}")
    targets = [program.labels.get(instruction.target or "", -1) for instruction in code[:-1] if instruction.is_branch]
    if any(first <= target <= last for target in targets):
        return None
    resident = max(1, waves // SIMDS)
    return LoopBound(first, last, {"one wave": _one_wave(code, table), **_shared(code, waves, resident, table)})


def _shared(code: Sequence[Instruction], waves: int, resident: int, table: Timing) -> dict[str, float]:
    """The clk for which all waves hold each shared unit; `resident` of them are on one SIMD."""
    core = port = bus = banks = cache = 0.0
    for instruction in code:
        memory, name = instruction.opcode.memory, instruction.name
        if name in MFMA:
            core += 4 * _passes(instruction, table)
            port += table["mfma_operand_read"]
        elif "valu" in instruction.opcode.classes:
            port += table[f"{vector_speed(instruction.opcode)}_issue"]
        elif memory is not None and memory.space == "lds":
            dwords = max(1, memory.bytes // 4)
            served = rule(table.arch, name) if addresses_per_lane(name) else None
            banks += sum(-(-len(phase) * dwords // served.banks) for phase in served.phases) if served is not None else 1
            bus += LANES * memory.bytes / table["lds_bus"]
        elif memory is not None and memory.space != "scalar" and memory.kind == "load":
            cache += max(table["tcp_dword" if memory.bytes <= 4 else "tcp_wide"], LANES * memory.bytes / 128 * table["tcp_line"])
    return {"matrix": resident * core, "vector port": resident * port, "lds banks": waves * banks, "lds bus": waves / 2 * bus,
            "cache": waves * cache}


def _passes(instruction: Instruction, table: Timing) -> int:
    formats = instruction.modifiers
    return MFMA[instruction.name].passes_on(table.arch, int(formats.get("cbsz", 0)), int(formats.get("blgp", 0)))


def _one_wave(code: Sequence[Instruction], table: Timing) -> float:
    wave = _LoneWave(table)
    ends = []
    for _ in range(_ROUNDS):
        for number, instruction in enumerate(code):
            wave.issue(instruction, number == len(code) - 1)
        ends.append(wave.now)
    return ends[-1] - ends[-2]


class _LoneWave:
    """One wave, alone on a SIMD: the clk of its next instruction, and what it has under way."""

    def __init__(self, table: Timing) -> None:
        self._table = table
        self.now = self._core = self._port = self._shadow = 0.0
        self._results: list[tuple[int, float, float, str]] = []  # registers, when read, when accumulated on, by which name

    def issue(self, instruction: Instruction, closes: bool) -> None:
        """Issue an instruction as soon as it can; `closes`: it is the branch back."""
        table, name = self._table, instruction.name
        if name in MFMA:
            self._matrix(instruction)
        elif "valu" in instruction.opcode.classes:
            self._vector(instruction)
        elif instruction.is_branch:
            self.now += table["slot"] + table["branch_taken" if closes else "branch_not_taken"] - table["slot"]
        elif name == "s_nop":
            count = next((operand for operand in instruction.operands if isinstance(operand, int)), 0)
            self.now += table["slot"] * (count + 1)
        elif name == "s_barrier":
            self.now += table["barrier_release"]
        else:
            self.now += table["slot"]

    def _matrix(self, instruction: Instruction) -> None:
        table, row = self._table, MFMA[instruction.name]
        lead = table["scale_load"] if row.scaled else 0
        passes = _passes(instruction, table)
        core = (self._core - lead) // table["slot"] * table["slot"]  # what is less than a slot away begins at its own clk
        start = max(self.now, self._port, core, self._operands(instruction, instruction.name))
        begin = max(start + lead, self._core)
        self._core = self._shadow = begin + 4 * passes
        self._port = start + lead + table["mfma_operand_read"]
        ready = start + 4 * (result_states(row, table.arch, passes) + 1)
        self._note(instruction.writes, ready, start + 4 * passes, instruction.name)
        self.now = self._port

    def _vector(self, instruction: Instruction) -> None:
        table, speed = self._table, vector_speed(instruction.opcode)
        start = max(self.now, self._port, self._operands(instruction, ""))
        if is_packed_f32(instruction.name):
            start = max(start, self._shadow + table["packed_hazard"])
        self._port = start + table[f"{speed}_issue"]
        self._note(instruction.writes, start + table[f"{speed}_latency"], 0.0, "")
        self.now = start + table["slot"]

    def _operands(self, instruction: Instruction, chained: str) -> float:
        """When the registers that it reads are there; a matrix instruction of the same name takes its accumulator earlier."""
        there = 0.0
        for mask, ready, accumulated, name in self._results:
            if mask & instruction.reads:
                there = max(there, accumulated if chained and chained == name and mask == instruction.writes else ready)
        return there

    def _note(self, mask: int, ready: float, accumulated: float, name: str) -> None:
        self._results = [one for one in self._results if one[1] > self.now and one[0] & ~mask]
        if mask:
            self._results.append((mask, ready, accumulated, name))
