"""Terms: polynomials with integer coefficients in workgroup ids, arguments, bits of the work-item's number, and what is defined by others.

A register of w bits holds a term modulo 2**w. Quotients say that a value may have wrapped: `quotient(t, 32)` is floor(t / 2**32), and the
register holds t - 2**32 quotient(t, 32) as an unsigned number. Where bounds of variables show that a quotient is 0, it is, so a term
without quotients wraps nowhere in the bounds. A carry is a difference of quotients, so that the two halves of a 64-bit sum give back the
whole of it.

Variables of what is no polynomial (minima, divisions by way of floats, xor of what is not known bit by bit) are functions of other terms:
equal functions of equal terms are one variable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Monomial = tuple[int, ...]
"""Variables by number, ascending, with repetition."""
Term = tuple[tuple[Monomial, int], ...]
"""Monomials with their coefficients, none of them 0, in order."""
Remade = Callable[["TermVariable", tuple[Any, ...]], Term]
"""What makes a variable's function of other parts."""
WORD = 1 << 32
LARGEST = 64
"""Monomials that a product has at most: sums in larger ones get names."""
DEGREE = 6
_BELOW_WORD = 0x4F7FFFFE
"""2^32 - 512 as float32: a reciprocal times this is not above 2^32 times the number's."""
QUOTIENT = "floor / 2^"
"""What names of quotients by powers of two begin with."""


@dataclass(frozen=True)
class TermVariable:
    """A variable with its bounds. `made_of` are the terms of which it is the function `name`; `bits` are those whose xor it is."""

    name: str
    low: int
    high: int
    made_of: tuple[Any, ...] = ()
    bits: frozenset[int] = frozenset()

    @property
    def given(self) -> bool:
        """Whether the launch gives it: it is no function of others."""
        return not self.made_of and len(self.bits) < 2


