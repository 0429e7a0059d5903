"""What `asmgen lint` prints."""

from __future__ import annotations

from collections import Counter
from typing import Any

from asmgen.checks.finding.rules import rules
from asmgen.checks.lint.linting import LintReport

_SHOWN = 8  # notes of one rule


def lint_text(report: LintReport) -> str:
    """A line a finding, of notes the first few of each rule, and a summary."""
    lines = []
    seen: Counter[str] = Counter()
    for finding in report.findings:
        if finding.severity == "note":
            seen[finding.rule] += 1
            if seen[finding.rule] > _SHOWN:
                continue
        lines.append(finding.sentence())
    known = rules()
    lines += [f"{count - _SHOWN} more notes of {rule} ({known[rule].title}); --json lists them all" for rule, count in seen.items()
              if count > _SHOWN]
    counts = ", ".join(f"{report.count(severity)} "
                       f"{severity}{'s' * (report.count(severity) != 1)}" for severity in ("error", "warning", "note"))
    kernels = len(report.kernels)
    lines.append(f"{report.file}: {counts} in {report.instructions} instructions of {kernels} kernel{'s' * (kernels != 1)} ({report.arch})")
    return "".join(f"{line}\n" for line in lines)


def lint_rows(report: LintReport) -> list[dict[str, Any]]:
    """The document of `asmgen lint --json`."""
    return [finding.as_json() for finding in report.findings]


def lint_status(report: LintReport, strict: bool) -> int:
    """1 for errors, with `strict` for warnings too."""
    return int(bool(report.count("error") or strict and report.count("warning")))
