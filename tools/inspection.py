"""What `asmgen inspect` finds out about a .s or .co: resources, arguments, register map, instruction mix, loops, waits."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from asmgen.checks.lint.facts import KernelFacts, facts_of_code_object, facts_of_text
from asmgen.codeobject.descriptor import CodeObjectError
from asmgen.codeobject.load import KernelRecord
from asmgen.codeobject.metadata import Argument, argument_rows
from asmgen.codeobject.textmetadata import text_metadata
from asmgen.files import MOST_TEXT, FileError, read_plain
from asmgen.isa.arch import architecture
from asmgen.isa.registers import SGPR_BIT, mask_names
from asmgen.program.controlflow import control_flow
from asmgen.program.mix import count_groups, groups
from asmgen.program.program import Program
from asmgen.tools.inspection_code import MatrixKind, WaitReport, matrix_kinds, takers, traffic, wait_reports


@dataclass(frozen=True)
class LoopReport:
    """One loop: positions of its first and last instruction, static counts of what stands between."""

    first: int
    last: int
    address: int | None
    instructions: int
    groups: dict[str, int]
    matrix: tuple[MatrixKind, ...] = ()
    traffic: dict[str, int] = field(default_factory=dict)
    waves: tuple[int, ...] | None = None

    def as_json(self) -> dict[str, Any]:
        """The fields of docs/FORMATS.md section 1; kinds of matrix instructions with their cycles; bytes that a wave moves in a round; the
        waves of the workgroup that may come here, null where its size is not known."""
        return {"first": self.first, "last": self.last, "address": self.address, "instructions": self.instructions,
                "mfma": self.groups["matrix"], "groups": self.groups, "waits": self.groups["wait"], "nops": self.groups["nop"],
                "barriers": self.groups["barrier"], "mfma_kinds": [kind.as_json() for kind in self.matrix],
                "mfma_cycles": sum(kind.count * kind.cycles for kind in self.matrix), "bytes": self.traffic,
                "waves": list(self.waves) if self.waves is not None else None}


@dataclass(frozen=True)
class RegisterRow:
    """Registers that are the same in every region: what each region does with them, or who owns them there."""

    registers: str
    cells: tuple[str, ...]


@dataclass(frozen=True)
class KernelReport:
    """One kernel."""

    name: str
    resources: dict[str, int]
    instructions: int
    groups: dict[str, int]
    loops: tuple[LoopReport, ...]
    regions: tuple[str, ...]
    register_map: tuple[RegisterRow, ...]
    arguments: tuple[Argument, ...] = ()
    most_workitems: int | None = None
    block: tuple[int, int, int] | None = None
    matrix: tuple[MatrixKind, ...] = ()
    traffic: dict[str, int] = field(default_factory=dict)
    waits: tuple[WaitReport, ...] = ()

    @property
    def waves(self) -> int | None:
        """Waves of the largest workgroup."""
        return -(-self.most_workitems // 64) if self.most_workitems is not None else None

    def as_json(self) -> dict[str, Any]:
        """The fields of docs/FORMATS.md section 1, the register map, arguments, workgroup, matrix instructions, bytes and waits."""
        return {"name": self.name, **self.resources, "instructions": self.instructions, "groups": self.groups,
                "loops": [loop.as_json() for loop in self.loops],
                "register_map": {"regions": list(self.regions),
                                 "rows": [{"registers": row.registers, "cells": list(row.cells)} for row in self.register_map]},
                "arguments": [{"name": row.name, "offset": row.offset, "size": row.size, "kind": row.value_kind} for row in self.arguments],
                "workgroup": {"most": self.most_workitems, "block": list(self.block) if self.block is not None else None,
                              "waves": self.waves},
                "mfma_kinds": [kind.as_json() for kind in self.matrix], "bytes": self.traffic,
                "wait_list": [wait.as_json() for wait in self.waits]}


@dataclass(frozen=True)
class FileReport:
    """All kernels of a file."""

    file: str
    arch: str
    kernels: tuple[KernelReport, ...]

    def as_json(self) -> dict[str, Any]:
        """The JSON document of `asmgen inspect --json`."""
        return {"file": self.file, "arch": self.arch, "kernels": [kernel.as_json() for kernel in self.kernels]}


def inspect_file(path: Path, arch: str | None = None) -> FileReport:
    """Read and inspect. Raises AsmgenError for what cannot be read."""
    from asmgen.reader.file import read_file

    read = read_file(path, arch)
    names = _plan_beside(path)
    reports = []
    text = path.read_text(encoding="utf-8") if read.code_object is None else ""
    described = text_metadata(text)
    facts = facts_of_code_object(read.code_object) if read.code_object is not None else facts_of_text(text, read.arch)
    for program in read.programs:
        kernel = read.code_object.kernels.get(program.name) if read.code_object is not None else None
        row = kernel.metadata if kernel is not None else described.get(program.name, {})
        reports.append(inspect_program(program, kernel, names if kernel is not None else None, row, facts.get(program.name)))
    return FileReport(str(path), read.arch, tuple(reports))


def inspect_program(program: Program, kernel: KernelRecord | None, names: dict[str, Any] | None = None,
                    metadata: Mapping[str, Any] | None = None, facts: KernelFacts | None = None) -> KernelReport:
    """Inspect one kernel; `names` is the register map of its KERNEL.json, where one belongs to this very code object.

    `metadata` is the kernel's, of its code object or its text, and `facts` what descriptor or directives say.
    """
    metadata, facts = metadata or {}, facts or KernelFacts()
    flow = control_flow(program)
    found = groups(program, flow)
    instructions = program.instructions
    bodies = flow.loops()
    loops = tuple(LoopReport(loop.first, loop.last, instructions[loop.first].address, loop.last - loop.first + 1,
                             count_groups(found[loop.first:loop.last + 1]),
                             matrix_kinds(instructions[loop.first:loop.last + 1], program.arch),
                             traffic(instructions[loop.first:loop.last + 1]), waves)
                  for loop, waves in zip(bodies, takers(program, flow, facts.block, bodies), strict=True))
    if names is not None:
        regions = tuple(names["regions"])
        rows = tuple(RegisterRow(row["registers"], tuple(" ".join(owners) or "." for owners in row["owners"])) for row in names["rows"])
    else:
        regions, rows = _map_of_use(program, loops)
    arguments, most = _arguments(kernel, metadata), metadata.get(".max_flat_workgroup_size")
    if facts.block is not None:
        most = facts.block[0] * facts.block[1] * facts.block[2]
    return KernelReport(program.name, _resources(program, kernel, facts), len(instructions), count_groups(found), loops, regions, rows,
                        arguments, most if isinstance(most, int) else None, facts.block, matrix_kinds(instructions, program.arch),
                        traffic(instructions), wait_reports(program))


def _arguments(kernel: KernelRecord | None, metadata: Mapping[str, Any]) -> tuple[Argument, ...]:
    """The argument table; none where a text's cannot be read."""
    if kernel is not None:
        return kernel.arguments
    try:
        return argument_rows(metadata)
    except CodeObjectError:
        return ()


