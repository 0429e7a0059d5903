"""Pipelines inside of a loop of the author's: sources begin again, counts may be 0, epilogues are chosen; and sources of several paces."""

from __future__ import annotations

import numpy as np
import pytest

from asmgen.author.loop.overlap import ChosenEpilogue, Epilogue, FollowingEpilogue
from asmgen.author.ops.arithmetic import mma, zero
from asmgen.author.ops.elementwise import add, mul
from asmgen.author.ops.movement import fill, read
from asmgen.author.ops.tilememory import load, store_tile
from asmgen.author.ops.vectors import row_vector
from asmgen.author.schedule.schedules import InOrder, PingPong, ProducerConsumer, Schedule
from asmgen.author.schedule.stagescheduler import PlacedPingPong
from asmgen.author.schedule.stepscheduler import Modulo
from asmgen.author.step.iterations import PipelineError, StepIndex
from asmgen.author.tiles.fragments import mfma
from asmgen.author.tiles.globals import Matrix, Rows
from asmgen.author.tiles.swizzles import DmaFill, FragmentRead
from asmgen.author.tiles.tiles import TileError
from asmgen.isa.registers import Reg
from tests.tile_harness import Array, TileRun, rounded

STEP = 64  # columns of K


def numbers(run: TileRun, **values: int) -> dict[str, Reg]:
    found = {name: run.k.registers.sgprs(1, name) for name in values}
    for name, value in values.items():
        run.k.s_mov_b32(found[name], value)
    return found


def rows_of(run: TileRun, array: Array, dtype: str, first: Reg | int, count: int) -> Rows:
    name = run.matrix(array, dtype)
    return Matrix(name, dtype, run.k.argument(name), *array.shape, array.shape[1]).rows(first, count)


@pytest.mark.parametrize(("schedule", "waves", "order"), [
    (Modulo(), 4, "serial"), (PingPong(), 8, "random:1"), (PlacedPingPong(), 8, "serial"), (PlacedPingPong(), 8, "lockstep")])
