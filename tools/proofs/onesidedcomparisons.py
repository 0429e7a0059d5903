"""Comparisons, and other SCC that decides, that had one outcome in all launches, and have the other one at the contract's limits: no launch
showed what code does then.

They decide which lanes go on, what is selected and where waves go, as where rows beyond a number that no launch reaches are left out.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from asmgen.emulator.terms.decisions import Decision
from asmgen.emulator.terms.polynomials import Term, TermVariable
from asmgen.tools.proofs.limitlaunches import TURN, Lack, LimitCheck, Meets
from asmgen.tools.proofs.limitsamples import Samples, Truths

_EQUALITIES = ("eq", "lg")
_Truth = tuple[Term, set[int]]
"""A term, and the waves of a workgroup that have it."""


class OneSidedComparisons:
    """Of the launch of a check."""

    def __init__(self, check: LimitCheck) -> None:
        self._check, self._said = check, dict[tuple[int, bool], str]()
        self._truths: dict[int, dict[Term, set[int]]] | None = None

    def other(self, held: Mapping[int, bool], until: float = math.inf) -> str | None:
        """What to say of the first of them; None for none."""
        for position, truth in held.items():
            if time.process_time() > until and (position, truth) not in self._said:
                return "the time was over before comparisons were computed at the contract's limits"
            if self._otherwise(position, truth):
                return self._said[position, truth]
        return None

    def lacks(self, held: Mapping[int, bool]) -> dict[Lack, Meets]:
        """Of those that turn at the limits, where they do, by their terms in this launch."""
        found = dict[Lack, Meets]()
        for position, truth in held.items():
            if self._otherwise(position, truth):
                for term, waves in self._of(position):
                    there = [(wave, self._check.guards.met(self._check.report.program.instructions[position], wave)) for wave in waves]
                    found[TURN, (position, self._check.named(term))] = partial(self._decides, term, truth, there)
        return found

    def _decides(self, term: Term, truth: bool, there: Sequence[tuple[int, tuple[Decision, ...]]], samples: Samples) -> Truths:
        """Where a wave comes there, by the decisions that lead, and the truth is another one."""
        turns, come = np.asarray(samples.values.of(term) != truth, bool), np.zeros(samples.values.samples, bool)
        for wave, leading in there:
            own = turns & (samples.waves == wave)
            for decision in leading:
                own &= ~self._check.otherwise(decision, samples)
            come |= own
        return come

    def _otherwise(self, position: int, truth: bool) -> str:
        """What to say of a comparison that turns. Branches before it say nothing: launches at limits go few ways."""
        if (position, truth) not in self._said:
            self._said[position, truth] = self._judged(position, truth, [term for term, _ in self._of(position)])
        return self._said[position, truth]

    def _judged(self, position: int, truth: bool, terms: list[Term]) -> str:
        if not terms:
            return ""
        launches = [dict(self._check.report.parameters), *self._check.limits(terms)]
        samples = self._check.samples(launches)
        for term, waves in self._of(position):
            here = np.isin(samples.waves, [*waves])
            try:
                there = here & (np.asarray(samples.values.of(term) != truth, bool) | self._passes(samples, term, here))
            except (KeyError, TypeError, ValueError):
                continue  # made of what no launch says
            if there.any():
                launch = launches[int(samples.launches[int(np.argmax(there))])]
                text = self._check.report.program.instructions[position].text
                return f"`{text}` was {str(truth).lower()} in all launches, and may be {str(not truth).lower()} with {launch}"
        return ""

    def _passes(self, samples: Samples, term: Term, here: Truths) -> Truths:
        """Where sides are apart that may be equal: one of them comes from below the other to above it."""
        variable = self._check.report.algebra.variables[term[0][0][0]] if len(term) == 1 and term[0][0] else None
        if variable is None or variable.name not in _EQUALITIES:
            return np.zeros(len(here), bool)
        first, second = map(samples.values.of, self._compared(variable))
        above, below = (np.asarray(one & here, bool) for one in (first > second, first < second))
        return above if below.any() else below & False

    def _compared(self, variable: TermVariable) -> tuple[Term, ...]:
        """Both sides; of an xor that is compared with 0, what it is of."""
        first, second = variable.made_of
        own = self._check.report.algebra.variables[first[0][0][0]] if len(first) == 1 and first[0][0] and not second else None
        return own.made_of if own is not None and own.name.startswith("xor") and len(own.made_of) == 2 else (first, second)

    def _of(self, position: int) -> list[_Truth]:
        """What is known of a comparison."""
        if self._truths is None:
            self._truths = {}
            instructions = {id(one): number for number, one in enumerate(self._check.report.program.instructions)}
            for (which, wave), truths in (*self._check.report.truths.items(), *self._check.report.decided.items()):
                for term in (one for one in truths if one is not None):
                    self._truths.setdefault(instructions[which], {}).setdefault(term, set()).add(wave % self._check.waves)
        return [*self._truths.get(position, {}).items()]
