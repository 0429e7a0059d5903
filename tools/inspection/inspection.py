"""What `asmgen inspect` finds out about a .s or .co: resources, arguments, maps of registers and LDS, instruction mix, loops, waits."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from asmgen.checks.lint.facts import KernelFacts, facts_of_code_object, facts_of_text
from asmgen.checks.lint.programlint import block_of_program
from asmgen.codeobject.descriptor import CodeObjectError
from asmgen.codeobject.load import KernelRecord
from asmgen.codeobject.metadata import Argument, argument_rows
from asmgen.codeobject.textmetadata import text_metadata
from asmgen.files import MOST_TEXT, FileError, read_plain
from asmgen.isa.registers import mask_names
from asmgen.program.controlflow import ControlFlow, control_flow
from asmgen.program.mix import GROUPS, groups
from asmgen.program.program import Program
from asmgen.tools.inspection.codefigures import CodeFigures, WaitReport, figures, matrix_cycles, takers, wait_reports
from asmgen.tools.inspection.firstuses import FirstUse, first_uses
from asmgen.tools.inspection.ldsuse import LdsUse, lds_use
from asmgen.tools.inspection.occupancysteps import OccupancyStep, resources

_SAME_HEAD = 4
"""Two loops have one head if their first instructions are at most this far apart."""


@dataclass(frozen=True)
class LoopReport:
    """One loop: positions of its first and last instruction, what stands between, who comes to it. `executed` counts by group over all
    waves of a run, `rounds` how often its first instruction ran; None without a run."""

    first: int
    last: int
    address: int | None
    code: CodeFigures
    waves: tuple[int, ...] | None = None
    rounds: int | None = None
    executed: dict[str, int] | None = None

    def as_json(self) -> dict[str, Any]:
        """The fields of docs/FORMATS.md section 1 and the figures of its code; the waves of the workgroup that may come here, null where
        its size is not known."""
        groups = self.code.groups
        return {"first": self.first, "last": self.last, "address": self.address, "mfma": groups["matrix"], **self.code.as_json(),
                "waits": groups["wait"], "nops": groups["nop"], "barriers": groups["barrier"],
                "waves": list(self.waves) if self.waves is not None else None, "rounds": self.rounds, "executed": self.executed}


@dataclass(frozen=True)
class RegisterRow:
    """Registers that are the same in every region: what each region does with them, or who owns them there."""

    registers: str
    cells: tuple[str, ...]


@dataclass(frozen=True)
class KernelReport:
    """One kernel. `counts` are executions by position, over all waves of a run."""

    program: Program
    resources: dict[str, int]
    step: OccupancyStep
    code: CodeFigures
    loops: tuple[LoopReport, ...]
    regions: tuple[str, ...]
    register_map: tuple[RegisterRow, ...]
    arguments: tuple[Argument, ...]
    most_workitems: int | None
    block: tuple[int, int, int] | None
    waits: tuple[WaitReport, ...]
    uses: tuple[FirstUse, ...]
    lds: LdsUse
    executed: dict[str, int] | None = None
    counts: tuple[int, ...] | None = None

    @property
    def name(self) -> str:
        """The kernel's."""
        return self.program.name

    @property
    def waves(self) -> int | None:
        """Waves of the largest workgroup."""
        return -(-self.most_workitems // 64) if self.most_workitems is not None else None

    @property
    def main_loop(self) -> LoopReport | None:
        """Of the innermost loops the one whose round occupies the matrix core longest; of equal ones that which a run went round more
        often, else the one with the least beside its products (masks stand in others). Without matrix instructions the longest one.

        A loop that begins with its outer loop is the same one: its body has several ways back.
        """
        def rank(loop: LoopReport) -> tuple[float, int, int]:
            matrix, length = loop.code.matrix_cycles, loop.code.instructions
            return (matrix, loop.rounds or 0, -length) if matrix else (0, 0, length)

        return max(self.inner_loops, key=rank, default=None)

    @property
    def inner_loops(self) -> tuple[LoopReport, ...]:
        """Those without another loop in them."""
        return tuple(loop for loop in self.loops if not any(loop.first + _SAME_HEAD < other.first and other.last <= loop.last
                                                            for other in self.loops))

    def as_json(self) -> dict[str, Any]:
        """The fields of docs/FORMATS.md section 1, and everything else."""
        main = self.main_loop
        return {"name": self.name, **self.resources, "occupancy_step": self.step.as_json(), **self.code.as_json(),
                "loops": [loop.as_json() for loop in self.loops], "main_loop": self.loops.index(main) if main is not None else None,
                "register_map": {"regions": list(self.regions),
                                 "rows": [{"registers": row.registers, "cells": list(row.cells)} for row in self.register_map]},
                "lds_map": self.lds.as_json(),
                "arguments": [{"name": row.name, "offset": row.offset, "size": row.size, "kind": row.value_kind} for row in self.arguments],
                "workgroup": {"most": self.most_workitems, "block": list(self.block) if self.block is not None else None,
                              "waves": self.waves},
                "wait_list": [wait.as_json() for wait in self.waits], "loads": [use.as_json() for use in self.uses],
                "executed": self.executed, "executions": list(self.counts) if self.counts is not None else None}


@dataclass(frozen=True)
class FileReport:
    """All kernels of a file."""

    file: str
    arch: str
    kernels: tuple[KernelReport, ...]

    def as_json(self) -> dict[str, Any]:
        """The JSON document of `asmgen inspect --json`."""
        return {"file": self.file, "arch": self.arch, "kernels": [kernel.as_json() for kernel in self.kernels]}


@dataclass(frozen=True)
class MapsBeside:
    """What a KERNEL.json says of the code object beside it."""

    register_map: Mapping[str, Any] | None = None
    lds_map: Sequence[Mapping[str, Any]] = ()


def inspect_file(path: Path, arch: str | None = None, counts: Mapping[str, tuple[int, ...]] | None = None) -> FileReport:
    """Read and inspect. `counts` are executions by position of the kernels that ran. Raises AsmgenError for what cannot be read."""
    from asmgen.reader.file import read_file

    read = read_file(path, arch)
    beside = _described(path) if read.code_object is not None else {}
    reports = []
    text = path.read_text(encoding="utf-8") if read.code_object is None else ""
    described = text_metadata(text)
    facts = facts_of_code_object(read.code_object) if read.code_object is not None else facts_of_text(text, read.arch)
    for program in read.programs:
        kernel = read.code_object.kernels.get(program.name) if read.code_object is not None else None
        row = kernel.metadata if kernel is not None else described.get(program.name, {})
        reports.append(inspect_program(program, kernel, beside.get(program.name), row, facts.get(program.name),
                                       (counts or {}).get(program.name)))
    return FileReport(str(path), read.arch, tuple(reports))


def inspect_program(program: Program, kernel: KernelRecord | None, beside: MapsBeside | None = None,
                    metadata: Mapping[str, Any] | None = None, facts: KernelFacts | None = None,
                    counts: tuple[int, ...] | None = None) -> KernelReport:
    """Inspect one kernel; `beside` is what its KERNEL.json says, where one belongs to this very code object.

    `metadata` is the kernel's, of its code object or its text, `facts` what descriptor or directives say, `counts` its executions.
    """
    metadata, facts, beside = metadata or {}, facts or KernelFacts(), beside or MapsBeside()
    facts = replace(facts, block=block_of_program(program, facts))
    flow = control_flow(program)
    found = groups(program, flow)
    uses = first_uses(program, flow, found, matrix_cycles(program))
    loops = _loops(program, flow, found, uses, facts.block, counts)
    if beside.register_map is not None:
        regions = tuple(beside.register_map["regions"])
        rows = tuple(RegisterRow(row["registers"], tuple(" ".join(owners) or "." for owners in row["owners"]))
                     for row in beside.register_map["rows"])
    else:
        regions, rows = _map_of_use(program, loops)
    most = metadata.get(".max_flat_workgroup_size")
    if facts.block is not None:
        most = facts.block[0] * facts.block[1] * facts.block[2]
    sizes, step = resources(program, kernel, facts, metadata)
    return KernelReport(program, sizes, step, figures(program.instructions, found, program.arch, uses, loops=False), loops, regions, rows,
                        _arguments(kernel, metadata), most if isinstance(most, int) else None, facts.block, wait_reports(program), uses,
                        lds_use(program, flow, found, facts.block, beside.lds_map),
                        _executed(found, counts) if counts is not None else None, counts)


def _loops(program: Program, flow: ControlFlow, found: Sequence[str], uses: Sequence[FirstUse], block: tuple[int, int, int] | None,
           counts: tuple[int, ...] | None) -> tuple[LoopReport, ...]:
    bodies, reports = flow.loops(), []
    for loop, waves in zip(bodies, takers(program, flow, block, bodies), strict=True):
        part = slice(loop.first, loop.last + 1)
        code = figures(program.instructions[part], found[part], program.arch,
                       [use for use in uses if loop.first <= use.position <= loop.last], loops=True)
        reports.append(LoopReport(loop.first, loop.last, program.instructions[loop.first].address, code, waves,
                                  counts[loop.first] if counts is not None else None,
                                  _executed(found[part], counts[part]) if counts is not None else None))
    return tuple(reports)


def _executed(found: Sequence[str], counts: Sequence[int]) -> dict[str, int]:
    """Executions by group."""
    total = dict.fromkeys(GROUPS, 0)
    for group, count in zip(found, counts, strict=True):
        total[group] += count
    return total


def _arguments(kernel: KernelRecord | None, metadata: Mapping[str, Any]) -> tuple[Argument, ...]:
    """The argument table; none where a text's cannot be read."""
    if kernel is not None:
        return kernel.arguments
    try:
        return argument_rows(metadata)
    except CodeObjectError:
        return ()


def _described(path: Path) -> dict[str, MapsBeside]:
    """By kernel the maps in the KERNEL.json beside a code object, if that file says that it describes these very bytes."""
    try:
        described = json.loads(read_plain(path.with_suffix(".json"), MOST_TEXT))
        if described["code_object_sha256"] != hashlib.sha256(read_plain(path)).hexdigest():
            return {}
        return {str(one["symbol"]): MapsBeside(one["register_map"], [{"name": str(row["name"]), "low": int(row["low"]),
                                                                     "high": int(row["high"])} for row in one["lds_map"]])
                for one in described["launches"]}
    except (FileError, ValueError, KeyError, TypeError, RecursionError):
        return {}


def _map_of_use(program: Program, loops: tuple[LoopReport, ...]) -> tuple[tuple[str, ...], tuple[RegisterRow, ...]]:
    """For code without a plan: which registers each region reads (r) and writes (w). Regions are cut at outermost loops."""
    outermost = [loop for loop in loops
                 if not any(other.first <= loop.first and loop.last <= other.last and other is not loop for other in loops)]
    cuts: list[tuple[str, int, int]] = []
    at = 0
    for number, loop in enumerate(sorted(outermost, key=lambda loop: loop.first), 1):
        if loop.first > at:
            cuts.append((f"{at}:{loop.first - 1}", at, loop.first - 1))
        cuts.append((f"loop {number} {loop.first}:{loop.last}", loop.first, loop.last))
        at = max(at, loop.last + 1)
    if at < len(program):
        cuts.append((f"{at}:{len(program) - 1}", at, len(program) - 1))
    reads, writes = [], []
    for _, first, last in cuts:
        part = program.instructions[first:last + 1]
        reads.append(_union(instruction.reads for instruction in part))
        writes.append(_union(instruction.writes for instruction in part))
    return tuple(name for name, _, _ in cuts), _rows(reads, writes)


def _union(masks: Any) -> int:
    total = 0
    for mask in masks:
        total |= mask
    return total


def _rows(reads: list[int], writes: list[int]) -> tuple[RegisterRow, ...]:
    by_use: dict[tuple[str, ...], int] = {}
    everything = _union(reads) | _union(writes)
    for bit in range(everything.bit_length()):
        if everything >> bit & 1:
            use = tuple(("r" if r >> bit & 1 else "") + ("w" if w >> bit & 1 else "") or "." for r, w in zip(reads, writes, strict=True))
            by_use[use] = by_use.get(use, 0) | 1 << bit
    rows = [(mask, RegisterRow(", ".join(mask_names(mask)), use)) for use, mask in by_use.items()]
    return tuple(row for mask, row in sorted(rows, key=lambda pair: pair[0] & -pair[0]))

