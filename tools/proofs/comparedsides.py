"""What terms end in beside addresses in memory: sides of comparisons of integers, which say how many rounds a loop goes and which lanes go
on, values that become data or lane masks, and addresses in LDS.

A side may be a function that did nothing in launches, as a minimum of a row's length and a number that no launch has. Of SCC that no
comparison wrote and that a branch reads, sides count where it says how many rounds a loop goes; else it is judged as a whole.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from asmgen.emulator.terms.polynomials import Polynomials, Term
from asmgen.tools.proofs.addressrun import AddressReport
from asmgen.tools.proofs.guards import Guards

TRUTH, DECIDED, VALUE, LDS = "truth", "outcome", "value", "LDS address"
SIDES = TRUTH, DECIDED
"""Ends of which a truth is made: of a comparison, and of what no comparison wrote, as the borrow of a difference, which is below 0 then."""


@dataclass(frozen=True)
class End:
    """Of an instruction, by its position: one side of its truth, or a value of it, with the waves that came there."""

    position: int
    what: str
    term: Term
    waves: frozenset[int]


def ends_of(report: AddressReport, guards: Guards) -> list[End]:
    """All of the launch of a report. Of a bit that is tested, the side is the number."""
    instructions = report.program.instructions
    numbers = {id(one): position for position, one in enumerate(instructions)}
    decided = {key: terms for key, terms in report.decided.items() if not instructions[numbers[key[0]]].is_branch
               or guards.ways.leaves_loop(numbers[key[0]])}
    found = dict[tuple[int, str, Term], set[int]]()
    for what, of, sides in ((TRUTH, report.truths, _sides), (DECIDED, decided, _sides), (VALUE, report.used, _value)):
        for (instruction, wave), terms in of.items():
            for term in sides(report.algebra, terms):
                found.setdefault((numbers[instruction], what, term), set()).add(wave)
    for sequence in report.sequences:
        for term in _value(report.algebra, {*sequence.terms}) if sequence.what == "LDS" else ():
            found.setdefault((numbers[id(sequence.instruction)], LDS, term), set()).update(sequence.waves)
    return [End(*which, frozenset(waves)) for which, waves in found.items()]


def _sides(algebra: Polynomials, truths: Set[Term | None]) -> set[Term]:
    return {part for truth in truths if truth is not None for monomial, _ in truth for number in monomial
            for part in algebra.variables[number].made_of if isinstance(part, tuple) and part}


def _value(_: Polynomials, terms: Set[Term | None]) -> set[Term]:
    return {term for term in terms if term}
