"""What the tests of row kernels share: kernels that are built once, and launches on the emulator of which everything is checked."""

from __future__ import annotations

from functools import cache
from typing import Any

from asmgen.author.family.family import Family
from asmgen.emulator.scheduling.run import Options
from asmgen.kernels.registry import family
from asmgen.tools.running.build import Built, build_kernel
from asmgen.tools.running.runner import RunReport, run_kernel

Case = tuple[str, dict[str, Any], dict[str, Any], str]
"""Architecture, build parameters, run parameters, order of waves."""


def built(of: Family, arch: str, build: dict[str, Any]) -> Built:
    """A kernel of a family, built once for all tests of a process."""
    return _built(of.name, arch, tuple(sorted(build.items())))


@cache
def _built(name: str, arch: str, build: tuple[tuple[str, Any], ...]) -> Built:
    return build_kernel(family(name), arch, dict(build))


def run(of: Family, case: Case, seed: int = 0) -> RunReport:
    """A launch, beside the float64 reference; with even seeds by firmware that loads no arguments, so that all instructions may run."""
    arch, build, shape, order = case
    one = built(of, arch, build)
    parameters = one.kernel.contract.resolve_run({**one.kernel.parameters, **shape})
    return run_kernel(of, one, parameters, "emulator", seed=seed, options=Options(order=order, count_banks=True, preload=seed % 2 == 1))


def wrong(report: RunReport) -> str:
    """What is wrong with a launch, nothing if all is right."""
    found = {"result": not report.passed, "other bytes": not report.untouched, "findings": report.findings != (),
             "bank conflicts": report.bank_conflicts != 0}
    return ", ".join(one for one, is_so in found.items() if is_so)
