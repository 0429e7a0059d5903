"""Data with NaN, infinities, subnormal numbers, zeros and ties: what it holds, how it is compared, that nearly all of it still counts."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from asmgen.author.contract.problem import Output, Problem
from asmgen.kernels.registry import family
from asmgen.tools.running.build import build_kernel
from asmgen.tools.running.runner import judge, run_kernel

SHAPE = {"m": 40, "n": 48, "k": 128}


def product(name: str, build: dict[str, Any], seed: int, **run: Any) -> Problem:
    library = family(name)
    return library.problem(library.contract("gfx950", build).resolve_run({**build, **SHAPE, **run}), seed)


def wide(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array.astype(np.float64)


@pytest.mark.parametrize(("name", "build"), [("gemm-bf16", {}), ("gemm-bf16", {"dtype": "f16", "out": "f32", "bias": "row"}),
                                             ("gemm-fp8", {"a_dtype": "e5m2", "scales": "row"})])
def test_seeds_hold_odd_numbers_in_few_places(name: str, build: dict[str, Any]) -> None:
    made = product(name, build, 2, lda=160, beta=1.0)
    a, c, (d,) = wide(made.arguments["a"]), wide(made.arguments["c"]), made.outputs
    assert np.isnan(a[:, 128:]).all() and np.isnan(a[:, :128]).sum() == 1 and np.isinf(a[:, :128]).sum() == 1
    normal = {"bfloat16": 2.0**-120, "float16": 2.0**-14, "float8_e5m2": 2.0**-14}[made.arguments["a"].dtype.name]
    sizes = np.abs(a[:, :128])
    assert ((sizes > 0) & (sizes < normal)).sum(axis=1).max() > 50  # about half of a row
    assert (np.signbit(a) & (a == 0)).any() and np.isnan(c).sum() == 1 and np.isinf(c).sum() == 1
    assert 0.02 < np.isnan(d.expected).mean() < 0.1 and 0.01 < np.isinf(d.expected).mean() < 0.1
    assert np.isfinite(d.tolerance[np.isfinite(d.expected)]).all()
    finite = product(name, build, 3, lda=160, beta=1.0)
    assert all(np.isfinite(wide(value)).all() for value in finite.arguments.values() if isinstance(value, np.ndarray))
    a = np.abs(wide(finite.arguments["a"]))
    assert ((a > 0) & (a < normal)).sum(axis=1).max() > 50 and 0.03 < (a == 0).mean() < 0.1


def test_what_may_not_be_read_is_nan() -> None:
    made = product("gemm-bf16", {}, 0)
    assert np.isnan(wide(made.arguments["c"])).all() and np.isnan(wide(made.arguments["bias"])).all()


def test_a_row_is_exact_and_holds_ties() -> None:
    """Its products are 1.5 b; those halfway between two numbers of bf16 are expected at the even one, and nothing else passes. The
    same of columns: all accumulators of a fragment meet some."""
    made = product("gemm-bf16", {}, 5)
    (d,) = made.outputs
    exact_of = np.asarray(d.tolerance == 0)
    row, columns = np.flatnonzero(exact_of.all(axis=1))[0], np.flatnonzero(exact_of.all(axis=0))
    assert len(columns) == len({column // 16 for column in columns}) == 3 and exact_of.all(axis=1).sum() == 2
    a, b = wide(made.arguments["a"])[row], wide(made.arguments["b"])
    (at,) = np.flatnonzero(a)
    exact = (1.5 * b[:, at]).astype(np.float32)
    low = exact.view(np.uint32) & 0xFFFF
    ties = low == 0x8000
    assert a[at] == 1.5 and ties.sum() >= 8
    truncated = (exact.view(np.uint32) & 0xFFFF0000).view(np.float32)
    away = (truncated.view(np.uint32) + np.where(ties, 0x10000, 0)).astype(np.uint32).view(np.float32)
    even = (truncated.view(np.uint32) >> 16) % 2 == 0
    assert (d.expected[row][ties & even] == truncated[ties & even]).all() and (d.expected[row][ties & ~even] == away[ties & ~even]).all()
    assert (ties & even).any() and (ties & ~even).any()


def rounded(output: Output) -> np.ndarray[Any, Any]:
    found: np.ndarray[Any, Any] = output.expected.astype(ml_dtypes.bfloat16)
    return found


def test_one_element_that_differs_fails() -> None:
    """A number for a NaN, a NaN for a number, an infinity of the other sign, a tie rounded the other way, each alone."""
    made = product("gemm-bf16", {}, 6)
    (d,) = made.outputs
    before = made.arguments["d"]
    good = rounded(d)
    assert judge(d, before, good)[2] <= 1.0
    places = {"nan": np.isnan(d.expected), "infinity": np.isinf(d.expected), "number": np.isfinite(d.expected) & (d.tolerance > 0),
              "exact": (d.tolerance == 0) & np.isfinite(d.expected) & (d.expected != 0)}
    for what, mask in places.items():
        at = tuple(np.argwhere(mask)[0])
        for wrong in {"nan": (0.0, np.inf), "infinity": (-d.expected[at], 3e38, np.nan), "number": (np.nan, np.inf),
                      "exact": (d.expected[at] * (1 + 2.0**-7),)}[what]:
            bad = good.copy()
            bad[at] = wrong
            assert bad[at].tobytes() != good[at].tobytes() and not judge(d, before, bad)[2] <= 1.0, (what, wrong)


def test_attention_has_one_query_of_nan_and_one_of_huge_scores() -> None:
    library = family("attention-forward")
    p = library.contract("gfx950").resolve_run({"hq": 2, "sq": 40, "lse": True})
    o, lse = library.problem(p, 0).outputs
    assert np.isnan(lse.expected).sum() == 1 and (np.isnan(o.expected).any(axis=-1) == np.isnan(lse.expected)).all()
    huge = np.isfinite(lse.expected) & (np.abs(lse.expected) > 1e20)  # whose scores are single products, so its bound is as tight
    assert huge.sum() == 1 and (o.tolerance[huge] < 0.1).all()
    v = wide(library.problem(p, 0).arguments["v"])
    assert ((v != 0) & (np.abs(v) < 2.0**-126)).any() and (np.signbit(v) & (v == 0)).any()
    finite = library.problem(p, 1).outputs[0]
    steep = library.contract("gfx950").resolve_run({"hq": 1, "sq": 1, "sk": 640, "softmax_scale": 1.0})
    q, k = (wide(library.problem(steep, 1).arguments[name]).reshape(-1, 128) for name in "qk")
    largest = (k @ q[0]).reshape(10, 64).max(axis=1)
    assert (largest[-1] - largest[0]) > 30 > 5 * np.log(2) and np.argmax(largest) >= 7  # a lazy build raises its maximum on the way
    assert np.isfinite(finite.expected).all() and (finite.tolerance > 2.0**-126).all()  # subnormal V is flushed


@pytest.mark.parametrize(("name", "arch", "build", "run"), [
    ("gemm-bf16", "gfx942", {}, {"m": 128, "n": 128, "k": 64}), ("gemm-fp8", "gfx950", {"a_dtype": "e5m2", "scales": "row"}, SHAPE),
    ("attention-forward", "gfx950", {"d": 64, "lse": True}, {"hq": 1, "sq": 40})])
@pytest.mark.slow_after_first
def test_kernels_pass_with_odd_numbers(name: str, arch: str, build: dict[str, Any], run: dict[str, Any]) -> None:
    library = family(name)
    built = build_kernel(library, arch, build)
    parameters = library.contract(arch, build).resolve_run({**build, **run})
    report = run_kernel(library, built, parameters, "emulator", program=built.kernel.program)
    assert report.passed and not report.findings


def test_an_output_without_elements_is_right() -> None:
    """Of sequences that are all empty, say; bytes around it still must stay."""
    none = Output("d", np.zeros((0, 8)), 1.0, (slice(0),))
    assert judge(none, np.ones((4, 8), np.float32), np.ones((4, 8), np.float32)) == (0.0, 0.0, 0.0, True)
    assert not judge(none, np.ones((4, 8), np.float32), np.zeros((4, 8), np.float32))[3]
