"""`asmgen inspect` for people."""

from __future__ import annotations

from typing import Any

from asmgen.tools.inspection import FileReport, KernelReport, LoopReport
from asmgen.tools.inspection_code import waves_text
from asmgen.tools.list_command import render, table

_MOST_WAITS = 100


def inspection_text(report: FileReport) -> str:
    """Every kernel: a line of resources, the mix with a column a loop, the register map."""
    parts: list[Any] = []
    for kernel in report.kernels:
        parts += [f"{kernel.name} ({report.arch}), {kernel.instructions} instructions", _resources(kernel), _workgroup(kernel)]
        if kernel.arguments:
            parts += ["", table(("argument", "offset", "bytes", "kind"),
                                [(row.name or "(unnamed)", row.offset, row.size, row.value_kind) for row in kernel.arguments],
                                numbers=("offset", "bytes"))]
        parts += ["", _mix(kernel), ""]
        parts += [line for number, loop in enumerate(kernel.loops, 1) for line in _loop(number, loop, kernel.waves)] or ["no loops"]
        parts += _waits(kernel)
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


def _workgroup(kernel: KernelReport) -> str:
    if kernel.most_workitems is None:
        return "  the workgroup's size is not stated"
    block = f" ({' x '.join(map(str, kernel.block))})" if kernel.block is not None and kernel.block[1:] != (1, 1) else ""
    return f"  workgroups of at most {kernel.most_workitems} work-items{block}, {kernel.waves} waves"


def _loop(number: int, loop: LoopReport, waves: int | None) -> list[str]:
    where = f", address {loop.address:#x}" if loop.address is not None else ""
    counted = loop.groups
    parts = [f"{counted['matrix']} MFMA", f"{counted['wait']} waits", f"{counted['nop']} nops", f"{counted['barrier']} barriers"]
    lines = [f"loop {number}: instructions {loop.first} to {loop.last}{where}: {loop.instructions} instructions, {', '.join(parts)}"]
    if loop.waves is not None and waves is not None and len(loop.waves) < waves:
        lines.append(f"  taken by {f'waves {waves_text(loop.waves)}' if loop.waves else 'no wave'} of {waves}")
    if loop.matrix:
        kinds = ", ".join(f"{kind.count} {kind.name} of {kind.cycles} cycles" for kind in loop.matrix)
        lines.append(f"  {kinds}: {sum(kind.count * kind.cycles for kind in loop.matrix)} cycles of the matrix core a round")
    if loop.traffic:
        moved = ", ".join(f"{kind} {size}" for kind, size in loop.traffic.items())
        lines.append(f"  bytes a round, of one wave with all lanes: {moved}")
    return lines


def _waits(kernel: KernelReport) -> list[Any]:
    """A line a wait and counter; of very many the first ones, and the others in --json."""
    rows = []
    for wait in kernel.waits:
        for counter, count in wait.counts.items():
            released = ", ".join(f"{row.operations} {row.operation} ({row.brings})" for row in wait.releases if row.counter == counter)
            where = f"{wait.address:#x}" if wait.address is not None else wait.position
            rows.append((where, f"{counter}({count})", released or ("not followed" if counter == "expcnt" else "nothing")))
    if not rows:
        return []
    more = [f"and {len(rows) - _MOST_WAITS} more waits; --json has them all"] if len(rows) > _MOST_WAITS else []
    return ["", "waits, and what each releases at most, over all paths",
            table(("at", "count", "releases"), rows[:_MOST_WAITS], numbers=("at", "count")), *more]


def _register_map(kernel: KernelReport) -> Any:
    return table(("registers", *kernel.regions), [(row.registers, *row.cells) for row in kernel.register_map])
