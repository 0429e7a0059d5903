"""Residues against Python's integers, and the identities that they are for."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from asmgen.emulator.algebra.elements import Elements
from asmgen.emulator.algebra.residues import (
    HAS_E,
    HAS_P,
    HAS_Q,
    LN_2,
    LOG2_E,
    STANDARD,
    Constants,
    P,
    Q,
    Residues,
    inverted,
    power,
    powers_of_two,
)

BOTH = HAS_Q | HAS_P


def drawn(*shape: int, seed: int = 0) -> Residues:
    return Residues.random(np.random.default_rng(seed), shape)


def of_fraction(value: Fraction, modulus: int) -> int:
    return value.numerator * pow(value.denominator, -1, modulus) % modulus


def equal(a: Residues, b: Residues, kind: str = "p") -> bool:
    return bool((getattr(a, kind) == getattr(b, kind)).all() and (a.has == b.has).all())


def is_prime(number: int) -> bool:
    return all(number % divisor for divisor in range(2, int(number**0.5) + 1))


def test_the_primes() -> None:
    """p = 2q + 1, and 2 has order q modulo p: it is no power of order 1 or 2, and 2**q = 1."""
    assert (Q, P) == (1073740571, 2147481143) and P == 2 * Q + 1 and P % 8 == 7
    assert is_prime(Q) and is_prime(P) and pow(2, Q, P) == 1 and 4 % P != 1


@pytest.mark.parametrize("name", ["__add__", "__sub__", "__mul__"])
def test_arithmetic_is_that_of_integers(name: str) -> None:
    a, b = drawn(50, seed=1), drawn(50, seed=2)
    found = getattr(a, name)(b)
    for kind, modulus in (("q", Q), ("p", P)):
        wanted = [getattr(int(x), name)(int(y)) % modulus for x, y in zip(getattr(a, kind), getattr(b, kind), strict=True)]
        assert getattr(found, kind).tolist() == wanted
    assert (found.has == BOTH).all()


def test_products_of_matrices() -> None:
    a, b = drawn(2, 5, 300, seed=3), drawn(2, 300, 4, seed=4)
    found = a @ b
    for kind, modulus in (("q", Q), ("p", P)):
        left, right = (getattr(x, kind).astype(object) for x in (a, b))
        assert (getattr(found, kind).astype(object) == (left @ right) % modulus).all()


def test_products_are_known_where_row_and_column_are() -> None:
    a, b = drawn(3, 4), drawn(4, 2)
    has = a.has.copy()
    has[1, 2], has[2, 0] = HAS_P, 0
    found = Residues.of(a.q, a.p, 0, has) @ b
    assert found.has.tolist() == [[BOTH] * 2, [HAS_P] * 2, [0] * 2]


@pytest.mark.parametrize("value", [0.0, -0.0, 1.0, -1.5, 2.0**-149, 3.0e38, 0.1, -2.0**-1074, 1e300])
def test_floats_embed_by_value(value: float) -> None:
    found = Constants({}).embedded(np.array([value]))
    assert [int(found.q[0]), int(found.p[0])] == [of_fraction(Fraction(value), modulus) for modulus in (Q, P)]
    assert found.has[0] == BOTH


def test_infinity_and_nan_have_no_residue() -> None:
    assert Constants({}).embedded(np.array([np.inf, -np.inf, np.nan])).has.tolist() == [0, 0, 0]


def test_declared_constants_are_inverses_whatever_their_sign_and_power_of_two() -> None:
    product = STANDARD.embedded(-8 * np.float64(LOG2_E)) * STANDARD.embedded(np.float64(LN_2) / 4)
    wanted = Constants({}).embedded(-2.0)
    assert equal(product, wanted, "q") and equal(product, wanted, "p")
    assert not equal(STANDARD.embedded(LOG2_E), Constants({}).embedded(LOG2_E))


def test_a_power_of_two_is_ldexp() -> None:
    x = drawn(20)
    for exponent in (-149, -3, 0, 5, 127):
        assert equal(x.scaled(exponent), x * Constants({}).embedded(2.0**exponent))
        assert int(Constants({}).embedded(float(exponent)).exp2().p) == int(Constants({}).embedded(2.0**exponent).p)


def test_exp2_of_a_sum_is_the_product() -> None:
    x, y = drawn(50, seed=5), drawn(50, seed=6)
    assert equal((x + y).exp2(), x.exp2() * y.exp2()) and (x.exp2().has == HAS_P).all()
    assert equal((-x).exp2(), x.exp2().reciprocal())


def test_logarithms_are_compared_by_their_power() -> None:
    """log2(sum 2^x) with a maximum taken out, and exp2(x - log2(u)) = 2^x / u."""
    x, largest = drawn(30, seed=7), drawn(1, seed=8)
    plain = x.exp2().sum(0).reshape(1).log2()
    shifted = (x - largest).exp2().sum(0).reshape(1).log2() + largest
    assert (plain.has == HAS_E).all() and equal(plain, shifted, "e")
    assert equal((x - plain).exp2(), x.exp2() * x.exp2().sum(0).reshape(1).reciprocal())
    ln_2, log2_e = (STANDARD.embedded(value) for value in (LN_2, LOG2_E))
    assert equal(plain * ln_2 * log2_e, plain, "e"), "back and forth between bases, also where the sum is no square modulo p"
    assert equal(largest * ln_2 + plain * ln_2, (largest + plain) * ln_2, "e")


def test_a_missing_residue_stays_missing() -> None:
    x, nothing = drawn(4), Residues.missing((4,))
    results: list[Any] = [x + nothing, nothing * x, -nothing, nothing.exp2(), nothing.log2(), nothing.reciprocal(), nothing.hashed("rsq"),
                          x.log2().log2(), x.log2().reciprocal(), Constants({}).embedded(0.0).reciprocal(), x.log2() * x.log2()]
    assert all(not result.has.any() for result in results)


def test_hashes_depend_on_name_and_number() -> None:
    x = drawn(100)
    assert equal(x.hashed("rsq"), x.hashed("rsq")) and len(set(x.hashed("rsq").p.tolist())) == 100
    assert not (x.hashed("rsq").p == x.hashed("sin").p).any()


def test_compiled_code_finds_the_same_residues(monkeypatch: pytest.MonkeyPatch) -> None:
    """Powers, and elements with all, some and no residues, of two formats, some of them none."""
    chance, table = np.random.default_rng(3), Elements(STANDARD)
    q, p, e = (drawn(6, 9, seed=seed).q for seed in (1, 2, 3))
    mixed = Residues.of(q, p, e, chance.integers(0, 8, (6, 9), np.uint8))
    ids = table.made(mixed, "f32")
    ids[2], ids[3] = 0, table.made(mixed, "f16")[3]
    base, whole = drawn(5, 7).q, table.made(drawn(3, 4), "f32")
    found = []
    for compiled in (False, True):
        for module in ("residues", "elements"):
            monkeypatch.setattr(f"asmgen.emulator.algebra.{module}.loaded", lambda compiled=compiled: compiled)
        numbers = [table.numbers(one, "f32", lambda: 1.0) for one in (ids, ids[:, ::2], whole, whole[0, 0])]
        found.append([getattr(one, name) for one in numbers for name in ("q", "p", "e", "has")] +
                     [power(base, exponent, P) for exponent in (base[0], P - 2, 0)] +
                     [powers_of_two(one) for one in (q, q[:, ::2], q[0, 0], np.array([0, 1, Q - 1], np.uint64))] +
                     [inverted(one, P) for one in (p, p[:, ::2], p[0, :1], p[0, :0], np.array([0, 1, P, P - 1, 5, 0], np.uint64))])
    for one, other in zip(*found, strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape and (one == other).all()
