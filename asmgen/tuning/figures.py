"""What a variant's workgroup takes, timed once in a launch of a typical size: from these figures the time of a launch of any other size
follows in milliseconds. It is near what `predict` says of that launch, which times the workgroup with what its own loads find."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from asmgen.author.family.family import Family
from asmgen.emulator.scheduling.trace import TracedArgument
from asmgen.isa.timing import Timing
from asmgen.model.costs import costs_of
from asmgen.model.estimate import Estimate, estimate_run
from asmgen.model.farmemory import FarMemory
from asmgen.model.profile import LoopProfile, whole_load
from asmgen.model.runsummary import RunSummary
from asmgen.model.traffic import MovedBytes, moved_by_each, traffic_of
from asmgen.model.unequal import Steps
from asmgen.model.usage import ResourceBounds, UnitLoad, Usage
from asmgen.tuning.candidates import Candidate
from asmgen.tuning.prediction import predict
from asmgen.tuning.ranked import trace_candidate
from asmgen.tuning.traced import product_order

_NO_TIMING = Timing("MI355X", {})


@dataclass(frozen=True)
class VariantFigures:
    """A timed workgroup: the run, what it moved by argument, and how many fit on a compute unit."""

    run: RunSummary
    moved: MovedBytes
    arguments: tuple[TracedArgument, ...]
    fitting: int


def figures_of(library: Family, arch: str, timing: Timing, candidate: Candidate) -> VariantFigures:
    """Build, trace and time a variant in a launch of the candidate's problem."""
    traced = trace_candidate(library, arch, candidate)
    found = predict(traced, timing, "grid", 1)
    waves, arguments = list(traced.trace.waves()), tuple(traced.trace.arguments)
    moved = moved_by_each(costs_of(found.profile.program, timing), waves, len(arguments))
    return VariantFigures(replace(found.run, load=whole_load(found.profile, waves)), moved, arguments, found.fitting)


def quick_estimate(library: Family, arch: str, timing: Timing, candidate: Candidate, figures: VariantFigures) -> Estimate:
    """The time of a launch of the candidate's problem. The family says the work of a launch."""
    assert library.work is not None
    work = library.work(candidate.parameters, library.select(arch, candidate.build))
    steps, workgroups = Steps(work.traced, work.steps, work.flops), len(work.steps)
    order = product_order(candidate.parameters, workgroups, [argument.name for argument in figures.arguments])
    moved = traffic_of(figures.moved, "grid", workgroups, timing, figures.arguments, order, float(work.read_bytes),
                       float(work.steps.mean()) / work.traced)
    run = replace(figures.run, timing=timing, last_round=1.0, needed_flops=work.needed_flops or None)
    return estimate_run(run, workgroups, figures.moved.together, moved, figures.fitting, steps)


def stored_figures(figures: VariantFigures) -> dict[str, Any]:
    """JSON values from which `restored_figures` makes the same again."""
    document = asdict(replace(figures, run=replace(figures.run, timing=_NO_TIMING)))
    del document["run"]["timing"]
    return document


def restored_figures(document: Mapping[str, Any], timing: Timing) -> VariantFigures:
    """The figures of JSON values."""
    run = dict(document["run"])
    loop = dict(run["main_loop"]) if run["main_loop"] is not None else None
    if loop is not None:
        loop["bounds"], loop["load"] = ResourceBounds(**loop["bounds"]), _load(loop["load"])
        run["main_loop"] = LoopProfile(**loop)
    far = dict(run["far"])
    far["by_argument"] = {int(number): trip for number, trip in far["by_argument"].items()}
    run["far"], run["load"] = FarMemory(**far), _load(run["load"])
    moved = document["moved"]
    return VariantFigures(RunSummary(timing=timing, **run), MovedBytes(tuple(moved["loaded"]), tuple(moved["stored"]), moved["together"]),
                          tuple(TracedArgument(**one) for one in document["arguments"]), document["fitting"])


def _load(document: Mapping[str, Any]) -> UnitLoad:
    return UnitLoad([[Usage(**wave) for wave in waves] for waves in document["by_simd"]])
