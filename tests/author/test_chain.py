"""Chains of items: each item's sums go out as they are, on both ways through the epilogue, and what no chain can do is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from asmgen.author.loop import pipeline
from asmgen.author.loop.chainedpaths import Chain
from asmgen.author.loop.overlap import Epilogue
from asmgen.author.ops.arithmetic import mma
from asmgen.author.ops.elementwise import fill_with
from asmgen.author.ops.tilememory import load, store_tile
from asmgen.author.schedule.schedules import InOrder
from asmgen.author.step.iterations import PipelineError, StepIndex
from asmgen.author.tiles.fragments import mfma
from asmgen.isa.registers import Reg, vcc
from tests.author.test_tile_memory import matrix
from tests.emulator_launch import launch
from tests.tile_harness import POINTERS, TileRun, rounded

ITEMS, SIZE, DEPTH = 3, 16, 32


@dataclass(frozen=True)
class After:
    """The epilogue, as in the last step and as after the loop."""

    overlapped: Epilogue
    follow: Callable[[object], None]


@dataclass(frozen=True)
class Form:
    """`late`: the epilogue ends with a read of the register that `begin` changes. `forgotten`: accumulators that `sums` leaves out.
    `other`: sums to which no product adds. `early`: the products run an iteration ahead, from the last step of the item before on.
    `ahead`: iterations that loads run ahead. `spoilt`: the epilogue leaves word in VCC, which `advance` changes.
    `first`: something is loaded for the first iteration alone, an iteration ahead. `numbered`: the step uses its number. `counted`: item i
    has i iterations more than the first one."""

    late: bool = False
    forgotten: bool = False
    other: bool = False
    early: bool = False
    ahead: int = 2
    spoilt: bool = False
    first: bool = False
    numbered: bool = False
    counted: bool = False


def build(values: np.ndarray[Any, Any], form: Form) -> TileRun:
    """Of each item, 16 rows of `values`: X X^T over v0 iterations. Waves whose v1 is not 0 store it after the loop."""
    run = TileRun("gfx950", values=(1, 0))
    k = run.k
    names = ("row0", "following", "own", "ended", "over", "count")
    row0, following, own, ended, over, count = (k.registers.sgprs(1, name) for name in names)
    M = mfma("f32_16x16x32_bf16", "gfx950")
    C, X = k.tile("C", SIZE, SIZE, M.d), k.tile("X", SIZE, DEPTH, M.a, stages=3)
    other = k.registers.vgprs(4, "other")
    late = k.registers.vgprs(1, "late")
    for register in (row0, own, ended):
        k.s_mov_b32(register, 0)
    k.s_mov_b32(count, k.argument("v0"))
    fill_with(k, C, 0)
    rows = matrix(run, values, "bf16", *values.shape).rows(row0, SIZE)
    out = matrix(run, np.zeros((ITEMS * SIZE, SIZE)), "f32", ITEMS * SIZE, SIZE)
    onward = k.fresh("onward")

    def step(t: StepIndex) -> None:
        with k.stage():
            mma(k, C, X[t + form.early], X[t + form.early])
            load(k, X[t + form.ahead], rows.k(t + form.ahead))
            if form.numbered:
                with k.at(t):
                    k.v_mov_b32(late, t.number)
            if form.first:
                with t.first, k.at(t + 1):
                    k.v_mov_b32(late, 0)

    def store() -> None:
        store_tile(k, out.rows(own, SIZE), C)
        for number in range(24):  # more than the last step has room for
            k.v_mov_b32(other[number % 4], number)
        if form.late:
            k.v_mov_b32(late, own)

    def guard(label: str) -> None:
        k.s_cmp_lg_u32(k.argument("v1"), 0)
        k.s_cbranch_scc1(label)

    def advance() -> None:
        k.s_mov_b32(following, row0)
        k.s_mov_b32(over, ended)
        k.s_add_u32(row0, row0, SIZE)
        k.s_cmp_ge_u32(row0, ITEMS * SIZE)
        k.s_cselect_b32(ended, 1, 0)
        if form.spoilt:
            k.s_mov_b64(vcc, 0)

    def begin() -> None:
        k.s_mov_b32(own, following)
        if form.counted:
            k.s_lshr_b32(count, own, SIZE.bit_length() - 1)
            k.s_add_u32(count, count, k.argument("v0"))

    def follow(_: object) -> None:
        if again is not None:
            k.label(again)
        store()

    again = k.fresh("again") if form.spoilt else None
    sums: list[Reg] = list(C.registers)
    if form.forgotten:
        sums.pop()
    if form.other:
        sums.append(other)
    k.pipeline(step, count, InOrder(), then=After(Epilogue(guard, store, again, onward), follow),
               chain=Chain(advance, begin, ended, over, sums, onward, form.counted))
    return run


@pytest.fixture(autouse=True)
def overlaps(monkeypatch: pytest.MonkeyPatch) -> None:
    """The epilogue stands in the last step, where it costs more too."""
    monkeypatch.setattr(pipeline, "overlap_pays", lambda *_: True)


@pytest.mark.slow
def test_each_item_begins_from_zero_and_each_copy_is_checked() -> None:
    values = np.random.default_rng(5).integers(-8, 8, (ITEMS * SIZE, DEPTH * 8)).astype(float)
    run = build(values, Form(counted=True))
    kernel = run.kernel()
    (graph,) = kernel.paths
    assert {number for choice in graph.choices(graph.unroll) for number in graph.way(choice)} == set(range(len(graph.copies)))
    assert [copy.kind for copy in graph.copies].count("first") == 4 * graph.unroll, "two last steps, two first ones after them"
    buffers = [np.zeros((1, 64), np.uint32)] * 2 + run.buffers
    buffers += [np.zeros(1, np.uint32)] * (POINTERS - len(buffers))
    for count in range(3, 6):
        used = rounded(values, "bf16", "gfx950").reshape(ITEMS, SIZE, -1)
        used = np.stack([one * (np.arange(DEPTH * 8) < (count + number) * DEPTH) for number, one in enumerate(used)])
        for flag in (0, 1):
            done = launch("gfx950", kernel.program, buffers=buffers, values=[count, flag], lds=kernel.resources.lds_bytes, vgprs=512)
            assert not done.findings, [finding.sentence() for finding in done.findings][:3]
            np.testing.assert_array_equal(done.buffers[3].view(np.float32).reshape(ITEMS, SIZE, SIZE), used @ used.swapaxes(1, 2),
                                          err_msg=f"{count} iterations, flag {flag}")


@pytest.mark.parametrize(("form", "sentence"), [
    (Form(late=True), r"s_mov_b32 s\d+, s\d+ would stand before v_mov_b32 v\d+, s\d+, for which the epilogue .* finds no room"),
    (Form(forgotten=True), r"v\d+ would begin so and are none of sums="),
    (Form(other=True), r"v\[\d+:\d+\] would go on from the item before"),
    (Form(ahead=1, spoilt=True), r"s_mov_b64 vcc, 0 of advance\(\) changes VCC"),
    (Form(first=True), r"a chain of items has no operations under t\.first or t\.later"),
    (Form(numbered=True), r"t\.number counts on from one item"),
    (Form(early=True), r"matrix instructions of iteration t .*; v\[\d+:\d+\] would go on from the item before"),
])
def test_what_a_chain_would_mix_is_refused(form: Form, sentence: str) -> None:
    with pytest.raises(PipelineError, match=sentence) as refused:
        build(np.zeros((ITEMS * SIZE, DEPTH)), form)
    assert "test_chain.py" in refused.value.where
