"""`asmgen profile` of several kernels that are launched as one: the time of all, and the profile of each.

They run on one stream, so that each begins when the one before has ended: what a launch takes before its first wave works
(`launch_device` of the timing table) comes once for each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asmgen.author.family.family import Family
from asmgen.isa.timing import Timing
from asmgen.launch.memorylimit import MEMORY_LIMIT
from asmgen.model.profile import Profile
from asmgen.tools.profile_command import ProfileReport, advised, choose_timing
from asmgen.tools.running.build import Built
from asmgen.tuning.traced import Traced, trace_launches
from asmgen.tuning.tracedspec import trace_spec


@dataclass(frozen=True)
class LaunchesReport:
    """The reports in the order of the launches; `own` is the number of the kernel that stands for all where one is shown, `needed_flops`
    are the operations of what they compute together, where that is known."""

    reports: tuple[ProfileReport, ...]
    own: int
    needed_flops: float | None = None

    @property
    def profile(self) -> Profile:
        """That of the own kernel."""
        return self.reports[self.own].profile

    @property
    def seconds(self) -> float:
        """Of the device, from the first launch's begin on."""
        return sum(one.estimate.seconds for one in self.reports)

    @property
    def host_seconds(self) -> float:
        """As the host sees them: it puts the next launch on the stream while the one before runs."""
        return self.seconds + self.reports[0].host_seconds - self.reports[0].estimate.seconds

    @property
    def flops(self) -> float:
        """Operations of all together."""
        if self.needed_flops is not None:
            return self.needed_flops
        return sum(one.estimate.tflops * one.estimate.seconds * 1e12 for one in self.reports)

    @property
    def longest(self) -> ProfileReport:
        """The launch that takes the most time."""
        return max(self.reports, key=lambda one: one.estimate.seconds)

    def bounds(self) -> tuple[float, float]:
        """Seconds with all parameters at the fast and at the slow ends of their ranges."""
        ranges = [(one.range.low, one.range.high) if one.range is not None else (one.estimate.seconds,) * 2 for one in self.reports]
        return sum(low for low, _ in ranges), sum(high for _, high in ranges)

    def as_json(self) -> dict[str, Any]:
        """The fields of the own kernel's profile; times and rates are those of all launches, and `launches` has the profile of each."""
        low, high = self.bounds()
        tera, longest = self.flops * 1e-12, self.longest
        document = self.reports[self.own].as_json()
        peak = document["peak"] | {"share": tera / self.seconds / document["peak"]["tflops"]} if document["peak"]["tflops"] else \
            document["peak"]
        return document | {
            "seconds_predicted": self.seconds, "host_seconds_predicted": self.host_seconds, "tflops_predicted": tera / self.seconds,
            "low": low, "high": high, "tflops_low": tera / high, "tflops_high": tera / low, "limit": longest.estimate.limit,
            "widest": (longest.range.widest or None) if longest.range is not None else None, "peak": peak,
            "gbytes_per_second_predicted": sum(one.needed for one in self.reports) / self.seconds * 1e-9,
            "launches": [one.as_json() for one in self.reports],
        }

    def text(self) -> str:
        """The report for people: all together, then each."""
        low, high = self.bounds()
        each = ", ".join(f"{one.name} {one.estimate.seconds * 1e6:.1f}" for one in self.reports)
        rate = f", {self.flops * 1e-12 / self.seconds:.1f} TFLOPS" if self.flops else ""
        lines = [f"{len(self.reports)} kernels launched one after the other: predicted {self.seconds * 1e6:.1f} us of the device "
                 f"({self.host_seconds * 1e6:.1f} as the host sees it){rate}, not measured",
                 f"  predicted range: {low * 1e6:,.1f} to {high * 1e6:,.1f} us; each (us predicted): {each}", ""]
        return "\n".join(lines) + "\n" + "\n".join(one.text() for one in self.reports)


def report_kernel(library: Family, built: Built, parameters: Mapping[str, Any], chosen: Timing, level: str, workgroups: int,
                  spans: bool = False, memory_limit: int = MEMORY_LIMIT) -> ProfileReport | LaunchesReport:
    """Profile the kernels of a library build on the problem that the parameters say; `workgroups` of the variant's own run together, of
    others at most so many as fit."""
    found = trace_launches(library, built.kernel, built.code_object, parameters, workgroups, memory_limit)
    own = len(built.kernel.before)
    together = [workgroups if number == own else min(workgroups, one.trace.fitting) for number, one in enumerate(found)]
    reports = tuple(advised(one, chosen, level, count, spans) for one, count in zip(found, together, strict=True))
    return LaunchesReport(reports, own, _flops(found)) if len(reports) > 1 else reports[0]


def report_spec(path: Path, gpu: str | None, parameters: Path | None, level: str, workgroups: int, spans: bool = False,
                memory_limit: int = MEMORY_LIMIT) -> ProfileReport | LaunchesReport:
    """Profile any code object on the data of a launch specification; nothing is saved. Of several launches the longest stands for all."""
    found, arch, problem = trace_spec(path, workgroups, memory_limit)
    chosen = choose_timing(arch, gpu, parameters)
    reports = tuple(advised(one, chosen, level, workgroups, spans) for one in found)
    if len(reports) == 1:
        return reports[0]
    longest = max(range(len(reports)), key=lambda number: reports[number].estimate.seconds)
    return LaunchesReport(reports, longest, problem.flops if problem is not None else _flops(found))


def _flops(found: Sequence[Traced]) -> float | None:
    """The operations of those launches whose problems say theirs."""
    return sum(one.flops for one in found if one.flops) or None
