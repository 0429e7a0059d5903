"""Expressions as 64-bit hashes: what made a value, operation by operation, in order. Equal hashes are equal expressions but for chance.

A collision of two values of one run has probability about 2**-64 a pair; sums of products have two residues of 30 and 31 bits more between
them and their operands.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.carried.cells import UNKNOWN, Handles
from asmgen.emulator.hashes.nibblecells import NIBBLE_CODES

Hashes = NDArray[np.uint64]
Array = NDArray[Any]
_CONSTANT = np.uint64(0x9216D5D98979FB1B)


def mixed(*parts: Any) -> Hashes:
    """One hash of several, in order; numbers or arrays that broadcast."""
    total: Hashes = np.asarray(_CONSTANT)
    with np.errstate(over="ignore"):
        for part in parts:
            total = _scrambled(total * np.uint64(0x2545F4914F6CDD1D) + np.asarray(part).astype(np.uint64))
    return total


def _scrambled(words: Hashes) -> Hashes:
    """splitmix64's output function (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014)."""
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ words >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ words >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return words ^ words >> np.uint64(31)


def named(text: str) -> np.uint64:
    """The hash of a name."""
    return np.uint64(int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little"))


_FIELDS = [named(f"field of {nibbles} nibbles") for nibbles in range(NIBBLE_CODES + 1)]
_CONSTANTS = [named(f"constant of {nibbles} nibbles") for nibbles in range(NIBBLE_CODES + 1)]


DATA, LOST = np.uint8(1), np.uint8(2)
"""What is said of elements beside their hashes, as bits: they depend on inputs and not on constants alone; nothing is known of something
that they are made of."""


class Expressions:
    """The hashes of elements by number; 0 is no element."""

    def __init__(self) -> None:
        self.used = UNKNOWN + 1
        self._hashes = np.zeros(1024, np.uint64)
        self._nibbles = np.zeros(1024, np.uint8)
        self._data = np.zeros(1024, np.uint8)
        self._data[UNKNOWN] = DATA | LOST

    def made(self, hashes: Hashes, nibbles: int, data: Array | np.uint8 = DATA) -> Handles:
        """New elements of so many nibbles; `data` says DATA and LOST of each."""
        count = hashes.size
        while self.used + count > len(self._hashes):
            self._hashes, self._nibbles, self._data = (np.concatenate([part, np.zeros_like(part)])
                                                       for part in (self._hashes, self._nibbles, self._data))
        self._hashes[self.used:self.used + count] = hashes.reshape(-1)
        self._nibbles[self.used:self.used + count] = nibbles
        self._data[self.used:self.used + count] = np.broadcast_to(data, hashes.shape).reshape(-1)
        self.used += count
        return np.arange(self.used - count, self.used, dtype=np.uint32).reshape(hashes.shape)

    def keep(self, alive: NDArray[np.bool_]) -> None:
        """Drop the other elements, in order."""
        count = int(np.count_nonzero(alive))
        for part in (self._hashes, self._nibbles, self._data):
            part[:count] = part[:self.used][alive]
        self.used = count

    def of(self, field: Handles, bits: Array) -> Hashes:
        """What fields of words are, of the codes of their nibbles [..., n] and the run's bits: a whole element is itself; what has none is
        a constant; any other is made of its nibbles."""
        nibbles = field.shape[-1]
        if not field.any():
            return mixed(_CONSTANTS[nibbles], np.broadcast_to(bits, np.broadcast_shapes(field.shape[:-1], np.shape(bits))))
        first = field[..., 0]
        ids = first // np.uint32(NIBBLE_CODES)
        whole = (first != 0) & (first % np.uint32(NIBBLE_CODES) == 0) & (self._nibbles[ids] == nibbles)
        whole = whole & (field == first[..., None] + np.arange(nibbles, dtype=np.uint32)).all(axis=-1)
        result: Hashes = self._hashes[ids] if whole.all() else np.where(whole, self._hashes[ids], mixed(_CONSTANTS[nibbles], bits))
        rest = field.any(axis=-1) & ~whole
        if rest.any():
            part, value = field[rest], np.broadcast_to(bits, rest.shape)[rest].astype(np.uint64)
            total = np.asarray(_FIELDS[nibbles])
            for nibble in range(nibbles):
                code = part[:, nibble]
                plain = mixed(value >> np.uint64(4 * nibble) & np.uint64(15))
                element, number = code // np.uint32(NIBBLE_CODES), code % np.uint32(NIBBLE_CODES)
                own = mixed(self._hashes[element], number, self._nibbles[element])
                total = mixed(total, np.where(code == 0, plain, own))
            result[rest] = total
        return result

    def data(self, field: Handles) -> NDArray[np.uint8]:
        """DATA and LOST of fields, as some nibble has it."""
        return np.asarray(np.bitwise_or.reduce(self._data[field // np.uint32(NIBBLE_CODES)], axis=-1))

    def unknown(self, field: Handles) -> NDArray[np.bool_]:
        """Fields in which some nibble is of something that nothing is known of."""
        return np.asarray(self.data(field) & LOST != 0)