@dataclass
class Polynomials:
    """The variables, and arithmetic on terms."""

    variables: list[TermVariable] = field(default_factory=list)
    lost: set[int] = field(default_factory=set)
    """Quotients that `lose` made."""
    cut: set[int] = field(default_factory=set)
    """Quotients that say where a number wrapped before it was shifted to the right."""
    wrapped: set[int] = field(default_factory=set)
    """Quotients that say where what a register holds wrapped, but for `_lacks`: others are numbers, as upper halves of products."""
    _numbers: dict[Any, int] = field(default_factory=dict)

    def variable(self, name: str, low: int, high: int, made_of: tuple[Any, ...] = (), bits: frozenset[int] = frozenset()) -> Term:
        """A variable as a term: the same one for the same name and the same parts."""
        key = name, made_of, bits
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.variables)
            own = bits or (frozenset({number}) if (low, high) == (0, 1) and not made_of else frozenset())
            self.variables.append(TermVariable(name, low, high, made_of, own))
        return (((number,), 1),)

    def function(self, name: str, *parts: Any, low: int = 0, high: int = WORD - 1) -> Term:
        """What is no polynomial, of terms (or numbers and names)."""
        return self.variable(name, low, high, parts)

    def selection(self, flag: Term, yes: Term, no: Term) -> Term:
        """`yes` where the flag is 1, `no` where it is 0. Of two quotients it is the quotient of what is selected, as of the halves of
        pointers."""
        decided = self.constant(flag)
        if decided is not None or yes == no:
            return yes if decided or yes == no else no
        parts = [self._divided(term) for term in (yes, no)]
        if all(parts):
            return self.quotient(self.selection(flag, *(part for part in parts if part is not None)), 32)
        (first, last), (low, high) = self.bounds(yes), self.bounds(no)
        return self.function("select", flag, yes, no, low=min(first, low), high=max(last, high))

    def _divided(self, term: Term) -> Term | None:
        """What a quotient by 2^32 is of."""
        variable = self.variables[term[0][0][0]] if len(term) == 1 and term[0][1] == 1 and len(term[0][0]) == 1 else None
        return variable.made_of[0] if variable is not None and variable.name == "floor / 2^32" else None

    @staticmethod
    def number(value: int) -> Term:
        """A constant."""
        return (((), value),) if value else ()

    @staticmethod
    def constant(term: Term) -> int | None:
        """Its value, if it is a constant."""
        return 0 if not term else term[0][1] if term[0][0] == () and len(term) == 1 else None

    @staticmethod
    def add(a: Term, b: Term, factor: int = 1) -> Term:
        """a + factor b."""
        total = dict(a)
        for monomial, coefficient in b:
            total[monomial] = total.get(monomial, 0) + factor * coefficient
        return tuple(sorted((monomial, coefficient) for monomial, coefficient in total.items() if coefficient))

    def sub(self, a: Term, b: Term) -> Term:
        """a - b."""
        return self.add(a, b, -1)

    @staticmethod
    def times(a: Term, factor: int) -> Term:
        """With a number."""
        return tuple((monomial, coefficient * factor) for monomial, coefficient in a) if factor else ()

    def mul(self, a: Term, b: Term) -> Term:
        """The product. Where it would have too many monomials, it is one of sums that have names."""
        long, short = (a, b) if len(a) >= len(b) else (b, a)
        for one, other in ((a, b), (self._named(long), short)):
            product = self._expanded(one, other)
            if product is not None:
                return product
        return self._expanded(self._named(long), self._named(short)) or ()

    def _expanded(self, a: Term, b: Term) -> Term | None:
        """Monomial by monomial; None if they are too many. A bit is its own square."""
        total: dict[Monomial, int] = {}
        for one, first in a:
            for other, second in b:
                monomial = self._squared(tuple(sorted(one + other)))
                total[monomial] = total.get(monomial, 0) + first * second
                if len(monomial) > DEGREE or len(total) > LARGEST:
                    return None
        return tuple(sorted((monomial, coefficient) for monomial, coefficient in total.items() if coefficient))

    def _named(self, term: Term) -> Term:
        """A sum as a variable. Multiples of 2^32 are one of their own, a quotient by 1: with quotients, they say where the sum wraps."""
        multiple = tuple((monomial, coefficient // WORD) for monomial, coefficient in term if coefficient % WORD == 0)
        rest = tuple((monomial, coefficient) for monomial, coefficient in term if coefficient % WORD)
        found: Term = ()
        for name, part, factor in (("sum", rest, 1), ("floor / 2^0", multiple, WORD)):
            if part:
                low, high = self.bounds(part)
                found = self.add(found, self.function(name, part, low=low, high=high), factor)
        return found

    def _squared(self, monomial: Monomial) -> Monomial:
        return tuple(number for position, number in enumerate(monomial)
                     if position == 0 or monomial[position - 1] != number or not self.variables[number].bits)

    # ---- bounds ----

    def bounds(self, term: Term, given: Mapping[int, tuple[int, int]] | None = None) -> tuple[int, int]:
        """The least and the greatest value, of independent variables; `given` has other bounds of some of them."""
        low = high = 0
        for monomial, coefficient in term:
            least = most = 1
            for number in monomial:
                variable = self.variables[number]
                first, last = (given or {}).get(number, (variable.low, variable.high))
                ends = [x * y for x in (least, most) for y in (first, last)]
                least, most = min(ends), max(ends)
            low, high = low + min(coefficient * least, coefficient * most), high + max(coefficient * least, coefficient * most)
        return low, high

    def possible_bits(self, term: Term) -> int | None:
        """The bits that may be 1 in a value; None if it may be negative."""
        masks = []
        for monomial, coefficient in term:
            low, high = self.bounds(((monomial, 1),))
            if coefficient < 0 or low < 0:
                break
            masks.append(coefficient if not monomial else _between(coefficient & -coefficient, coefficient * high))
        else:
            total, apart = 0, True
            for mask in masks:
                apart = apart and not total & mask
                total |= mask
            if apart:
                return total
        low, high = self.bounds(term)
        least = min((coefficient & -coefficient for _, coefficient in term), default=1)
        return None if low < 0 else _between(least, high)

    # ---- wrapping ----

    def quotient(self, term: Term, bits: int) -> Term:
        """floor(term / 2**bits): by parts, what is left in a variable unless bounds show that it is 0."""
        return self.add(*self._quotient(term, bits))

    def _quotient(self, term: Term, bits: int) -> tuple[Term, Term]:
        """The parts, and the variable or 0."""
        size = 1 << bits
        whole = tuple((monomial, coefficient >> bits) for monomial, coefficient in term if coefficient >> bits)
        rest = tuple((monomial, coefficient & size - 1) for monomial, coefficient in term if coefficient & size - 1)
        low, high = self.bounds(rest)
        if low >= 0 and high < size:
            return whole, ()
        # A multiple with a negative coefficient, plus what is smaller: try the parts as they are.
        multiple = tuple((monomial, coefficient) for monomial, coefficient in term if coefficient % size == 0)
        left = tuple((monomial, coefficient) for monomial, coefficient in term if coefficient % size)
        low, high = self.bounds(left)
        whole = tuple((monomial, coefficient >> bits) for monomial, coefficient in multiple)
        if low >= 0 and high < size:
            return whole, ()
        return whole, self.variable(f"floor / 2^{bits}", low >> bits, high >> bits, (left,))

    def truncated(self, term: Term, bits: int) -> Term:
        """term modulo 2**bits. Of a selection with a negative constant, as the largest number, each side is that."""
        sides = self._with_negative(term)
        if sides:
            flag, *both = sides
            return self.selection(flag, *(self.truncated(side, bits) for side in both))
        whole, own = self._quotient(term, bits)
        for (number,), _ in own:
            if number not in self.wrapped and not self._lacks(self.variables[number].made_of[0]):
                self.wrapped.add(number)
        return self.add(term, self.add(whole, own), -(1 << bits))

    def _with_negative(self, term: Term) -> tuple[Term, ...]:
        """What a selection is made of, one of whose sides is a negative constant; nothing for other terms."""
        if len(term) != 1 or term[0][1] != 1 or len(term[0][0]) != 1:
            return ()
        variable = self.variables[term[0][0][0]]
        found = variable.made_of if variable.name == "select" else ()
        return found if any((self.constant(side) or 0) < 0 for side in found[1:]) else ()

    def _lacks(self, term: Term) -> bool:
        """Whether a term is minus a number times the estimate of its reciprocal that floats made: modulo 2^32 it is what the product
        lacks of 2^32, which Newton's method asks for. So such a wrap is meant."""
        common = set.intersection(*(set(monomial) for monomial, _ in term))
        for number in common:
            by = self._estimated(number)
            if by is not None and term == self.times(self.mul(by, (((number,), 1),)), -1):
                return True
        return False

    def _estimated(self, number: int) -> Term | None:
        """The number of whose reciprocal, times 2^32 and not above it, a variable is an estimate."""
        variable = self.variables[number]
        for name in ("v_cvt_u32_f32", "v_mul_f32", "v_rcp_iflag_f32", "v_cvt_f32_u32"):
            if variable.name != name:
                return None
            parts = [part for part in variable.made_of if not name.startswith("v_mul") or self.constant(part) != _BELOW_WORD]
            if len(parts) != 1:
                return None
            (part,) = parts
            if name == "v_cvt_f32_u32":
                return tuple((monomial, coefficient) for monomial, coefficient in part if coefficient % WORD)
            if len(part) != 1 or part[0][1] != 1 or len(part[0][0]) != 1:
                return None
            variable = self.variables[part[0][0][0]]
        return None

    def lose(self, term: Term, bits: int) -> None:
        """Note that an instruction leaves out what a register holds above its lower `bits`."""
        self.lost.update(self._quotients(term, bits))

    def _quotients(self, term: Term, bits: int) -> list[int]:
        name = f"floor / 2^{bits}"
        return [number for monomial, _ in self.quotient(term, bits) for number in monomial if self.variables[number].name == name]

    def shift(self, held: Term, bits: int) -> Term:
        """What a register holds, shifted to the right. Where it wrapped before, the quotients that say so are noted."""
        self.cut.update(number for monomial, coefficient in held if bits and coefficient % WORD == 0 for number in monomial
                        if self._wraps(number))
        return self.quotient(held, bits)

    def _wraps(self, number: int) -> bool:
        """Whether a variable is a quotient that says where a register's number wrapped, or a sum of such (`_named`)."""
        variable = self.variables[number]
        return number in self.wrapped or variable.name == "floor / 2^0" and any(
            self._wraps(inner) for monomial, _ in variable.made_of[0] for inner in monomial)

    def as_signed(self, term: Term, bits: int) -> Term:
        """The number from -2**(bits - 1) on that is term modulo 2**bits."""
        half = self.number(1 << bits - 1)
        return self.sub(self.truncated(self.add(term, half), bits), half)

    # ---- for people, and for tests ----

    def text(self, term: Term) -> str:
        """As a sum."""
        if not term:
            return "0"
        parts = []
        for monomial, coefficient in term:
            names = " ".join(self.name(number) for number in monomial)
            parts.append(f"{coefficient} {names}" if names and coefficient != 1 else names or str(coefficient))
        return " + ".join(parts).replace("+ -", "- ")

    def name(self, number: int) -> str:
        """Of a variable."""
        variable = self.variables[number]
        if len(variable.bits) > 1:
            return "(" + " ^ ".join(self.name(bit) for bit in sorted(variable.bits)) + ")"
        if not variable.made_of:
            return variable.name
        parts = ", ".join(self.text(part) if isinstance(part, tuple) else str(part) for part in variable.made_of)
        return f"{variable.name}({parts})"

    def replaced(self, term: Term, values: Mapping[int, Term], again: Remade) -> Term | None:
        """With terms in place of variables, in functions too, which `again` makes of their new parts, once for each."""
        return self._sum_replaced(term, {**values}, again)

    def _sum_replaced(self, term: Term, values: dict[int, Term | None], again: Remade) -> Term | None:
        total: Term | None = ()
        for monomial, coefficient in term:
            product: Term | None = self.number(coefficient)
            for number in monomial:
                if number not in values:
                    values[number] = self._replaced(number, values, again)
                value = values[number]
                product = None if product is None or value is None else self.mul(product, value)
            total = None if total is None or product is None else self.add(total, product)
        return total

    def _replaced(self, number: int, values: dict[int, Term | None], again: Remade) -> Term | None:
        variable = self.variables[number]
        if len(variable.bits) > 1:
            total: Term = ()
            for bit in variable.bits:
                value = values.get(bit)
                total = self.xor_bits(total, (((bit,), 1),) if value is None else value)
            return total
        if not variable.made_of:
            return (((number,), 1),)
        parts = tuple(self._sum_replaced(part, values, again) if isinstance(part, tuple) else part for part in variable.made_of)
        return None if None in parts else (((number,), 1),) if parts == variable.made_of else again(variable, parts)

    def xor_bits(self, a: Term, b: Term) -> Term:
        """Of two terms that are 0, 1, a bit or its contrary."""
        flip = False
        bits: frozenset[int] = frozenset()
        for term in (a, b):
            for monomial, coefficient in term:
                if monomial:  # of 1 - x, the constant 1 says that it is the contrary
                    bits = bits ^ self.variables[monomial[0]].bits
                elif coefficient % 2:
                    flip = not flip
        value = self._of_bits(bits)
        return self.sub(self.number(1), value) if flip else value

    def _of_bits(self, bits: frozenset[int]) -> Term:
        if not bits:
            return ()
        if len(bits) == 1:
            return (((next(iter(bits)),), 1),)
        return self.variable("xor", 0, 1, (), bits)

    def as_bits(self, term: Term, width: int) -> list[Term] | None:
        """The bits of a term, each 0, 1, a bit or its contrary; None if it is not made of bits that lie apart."""
        found: list[Term] = [()] * width
        constant = 0
        for monomial, coefficient in term:
            if not monomial:
                constant = coefficient
                continue
            if len(monomial) != 1 or not self.variables[monomial[0]].bits or abs(coefficient) >> width:
                return None
            if coefficient < 0:  # of 1 - x, at each bit of the coefficient
                constant += coefficient
            for position in range(width):
                if abs(coefficient) >> position & 1:
                    if found[position]:
                        return None
                    found[position] = ((monomial, 1),) if coefficient > 0 else (((), 1), (monomial, -1))
        if constant < 0 or constant >> width:
            return None
        for position in range(width):
            if constant >> position & 1:
                if found[position]:
                    return None
                found[position] = self.number(1)
        return found

    def value(self, term: Term, given: dict[int, int], functions: Mapping[str, Callable[..., int]]) -> int:
        """What a term is, of the values of the variables that the launch gives; `functions` are those of made ones by name.

        What made ones are is added to `given`.
        """
        total = 0
        for monomial, coefficient in term:
            for number in monomial:
                coefficient *= self._value(number, given, functions)
            total += coefficient
        return total

    def _value(self, number: int, given: dict[int, int], functions: Mapping[str, Callable[..., int]]) -> int:
        if number not in given:
            given[number] = self._made_value(self.variables[number], given, functions)
        return given[number]

    def _made_value(self, variable: TermVariable, given: dict[int, int], functions: Mapping[str, Callable[..., int]]) -> int:
        if len(variable.bits) > 1:
            return sum(given[bit] for bit in variable.bits) & 1
        parts: Sequence[Any] = [self.value(part, given, functions) if isinstance(part, tuple) else part for part in variable.made_of]
        if variable.name.startswith("floor / 2^"):
            return int(parts[0]) >> int(variable.name.removeprefix("floor / 2^"))
        return functions[variable.name](*parts)


def _between(least: int, most: int) -> int:
    """All bits from that of `least` to the highest one of `most`."""
    return ((1 << most.bit_length()) - 1) & -least if most else 0
