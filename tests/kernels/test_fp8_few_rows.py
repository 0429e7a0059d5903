"""gemm-fp8 for few rows, whose waves share K, and gemm-fp8 split along K: scales of all kinds, parts and waves without steps."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from asmgen.emulator.scheduling.run import Options
from asmgen.kernels.registry import family
from asmgen.tools.mutate import on_emulator, score
from asmgen.tools.proofs.algebrarun import run_algebra
from asmgen.tools.reach import reach
from asmgen.tools.running.build import Built, build_kernel, lint_errors
from asmgen.tools.running.runner import RunReport, run_kernel

LIBRARY = family("gemm-fp8")
FEW = {"schedule": "in-order"}
BUILDS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("gfx950", FEW | {"tile": "16x32x128", "scales": "row", "preload": True}),
    ("gfx950", FEW | {"tile": "32x32x128", "a_dtype": "e5m2", "bias": "row"}),
    ("gfx950", FEW | {"tile": "64x64x128", "scales": "row", "split_k": 2}),
    ("gfx950", FEW | {"tile": "16x32x128", "scales": "block"}),
    ("gfx950", FEW | {"tile": "32x64x128", "scales": "block", "split_k": 3, "out": "f32"}),
    ("gfx942", FEW | {"tile": "16x32x128", "scales": "row", "split_k": 2}),
    ("gfx942", FEW | {"tile": "32x32x128", "b_dtype": "e5m2"}),
    # tiles of quadrants, split along K
    ("gfx950", {"tile": "64x64x128", "scales": "row", "split_k": 3, "preload": True}),
    ("gfx950", {"tile": "256x128x128", "scales": "block", "split_k": 2}),
    ("gfx942", {"tile": "128x128x128", "split_k": 2, "bias": "row"}),
)


@cache
def built(number: int) -> Built:
    arch, build = BUILDS[number]
    return build_kernel(LIBRARY, arch, build)


def run(number: int, shape: dict[str, Any], order: str = "lockstep", seed: int = 0) -> RunReport:
    one = built(number)
    parameters = one.kernel.contract.resolve_run({**one.kernel.parameters, **shape})
    return run_kernel(LIBRARY, one, parameters, "emulator", seed, Options(order=order, count_banks=True), program=one.kernel.program)


@given(number=st.integers(0, len(BUILDS) - 1), m=st.integers(1, 70), n=st.integers(1, 300), steps=st.integers(1, 13),
       apart=st.sampled_from((0, 16)), alpha=st.sampled_from((1.0, 1.0, -0.5)), beta=st.sampled_from((0.0, 0.0, 2.0)),
       order=st.sampled_from(("lockstep", "serial", "random:5")), seed=st.integers(0, 99))
@settings(max_examples=12, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@pytest.mark.slow
def test_right_on_drawn_shapes(number: int, m: int, n: int, steps: int, apart: int, alpha: float, beta: float, order: str,
                               seed: int) -> None:
    k = 128 * steps
    report = run(number, {"m": m, "n": n, "k": k, "lda": k + apart, "ldb": k + apart, "ldd": n + apart, "ldc": n + apart,
                          "alpha": alpha, "beta": beta}, order, seed)
    assert report.passed and report.findings == () and report.bank_conflicts == 0, report


@pytest.mark.parametrize("number", range(len(BUILDS)))
@pytest.mark.slow_after_first
def test_each_build_with_unequal_parts(number: int) -> None:
    """Seven steps: of three parts the last one has one, of four waves the last one too. Scales are of no power of two and of both signs,
    so that one of another block, row or part is seen."""
    report = run(number, {"m": 35, "n": 140, "k": 7 * 128}, seed=1)
    assert report.passed and report.findings == () and not lint_errors(built(number))


@pytest.mark.parametrize("steps", range(1, 14))
def test_each_number_of_blocks(steps: int) -> None:
    assert run(3, {"m": 3, "n": 33, "k": 128 * steps}, seed=1).passed


@pytest.mark.slow
def test_the_same_bits_in_each_order_of_waves() -> None:
    for number in (2, 4):
        reports = [run(number, {"m": 33, "n": 65, "k": 1152}, order) for order in ("lockstep", "random:3")]
        assert all(report.passed and not report.findings for report in reports) and len({report.digest for report in reports}) == 1


def test_waits_and_the_barrier_are_needed_and_all_code_is_reached() -> None:
    one = built(3)
    found = score(one.kernel.name, one.kernel.program, on_emulator(LIBRARY, one, one.kernel))
    assert found.total["wait"] > 5 and found.total["barrier"] == 1 and found.survivors == ()
    assert [(item.executed.missing, item.wrong) for item in reach(LIBRARY, one)] == [((), ())]


@pytest.mark.slow
def test_exact_in_residues() -> None:
    """Scales, parts and their sums."""
    for number in (2, 4):
        one = built(number)
        p = one.kernel.contract.resolve_run({**one.kernel.parameters, "m": 18, "n": 70, "k": 640})
        assert run_algebra(LIBRARY, one, p).equal
