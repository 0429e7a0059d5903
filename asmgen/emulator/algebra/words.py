"""Integer instructions on words that hold floats: the meanings of `semantics.meaning` on patterns with elements.

The pattern follows the concrete run. What integer code does to floats and keeps as numbers is this, and nothing else:

- moves by whole nibbles: shifts, v_perm, v_alignbit, packing, fields, selects, integer minima and maxima;
- bit operations that leave a float as it is but for its sign and the 16 bits that bf16 lacks: masks that truncate, v_bfi, v_and_or, xor
  of the sign, absolute values;
- rounding to bf16: numbers below 2**16 added to an f32; sums of words without common ones, which are no other than `or`;
- products with powers of two, where they are shifts.

Any other change of a float's bits leaves no element: they are a number of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from asmgen.emulator.algebra.elements import BELOW_TOP, SIGN_ON_TOP, Elements, Ids
from asmgen.emulator.carried.cells import TOP
from asmgen.emulator.semantics.integers import ARRAYS

Array = Any
ROUNDING = 1 << 16
"""What integer code adds to an f32 to round it to bf16 is less: one unit in the last place of bf16 (7 of 23 bits of mantissa)."""
_KEPT = np.array([((1 << int(bits)) - 1) << 31 - int(bits) for bits in BELOW_TOP], np.uint64)
_KEPT[~SIGN_ON_TOP] |= np.uint64(1 << 31)
"""The bits of an encoding that must stay, in a word in which the nibble with the sign is the top one."""


@dataclass(frozen=True)
class Word:
    """A pattern, and the elements that end in its nibbles, [..., width / 4]; None where there are none."""

    value: Array
    slots: Ids | None = None


class Words:
    """The domain of patterns with elements (`semantics.domain.Domain`); flags are booleans of the run."""

    def __init__(self, elements: Elements) -> None:
        self.elements = elements

    def width(self, a: Word) -> int:
        """In bits."""
        return ARRAYS.width(a.value)

    def number(self, number: int, like: Word) -> Word:
        """A constant."""
        return Word(ARRAYS.number(number, like.value))

    def lanes(self, numbers: Sequence[int]) -> Word:
        """A constant for each lane."""
        return Word(ARRAYS.lanes(numbers))

    def resized(self, a: Word, bits: int, signed: bool = False) -> Word:
        """Elements that end in the bits that are cut off are gone."""
        value, slots = ARRAYS.resized(a.value, bits, signed), a.slots
        if slots is None:
            return Word(value)
        more = bits // 4 - slots.shape[-1]
        if more > 0:
            return Word(value, np.concatenate([slots, np.zeros((*slots.shape[:-1], more), np.uint32)], axis=-1))
        return Word(value, slots[..., :bits // 4])

    def inverted(self, a: Word) -> Word:
        """Inverted, a float is none."""
        return self._by_bits(np.invert, a)

    def and_(self, a: Word, b: Word) -> Word:
        """A mask truncates to bf16; one that takes the sign leaves the absolute value."""
        return self._by_bits(np.bitwise_and, a, b)

    def or_(self, a: Word, b: Word) -> Word:
        """Joins words whose elements lie apart."""
        return self._by_bits(np.bitwise_or, a, b)

    def xor(self, a: Word, b: Word) -> Word:
        """With the sign bit alone negates."""
        return self._by_bits(np.bitwise_xor, a, b)

    def bitwise(self, table: int, *sources: Word) -> Word:
        """By the same rule as all operations on bits."""
        return self._by_bits(lambda *values: ARRAYS.bitwise(table, *values), *sources)

    def _by_bits(self, function: Callable[..., Array], *sources: Word) -> Word:
        """Each source's elements where the other sources let their bits through, or change the sign alone."""
        value = function(*(source.value for source in sources))
        kept = [self._let_through(function, sources, number) for number, source in enumerate(sources) if source.slots is not None]
        return Word(value, _united(kept))

    def _let_through(self, function: Callable[..., Array], sources: Sequence[Word], number: int) -> Ids:
        source = sources[number]
        assert source.slots is not None
        given = [other.value for other in sources]
        ends = []
        for pattern in (source.value & 0, ~(source.value & 0)):
            ends.append(np.asarray(function(*given[:number], pattern, *given[number + 1:]), np.uint64))
        zero, one = ends
        through = one & ~zero
        slots = np.broadcast_to(source.slots, (*np.broadcast_shapes(through.shape, source.slots.shape[:-1]), source.slots.shape[-1])).copy()
        for nibble in np.nonzero(slots.any(axis=tuple(range(slots.ndim - 1))))[0]:
            ids = slots[..., nibble]
            sign_at = np.uint64(4 * nibble + 3)
            below = _KEPT[self.elements.encodings(ids)]
            kept = below >> np.uint64(28 - 4 * nibble) if nibble <= TOP else below << np.uint64(4 * nibble - 28)
            ids = np.where((through & kept) == kept, ids, np.uint32(0))
            least, most, sign = (np.asarray(part, np.uint64) >> sign_at & np.uint64(1) for part in (zero, one, source.value))
            result = np.where(sign == 0, least, most)
            slots[..., nibble] = self.elements.negated(ids, result != sign)
        return slots

    def add(self, a: Word, b: Word) -> Word:
        """Rounds an f32 to bf16, or joins words without common ones."""
        value = ARRAYS.add(a.value, b.value)
        if a.slots is None and b.slots is None:
            return Word(value)
        apart = np.asarray((a.value & b.value) == 0)
        kept = [np.where(apart[..., None], joined, np.uint32(0)) for joined in (self.or_(a, b).slots,) if joined is not None]
        for one, other in ((a, b), (b, a)):
            if one.slots is not None and self.width(one) == 32:
                small = ~apart & np.asarray(other.value < ROUNDING)
                if other.slots is not None:
                    small &= ~other.slots.any(axis=-1)
                slots = np.where(small[..., None], one.slots, np.uint32(0))
                slots[..., :TOP] = 0
                kept.append(slots)
        return Word(value, _united(kept))

    def sub(self, a: Word, b: Word) -> Word:
        """Of floats' patterns, a number of the run, unless nothing is subtracted."""
        kept = [np.where(np.asarray(b.value == 0)[..., None], a.slots, np.uint32(0))] if a.slots is not None else []
        return Word(ARRAYS.sub(a.value, b.value), _united(kept))

    def mul(self, a: Word, b: Word) -> Word:
        """With a power of two, a shift."""
        value = ARRAYS.mul(a.value, b.value)
        kept = []
        for one, other in ((a, b), (b, a)):
            if one.slots is not None and other.slots is None:
                single = np.asarray((other.value != 0) & (other.value & other.value - other.value.dtype.type(1) == 0))
                count = np.bitwise_count(other.value - other.value.dtype.type(1)).astype(other.value.dtype)
                moved = self.shl(one, Word(np.where(single, count, other.value.dtype.type(0))))
                assert moved.slots is not None
                kept.append(np.where(single[..., None], moved.slots, np.uint32(0)))
        return Word(value, _united(kept))

    def add_carry(self, a: Word, b: Word, carry: Array | None = None) -> tuple[Word, Array]:
        """The sum as `add` has it without a carry."""
        value, out = ARRAYS.add_carry(a.value, b.value, carry)
        return self.add(a, b) if carry is None else Word(value), out

    def sub_borrow(self, a: Word, b: Word, borrow: Array | None = None) -> tuple[Word, Array]:
        """A number of the run."""
        value, out = ARRAYS.sub_borrow(a.value, b.value, borrow)
        return Word(value), out

    def shl(self, a: Word, count: Word) -> Word:
        """By whole nibbles, elements move along."""
        return Word(ARRAYS.shl(a.value, count.value), self._shifted(a, count, 1))

    def shr(self, a: Word, count: Word) -> Word:
        """By whole nibbles, elements move along; what they lose was their last bits."""
        return Word(ARRAYS.shr(a.value, count.value), self._shifted(a, count, -1))

    def sar(self, a: Word, count: Word) -> Word:
        """As `shr`."""
        return Word(ARRAYS.sar(a.value, count.value), self._shifted(a, count, -1))

    def _shifted(self, a: Word, count: Word, sign: int) -> Ids | None:
        if a.slots is None:
            return None
        steps = np.asarray(count.value, np.int64) & self.width(a) - 1
        nibbles = a.slots.shape[-1]
        shape = np.broadcast_shapes(steps.shape, a.slots.shape[:-1])
        source = np.arange(nibbles) - sign * (steps // 4)[..., None]
        inside = (source >= 0) & (source < nibbles) & (steps % 4 == 0)[..., None]
        slots = np.broadcast_to(a.slots, (*shape, nibbles))
        taken = np.take_along_axis(slots, np.broadcast_to(np.clip(source, 0, nibbles - 1), slots.shape), -1)
        return np.where(inside, taken, np.uint32(0))

    def extreme(self, least: bool, signed: bool, a: Word, b: Word) -> Word:
        """Follows the run."""
        value = ARRAYS.extreme(least, signed, a.value, b.value)
        chosen = self.select(value == a.value, a, b)
        return Word(value, chosen.slots)

    def compare(self, relation: str, signed: bool, a: Word, b: Word) -> Array:
        """Of the run."""
        return ARRAYS.compare(relation, signed, a.value, b.value)

    def select(self, condition: Array, yes: Word, no: Word) -> Word:
        """Follows the run."""
        value = ARRAYS.select(condition, yes.value, no.value)
        if yes.slots is None and no.slots is None:
            return Word(value)
        parts = [np.zeros(1, np.uint32) if part.slots is None else part.slots for part in (yes, no)]
        return Word(value, np.where(np.asarray(condition)[..., None], *parts))

    def bit(self, a: Word, place: int) -> Array:
        """Of the run."""
        return ARRAYS.bit(a.value, place)

    def nonzero(self, a: Word) -> Array:
        """Of the run."""
        return ARRAYS.nonzero(a.value)

    def contrary(self, flag: Array) -> Array:
        """The other truth."""
        return ARRAYS.contrary(flag)

    def count_ones(self, a: Word) -> Word:
        """Of the run."""
        return Word(ARRAYS.count_ones(a.value))

    def bit_length(self, a: Word) -> Word:
        """Of the run."""
        return Word(ARRAYS.bit_length(a.value))

    def packed(self, low: Word, high: Word) -> Word:
        """Two halves as one word (v_pack_b32_f16)."""
        upper = self.resized(high, 32)
        return self.or_(self.resized(low, 32), self.shl(upper, self.number(16, upper)))

    def permuted(self, a: Word, b: Word, selectors: Word) -> Word:
        """Elements move with the bytes that they end in."""
        value = ARRAYS.permuted(a.value, b.value, selectors.value)
        if a.slots is None and b.slots is None:
            return Word(value)
        parts = [np.zeros(8, np.uint32) if part.slots is None else part.slots for part in (b, a)]
        shape = value.shape
        both = np.concatenate([np.broadcast_to(part, (*shape, 8)) for part in parts], axis=-1)
        select = np.broadcast_to(selectors.value, shape)
        out = np.zeros((*shape, 8), np.uint32)
        for byte in range(4):
            chosen = (select >> np.uint32(8 * byte) & np.uint32(255)).astype(np.int64)
            for half in (0, 1):
                found = np.take_along_axis(both, np.minimum(2 * chosen + half, 15)[..., None], -1)[..., 0]
                out[..., 2 * byte + half] = np.where(chosen < 8, found, np.uint32(0))
        return Word(value, out)


def _united(kept: list[Ids]) -> Ids | None:
    """Elements of several sources; where two would end in one nibble, there is none."""
    if not kept:
        return None
    result = kept[0]
    for more in kept[1:]:
        both = (result != 0) & (more != 0) & (result != more)
        result = np.where(both, np.uint32(0), result | np.where(result == more, np.uint32(0), more))
    return result if result.any() else None
