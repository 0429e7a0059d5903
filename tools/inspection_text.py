"""`asmgen inspect` for people."""

from __future__ import annotations

from typing import Any

from asmgen.tools.inspection import FileReport, KernelReport, LoopReport
from asmgen.tools.listing import render, table


def inspection_text(report: FileReport) -> str:
    """Every kernel: a line of resources, the mix with a column a loop, the register map."""
    parts: list[Any] = []
    for kernel in report.kernels:
        parts += [f"{kernel.name} ({report.arch}), {kernel.instructions} instructions", _resources(kernel), "", _mix(kernel), ""]
        parts += [_loop(number, loop) for number, loop in enumerate(kernel.loops, 1)] or ["no loops"]
        parts += ["", "register map", _register_map(kernel), ""]
    return render(*parts) if parts else "no kernel in this file\n"


def _resources(kernel: KernelReport) -> str:
    r = kernel.resources
    return (f"  {r['vgpr']} VGPRs of the unified file, {r['agpr']} of them AGPRs, {r['sgpr']} SGPRs, {r['lds']} bytes of LDS, "
            f"{r['scratch']} of scratch, {r['spills']} spills: {r['occupancy']} waves per SIMD")


def _mix(kernel: KernelReport) -> Any:
    columns = ("group", "all", *(f"loop {number}" for number in range(1, len(kernel.loops) + 1)))
    rows = [(group, count, *(loop.groups[group] for loop in kernel.loops)) for group, count in kernel.groups.items() if count]
    return table(columns, rows, numbers=columns[1:])


def _loop(number: int, loop: LoopReport) -> str:
    where = f", address {loop.address:#x}" if loop.address is not None else ""
    counted = loop.groups
    parts = [f"{counted['matrix']} MFMA", f"{counted['wait']} waits", f"{counted['nop']} nops", f"{counted['barrier']} barriers"]
    return f"loop {number}: instructions {loop.first} to {loop.last}{where}: {loop.instructions} instructions, {', '.join(parts)}"


def _register_map(kernel: KernelReport) -> Any:
    return table(("registers", *kernel.regions), [(row.registers, *row.cells) for row in kernel.register_map])
