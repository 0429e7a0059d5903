"""Building, tracing and timing one variant for a problem."""

from __future__ import annotations

from asmgen.author.family.family import Family
from asmgen.garbage import collection_paused
from asmgen.isa.timing import Timing
from asmgen.toolchain import assemble
from asmgen.tuning.candidates import Candidate
from asmgen.tuning.prediction import Prediction, predict
from asmgen.tuning.rankedvariant import RankedVariant
from asmgen.tuning.timerange import TimeRange, time_range
from asmgen.tuning.traced import Traced, trace_launch


def trace_candidate(library: Family, arch: str, candidate: Candidate) -> Traced:
    """What the first workgroup of a variant executes."""
    with collection_paused(keep=True):
        kernel = library.build(arch, candidate.build)
        text = kernel.text()
    return trace_launch(library, kernel, assemble(text, arch, name=f"{kernel.name}.s"), candidate.parameters)


def ranked(candidate: Candidate, found: Prediction, between: TimeRange) -> RankedVariant:
    """The row of a prediction."""
    whole = found.estimate
    return RankedVariant(candidate.chosen, found.name, whole.seconds, whole.tflops, found.gbytes_per_second, whole.limit, whole.clock,
                         whole.workgroups, whole.rounds, between.low, between.high, between.settings)


def predict_candidate(library: Family, arch: str, timing: Timing, candidate: Candidate) -> RankedVariant:
    """Build, trace and time a variant."""
    traced = trace_candidate(library, arch, candidate)
    found = predict(traced, timing, "grid", 1)
    return ranked(candidate, found, time_range(traced, found, compared=True))
