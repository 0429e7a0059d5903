"""norm-backward on the emulator against float64: kinds, residual, bias, types, odd columns, strides."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from asmgen.author.contract.contract import ContractError
from asmgen.emulator.scheduling.run import Options
from asmgen.kernels.registry import family
from asmgen.tools.build import Built, build_kernel
from asmgen.tools.runner import RunReport, run_kernel

LIBRARY = family("norm-backward")


@cache
def built(arch: str, build: tuple[tuple[str, Any], ...]) -> Built:
    return build_kernel(LIBRARY, arch, dict(build))


def run(arch: str, build: dict[str, Any], shape: dict[str, Any], order: str, seed: int = 0) -> RunReport:
    one = built(arch, tuple(build.items()))
    parameters = one.kernel.contract.resolve_run({**one.kernel.parameters, **shape})
    return run_kernel(LIBRARY, one, parameters, "emulator", seed=seed, options=Options(order=order, count_banks=True))


CASES: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("gfx950", {"columns": 61, "bias": True}, {"rows": 67, "each": 2}, "serial"),
    ("gfx942", {"columns": 509, "kind": "rms", "dtype": "f16", "residual": True}, {"rows": 19, "each": 2, "x_stride": 514}, "random:1"),
    ("gfx950", {"columns": 1001, "bias": True, "residual": True}, {"rows": 40, "dx_stride": 1004}, "lockstep"),
    ("gfx942", {"columns": 3000, "dtype": "f32", "bias": True}, {"rows": 5, "each": 2}, "random:2"),
    ("gfx950", {"columns": 16383, "kind": "rms"}, {"rows": 3, "each": 2}, "random:3"),
    ("gfx950", {"columns": 1}, {"rows": 3}, "lockstep"),
]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_right_within_the_bound(case: int) -> None:
    arch, build, shape, order = CASES[case]
    for seed in (case, case + 1) if build["columns"] < 1500 else (case | 1,):  # even ones have NaN and infinities
        report = run(arch, build, shape, order, seed=seed)
        assert report.passed and report.untouched and report.findings == () and not report.bank_conflicts, report


def test_more_columns_than_registers_hold_are_refused() -> None:
    with pytest.raises(ContractError, match="columns must be at most 16384"):
        LIBRARY.contract("gfx950", {"columns": 16385}).resolve_build({"columns": 16385})
