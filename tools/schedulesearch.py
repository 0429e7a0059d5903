"""A long search for the order of a kernel's step: `asmgen tune --schedule`.

The scheduler proposes its best orders of many lengths, refined for longer than a build may. Of these the cycle model times whole kernels;
the order of the fastest one is kept beside the kernel's file, if it beats the build's own (`asmgen.author.schedule.keptorders`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asmgen.author.family.family import Family
from asmgen.author.schedule.keptorders import chosen_by, orders_file, with_order
from asmgen.author.schedule.schedules import Arrangement
from asmgen.author.schedule.stepfacts import StepFacts
from asmgen.author.schedule.stepscheduler import proposals
from asmgen.files import write_plain
from asmgen.isa.errors import AsmgenError
from asmgen.isa.timing import gpu_of, timing
from asmgen.tools.profile_command import report_traced, trace_kernel
from asmgen.tools.running.build import build_kernel


@dataclass(frozen=True)
class SearchedOrder:
    """What a search found. `before` and `after` are predicted clk of a workgroup, data in L2; `timed` kernels were looked at. `file` is
    where the order is kept, None where no order beats the build's own."""

    kernel: str
    timed: int
    before: float
    after: float
    file: Path | None

    def as_json(self) -> dict[str, Any]:
        """The JSON document."""
        return {"kernel": self.kernel, "timed": self.timed, "predicted": True, "cycles_before": self.before, "cycles_after": self.after,
                "file": str(self.file) if self.file is not None else None}

    def text(self) -> str:
        """For people."""
        verdict = f"kept in {self.file}" if self.file is not None else "no order beats the one that a build finds itself"
        return (f"{self.kernel}: {self.timed} orders timed, predicted {self.before:.0f} clk of a workgroup before and {self.after:.0f} "
                f"after: {verdict}\n")


def search_order(library: Family, arch: str, values: Mapping[str, Any]) -> SearchedOrder:
    """Search for the parameters of a launch. Raises AsmgenError for a kernel whose schedule keeps no orders."""
    contract = library.contract(arch, values)
    resolved = contract.resolve_run(values)
    build = {name: resolved[name] for name in resolved if contract.parameter(name).kind == "build"}
    steps: dict[str, StepFacts] = {}

    def cycles() -> float:
        built = build_kernel(library, arch, build)
        return report_traced(trace_kernel(library, built, resolved, 1), timing(gpu_of(arch, None)), "l2", 1).cycles

    def note(step: StepFacts) -> None:
        if step.kept_beside:
            steps[step.digest] = step

    with chosen_by(note):
        before = cycles()
    if not steps:
        raise AsmgenError(f"no schedule of {library.name} with these parameters keeps orders; ag.Modulo(beside=__file__) does")
    best: dict[str, Arrangement] = {}
    after, timed = before, 0
    for digest, step in steps.items():
        for proposal in proposals(step):
            with chosen_by(lambda one, found={**best, digest: proposal}: found.get(one.digest)):  # type: ignore[misc]
                clk = cycles()
            timed += 1
            if clk < after:
                after, best[digest] = clk, proposal
    note_text = " ".join(f"{name}={value}" for name, value in build.items())
    path = None
    for digest, arrangement in best.items():
        path = orders_file(steps[digest].kept_beside)
        write_plain(path, with_order(path, digest, arrangement, f"{library.name} {arch} {note_text}").encode())
    return SearchedOrder(library.name, timed, before, after, path)
