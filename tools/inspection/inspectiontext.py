"""`asmgen inspect` for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from asmgen.tools.inspection.codefigures import CodeFigures, OperationGroup, waves_text
from asmgen.tools.inspection.inspection import FileReport, KernelReport, LoopReport
from asmgen.tools.inspection.occupancysteps import OccupancyStep
from asmgen.tools.terminal.texttables import render, table

_MOST_WAITS = 100
_MOST_ADDRESSES = 12
LDS_COLUMNS = ("bytes from:to", "size", "name", "filled by", "read by")
"""Of the LDS map."""


def inspection_text(report: FileReport) -> str:
    """Every kernel: resources, arguments, the mix with a column a loop, what is to be said of each loop, waits, maps."""
    parts: list[Any] = []
    for kernel in report.kernels:
        parts += [f"{kernel.name} ({report.arch}), {kernel.code.instructions} instructions", resources_text(kernel),
                  f"  {step_text(kernel.step, kernel.resources['occupancy'])}", workgroup_text(kernel)]
        if kernel.arguments:
            parts += ["", table(("argument", "offset", "bytes", "kind"),
                                [(row.name or "(unnamed)", row.offset, row.size, row.value_kind) for row in kernel.arguments],
                                numbers=("offset", "bytes"))]
        columns, rows = mix_rows(kernel)
        parts += ["", table(columns, rows, numbers=columns[1:]), ""]
        for number, loop in enumerate(kernel.loops, 1):
            parts.append(loop_heading(number, loop))
            parts += [f"  {line}" for line in loop_lines(loop, kernel.waves)]
        parts += [] if kernel.loops else ["no loops"]
        parts += _waits(kernel)
        parts += ["", "register map", table(("registers", *kernel.regions), [(row.registers, *row.cells) for row in kernel.register_map])]
        parts += [*_lds_map(kernel), ""]
    return render(*parts) if parts else "no kernel in this file\n"


def resources_text(kernel: KernelReport) -> str:
    """One line."""
    r = kernel.resources
    added = " and what a launch adds" if not r["lds"] and any(kernel.code.groups[group] for group in ("lds_read", "lds_write")) else ""
    return (f"  {r['vgpr']} VGPRs of the unified file, {r['agpr']} of them AGPRs, {r['sgpr']} SGPRs, {r['lds']} bytes of LDS{added}, "
            f"{r['scratch']} of scratch, {r['spills']} spills: {_waves(r['occupancy'])} per SIMD")


def step_text(step: OccupancyStep, occupancy: int) -> str:
    """How far more waves are, and what may be added without fewer."""
    spare = [f"{step.spare_registers} VGPRs"] + ([f"{step.spare_lds} bytes of LDS"] if step.spare_lds is not None else [])
    more = f"room for {' and '.join(spare)} more at {_waves(occupancy)}"
    if step.next_waves is None:
        return f"limit {step.limit}; {more}"
    less = [f"{step.excess_registers} VGPRs"] * bool(step.excess_registers) + [f"{step.excess_lds} bytes of LDS"] * bool(step.excess_lds)
    return f"limit {step.limit}; {' and '.join(less)} fewer for {step.next_waves} waves; {more}"


def workgroup_text(kernel: KernelReport) -> str:
    """One line."""
    if kernel.most_workitems is None:
        return "  the workgroup's size is not stated"
    block = f" ({' x '.join(map(str, kernel.block))})" if kernel.block is not None and kernel.block[1:] != (1, 1) else ""
    return f"  workgroups of at most {kernel.most_workitems} work-items{block}, {_waves(kernel.waves or 0)}"


def _waves(number: int) -> str:
    return f"{number} wave{'s' * (number != 1)}"


def mix_rows(kernel: KernelReport) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
    """Columns and rows of the mix: all, executed, and of each loop the count, that for one MFMA, and executed ones."""
    columns = ["group", "all"]
    cells: list[Mapping[str, object]] = [kernel.code.groups]
    if kernel.executed is not None:
        columns.append("executed")
        cells.append(kernel.executed)
    for number, loop in enumerate(kernel.loops, 1):
        columns.append(f"loop {number}")
        cells.append(loop.code.groups)
        if loop.code.per_mfma:
            columns.append("per MFMA")
            cells.append({group: f"{count:.2f}" for group, count in loop.code.per_mfma.items()})
        if loop.executed is not None:
            columns.append("executed")
            cells.append(loop.executed)
    rows: list[tuple[object, ...]] = [(group, *(column.get(group, "") for column in cells)) for group, count in kernel.code.groups.items()
                                      if count]
    return tuple(columns), rows


def loop_heading(number: int, loop: LoopReport) -> str:
    """One line."""
    where = f", address {loop.address:#x}" if loop.address is not None else ""
    counted = loop.code.groups
    parts = [f"{counted['matrix']} MFMA", f"{counted['wait']} waits", f"{counted['nop']} nops", f"{counted['barrier']} barriers"]
    return f"loop {number}: instructions {loop.first} to {loop.last}{where}: {loop.code.instructions} instructions, {', '.join(parts)}"


def loop_lines(loop: LoopReport, waves: int | None) -> list[str]:
    """What is to be said of a loop besides its mix."""
    lines = [f"{loop.rounds} rounds executed, all waves together"] if loop.rounds is not None else []
    if loop.waves is not None and waves is not None and len(loop.waves) < waves:
        lines.append(f"taken by {f'waves {waves_text(loop.waves)}' if loop.waves else 'no wave'} of {waves}")
    return lines + code_lines(loop.code)


def code_lines(code: CodeFigures) -> list[str]:
    """What is to be said of a stretch of code besides its mix."""
    lines = []
    if code.matrix:
        kinds = ", ".join(f"{kind.count} {kind.name} of {kind.cycles} cycles" for kind in code.matrix)
        lines.append(f"{kinds}: {code.matrix_cycles} cycles of the matrix core a round")
        stream = code.stream
        lines.append("instructions between MFMAs: " + ", ".join(f"{gap} ({count}x)" for gap, count in stream.gaps.items()))
        if stream.pairs:
            lines.append(f"of {stream.pairs} neighbouring MFMAs share the accumulator {stream.same_accumulator}, A {stream.same_a}, "
                         f"B {stream.same_b}; {stream.left_out} of {stream.reads} operand registers are among the last eight read; "
                         f"{stream.advice()}")
    if code.traffic:
        moved = ", ".join(f"{kind} {size}" for kind, size in code.traffic.items())
        lines.append(f"bytes a round, of one wave with all lanes: {moved}")
    for use in code.uses:
        low, middle, high = use.instructions
        cycles = f", {use.matrix_cycles[0]} to {use.matrix_cycles[2]} cycles of the matrix core" if code.matrix else ""
        spread = f"{low} to {high} instructions later (median {middle:g})" if low < high else f"{low} instruction{'s' * (low > 1)} later"
        used = f"first used {spread}{cycles}" if use.unused < use.loads else ""
        unused = f"{use.unused} never used" if use.unused else ""
        lines.append(f"{use.group}: {use.loads} load{'s' * (use.loads > 1)}, {'; '.join(filter(None, (used, unused)))}")
    if code.addresses:
        shown = [f"{use.register} {use.uses}" + (f" (written {use.written}x)" if use.written else "")
                 for use in code.addresses[:_MOST_ADDRESSES]]
        rest = f" and {len(code.addresses) - _MOST_ADDRESSES} more" if len(code.addresses) > _MOST_ADDRESSES else ""
        lines.append(f"uses of address registers: {', '.join(shown)}{rest}")
    if code.copies:
        lines.append("copies between registers: " + ", ".join(f"{way} {count}" for way, count in code.copies.items()))
    return lines


def outstanding_text(rows: Iterable[OperationGroup], counter: str) -> str:
    """Operations of one counter."""
    return ", ".join(f"{row.operations} {row.operation} ({row.brings})" for row in rows if row.counter == counter)


def wait_rows(kernel: KernelReport) -> list[tuple[object, str, str, str]]:
    """A row a wait and counter: where, the count, what is in flight before it, what it releases."""
    return [(f"{wait.address:#x}" if wait.address is not None else wait.position, f"{counter}({count})",
             outstanding_text(wait.in_flight, counter) or "nothing",
             outstanding_text(wait.releases, counter) or ("not followed" if counter == "expcnt" else "nothing"))
            for wait in kernel.waits for counter, count in wait.counts.items()]


def _waits(kernel: KernelReport) -> list[Any]:
    """Of very many waits the first ones, and the others in --json."""
    rows = wait_rows(kernel)
    if not rows:
        return []
    more = [f"and {len(rows) - _MOST_WAITS} more waits; --json has them all"] if len(rows) > _MOST_WAITS else []
    return ["", "waits: what is in flight before each and what it releases, at most, over all paths",
            table(("at", "count", "in flight", "releases"), rows[:_MOST_WAITS], numbers=("at", "count")), *more]


def lds_rows(kernel: KernelReport) -> Sequence[tuple[object, ...]]:
    """The LDS map."""
    return [(f"{row.low:#07x}:{row.high:#07x}", row.high - row.low, row.name or "(unnamed)", row.fills, row.reads)
            for row in kernel.lds.rows]


def _lds_map(kernel: KernelReport) -> list[Any]:
    rows = lds_rows(kernel)
    if not rows and not kernel.lds.unknown:
        return []
    unknown = [f"{kernel.lds.unknown} LDS instructions have addresses that the code alone does not tell"] if kernel.lds.unknown else []
    shown = [table(LDS_COLUMNS, rows, numbers=LDS_COLUMNS[1:2] + LDS_COLUMNS[3:])] if rows else []
    return ["", "LDS map (instructions that fill and read)", *shown, *unknown]
