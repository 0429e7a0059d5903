"""Loops whose sources along K close: every count gives what it should, and no column beyond the last iteration's is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from asmgen.author.emit.ldsmap import LdsRange
from asmgen.author.loop import closingpaths, pipeline
from asmgen.author.loop.overlap import Epilogue
from asmgen.author.ops.arithmetic import mma
from asmgen.author.ops.conversions import convert
from asmgen.author.ops.elementwise import add, fill_with
from asmgen.author.ops.movement import fill, read
from asmgen.author.ops.tilememory import load, store_tile
from asmgen.author.schedule.schedules import Arrangement, InOrder, PingPong
from asmgen.author.step.iterations import PipelineError, StepIndex
from asmgen.author.tiles.fragments import mfma
from asmgen.author.tiles.swizzles import DmaFill, FragmentRead
from asmgen.author.tiles.tiles import Tile
from asmgen.author.tiles.views import with_dtype
from asmgen.emulator.machine.state import Machine
from asmgen.emulator.scheduling.run import Options
from asmgen.emulator.scheduling.trace import Trace
from asmgen.program.program import Instruction
from tests.author.test_tile_memory import matrix
from tests.emulator_launch import launch
from tests.tile_harness import POINTERS, TileRun, rounded

ROWS, COLUMNS, MOST = 16, 16, 8
ROW = 2 * COLUMNS * (MOST + 3)  # bytes from a row to the next: columns beyond the last iteration lie inside the buffer


@dataclass(frozen=True)
class Form:
    """Loads `ahead` iterations ahead into `stages` tiles of registers, and from another source an iteration `later`. `overlaps`: an
    epilogue stands in the last step, for launches whose flag is 0."""

    ahead: int
    stages: int
    later: bool = False
    overlaps: bool = False


@dataclass(frozen=True)
class After:
    """The epilogue: `overlapped` stores the sums where the flag is 0, the rest stores them raised by 1."""

    overlapped: Epilogue | None
    follow: Callable[[object], None]


def build(form: Form, left: np.ndarray, right: np.ndarray) -> TileRun:
    """Sums of `left`, and of `right` (read an iteration later), over v0 iterations. v1 is the flag."""
    run = TileRun("gfx950", values=(1, 0))
    k = run.k
    zero, count, wide = (k.registers.sgprs(1, name) for name in ("no_row", "count", "wide"))
    k.s_mov_b32(zero, 0)
    k.s_mov_b32(count, k.argument("v0"))
    k.s_mul_i32(wide, count, COLUMNS)
    sources = [matrix(run, values, "bf16", ROWS, ROW // 2) for values in (left, right)]
    for source in sources:
        source.columns_register = wide  # the descriptor ends after the last iteration of the last row, not of others
    rows = [source.rows(zero, ROWS) for source in sources]
    f = mfma("f32_16x16x16_bf16", "gfx950").a
    R, L = k.tile("R", ROWS, COLUMNS, f, stages=form.stages), k.tile("L", ROWS, COLUMNS, f, stages=form.stages)
    wider, total = (k.tile(name, ROWS, COLUMNS, with_dtype(f, "f32")) for name in ("wider", "total"))
    fill_with(k, total, 0)
    out = [matrix(run, np.zeros((ROWS, COLUMNS)), "f32", ROWS, COLUMNS).rows(zero, ROWS) for _ in range(2)]
    store_tile(k, out[1], total)  # makes what the epilogues share

    def staged(tiles: Any, t: StepIndex) -> Tile:
        found = tiles[t] if form.stages > 1 else tiles
        assert isinstance(found, Tile)
        return found

    def step(t: StepIndex) -> None:
        with k.stage():
            convert(k, wider, staged(R, t), at=t)
            add(k, total, total, wider, at=t)
            load(k, staged(R, t + form.ahead), rows[0].k(t + form.ahead))
            if form.later:
                convert(k, wider, staged(L, t), at=t)
                add(k, total, total, wider, at=t)
                load(k, staged(L, t + form.ahead - 1), rows[1].k(t + form.ahead - 1))

    def guard(label: str) -> None:
        k.s_cmp_lg_u32(k.argument("v1"), 0)
        k.s_cbranch_scc1(label)

    def rest(_: object) -> None:
        add(k, total, total, 1.0)
        store_tile(k, out[1], total)

    k.pipeline(step, count, InOrder(), then=After(Epilogue(guard, lambda: store_tile(k, out[0], total)) if form.overlaps else None, rest))
    return run


class Reads(Trace):
    """Notes the bytes of global memory that loads read, a row [first address, last address] each."""

    def watcher(self, machine: Machine) -> Any:
        self.rows: list[np.ndarray[Any, Any]] = []
        return _Watcher(self.rows)


@dataclass
class _Watcher:
    rows: list[np.ndarray[Any, Any]]

    def __call__(self, step: object) -> None:
        """No instruction wants anything."""

    def memory(self, group: object, instruction: Instruction, memory_name: str, addresses: Any, counts: Any, size: int, low: int,
               high: int) -> None:
        """A state.MemoryWatcher."""
        if "_load_" in instruction.name:
            sizes = np.broadcast_to(counts * size, addresses.shape)
            first, read = addresses[sizes > 0], sizes[sizes > 0]
            self.rows.append(np.stack([first, first + read], 1))


@pytest.fixture
def looped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last steps run in the loop, and an epilogue in the last one: these are so short that other text costs less."""
    monkeypatch.setattr(closingpaths, "drain_pays", lambda *_: False)
    monkeypatch.setattr(pipeline, "overlap_pays", lambda *_: True)


FORMS = [Form(1, 1), Form(1, 2), Form(2, 2), Form(2, 2, later=True), Form(2, 3, later=True), Form(3, 4), Form(3, 3, later=True)]