@pytest.mark.slow_after_first
def test_groups_of_several_lengths(schedule: Schedule, waves: int, order: str) -> None:
    """One workgroup makes 64 x 64 of four groups, of 0, 3, 1 and 0 steps along K; whole groups are stored, the others added to memory."""
    counts, whole = (0, 3, 1, 0), (1, 1, 0, 0)
    rng = np.random.default_rng(1)
    a, b = (rounded(rng.integers(-4, 5, (64 * len(counts), 3 * STEP)) / 4, "bf16", "gfx950") for _ in range(2))
    run = TileRun("gfx950", waves=waves)
    k = run.k
    M = mfma("f32_16x16x32_bf16", "gfx950")
    across = waves // 2
    table = run.raw(np.array([*counts, *whole], np.int32))
    at = numbers(run, group=0, row0=0)
    loaded = k.registers.sgprs(2, "loaded")
    wm, wn = k.wave_grid(2, across)
    A, B = k.tile("A", 32, STEP, M.a), k.tile("B", 64 // across, STEP, M.b)
    C = k.tile("C", 32, 64 // across, M.d.T)
    As, Bs = (k.shared(name, "bf16", 64, STEP, stages=3, serves=(FragmentRead(f), DmaFill())) for name, f in (("As", M.a), ("Bs", M.b)))
    memory, matrix = k.streams("memory", "matrix")
    half = numbers(run, half=0)["half"]
    k.s_lshr_b32(half, k.wave.register, (waves // 2).bit_length() - 1)
    names = run.matrix(a, "bf16"), run.matrix(b, "bf16"), run.matrix(before := np.full((256, 64), 0.5), "f32")
    k.label("group")
    left, right, out = (Matrix(name, dtype, k.argument(name), 256, columns, columns).rows(at["row0"], 64)
                        for name, dtype, columns in zip(names, ("bf16", "bf16", "f32"), (3 * STEP, 3 * STEP, 64), strict=True))
    offset = numbers(run, offset=0)["offset"]
    k.s_lshl_b32(offset, at["group"], 2)
    k.s_load_dword(loaded[0], k.argument(table), offset)
    k.s_add_u32(offset, offset, 4 * len(counts))
    k.s_load_dword(loaded[1], k.argument(table), offset)
    zero(k, C)

    def step(t: StepIndex) -> None:
        with k.stage(), memory:
            read(k, A, As[t].part(wm))
            read(k, B, Bs[t].part(wn))
            fill(k, As[t + 2], left.k(t + 2))
            fill(k, Bs[t + 2], right.k(t + 2))
        with k.stage(), matrix:
            mma(k, C, A, B)

    def unless_whole(label: str) -> None:
        k.s_cmp_eq_u32(loaded[1], 0)
        k.s_cbranch_scc1(label)

    def store(more: bool) -> FollowingEpilogue:
        return FollowingEpilogue(lambda: store_tile(k, out, C, wm, wn, add=more))

    k.pipeline(step, loaded[0], schedule, groups=half, empty=True,
               then=ChosenEpilogue(((unless_whole, store(False)),), store(True)))
    k.s_barrier()  # waves may still read what the next group's first fills overwrite
    k.s_add_u32(at["row0"], at["row0"], 64)
    k.s_add_u32(at["group"], at["group"], 1)
    k.s_cmp_lt_u32(at["group"], len(counts))
    k.s_cbranch_scc1("group")
    run.launch(order)
    expected = before.astype(np.float32)
    for group, (count, stored) in enumerate(zip(counts, whole, strict=True)):
        rows, columns = slice(64 * group, 64 * group + 64), slice(STEP * count)
        exact = a[rows, columns] @ b[rows, columns].T
        expected[rows] = exact if stored else expected[rows] + exact
    np.testing.assert_array_equal(run.done.buffers[int(names[2][1:])].view(np.float32).reshape(256, 64), expected)


@pytest.mark.parametrize("count", [0, 1, 4])
@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_sources_of_several_paces(arch: str, count: int) -> None:
    """16 rows along 16 columns of f32 a step, their factors along 16 elements of a line, and half as many bytes of bf16, 1 and 2 ahead."""
    run = TileRun(arch)
    k, rng = run.k, np.random.default_rng(2)
    x, y = rng.integers(-8, 9, (16, 80)) / 4, rng.integers(-8, 9, (16, 80)) / 4
    factors = rng.integers(-8, 9, 80) / 4
    factors[70:] = np.nan, np.inf, *factors[72:]  # beyond the last step
    d = mfma("f32_16x16x16_bf16", arch).d.T
    narrow = mfma("f32_16x16x16_bf16", arch).a
    X, Y = k.tile("X", 16, 16, d, stages=2), k.tile("Y", 16, 16, narrow, stages=3)
    total, product = run.tile("total", (16, 16), d, np.zeros((16, 16))), k.tile("product", 16, 16, d)
    last = run.tile("last", (16, 16), narrow, np.zeros((16, 16)))
    factor = row_vector(k, "factor", product, stages=3)
    wide, small = rows_of(run, x, "f32", 0, 16), rows_of(run, y, "bf16", 0, 16)
    line = rows_of(run, factors[None], "f32", 0, 1)
    steps = numbers(run, steps=count)["steps"]

    def step(t: StepIndex) -> None:
        with k.stage():
            load(k, X[t + 1], wide.k(t + 1))
            load(k, Y[t + 2], small.k(t + 2))
            load(k, factor[t + 2], line.k(t + 2))
            mul(k, product, X[t], factor[t])
            add(k, total, total, product)
            with k.at(t):
                for to, source in zip(last.registers, Y[t].registers, strict=True):
                    k.v_mov_b32(to, source)

    k.pipeline(step, steps, InOrder(), empty=True)
    run.give(total)
    run.give(last)
    expected = np.zeros((16, 16))
    for number in range(count):
        part = slice(16 * number, 16 * number + 16)
        expected += x[:, part] * factors[part][:, None]
    found, held = run.finish()
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(held, rounded(y[:, 16 * (count - 1):16 * count], "bf16", arch) if count else np.zeros((16, 16)))
    offsets = [owner for owner in k.registers.ranges if owner.name.startswith("k_offset")]
    assert len(offsets) == 2  # 64 bytes a step, and 32


def test_one_view_at_two_paces_is_refused() -> None:
    run = TileRun("gfx950")
    k = run.k
    d = mfma("f32_16x16x16_bf16", "gfx950").d.T
    one, two = k.tile("one", 16, 16, d, stages=2), k.tile("two", 16, 32, d, stages=2)
    wide = rows_of(run, np.zeros((16, 80)), "f32", 0, 16)

    def step(t: StepIndex) -> None:
        with k.stage():
            load(k, one[t + 1], wide.k(t + 1))
            load(k, two[t + 1], wide.k(t + 1))

    with pytest.raises(TileError, match="goes 128 bytes a step along K, but went 64 before: another view of the same rows would do"):
        k.pipeline(step, 3, InOrder())


def test_what_cannot_be_empty_or_chosen_is_refused() -> None:
    run = TileRun("gfx950")
    k = run.k
    total = run.tile("total", (16, 16), mfma("f32_16x16x16_bf16", "gfx950").d, np.zeros((16, 16)))
    steps = numbers(run, steps=1, role=0)

    def step(t: StepIndex) -> None:
        with k.stage():
            add(k, total, total, 1.0, at=t)

    class Overlapping:
        overlapped = Epilogue(lambda label: None, lambda: None)

        def follow(self, k: object) -> None:
            """Nothing."""

    with pytest.raises(PipelineError, match="a pipeline of 3 steps is empty or not for every launch"):
        k.pipeline(step, 3, InOrder(), empty=True)
    with pytest.raises(PipelineError, match="producers of producer-consumer end after it; branch around the pipeline"):
        k.pipeline(step, steps["steps"], ProducerConsumer(), groups=steps["role"], empty=True)
    with pytest.raises(PipelineError, match="meanwhile= is what each wave does after its first loads; without a step there are none"):
        k.pipeline(step, steps["steps"], InOrder(), empty=True, meanwhile=lambda: None)
    with pytest.raises(PipelineError, match="after its first loads; of two roles there are none for all of them"):
        k.pipeline(step, steps["steps"], ProducerConsumer(), groups=steps["role"], meanwhile=lambda: None)
    with pytest.raises(PipelineError, match=r"chosen after the loop cannot overlap its last step; FollowingEpilogue\(body\)"):
        k.pipeline(step, steps["steps"], InOrder(), then=ChosenEpilogue(((lambda label: None, Overlapping()),)))
