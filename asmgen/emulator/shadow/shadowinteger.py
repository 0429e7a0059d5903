"""How integer and bit instructions of the vector and scalar ALU pass undefined bits on: `meaning` over the domain of `Bits`, by mnemonic.

All other instructions take their sources as wholes. A function takes the sources as `Bits` of the operand's width, in the order of the
instruction, and gives the result, or (result, flag).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from asmgen.emulator.semantics import meaning
from asmgen.emulator.semantics.integers import permute_bytes
from asmgen.emulator.semantics.meaning import Meaning
from asmgen.emulator.shadow.bitshadow import Bits, Values, bitwise, compare, extremes, number, select

Function = Callable[..., Any]


class BitsDomain:
    """Values with undefined bits; flags are `Bits` of booleans."""

    def width(self, a: Bits) -> int:
        """In bits."""
        return a.width

    def number(self, value: int, like: Bits) -> Bits:
        """A defined constant."""
        return number(value, like)

    def lanes(self, numbers: Sequence[int]) -> Bits:
        """A defined constant for each lane."""
        return Bits.of(np.array(numbers, np.uint32), np.zeros(len(numbers), np.uint32))

    def resized(self, a: Bits, bits: int, signed: bool = False) -> Bits:
        """Cut, or extended with zeros or the sign."""
        return a if a.width == bits else a.resized(bits, signed)

    def inverted(self, a: Bits) -> Bits:
        """Each bit inverted."""
        return ~a

    def and_(self, a: Bits, b: Bits) -> Bits:
        """A defined 0 decides."""
        return a & b

    def or_(self, a: Bits, b: Bits) -> Bits:
        """A defined 1 decides."""
        return a | b

    def xor(self, a: Bits, b: Bits) -> Bits:
        """Both count."""
        return a ^ b

    def bitwise(self, table: int, *sources: Bits) -> Bits:
        """Exact for sources that are independent."""
        return bitwise(table, *sources)

    def add(self, a: Bits, b: Bits) -> Bits:
        """With the carries that may differ."""
        return a + b

    def sub(self, a: Bits, b: Bits) -> Bits:
        """With the borrows that may differ."""
        return a - b

    def mul(self, a: Bits, b: Bits) -> Bits:
        """From the lowest bit that may be undefined upwards."""
        return a * b

    def add_carry(self, a: Bits, b: Bits, carry: Bits | None = None) -> tuple[Bits, Bits]:
        """The carry is known where the least and the greatest values give the same: it grows with each source."""
        total = a + b if carry is None else a + b + _as_number(carry, a)
        parts = (a, b) if carry is None else (a, b, _as_number(carry, a))
        ends = [_carries(*ends) for ends in zip(*((part.value, part.low, part.high) for part in parts), strict=True)]
        return total, Bits(ends[0], ends[1] ^ ends[2])

    def sub_borrow(self, a: Bits, b: Bits, borrow: Bits | None = None) -> tuple[Bits, Bits]:
        """The borrow is the carry's contrary of a + ~b + 1, or of a + ~b + (1 - borrow)."""
        one = Bits(np.asarray(True), np.asarray(False))
        _, carry = self.add_carry(a, ~b, one if borrow is None else ~borrow)
        return a - b if borrow is None else a - b - _as_number(borrow, a), ~carry

    def shl(self, a: Bits, count: Bits) -> Bits:
        """Exact for any count."""
        return a.shl(count)

    def shr(self, a: Bits, count: Bits) -> Bits:
        """Exact for any count."""
        return a.shr(count)

    def sar(self, a: Bits, count: Bits) -> Bits:
        """Exact for any count."""
        return a.sar(count)

    def extreme(self, least: bool, signed: bool, a: Bits, b: Bits) -> Bits:
        """One of the two where it is known which, else what both agree in."""
        return extremes(least, signed, a, b)

    def compare(self, relation: str, signed: bool, a: Bits, b: Bits) -> Bits:
        """Known where every value of the undefined bits agrees."""
        return compare(relation, signed, a, b)

    def select(self, condition: Bits, yes: Bits, no: Bits) -> Bits:
        """Where it is not known which, bits in which both agree are."""
        return select(condition, yes, no)

    def bit(self, a: Bits, position: int) -> Bits:
        """One bit as a boolean."""
        kind = a.value.dtype.type
        return Bits((a.value >> kind(position) & kind(1)) != 0, (a.undefined >> kind(position) & kind(1)) != 0)

    def nonzero(self, a: Bits) -> Bits:
        """Known where a defined bit is 1."""
        return a.nonzero()

    def contrary(self, flag: Bits) -> Bits:
        """The other truth."""
        return ~flag

    def count_ones(self, a: Bits) -> Bits:
        """Between the counts of the least and of the greatest value."""
        return _between(a, np.bitwise_count)

    def bit_length(self, a: Bits) -> Bits:
        """Between those of the least and of the greatest value."""
        return _between(a, lambda bits: np.bitwise_count(_filled(bits)))

    def permuted(self, a: Bits, b: Bits, selectors: Bits) -> Bits:
        """Of a selector that is not known, each byte may be any that fits."""
        return permute(a, b, selectors)


