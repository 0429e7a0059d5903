"""Definedness of integers, bit by bit: what is known of a result when some bits of its sources hold what nobody wrote.

A `Bits` is a value with a mask of its undefined bits, and computes as memcheck does: exactly for bitwise functions, shifts and selects,
with carries that may differ for sums, from the lowest bit that may be undefined upwards for products. It never calls a bit defined that
some value of the undefined ones would change; two sources are taken as independent.

Arrays are unsigned, of the operand's width and any shapes that broadcast; flags are booleans.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Values = Any


@dataclass(frozen=True)
class Bits:
    """A value and the mask of its undefined bits, unsigned arrays of one type."""

    value: Values
    undefined: Values

    @classmethod
    def of(cls, value: Values, undefined: Values = 0) -> Bits:
        """Arrays of any 1- to 8-byte type, as patterns."""
        pattern = _pattern(value)
        shadow = np.asarray(undefined)
        return cls(pattern, _pattern(shadow) if shadow.dtype.itemsize == pattern.dtype.itemsize else shadow.astype(pattern.dtype))

    @property
    def width(self) -> int:
        """In bits."""
        return int(self.value.dtype.itemsize) * 8

    @property
    def low(self) -> Values:
        """The least value, unsigned."""
        return self.value & ~self.undefined

    @property
    def high(self) -> Values:
        """The greatest value, unsigned."""
        return self.value | self.undefined

    def any(self) -> Values:
        """Where a bit is undefined."""
        return self.undefined != 0

    def _number(self, number: int) -> Bits:
        return Bits(self.value.dtype.type(number & (1 << self.width) - 1), self.value.dtype.type(0))

    def __invert__(self) -> Bits:
        return Bits(~self.value, self.undefined)

    def __and__(self, other: Bits | int) -> Bits:
        b = other if isinstance(other, Bits) else self._number(other)
        return Bits(self.value & b.value, (self.undefined | b.undefined) & self.high & b.high)

    def __or__(self, other: Bits) -> Bits:
        return Bits(self.value | other.value, (self.undefined | other.undefined) & ~self.low & ~other.low)

    def __xor__(self, other: Bits) -> Bits:
        return Bits(self.value ^ other.value, self.undefined | other.undefined)

    def __add__(self, other: Bits) -> Bits:
        carries = (self.low + other.low) ^ (self.high + other.high)
        return Bits(self.value + other.value, self.undefined | other.undefined | carries)

    def __sub__(self, other: Bits) -> Bits:
        borrows = (self.low - other.high) ^ (self.high - other.low)
        return Bits(self.value - other.value, self.undefined | other.undefined | borrows)

    def __mul__(self, other: Bits) -> Bits:
        """The product may change from the sum of the places on: of the lowest undefined bit, and of the other's lowest that may be 1."""
        steps = _lowest(self.undefined) * _lowest(other.high) | _lowest(other.undefined) * _lowest(self.high)
        return Bits(self.value * other.value, steps | (~steps + steps.dtype.type(1)))

    def shl(self, count: Bits) -> Bits:
        """Shifted left by the low bits of `count`."""
        return self._shifted(count, lambda bits, by: bits << by)

    def shr(self, count: Bits) -> Bits:
        """Shifted right, zeros from the left."""
        return self._shifted(count, lambda bits, by: bits >> by)

    def sar(self, count: Bits) -> Bits:
        """Shifted right, copies of the sign from the left."""
        signed = np.dtype(f"i{self.value.dtype.itemsize}")

        def move(bits: Values, by: Values) -> Values:
            return np.asarray(np.asarray(bits).view(signed) >> np.asarray(by).astype(signed)).view(self.value.dtype)

        return self._shifted(count, move)

    def _shifted(self, count: Bits, move: Callable[[Values, Values], Values]) -> Bits:
        dtype = self.value.dtype
        steps = count & (self.width - 1)
        by = steps.value.astype(dtype)
        plain = Bits(move(self.value, by), move(self.undefined, by))
        if not np.any(steps.undefined):
            return plain
        return Bits(plain.value, possible(steps, range(self.width), lambda n: Bits(move(self.value, dtype.type(n)),
                                                                                    move(self.undefined, dtype.type(n)))))

    def resized(self, bits: int, signed: bool = False) -> Bits:
        """Cut, or extended with zeros or the sign."""
        source, target = (np.dtype(f"{'i' if signed else 'u'}{size // 8}") for size in (self.width, bits))
        return Bits(*(np.asarray(part).view(source).astype(target).view(f"u{bits // 8}") for part in (self.value, self.undefined)))

    def nonzero(self) -> Bits:
        """Whether it differs from 0: known where a defined bit is 1."""
        return Bits(self.value != 0, self.any() & (self.low == 0))


