"""Products whose K is no whole steps: the columns after the last step are multiplied after the loop, and nothing after them is used."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import asmgen as ag
from asmgen.author.contract.contract import ContractError
from asmgen.emulator.scheduling.run import Options
from asmgen.kernels.registry import family
from asmgen.tools.running.build import Built, build_kernel
from asmgen.tools.running.executed import executed, stretches
from asmgen.tools.running.runner import RunReport, run_kernel

NONFINITE = next(seed for seed in range(99) if ag.holds_nonfinite(seed))
"""A seed whose data have NaN after each row and line of A and B."""
SMALL = {"tile": "32x32x64", "schedule": "interleave"}
CASES = [
    ("gemm-bf16", "gfx950", SMALL | {"split_k": 3}, (7, 130)),
    ("gemm-bf16", "gfx950", SMALL | {"a_layout": "column", "dtype": "f16"}, (65, 64)),
    ("gemm-bf16", "gfx950", {"tile": "16x16x64", "schedule": "in-order", "split_k": 2}, (9, 331)),
    ("gemm-bf16", "gfx942", {"tile": "64x64x64", "schedule": "interleave", "b_layout": "column"}, (99, 100, 128)),
    ("gemm-fp8", "gfx950", {"tile": "32x32x128", "schedule": "interleave", "b_layout": "column", "d_layout": "column",
                            "c_layout": "column", "scales": "row"}, (129, 255)),
    ("gemm-fp8", "gfx942", {"tile": "16x32x128", "schedule": "in-order"}, (131,)),
]


@cache
def _built(name: str, arch: str, build: tuple[tuple[str, Any], ...]) -> Built:
    return build_kernel(family(name), arch, {**dict(build), "any_k": True})


def _strides(build: dict[str, Any], m: int, n: int, k: int) -> dict[str, int]:
    lines = {"a": m if build.get("a_layout") == "column" else k, "b": n if build.get("b_layout") == "column" else k}
    return {f"ld{name}": -(-line // 16) * 16 + 16 for name, line in lines.items()}


@pytest.mark.parametrize(("name", "arch", "build", "depths"), [
    *(pytest.param(*case, marks=pytest.mark.slow) for case in CASES[:-1]), CASES[-1]], ids=lambda one: str(one)[:40])
def test_any_k_is_served(name: str, arch: str, build: dict[str, Any], depths: tuple[int, ...]) -> None:
    """Depths below a step, one column after a step, one before the next, with parts that have the K tail alone or none of it; even ones
    with whole tiles, whose epilogue overlaps the last step where there is no tail. Scales of blocks are those of each of two matrices."""
    one = _built(name, arch, tuple(build.items()))
    for k in depths:
        m, n = (int(size) for size in build["tile"].split("x")[:2])
        if k % 2:
            m, n = 36, 20
        _launched(one, name, {"m": m, "n": n, "k": k, **_strides(build, m, n, k)})


def _launched(one: Built, name: str, shape: dict[str, Any]) -> RunReport:
    parameters = one.kernel.contract.resolve_run({**one.kernel.parameters, **shape})
    report = run_kernel(family(name), one, parameters, "emulator", NONFINITE, Options(order="random:5"), program=one.kernel.program)
    assert report.passed and report.untouched and not report.findings, (shape, report)
    return report


C_AND_D: dict[str, Any] = {"beta": 1.0, "alpha": 0.5}
APART = {**C_AND_D, "ldc": 1001, "ldd": 1003}
BLOCKS: list[tuple[dict[str, Any], list[tuple[int, dict[str, Any]]]]] = [
    ({"tile": "16x32x128", "split_k": 2}, [(3, {}), (2115, {})]),
    ({"tile": "32x64x128", "b_layout": "column"}, [(3, {}), (1535, C_AND_D)]),
    ({"tile": "256x128x128", "a_layout": "column", "b_layout": "column"}, [(175, {}), (256, {}), (512, C_AND_D), (640, APART)]),
    ({"tile": "128x256x128", "b_layout": "column", "split_k": 3}, [(475, {}), (1792, {})]),
    ({"tile": "128x256x128"}, [(179, {}), (256, {}), (512, C_AND_D), (640, APART)]),
]
"""Builds with scales of blocks, and K of launches that execute all of their code, with what else each asks for."""


@pytest.mark.parametrize("case", range(len(BLOCKS)))
@pytest.mark.slow_after_first
def test_scales_of_blocks_execute_each_instruction(case: int) -> None:
    """Where K is even tiles are whole, where it is odd they are parts: of both halves, and of two blocks of B. Of small tiles scales are
    those of each of two matrices."""
    build, launches = BLOCKS[case]
    build = {"scales": "block", **build}
    one = _built("gemm-fp8", "gfx950", tuple(build.items()))
    counts = []
    for k, more in launches:
        m, n = (int(size) for size in build["tile"].split("x")[:2])
        if k % 2:
            m, n = m - 28 if m > 28 else 9, 140
        shape = {"m": m, "n": n, "k": k, "batch": 2 if m < 64 else 1, **_strides(build, m, n, k), **more}
        counts.append(_launched(one, "gemm-fp8", shape).launches[0].result.counts)
    missing = executed(one.kernel.program, counts).missing
    assert not missing, [*stretches(one.kernel.program, missing)]


def test_a_request_decides_whether_a_build_takes_any_k() -> None:
    """A k of whole steps has none; one that is not gets one, from the first variant; a build without refuses such a k."""
    library = family("gemm-bf16")
    for k, any_k in ((256, False), (200, True), (8, True), (np.int64(72), True)):
        contract = library.contract("gfx950", {"m": 64, "n": 64, "k": k})
        values = contract.resolve_run({"m": 64, "n": 64, "k": k})
        assert (values["any_k"], values["schedule"]) == (any_k, "interleave")
    with pytest.raises(ContractError, match="k must be a multiple of 64, got 200; 192 and 256 would work"):
        library.contract("gfx950", {"any_k": False, **SMALL}).resolve_run({"m": 64, "n": 64, "k": 200, "ldb": 200, "lda": 200})
    with pytest.raises(ContractError, match="lda must be a multiple of 8"):
        library.contract("gfx950", {"any_k": True, **SMALL}).resolve_run({"m": 64, "n": 64, "k": 201})
    with pytest.raises(ContractError, match="any_k"):
        library.contract("gfx950", {"schedule": "producer-consumer", "any_k": True})
