"""Terms in many samples at once: each number is what the term is by Python's integers; and terms of two launches have the same names."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from asmgen.emulator.machine.floatmode import float_mode
from asmgen.emulator.semantics.floats import FLOAT
from asmgen.emulator.semantics.valuconversions import CONVERT
from asmgen.emulator.terms.identities import Identities
from asmgen.emulator.terms.polynomials import WORD, Polynomials, Term
from asmgen.emulator.terms.termwords import FUNCTIONS as INTEGERS
from asmgen.tools.proofs.termvalues import Makings, TermValues

FUNCTIONS = ("min", "max", "and32", "xor32", "or32", "shr32", "ones32", "v_rcp_iflag_f32")


class TermFunctions(dict[str, Any]):
    """The functions that terms are made of, number by number; those of floats by the emulator's semantics."""

    def __init__(self) -> None:
        super().__init__(INTEGERS)

    def __missing__(self, name: str) -> Any:
        function = FLOAT.get(name) or CONVERT[name]
        source = np.float32 if name.endswith("f32") else np.uint32

        def computed(*given: int) -> int:
            with np.errstate(all="ignore"):
                result = function(float_mode(0x3C0), *(np.array([one], np.uint32).view(source) for one in given))
            return int(np.asarray(result).view(np.uint32)[0])

        return computed


def drawn(algebra: Polynomials, names: list[str], chance: random.Random, steps: int) -> Term:
    """Sums, products, quotients and functions of what came before, some of more than 128 bits and some negative."""
    bits = [algebra.variable(f"item.{place}", 0, 1) for place in range(3)]
    terms = [*(algebra.variable(name, 0, WORD - 1) for name in names), *bits, algebra.xor_bits(bits[0], bits[2])]
    for _ in range(steps):
        one, other = chance.choice(terms), chance.choice(terms)
        kind = chance.choice(("add", "mul", "quotient", *FUNCTIONS))
        if kind == "add":
            made = algebra.add(algebra.times(one, chance.choice((1, 5, WORD, -3))), other)
        elif kind == "mul":
            made = algebra.mul(one, other)
        elif kind == "quotient":
            made = algebra.quotient(one, chance.choice((1, 32, 48)))
        else:
            operands = (one, other)[:1 if kind in ("ones32", "v_rcp_iflag_f32") else 2]
            made = algebra.function(kind, *(algebra.truncated(part, 32) for part in operands))
        terms.append(made)
    return terms[-1]


@pytest.mark.parametrize("seed", range(40))
def test_each_sample_is_what_integers_say(seed: int) -> None:
    algebra, chance = Polynomials(), random.Random(seed)
    term = drawn(algebra, ["x", "y", "z"], chance, 12)
    given = {number: np.array([chance.choice((0, variable.high, chance.randint(0, variable.high))) for _ in range(9)])
             for number, variable in enumerate(algebra.variables) if variable.given}
    values = TermValues(Makings(algebra), given, 9)
    assert values.of(term, np.array([7, 2])).tolist() == values.of(term)[[7, 2]].tolist()
    for sample in range(9):
        numbers = {number: int(row[sample]) for number, row in given.items()}
        assert int(values.of(term)[sample]) == algebra.value(term, {**numbers}, TermFunctions())


def test_what_is_not_given_is_not_known() -> None:
    algebra = Polynomials()
    with pytest.raises(KeyError, match="x"):
        TermValues(Makings(algebra), {}, 1).of(algebra.variable("x", 0, 9))


def test_0_times_what_64_bits_do_not_hold_is_0() -> None:
    """As of a lane mask that is shifted out."""
    algebra = Polynomials()
    term = algebra.variable("x", 0, 1)
    values = TermValues(Makings(algebra), {term[0][0][0]: np.array([0, 0])}, 2)
    assert values.of(algebra.times(term, 1 << 64)).tolist() == [0, 0]


def test_terms_of_two_launches_have_the_same_names() -> None:
    """Their variables have other numbers; another constant, function or argument is another term."""
    names = set[bytes]()
    for seed in range(12):
        same = set[bytes]()
        for order in (["x", "y", "z"], ["y", "x", "z"]):
            algebra = Polynomials()
            for name in order:
                algebra.variable(name, 0, WORD - 1)
            term = drawn(algebra, ["x", "y", "z"], random.Random(seed), 9)
            same.add(Identities(algebra).of(term))
        assert len(same) == 1
        names |= same
    assert len(names) == 12


def test_a_short_sum_of_long_products_is_exact() -> None:
    """x y - 2^64 floor(x y / 2^64) has up to 64 bits, of which words have 63: with x from 2^80 on and y = 3 2^50, small and large ones."""
    algebra = Polynomials()
    x, y = (algebra.variable(name, 0, 1 << 90) for name in "xy")
    whole = algebra.mul(x, y)
    rest = algebra.add(whole, algebra.times(algebra.quotient(whole, 64), -(1 << 64)))
    numbers = [((1 << 80) + more, 3 << 50) for more in (0, 1, 4097, (1 << 14) - 1)]
    given = {number: np.array([row[place] for row in numbers], object) for place, number in enumerate((x[0][0][0], y[0][0][0]))}
    assert TermValues(Makings(algebra), given, 4).of(rest).tolist() == [one * other % (1 << 64) for one, other in numbers]
