"""`asmgen inspect --html OUT`: the report as one file that needs nothing else, for a window of 1280 pixels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any

from asmgen.files import write_plain
from asmgen.program.mix import groups
from asmgen.tools.inspection.inspection import FileReport, KernelReport
from asmgen.tools.inspection.inspectiontext import (
    LDS_COLUMNS,
    lds_rows,
    loop_heading,
    loop_lines,
    mix_rows,
    outstanding_text,
    resources_text,
    step_text,
    wait_rows,
    workgroup_text,
)
from asmgen.tools.inspection.looppicture import GROUP_COLOURS, STALL_COLOURS, lds_svg, timeline_svg
from asmgen.tools.inspection.looptimeline import LoopTimeline, loop_timeline

_MOST_ROWS = 2000
"""Of one table; the JSON has the others."""

_STYLE = """
body{font:13px/1.45 system-ui,"DejaVu Sans",sans-serif;margin:0 auto;max-width:1210px;padding:16px 20px;color:#1c1c1c;background:#fff}
h1{font-size:20px;margin:24px 0 4px}h2{font-size:15px;margin:26px 0 6px;border-bottom:1px solid #ccc}h3{font-size:13px;margin:14px 0 4px}
p{margin:4px 0}.note{color:#666}nav a{margin-right:14px}
table{border-collapse:collapse;margin:6px 0;max-width:100%}
th,td{text-align:left;vertical-align:top;padding:1px 10px 1px 0;border-bottom:1px solid #eee;overflow-wrap:anywhere}
th{font-weight:600;border-bottom:1px solid #999;background:#fff;position:sticky;top:0}
td.n,th.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
code,td.c{font-family:"DejaVu Sans Mono",ui-monospace,monospace;font-size:12px}
.k{display:inline-block;width:10px;height:10px;margin-right:5px}.k.s{margin-left:0}.legend span{margin-right:12px;white-space:nowrap}
.listing td.c{white-space:nowrap}.hot{background:#fde3e3}.warm{background:#fff3e0}svg{display:block;max-width:100%;height:auto;margin:6px 0}
"""


def write_html(report: FileReport, path: Path, spec: Path | None = None) -> None:
    """Write the page; with a specification the kernel that it launches is timed as it runs. Raises AsmgenError as a launch does,
    FileError where the file cannot be written."""
    timelines = [loop_timeline(kernel, spec if kernel.counts is not None else None) for kernel in report.kernels]
    write_plain(path, inspection_html(report, timelines).encode(errors="backslashreplace"))


def inspection_html(report: FileReport, timelines: Sequence[LoopTimeline | None]) -> str:
    """The page; `timelines` has one for each kernel."""
    names = [f'<a href="#kernel{number}"><code>{escape(kernel.name)}</code></a>' for number, kernel in enumerate(report.kernels)]
    body = [f"<p class=note>asmgen inspect {escape(report.file)} ({escape(report.arch)}). Counts are static unless they are called "
            "executed; times are predicted by the cycle model, not measured.</p>"]
    body += [f"<nav>{''.join(names)}</nav>"] if len(names) > 1 else []
    for number, (kernel, shown) in enumerate(zip(report.kernels, timelines, strict=True)):
        body += [f"<h1 id=kernel{number}><code>{escape(kernel.name)}</code></h1>", *_kernel(kernel, shown)]
    return (f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
            f"<title>{escape(report.file)}</title><style>{_STYLE}</style></head>\n<body>\n" + "\n".join(body) + "\n</body></html>\n")


def _kernel(kernel: KernelReport, shown: LoopTimeline | None) -> list[str]:
    parts = [_paragraph(f"{kernel.code.instructions} instructions; {resources_text(kernel).strip()}"),
             _paragraph(step_text(kernel.step, kernel.resources["occupancy"])), _paragraph(workgroup_text(kernel).strip())]
    if kernel.arguments:
        parts += ["<h2>Arguments</h2>", _table(("argument", "offset", "bytes", "kind"), [
            (row.name or "(unnamed)", row.offset, row.size, row.value_kind) for row in kernel.arguments], ("offset", "bytes"))]
    columns, rows = mix_rows(kernel)
    parts += ["<h2>Instruction mix</h2>", _table(columns, rows, columns[1:], chips=True), "<h2>Loops</h2>"]
    for number, loop in enumerate(kernel.loops, 1):
        parts.append(f"<h3>{escape(loop_heading(number, loop))}</h3>")
        parts += [_paragraph(line) for line in loop_lines(loop, kernel.waves)]
    parts += [] if kernel.loops else [_paragraph("no loops")]
    if shown is not None:
        parts += _main_loop(kernel, shown)
    parts += _memory(kernel)
    parts += ["<h2>Register map</h2>", _table(("registers", *kernel.regions), [(row.registers, *row.cells) for row in kernel.register_map],
                                              code=True)]
    return parts


def _main_loop(kernel: KernelReport, shown: LoopTimeline) -> list[str]:
    found = next((loop for loop in shown.profile.loops if (loop.first, loop.last) == (shown.loop.first, shown.loop.last)), None)
    parts = [f"<h2>Main loop, predicted: instructions {shown.loop.first} to {shown.loop.last} on {shown.profile.timing.gpu}</h2>",
             _paragraph(f"A round of {shown.clocks} clk in the middle of the loop; {shown.assumed}.")]
    if found is not None:
        bounds = ", ".join(f"{name} {clocks:.0f}" for name, clocks in found.bounds.clocks.items())
        stalls = ", ".join(f"{cause} {clocks:.0f}" for cause, clocks in found.stalls.items()) or "none"
        parts += [_paragraph(f"Steady state: {found.cycles:.1f} clk a round, matrix cores busy {found.matrix_busy:.1%}; "
                             f"{found.bounds.binding} binds, {found.distance:+.1%} above its bound. Bounds in clk: {bounds}."),
                  _paragraph(f"Stalls of a wave in a round, in clk: {stalls}.")]
    parts += [_legend(), timeline_svg(shown), "<h3>Listing with reasons and predicted stalls</h3>", _listing(kernel, shown)]
    return parts


def _legend() -> str:
    issues = "".join(f'<span><i class=k style="background:{colour}"></i>{group}</span>' for group, colour in GROUP_COLOURS.items())
    stalls = "".join(f'<span><i class=k style="background:{colour}"></i>stalled: {cause}</span>' for cause, colour in STALL_COLOURS.items())
    return f"<p class=legend>{issues}<br>{stalls}</p>"


def _listing(kernel: KernelReport, shown: LoopTimeline) -> str:
    waits = {wait.position: wait for wait in kernel.waits}
    counts, program = kernel.counts, kernel.program
    found = groups(program)
    columns = ["", "address", "clk", "instruction", "why", *(["executed"] if counts is not None else []), "stall clk", "predicted causes"]
    cells = []
    for row in shown.rows:
        instruction, wait = program.instructions[row.position], waits.get(row.position)
        why = instruction.reason or instruction.comment or "; ".join(map(str, instruction.tokens))
        if not why and wait is not None:
            why = "releases " + (", ".join(outstanding_text(wait.releases, counter) for counter in wait.counts if outstanding_text(
                wait.releases, counter)) or "nothing")
        stall = sum(row.stalls.values())
        causes = ", ".join(f"{cause} {clocks:.1f}" for cause, clocks in sorted(row.stalls.items(), key=lambda item: -item[1]))
        address = f"{instruction.address:#x}" if instruction.address is not None else ""
        chip = f'<i class=k style="background:{GROUP_COLOURS[found[row.position]]}"></i>'
        executed = f"<td class=n>{counts[row.position]}</td>" if counts is not None else ""
        heat = " class=hot" if stall >= 32 else " class=warm" if stall >= 8 else ""
        cells.append(f"<tr{heat}><td class=n>{row.position}</td><td class=n>{address}</td>"
                     f"<td class=n>{row.issued if row.issued >= 0 else ''}</td><td class=c>{chip}{escape(instruction.text)}</td>"
                     f"<td>{escape(why)}</td>{executed}<td class=n>{f'{stall:.1f}' if stall else ''}</td><td>{escape(causes)}</td></tr>")
    heads = "".join(f"<th{' class=n' if name in ('', 'address', 'clk', 'executed', 'stall clk') else ''}>{name}</th>" for name in columns)
    return f"<table class=listing><tr>{heads}</tr>{''.join(cells[:_MOST_ROWS])}</table>{_rest(len(cells))}"


def _memory(kernel: KernelReport) -> list[str]:
    parts = []
    if kernel.waits:
        parts += ["<h2>Waits: in flight before each, and what it releases, at most, over all paths</h2>",
                  _table(("at", "count", "in flight", "releases"), wait_rows(kernel), ("at", "count"))]
    if kernel.uses:
        text = kernel.program.instructions
        parts += ["<h2>Loads: how far behind each its data is first used</h2>", _table(
            ("at", "load", "first used at", "instructions later", "MFMAs between", "matrix cycles between"),
            [(use.position, text[use.position].text, "never" if use.use is None else use.use, use.instructions, use.mfma, use.matrix_cycles)
             for use in kernel.uses],
            ("at", "first used at", "instructions later", "MFMAs between", "matrix cycles between"))]
    rows = lds_rows(kernel)
    if rows or kernel.lds.unknown:
        parts += ["<h2>LDS map: instructions that fill and read</h2>"]
        if rows:
            parts += [lds_svg(kernel.lds.rows, kernel.resources["lds"]), _table(LDS_COLUMNS, rows, LDS_COLUMNS[1:2] + LDS_COLUMNS[3:])]
        parts += [_paragraph(f"{kernel.lds.unknown} LDS instructions have addresses that the code alone does not tell")] * bool(
            kernel.lds.unknown)
    if kernel.code.addresses:
        parts += ["<h2>Uses of address registers</h2>", _table(
            ("register", "uses", "by", "different offsets", "instructions that write it"),
            [(use.register, use.uses, ", ".join(f"{group} {count}" for group, count in use.groups.items()), use.offsets, use.written)
             for use in kernel.code.addresses], ("uses", "different offsets", "instructions that write it"))]
    if kernel.code.copies:
        parts += ["<h2>Copies between registers</h2>", _table(("way", "instructions"), list(kernel.code.copies.items()), ("instructions",))]
    return parts


def _paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def _table(columns: Sequence[str], rows: Sequence[Iterable[Any]], numbers: Sequence[str] = (), chips: bool = False,
           code: bool = False) -> str:
    """`chips`: the first column names groups, with their colours; `code`: all cells are code."""
    kinds = [" class=n" if name in numbers else " class=c" if code else "" for name in columns]
    heads = "".join(f"<th{kind if 'n' in kind else ''}>{escape(str(name))}</th>" for name, kind in zip(columns, kinds, strict=True))
    lines = []
    for row in list(rows)[:_MOST_ROWS]:
        cells = [f"<td{kind}>{escape(str(cell))}</td>" for cell, kind in zip(row, kinds, strict=True)]
        if chips:
            group = str(next(iter(row)))
            cells[0] = f'<td><i class=k style="background:{GROUP_COLOURS.get(group, "#fff")}"></i>{escape(group)}</td>'
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table><tr>{heads}</tr>{''.join(lines)}</table>{_rest(len(rows))}"


def _rest(rows: int) -> str:
    return _paragraph(f"and {rows - _MOST_ROWS} more rows, which --json has") if rows > _MOST_ROWS else ""
