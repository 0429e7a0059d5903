"""Building, tracing and timing one variant for a problem."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from asmgen.author.emit.kernel import Kernel
from asmgen.author.family.family import Family
from asmgen.garbage import collection_paused
from asmgen.isa.timing import Timing
from asmgen.toolchain import assemble
from asmgen.tuning.candidates import Candidate
from asmgen.tuning.prediction import Prediction, predict
from asmgen.tuning.rankedvariant import RankedVariant
from asmgen.tuning.timerange import TimeRange, time_range
from asmgen.tuning.traced import Traced, trace_launches


def assembled(library: Family, arch: str, build: Mapping[str, Any]) -> tuple[Kernel, bytes]:
    """A build and its code object."""
    with collection_paused(keep=True):
        kernel = library.build(arch, build)
        text = kernel.text()
    return kernel, assemble(text, arch, name=f"{kernel.name}.s")


def trace_candidate(library: Family, arch: str, candidate: Candidate, made: tuple[Kernel, bytes] | None = None) -> tuple[Traced, ...]:
    """What the first workgroup of each kernel of a variant executes; `made` is what `assembled` gives of it."""
    kernel, code = made or assembled(library, arch, candidate.build)
    return trace_launches(library, kernel, code, candidate.parameters)


def ranked(candidate: Candidate, found: Sequence[Prediction], between: Sequence[TimeRange], own: int) -> RankedVariant:
    """The row of the predictions of a candidate's launches, which follow each other; number `own` is the variant's kernel."""
    seconds = sum(one.estimate.seconds for one in found)
    flops = sum(one.estimate.tflops * one.estimate.seconds for one in found)
    moved = sum(one.needed for one in found)
    limit = max(found, key=lambda one: one.estimate.seconds).estimate.limit
    settings = {name: sum(one.settings.get(name, its.estimate.seconds) for one, its in zip(between, found, strict=True))
                for name in sorted({name for one in between for name in one.settings})}
    whole = found[own].estimate
    return RankedVariant(candidate.chosen, found[own].name, seconds, flops / seconds, moved / seconds * 1e-9, limit, whole.clock,
                         whole.workgroups, whole.rounds, sum(one.low for one in between), sum(one.high for one in between), settings)


def predict_candidate(library: Family, arch: str, timing: Timing, candidate: Candidate) -> RankedVariant:
    """Build, trace and time a variant."""
    traced = trace_candidate(library, arch, candidate)
    found = [predict(one, timing, "grid", 1) for one in traced]
    between = [time_range(one, its, compared=True) for one, its in zip(traced, found, strict=True)]
    return ranked(candidate, found, between, len(library.companions(candidate.build)[0]))
