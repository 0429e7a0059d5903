"""Tiles that memory adds, in the emulator: f32 and packed 16-bit types, cut rows and columns, in loops, by several waves."""

from __future__ import annotations

import numpy as np
import pytest

from asmgen.author.epilogue.stores import Corner, store
from asmgen.author.ops.elementwise import fill_with
from asmgen.author.ops.tilememory import load, store_tile
from asmgen.author.ops.vectors import row_vector
from asmgen.author.schedule.schedules import InOrder
from asmgen.author.step.iterations import StepIndex
from asmgen.author.tiles.fragments import Fragment, mfma
from asmgen.author.tiles.globals import Matrix
from asmgen.author.tiles.tiles import TileError
from asmgen.author.tiles.views import with_dtype
from asmgen.isa.registers import Reg
from tests.tile_harness import Array, TileRun, codes_of, values_of

ARCHS = ("gfx942", "gfx950")
WIDTH = {"f32": np.uint32, "bf16": np.uint16, "f16": np.uint16}


def eighths(rows: int, columns: int, seed: int) -> Array:
    """Few bits, so that sums are exact in any order and any type; NaN and infinities among them."""
    found = np.random.default_rng(seed).integers(-32, 32, (rows, columns)) / 8
    found[2, :4] = np.nan, np.inf, -np.inf, -0.0
    return found


def numbers(run: TileRun, **values: int) -> dict[str, Reg]:
    found = {name: run.k.registers.sgprs(1, name) for name in values}
    for name, value in values.items():
        run.k.s_mov_b32(found[name], value)
    return found


def fragment(arch: str, dtype: str) -> Fragment:
    f = mfma("f32_16x16x16_f16", arch).d
    return f if dtype == "f32" else with_dtype(f.T, dtype)


@pytest.mark.parametrize("file", ["v", "a"])
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("arch", ARCHS)
def test_added_to_rows_and_columns_that_exist(arch: str, dtype: str, file: str) -> None:
    """13 of 16 rows and 26 of 32 columns of two waves' tiles exist; what is there and what follows keeps its bits."""
    run = TileRun(arch, waves=2)
    k, before, values = run.k, eighths(40, 40, 1), eighths(32, 32, 2)
    before[3] = 1.0
    size = numbers(run, first=5, rows=18, columns=40, stride=40)
    name, source = run.matrix(before, dtype), run.matrix(values, dtype)
    target = Matrix(name, dtype, k.argument(name), size["rows"], size["columns"], size["stride"]).rows(size["first"], 16)
    x = run.tile("x", (16, 16), fragment(arch, dtype))
    if dtype == "f32":
        x = run.tile("xt", (16, 16), mfma("f32_16x16x16_f16", arch).d.T)
    load(k, x, Matrix(source, dtype, k.argument(source), 32, 32, 32).rows(0, 32), columns=k.wave)
    if file == "a":
        y = run.tile("y", (16, 16), x.fragment, file="a")
        for to, one in zip(y.registers, x.registers, strict=True):
            k.v_accvgpr_write_b32(to, one)
        x = y
    store_tile(k, target, x, columns=k.wave, limit=26, add=True)
    run.launch()
    with np.errstate(invalid="ignore"):
        expected = values_of(codes_of(before, dtype, arch), dtype, arch)
        expected[5:18, :26] += values[:13, :26]
    found = values_of(run.done.buffers[2].reshape(40, 40), dtype, arch)
    np.testing.assert_array_equal(found, expected)
    outside = np.ones((40, 40), bool)
    outside[5:18, :26] = False
    codes = codes_of(before, dtype, arch).astype(WIDTH[dtype])
    np.testing.assert_array_equal(run.done.buffers[2].reshape(40, 40)[outside], codes[outside])


@pytest.mark.parametrize("arch", ARCHS)
def test_lanes_with_single_columns_and_vectors(arch: str) -> None:
    """All of four waves add to one place: 1 for each of them, by one lane of those that hold the same row of a vector."""
    run = TileRun(arch, waves=4)
    k = run.k
    x = run.tile("x", (16, 16), mfma("f32_16x16x16_f16", arch).d)
    ones = row_vector(k, "ones", x)
    fill_with(k, x, 2.0)
    fill_with(k, ones, 1.0)
    out, line = run.matrix(np.full((16, 16), 0.5), "f32"), run.matrix(np.full(20, 0.5), "f32")
    store_tile(k, Matrix(out, "f32", k.argument(out), 16, 16, 16).rows(0, 16), x, add=True)
    store_tile(k, Matrix(line, "f32", k.argument(line), 1, 14, 0).rows(0, 1), ones, add=True)
    run.launch("random:3")
    np.testing.assert_array_equal(run.done.buffers[2].view(np.float32), np.full((16, 16), 8.5))
    np.testing.assert_array_equal(run.done.buffers[3].view(np.float32), [4.5] * 14 + [0.5] * 6)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("arch", ARCHS)
