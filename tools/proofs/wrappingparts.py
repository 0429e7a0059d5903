"""Parts of addresses that may wrap off, and what is known of where they do: the accesses, the waves that make them, and the branches that
led these there."""

from __future__ import annotations

from dataclasses import dataclass, field

from asmgen.emulator.terms.accesses import AddressSequence
from asmgen.emulator.terms.decisions import Decision
from asmgen.emulator.terms.polynomials import QUOTIENT, WORD, Polynomials, Term
from asmgen.tools.proofs.addressrun import AddressReport

_ADDRESSES = 1 << 48


@dataclass(frozen=True)
class WrappingAccess:
    """An address or an offset from a buffer's base; of the latter also the bytes in range there, one term for each that waves have."""

    term: Term
    records: frozenset[Term | None] = frozenset()


@dataclass
class WrapFormula:
    """A part of addresses that wraps off, of the sequence's address or offset, where waves come by decisions: without `leading` they would
    not, from `open` both ways lead there. `others` are instructions with the same part and decisions, `accesses` what they access, with the
    waves of a workgroup. An `inner` part is one that another makes of what wraps: shifted to the right, or in a function. Of a side of a
    comparison, which no access has, `compared` are the waves that compare it."""

    part: Term
    sequence: AddressSequence
    leading: tuple[Decision, ...]
    open: tuple[Decision, ...]
    accesses: dict[WrappingAccess, set[int]] = field(default_factory=dict)
    others: dict[int, str] = field(default_factory=dict)
    inner: bool = False
    compared: frozenset[int] = frozenset()

    @property
    def waves(self) -> set[int]:
        """Of all accesses, or of the comparison."""
        return set(self.compared).union(*self.accesses.values())


def wrapped_part(report: AddressReport, term: Term) -> Term:
    """What a wrap takes away from a term: its monomials with quotients by powers of two, whose coefficients are multiples of 2^32, and
    with what products of 24 bits leave out. Multiples of 2^48 are bits that no address has: a descriptor's base is cut to 48."""
    variables, lost = report.algebra.variables, report.algebra.lost
    return tuple((monomial, coefficient) for monomial, coefficient in term if not lost.isdisjoint(monomial) or coefficient % WORD == 0
                 and coefficient % _ADDRESSES and any(variables[number].name.startswith(QUOTIENT) for number in monomial))


def signs_of(algebra: Polynomials) -> dict[int, int]:
    """The signs of numbers, by the quotients that say where these wrap: both are -1 of negative ones, from -2^31 on."""
    of = {variable.made_of[0]: number for number, variable in enumerate(algebra.variables) if variable.name == f"{QUOTIENT}32"}
    found = {}
    for number, variable in enumerate(algebra.variables):
        if variable.name == f"{QUOTIENT}31" and (variable.low, variable.high) == (-1, 0):
            wraps = of.get(tuple(one for one in variable.made_of[0] if one[1] % WORD))
            found.update({wraps: number} if wraps is not None else {})
    return found