@pytest.mark.parametrize("overlaps", [False, True], ids=["after", "overlapping"])
@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.slow_after_first
@pytest.mark.usefixtures("looped")
def test_every_count(form: Form, overlaps: bool) -> None:
    form = Form(form.ahead, form.stages, form.later, overlaps)
    random = np.random.default_rng(form.ahead)
    left, right = (random.integers(-8, 8, (ROWS, ROW // 2)).astype(float) for _ in range(2))
    run = build(form, left, right)
    kernel = run.kernel()
    assert "sources_end" in kernel.text()
    buffers = [np.zeros((1, 64), np.uint32)] * 2 + run.buffers
    buffers += [np.zeros(1, np.uint32)] * (POINTERS - len(buffers))
    for count in range(1, MOST + 1):
        used = [rounded(one, "bf16", "gfx950")[:, :COLUMNS * count].reshape(ROWS, count, COLUMNS).sum(1) for one in (left, right)]
        expected = used[0] + used[1] if form.later else used[0]
        for flag in (0, 1) if overlaps else (0,):
            values = [count, flag]
            done = launch("gfx950", kernel.program, buffers=buffers, values=values, lds=kernel.resources.lds_bytes, vgprs=512)
            assert not done.findings, [finding.sentence() for finding in done.findings][:3]
            inside = overlaps and not flag and count >= form.ahead
            found = done.buffers[4 if inside else 5].view(np.float32)
            np.testing.assert_array_equal(found, expected + (not inside), err_msg=f"{count} iterations, flag {flag}")
            reads = Reads()
            launch("gfx950", kernel.program, buffers=buffers, values=values, lds=kernel.resources.lds_bytes, vgprs=512,
                   options=Options(True, trace=reads))
            farther = reads.rows[0].min()  # the address of the first element that is read
            rows = np.concatenate(reads.rows) - farther
            mine = (rows[:, 0] >= 0) & (rows[:, 0] < ROWS * ROW)
            assert len(np.unique(rows[mine, 0])) == mine.sum() == ROWS * count * COLUMNS // 4, "each element is read once"
            assert (rows[mine] % ROW).max() <= 2 * COLUMNS * count
            if form.later:
                others = rows[~mine] - rows[~mine].min()
                assert len(np.unique(others[:, 0])) == ROWS * count * COLUMNS // 4 and (others % ROW).max() <= 2 * COLUMNS * count
                again = (len(others) - ROWS * count * COLUMNS // 4) // (ROWS * COLUMNS // 4)
                assert again <= (form.ahead - 1) * (count >= form.ahead), "none where the loop runs the last steps alone"


def test_short_steps_have_a_drain() -> None:
    ones = np.ones((ROWS, ROW // 2))
    for overlaps in (False, True):
        (graph,) = build(Form(2, 2, overlaps=overlaps), ones, ones).kernel().paths
        kinds = {copy.kind for copy in graph.copies}
        assert "drain" in kinds and "last" not in kinds


@pytest.mark.usefixtures("looped")
@pytest.mark.parametrize(("used", "wait"), [(False, []), (True, ["s_waitcnt vmcnt(0)"])])
def test_what_uses_lds_after_the_loop_waits_for_fills_in_flight(used: bool, wait: list[str]) -> None:
    """The last steps fill LDS too, with nothing. Where no one uses LDS after the loop, no one waits."""
    run = TileRun("gfx950", waves=4)
    k = run.k
    zero, count = (k.registers.sgprs(1, name) for name in ("no_row", "count"))
    k.s_mov_b32(zero, 0)
    k.s_mov_b32(count, 4)
    M = mfma("f32_16x16x32_bf16", "gfx950")
    C, A, X = k.tile("C", 16, 16, M.d), k.tile("A", 16, 64, M.a), k.registers.vgprs(1, "x")
    As = k.shared("As", "bf16", 64, 64, 2, serves=(FragmentRead(M.a), DmaFill()))
    rows = matrix(run, np.ones((64, 256)), "bf16", 64, 256).rows(zero, 64)
    ranges: list[LdsRange] = []
    fill_with(k, C, 0)

    def step(t: StepIndex) -> None:
        with k.stage():
            read(k, A, As[t].part(k.wave))
        with k.stage():
            mma(k, C, A, A)
        with k.stage():
            ranges.append(As[t].range)
            fill(k, As[t + 2], rows.k(t + 2))

    k.pipeline(step, count, PingPong(stagger=0))
    k.s_barrier()
    k.v_mov_b32(X, 0)
    if used:
        k.ds_write_b32(X, X, fills=ranges[0])
    run.give(C)
    text = run.kernel().text()
    after = text[text.index("\nall_steps"):]
    lines = after[:after.index("s_barrier")].splitlines()
    assert [line.partition(";")[0].strip() for line in lines if "s_waitcnt" in line] == wait


class Early(InOrder):
    """Places the first unit of a step in the copy before."""

    def arrange(self, *arguments: Any) -> Arrangement:
        """In order, but the first unit leads."""
        return replace(super().arrange(*arguments), lead=frozenset({0}))


def test_a_load_that_would_stand_before_its_source_has_gone_on_is_refused() -> None:
    run = TileRun("gfx950")
    k = run.k
    X = k.tile("X", 16, 16, mfma("f32_16x16x16_bf16", "gfx950").a, stages=2)
    rows = matrix(run, np.zeros((16, 64)), "bf16", 16, 64).rows(0, 16)

    def step(t: StepIndex) -> None:
        load(k, X[t + 1], rows.k(t + 1))
        with k.at(t):
            k.v_mov_b32(run.at, 0)

    with pytest.raises(PipelineError, match=r"schedule in-order places buffer_load_dwordx2 .* in the copy before its own"):
        k.pipeline(step, 4, Early())
