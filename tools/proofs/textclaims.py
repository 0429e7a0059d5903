"""Claims that follow from a kernel's code alone, as it stands in the code object: LDS races, errata and waits."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from asmgen.checks.finding.rules import SEVERITIES
from asmgen.checks.lint.facts import KernelFacts, facts_of_code_object, facts_of_text
from asmgen.checks.lint.programlint import NO_FACTS, block_of_program, lint_program
from asmgen.checks.raceproofs.raceproof import prove_races
from asmgen.codeobject.load import CodeObject
from asmgen.files import read_plain
from asmgen.program.controlflow import control_flow
from asmgen.program.knowncalls import Calls
from asmgen.program.program import Program
from asmgen.program.registerindex import first_indexed
from asmgen.reader.file import read_code_object, read_file
from asmgen.tools.proofs.proof import ERRATA, INDEX, ORDER, PROVEN, RACES, REFUTED, UNKNOWN, Claim, Proof, worst

LDS_ALONE = "; not memory outside of LDS"
_EARLY = "W001"
NO_JUMPS_INTO = "nothing but the kernel's own launch enters its code"
RETURNS = "each function that is called leaves its stack, and the registers that callers keep, as they were"


def code_of(code_object: bytes, names: Sequence[str] = ()) -> list[tuple[Program, KernelFacts]]:
    """The kernels of a code object, those of these names where some are given, with what it says of them."""
    loaded = CodeObject.load(code_object)
    facts = facts_of_code_object(loaded)
    return [(program, facts[program.name]) for program in read_code_object(loaded).programs
            if program.name in facts and (not names or program.name in names)]


def text_claims(kernels: Sequence[tuple[Program, KernelFacts]], blocks: Sequence[tuple[int, int, int] | None] = ()) -> list[Claim]:
    """`races` and `errata`, the worst of each; `blocks` are the workgroups of a launch, where the code object does not require any."""
    sizes = [*blocks, *[None] * (len(kernels) - len(blocks))]
    known = [(program, replace(facts, block=size) if size is not None else facts)
             for (program, facts), size in zip(kernels, sizes, strict=True)]
    each = [errata_claim(program, facts) for program, facts in known]
    errata, early = worst(each), tuple(place for claim in each for place in claim.early)
    if errata.status == UNKNOWN:
        errata = replace(errata, suspected=bool(early), early=early)
    return [worst([race_claim(program, facts) for program, facts in known]), errata]


def prove_file(path: Path, arch: str | None = None) -> Proof:
    """The claims that follow from the code of a file's kernels alone: of each, and the worst. Raises AsmgenError as `read_file` does."""
    began = time.process_time()
    read = read_file(path, arch)
    facts = facts_of_code_object(read.code_object) if read.code_object else facts_of_text(read_plain(path).decode(), read.arch)
    kernels = [program for program in read.programs if program.name in facts] or read.programs
    each = [(program.name, tuple(text_claims([(program, facts.get(program.name, NO_FACTS))]))) for program in kernels]
    races, errata = (worst(list(claims)) for claims in zip(*(claims for _, claims in each), strict=True))
    index = Claim(INDEX, UNKNOWN, "nothing", (), "a file of code does not say what should be computed")
    order = Claim(ORDER, UNKNOWN, "nothing", (), "a file of code does not say what it is launched with")
    return Proof(path.name, read.arch, (index, races, order, errata), time.process_time() - began, tuple(each) if len(each) > 1 else ())


def race_claim(program: Program, facts: KernelFacts) -> Claim:
    """No two accesses to LDS by different waves, one a write, at once."""
    proof = prove_races(program, block_of_program(program, facts), facts.lds, info=facts.workgroup_info)
    scope = f"LDS of {program.name}: all paths, all rounds of loops, all interleavings that barriers allow{LDS_ALONE}"
    at = _place(program, proof.at) if proof.at is not None else None
    return Claim(RACES, proof.status, scope, proof.assumptions, "" if proof.status == PROVEN else proof.reason, at,
                 suspected=proof.status == UNKNOWN and proof.race is not None)


def _without_findings(program: Program, scope: str) -> Claim:
    """Proven, unless code goes where nobody knows, or M0 says which registers instructions mean. Lint has followed known calls."""
    calls = Calls(program, control_flow(program))
    assumed = (NO_JUMPS_INTO, RETURNS) if calls.into else (NO_JUMPS_INTO,)
    for position, why in ((min(calls.unknown_ways(), default=None), "code goes on at a computed address"),
                          (first_indexed(program), "M0 says which registers instructions mean")):
        if position is not None:
            return Claim(ERRATA, UNKNOWN, scope, assumed, why, _place(program, position))
    return Claim(ERRATA, PROVEN, scope, assumed)


def errata_claim(program: Program, facts: KernelFacts) -> Claim:
    """No wait, wait state or register rule is broken, and no erratum hits, on any path. What lint only warns of (a path that may be
    impossible, a need that one source alone names) refutes nothing, and leaves nothing proven; so do notes that leave open whether a
    rule is broken. That registers are touched too early is suspected then, of each such place: a launch may show it."""
    scope = f"waits, wait states, registers and errata of {program.name}: all paths, by the rules of asmgen lint"
    findings = lint_program(program, "", facts, notes=False, doubts=True)
    if not findings:
        return _without_findings(program, scope)
    first = min(findings, key=lambda finding: SEVERITIES.index(finding.severity))
    refuted = first.severity == "error"
    early = [] if refuted else [finding for finding in findings if finding.severity == "warning" and finding.rule == _EARLY]
    return Claim(ERRATA, REFUTED if refuted else UNKNOWN, scope, (NO_JUMPS_INTO,), f"{first.rule}: {first.message}",
                 _place(program, first.position), suspected=bool(early),
                 early=tuple(_place(program, finding.position) for finding in early))


def _place(program: Program, position: int) -> str:
    instruction = program.instructions[position]
    return f"{instruction.where() or program.name}: {instruction.text}"
