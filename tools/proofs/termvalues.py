"""What terms are in many launches at once: arrays with one number a sample, each exact.

Numbers in terms have no width: a product of two 32-bit numbers and an address is longer than 64 bits. Arrays have 64 bits where bounds show
that they suffice, else Python's integers. Variables are made of earlier ones, so all that a term needs are computed in their order, once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.machine.floatmode import float_mode
from asmgen.emulator.semantics.floats import FLOAT
from asmgen.emulator.semantics.valuconversions import CONVERT
from asmgen.emulator.terms.polynomials import QUOTIENT, WORD, Monomial, Polynomials, Term, TermVariable
from asmgen.emulator.terms.termwords import FUNCTIONS, RELATIONS
from asmgen.tools.proofs.exactnumbers import HOLDS, ExactNumbers, Numbers, exact, product, total

_MODE = 0x3C0  # as kernels start: f32 denormals flushed, nearest even
_DIRECT: dict[str, Any] = {"min": np.minimum, "max": np.maximum, "sum": np.asarray, "select": np.where, **RELATIONS} | {
    f"{name}{width}": function for width in (16, 32) for name, function in (
    ("and", np.bitwise_and), ("or", np.bitwise_or), ("xor", np.bitwise_xor))}


class Makings:
    """What variables are made of, directly or not, as bits of a number: bit n is variable n."""

    def __init__(self, algebra: Polynomials) -> None:
        self.algebra = algebra
        self._masks: list[int] = []

    def of(self, term: Term) -> int:
        """All that a term depends on."""
        self._look()
        return self._within(term)

    def of_variable(self, number: int) -> int:
        """All that a variable depends on, with itself."""
        self._look()
        return self._masks[number]

    def _look(self) -> None:
        for number in range(len(self._masks), len(self.algebra.variables)):
            variable, mask = self.algebra.variables[number], 1 << number
            for bit in variable.bits:
                mask |= 1 << bit
            for inner in variable.made_of:
                mask |= self._within(inner) if isinstance(inner, tuple) else 0
            self._masks.append(mask)

    def _within(self, term: Term) -> int:
        return reduce(int.__or__, (self._masks[number] for monomial, _ in term for number in monomial), 0)

    def variables(self, term: Term) -> Iterator[tuple[int, TermVariable]]:
        """With their numbers, in their order."""
        return ((number, self.algebra.variables[number]) for number in ones(self.of(term)))


def ones(mask: int) -> Iterator[int]:
    """The places of the bits that are 1, ascending."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


