"""`asmgen launch`: what it prints of a launch that a specification asked for."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

from asmgen.emulator.arrival.findings import Finding
from asmgen.launch.specrun import SpecRun
from asmgen.tools.running.executed import Executed, KernelRun, executed, together


@dataclass(frozen=True)
class LaunchReport:
    """What `asmgen launch` says. `wave_instructions` and `executed` are None on a GPU."""

    kernel: str
    arch: str
    device: str
    wave_instructions: int | None
    seconds: float
    saved: tuple[str, ...]
    findings: tuple[Finding, ...] = field(default=())
    executed: Executed | None = None
    launches: tuple[KernelRun, ...] = ()  # one for each, in order; none on a GPU

    @classmethod
    def of(cls, run: SpecRun) -> Self:
        """The report of a launch."""
        ran = tuple(map(KernelRun, run.kernels, run.results))
        whole = cls(", ".join(dict.fromkeys(run.kernels)), run.arch, run.device, None, run.seconds, run.saved)
        if not ran:
            return whole
        return replace(whole, wave_instructions=sum(one.wave_instructions for one in run.results),
                       findings=tuple(finding for one in run.results for finding in one.findings),
                       executed=together(executed(one.program, [one.counts]) for one in run.results), launches=ran)

    @property
    def passed(self) -> bool:
        """Whether no finding is an error: exit status 0, else 1."""
        return all(finding.severity != "error" for finding in self.findings)

    def as_json(self) -> dict[str, Any]:
        """The fields of docs/FORMATS.md section 1, and those that stand beside them."""
        return {"kernel": self.kernel, "arch": self.arch, "device": self.device, "passed": self.passed,
                "wave_instructions": self.wave_instructions, "executed": self.executed.as_json() if self.executed is not None else None,
                "seconds": self.seconds, "saved": list(self.saved), "launches": [one.as_json() for one in self.launches],
                "findings": [finding.as_json() for finding in self.findings]}

    def text(self) -> str:
        """The report for people, with a line for each finding."""
        count = f", {self.wave_instructions} wave instructions, {self.executed} executed" if self.wave_instructions is not None else ""
        lines = [f"{self.kernel} ({self.arch}) on {self.device}: {self.seconds:.3f} s{count}"]
        lines += [f"saved {name}" for name in self.saved]
        lines += [finding.sentence() for finding in self.findings]
        return "\n".join(lines) + "\n"
