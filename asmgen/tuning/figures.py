"""What a variant's workgroup takes, timed once in a launch of a typical size: from these figures the time of a launch of any other size
follows in milliseconds. It is near what `predict` says of that launch, which times the workgroup with what its own loads find."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from asmgen.author.contract.variant import Variant
from asmgen.author.emit.kernel import Kernel
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
from asmgen.tuning.traced import Traced, product_order, tile_edges

_NO_TIMING = Timing("MI355X", {})


@dataclass(frozen=True)
class VariantFigures:
    """A timed workgroup: the run, what it moved by argument, and how many fit on a compute unit."""

    run: RunSummary
    moved: MovedBytes
    arguments: tuple[TracedArgument, ...]
    fitting: int


def figures_of(library: Family, arch: str, timing: Timing, candidate: Candidate,
               made: tuple[Kernel, bytes] | None = None) -> tuple[VariantFigures, ...]:
    """Build, trace and time each kernel of a variant in a launch of the candidate's problem; `made` as of `trace_candidate`."""
    return tuple(_timed(traced, timing) for traced in trace_candidate(library, arch, candidate, made))


def _timed(traced: Traced, timing: Timing) -> VariantFigures:
    found = predict(traced, timing, "grid", 1)
    waves, arguments = list(traced.trace.waves()), tuple(traced.trace.arguments)
    moved = moved_by_each(costs_of(found.profile.program, timing), waves, len(arguments))
    return VariantFigures(replace(found.run, load=whole_load(found.profile, waves)), moved, arguments, found.fitting)


def quick_estimates(library: Family, arch: str, timing: Timing, candidate: Candidate,
                    figures: Sequence[VariantFigures]) -> tuple[Estimate, ...]:
    """The time of each launch of the candidate's problem. The family says the work of its variant's."""
    assert library.work is not None
    variant = library.select(arch, candidate.build)
    work, contract = library.work(candidate.parameters, variant), library.contract_of(variant, candidate.build)
    timed, filled = _timed_steps(library, variant, candidate.build), filled_steps(candidate.parameters)
    found = []
    for one, its in zip(contract.launches, figures, strict=True):
        if one is contract:
            workgroups, steps = len(work.steps), Steps(timed, work.steps, work.flops, work.items)
            order = product_order(candidate.parameters, round(workgroups * work.items), [argument.name for argument in its.arguments])
            order = replace(order, items=work.items) if order is not None else None
            moved = traffic_of(its.moved, "grid", workgroups, timing, its.arguments, order, float(work.read_bytes),
                               float(work.steps.mean()) / timed * filled)
            run = replace(_loading(its.run, filled), timing=timing, last_round=1.0, needed_flops=work.needed_flops or None)
            found.append(estimate_run(run, workgroups, its.moved.together, moved, its.fitting, steps))
        else:
            workgroups = math.prod(one.grid_of(candidate.parameters))
            read = workgroups * sum(its.moved.loaded)  # workgroups are alike and share nothing
            moved = traffic_of(its.moved, "grid", workgroups, timing, its.arguments, None, read)
            run = replace(its.run, timing=timing, last_round=1.0)
            found.append(estimate_run(run, workgroups, its.moved.together, moved, its.fitting))
    return tuple(found)


def filled_steps(parameters: Mapping[str, Any]) -> float:
    """The share of the columns of K in a product's steps that there are: the last step loads nothing of what is not there. 1 for what is no
    product; the typical launch, whose steps were timed, has whole ones."""
    tile, k = tile_edges(parameters), parameters.get("k")
    return k / (-(-k // tile[2]) * tile[2]) if tile is not None and isinstance(k, int) and k else 1.0


def _loading(run: RunSummary, share: float) -> RunSummary:
    """A run whose workgroups load so large a share of what they were timed with."""
    if share == 1 or run.load is None:
        return run
    loop = replace(run.main_loop, load=run.main_loop.load.loading(share)) if run.main_loop is not None else None
    return replace(run, load=run.load.loading(share), main_loop=loop)


def _timed_steps(library: Family, variant: Variant, build: Mapping[str, Any]) -> int:
    """How many steps the workgroup had that a build's figures are of: that of a launch of the typical size, of the build that was timed."""
    assert library.work is not None
    timed = build if library.timed_as is None else library.timed_as(build)
    contract = library.contract_of(variant, timed)
    return library.work(contract.resolve_run({**timed, **library.typical_for(contract)}), variant).traced


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
