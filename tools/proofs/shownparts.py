"""Whether a launch shows that a function acts of which comparisons alone are made: with the form that it has where it does nothing, the
truth of one would be another. Where a loop's end is limited within the last round, the loop goes as many rounds without that.

Of an address or a value it is part, so there it shows where it acts: steps of a division may set right what others get wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.terms.polynomials import Term
from asmgen.tools.proofs.addressrun import AddressReport
from asmgen.tools.proofs.comparedsides import SIDES, End
from asmgen.tools.proofs.termvalues import Makings, TermValues

_LOOKED_AT = 64
"""Samples in which a function acts that are looked at, some of each kind of place."""


class ShownParts:
    """Of the launch of a report with these ends. Waves are those of its grid."""

    def __init__(self, report: AddressReport, ends: Sequence[End], makings: Makings) -> None:
        self._truths = [*_truths(report)]
        self._made = [makings.of(term) for term, _ in self._truths]
        parts = [term for one in report.sequences if one.what in ("address", "offset") for term in one.terms if term is not None]
        parts += [end.term for end in ends if end.what not in SIDES]
        self._elsewhere = 0
        for term in dict.fromkeys(parts):
            self._elsewhere |= makings.of(term)

    def shows(self, number: int, forms: Sequence[Term], values: TermValues, waves: NDArray[np.int64],
              within: NDArray[np.bool_] | bool = True, each: int | None = None) -> NDArray[np.bool_]:
        """The samples that show that a function is none of its forms, of those `within` that are looked at. Their `waves` are those of a
        workgroup where that has `each`."""
        found = np.zeros(values.samples, bool)
        acts = np.flatnonzero(~values.is_formed(number, forms) & within)
        if self._elsewhere >> number & 1:
            found[acts] = True
            return found
        rows = acts[np.linspace(0, len(acts) - 1, min(_LOOKED_AT, len(acts))).astype(np.int64)]
        if not len(rows):
            return found
        part = values.part(rows)
        other, left = part.formed({number: forms}), np.ones(len(rows), bool)
        for (term, of), made in zip(self._truths, self._made, strict=True):
            if made >> number & 1 and left.any():
                left &= ~(np.isin(waves[rows], [wave % each for wave in of] if each else [*of]) & _differs(term, part, other))
        found[rows[~left]] = True
        return found


def _truths(report: AddressReport) -> Iterator[tuple[Term, frozenset[int]]]:
    """Of comparisons and of other SCC that decides, with the waves that have them."""
    truths = dict[Term, set[int]]()
    for (_, wave), terms in (*report.truths.items(), *report.decided.items()):
        for term in terms:
            if term is not None:
                truths.setdefault(term, set()).add(wave)
    yield from ((term, frozenset(waves)) for term, waves in truths.items())


def _differs(term: Term, values: TermValues, other: TermValues) -> NDArray[np.bool_]:
    try:
        return np.asarray(values.of(term) != other.of(term), bool)
    except (KeyError, TypeError, ValueError):  # made of what no launch says
        return np.zeros(values.samples, bool)
