"""`asmgen audit`: from paths to an audit, and the files that it writes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from asmgen.files import write_plain
from asmgen.isa.errors import AsmgenError
from asmgen.isa.quote import shown
from asmgen.tools.audit.auditbaseline import marked, read_baseline, write_baseline
from asmgen.tools.audit.auditfiles import FoundObjects
from asmgen.tools.audit.auditreport import Audit, audit_markdown
from asmgen.tools.audit.auditruns import audit_all
from asmgen.tools.audit.auditsarif import audit_sarif


@dataclass(frozen=True)
class AuditOutputs:
    """Files to write besides what is printed."""

    baseline: Path | None = None
    sarif: Path | None = None
    markdown: Path | None = None


def audit_paths(paths: Sequence[Path], jobs: int, limit: float, baseline: Path | None, outputs: AuditOutputs, notes: bool) -> Audit:
    """Audit every code object for gfx942 and gfx950 in files and below folders, by `jobs` processes.

    Raises AsmgenError where there is no code object for any GPU, FileError for a path or an output that cannot be read or written.
    """
    known = read_baseline(baseline) if baseline is not None else None
    objects = FoundObjects(paths)
    found = audit_all(objects, jobs, limit)
    if not found and not objects.others:
        raise AsmgenError(f"no code object, offload bundle or library with one in {', '.join(shown(path) for path in paths)}")
    gone = None
    if known is not None:
        found, gone = marked(found, known)
    audit = Audit(tuple(found), objects.others, gone)
    if outputs.baseline is not None:
        write_baseline(outputs.baseline, found)
    if outputs.sarif is not None:
        write_plain(outputs.sarif, f"{json.dumps(audit_sarif(audit, notes), indent=1)}\n".encode())
    if outputs.markdown is not None:
        write_plain(outputs.markdown, audit_markdown(audit, notes).encode())
    return audit
