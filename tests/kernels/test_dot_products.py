"""Products of a few rows by dot products: right on drawn shapes, the same bits in any order, and no instruction for nothing."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from asmgen.author.contract.contract import ContractError
from asmgen.emulator.scheduling.run import Options
from asmgen.kernels.registry import family
from asmgen.tools.mutate import on_emulator, score
from asmgen.tools.running.build import Built, build_kernel, lint_errors
from asmgen.tools.running.executed import executed
from asmgen.tools.running.runner import RunReport, run_kernel
from asmgen.tuning.candidates import candidates


def dots(tile: str, **more: Any) -> dict[str, Any]:
    return {"tile": tile, "schedule": "dot-products", **more}


BUILDS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("gemm-bf16", "gfx950", dots("1x4x1024", preload=True, bias="column")),
    ("gemm-bf16", "gfx950", dots("4x8x512", dtype="f16", out="f32", d_layout="column", c_layout="column")),
    ("gemm-bf16", "gfx942", dots("4x4x512", out="f16")),
    ("gemm-fp8", "gfx950", dots("4x16x1024", scales="row", b_dtype="e5m2")),
    ("gemm-fp8", "gfx942", dots("1x2x2048", scales="row", pointers=True)),
    ("gemm-bf16", "gfx942", dots("4x4x512", any_stride=True)),
    ("gemm-fp8", "gfx950", dots("1x4x1024", any_stride=True, d_layout="column", c_layout="column")),
    ("gemm-bf16", "gfx950", dots("4x4x512", preload=True, bias="row")),
)
ODD_BF16, ODD_FP8 = 5, 6  # whose strides are any


@cache
def built(number: int) -> Built:
    name, arch, build = BUILDS[number]
    return build_kernel(family(name), arch, build)


def run(number: int, shape: dict[str, Any], order: str = "lockstep", seed: int = 0) -> RunReport:
    one = built(number)
    parameters = one.kernel.contract.resolve_run({**one.kernel.parameters, **shape})
    return run_kernel(family(BUILDS[number][0]), one, parameters, "emulator", seed, Options(order=order), program=one.kernel.program)


@given(number=st.integers(0, len(BUILDS) - 1), m=st.integers(1, 9), n=st.integers(1, 24), k=st.integers(1, 5200),
       apart=st.sampled_from((0, 1, 16)), batch=st.sampled_from((1, 1, 2)), alpha=st.sampled_from((1.0, 1.0, -0.5)),
       beta=st.sampled_from((0.0, 0.0, 2.0)), order=st.sampled_from(("lockstep", "serial", "random:5")), seed=st.integers(0, 99))
@settings(max_examples=12, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@pytest.mark.slow
def test_right_on_drawn_shapes(number: int, m: int, n: int, k: int, apart: int, batch: int, alpha: float, beta: float, order: str,
                               seed: int) -> None:
    """K of no whole step, of one, of rounds of the loop and a tail of single elements; NaN and infinities by even seeds."""
    lda, ldb = (k + apart, k + 2) if number in (ODD_BF16, ODD_FP8) else (-(-k // 16) * 16 + 16 * apart,) * 2
    report = run(number, {"m": m, "n": n, "k": k, "lda": lda, "ldb": ldb, "batch": batch, "alpha": alpha, "beta": beta}, order, seed)
    assert report.passed and report.findings == (), report


@pytest.mark.parametrize(("kernel", "arch"), [("gemm-bf16", "gfx942"), ("gemm-fp8", "gfx950")])
def test_few_columns_have_them_as_candidates(kernel: str, arch: str) -> None:
    """Fewer tiles than compute units, so that other variants try parts of K, which these do not have."""
    found = candidates(family(kernel), arch, {"m": 1, "n": 256, "k": 4096}, 256)
    assert any(one.build["schedule"] == "dot-products" and one.build["preload"] for one in found)


def test_odd_strides_of_few_rows_have_builds_of_their_own() -> None:
    """For more rows, and where they are not asked for, the contract wants whole dwords."""
    library, line = family("gemm-bf16"), {"n": 256, "k": 4097}
    found = {m: candidates(library, "gfx950", {"m": m, **line}, 256) for m in (4, 5)}
    assert {one.build["any_stride"] for one in found[4] if one.build["schedule"] == "dot-products"} == {True}
    assert {one.build["schedule"] for one in found[5]} == {"elements"}
    whole = {"lda": 4098, "ldb": 4098}
    for more, any_stride in (({"ldb": 4098}, True), (whole, False), (whole | {"any_stride": True}, True)):
        values = library.contract("gfx950", {"m": 4, **line, **more, **dots("4x8x512")}).resolve_run({"m": 4, **line, **more})
        assert values["any_stride"] == any_stride
    for more in ({"m": 5}, {"m": 4, "any_stride": False}):
        with pytest.raises(ContractError, match="lda must be a multiple of 2, got 4097"):
            library.contract("gfx950", {**more, **line, **dots("4x8x512")}).resolve_run({**more, **line})


@pytest.mark.parametrize(("number", "lda", "ldb"), [
    (ODD_BF16, 1031, 1030), pytest.param(ODD_FP8, 1027, 1025, marks=pytest.mark.slow)])
def test_rows_that_begin_inside_of_dwords(number: int, lda: int, ldb: int) -> None:
    """With NaN after the last column, which lies in a dword with it; whole steps alone, and lanes of both sorts after the loop."""
    for k, batch in ((1024, 1), (1021, 2)):
        report = run(number, {"m": 3, "n": 5, "k": k, "lda": lda, "ldb": ldb, "batch": batch}, "random:3")
        assert report.passed and report.findings == (), report


@pytest.mark.parametrize("k", [1, 1024, 1024 * 7 + 9])
def test_the_same_bits_in_each_order_of_waves(k: int) -> None:
    line = -(-k // 8) * 8
    reports = [run(0, {"m": 3, "n": 9, "k": k, "lda": line, "ldb": line}, order) for order in ("lockstep", "random:3")]
    assert all(report.passed and not report.findings for report in reports)
    assert len({report.digest for report in reports}) == 1


@pytest.mark.slow
def test_waits_are_needed_and_all_code_is_reached() -> None:
    one = built(0)
    assert not any(lint_errors(built(number)) for number in range(len(BUILDS)))
    found = score(one.kernel.name, one.kernel.program, on_emulator(family("gemm-bf16"), one, one.kernel))
    assert found.total["wait"] > 5 and found.survivors == ()
    whole, cut = {"m": 1, "n": 4}, {"m": 2, "n": 7, "batch": 2, "lda": 3600, "ldb": 3600}
    launches = [cut | {"k": 1029, "beta": 2.0}, cut | {"k": 3590}, whole | {"k": 16}, whole | {"k": 1024, "beta": 0.5}]
    launches += [whole | {"k": k, "lda": 520, "ldb": 520} for k in (1, 3, 7, 513, 515, 517, 519)]
    launches += [whole | {"k": 1024 * steps} for steps in range(2, 8)]
    reports = [run(0, launch) for launch in launches]
    assert all(report.passed for report in reports)
    counts = [report.launches[0].result.counts for report in reports]
    assert executed(one.kernel.program, counts).missing == tuple(range(5)), "the entry of firmware that preloads nothing"
    odd = built(ODD_BF16)
    reports = [run(ODD_BF16, {"m": 4, "n": 5, "k": k, "lda": 4097, "ldb": 4097, "batch": 2, "beta": 2.0}) for k in range(9, 4097, 512)]
    reports += [run(ODD_BF16, {"m": 4, "n": n, "k": 9, "beta": beta}) for n in (4, 5) for beta in (0.0, 0.5)]
    assert all(report.passed for report in reports)
    assert executed(odd.kernel.program, [report.launches[0].result.counts for report in reports]).missing == ()


def test_an_only_corner_stands_in_no_loop() -> None:
    """A loop over the corners of a wave's accumulators goes round where there are several, as in the default product."""
    program, several = built(7).kernel.program, build_kernel(family("gemm-bf16"), "gfx950", {}, verify=False).kernel.program
    rounds = [[one.target for one in judged.instructions if (one.target or "").startswith("corner_")] for judged in (program, several)]
    assert any(label.startswith("of_corner") or label.startswith("next_corner") for label in program.labels)
    assert not rounds[0] and rounds[1]
