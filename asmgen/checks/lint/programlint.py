"""lint of a Program: waits, wait states, registers, encoding traps. A build asks it too, so nothing here parses text."""

from __future__ import annotations

from dataclasses import replace

from asmgen.checks.finding.finding import LintFinding, apply_silence
from asmgen.checks.finding.rules import NO_DOUBT, SEVERITIES
from asmgen.checks.lint.encoding import encoding_findings
from asmgen.checks.lint.erratarules import erratum_findings
from asmgen.checks.lint.facts import KernelFacts
from asmgen.checks.lint.idlewaits import told_as_wait_states
from asmgen.checks.lint.racerules import race_findings
from asmgen.checks.lint.registerrules import register_findings
from asmgen.checks.waits.verify import Verifier
from asmgen.checks.waitstates.passes import verify as verify_wait_states
from asmgen.garbage import collection_paused
from asmgen.program.controlflow import control_flow
from asmgen.program.program import Program
from asmgen.program.workitems import takes_x_alone

NO_FACTS = KernelFacts()


def lint_program(program: Program, file: str = "", facts: KernelFacts = NO_FACTS, notes: bool = True,
                 warnings: bool = True, doubts: bool = False) -> list[LintFinding]:
    """Everything that lint finds in one Program, in program order, worse findings of one place first.

    Without `notes`, errors and warnings alone, and quicker: rounds of loops, in which buffers take turns, are not told apart. Without
    `warnings`, errors alone, and quicker still. `doubts` adds the notes that leave open whether a rule is broken.
    """
    with collection_paused():
        return _lint(program, file, facts, SEVERITIES[:1 + warnings + (warnings and notes)], doubts)


def block_of_program(program: Program, facts: KernelFacts) -> tuple[int, int, int] | None:
    """The workgroup: a row where the code takes no other coordinate of the work-item."""
    if facts.block is None and facts.most is not None and takes_x_alone(program, control_flow(program)):
        return facts.most, 1, 1
    return facts.block


def _lint(program: Program, file: str, facts: KernelFacts, severities: tuple[str, ...], doubts: bool) -> list[LintFinding]:
    notes = "note" in severities
    verifier = Verifier(program, notes, block_of_program(program, facts), severities == ("error",))
    flow, runs = verifier.flow.flow, verifier.runs
    found = verifier.findings()
    found += [finding for finding in verify_wait_states(program, flow=flow) if flow.block_of[finding.position] in runs]
    found += [*encoding_findings(program, flow, runs, facts), *erratum_findings(program, flow, runs)]
    if notes or facts.vgprs is not None:
        found += register_findings(program, flow, runs, facts)
    if notes:
        found = told_as_wait_states(found, program, flow)
        found += race_findings(program, block_of_program(program, facts), facts.lds, found, facts.workgroup_info)
    found.sort(key=lambda finding: (finding.position, SEVERITIES.index(finding.severity)))
    found = [replace(finding, file=file, kernel=program.name) for finding in apply_silence(found, program.instructions)]
    return [finding for finding in found if finding.severity in severities or doubts and finding.rule not in NO_DOUBT]