def _as_number(flag: Bits, like: Bits) -> Bits:
    kind = like.value.dtype
    return Bits(np.asarray(flag.value).astype(kind), np.asarray(flag.undefined).astype(kind))


def _carries(a: Values, b: Values, carry: Values | None = None) -> Values:
    """The carry out of a sum of patterns."""
    total = a + b
    return total < a if carry is None else (total < a) | (total + carry < total)


def _filled(bits: Values) -> Values:
    """All bits up to the highest one."""
    kind = bits.dtype
    for step in (1, 2, 4, 8, 16, 32)[:(kind.itemsize * 8).bit_length() - 1]:
        bits = bits | bits >> kind.type(step)
    return bits


def _between(a: Bits, measure: Callable[[Values], Values]) -> Bits:
    """A measure that grows with each bit: from the highest bit on in which its least and greatest value differ, nothing is known."""
    value, least, greatest = (np.asarray(measure(part)).astype(a.value.dtype) for part in (a.value, a.low, a.high))
    return Bits(value, _filled(least ^ greatest))


def permute(a: Bits, b: Bits, selectors: Bits) -> Bits:
    """v_perm_b32: of a selector that is not known, each byte may be any that fits."""

    def chosen(selector: Values) -> Bits:
        value = permute_bytes(a.value, b.value, selector)
        shadow = permute_bytes(a.undefined, b.undefined, selector)
        fixed: Values = np.uint32(0)
        for n in range(4):
            byte = np.asarray(selector) >> np.uint32(8 * n) & np.uint32(255)
            fixed = fixed | np.where(byte >= 12, np.uint32(255 << 8 * n), np.uint32(0))
        return Bits(value, shadow & ~fixed)

    plain = chosen(selectors.value)
    undefined = plain.undefined
    for n in range(4):
        byte = Bits(selectors.value >> np.uint32(8 * n) & np.uint32(255), selectors.undefined >> np.uint32(8 * n) & np.uint32(255))
        if np.any(byte.undefined):
            lane = np.uint32(255 << 8 * n)
            may = _permuted(byte, chosen)
            undefined = np.where(byte.any(), undefined & ~lane | may & lane, undefined)
    return Bits(plain.value, undefined)


def _permuted(selector: Bits, chosen: Callable[[Values], Bits]) -> Values:
    """The undefined bits of all bytes for a selector that is not known, 0 to 255; from 13 on all mean the same."""
    ones: Values = np.uint32(0)
    zeros: Values = np.uint32(0)
    for n in range(14):
        fits = selector.high >= 13 if n == 13 else ((selector.value ^ np.uint32(n)) & ~selector.undefined) == 0
        bits = chosen(np.uint32(n * 0x01010101))
        ones, zeros = ones | np.where(fits, bits.high, np.uint32(0)), zeros | np.where(fits, ~bits.low, np.uint32(0))
    return ones & zeros


BITS = BitsDomain()


def _on_bits(means: Meaning) -> Function:
    return lambda *sources: means(BITS, *sources)


VECTOR: dict[str, Function] = {name: _on_bits(means) for name, means in meaning.VECTOR.items()}
PACKED: dict[str, Function] = {name: _on_bits(means) for name, means in meaning.PACKED.items()}
"""On one half of packed registers."""

SCALARS: dict[str, Function] = {name: _on_bits(means) for name, means in meaning.SCALAR.items()}
"""By mnemonic, without those that read SCC; one that keeps part of its destination takes that first."""

WITH_SCC: dict[str, Function] = {name: _on_bits(means) for name, means in meaning.WITH_SCC.items()}
"""SCC comes first, as a boolean."""

BIT_COMPARE: dict[str, Function] = {name: _on_bits(means) for name, means in meaning.BIT_COMPARE.items()}
