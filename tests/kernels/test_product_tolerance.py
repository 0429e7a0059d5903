"""The tolerance of matrix products: wide enough for sums of one sign at the longest K, tight enough for one wrong product."""

from __future__ import annotations

import copy
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from asmgen.author.contract.contract import Values
from asmgen.author.contract.problem import Problem
from asmgen.emulator.scheduling.run import Options
from asmgen.kernels.products.problem import with_result
from asmgen.kernels.products.sums import Sums, sums
from asmgen.kernels.registry import family
from asmgen.tools.running.build import build_kernel
from asmgen.tools.running.runner import run_kernel

LONG = 65536
TYPES: dict[str, Any] = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "e4m3": ml_dtypes.float8_e4m3fn}


def operands(p: Values, taken: str, random: np.random.Generator, one_sign: bool = True) -> tuple[dict[str, Any], Sums]:
    """A and B between 0.5 and 2, or random normal."""
    a, b = (random.uniform(0.5, 2.0, (p[rows], p["k"])) if one_sign else random.standard_normal((p[rows], p["k"])) for rows in "mn")
    given = {"a": a.astype(TYPES[taken]), "b": b.astype(TYPES[taken])}
    return given, sums(given["a"].astype(np.float64), given["b"].astype(np.float64), 128 if taken == "e4m3" else 16)


@pytest.mark.parametrize(("name", "build", "taken", "run"), [
    ("gemm-bf16", {"tile": "64x64x64", "out": "f32"}, "bf16", {}),
    ("gemm-bf16", {"tile": "64x64x64", "dtype": "f16", "out": "f16"}, "f16", {"alpha": 2.0**-6}),
    ("gemm-fp8", {"tile": "64x64x128", "out": "bf16"}, "e4m3", {})])
@pytest.mark.slow
def test_sums_of_one_sign_at_the_longest_k(name: str, build: dict[str, Any], taken: str, run: dict[str, Any]) -> None:
    """A bound of 2^-20 sum|a||b| alone was too tight for these: f32 out of bf16 is off by twice as much."""
    def problem(p: Values, seed: int) -> Problem:
        random = np.random.default_rng(seed)
        given, product = operands(p, taken, random)
        one = np.ones(1, np.float32)
        return with_result(p, random, given | ({"a_scale": one, "b_scale": one} if taken == "e4m3" else {}), lambda number: product)

    library = copy.copy(family(name))
    library.problem = problem
    built = build_kernel(library, "gfx950", build)
    parameters = library.contract("gfx950", build).resolve_run({**build, **run, "m": 16, "n": 16, "k": LONG})
    report = run_kernel(library, built, parameters, "emulator", options=Options(checks=False), program=built.kernel.program)
    assert report.passed and report.worst > 0.005


def accumulated(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], depth: int, tree: bool) -> np.ndarray[Any, Any]:
    """A x B^T added up in float32 by instructions of `depth` products: each sum rounded once, or its products added as a tree first."""
    found = np.zeros((len(a), len(b)), np.float32)
    for first in range(0, a.shape[1], depth):
        products = (a[:, None, first:first + depth].astype(np.float64) * b[None, :, first:first + depth])
        if tree:
            parts = products.astype(np.float32)
            while parts.shape[-1] > 1:
                parts = parts[..., ::2] + parts[..., 1::2]
            found = found + parts[..., 0]
        else:
            found = (found.astype(np.float64) + products.sum(axis=-1)).astype(np.float32)
    return found


@pytest.mark.parametrize("one_sign", [True, False])
@pytest.mark.parametrize("tree", [True, False])
def test_the_bound_holds_however_an_instruction_adds(tree: bool, one_sign: bool) -> None:
    p = {"m": 3, "n": 5, "k": LONG}
    given, product = operands(p, "bf16", np.random.default_rng(1), one_sign)
    a, b = (given[name].astype(np.float64) for name in "ab")
    off = np.abs(accumulated(a, b, 16, tree) - product.value)
    bound = 2.0**-24 * product.rounded + 16 * 2.0**-24 * product.size
    assert (off < bound).all()
    np.testing.assert_allclose(product.value, a @ b.T, rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(product.size, np.abs(a) @ np.abs(b).T, rtol=1e-12)


def test_partial_sums_are_those_of_the_definition() -> None:
    """Four instructions of two products: 1 + 2, -4 + 1, 0 + 5, 1 - 6 give partial sums of 3, 0, 5, 0."""
    found = sums(np.array([[1.0, 2, -4, 1, 0, 5, 1, -6]]), np.ones((1, 8)), 2)
    assert (found.value.item(), found.size.item(), found.rounded.item()) == (0.0, 20.0, 8.0)


def test_long_sums_are_bounded_from_above() -> None:
    """Where K is cut into parts of several instructions, never less than the partial sums of all."""
    random = np.random.default_rng(2)
    left, right = random.standard_normal((2, 640)), random.standard_normal((3, 640))
    partial = np.cumsum((left[:, None] * right[None]).reshape(2, 3, 40, 16).sum(axis=-1), axis=-1)
    found = sums(left, right, 16).rounded
    assert (found >= np.abs(partial).sum(axis=-1) - 1e-9).all() and (found < 40 * sums(left, right, 16).size).all()


@pytest.mark.parametrize(("out", "k", "least"), [("f32", 256, 0.99), ("f16", 256, 0.95), ("bf16", 256, 0.75), ("f32", 4096, 0.95)])
def test_one_wrong_product_is_beyond_the_tolerance(out: str, k: int, least: float) -> None:
    """A product that is left out, or made with the neighbour's element, for nearly all places; where it is small by itself it is not."""
    p: dict[str, Any] = {"m": 16, "n": 24, "k": k, "batch": 1, "lda": k, "ldb": k, "ldc": 24, "ldd": 24, "alpha": 1.0, "beta": 0.0,
                         "bias": "none", "out": out}
    random = np.random.default_rng(3)
    given, product = operands(p, "bf16", random, one_sign=False)
    (output,) = with_result(p, random, given, lambda number: product).outputs
    a, b = (given[name].astype(np.float64) for name in "ab")
    at = random.integers(0, k - 1, output.expected.shape)
    rows, columns = np.indices(output.expected.shape)
    for wrong in (np.zeros(at.shape), a[rows, at + 1] * b[columns, at]):
        off = np.abs(wrong - a[rows, at] * b[columns, at])
        assert (off > 2 * output.tolerance).mean() > least
