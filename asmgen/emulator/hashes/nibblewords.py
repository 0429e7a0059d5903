"""Integer instructions that only move nibbles: the meanings of `semantics.meaning` on patterns with codes.

Where an instruction does anything else to a nibble that belongs to an element, its result is `changed`, and its hash is that of the
instruction as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from asmgen.emulator.carried.cells import Handles
from asmgen.emulator.semantics.integers import ARRAYS

Array = Any


@dataclass(frozen=True)
class NibbleWord:
    """A pattern, the codes of its nibbles [..., width / 4] (None: no elements), and where it is none that was only moved."""

    value: Array
    slots: Handles | None = None
    changed: Array = False


def _of(value: Array, slots: Handles | None, *changed: Array) -> NibbleWord:
    lost: Array = False
    for part in changed:
        lost = lost | np.asarray(part)
    return NibbleWord(value, slots if slots is not None and slots.any() else None, lost)


class NibbleWords:
    """The domain of patterns with codes (`semantics.domain.Domain`); flags are booleans of the run."""

    def width(self, a: NibbleWord) -> int:
        """In bits."""
        return ARRAYS.width(a.value)

    def number(self, number: int, like: NibbleWord) -> NibbleWord:
        """A constant."""
        return NibbleWord(ARRAYS.number(number, like.value))

    def lanes(self, numbers: Sequence[int]) -> NibbleWord:
        """A constant for each lane."""
        return NibbleWord(ARRAYS.lanes(numbers))

    def resized(self, a: NibbleWord, bits: int, signed: bool = False) -> NibbleWord:
        """Cut, or extended; a sign of an element changes what it extends to."""
        value, slots = ARRAYS.resized(a.value, bits, signed), a.slots
        if slots is None:
            return NibbleWord(value, None, a.changed)
        more = bits // 4 - slots.shape[-1]
        if more > 0:
            lost = (slots[..., -1] != 0) & signed
            return _of(value, np.concatenate([slots, np.zeros((*slots.shape[:-1], more), np.uint32)], axis=-1), a.changed, lost)
        return _of(value, slots[..., :bits // 4], a.changed)

    def inverted(self, a: NibbleWord) -> NibbleWord:
        """No move."""
        return self.bits(np.invert, a)

    def and_(self, a: NibbleWord, b: NibbleWord) -> NibbleWord:
        """A move where whole nibbles are masked."""
        return self.bits(np.bitwise_and, a, b)

    def or_(self, a: NibbleWord, b: NibbleWord) -> NibbleWord:
        """A move where nibbles of elements meet zeros."""
        return self.bits(np.bitwise_or, a, b)

    def xor(self, a: NibbleWord, b: NibbleWord) -> NibbleWord:
        """A move where nibbles of elements meet zeros."""
        return self.bits(np.bitwise_xor, a, b)

    def bitwise(self, table: int, *sources: NibbleWord) -> NibbleWord:
        """By the same rule as all operations on bits."""
        return self.bits(lambda *values: ARRAYS.bitwise(table, *values), *sources)

    def bits(self, function: Callable[..., Array], *sources: NibbleWord) -> NibbleWord:
        """A nibble of an element stays where the other sources let it through, and is gone where they decide; else the word is changed."""
        value = function(*(source.value for source in sources))
        result: Any = None
        changed: Array = False
        for number, source in enumerate(sources):
            changed = changed | source.changed
            if source.slots is None:
                continue
            values = [other.value for other in sources]
            zero, one = (np.asarray(function(*values[:number], pattern, *values[number + 1:]), np.uint64)
                         for pattern in (source.value & 0, ~(source.value & 0)))
            nibbles = source.slots.shape[-1]
            shifts = (4 * np.arange(nibbles)).astype(np.uint64)
            through = ((one & ~zero)[..., None] >> shifts & np.uint64(15)) == 15
            decided = ((one ^ zero)[..., None] >> shifts & np.uint64(15)) == 0
            slots = np.where(through, source.slots, np.uint32(0))
            changed = changed | ((source.slots != 0) & ~through & ~decided).any(axis=-1)
            for other in sources[:number] + sources[number + 1:]:
                if other.slots is not None:  # what another element's bits let through is not known
                    changed = changed | ((source.slots != 0) & (other.slots != 0)).any(axis=-1)
            result = slots if result is None else result | slots
        return _of(value, result, changed)

    def add(self, a: NibbleWord, b: NibbleWord) -> NibbleWord:
        """Of words of which one is 0 in each nibble, a move."""
        joined = self.or_(a, b)
        value = ARRAYS.add(a.value, b.value)
        shifts = (4 * np.arange(self.width(a) // 4)).astype(value.dtype)
        both = ((a.value[..., None] >> shifts & value.dtype.type(15)) != 0) & ((b.value[..., None] >> shifts & value.dtype.type(15)) != 0)
        return _of(value, joined.slots, joined.changed, self._has(a, b) & both.any(axis=-1))

    def _has(self, *words: NibbleWord) -> Array:
        """Where some word has an element, or is changed."""
        found: Array = np.asarray(False)
        for word in words:
            found = found | word.changed
            if word.slots is not None:
                found = found | word.slots.any(axis=-1)
        return found

    def _changed(self, value: Array, *words: NibbleWord) -> NibbleWord:
        return NibbleWord(value, None, self._has(*words))

    def sub(self, a: NibbleWord, b: NibbleWord) -> NibbleWord:
        """No move."""
        return self._changed(ARRAYS.sub(a.value, b.value), a, b)

    def mul(self, a: NibbleWord, b: NibbleWord) -> NibbleWord:
        """No move."""
        return self._changed(ARRAYS.mul(a.value, b.value), a, b)

    def add_carry(self, a: NibbleWord, b: NibbleWord, carry: Array | None = None) -> tuple[NibbleWord, Array]:
        """No move."""
        value, out = ARRAYS.add_carry(a.value, b.value, carry)
        return self._changed(value, a, b), out

    def sub_borrow(self, a: NibbleWord, b: NibbleWord, borrow: Array | None = None) -> tuple[NibbleWord, Array]:
        """No move."""
        value, out = ARRAYS.sub_borrow(a.value, b.value, borrow)
        return self._changed(value, a, b), out

    def shl(self, a: NibbleWord, count: NibbleWord) -> NibbleWord:
        """By whole nibbles, a move."""
        return self._shifted(ARRAYS.shl(a.value, count.value), a, count, 1, False)

    def shr(self, a: NibbleWord, count: NibbleWord) -> NibbleWord:
        """By whole nibbles, a move."""
        return self._shifted(ARRAYS.shr(a.value, count.value), a, count, -1, False)

    def sar(self, a: NibbleWord, count: NibbleWord) -> NibbleWord:
        """By whole nibbles, a move, where the sign is no element's."""
        return self._shifted(ARRAYS.sar(a.value, count.value), a, count, -1, True)

    def _shifted(self, value: Array, a: NibbleWord, count: NibbleWord, sign: int, signed: bool) -> NibbleWord:
        if a.slots is None:
            return NibbleWord(value, None, self._has(a, count))
        steps = np.asarray(count.value, np.int64) & self.width(a) - 1
        nibbles = a.slots.shape[-1]
        shape = np.broadcast_shapes(steps.shape, a.slots.shape[:-1])
        source = np.broadcast_to(np.arange(nibbles) - sign * (steps // 4)[..., None], (*shape, nibbles))
        inside = (source >= 0) & (source < nibbles)
        slots = np.broadcast_to(a.slots, (*shape, nibbles))
        moved = np.where(inside, np.take_along_axis(slots, np.clip(source, 0, nibbles - 1), -1), np.uint32(0))
        lost = slots.any(axis=-1) & (steps % 4 != 0) | (slots[..., -1] != 0) & (signed & (steps != 0))
        return _of(value, moved, a.changed, lost, self._has(count))

    def extreme(self, least: bool, signed: bool, a: NibbleWord, b: NibbleWord) -> NibbleWord:
        """No move: which one depends on both."""
        return self._changed(ARRAYS.extreme(least, signed, a.value, b.value), a, b)

    def compare(self, relation: str, signed: bool, a: NibbleWord, b: NibbleWord) -> Array:
        """Of the run."""
        return ARRAYS.compare(relation, signed, a.value, b.value)

    def select(self, condition: Array, yes: NibbleWord, no: NibbleWord) -> NibbleWord:
        """Follows the run."""
        value = ARRAYS.select(condition, yes.value, no.value)
        changed = np.where(condition, yes.changed, no.changed)
        if yes.slots is None and no.slots is None:
            return NibbleWord(value, None, changed)
        parts = [np.zeros(1, np.uint32) if part.slots is None else part.slots for part in (yes, no)]
        return _of(value, np.where(np.asarray(condition)[..., None], *parts), changed)

    def bit(self, a: NibbleWord, place: int) -> Array:
        """Of the run."""
        return ARRAYS.bit(a.value, place)

    def nonzero(self, a: NibbleWord) -> Array:
        """Of the run."""
        return ARRAYS.nonzero(a.value)

    def contrary(self, flag: Array) -> Array:
        """The other truth."""
        return ARRAYS.contrary(flag)

    def count_ones(self, a: NibbleWord) -> NibbleWord:
        """No move."""
        return self._changed(ARRAYS.count_ones(a.value), a)

    def bit_length(self, a: NibbleWord) -> NibbleWord:
        """No move."""
        return self._changed(ARRAYS.bit_length(a.value), a)

    def permuted(self, a: NibbleWord, b: NibbleWord, selectors: NibbleWord) -> NibbleWord:
        """Bytes move; copies of an element's sign are no move."""
        value = ARRAYS.permuted(a.value, b.value, selectors.value)
        if a.slots is None and b.slots is None:
            return NibbleWord(value, None, self._has(a, b, selectors))
        shape = value.shape
        parts = [np.broadcast_to(np.zeros(8, np.uint32) if part.slots is None else part.slots, (*shape, 8)) for part in (b, a)]
        both, select = np.concatenate(parts, axis=-1), np.broadcast_to(selectors.value, shape)
        out = np.zeros((*shape, 8), np.uint32)
        lost = np.zeros(shape, bool)
        for byte in range(4):
            chosen = (select >> np.uint32(8 * byte) & np.uint32(255)).astype(np.int64)
            for half in (0, 1):
                found = np.take_along_axis(both, np.minimum(2 * chosen + half, 15)[..., None], -1)[..., 0]
                out[..., 2 * byte + half] = np.where(chosen < 8, found, np.uint32(0))
            signs = np.take_along_axis(both, np.clip(4 * (chosen - 8) + 3, 0, 15)[..., None], -1)[..., 0]
            lost |= (chosen >= 8) & (chosen < 12) & (signs != 0)
        return _of(value, out, a.changed, b.changed, self._has(selectors), lost)
