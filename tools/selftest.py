"""`asmgen selftest`: the library against its references, the probes of the model's table and short timings, in one report.

A GPU gets all three. The emulator, under its own name or as a GPU of `asmgen hip-emulator`, gets the first: it has no clock.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from asmgen.author.contract.variant import Variant
from asmgen.author.family.family import Family
from asmgen.isa.errors import AsmgenError
from asmgen.kernels.registry import family as find_family
from asmgen.kernels.registry import names
from asmgen.launch.hip import HipDevice
from asmgen.tools.bench import BenchReport, bench_kernel, environment
from asmgen.tools.probe_command import DeviceClock, ProbeReport, probe_names, run_probes
from asmgen.tools.profile_command import choose_timing
from asmgen.tools.profile_launches import report_kernel
from asmgen.tools.reprofile import PROBLEMS
from asmgen.tools.running.build import build_kernel
from asmgen.tools.running.runner import run_kernel
from asmgen.tools.running.smalllaunches import launches

WARM_UPS, RUNS = 50, 20
"""Of a short timing; `asmgen bench` takes ten times as many warm-ups and five times as many launches."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Checked:
    """One variant on its small launches: how many there were, which of them failed, and the largest error over its tolerance.

    `trouble` says why the variant could not be built or launched at all; None where it could.
    """

    kernel: str
    arch: str
    build: Mapping[str, Any]
    runs: int
    failed: tuple[Mapping[str, Any], ...]
    worst: float
    seconds: float
    trouble: str | None = None

    @property
    def passed(self) -> bool:
        """Whether every launch was within its tolerance, without findings that are errors."""
        return self.trouble is None and not self.failed

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return {"kernel": self.kernel, "arch": self.arch, "parameters": dict(self.build), "passed": self.passed, "runs": self.runs,
                "failed": [dict(launch) for launch in self.failed], "error_over_tolerance": self.worst, "seconds": self.seconds,
                "trouble": self.trouble}

    def text(self) -> str:
        """For people: a line, and one for each launch that failed."""
        shown = " ".join(f"{name}={value}" for name, value in self.build.items())
        word = "passed" if self.passed else "FAILED"
        found = self.trouble or f"{self.runs} launches, largest error over tolerance {self.worst:.3f}"
        lines = [f"  {word}  {self.kernel} {self.arch} {shown}: {found}"]
        lines += [f"    failed with {' '.join(f'{name}={value}' for name, value in launch.items())}" for launch in self.failed]
        return "\n".join(lines)


@dataclass(frozen=True)
class SelftestReport:
    """What `asmgen selftest` says. `left_out` are sentences on the parts that this device cannot have."""

    device: str
    environment: Mapping[str, Any]
    checked: tuple[Checked, ...]
    probes: ProbeReport | None = None
    timings: tuple[BenchReport, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether every variant passed. A time or a parameter that differs from the model's is no failure."""
        return all(row.passed for row in self.checked)

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return {"device": self.device, "passed": self.passed, "environment": dict(self.environment),
                "kernels": [row.as_json() for row in self.checked], "probes": self.probes.as_json() if self.probes is not None else None,
                "timings": [row.as_json() for row in self.timings], "left_out": list(self.left_out)}

    def text(self) -> str:
        """For people."""
        good = sum(row.passed for row in self.checked)
        lines = [f"selftest on {self.device}: {good} of {len(self.checked)} variants passed", *(row.text() for row in self.checked)]
        if self.probes is not None:
            lines += ["probes:", self.probes.text().rstrip()]
        if self.timings:
            lines += ["timings:", *(row.text().rstrip() for row in self.timings)]
        return "\n".join([*lines, *(f"left out: {sentence}" for sentence in self.left_out)]) + "\n"


def selftest(device: str, kernels: Sequence[str] = (), arch: str | None = None, say: Say = lambda sentence: None) -> SelftestReport:
    """Test the library, or the families named, on "hip" or the "emulator". A variant that fails stops nothing.

    Raises AsmgenError for another device, an unknown kernel, and where there is no GPU.
    """
    families = [find_family(name) for name in kernels or names()]
    if device == "emulator":
        checked = tuple(check for family in families for check in _checks(family, device, arch, say))
        left = ("the emulator has no clock: probes and timings need a GPU (--device hip)",)
        return SelftestReport("the emulator", _environment(), _some(checked, arch), left_out=left)
    if device != "hip":
        raise AsmgenError(f"selftest knows no device {device!r}; hip and emulator would work")
    with HipDevice(arch) as opened:
        checked = _some(tuple(check for family in families for check in _checks(family, device, opened.arch, say)), opened.arch)
        if opened.is_emulated:
            left = ("this is `asmgen hip-emulator`, which has no clock: probes and timings need a GPU",)
            return SelftestReport(opened.name, _environment(), checked, left_out=left)
        say("probes of the model's table")
        timing = choose_timing(opened.arch, None, None)
        probes = run_probes(probe_names((), opened.arch), DeviceClock(opened), timing, opened.name)
        timings = tuple(row for family in families for row in _timings(family, opened, say))
        return SelftestReport(opened.name, environment(opened), checked, probes, timings)


def _some(checked: tuple[Checked, ...], arch: str | None) -> tuple[Checked, ...]:
    if not checked:
        raise AsmgenError(f"none of the kernels asked for is for {arch}; `asmgen list` names the architectures of each")
    return checked


def _environment() -> dict[str, Any]:
    return {"python": platform.python_version(), "system": platform.platform()}


def _checks(family: Family, device: str, arch: str | None, say: Say) -> Iterator[Checked]:
    for variant in family.variants():
        if arch in (None, variant.arch):
            say(f"{family.name} {variant.arch} {variant.tile_text} {variant.schedule}".rstrip())
            yield check_variant(family, variant, device)


def check_variant(family: Family, variant: Variant, device: str) -> Checked:
    """Build a variant with its defaults and compare the smallest launch, one of whole tiles and one of cut tiles with the reference; the
    last one's data holds NaN and infinities."""
    began, build = time.perf_counter(), family.contract_of(variant).resolve_build({})
    failed: list[Mapping[str, Any]] = []
    worst, trouble, runs = 0.0, None, 0
    try:
        built = build_kernel(family, variant.arch, build)
        contract = built.kernel.contract
        small = launches(contract, build)
        for launch, seed in ((small[0], 1), (small[min(1, len(small) - 1)], 1), (small[-1], 0)):
            report = run_kernel(family, built, contract.resolve_run({**build, **launch}), device, seed)
            runs, worst = runs + 1, max(worst, report.worst)
            if not report.passed:
                failed.append(launch)
    except AsmgenError as error:
        trouble = str(error)
    return Checked(family.name, variant.arch, build, runs, tuple(failed), worst, time.perf_counter() - began, trouble)


def _timings(family: Family, device: HipDevice, say: Say) -> Iterator[BenchReport]:
    """Times of what callers get by default on the problems that `tools.reprofile` predicts, with the prediction beside each."""
    for problem in PROBLEMS.get(family.name, ()) if device.arch in family.archs else ():
        say(f"timing {family.name} {' '.join(f'{name}={value}' for name, value in problem.items())}")
        contract = family.contract(device.arch, problem)
        resolved = contract.resolve_run(problem)
        built = build_kernel(family, device.arch, {name: resolved[name] for name in resolved if contract.parameter(name).kind == "build"})
        report = bench_kernel(family, built, resolved, device, WARM_UPS, RUNS)
        timing = choose_timing(device.arch, None, None)
        yield report.beside(1e3 * report_kernel(family, built, resolved, timing, "grid", 1).host_seconds)
