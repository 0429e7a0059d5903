"""The tables that `list`, `doctor` and `run` print."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from asmgen.isa.arch import ARCHITECTURES, architecture
from asmgen.isa.errors import AsmgenError
from asmgen.isa.table import names, opcode
from asmgen.tools.terminal.texttables import render, table

if TYPE_CHECKING:
    from asmgen.tools.doctor import ToolStatus
    from asmgen.tools.running.runner import RunReport

def _checked(arch: str | None) -> str | None:
    if arch is not None:
        try:
            architecture(arch)
        except ValueError as error:
            raise AsmgenError(str(error)) from None
    return arch


def kernel_rows(arch: str | None, kernels: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Each family as data: those named, also FILE.py:NAME, or all of the library. Raises AsmgenError for an unknown one, and for one
    named that is not for `arch`."""
    from asmgen.kernels.registry import family  # the tables of this module serve commands that need no kernel
    from asmgen.kernels.registry import names as family_names

    _checked(arch)
    if kernels:
        return [found.describe(found.check_arch(arch) if arch else "") for found in map(family, kernels)]
    return [found.describe(arch or "") for found in map(family, family_names()) if arch is None or arch in found.archs]


def kernel_text(rows: Sequence[dict[str, Any]]) -> str:
    """Kernels for people."""
    if not rows:
        return "no kernel for that architecture\n"
    parts: list[Any] = []
    for row in rows:
        others = " and ".join(f"--arch {arch}" for arch in row["archs"] if arch != row["arch"])
        grids = [launch["grid"]["sentence"] if len(row["launches"]) == 1 else f"{launch['title']} ({launch['grid']['sentence']})"
                 for launch in row["launches"]]
        parts += [f"{row['kernel']}: {row['title']}", f"  {', '.join(row['archs'])}; {', then '.join(grids)}",
                  f"  first variant of {row['arch']}{f'; {others} shows the other' if others else ''}"]
        parts.append(table(("  parameter", "kind", "default", "legal", "meaning"),
                           [(f"  {name}", entry["kind"], _default(entry), _legal(entry), entry["doc"])
                            for name, entry in row["parameters"].items()]))
        parts += [f"  {rule['sentence']}" for rule in row["rules"]]
        parts += [f"  {' and '.join(alias['arguments'])} may be one array where {alias['where']}; nothing else that is written may overlap"
                  for alias in row["aliases"]]
        parts += [f"  variant {' '.join(f'{name}={shown}' for name, value in variant.items() if (shown := _shown(value)))}"
                  for variant in row["variants"]]
    return render(*parts)


def _shown(value: Any) -> str:
    return "x".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _default(entry: dict[str, Any]) -> str:
    if "default_from" in entry:
        return str(entry["default_from"])
    return str(entry["default"]).lower() if isinstance(entry.get("default"), bool) else str(entry.get("default", "(needed)"))


def _legal(entry: dict[str, Any]) -> str:
    if "choices" in entry:
        return ", ".join(map(str, entry["choices"]))
    if "minimum" not in entry:
        return "true, false" if entry["type"] == "bool" else ""
    step = f", multiple of {entry['multiple_of']}" if entry.get("multiple_of", 1) != 1 else ""
    return f"{entry['minimum']} to {entry['maximum']}{step}"


def instruction_rows(arch: str | None) -> list[dict[str, Any]]:
    """One row a mnemonic: its formats and architectures, and whether asmgen reads, executes and tests it.

    Read is every mnemonic of the table. Executed: the emulator has its semantics, on every architecture listed. Tested: a
    semantics test executes it and compares with an independent reference (tools/tested.txt, written by the test suite).
    """
    from asmgen.emulator.scheduling.coverage import executed

    archs = [checked] if (checked := _checked(arch)) is not None else sorted(ARCHITECTURES)
    runs = {name: executed(name) for name in archs}
    tested = _tested()
    rows = []
    for row in (opcode(name) for name in names(arch)):
        where = [name for name in archs if name in row.archs]
        rows.append({"mnemonic": row.name, "formats": sorted({form.encoding for form in row.forms}), "architectures": sorted(row.archs),
                     "read": True, "executed": all(row.name in runs[name] for name in where), "tested": row.name in tested})
    return rows


def _tested() -> frozenset[str]:
    text = (files("asmgen.tools") / "tested.txt").read_text()
    return frozenset(line for line in text.splitlines() if line and not line.startswith("#"))


def instruction_table(rows: Sequence[dict[str, Any]]) -> str:
    """The coverage table for people."""
    everywhere = sorted(ARCHITECTURES)
    cells = [(row["mnemonic"], " ".join(row["formats"]), "both" if row["architectures"] == everywhere else row["architectures"][0],
              *("yes" if row[what] else "-" for what in ("read", "executed", "tested"))) for row in rows]
    counted = ", ".join(f"{sum(row[what] for row in rows)} {what}" for what in ("read", "executed", "tested"))
    return render(table(("mnemonic", "formats", "architecture", "read", "executed", "tested"), cells), f"{len(rows)} mnemonics: {counted}")


def doctor_table(rows: Sequence[ToolStatus]) -> str:
    """Tools for people."""
    width = max(len(row.name) for row in rows)
    return "".join(f"{row.name.ljust(width)}  {_status(row)}\n" for row in rows)


def _status(row: ToolStatus) -> str:
    if row.found:
        return f"{row.version}, {row.path}"
    missing = f"missing ({row.version})" if row.version else "missing"
    return f"{missing}; to install: {row.install}" if row.install else row.version or missing


def run_text(report: RunReport) -> str:
    """One run for people. The figures of time are the emulator's own, never a GPU's."""
    from asmgen.tools.running.executed import executed

    lines = [f"{report.kernel} on {report.device} ({report.arch}): {'passed' if report.passed else 'FAILED'}",
             f"  largest error against float64  {report.max_abs_error:.6g} ({report.max_rel_error:.3g} of its row's largest value)",
             f"  largest error over tolerance   {report.worst:.3f}",
             f"  bytes outside of the result    {'untouched' if report.untouched else 'OVERWRITTEN'}"]
    if report.wave_instructions is not None:
        lines += [f"  wave instructions emulated     {report.wave_instructions}",
                  f"  executed                       {report.executed}",
                  f"  LDS bank conflicts             {report.bank_conflicts} extra cycles (predicted from the emulator's addresses)",
                  f"  seconds                        {report.seconds:.2f} (of this machine's emulator)"]
    for run in report.launches if len(report.launches) > 1 else ():
        one = executed(run.result.program, [run.result.counts])
        lines.append(f"  {run.kernel}: {run.result.wave_instructions} wave instructions, {one} executed")
    lines += [f"  {finding.sentence()}" for finding in report.findings] or ["  findings                       none"]
    lines += [f"  launch specification           {report.spec}"] if report.spec is not None else []
    return "\n".join(lines) + "\n"
