"""The baseline of `asmgen audit`: which findings are known, so that only new ones fail.

A finding is known by architecture, kernel, rule and the mnemonics of its two instructions, and by how many of that kind there are:
registers, addresses and files' folders change with every build. One more of a kind makes as many new as there are more; one that is
gone while another one of its kind came is not noticed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from asmgen.files import MOST_TEXT, read_plain, write_plain
from asmgen.isa.errors import AsmgenError
from asmgen.isa.quote import shown
from asmgen.tools.audit.objectaudit import AuditedObject, AuditFinding

_VERSION = 1
_FIELDS = ("arch", "kernel", "rule", "producer", "consumer")
_Kind = tuple[str, str, str, str, str]
Known = Counter[_Kind]
"""How many findings of each kind are known."""


def known_of(audited: Iterable[AuditedObject]) -> Known:
    """What an audit found, as a baseline has it; notes are none of it."""
    return Counter(_kind(entry, kernel.name, finding) for entry in audited for kernel in entry.kernels for finding in kernel.findings
                   if finding.severity != "note")


def _kind(entry: AuditedObject, kernel: str, finding: AuditFinding) -> _Kind:
    rule, producer, consumer = finding.cause
    return entry.arch, kernel or Path(entry.file).name, rule, producer, consumer


def write_baseline(path: Path, audited: Iterable[AuditedObject]) -> None:
    """Write what an audit found, in an order of its own, so that versions of the file can be compared. Raises FileError."""
    rows = [dict(zip(_FIELDS, kind, strict=True)) | {"count": count} for kind, count in sorted(known_of(audited).items())]
    body = ",\n".join(f"  {json.dumps(row)}" for row in rows)
    write_plain(path, f'{{"version": {_VERSION}, "findings": [\n{body}\n]}}\n'.encode())


def read_baseline(path: Path) -> Known:
    """The findings of a baseline. Raises FileError where it cannot be read, AsmgenError where it is none."""
    try:
        value = json.loads(read_plain(path, MOST_TEXT))
        if not isinstance(value, dict) or value.get("version") != _VERSION:
            raise ValueError(f"its version is not {_VERSION}")
        return Counter({_row(row): int(row["count"]) for row in value["findings"]})
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise AsmgenError(f"{shown(path)} is no baseline of asmgen audit: {error}; --write-baseline writes one") from None


def _row(row: Any) -> _Kind:
    arch, kernel, rule, producer, consumer = (str(row[name]) for name in _FIELDS)
    return arch, kernel, rule, producer, consumer


def marked(audited: Sequence[AuditedObject], known: Known) -> tuple[list[AuditedObject], int]:
    """The same with what the baseline has no longer new, and how many of its findings are gone. Of more findings of a kind than are
    known the last ones are new."""
    left = known.copy()
    found = []
    for entry in audited:
        kernels = []
        for kernel in entry.kernels:
            findings = []
            for finding in kernel.findings:
                kind = _kind(entry, kernel.name, finding)
                old = finding.severity != "note" and left[kind] > 0
                left[kind] -= old
                findings.append(replace(finding, new=not old))
            kernels.append(replace(kernel, findings=tuple(findings)))
        found.append(replace(entry, kernels=tuple(kernels)))
    return found, sum(left.values())
