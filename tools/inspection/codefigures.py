"""What `asmgen inspect` says of a stretch of code: mix, matrix instructions, bytes moved, addresses, copies; and of waits and loops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from asmgen.checks.counters.flow import WaitFlow, WaitNeed
from asmgen.checks.counters.ledger import LGKM, VM, Ledger
from asmgen.checks.counters.tokens import TooEarly
from asmgen.isa.arch import LANES
from asmgen.isa.opcode import is_lds_dma
from asmgen.isa.opcodes.mfma import MFMA
from asmgen.program.controlflow import ControlFlow, Loop
from asmgen.program.mix import count_groups
from asmgen.program.program import Instruction, Program
from asmgen.tools.inspection.addressregisters import AddressUse, address_uses, copies
from asmgen.tools.inspection.firstuses import FirstUse, UseSummary, summarise
from asmgen.tools.inspection.matrixpairs import MatrixStream, matrix_stream

CYCLES_PER_PASS = 4  # docs/facts/instructions.md section 1
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
class OperationGroup:
    """Operations of one mnemonic that count on one counter: how many of them, what they bring."""

    counter: str
    operation: str
    operations: int
    brings: str

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return dict(vars(self))


@dataclass(frozen=True)
class WaitReport:
    """One s_waitcnt: its position and address, its counts, why it stands there (where the text says), what is in flight before it
    and what of that it releases, on some path. `in_flight` counts as `releases` does."""

    position: int
    address: int | None
    text: str
    counts: dict[str, int]
    reason: str
    in_flight: tuple[OperationGroup, ...]
    releases: tuple[OperationGroup, ...]

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return {"position": self.position, "address": self.address, "text": self.text, "counts": self.counts, "reason": self.reason,
                "in_flight": [row.as_json() for row in self.in_flight], "releases": [release.as_json() for release in self.releases]}


@dataclass(frozen=True)
class CodeFigures:
    """Static counts of a stretch of code: a loop's or the whole kernel's. `uses` are the distances of its loads."""

    instructions: int
    groups: dict[str, int]
    matrix: tuple[MatrixKind, ...]
    traffic: dict[str, int]
    stream: MatrixStream
    addresses: tuple[AddressUse, ...]
    copies: dict[str, int]
    uses: tuple[UseSummary, ...]

    @property
    def matrix_cycles(self) -> int:
        """Of all its matrix instructions once."""
        return sum(kind.count * kind.cycles for kind in self.matrix)

    @property
    def per_mfma(self) -> dict[str, float]:
        """Instructions of each group for one matrix instruction; empty where there is none."""
        matrix = self.groups["matrix"]
        return {group: round(count / matrix, 4) for group, count in self.groups.items() if count} if matrix else {}

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return {"instructions": self.instructions, "groups": self.groups, "per_mfma": self.per_mfma,
                "mfma_kinds": [kind.as_json() for kind in self.matrix], "mfma_cycles": self.matrix_cycles, "bytes": self.traffic,
                **self.stream.as_json(), "address_registers": [use.as_json() for use in self.addresses], "copies": self.copies,
                "first_uses": {use.group: use.as_json() for use in self.uses}}


def figures(instructions: Sequence[Instruction], groups: Sequence[str], arch: str, uses: Iterable[FirstUse], loops: bool) -> CodeFigures:
    """Of instructions that follow each other, with their groups and the first uses of their loads."""
    return CodeFigures(len(instructions), count_groups(groups), matrix_kinds(instructions, arch), traffic(instructions),
                       matrix_stream(instructions, loops), address_uses(instructions, groups), copies(instructions), summarise(uses))


def matrix_cycles(program: Program) -> list[int]:
    """What each instruction occupies the matrix core for, by position."""
    known: dict[tuple[str, int, int], int] = {}
    found = []
    for instruction in program.instructions:
        row = MFMA.get(instruction.name)
        if row is None:
            found.append(0)
            continue
        key = instruction.name, *_formats(instruction)
        if key not in known:
            known[key] = CYCLES_PER_PASS * row.passes_on(program.arch, *key[1:])
        found.append(known[key])
    return found


def _formats(instruction: Instruction) -> tuple[int, int]:
    return int(instruction.modifiers.get("cbsz") or 0), int(instruction.modifiers.get("blgp") or 0)


def matrix_kinds(instructions: Iterable[Instruction], arch: str) -> tuple[MatrixKind, ...]:
    """The matrix instructions by kind, most frequent first."""
    counted: Counter[tuple[str, int]] = Counter()
    for instruction in instructions:
        row = MFMA.get(instruction.name)
        if row is not None:
            cbsz, blgp = _formats(instruction)
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
        moved[kind] += row.bytes * (1 if row.space == "scalar" else LANES)
    return dict(sorted(moved.items()))


def wait_reports(program: Program) -> tuple[WaitReport, ...]:
    """Every s_waitcnt in program order, with what the ledger of all paths together says that is in flight and that it releases."""
    flow = WaitFlow(program, automatic=False)
    in_flight: dict[int, tuple[OperationGroup, ...]] = {}
    released: dict[int, tuple[OperationGroup, ...]] = {}

    def visit(position: int, ledger: Ledger, need: WaitNeed | None, early: list[TooEarly], full: list[str]) -> None:
        wait = flow.operations[position].wait
        if wait is None:
            return
        outstanding = [(counter, at) for at, counter, _ in ledger.in_flight()]
        in_flight[position] = tuple(row for counter in (VM, LGKM)
                                    for row in _grouped(program, flow, counter, [at for name, at in outstanding if name == counter]))
        released[position] = tuple(row for counter, count in ((VM, wait.vmcnt), (LGKM, wait.lgkmcnt))
                                   if count is not None and count < flow.limits[counter]
                                   for row in _grouped(program, flow, counter,
                                                       [at for at, _ in ledger.copy().settle(counter, count, flow.operations)]))

    flow.visit(visit)
    found = []
    for position, operation in enumerate(flow.operations):
        if operation.wait is not None:
            instruction = program.instructions[position]
            counts = {name: count for name, count in ((VM, operation.wait.vmcnt), ("expcnt", operation.wait.expcnt),
                                                      (LGKM, operation.wait.lgkmcnt)) if count is not None}
            found.append(WaitReport(position, instruction.address, instruction.text, counts, instruction.reason or instruction.comment,
                                    in_flight.get(position, ()), released.get(position, ())))
    return tuple(found)


def _grouped(program: Program, flow: WaitFlow, counter: str, positions: Iterable[int]) -> list[OperationGroup]:
    """Operations that count on a counter, those of one mnemonic that bring the same together."""
    kinds: Counter[tuple[str, str]] = Counter()
    for position in positions:
        operation, instruction = flow.operations[position], program.instructions[position]
        brings = "LDS data" if operation.fills_lds else "registers" if operation.arrives else "completion"
        kinds[f"{instruction.name} lds" if instruction.modifiers.get("lds") else instruction.name, brings] += 1
    return [OperationGroup(counter, name, number, brings) for (name, brings), number in kinds.items()]


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
