"""lint of a file: each of its kernels and functions by `lint_program`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from asmgen.checks.finding.finding import LintFinding
from asmgen.checks.lint.facts import KernelFacts, facts_of_code_object, facts_of_text
from asmgen.checks.lint.programlint import NO_FACTS, lint_program
from asmgen.files import read_plain
from asmgen.garbage import collection_paused
from asmgen.program.program import Program
from asmgen.reader.file import ReadResult, read_file


@dataclass(frozen=True)
class LintReport:
    """Findings of all kernels of a file, in their order; `instructions` is how many were looked at."""

    file: str
    arch: str
    kernels: tuple[str, ...]
    instructions: int
    findings: tuple[LintFinding, ...]

    def count(self, severity: str) -> int:
        """How many of that severity."""
        return sum(finding.severity == severity for finding in self.findings)


class Linter:
    """Lints the Programs of one file one by one. `facts` are known by kernel name."""

    def __init__(self, file: str, facts: Mapping[str, KernelFacts]) -> None:
        self._file = file
        self._facts = facts
        self._seen: set[tuple[str, int | None, int | None, str]] = set()

    def lint(self, program: Program) -> list[LintFinding]:
        """What `lint_program` finds, without what an earlier Program had: a function is read again with every kernel that may call it."""
        found = []
        for finding in lint_program(program, self._file, self._facts.get(program.name, NO_FACTS)):
            if finding.address is not None or finding.line is not None:
                key = (finding.rule, finding.address, finding.line, finding.message)
                if key in self._seen:
                    continue
                self._seen.add(key)
            found.append(finding)
        return found


def lint_file(path: Path, arch: str | None = None) -> LintReport:
    """Read a .s or .co and lint all of its kernels and functions. Raises AsmgenError for what cannot be read."""
    with collection_paused():
        read = read_file(path, arch)
        return lint_read(read, str(path), {} if read.code_object else facts_of_text(read_plain(path).decode(), read.arch))


def lint_read(read: ReadResult, file: str, facts: Mapping[str, KernelFacts]) -> LintReport:
    """Lint what was read from `file`. What is known of each kernel by name comes from the code object where there is one."""
    if read.code_object is not None:
        facts = facts_of_code_object(read.code_object)
    linter = Linter(file, facts)
    findings = [finding for program in read.programs for finding in linter.lint(program)]
    return LintReport(file, read.arch, tuple(program.name for program in read.programs), sum(map(len, read.programs)), tuple(findings))