def _resources(program: Program, kernel: KernelRecord | None, facts: KernelFacts) -> dict[str, int]:
    """From the code object's metadata and descriptor; from directives and the instructions where there is none.

    AGPRs are the metadata's, and those that the instructions name where it does not count as many, as hand-written kernels leave it out.
    """
    profile = architecture(program.arch)
    used = 0
    for instruction in program.instructions:
        used |= instruction.reads | instruction.writes
    named = (used >> 256 & (1 << 256) - 1).bit_length()
    if kernel is not None:
        given = kernel.resources
        vgpr, agpr, sgpr = given.vgpr_count, max(given.agpr_count, named), given.sgpr_count
        lds, scratch, spills = given.lds, given.scratch, given.vgpr_spills + given.sgpr_spills
        total = max(vgpr, kernel.descriptor.vgprs)
    else:
        arch_vgprs, agpr = (used & (1 << 256) - 1).bit_length(), named
        vgpr = -(-arch_vgprs // 4) * 4 + agpr if agpr else arch_vgprs
        vgpr = total = max(vgpr, facts.wanted or 0)
        sgpr, lds, scratch, spills = (used >> SGPR_BIT & (1 << 102) - 1).bit_length(), facts.lds or 0, 0, 0
    by_registers = profile.waves_for_vgprs(max(total, 1))
    return {"vgpr": vgpr, "agpr": agpr, "sgpr": sgpr, "lds": lds, "scratch": scratch, "spills": spills,
            "occupancy": _occupancy(profile.lds_bytes, profile.lds_granule, profile.simds_per_cu, by_registers, lds, kernel)}


def _occupancy(lds_bytes: int, granule: int, simds: int, by_registers: int, lds: int, kernel: KernelRecord | None) -> int:
    """Waves per SIMD: what registers allow, and LDS where the workgroup's size is known."""
    if not lds or kernel is None:
        return by_registers
    waves = -(-kernel.resources.max_flat_workgroup_size // 64)
    workgroups = lds_bytes // (-(-lds // granule) * granule)
    return max(1, min(by_registers, workgroups * waves // simds))


def _plan_beside(path: Path) -> dict[str, Any] | None:
    """The register map in the KERNEL.json beside a code object, if that file says that it describes these very bytes."""
    beside = path.with_suffix(".json")
    try:
        described = json.loads(read_plain(beside, MOST_TEXT))
        if described["code_object_sha256"] != hashlib.sha256(read_plain(path)).hexdigest():
            return None
        found: dict[str, Any] = described["register_map"]
        return found
    except (FileError, ValueError, KeyError, TypeError, RecursionError):
        return None


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

