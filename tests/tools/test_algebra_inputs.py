"""What a reference in exact residues is given: elements of arrays, packed numbers, declared ratios, residues that others decide."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from asmgen.emulator.algebra.residues import HAS_E, HAS_P, HAS_Q, STANDARD, Constants, P, Q, Residues
from asmgen.isa.errors import AsmgenError
from asmgen.tools.proofs.algebrarun import Inputs, compared


def inputs(**arguments: Any) -> Inputs:
    return Inputs(arguments, Constants(dict(STANDARD.declared)), np.random.default_rng(0), {})


def test_elements_are_drawn_once_and_each_is_its_own() -> None:
    given = inputs(a=np.zeros((3, 4), ml_dtypes.bfloat16))
    a = given["a"]
    assert a.shape == (3, 4) and a is given["a"] and len(set(a.q.reshape(-1).tolist())) == 12
    assert given.arrays["a"][1] == "bf16" and (a.has == HAS_Q | HAS_P).all()


def test_packed_numbers_have_the_shape_of_the_numbers() -> None:
    given = inputs(a=np.zeros((3, 16), np.int8))
    assert given.packed("a", "fp4").shape == (3, 32)
    with pytest.raises(AsmgenError, match="a is an array of int8, which has no residues"):
        inputs(a=np.zeros(3, np.int8))["a"]


def test_a_declared_ratio_is_exact() -> None:
    given = inputs()
    third = given.number(1 / 3)
    given.declare(1 / 3, 1, 3)
    exact = given.number(1 / 3)
    assert int(exact.q) * 3 % Q == 1 and int(exact.p) * 3 % P == 1 and int(third.q) != int(exact.q)
    assert int((exact + given.number(-4 / 3) + given.number(1.0)).q) == 0, "its sign and powers of two too"
    assert int(inputs().number(1 / 3).q) == int(third.q), "of one run alone"


def test_given_residues_are_what_a_reference_says() -> None:
    given = inputs(lse=np.zeros(4, np.float32), x=np.zeros((4, 8), np.float32))
    total = given["x"].exp2().sum(1)
    given.give("lse", total.log2())
    assert (given["lse"].has == HAS_E).all()
    assert ((given["x"] - given["lse"].reshape(4, 1)).exp2().sum(1).p == 1).all()


def test_what_differs_and_what_is_missing_are_counted_apart() -> None:
    numbers = Residues.random(np.random.default_rng(1), (2, 5))
    values = np.zeros((2, 5))
    assert compared("d", numbers, numbers, values) is None
    wrong = numbers.where(np.arange(10).reshape(2, 5) != 7, numbers + numbers)
    missing = wrong.where(np.arange(10).reshape(2, 5) != 8, Residues.missing((2, 5)))
    found = compared("d", numbers, missing, values)
    assert found is not None and (found.wrong, found.missing, found.elements, found.first) == (1, 1, 10, (1, 2))
    assert "of 10 elements 1 differ from the reference and 1 have no residue; the first is at [1, 2]" in found.sentence()
    nothing = Residues.missing((2, 5))
    assert compared("lse", nothing, nothing, np.full((2, 5), -np.inf)) is None
    assert compared("lse", nothing, nothing, values) is not None, "a number where the reference has an infinity"
