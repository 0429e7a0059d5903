"""lint of a Program or a file: waits, wait states, registers, encoding traps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from asmgen.checks.counters.verify import Verifier
from asmgen.checks.lint.encoding import encoding_findings
from asmgen.checks.lint.erratarules import erratum_findings
from asmgen.checks.lint.facts import KernelFacts, facts_of_code_object, facts_of_text
from asmgen.checks.lint.finding import LintFinding, apply_silence
from asmgen.checks.lint.registerrules import register_findings
from asmgen.checks.lint.rules import SEVERITIES
from asmgen.checks.waitstates.passes import verify as verify_wait_states
from asmgen.files import read_plain
from asmgen.program.program import Program
from asmgen.reader.collection import collection_paused
from asmgen.reader.file import ReadResult, read_file

_FACTS = KernelFacts()


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


def lint_program(program: Program, file: str = "", facts: KernelFacts = _FACTS, notes: bool = True) -> list[LintFinding]:
    """Everything that lint finds in one Program, in program order, worse findings of one place first.

    Without `notes`, errors and warnings alone, and quicker.
    """
    with collection_paused():
        return _lint(program, file, facts, notes)


def _lint(program: Program, file: str, facts: KernelFacts, notes: bool) -> list[LintFinding]:
    verifier = Verifier(program, notes, facts.block)
    flow, runs = verifier.flow.flow, verifier.runs
    name = program.name
    placed: list[tuple[int, LintFinding]] = []
    for wait in verifier.findings():
        placed.append((wait.position, LintFinding(wait.rule, wait.severity, wait.message, file, name, wait.consumer, wait.producer,
                                                  wait.have, wait.need)))
    for state in verify_wait_states(program, flow=flow):
        severity = state.severity
        if flow.block_of[state.position] not in runs:
            continue
        placed.append((state.position, LintFinding(state.rule, severity, state.message, file, name, state.consumer, state.producer,
                                                   state.have, state.need)))
    others = [*encoding_findings(program, flow, runs, facts, file), *erratum_findings(program, flow, runs, file)]
    if notes or facts.vgprs is not None:
        others += register_findings(program, flow, runs, facts, file)
    positions = {id(instruction): position for position, instruction in enumerate(program.instructions)} if others else {}
    placed += [(positions[id(finding.consumer)] if finding.consumer is not None else -1, finding) for finding in others]
    placed.sort(key=lambda entry: (entry[0], SEVERITIES.index(entry[1].severity)))
    found = apply_silence((finding for _, finding in placed), program.instructions, file, name)
    return found if notes else [finding for finding in found if finding.severity != "note"]


class Linter:
    """Lints the Programs of one file one by one. `facts` are known by kernel name."""

    def __init__(self, file: str, facts: Mapping[str, KernelFacts]) -> None:
        self._file = file
        self._facts = facts
        self._seen: set[tuple[str, int, str]] = set()

    def lint(self, program: Program) -> list[LintFinding]:
        """What `lint_program` finds, without what an earlier Program had: a function stands behind every kernel that may call it."""
        found = []
        for finding in lint_program(program, self._file, self._facts.get(program.name, _FACTS)):
            if finding.address is not None:
                key = (finding.rule, finding.address, finding.message)
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
