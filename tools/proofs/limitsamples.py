"""Workgroups and work-items of launches at the limits of a contract, in which terms are computed at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.terms.polynomials import Term
from asmgen.tools.proofs.termvalues import TermValues

Truths = NDArray[np.bool_]


@dataclass(frozen=True)
class Samples:
    """Workgroups and work-items of launches at the limits: the `launches` by number, `ids`, `waves` of the workgroup and `items`, one of
    each a sample; `values` are those of terms there, `otherwise` says of decisions where they are others than in the launch."""

    launches: NDArray[np.int64]
    ids: NDArray[np.int64]
    waves: NDArray[np.int64]
    items: NDArray[np.int64]
    values: TermValues
    otherwise: dict[tuple[str, tuple[Term, Term], bool], Truths] = field(default_factory=dict)
    _formed: dict[frozenset[int], TermValues] = field(default_factory=dict)
    _unwrapped: list[TermValues] = field(default_factory=list)

    def unwrapped(self, without: Callable[[Term], Term]) -> TermValues:
        """Terms without wraps, kept."""
        if not self._unwrapped:
            self._unwrapped.append(self.values.otherwise(without))
        return self._unwrapped[0]

    def formed(self, forms: Mapping[int, Sequence[Term]]) -> TermValues:
        """Terms with variables that are one of some forms, kept."""
        return self._formed.setdefault(frozenset(forms), self.values.formed(forms))

    def part(self, rows: NDArray[np.int64]) -> Samples:
        """Some of the samples."""
        return Samples(self.launches[rows], self.ids[rows], self.waves[rows], self.items[rows], self.values.part(rows))