def _pattern(value: Values) -> Values:
    array = np.asarray(value)
    return array if array.dtype == bool else array.view(f"u{array.dtype.itemsize}")


def _lowest(bits: Values) -> Values:
    return bits & (~bits + bits.dtype.type(1))


def number(value: int, like: Bits) -> Bits:
    """A defined constant of the same width."""
    return like._number(value)


def possible(choice: Bits, choices: range, result: Callable[[int], Bits]) -> Values:
    """The undefined bits of the result of a choice that is not wholly defined: those that are 0 for one and 1 for another."""
    ones: Values = 0
    zeros: Values = 0
    for n in choices:
        fits = ((choice.value ^ choice.value.dtype.type(n)) & ~choice.undefined) == 0
        bits = result(n)
        none = bits.value.dtype.type(0)
        ones = np.where(fits, bits.high, none) | ones
        zeros = np.where(fits, ~bits.low, none) | zeros
    return ones & zeros


def select(condition: Bits, yes: Bits, no: Bits) -> Bits:
    """`condition` is of booleans. Where it is not known, bits in which both agree are."""
    undefined = np.where(condition.value, yes.undefined, no.undefined)
    either = yes.undefined | no.undefined | (yes.value ^ no.value)
    return Bits(np.where(condition.value, yes.value, no.value), np.where(condition.undefined, either, undefined))


def bitwise(table: int, *sources: Bits) -> Bits:
    """Bit {a, b, c} of a truth table for each bit; with two sources bit {a, b}, with one bit {a}."""
    ones: Values = 0
    zeros: Values = 0
    value: Values = 0
    for row in range(1 << len(sources)):
        may: Values = ~sources[0].value.dtype.type(0)
        does = may
        for location, source in enumerate(reversed(sources)):
            one = bool(row >> location & 1)
            may = may & (source.high if one else ~source.low)
            does = does & (source.value if one else ~source.value)
        if table >> row & 1:
            ones, value = ones | may, value | does
        else:
            zeros = zeros | may
    return Bits(value | (sources[0].value & 0), (ones & zeros) | (sources[0].undefined & 0))


def table_of(function: Callable[..., Values], sources: int) -> int:
    """The truth table of a function that works on each bit alone."""
    rows = 1 << sources
    locations = [sum(1 << row for row in range(rows) if row >> (sources - 1 - n) & 1) for n in range(sources)]
    return int(function(*(np.uint32(location) for location in locations))) & (1 << rows) - 1


def compare(relation: str, signed: bool, a: Bits, b: Bits) -> Bits:
    """An integer comparison (eq, ne, lg, lt, le, gt, ge, f, t, tru): known where every value of the undefined bits agrees."""
    if signed:
        sign = number(1 << a.width - 1, a)
        a, b = a ^ sign, b ^ sign  # keeps the order and makes it unsigned
    if relation in ("gt", "ge"):
        return compare({"gt": "lt", "ge": "le"}[relation], False, b, a)
    touched = a.any() | b.any()
    if relation == "lt":
        value, known = a.value < b.value, (a.high < b.low) | (a.low >= b.high)
    elif relation == "le":
        value, known = a.value <= b.value, (a.high <= b.low) | (a.low > b.high)
    elif relation in ("eq", "ne", "lg"):
        differs = ((a.value ^ b.value) & ~(a.undefined | b.undefined)) != 0
        value, known = (a.value == b.value) == (relation == "eq"), differs
    else:
        value = np.full(np.shape(touched), relation != "f")
        known = np.ones(np.shape(touched), bool)
    return Bits(value, touched & ~known)


def extremes(least: bool, signed: bool, a: Bits, b: Bits) -> Bits:
    """The minimum or maximum: one of the two where it is known which, else what both agree in."""
    return select(compare("lt", signed, a, b), *((a, b) if least else (b, a)))


def merged(parts: list[Bits]) -> Values:
    """Where one of several sources of any widths has an undefined bit."""
    found: Values = False
    for part in parts:
        found = found | part.any()
    return found
