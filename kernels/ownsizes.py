"""A build's figures as they are at a launch's own sizes, beside what `quick_estimates` changes by itself.

Rows and columns of a tile that the problem does not have load nothing. And rounds of a loop that memory bounds are as much longer or
shorter as its bound: by round trips, where that is what may be under way, and else by the share of far memory that each loading unit has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from asmgen.model.farmemory import FarMemory
from asmgen.model.profile import FAR
from asmgen.tuning.figures import VariantFigures, far_trip
from asmgen.tuning.traced import tile_edges

_NEAR = 0.01
"""A loop that differs by so little is as it was timed."""


def of_the_problem(its: VariantFigures, parameters: Mapping[str, Any]) -> VariantFigures:
    """Figures of a whole tile, for the first tile of a product. Others stay as they are."""
    tile, names = tile_edges(parameters), [argument.name for argument in its.arguments]
    if tile is None or not {"a", "b"} <= set(names) or not sum(its.moved.loaded):
        return its
    shares = {name: min(1.0, parameters[size] / edge) for name, size, edge in zip("ab", "mn", tile[:2], strict=True)}
    loaded = tuple(amount * (shares.get(names[number], 1.0) if number < len(names) else 1.0)
                   for number, amount in enumerate(its.moved.loaded))
    share, run, loop = sum(loaded) / sum(its.moved.loaded), its.run, its.run.main_loop
    run = replace(run, load=run.load.loading(share) if run.load is not None else None,
                  main_loop=replace(loop, load=loop.load.loading(share)) if loop is not None else None)
    return replace(its, run=run, moved=replace(its.moved, loaded=loaded)) if share < 1 else its


def memory_bounds_its_loop(its: VariantFigures) -> bool:
    """Whether rounds of its loop take what memory lets them. Another loop has room for more, or waits for something else, and no figure
    says how much."""
    loop = its.run.main_loop
    return loop is not None and loop.bounds.verdict != "compute" and loop.cycles <= (1 + FAR) * loop.bounds.least


def with_data_at(its: VariantFigures, far: FarMemory, timed: VariantFigures) -> VariantFigures:
    """Figures of which `memory_bounds_its_loop` is true, with rounds for data that is as far as `far` says; no shorter than what is no wait
    for loads. Steps before and after the loop wait as those in it. `timed` are the figures from which `of_the_problem` made these: its
    rounds took as long as all loads of a tile did."""
    run, loop, whole = its.run, its.run.main_loop, timed.run.main_loop
    assert loop is not None and whole is not None
    farther = far_trip(its.moved, far) / far_trip(its.moved, run.far)
    bounds = [load.bounds(run.timing, its_far).least for load, its_far in ((whole.load, run.far), (loop.load.farther(farther), far))]
    busy = loop.cycles - loop.stalls.get("wait vm", 0.0) - loop.stalls.get("return", 0.0)
    slower = max(busy / loop.cycles, bounds[1] / bounds[0])
    if abs(slower - 1) < _NEAR:
        return its
    rounds = run.flops / loop.flops if loop.flops else loop.total / loop.cycles
    cycles = run.cycles + rounds * loop.cycles * (slower - 1)
    work = run.matrix_busy * run.cycles
    loop = replace(loop, cycles=loop.cycles * slower, total=loop.total * slower, matrix_busy=loop.matrix_busy / slower)
    return replace(its, run=replace(run, cycles=cycles, main_loop=loop, matrix_busy=work / cycles))
