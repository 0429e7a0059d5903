"""Mutants that break only a rule on which the sources disagree: nothing but the hardware says whether they change meaning.

SALU writes M0, and the next instruction is a buffer load into LDS: LLVM 22 puts a wait state there, the ISA text does not name such loads,
and kernels that ship do without (isa/waitrules.py, salu-m0-buffer). Where the load took M0 as it was before, a launch shows what becomes of
results. A mutant without such a launch stays unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from asmgen.checks.finding.finding import LintFinding
from asmgen.checks.lint.facts import KernelFacts
from asmgen.checks.lint.programlint import lint_program
from asmgen.checks.mutants.mutants import Mutant
from asmgen.isa.errors import AsmgenError
from asmgen.isa.waitrules import RULES
from asmgen.program.program import Item, Program
from asmgen.tools.mutantruns import Runs
from asmgen.tools.proofs.proof import PROVEN
from asmgen.tools.proofs.textclaims import race_claim

OPEN = "open"
"""Of a mutant: it changes meaning if the hardware needs what one source alone asks for."""
_DOUBTED = {rule.id: rule for rule in RULES if rule.doubt}


def open_rule(mutant: Mutant, facts: KernelFacts, runs: Runs) -> str | None:
    """Which rule, by which sources, and the launch whose results are wrong if the hardware needs it; None for a mutant of which anything
    else is unknown."""
    findings = lint_program(mutant.program, "", facts, notes=False, doubts=True)
    if not findings or any(one.rule not in _DOUBTED for one in findings) or race_claim(mutant.program, facts).status != PROVEN:
        return None
    late = taken_late(mutant.program, findings)
    launch = _wrong_launch(late, mutant, runs) if late is not None else None
    rule = _DOUBTED[findings[0].rule]
    return None if launch is None else f"{rule.id} ({rule.source}): {rule.doubt}; if it is needed, results are wrong with {dict(launch)}"


def taken_late(program: Program, findings: Sequence[LintFinding]) -> Program | None:
    """The program in which each consumer reads what was there before its producer wrote: both change places. None where they do not stand
    side by side, or one does more to the other."""
    items: list[Item] = [*program.items]
    for finding in findings:
        first, second = finding.producer, finding.consumer
        place = next((number for number, item in enumerate(items[:-1]) if item is first and items[number + 1] is second), None)
        if first is None or second is None or place is None or second.writes & (first.reads | first.writes):
            return None
        items[place:place + 2] = [second, first]
    return program.with_items(items)


def _wrong_launch(late: Program, mutant: Mutant, runs: Runs) -> Mapping[str, Any] | None:
    """The first launch that executes what was changed, and is wrong."""
    position = next(number for number, one in enumerate(runs.program.instructions) if one is mutant.original)
    for known in runs.through(position):
        try:
            if not runs.run(known.launch, known.preload, late, known.seed, known.budget).passed:
                return known.launch
        except AsmgenError:
            return known.launch
    return None
