"""What names a term in all launches of a program: variables have other numbers in each, and the whole text of a term grows with what it is
made of."""

from __future__ import annotations

from hashlib import blake2b

from asmgen.emulator.terms.polynomials import Polynomials, Term, TermVariable

_BYTES = 16


class Identities:
    """Of the terms of one launch. Equal ones are equal functions of what the launch gives."""

    def __init__(self, algebra: Polynomials) -> None:
        self._algebra = algebra
        self._variables: list[bytes] = []
        self._terms: dict[Term, bytes] = {}

    def of(self, term: Term) -> bytes:
        """The same bytes for the same term."""
        found = self._terms.get(term)
        if found is None:
            for number in range(len(self._variables), len(self._algebra.variables)):  # each is made of earlier ones
                self._variables.append(self._variable(number, self._algebra.variables[number]))
            found = self._terms[term] = self._sum(term)
        return found

    def _sum(self, term: Term) -> bytes:
        monomials = [(b"".join(sorted(self._variables[number] for number in monomial)), coefficient) for monomial, coefficient in term]
        return _digest(repr(sorted(monomials)))

    def _variable(self, number: int, variable: TermVariable) -> bytes:
        bits = sorted(self._variables[bit] for bit in variable.bits if bit != number)
        parts = [self._sum(part) if isinstance(part, tuple) else part for part in variable.made_of]
        return _digest(repr((variable.name, bits, parts)))


def _digest(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=_BYTES).digest()
