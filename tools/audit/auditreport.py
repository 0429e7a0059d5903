"""What `asmgen audit` prints and writes: findings grouped by cause, as text, Markdown and JSON. SARIF: `auditsarif`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from asmgen.checks.finding.rules import SEVERITIES, rules
from asmgen.isa.quote import printable
from asmgen.tools.audit.objectaudit import AuditedKernel, AuditedObject, AuditFinding


@dataclass(frozen=True)
class Audit:
    """An audit: the objects, how many there are for other GPUs by target, and what a baseline (None: there is none) had that is gone."""

    objects: tuple[AuditedObject, ...]
    others: Counter[str]
    gone: int | None = None

    def findings(self) -> Iterator[tuple[AuditedObject, AuditedKernel, AuditFinding]]:
        """All of them with where they are."""
        for entry in self.objects:
            for kernel in entry.kernels:
                for finding in kernel.findings:
                    yield entry, kernel, finding

    def status(self, strict: bool) -> int:
        """1 where there is a new error, with `strict` a new warning too."""
        fatal = SEVERITIES[:1 + strict]
        return int(any(finding.new and finding.severity in fatal for _, _, finding in self.findings()))


@dataclass(frozen=True)
class Cause:
    """Findings of one rule and severity between instructions of the same names: how many, how many of them new, in what, the first one."""

    severity: str
    rule: str
    producer: str
    consumer: str
    count: int
    new: int
    files: int
    kernels: int
    first: str

    @property
    def title(self) -> str:
        """Of the rule."""
        known = rules().get(self.rule)
        return known.title if known is not None else ""

    @property
    def instructions(self) -> str:
        """The names of the instructions."""
        return " -> ".join(name for name in (self.producer, self.consumer) if name)


def causes(audit: Audit, notes: bool = False) -> list[Cause]:
    """The causes, worse ones first, then those of more kernels. Of notes alone where they are asked for."""
    groups: dict[tuple[str, str, str, str], list[tuple[AuditedObject, AuditedKernel, AuditFinding]]] = {}
    for entry, kernel, finding in audit.findings():
        if notes or finding.severity != "note":
            groups.setdefault((finding.severity, *finding.cause), []).append((entry, kernel, finding))
    found = []
    for (severity, rule, producer, consumer), members in groups.items():
        entry, kernel, finding = next((one for one in members if one[2].new), members[0])
        found.append(Cause(severity, rule, producer, consumer, len(members), sum(one.new for _, _, one in members),
                           len({one.file for one, _, _ in members}), len({(one.label, its.name) for one, its, _ in members}),
                           f"{_where(entry, kernel, finding)}: {finding.message}"))
    return sorted(found, key=lambda one: (SEVERITIES.index(one.severity), -one.kernels, -one.count, one.rule, one.instructions))


def _where(entry: AuditedObject, kernel: AuditedKernel, finding: AuditFinding) -> str:
    at = f":{finding.address:#x}" if finding.address is not None else ""
    return f"{entry.label}{at}{f' ({kernel.name})' if kernel.name else ''}"


def audit_text(audit: Audit, notes: bool = False) -> str:
    """For people: the causes, then figures."""
    lines = []
    for cause in causes(audit, notes):
        new = f", {cause.new} new" if audit.gone is not None and cause.new else ""
        lines.append(f"{cause.severity} {cause.rule} {cause.title}{f': {cause.instructions}' if cause.instructions else ''}")
        lines.append(f"    {cause.count} in {_counted(cause.kernels, 'kernel')} of {_counted(cause.files, 'file')}{new}; "
                     f"{'the first' if cause.count > 1 else 'it'}: {cause.first}")
    return "".join(f"{printable(line)}\n" for line in [*lines, *_figures(audit)])


def _figures(audit: Audit) -> list[str]:
    counts = Counter(finding.severity for _, _, finding in audit.findings())
    rows = ", ".join(_counted(counts[severity], severity) for severity in SEVERITIES)
    kernels = sum(bool(kernel.instructions) for entry in audit.objects for kernel in entry.kernels)
    lines = [f"{rows} in {sum(entry.instructions for entry in audit.objects):,} instructions of {_counted(kernels, 'kernel')} in "
             f"{_counted(len(audit.objects), 'code object')}"]
    if audit.others:
        lines.append(f"passed over for other GPUs: {', '.join(f'{count} {target}' for target, count in sorted(audit.others.items()))}")
    if audit.gone is not None:
        new = Counter(finding.severity for _, _, finding in audit.findings() if finding.new)
        lines.append(f"against the baseline: {_counted(new['error'], 'new error')}, {_counted(new['warning'], 'new warning')}, "
                     f"{audit.gone} gone")
    return lines


def _counted(count: int, name: str) -> str:
    return f"{count} {name}{'s' * (count != 1)}"


def audit_markdown(audit: Audit, notes: bool = False) -> str:
    """A page: a table of the causes, and the rules that they are about."""
    found = causes(audit, notes)
    lines = ["# asmgen audit", "", *(f"{line[0].upper()}{line[1:]}.  " for line in _figures(audit)), ""]
    if found:
        new = audit.gone is not None
        lines += [f"| | rule | instructions | findings |{' new |' if new else ''} kernels | files | for example |",
                  f"|---|---|---|---:|{'---:|' if new else ''}---:|---:|---|"]
        lines += [f"| {cause.severity} | {cause.rule} | {f'`{cause.instructions}`' if cause.instructions else ''} | {cause.count} |"
                  f"{f' {cause.new} |' if new else ''} {cause.kernels} | {cause.files} | {_cell(cause.first)} |" for cause in found]
        lines += ["", *(f"- {rule}: {title}" for rule, title in {cause.rule: cause.title for cause in found}.items()), "",
                  "`asmgen explain RULE` says more about each rule."]
    return "".join(f"{line}\n" for line in lines)


def _cell(text: str) -> str:
    """Text in a table of Markdown."""
    return printable(text).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("_", "\\_").replace("*", "\\*")


def audit_json(audit: Audit, notes: bool = False) -> dict[str, Any]:
    """The document of `asmgen audit --json` (docs/FORMATS.md section 1)."""
    objects = [{"file": entry.file, "object": entry.number, "kernel": kernel.name, "arch": entry.arch,
                "instructions": kernel.instructions,
                "findings": [_row(entry, kernel, finding) for finding in kernel.findings if notes or finding.severity != "note"]}
               for entry in audit.objects for kernel in entry.kernels]
    groups = [{"rule": cause.rule, "severity": cause.severity, "title": cause.title, "producer": cause.producer, "consumer": cause.consumer,
               "count": cause.count, "new": cause.new, "kernels": cause.kernels, "files": cause.files, "first": cause.first}
              for cause in causes(audit, notes)]
    return {"objects": objects, "causes": groups, "passed_over": dict(sorted(audit.others.items())), "gone": audit.gone}


def _row(entry: AuditedObject, kernel: AuditedKernel, finding: AuditFinding) -> dict[str, Any]:
    return {"rule": finding.rule, "severity": finding.severity, "file": entry.file, "line": None, "address": finding.address,
            "message": finding.message, "producer": finding.producer or None, "consumer": finding.consumer or None, "have": finding.have,
            "need": finding.need, "kernel": kernel.name, "producer_address": finding.producer_address, "new": finding.new}
