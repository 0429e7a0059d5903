"""What comparisons of integers compare, as terms: how many rounds a loop goes, which lanes go on, what is selected.

A side may be a function that did nothing in launches, as a minimum of a row's length and a number that no launch has.
"""

from __future__ import annotations

from asmgen.emulator.terms.polynomials import Term
from asmgen.tools.proofs.addressrun import AddressReport

Compared = tuple[int, Term]
"""Of an instruction, by its id, one side."""


def compared_sides(report: AddressReport) -> dict[Compared, frozenset[int]]:
    """Of each comparison whose truth launches decide, the sides, or the number of which a bit is tested; with the waves that came there."""
    found = dict[Compared, set[int]]()
    variables = report.algebra.variables
    for (instruction, wave), truths in report.truths.items():
        sides = {part for truth in truths if truth is not None for monomial, _ in truth for number in monomial
                 for part in variables[number].made_of if isinstance(part, tuple) and part}
        for side in sides:
            found.setdefault((instruction, side), set()).add(wave)
    return {compared: frozenset(waves) for compared, waves in found.items()}