def test_in_a_loop_down_the_rows(arch: str, dtype: str, count: int) -> None:
    run = TileRun(arch)
    k, before = run.k, eighths(64, 16, 4)
    x = run.tile("x", (16, 16), fragment(arch, dtype), values := eighths(16, 16, 5))
    size = numbers(run, first=3, rows=45, count=count)
    name = run.matrix(before, dtype)
    walk = Matrix(name, dtype, k.argument(name), size["rows"], 16, 16).walk(size["first"], 16)

    def step(t: StepIndex) -> None:
        with k.stage():
            store_tile(k, walk.step(t), x, add=True)

    k.pipeline(step, size["count"], InOrder())
    run.launch()
    expected = values_of(codes_of(before, dtype, arch), dtype, arch)
    with np.errstate(invalid="ignore"):
        for row in range(min(42, 16 * count)):
            expected[3 + row] += values[row % 16]
    np.testing.assert_array_equal(values_of(run.done.buffers[2].reshape(64, 16), dtype, arch), expected)


@pytest.mark.parametrize("file", ["v", "a"])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("arch", ARCHS)
def test_corners_of_an_epilogue(arch: str, dtype: str, file: str) -> None:
    """Two corners of 2 x 2 waves: rows 20 and columns 58 of 64 x 64 are the last ones from (3, 8) on; accumulators keep their values."""
    run = TileRun(arch, waves=4)
    k, before, values = run.k, eighths(40, 80, 6), eighths(32, 64, 7)
    size = numbers(run, first=3, column=8, rows=30, columns=58, stride=80)
    name, source = run.matrix(before, dtype), run.matrix(values, "f32")
    wm, wn = k.wave_grid(2, 2)
    f = mfma("f32_16x16x16_f16", arch).d.T
    tiles = [run.tile(f"c{number}", (16, 16), f, file=file) for number in range(2)]
    for number, tile in enumerate(tiles):
        load(k, tile, Matrix(source, "f32", k.argument(source), 32, 64, 64).rows(0, 32), wm, wn, column=32 * number)
    target = Matrix(name, dtype, k.argument(name), size["rows"], size["columns"], size["stride"], 80, 80, 2).rows(size["first"], 32)
    store(k, target, size["column"], [Corner(tiles[0], 0, 0), Corner(tiles[1], 0, 32)], wm, wn, 64, add=True)
    store(k, target, size["column"], [Corner(tiles[1], 0, 32)], wm, wn, 64, add=True)
    run.launch()
    expected = values_of(codes_of(before, dtype, arch), dtype, arch)
    with np.errstate(invalid="ignore"):
        expected[3:30, 8:58] += values[:27, :50]
        expected[3:30, 40:58] += values[:27, 32:50]
    np.testing.assert_array_equal(values_of(run.done.buffers[2].reshape(40, 80), dtype, arch), expected)


def test_what_memory_cannot_add_is_refused() -> None:
    run = TileRun("gfx950")
    k = run.k
    size = numbers(run, columns=16, limit=8)
    name = run.matrix(np.zeros((16, 16)), "bf16")
    at = Matrix(name, "bf16", k.argument(name), 16, size["columns"], 16, multiple=2).rows(0, 16)
    f = mfma("f32_16x16x16_f16", "gfx950").d
    pairs, single = run.tile("pairs", (16, 16), with_dtype(f.T, "bf16")), run.tile("single", (16, 16), with_dtype(f, "bf16"))
    store_tile(k, at, pairs, limit=size["columns"], add=True)
    for attempt, sentence in ((lambda: store_tile(k, at, pairs, limit=7, add=True), "a limit of 7 may part two"),
                              (lambda: store_tile(k, at, pairs, limit=size["limit"], add=True), r"a limit of s\d+ may part two"),
                              (lambda: store_tile(k, at, pairs, column=3, add=True), "a first column of 3 may part two"),
                              (lambda: store_tile(k, at, single, add=True), "a lane with single columns may part two")):
        with pytest.raises(TileError, match=sentence):
            attempt()
    odd = Matrix(name, "bf16", k.argument(name), 16, 15, 15).rows(0, 16)
    with pytest.raises(TileError, match="rows of 15 elements may part two"):
        store_tile(k, odd, pairs, add=True)
    whole = run.matrix(np.zeros((16, 16)), "i32")
    with pytest.raises(TileError, match="memory adds f32, f16, bf16, not i32"):
        store_tile(k, Matrix(whole, "i32", k.argument(whole), 16, 16, 16).rows(0, 16), run.tile("n", (16, 16), with_dtype(f, "i32")),
                   add=True)
