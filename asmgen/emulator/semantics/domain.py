"""What an interpreter of integer instructions provides: the operations in which `meaning` says what instructions do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

Value = Any  # a bit pattern of the domain
Flag = Any  # a truth of the domain


class Domain(Protocol):
    """What values are made of, and what can be done to them. Results wrap to the width of the first source."""

    def width(self, a: Value) -> int:
        """The bits of a value."""

    def number(self, number: int, like: Value) -> Value:
        """A constant of the width of `like`."""

    def lanes(self, numbers: Sequence[int]) -> Value:
        """A constant of 32 bits for each lane."""

    def resized(self, a: Value, bits: int, signed: bool = False) -> Value:
        """Cut, or extended with zeros or the sign."""

    def inverted(self, a: Value) -> Value:
        """Each bit inverted."""

    def and_(self, a: Value, b: Value) -> Value:
        """Ones in both."""

    def or_(self, a: Value, b: Value) -> Value:
        """Ones in one or both."""

    def xor(self, a: Value, b: Value) -> Value:
        """Ones in one of the two."""

    def bitwise(self, table: int, *sources: Value) -> Value:
        """Bit {a, b, c} of a truth table for each bit; with two sources bit {a, b}."""

    def add(self, a: Value, b: Value) -> Value:
        """The sum."""

    def sub(self, a: Value, b: Value) -> Value:
        """The difference."""

    def mul(self, a: Value, b: Value) -> Value:
        """The product."""

    def add_carry(self, a: Value, b: Value, carry: Flag | None = None) -> tuple[Value, Flag]:
        """The sum of both and the carry, and the carry out of it."""

    def sub_borrow(self, a: Value, b: Value, borrow: Flag | None = None) -> tuple[Value, Flag]:
        """The difference less the borrow, and the borrow out of it."""

    def shl(self, a: Value, count: Value) -> Value:
        """Shifted left by the low bits of a count of any width."""

    def shr(self, a: Value, count: Value) -> Value:
        """Shifted right, zeros from the left."""

    def sar(self, a: Value, count: Value) -> Value:
        """Shifted right, copies of the sign from the left."""

    def extreme(self, least: bool, signed: bool, a: Value, b: Value) -> Value:
        """The minimum or maximum."""

    def compare(self, relation: str, signed: bool, a: Value, b: Value) -> Flag:
        """eq, lg, lt, le, gt or ge."""

    def select(self, condition: Flag, yes: Value, no: Value) -> Value:
        """One of two values."""

    def bit(self, a: Value, place: int) -> Flag:
        """One bit as a truth."""

    def nonzero(self, a: Value) -> Flag:
        """Whether a value differs from 0."""

    def contrary(self, flag: Flag) -> Flag:
        """The other truth."""

    def count_ones(self, a: Value) -> Value:
        """How many bits are ones."""

    def bit_length(self, a: Value) -> Value:
        """The position of the highest one plus 1, 0 for 0."""

    def permuted(self, a: Value, b: Value, selectors: Value) -> Value:
        """The bytes of v_perm_b32."""
