"""SARIF 2.1.0 (OASIS Standard, "Static Analysis Results Interchange Format") of an audit.

A finding is in a binary: its place is the file with an absolute address in the code object's image (section 3.32), and the kernel as a
logical location (3.33). With a baseline each result says whether it is new (3.27.24).
"""

from __future__ import annotations

from collections import Counter
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote

from asmgen import __version__
from asmgen.checks.finding.rules import SEVERITIES, rules
from asmgen.tools.audit.auditreport import Audit
from asmgen.tools.audit.objectaudit import AuditedKernel, AuditedObject, AuditFinding

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def audit_sarif(audit: Audit, notes: bool = False) -> dict[str, Any]:
    """The log: one run with the rules that are found and a result for each finding."""
    found = [row for row in audit.findings() if notes or row[2].severity != "note"]
    names = sorted({finding.rule for _, _, finding in found})
    numbers = {name: number for number, name in enumerate(names)}
    results, seen = [], Counter[str]()
    for entry, kernel, finding in found:
        same = _fingerprint(entry, kernel, finding)
        seen[same] += 1
        results.append(_result(entry, kernel, finding, numbers[finding.rule], f"{same}:{seen[same]}", audit.gone is not None))
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [{
        "tool": {"driver": {"name": "asmgen", "version": __version__, "rules": [_rule(name) for name in names]}},
        "columnKind": "unicodeCodePoints",
        "results": results}]}


def _rule(name: str) -> dict[str, Any]:
    known = rules()[name]
    return {"id": name, "shortDescription": {"text": known.title}, "fullDescription": {"text": known.text},
            "defaultConfiguration": {"level": _level(known.severity)}}


def _level(severity: str) -> str:
    """SARIF's levels have our names."""
    assert severity in SEVERITIES
    return severity


def _result(entry: AuditedObject, kernel: AuditedKernel, finding: AuditFinding, rule: int, same: str,
            compared: bool) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": {"uri": _uri(entry.file)}}
    if finding.address is not None:
        physical["address"] = {"absoluteAddress": finding.address, "kind": "instruction"}
    location: dict[str, Any] = {"physicalLocation": physical}
    if kernel.name:
        location["logicalLocations"] = [{"name": kernel.name, "kind": "function"}]
    found = {"ruleId": finding.rule, "ruleIndex": rule, "level": _level(finding.severity), "message": {"text": _message(entry, finding)},
             "locations": [location], "partialFingerprints": {"asmgenCause/v1": same}}
    return found | {"baselineState": "new" if finding.new else "unchanged"} if compared else found


def _message(entry: AuditedObject, finding: AuditFinding) -> str:
    member = entry.file.partition("!")[2]
    number = f"code object {entry.number}" if entry.number else ""
    inside = ", ".join(part for part in (number, f"of {member}" if member and number else member) if part)
    return f"{finding.message} ({inside})" if inside else finding.message


def _uri(file: str) -> str:
    """A file's path relative to the working folder where it is below it, else absolute; a member of an archive is its archive."""
    path = Path(file.partition("!")[0]).absolute()
    base = Path.cwd()
    return quote(path.relative_to(base).as_posix()) if path.is_relative_to(base) else path.as_uri()


def _fingerprint(entry: AuditedObject, kernel: AuditedKernel, finding: AuditFinding) -> str:
    """By what a baseline knows a finding."""
    return sha256("\0".join((entry.arch, kernel.name, *finding.cause)).encode()).hexdigest()[:32]
