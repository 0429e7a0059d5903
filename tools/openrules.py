"""Mutants that break only a rule on which the sources disagree: nothing but the hardware says whether they change meaning.

SALU writes M0, and the next instruction is a buffer load into LDS: LLVM 22 puts a wait state there, the ISA text does not name such loads,
and kernels that ship do without (isa/waitrules.py, salu-m0-buffer). Where the load took M0 as it was before, a launch shows what becomes of
results. A mutant without such a launch stays unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from asmgen.author.family.family import Family
from asmgen.checks.finding.finding import LintFinding
from asmgen.checks.lint.facts import facts_of_code_object
from asmgen.checks.lint.programlint import lint_program
from asmgen.checks.mutants.mutants import Mutant
from asmgen.codeobject.load import CodeObject
from asmgen.isa.errors import AsmgenError
from asmgen.isa.waitrules import RULES
from asmgen.program.program import Item, Program
from asmgen.tools.mutantruns import Runs
from asmgen.tools.proofs.proof import PROVEN
from asmgen.tools.proofs.proofclasses import longer_loops
from asmgen.tools.proofs.runclaims import steps_of
from asmgen.tools.proofs.textclaims import race_claim
from asmgen.tools.running.build import Built

OPEN = "open"
"""Of a mutant: it changes meaning if the hardware needs what one source alone asks for."""
_DOUBTED = {rule.id: rule for rule in RULES if rule.doubt}


def open_rule(family: Family, built: Built, mutant: Mutant, runs: Runs) -> str | None:
    """Which rule, by which sources, and the launch whose results are wrong if the hardware needs it; None for a mutant of which anything
    else is unknown. `runs` are of the built kernel."""
    facts = facts_of_code_object(CodeObject.load(built.code_object))[built.kernel.resources.name]
    findings = lint_program(mutant.program, "", facts, notes=False, doubts=True)
    if not findings or any(one.rule not in _DOUBTED for one in findings) or race_claim(mutant.program, facts).status != PROVEN:
        return None
    late = taken_late(mutant.program, findings)
    launch = _wrong_launch(family, built, late, mutant, runs) if late is not None else None
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


def _wrong_launch(family: Family, built: Built, late: Program, mutant: Mutant, runs: Runs) -> Mapping[str, Any] | None:
    """The first launch that is wrong: of those of `runs` that execute what was changed, and of those with loops a step longer each time."""
    position = next(number for number, one in enumerate(runs.program.instructions) if one is mutant.original)
    contract, build = built.kernel.contract, built.kernel.parameters
    longer = ((launch, True, 0) for launch in longer_loops(contract, build, steps_of(family, built)))
    for launch, preload, seed in chain(((known.launch, known.preload, known.seed) for known in runs.through(position)), longer):
        try:
            if not runs.run(launch, preload, late, seed).passed:
                return launch
        except AsmgenError:
            return launch
    return None
