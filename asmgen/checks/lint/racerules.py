"""Waves that race in LDS, where nothing speaks against it (asmgen.checks.raceproofs): a barrier too few, which no wait counter shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from asmgen.checks.finding.finding import LintFinding
from asmgen.checks.raceproofs.outcome import REFUTED
from asmgen.checks.raceproofs.raceproof import prove_races
from asmgen.checks.waits.verify import BARRIERS, TOKEN
from asmgen.isa.arch import MOST_WORK_ITEMS
from asmgen.program.program import Program

RACE = "W015"


def race_findings(program: Program, block: tuple[int, int, int] | None, lds: int | None,
                  found: Sequence[LintFinding], info: int | None = None) -> Iterator[LintFinding]:
    """The race that the proof of the contrary meets first, unless one is known already. Where a workgroup may have 1,024 work-items it is a
    warning: code for one wave is launched with 64, whatever its metadata allows."""
    if block is None or any(one.rule in (BARRIERS, TOKEN) and one.severity == "error" for one in found):
        return
    if not any(instruction.waits == "off" for instruction in program.instructions):
        proof = prove_races(program, block, lds, once=True, info=info)
        if proof.status == REFUTED and proof.race is not None:
            usual = prod(block) == MOST_WORK_ITEMS  # what compilers allow where nobody says how many it has
            doubt = f", if a workgroup has {MOST_WORK_ITEMS} work-items" if usual else ""
            first, second = (program.instructions[position] for position in (proof.race.first, proof.race.second))
            yield LintFinding(RACE, "warning" if usual else "error", f"{proof.race.sentence(program)}{doubt}", first, second, None, None,
                              proof.race.second)
