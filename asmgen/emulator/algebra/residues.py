"""Residues as residues: exact arithmetic modulo two primes, q and p = 2q + 1, of which 2 has order q modulo p.

So 2**x modulo p depends on x modulo q alone: exp2 takes a residue modulo q to one modulo p, and exp2(a) exp2(b) = exp2(a + b). A number
has a residue modulo q, one modulo p, and a third one, e = 2**x modulo p, where x is a logarithm: log2(u) has e = u and nothing else. A
sum's e is the product, a negative's the inverse, exp2 gives e back. What a number does not have is missing, and stays so.

A product of a logarithm with a number c has e**c. The order of e divides 2q, and c is known modulo q: the odd one of c and c + q is taken,
so that multiplying with c and 1/c gives e back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asmgen.emulator.machine.compiled import loaded

Q = 1073740571
P = 2 * Q + 1  # 2147481143
HAS_Q, HAS_P, HAS_E = 1, 2, 4
Words = NDArray[np.uint64]
Flags = NDArray[np.uint8]
_Q, _P = np.uint64(Q), np.uint64(P)
_LIMB, _TERMS = 16, 64
_CHUNK = 10  # bits of an exponent that one table of powers takes


def _powers_of_two(modulus: int, least: int, most: int) -> Words:
    inverse = pow(2, -1, modulus)
    return np.array([pow(2, n, modulus) if n >= 0 else pow(inverse, -n, modulus) for n in range(least, most + 1)], np.uint64)


_LEAST, _MOST = -1200, 1100  # exponents of finite doubles and of their mantissas' last bits
_TWO = {modulus: _powers_of_two(modulus, _LEAST, _MOST) for modulus in (Q, P)}
_TABLES = np.array([[pow(2, n << _CHUNK * part, P) for n in range(1 << _CHUNK)] for part in range(3)], np.uint64)


def powers_of_two(exponents: Words) -> Words:
    """2**x modulo p of residues x modulo q."""
    if loaded():
        from asmgen.emulator.algebra import power_kernels

        exponents = np.asarray(exponents, np.uint64)
        found = np.empty(exponents.shape, np.uint64)
        power_kernels.powers_of_two(exponents.reshape(-1), _TABLES, _CHUNK, _P, found.reshape(-1))
        return found
    mask = np.uint64((1 << _CHUNK) - 1)
    result: Words = _TABLES[0][exponents & mask]
    for part in (1, 2):
        result = result * _TABLES[part][exponents >> np.uint64(_CHUNK * part) & mask] % _P
    return result


def powers_of_two_by_value(values: Any) -> NDArray[np.uint32]:
    """[2, ...]: floats that are powers of two, modulo q and p."""
    place = np.frexp(values)[1] - 1 - _LEAST
    return np.stack([_TWO[modulus][place] for modulus in (Q, P)]).astype(np.uint32)


def power(base: Words, exponent: Words | int, modulus: int) -> Words:
    """Powers modulo a prime, by squaring."""
    base, left = np.broadcast_arrays(np.asarray(base, np.uint64), np.asarray(exponent, np.uint64))
    if loaded():
        from asmgen.emulator.algebra import power_kernels

        found = np.empty(base.shape, np.uint64)
        power_kernels.powers(base.flatten(), left.flatten(), np.uint64(modulus), found.reshape(-1))
        return found
    result, base, left = np.ones(base.shape, np.uint64), base.copy(), left.copy()
    by = np.uint64(modulus)
    while left.any():
        result = np.where(left & np.uint64(1), result * base % by, result)
        base, left = base * base % by, left >> np.uint64(1)
    return result


def inverted(numbers: Words, modulus: int) -> Words:
    """1/x modulo a prime; of 0 it is 0."""
    if not loaded():
        return power(numbers, modulus - 2, modulus)
    from asmgen.emulator.algebra import power_kernels

    found = np.empty(numbers.shape, np.uint64)
    power_kernels.inverses(numbers.flatten(), np.uint64(modulus), found.reshape(-1))
    return found


@lru_cache(maxsize=256)
def _everywhere(number: int, dtype: type[np.uint64] | type[np.uint8], shape: tuple[int, ...]) -> NDArray[Any]:
    """One number at each place, in the memory of one: nobody can write there."""
    return np.broadcast_to(dtype(number), shape)


def zeros(shape: tuple[int, ...]) -> Words:
    """Residues that are not known."""
    return _everywhere(0, np.uint64, shape)


def shaped(part: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """As np.broadcast_to, which takes as long as an operation of a wave where there is nothing to do."""
    return part if part.shape == shape else np.broadcast_to(part, shape)


@dataclass(frozen=True)
class Residues:
    """Arrays of numbers; `has` says which residues are known. The others are 0."""

    q: Words
    p: Words
    e: Words
    has: Flags

    @classmethod
    def of(cls, q: Any, p: Any, e: Any, has: Any) -> Residues:
        """From arrays or numbers of any shapes that broadcast; residues that `has` does not name become 0."""
        flags = np.asarray(has, np.uint8)
        parts = [np.where(flags & bit, np.asarray(part, np.uint64), np.uint64(0)) for part, bit in ((q, HAS_Q), (p, HAS_P), (e, HAS_E))]
        shape = np.broadcast(*parts).shape
        return cls(*(shaped(part, shape) for part in (*parts, flags)))

    @classmethod
    def exact(cls, q: Words, p: Words) -> Residues:
        """Numbers of which both residues are known, arrays of one shape."""
        return cls(q, p, zeros(q.shape), _everywhere(HAS_Q | HAS_P, np.uint8, q.shape))

    @classmethod
    def missing(cls, shape: tuple[int, ...]) -> Residues:
        """Residues of which nothing is known."""
        nothing = zeros(shape)
        return cls(nothing, nothing, nothing, _everywhere(0, np.uint8, shape))

    @classmethod
    def random(cls, generator: np.random.Generator, shape: tuple[int, ...]) -> Residues:
        """Uniform residues, each of its own."""
        q, p = (generator.integers(0, modulus, shape, np.uint64) for modulus in (Q, P))
        return cls.of(q, p, 0, HAS_Q | HAS_P)

    @classmethod
    def joined(cls, parts: Sequence[Residues], axis: int) -> Residues:
        """As np.concatenate."""
        return cls(*(np.concatenate([getattr(one, name) for one in parts], axis) for name in ("q", "p", "e", "has")))

    @property
    def shape(self) -> tuple[int, ...]:
        """As of arrays."""
        return self.q.shape

    def lacks(self, kinds: int) -> NDArray[np.bool_]:
        """Where one of some residues is missing."""
        return np.asarray((self.has & kinds) != kinds)

    def _each(self, act: Any) -> Residues:
        return Residues(act(self.q), act(self.p), act(self.e), act(self.has))

    def __getitem__(self, place: Any) -> Residues:
        return self._each(lambda part: part[place])

    def reshape(self, *shape: int) -> Residues:
        """As of arrays."""
        return self._each(lambda part: part.reshape(*shape))

    def swapaxes(self, first: int, second: int) -> Residues:
        """As of arrays."""
        return self._each(lambda part: part.swapaxes(first, second))

    def repeat(self, count: int, axis: int) -> Residues:
        """As np.repeat."""
        return self._each(lambda part: np.repeat(part, count, axis))

    def broadcast(self, shape: tuple[int, ...]) -> Residues:
        """As np.broadcast_to."""
        return self if self.shape == shape else self._each(lambda part: np.broadcast_to(part, shape))

    def _numbers(self) -> bool:
        """Whether all are known as numbers, and none is a logarithm."""
        return bool((self.has == HAS_Q | HAS_P).all())

    def __add__(self, other: Residues) -> Residues:
        if self._numbers() and other._numbers():
            return Residues.exact((self.q + other.q) % _Q, (self.p + other.p) % _P)
        both = self.has & other.has & (HAS_Q | HAS_P)
        logarithm = (self.has | other.has) & HAS_E
        e: Any = 0
        if logarithm.any():
            logarithm = np.where((self._has_power() != 0) & (other._has_power() != 0), logarithm, np.uint8(0))
            e = self._power() * other._power() % _P
        return Residues.of((self.q + other.q) % _Q, (self.p + other.p) % _P, e, both | logarithm)

    def __neg__(self) -> Residues:
        e = inverted(self.e, P) if (self.has & HAS_E).any() else self.e
        return Residues.of((_Q - self.q) % _Q, (_P - self.p) % _P, e, self.has)

    def __sub__(self, other: Residues) -> Residues:
        return self + -other

    def __mul__(self, other: Residues) -> Residues:
        if self._numbers() and other._numbers():
            return Residues.exact(self.q * other.q % _Q, self.p * other.p % _P)
        both = self.has & other.has & (HAS_Q | HAS_P)
        e: Any = np.uint64(0)
        logarithm: Any = np.uint8(0)
        for one, factor in ((self, other), (other, self)):
            usable = (one.has & HAS_E != 0) & (factor.has & HAS_Q != 0)
            if usable.any():
                odd = np.where(factor.q & np.uint64(1), factor.q, factor.q + _Q)
                e = np.where(usable, power(one.e, odd, P), e)
                logarithm = np.where(usable, np.uint8(HAS_E), logarithm)
        return Residues.of(self.q * other.q % _Q, self.p * other.p % _P, e, both | logarithm)

    def _power(self) -> Words:
        """2**x modulo p: e of a logarithm, else from the residue modulo q."""
        return np.where(self.has & HAS_E, self.e, powers_of_two(self.q))

    def _has_power(self) -> Flags:
        return np.asarray(self.has & (HAS_Q | HAS_E), np.uint8)

    def exp2(self) -> Residues:
        """2**x: known modulo p alone."""
        return Residues.of(0, self._power(), 0, np.where(self._has_power() != 0, np.uint8(HAS_P), np.uint8(0)))

    def log2(self) -> Residues:
        """The logarithm: e alone."""
        known = (self.has & HAS_P != 0) & (self.p != 0)
        return Residues.of(0, 0, self.p, np.where(known, np.uint8(HAS_E), np.uint8(0)))

    def reciprocal(self) -> Residues:
        """1/x; of 0 it is missing."""
        has = self.has & np.where(self.q != 0, HAS_Q, 0).astype(np.uint8) | self.has & np.where(self.p != 0, HAS_P, 0).astype(np.uint8)
        return Residues.of(inverted(self.q, Q), inverted(self.p, P), 0, has)

    def hashed(self, name: str) -> Residues:
        """A function that nothing is known of but its name: a keyed hash of each residue, for kernels and references alike."""
        key = np.uint64(int.from_bytes(name.encode()[:16].ljust(16, b"\0"), "little") % (1 << 64) ^ (1 << 63))
        return Residues.of(_mixed(self.q ^ key) % _Q, _mixed(self.p ^ ~key) % _P, 0, self.has & (HAS_Q | HAS_P))

    def scaled(self, exponents: Any) -> Residues:
        """Times a power of two whose exponent is a number of the run."""
        place = np.clip(np.asarray(exponents, np.int64), _LEAST, _MOST) - _LEAST
        return self * Residues.of(_TWO[Q][place], _TWO[P][place], 0, HAS_Q | HAS_P)

    def where(self, condition: Any, other: Residues) -> Residues:
        """These where a condition holds, else the others."""
        return Residues(*(np.where(condition, mine, its) for mine, its in
                         ((self.q, other.q), (self.p, other.p), (self.e, other.e), (self.has, other.has))))

    def sum(self, axis: int) -> Residues:
        """Along an axis of fewer than 2**32 numbers; logarithms are none that could be added so."""
        has = np.bitwise_and.reduce(self.has, axis=axis) & (HAS_Q | HAS_P)
        return Residues.of(self.q.sum(axis) % _Q, self.p.sum(axis) % _P, 0, has)

    def __matmul__(self, other: Residues) -> Residues:
        if self._numbers() and other._numbers():
            return Residues.exact(_products(self.q, other.q, Q), _products(self.p, other.p, P))
        has: Any = np.uint8(0)
        for bit in (HAS_Q, HAS_P):
            lost = (self.has & bit == 0).any(axis=-1)[..., :, None] | (other.has & bit == 0).any(axis=-2)[..., None, :]
            has = has | np.where(lost, np.uint8(0), np.uint8(bit))
        return Residues.of(_products(self.q, other.q, Q), _products(self.p, other.p, P), 0, has)


def _mixed(words: Words) -> Words:
    """splitmix64's output function (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014)."""
    with np.errstate(over="ignore"):
        words = words + np.uint64(0x9E3779B97F4A7C15)
        words = (words ^ words >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        words = (words ^ words >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return words ^ words >> np.uint64(31)


def _products(a: Words, b: Words, modulus: int) -> Words:
    """A matrix product modulo a prime, by exact products in float64 of numbers below 2**31 with their factors' limbs of 16 bits: sums of
    2**6 of them fit 53 bits, and so does one shifted by a limb beside another."""
    by, mask, limb = np.uint64(modulus), np.uint64((1 << _LIMB) - 1), np.uint64(_LIMB)
    low, high, whole = (a & mask).astype(np.float64), (a >> limb).astype(np.float64), b.astype(np.float64)
    result: Words | None = None
    for begin in range(0, a.shape[-1], _TERMS):
        rows = whole[..., begin:begin + _TERMS, :]
        above, below = ((part[..., begin:begin + _TERMS] @ rows).astype(np.uint64) for part in (high, low))
        found = ((above % by << limb) + below) % by
        result = found if result is None else (result + found) % by
    return np.zeros((*a.shape[:-1], b.shape[-1]), np.uint64) if result is None else result


def joined(parts: Sequence[Residues], axis: int) -> Residues:
    """As np.stack."""
    return Residues(*(np.stack([getattr(part, name) for part in parts], axis) for name in ("q", "p", "e", "has")))


def beside(parts: Sequence[Residues], axis: int) -> Residues:
    """As np.concatenate."""
    return Residues(*(np.concatenate([getattr(part, name) for part in parts], axis) for name in ("q", "p", "e", "has")))


@dataclass(frozen=True)
class Constants:
    """How floats embed: by value, m 2**e, but for declared ones, which are rounded values of numbers with residues of their own.

    `declared` gives the residues (modulo q and p) of a number's mantissa in [0.5, 1); sign and power of two go by value.
    """

    declared: dict[float, tuple[int, int]]

    @classmethod
    def declare(cls, values: Mapping[float, tuple[int, int]]) -> Constants:
        """From the rounded values, positive ones, and the residues of what they stand for."""
        found = {}
        for value, (q, p) in values.items():
            mantissa, exponent = np.frexp(value)
            place = -int(exponent) - _LEAST
            found[float(mantissa)] = q * int(_TWO[Q][place]) % Q, p * int(_TWO[P][place]) % P
        return cls(found)

    def embedded(self, values: Any) -> Residues:
        """Finite floats as numbers, -0 as 0; others are missing."""
        values = np.asarray(values, np.float64)
        finite = np.isfinite(values)
        mantissa, exponent = np.frexp(np.where(finite, values, 0.0))
        place = exponent.astype(np.int64) - 53 - _LEAST
        whole = np.abs(np.ldexp(mantissa, 53)).astype(np.uint64)
        found = {}
        for index, modulus in enumerate((Q, P)):
            by = np.uint64(modulus)
            residue = whole % by * _TWO[modulus][place] % by
            for size, residues in self.declared.items():
                residue = np.where(np.abs(mantissa) == size, np.uint64(residues[index]) * _TWO[modulus][place + 53] % by, residue)
            found[modulus] = np.where(mantissa < 0, (by - residue) % by, residue)
        return Residues.of(found[Q], found[P], 0, np.where(finite, np.uint8(HAS_Q | HAS_P), np.uint8(0)))


def inverse_pair(q: int, p: int) -> tuple[int, int]:
    """The residues of 1/x."""
    return pow(q, -1, Q), pow(p, -1, P)


_LOG2_E = (0x2D4A3B19, 0x5C1E2F37)
"""Residues that log2(e) was given; any would do but 0. ln(2) has their inverses."""
LOG2_E, LN_2 = float(np.float32(1.4426950408889634)), float(np.float32(0.6931471805599453))
STANDARD = Constants.declare({LOG2_E: _LOG2_E, LN_2: inverse_pair(*_LOG2_E)})
"""log2(e) and ln(2) as float32."""
