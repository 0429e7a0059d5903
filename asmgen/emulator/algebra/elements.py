"""The elements of the algebra: floats that have residues, by number, and the formats that they are in.

An element remembers how its sign and exponent are encoded. A value may be cut to fewer bits of its mantissa and stay the same element (f32
and bf16 encode alike), but who reads it as another format reads nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.algebra.residues import HAS_E, Constants, Residues, zeros
from asmgen.emulator.carried.cells import UNKNOWN
from asmgen.emulator.machine.compiled import loaded
from asmgen.isa.arch import Architecture
from asmgen.isa.formats import hardware_format

Ids = NDArray[np.uint32]
ENCODINGS = {"f32": 1, "xf32": 1, "bf16": 1, "f16": 2, "fp8": 3, "bf8": 4, "fp4": 5, "fp6": 6, "bf6": 7, "f64": 8}
"""By format: those of one number encode sign and exponent alike."""
WIDTHS = {"f64": 64, "f32": 32, "xf32": 32, "bf16": 16, "f16": 16, "fp8": 8, "bf8": 8, "fp4": 4}
PACKED_WIDTHS = WIDTHS | {"fp6": 6, "bf6": 6}
"""Of those that stand side by side in memory and matrix operands. Signs 6 bits apart are in nibbles of their own, too."""
BELOW_TOP = np.array([0, 15, 15, 7, 7, 3, 8, 8, 31], np.uint32)
"""By encoding, the bits below the top of the nibble with the sign that must stay for a value to be the same but for rounding: of f32 those
that bf16 has, of f64 those of its upper word. The sign is the nibble's top bit, but for those of 6 bits."""
SIGN_ON_TOP = np.array([1, 1, 1, 1, 1, 1, 0, 0, 1], bool)


class Elements:
    """Tables of residues by element; 0 is no element."""

    def __init__(self, constants: Constants) -> None:
        self.constants = constants
        self.used = UNKNOWN + 1
        self._residues = np.zeros((3, 1024), np.uint32)
        self._has = np.zeros(1024, np.uint8)
        self._encoding = np.zeros(1024, np.uint8)
        self._codes: dict[tuple[str, int], tuple[Any, Any]] = {}

    @property
    def columns(self) -> tuple[NDArray[np.uint32], NDArray[np.uint8], NDArray[np.uint8]]:
        """Residues [3, elements] modulo q and p and of logarithms, which of them are known, encodings."""
        return self._residues, self._has, self._encoding

    def codes(self, kind: str, values: Any) -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
        """Residues [2, codes] of the values of all codes of a format, and which of them are known."""
        key = kind, len(self.constants.declared)  # which only grow
        if key not in self._codes:
            numbers = self.constants.embedded(values)
            self._codes[key] = np.stack([numbers.q, numbers.p]).astype(np.uint32), np.ascontiguousarray(numbers.has)
        return self._codes[key]

    def room(self, count: int, kind: str) -> int:
        """The number of the first of so many new elements in a format, whose residues the caller puts there."""
        while self.used + count > len(self._has):
            self._residues = np.concatenate([self._residues, np.zeros_like(self._residues)], axis=1)
            self._has, self._encoding = (np.concatenate([part, np.zeros_like(part)]) for part in (self._has, self._encoding))
        first, self.used = self.used, self.used + count
        self._encoding[first:self.used] = ENCODINGS[kind]
        return first

    def made(self, numbers: Residues, kind: str) -> Ids:
        """New elements in a format, of which nothing is known where nothing is."""
        shape, count = numbers.shape, numbers.q.size
        first = self.room(count, kind)
        place = slice(first, first + count)
        for row, part in enumerate((numbers.q, numbers.p, numbers.e)):
            self._residues[row, place] = part.reshape(-1)
        self._has[place] = numbers.has.reshape(-1)
        ids = np.arange(first, first + count, dtype=np.uint32).reshape(shape)
        return np.where(numbers.has != 0, ids, np.uint32(UNKNOWN))

    def numbers(self, ids: Ids, kind: str, values: Callable[[], Any]) -> Residues:
        """What elements are, read as a format; where there is none, the run's own value, which `values` gives."""
        ids = np.asarray(ids)
        if loaded():
            from asmgen.emulator.algebra import element_kernels

            parts, flags = np.empty((3, *ids.shape), np.uint64), np.empty(ids.shape, np.uint8)
            if element_kernels.numbers(np.ascontiguousarray(ids).reshape(-1), *self.columns, ENCODINGS[kind], parts.reshape(3, -1),
                                       flags.reshape(-1)):
                return Residues(parts[0], parts[1], zeros(ids.shape), flags)
            found = Residues(parts[0], parts[1], parts[2], flags)
        else:
            has, fits = self._has.take(ids), self._encoding.take(ids) == ENCODINGS[kind]
            q, p = (self._residues[row].take(ids).astype(np.uint64) for row in range(2))
            if fits.all() and not (has & HAS_E).any():
                return Residues(q, p, zeros(q.shape), has)
            found = Residues.of(q, p, self._residues[2].take(ids).astype(np.uint64), np.where(fits, has, np.uint8(0)))
        plain = ids == 0
        return self.constants.embedded(values()).where(plain, found) if plain.any() else found

    def encodings(self, ids: Ids) -> NDArray[np.uint8]:
        """By element."""
        return self._encoding[ids]

    def negated(self, ids: Ids, where: NDArray[np.bool_]) -> Ids:
        """Elements with the other sign in some places."""
        where = where & (ids > UNKNOWN)
        if not where.any():
            return ids
        chosen = ids[where]
        q, p, e = (np.asarray(self._residues[row][chosen], np.uint64) for row in range(3))
        numbers = -Residues(q, p, e, self._has[chosen])
        fresh = self.made(numbers, "f32")
        self._encoding[fresh] = self._encoding[chosen]
        result = ids.copy()
        result[where] = fresh
        return result

    def keep(self, alive: NDArray[np.bool_]) -> None:
        """Drop the other elements, in order."""
        from asmgen.emulator.carried import compaction_kernels

        for column in (*self._residues, self._has, self._encoding):
            compaction_kernels.moved(column, alive)
        self.used = int(np.count_nonzero(alive))


def largest(kind: str, arch: Architecture) -> tuple[float, float]:
    """The largest finite number of a format, and by how much a number may exceed it and be rounded to it; f32 and bf16 are wide enough
    for what no conversion between them overflows."""
    if kind == "f64":
        return float("inf"), 0.0
    if kind in ("f32", "bf16", "xf32"):
        return float(np.finfo(np.float32).max), 0.0
    fmt: Any = hardware_format(kind, arch)
    return float(fmt.max), float(2.0 ** (fmt.emax - fmt.mantissa_bits - 1))