class TermValues:
    """Of samples for which `given` has numbers of the variables that launches give. `without` says of each sum which monomials of it do not
    count. A variable that has `forms` is the first of these terms where it is none of them; what depends on none of these is as `plain`
    has it."""

    def __init__(self, makings: Makings, given: Mapping[int, Numbers], samples: int, without: Callable[[Term], Term] = lambda term: (),
                 forms: Mapping[int, Sequence[Term]] | None = None, plain: TermValues | None = None) -> None:
        self._makings, self.samples, self._without, self._forms, self._plain = makings, samples, without, forms or {}, plain
        self._made_ones = 0
        self._formed = sum(1 << number for number in self._forms)
        self._given: Mapping[int, Numbers] = dict(given)
        self._variables: dict[int, ExactNumbers] = {}
        self._products: dict[Monomial, ExactNumbers] = {}

    def of(self, term: Term, rows: NDArray[np.int64] | None = None) -> Numbers:
        """The term in each sample, or in some. Raises KeyError for a variable or a function that is not known."""
        needed = self._makings.of(term) & ~self._made_ones
        for number in ones(needed):
            self.variable(number)
        self._made_ones |= needed
        return self._sum(term, rows).values

    def otherwise(self, without: Callable[[Term], Term]) -> TermValues:
        """The same samples, with monomials that do not count."""
        return TermValues(self._makings, self._given, self.samples, without)

    def formed(self, forms: Mapping[int, Sequence[Term]]) -> TermValues:
        """The same samples, with variables that are one of some terms."""
        return TermValues(self._makings, self._given, self.samples, forms=forms, plain=self)

    def part(self, rows: NDArray[np.int64]) -> TermValues:
        """Some of the samples, without forms."""
        given = {number: values[rows] for number, values in self._given.items()}
        return TermValues(self._makings, given, len(rows), self._without)

    def is_formed(self, number: int, forms: Sequence[Term]) -> NDArray[np.bool_]:
        """Where a variable is one of these terms."""
        found = [np.asarray(self.variable(number).values == self._sum(form).values, bool) for form in forms]
        return np.asarray(np.logical_or.reduce([np.broadcast_to(one, self.samples) for one in found]), bool)

    def variable(self, number: int) -> ExactNumbers:
        """Of a variable that is made of known ones."""
        if self._plain is not None and not self._makings.of_variable(number) & self._formed:
            return self._plain.variable(number)
        if number not in self._variables:
            self._variables[number] = self._made(number, self._makings.algebra.variables[number])
            forms = self._forms.get(number)
            if forms:
                made = self._variables[number].values
                self._variables[number] = exact(np.where(self.is_formed(number, forms), made, self._sum(forms[0]).values))
        return self._variables[number]

    def _sum(self, term: Term, rows: NDArray[np.int64] | None = None) -> ExactNumbers:
        dropped = self._without(term)
        parts = [(self._monomial(monomial), coefficient) for monomial, coefficient in term if (monomial, coefficient) not in dropped]
        if rows is not None:
            parts = [(one.part(rows), coefficient) for one, coefficient in parts]
        samples = self.samples if rows is None else len(rows)
        found = total(parts) if parts else exact(np.zeros(samples, np.int64))
        return found if len(found.values) == samples else exact(np.broadcast_to(found.values, samples))

    def _monomial(self, monomial: Monomial) -> ExactNumbers:
        if self._plain is not None and not any(self._makings.of_variable(number) & self._formed for number in monomial):
            return self._plain._monomial(monomial)
        if monomial not in self._products:
            self._products[monomial] = reduce(product, map(self.variable, monomial), exact(np.ones(1, np.int64)))
        return self._products[monomial]

    def _made(self, number: int, variable: TermVariable) -> ExactNumbers:
        if number in self._given:
            return exact(self._given[number])
        if len(variable.bits) > 1:
            return exact(np.bitwise_xor.reduce([self.variable(bit).values for bit in variable.bits]) & 1)
        parts = [self._sum(part) if isinstance(part, tuple) else part for part in variable.made_of]
        if variable.given:
            raise KeyError(variable.name)
        if variable.name.startswith(QUOTIENT):
            places = int(variable.name.removeprefix(QUOTIENT))
            (whole,) = parts
            return exact(whole.values >> (places if whole.most >= HOLDS else min(places, 63)))
        return exact(_function(variable.name, parts))


def word_of(value: Any) -> int:
    """The 32 bits of an argument that is a number."""
    return int(np.float32(value).view(np.uint32)) if isinstance(value, float) else int(value) % WORD


def _function(name: str, parts: list[Any]) -> Numbers:
    arrays = [part.values if isinstance(part, ExactNumbers) else part for part in parts]
    if name in _DIRECT and all(isinstance(part, ExactNumbers) and part.most < HOLDS for part in parts):
        found: Numbers = _DIRECT[name](*arrays)
    elif name in FUNCTIONS:
        found = np.asarray(np.frompyfunc(FUNCTIONS[name], len(arrays), 1)(
            *(one.astype(object) if isinstance(one, np.ndarray) else one for one in arrays)), object)
    else:
        function = FLOAT.get(name) or CONVERT[name]
        source = np.float32 if name.endswith("f32") else np.uint32
        words = [(np.asarray(one) % WORD).astype(np.uint32) for one in arrays]
        with np.errstate(all="ignore"):
            result = function(float_mode(_MODE), *(one.view(source) for one in words))
        found = np.asarray(result).view(np.uint32).astype(np.int64)
    return found
