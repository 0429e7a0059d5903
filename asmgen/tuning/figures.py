"""What a variant's workgroup takes, timed once in a launch of a typical size: from these figures the time of a launch of any other size
follows in milliseconds. It is near what `predict` says of that launch, which times the workgroup with what its own loads find."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from asmgen.author.contract.problem import LaunchWork
from asmgen.author.contract.variant import Variant
from asmgen.author.emit.kernel import Kernel
from asmgen.author.family.family import Family
from asmgen.emulator.scheduling.trace import NO_ARGUMENT, TracedArgument
from asmgen.isa.timing import Timing
from asmgen.model.costs import costs_of
from asmgen.model.estimate import Estimate, estimate_run
from asmgen.model.farmemory import FarMemory, far_memory
from asmgen.model.profile import LoopProfile, whole_load
from asmgen.model.runsummary import RunSummary
from asmgen.model.traffic import MovedBytes, Traffic, moved_by_each, traffic_of
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
    typical, filled = _timed_work(library, variant, candidate.build), filled_steps(candidate.parameters)
    in_pieces = bool(work.pieces and typical.pieces)
    found = []
    for one, its in zip(contract.launches, figures, strict=True):
        if one is contract:
            workgroups, steps = len(work.steps), Steps(typical.traced, work.steps, work.flops, work.items,
                                                        (work.pieces, typical.pieces) if in_pieces else None)
            order = product_order(candidate.parameters, round(workgroups * work.items), [argument.name for argument in its.arguments])
            order = replace(order, items=work.items) if order is not None else None
            its = replace(its, moved=_storing(its.moved, work.items / typical.items if in_pieces else 1.0))
            moved = traffic_of(its.moved, "grid", workgroups, timing, its.arguments, order, float(work.read_bytes),
                               float(work.steps.mean()) / typical.traced * filled)
            run = replace(_loading(its.run, filled), timing=timing, last_round=1.0, needed_flops=work.needed_flops or None)
            found.append(_estimate(run, its, workgroups, moved, steps))
        else:
            workgroups = math.prod(one.grid_of(candidate.parameters))
            read = workgroups * sum(its.moved.loaded)  # workgroups are alike and share nothing
            moved = traffic_of(its.moved, "grid", workgroups, timing, its.arguments, None, read)
            run = replace(its.run, timing=timing, last_round=1.0)
            found.append(_estimate(run, its, workgroups, moved))
    return tuple(found)


def _estimate(run: RunSummary, its: VariantFigures, workgroups: int, moved: Traffic, steps: Steps | None = None) -> Estimate:
    """Of a launch, with its own round trips. What is beyond L2 is as many clk away as its clock says. Where nothing is loaded, trips are
    the shortest ones."""
    def estimated(far: FarMemory) -> Estimate:
        return estimate_run(launched(run, its.moved, far), workgroups, its.moved.together, moved, its.fitting, steps)

    if not moved.l2:
        return estimated(far_memory(run.timing, "l2"))
    loads = moved.loads(min(run.timing.clocks("compute_units"), workgroups))
    clock = estimate_run(run, workgroups, its.moved.together, moved, its.fitting, steps).clock
    return estimated(far_memory(run.timing, "grid", loads, clock))


def launched(run: RunSummary, moved: MovedBytes, far: FarMemory) -> RunSummary:
    """A run whose data is as far as `far` says, from one whose data was elsewhere. Its first loads have other trips, and rounds of the loop
    are no shorter than what may be on its way allows, by trips of the mean byte. How long a wave waits for loads of the round before is as
    it was timed. Figures of an older model do not say which loads are first, and keep their trips."""
    longer = far_trip(moved, far) / far_trip(moved, run.far)
    load, loop = run.load.farther(longer) if run.load is not None else None, run.main_loop
    trips = sum(far.round_trip(one) - run.far.round_trip(one) for one in run.first_loads)
    cycles = run.cycles + trips
    work = run.matrix_busy * run.cycles
    if loop is not None:
        loads = loop.load.farther(longer)
        least = loads.in_flight(run.timing)
        slower = max(1.0, least / loop.cycles)
        cycles += loop.total * (slower - 1)
        loop = replace(loop, load=loads, cycles=loop.cycles * slower, total=loop.total * slower, matrix_busy=loop.matrix_busy / slower)
    return replace(run, far=far, cycles=cycles, load_free_ends=run.load_free_ends + trips, load=load, main_loop=loop,
                   matrix_busy=work / cycles)


def far_trip(moved: MovedBytes, far: FarMemory) -> float:
    """The mean round trip of loaded bytes, in clk; of any where nothing is loaded."""
    total = sum(moved.loaded)
    trips = [far.round_trip(argument) for argument in (*range(len(moved.loaded) - 1), NO_ARGUMENT)]
    return sum(amount * trip for amount, trip in zip(moved.loaded, trips, strict=True)) / total if total else float(far.usual)


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


def _storing(moved: MovedBytes, times: float) -> MovedBytes:
    """What a workgroup moves that makes so many times as many tiles: what it stores, and what it loads of that."""
    loaded = tuple(of * (times if to else 1.0) for of, to in zip(moved.loaded, moved.stored, strict=True))
    return replace(moved, loaded=loaded, stored=tuple(to * times for to in moved.stored))


def _timed_work(library: Family, variant: Variant, build: Mapping[str, Any]) -> LaunchWork:
    """The work of the launch that a build's figures are of: that of a launch of the typical size, of the build that was timed."""
    assert library.work is not None
    timed = build if library.timed_as is None else library.timed_as(build)
    contract = library.contract_of(variant, timed)
    return library.work(contract.resolve_run({**timed, **library.typical_for(contract)}), variant)


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
    run["first_loads"] = tuple(run.get("first_loads", ()))
    moved = document["moved"]
    return VariantFigures(RunSummary(timing=timing, **run), MovedBytes(tuple(moved["loaded"]), tuple(moved["stored"]), moved["together"]),
                          tuple(TracedArgument(**one) for one in document["arguments"]), document["fitting"])


def _load(document: Mapping[str, Any]) -> UnitLoad:
    return UnitLoad([[Usage(**wave) for wave in waves] for waves in document["by_simd"]])
