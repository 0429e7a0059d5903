"""What `asmgen inspect` says of code: matrix instructions with their cycles, bytes moved, what each wait releases, who takes a loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from asmgen.checks.counters.flow import WaitFlow, WaitNeed
from asmgen.checks.counters.ledger import LGKM, VM, Ledger
from asmgen.checks.counters.tokens import TooEarly
from asmgen.isa.opcode import is_lds_dma
from asmgen.isa.opcodes.mfma import MFMA
from asmgen.program.controlflow import ControlFlow, Loop
from asmgen.program.program import Instruction, Program

CYCLES_PER_PASS = 4  # docs/facts/instructions.md section 1
_LANES = 64
_SPACES = {"buffer": "global", "global": "global", "flat": "global", "lds": "lds", "scratch": "scratch", "scalar": "scalar"}


@dataclass(frozen=True)
class MatrixKind:
    """One matrix instruction as it stands: its formats too, where modifiers choose them. `cycles` is how long one of them occupies the
    matrix core of its SIMD."""

    name: str
    count: int
    passes: int

    @property
    def cycles(self) -> int:
        """Of one instruction."""
        return self.passes * CYCLES_PER_PASS

    def as_json(self) -> dict[str, Any]:
        """All of it, and the cycles of all of them together."""
        return {"name": self.name, "count": self.count, "passes": self.passes, "cycles": self.cycles,
                "all_cycles": self.count * self.cycles}


@dataclass(frozen=True)
class Release:
    """What one counter of a wait lets arrive, at most: operations of one text, how many of them, what they bring."""

    counter: str
    count: int
    operation: str
    operations: int
    brings: str

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return dict(vars(self))


@dataclass(frozen=True)
class WaitReport:
    """One s_waitcnt: its position and address, its counts, what it releases on some path."""

    position: int
    address: int | None
    text: str
    counts: dict[str, int]
    releases: tuple[Release, ...]

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return {"position": self.position, "address": self.address, "text": self.text, "counts": self.counts,
                "releases": [release.as_json() for release in self.releases]}


def matrix_kinds(instructions: Iterable[Instruction], arch: str) -> tuple[MatrixKind, ...]:
    """The matrix instructions by kind, most frequent first."""
    counted: Counter[tuple[str, int]] = Counter()
    for instruction in instructions:
        row = MFMA.get(instruction.name)
        if row is not None:
            cbsz, blgp = (int(instruction.modifiers.get(name) or 0) for name in ("cbsz", "blgp"))
            formats = f" cbsz:{cbsz} blgp:{blgp}" if "f8f6f4" in instruction.name else ""
            counted[instruction.name + formats, row.passes_on(arch, cbsz, blgp)] += 1
    return tuple(MatrixKind(name, count, passes) for (name, passes), count in counted.most_common())


def traffic(instructions: Iterable[Instruction]) -> dict[str, int]:
    """Bytes that one wave with all lanes active asks for, by kind: global_load, lds_dma, lds_store and so on; atomics by space."""
    moved: Counter[str] = Counter()
    for instruction in instructions:
        row = instruction.opcode.memory
        if row is None:
            continue
        kind = "lds_dma" if is_lds_dma(instruction.opcode, instruction.form) else f"{_SPACES.get(row.space, row.space)}_{row.kind}"
        moved[kind] += row.bytes * (1 if row.space == "scalar" else _LANES)
    return dict(sorted(moved.items()))


def wait_reports(program: Program) -> tuple[WaitReport, ...]:
    """Every s_waitcnt in program order, with what the ledger of all paths together says that it releases."""
    flow = WaitFlow(program, automatic=False)
    released: dict[int, tuple[Release, ...]] = {}

    def visit(position: int, ledger: Ledger, need: WaitNeed | None, early: list[TooEarly], full: list[str]) -> None:
        wait = flow.operations[position].wait
        if wait is not None:
            counts = ((VM, wait.vmcnt), (LGKM, wait.lgkmcnt))
            released[position] = tuple(release for counter, count in counts if count is not None
                                       for release in _released(program, flow, ledger, counter, count))

    flow.visit(visit)
    found = []
    for position, operation in enumerate(flow.operations):
        if operation.wait is not None:
            instruction = program.instructions[position]
            counts = {name: count for name, count in ((VM, operation.wait.vmcnt), ("expcnt", operation.wait.expcnt),
                                                      (LGKM, operation.wait.lgkmcnt)) if count is not None}
            found.append(WaitReport(position, instruction.address, instruction.text, counts, released.get(position, ())))
    return tuple(found)


def _released(program: Program, flow: WaitFlow, ledger: Ledger, counter: str, count: int) -> list[Release]:
    if count >= flow.limits[counter]:
        return []
    kinds: dict[tuple[str, str], int] = {}
    for position, _ in ledger.copy().settle(counter, count, flow.operations):
        operation, instruction = flow.operations[position], program.instructions[position]
        brings = "LDS data" if operation.fills_lds else "registers" if operation.arrives else "completion"
        name = f"{instruction.name} lds" if instruction.modifiers.get("lds") else instruction.name
        kinds[name, brings] = kinds.get((name, brings), 0) + 1
    return [Release(counter, count, name, number, brings) for (name, brings), number in kinds.items()]


def takers(program: Program, flow: ControlFlow, block: tuple[int, int, int] | None, loops: Sequence[Loop]) -> list[tuple[int, ...] | None]:
    """For each loop the waves of the workgroup that may come to it, None where the workgroup's size is not known."""
    if block is None or not loops:
        return [None for _ in loops]
    from asmgen.program.wavevalues import WaveValues

    values = WaveValues(program, flow, block)
    return [tuple(wave for wave, comes in enumerate(values.takes[flow.block_of[loop.first]].tolist()) if comes) for loop in loops]


def waves_text(waves: Sequence[int]) -> str:
    """Wave numbers as ranges: "0 to 3, 6"."""
    parts: list[list[int]] = []
    for wave in waves:
        if parts and parts[-1][1] == wave - 1:
            parts[-1][1] = wave
        else:
            parts.append([wave, wave])
    return ", ".join(str(low) if low == high else f"{low} to {high}" for low, high in parts)
