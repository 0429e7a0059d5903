"""What `asmgen inspect` finds out about a .s or .co: resources, register map, instruction mix, loops."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asmgen.cfg import control_flow
from asmgen.codeobject.load import Kernel
from asmgen.files import MOST_TEXT, FileError, read_plain
from asmgen.isa.arch import architecture
from asmgen.isa.registers import SGPR_BIT, mask_names
from asmgen.mix import count_groups, groups
from asmgen.program import Program


@dataclass(frozen=True)
class LoopReport:
    """One loop: positions of its first and last instruction, static counts of what stands between."""

    first: int
    last: int
    address: int | None
    instructions: int
    groups: dict[str, int]

    def as_json(self) -> dict[str, Any]:
        """The fields of design.md section 6."""
        return {"first": self.first, "last": self.last, "address": self.address, "instructions": self.instructions,
                "mfma": self.groups["matrix"], "groups": self.groups, "waits": self.groups["wait"], "nops": self.groups["nop"],
                "barriers": self.groups["barrier"]}


@dataclass(frozen=True)
class MapRow:
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
    register_map: tuple[MapRow, ...]

    def as_json(self) -> dict[str, Any]:
        """The fields of design.md section 6, and the register map."""
        return {"name": self.name, **self.resources, "instructions": self.instructions, "groups": self.groups,
                "loops": [loop.as_json() for loop in self.loops],
                "register_map": {"regions": list(self.regions),
                                 "rows": [{"registers": row.registers, "cells": list(row.cells)} for row in self.register_map]}}


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
    for program in read.programs:
        kernel = read.code_object.kernels.get(program.name) if read.code_object is not None else None
        reports.append(inspect_program(program, kernel, names if kernel is not None else None))
    return FileReport(str(path), read.arch, tuple(reports))


def inspect_program(program: Program, kernel: Kernel | None, names: dict[str, Any] | None = None) -> KernelReport:
    """Inspect one kernel; `names` is the register map of its KERNEL.json, where one belongs to this very code object."""
    flow = control_flow(program)
    found = groups(program, flow)
    instructions = program.instructions
    loops = tuple(LoopReport(loop.first, loop.last, instructions[loop.first].address, loop.last - loop.first + 1,
                             count_groups(found[loop.first:loop.last + 1])) for loop in flow.loops())
    if names is not None:
        regions = tuple(names["regions"])
        rows = tuple(MapRow(row["registers"], tuple(" ".join(owners) or "." for owners in row["owners"])) for row in names["rows"])
    else:
        regions, rows = _map_of_use(program, loops)
    return KernelReport(program.name, _resources(program, kernel), len(instructions), count_groups(found), loops, regions, rows)


def _resources(program: Program, kernel: Kernel | None) -> dict[str, int]:
    """From the code object's metadata and descriptor; from the instructions where there is none."""
    profile = architecture(program.arch)
    if kernel is not None:
        facts = kernel.resources
        vgpr, agpr, sgpr = facts.vgpr_count, facts.agpr_count, facts.sgpr_count
        lds, scratch, spills = facts.lds, facts.scratch, facts.vgpr_spills + facts.sgpr_spills
        total = max(vgpr, kernel.descriptor.vgprs)
    else:
        used = 0
        for instruction in program.instructions:
            used |= instruction.reads | instruction.writes
        arch_vgprs, agpr = (used & (1 << 256) - 1).bit_length(), (used >> 256 & (1 << 256) - 1).bit_length()
        vgpr = total = -(-arch_vgprs // 4) * 4 + agpr if agpr else arch_vgprs
        sgpr, lds, scratch, spills = (used >> SGPR_BIT & (1 << 102) - 1).bit_length(), 0, 0, 0
    by_registers = profile.waves_for_vgprs(max(total, 1))
    return {"vgpr": vgpr, "agpr": agpr, "sgpr": sgpr, "lds": lds, "scratch": scratch, "spills": spills,
            "occupancy": _occupancy(profile.lds_bytes, profile.lds_granule, profile.simds_per_cu, by_registers, lds, kernel)}


def _occupancy(lds_bytes: int, granule: int, simds: int, by_registers: int, lds: int, kernel: Kernel | None) -> int:
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


def _map_of_use(program: Program, loops: tuple[LoopReport, ...]) -> tuple[tuple[str, ...], tuple[MapRow, ...]]:
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


def _rows(reads: list[int], writes: list[int]) -> tuple[MapRow, ...]:
    by_use: dict[tuple[str, ...], int] = {}
    everything = _union(reads) | _union(writes)
    for bit in range(everything.bit_length()):
        if everything >> bit & 1:
            use = tuple(("r" if r >> bit & 1 else "") + ("w" if w >> bit & 1 else "") or "." for r, w in zip(reads, writes, strict=True))
            by_use[use] = by_use.get(use, 0) | 1 << bit
    rows = [(mask, MapRow(", ".join(mask_names(mask)), use)) for use, mask in by_use.items()]
    return tuple(row for mask, row in sorted(rows, key=lambda pair: pair[0] & -pair[0]))

