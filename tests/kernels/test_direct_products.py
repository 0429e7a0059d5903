"""Products of few rows or columns, whose waves share the steps of a workgroup: right on drawn shapes, the same bits in any order."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from asmgen.author.contract.contract import ContractError
from asmgen.codeobject.load import CodeObject
from asmgen.emulator.scheduling.run import Options
from asmgen.kernels.products.partcounts import split_options
from asmgen.kernels.products.split import steps_of_sums
from asmgen.kernels.registry import family
from asmgen.launch.emulated import EmulatedDevice
from asmgen.tools.mutate import on_emulator, score
from asmgen.tools.proofs.algebrarun import run_algebra
from asmgen.tools.reach import reach
from asmgen.tools.running.build import Built, build_kernel, lint_errors
from asmgen.tools.running.runner import RunReport, run_kernel
from asmgen.tuning.started import launch_list

LIBRARY = family("gemm-bf16")


def few(tile: str, **more: Any) -> dict[str, Any]:
    return {"tile": tile, "schedule": "in-order", **more}


BUILDS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("gfx950", few("32x32x64", preload=True)),
    ("gfx950", few("16x16x64", out="f32", bias="row")),
    ("gfx950", few("16x32x64", dtype="f16", out="f16")),
    ("gfx950", few("32x64x32", bias="row")),
    ("gfx950", few("64x64x32", split_k=3, a_layout="column", b_layout="column")),
    ("gfx942", few("32x32x64", split_k=2, bias="row")),
    ("gfx942", few("16x32x64")),
    ("gfx942", few("32x64x32", dtype="f16", out="f32", b_layout="column")),
)


@cache
def built(number: int) -> Built:
    arch, build = BUILDS[number]
    return build_kernel(LIBRARY, arch, build)


def run(number: int, shape: dict[str, Any], order: str = "lockstep", seed: int = 0) -> RunReport:
    one = built(number)
    parameters = one.kernel.contract.resolve_run({**one.kernel.parameters, **shape})
    return run_kernel(LIBRARY, one, parameters, "emulator", seed, Options(order=order, count_banks=True), program=one.kernel.program)


@given(number=st.integers(0, len(BUILDS) - 1), m=st.integers(1, 80), n=st.integers(1, 150), steps=st.integers(1, 21),
       apart=st.sampled_from((0, 0, 8)), alpha=st.sampled_from((1.0, 1.0, -0.5)), beta=st.sampled_from((0.0, 0.0, 2.0)),
       order=st.sampled_from(("lockstep", "serial", "random:5")), seed=st.integers(0, 99))
@settings(max_examples=16, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@pytest.mark.slow
def test_right_on_drawn_shapes(number: int, m: int, n: int, steps: int, apart: int, alpha: float, beta: float, order: str,
                               seed: int) -> None:
    """Waves without steps, with one, with rounds of the loop; NaN and infinities by even seeds."""
    build = BUILDS[number][1]
    k = int(build["tile"].rpartition("x")[2]) * steps
    m, n = (size + size % 2 if f"{name}_layout" in build else size for name, size in (("a", m), ("b", n)))
    lda, ldb = (-(-size // 8) * 8 + apart if f"{name}_layout" in build else k + apart for name, size in (("a", m), ("b", n)))
    report = run(number, {"m": m, "n": n, "k": k, "lda": lda, "ldb": ldb, "ldd": n + apart, "ldc": n + apart,
                          "alpha": alpha, "beta": beta}, order, seed)
    assert report.passed and report.findings == () and report.bank_conflicts == 0, report


def launched(one: Built, p: Mapping[str, Any], arguments: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    """The result of a launch with these arguments."""
    values = {argument.name: arguments[argument.name] for argument in one.kernel.contract.given} | {"d": arguments["d"].copy()}
    launches = launch_list(CodeObject.load(one.code_object), one.kernel.contract, p)
    with EmulatedDevice(one.kernel.resources.arch) as device:
        assert not any(result.findings for result in launches.start(device, values))
    found: np.ndarray[Any, Any] = values["d"][:, :p["n"]].astype(float)
    return found


@pytest.mark.parametrize("steps", range(1, 18))
def test_each_number_of_steps(steps: int) -> None:
    """From one step in all to five a wave: each length of the loop, by each of its entries, and waves that have none."""
    assert run(2, {"m": 3, "n": 20, "k": 64 * steps}, seed=1).passed


@pytest.mark.parametrize(("number", "shape"), [(1, {"m": 17, "n": 30, "k": 576}), (5, {"m": 33, "n": 65, "k": 1152, "beta": 0.5}),
                                              (7, {"m": 33, "n": 66, "k": 96, "ldb": 72})])
@pytest.mark.slow_after_first
def test_the_same_bits_in_each_order_of_waves(number: int, shape: dict[str, Any]) -> None:
    reports = [run(number, shape, order) for order in ("lockstep", "random:3")]
    assert all(report.passed and not report.findings for report in reports)
    assert len({report.digest for report in reports}) == 1


def test_waves_get_neighbouring_steps() -> None:
    """Typed by hand: ceil(steps / 4) each, of each part. What the kernel does so too: only so many steps are multiplied."""
    for k, split, expected in ((64, 1, [1]), (320, 1, [2, 2, 1]), (512, 1, [2, 2, 2, 2]), (576, 2, [2, 2, 1, 1, 1, 1, 1])):
        assert steps_of_sums({"k": k, "split_k": split, "schedule": "in-order"}, 64) == expected
    one = built(2)
    products = [number for number, item in enumerate(one.kernel.program.instructions) if item.name.startswith("v_mfma")]
    counts = run(2, {"m": 1, "n": 1, "k": 320}).launches[0].result.counts
    assert sum(int(counts[number]) for number in products) == 5 * 4, "five steps of two 16 x 16 parts, two instructions each"


@pytest.mark.slow
def test_waits_and_the_barrier_are_needed_and_all_code_is_reached() -> None:
    one = built(3)
    assert not lint_errors(one)
    found = score(one.kernel.name, one.kernel.program, on_emulator(LIBRARY, one, one.kernel))
    assert found.total["wait"] > 5 and found.total["barrier"] == 1 and found.survivors == ()
    assert [(item.executed.missing, item.wrong) for item in reach(LIBRARY, one)] == [((), ())]


@pytest.mark.slow
def test_exact_in_residues() -> None:
    one = built(4)
    p = one.kernel.contract.resolve_run({**one.kernel.parameters, "m": 24, "n": 72, "k": 320})
    assert run_algebra(LIBRARY, one, p).equal


def test_lines_have_a_dword_for_each_row_of_a_fragment() -> None:
    """32 columns of bf16 are 64 bytes, and 16 are 32: a tile of 16 rows takes the other side by columns alone."""
    shape = {"m": 16, "n": 32, "k": 64, "ldb": 32}
    assert LIBRARY.contract("gfx950", few("16x32x64", b_layout="column")).resolve_run({**few("16x32x64", b_layout="column"), **shape})
    for build in ({"a_layout": "column"}, {"b_layout": "column", "d_layout": "column", "c_layout": "column"}):
        with pytest.raises(ContractError, match="_layout=column with schedule=in-order needs a tile that has 64 bytes of a line"):
            LIBRARY.contract("gfx950", few("16x32x64", **build)).resolve_run({**few("16x32x64", **build), **shape})


def test_k_counts_by_the_depth_of_the_tile() -> None:
    assert built(3).kernel.contract.resolve_run({"m": 1, "n": 1, "k": 96})["k"] == 96
    with pytest.raises(ContractError, match="k must be a multiple of 64"):
        built(0).kernel.contract.resolve_run({"m": 1, "n": 1, "k": 96})


def test_parts_leave_no_compute_unit_idle() -> None:
    """896 tiles of 28672 columns take four rounds of 256 units, of which the last is half empty; twice as many take seven full ones."""
    variant = next(one for one in LIBRARY.variants("gfx950") if one.tile == (16, 32, 64))
    p = LIBRARY.contract_of(variant).resolve_run({"m": 16, "n": 28672, "k": 8192})
    assert split_options(p, variant, 256) == [{"preload": True}, {"split_k": 2, "preload": True}]
    assert split_options(p | {"n": 8192}, variant, 256) == [{"preload": True}, {"split_k": 2, "preload": True}]
    assert split_options(p | {"n": 32768}, variant, 256) == [{"preload": True}]


def test_a_row_of_nan_stays_a_row() -> None:
    """A NaN in a row of A reaches that row of D and no other, whichever wave has its step."""
    one = built(6)
    p = one.kernel.contract.resolve_run({**one.kernel.parameters, "m": 16, "n": 32, "k": 512})
    problem = LIBRARY.problem(p, 1)
    assert not np.isnan(problem.outputs[0].expected).any()
    for column in (0, 200, 511):
        a = problem.arguments["a"].copy()
        a[5, column] = np.nan
        d = launched(one, p, {**problem.arguments, "a": a})
        assert np.isnan(d[5]).all() and not np.isnan(np.delete(d, 5, 0)).any()
