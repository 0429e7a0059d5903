"""The graph of a pipeline's copies: waves run the ways that it says, and its check finds planted faults."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from asmgen.author.loop.pathcheck import check_paths
from asmgen.author.loop.pathgraph import PathChoice, PathCopy, PathGraph
from asmgen.author.step.merge import MergeError
from asmgen.emulator.scheduling.run import Options
from asmgen.emulator.scheduling.trace import Trace
from asmgen.kernels.registry import family
from tests.author.test_closing_sources import Form, build
from tests.emulator_launch import launch
from tests.random_steps import MOST, Written, drawn
from tests.tile_harness import POINTERS


def labels_of(positions: tuple[int, ...], graph: PathGraph, labels: dict[str, int]) -> list[str]:
    """The labels of copies that a wave passes, in order."""
    named = {labels[copy.label]: copy.label for copy in graph.copies if copy.label}
    return [named[position] for position in positions if position in named]


def expected(graph: PathGraph, choice: PathChoice) -> list[str]:
    return [label for number in graph.way(choice) if (label := graph.copies[number].label)]


@pytest.mark.parametrize(("seed", "masked_end"), [(0, None), (3, None), (8, None), (21, None), (3, 1), (14, 1), (17, 1)])
def test_waves_run_the_ways_of_the_graph(seed: int, masked_end: int | None) -> None:
    """Every count of plain and masked iterations; case 0 leads, and has masks. A drain that takes all masked ones leaves one loop."""
    step = drawn(seed)
    written = Written(step, leads=seed % 3 == 0, masked_end=masked_end)
    graph, program = written.k.paths[0], written.k.program()
    trace = Trace(workgroups=(MOST + 1) ** 2)
    size = (MOST + 1, MOST + 1, step.totals, 64)
    most = MOST if masked_end is None else masked_end
    launch("gfx950", program, (MOST + 1, most + 1, 1), buffers=[np.zeros(size, np.uint32)], options=Options(True, trace=trace))
    for wave in trace.waves():
        masked, plain = divmod(wave.workgroup, MOST + 1)
        if plain + masked:
            choice = PathChoice(plain + masked, plain if step.masked else None)
            assert labels_of(wave.positions, graph, dict(program.labels)) == expected(graph, choice), choice


@pytest.mark.parametrize("form", [Form(2, 2, True, True), Form(1, 1, False, True), Form(3, 4, False, True), Form(2, 3)], ids=str)
def test_waves_run_the_ways_of_closing_sources(form: Form) -> None:
    values = np.zeros((16, 16 * 12))
    run = build(form, values, values)
    kernel = run.kernel()
    (graph,) = kernel.paths
    buffers = [np.zeros((1, 64), np.uint32)] * 2 + run.buffers
    buffers += [np.zeros(1, np.uint32)] * (POINTERS - len(buffers))
    for count in range(1, 9):
        for flag in (0, 1):
            trace = Trace()
            launch("gfx950", kernel.program, buffers=buffers, values=[count, flag], lds=kernel.resources.lds_bytes, vgprs=512,
                   options=Options(True, trace=trace))
            (wave,) = trace.waves()
            wanted = expected(graph, PathChoice(count, served=form.overlaps and not flag))
            assert labels_of(wave.positions, graph, dict(kernel.program.labels)) == wanted, (count, flag)


def graph_of(seed: int) -> PathGraph:
    return Written(drawn(seed), leads=False).k.paths[0]


def with_copy(graph: PathGraph, kind: str, change: Callable[[PathCopy], PathCopy]) -> PathGraph:
    """The graph with its last copy of a kind changed."""
    number = max(at for at, copy in enumerate(graph.copies) if copy.kind == kind)
    copies = list(graph.copies)
    copies[number] = change(copies[number])
    return replace(graph, copies=tuple(copies))


@pytest.mark.parametrize("kind", ["prologue", "loop", "drain"])
def test_a_missing_a_repeated_and_an_exchanged_unit_are_found(kind: str) -> None:
    graph = graph_of(6)
    check_paths(graph, "good")
    with pytest.raises(MergeError, match="does not run in iteration"):
        check_paths(with_copy(graph, kind, lambda copy: replace(copy, placed=copy.placed[:-1])), "lost")
    with pytest.raises(MergeError, match="stands twice for one iteration"):
        check_paths(with_copy(graph, kind, lambda copy: replace(copy, placed=(*copy.placed, copy.placed[-1]))), "twice")
    with pytest.raises(MergeError, match=r"breaks the step: v_.* reads v\d+ from .*, but .* is placed"):
        check_paths(with_copy(graph, kind, lambda copy: replace(copy, placed=copy.placed[::-1])), "exchanged")


def test_a_way_that_leaves_out_a_copy_is_found() -> None:
    graph = graph_of(6)
    with pytest.raises(MergeError, match=r"the paths end PathChoice\(count=\d+.* after \d+ steps"):
        check_paths(replace(graph, way=lambda choice: list(graph.way(choice))[:-1]), "short")


def test_the_json_names_copies_and_edges() -> None:
    built = family("gemm-bf16").build("gfx950", {"tile": "256x256x64", "schedule": "ping-pong"})
    (graph,) = [json.loads(json.dumps(one.as_json())) for one in built.paths]
    assert [copy["kind"] for copy in graph["copies"]] == ["prologue", "prologue", "loop", "loop", "last"]
    assert graph["unroll"] == 2 and graph["ahead"] == 2 and all(copy["label"] for copy in graph["copies"])
    assert {(edge["from"], edge["to"]): edge["count"] for edge in graph["edges"]} == {
        (None, 0): 2, (None, 1): 1, (0, 2): 2, (1, 3): 1, (2, 3): 2, (3, 2): 3, (2, 4): 2, (3, None): 1, (4, None): 2}
