"""Tile operations in a pipelined step: each knows its iteration, addresses are computed in front of the loop."""

from __future__ import annotations

import numpy as np
import pytest

from asmgen.author.ops.conversions import convert
from asmgen.author.ops.elementwise import add, fill_with, max_, mul
from asmgen.author.ops.movement import read, write
from asmgen.author.ops.reductions import reduce_lanes, row_sum
from asmgen.author.ops.tilememory import load, store_tile
from asmgen.author.ops.vectors import row_vector
from asmgen.author.schedule.schedules import InOrder
from asmgen.author.step.iterations import PipelineError, StepIndex
from asmgen.author.tiles.fragments import mfma
from asmgen.author.tiles.swizzles import FragmentRead
from asmgen.author.tiles.views import with_dtype
from asmgen.isa.registers import Reg
from tests.author.test_tile_memory import matrix
from tests.tile_harness import TileRun, rounded

COLUMNS = 32


@pytest.mark.parametrize("count", [1, 2, 3, 6])
@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_rows_in_steps_loads_two_ahead(arch: str, count: int) -> None:
    """The sum and the sum of squares of rows of bf16, loads two steps ahead in three stages; a tile passes through LDS on the way.

    On gfx950 the count is in an SGPR, and each prologue clears the sums after its first loads.
    """
    values = np.random.default_rng(count).uniform(-3, 3, (32, COLUMNS * count)) + np.arange(32)[:, None] * 0.1
    run = TileRun(arch)
    k = run.k
    source = matrix(run, values, "bf16", 32, COLUMNS * count)
    zero = k.registers.sgprs(1, "no_row")
    k.s_mov_b32(zero, 0)
    rows = source.rows(zero, 32)
    f = mfma("f32_16x16x16_bf16" if arch == "gfx942" else "f32_16x16x32_bf16", arch).a
    R = k.tile("R", 32, COLUMNS, f, stages=3)
    staged = k.shared("staged", "bf16", 32, COLUMNS, stages=2, serves=(FragmentRead(f), FragmentRead(f, write=True)))
    back, wide = run.tile("back", (32, COLUMNS), f), run.tile("wide", (32, COLUMNS), with_dtype(f, "f32"))
    total, squares = row_vector(k, "total_of_row", wide), row_vector(k, "squares_of_row", wide)
    steps: int | Reg = count

    def clear() -> None:
        fill_with(k, total, 0)
        fill_with(k, squares, 0)

    if arch == "gfx950":
        steps = k.registers.sgprs(1, "steps")
        k.s_mov_b32(steps, count)
    else:
        clear()

    def step(t: StepIndex) -> None:
        with k.stage():
            load(k, R[t + 2], rows.k(t + 2))
        with k.stage():
            write(k, staged[t], R[t], own=True)
            read(k, back, staged[t], own=True)
            convert(k, wide, back)
            row_sum(k, total, wide, across=False, start=True)
            mul(k, wide, wide, wide)
            row_sum(k, squares, wide, across=False, start=True)

    before = len(k.items)
    shape = k.pipeline(step, steps, InOrder(), meanwhile=clear if arch == "gfx950" else None)
    assert (shape.ahead, shape.unroll) == (2, 6)
    names = [item.name for item in k.items[before:] if hasattr(item, "operands")]
    assert names.count("v_mul_lo_u32") == 1  # of the rows' offset, in front of the loop
    reduce_lanes(k, "sum", total)
    reduce_lanes(k, "sum", squares)
    run.give(total)
    run.give(squares)
    found = run.finish()
    exact = rounded(values, "bf16", arch)
    np.testing.assert_allclose(found[0], exact.sum(1), rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(found[1], (exact**2).sum(1), rtol=1e-5)


def test_two_iterations_in_one_operation_are_refused() -> None:
    run = TileRun("gfx950")
    k = run.k
    f = mfma("f32_16x16x16_bf16", "gfx950").d
    R = k.tile("R", 16, 16, f, stages=2)
    plain = run.tile("plain", (16, 16), f)

    def two(t: StepIndex) -> None:
        with k.stage():
            add(k, R[t], R[t], R[t + 1])

    def none(t: StepIndex) -> None:
        with k.stage():
            max_(k, plain, plain, 0.0)

    with pytest.raises(PipelineError, match=r"add R.* names two iterations, t and t\+1"):
        k.pipeline(two, 3, InOrder())
    with pytest.raises(PipelineError, match=r"max plain has no iteration"):
        k.pipeline(none, 3, InOrder())


def test_at_gives_an_iteration_to_what_has_none() -> None:
    values = np.arange(256.0).reshape(16, 16)
    run = TileRun("gfx942")
    k = run.k
    plain = run.tile("plain", (16, 16), mfma("f32_16x16x16_bf16", "gfx942").d, values)

    def step(t: StepIndex) -> None:
        with k.stage():
            add(k, plain, plain, 1.0, at=t)

    k.pipeline(step, 5, InOrder())
    out = matrix(run, np.zeros((16, 16)), "f32", 16, 16)
    zero = k.registers.sgprs(1, "no_row")
    k.s_mov_b32(zero, 0)
    store_tile(k, out.rows(zero, 16), plain)
    np.testing.assert_array_equal(run.launch().buffers[2].view(np.float32), (values + 5).astype(np.float32))
