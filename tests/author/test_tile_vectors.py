"""Vectors between memory, LDS and registers, rows that repeat, and what tensors of one shape share, in the emulator."""

from __future__ import annotations

import numpy as np
import pytest

from asmgen.author.ops.conversions import convert
from asmgen.author.ops.elementwise import add, mul
from asmgen.author.ops.movement import read, write
from asmgen.author.ops.reductions import row_sum
from asmgen.author.ops.tilememory import load, store_tile
from asmgen.author.ops.vectors import as_vector, column_vector, row_vector
from asmgen.author.schedule.schedules import InOrder
from asmgen.author.step.iterations import StepIndex
from asmgen.author.tiles.fragments import mfma
from asmgen.author.tiles.globals import Matrix, Rows
from asmgen.author.tiles.swizzles import plain
from asmgen.author.tiles.tiles import Tile, TileError
from asmgen.isa.placement import Placement
from asmgen.isa.registers import Reg
from asmgen.program.program import Instruction, Label
from tests.tile_harness import Array, TileRun, rounded

ARCHS = ("gfx942", "gfx950")


def numbers(run: TileRun, **values: int) -> dict[str, Reg]:
    """An SGPR with each value."""
    found = {name: run.k.registers.sgprs(1, name) for name in values}
    for name, value in values.items():
        run.k.s_mov_b32(found[name], value)
    return found


def special(count: int, seed: int = 1) -> Array:
    """Different values of both signs, with NaN, infinities, a subnormal number and zeros of both signs."""
    values = np.random.default_rng(seed).uniform(-9, 9, count).astype(np.float32)
    values[[1, count // 2, count - 1]] = np.nan, np.inf, -np.inf
    values[[0, 3]] = -0.0, 2.0**-140
    return values.astype(np.float64)


def line(run: TileRun, array: Array, dtype: str, size: Reg | int) -> Rows:
    """A line whose buffer has more elements than `size` says."""
    name = run.matrix(array, dtype)
    return Matrix(name, dtype, run.k.argument(name), 1, size, 0).rows(0, 1)


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("arch", ARCHS)
def test_columns_from_a_line_that_ends_anywhere(arch: str, dtype: str) -> None:
    """157 of 256 weights exist, an odd number: what follows them in memory is not read. They come as their type, then as f32."""
    run = TileRun(arch)
    k, values = run.k, special(200)
    x = run.tile("x", (8, 256), k.lanes("f32", 8, 16))
    narrow, w = column_vector(k, "narrow", x, dtype=dtype), column_vector(k, "w", x)
    load(k, narrow, line(run, values, dtype, numbers(run, size=157)["size"]))
    if dtype == "f32":
        run.give(narrow)
    else:
        assert narrow.registers.count * 2 == w.registers.count
        convert(k, w, narrow)
        run.give(w)
    expected = np.zeros(256)
    expected[:157] = rounded(values, dtype, arch)[:157]
    found = run.finish()[0]
    np.testing.assert_array_equal(found, expected)
    if dtype == "f32":
        loads = [item for item in k.program().instructions if item.name == "buffer_load_dwordx4"]
        assert len(loads) == 4  # two fragments of eight neighbours


@pytest.mark.parametrize("arch", ARCHS)
def test_rows_of_waves_and_of_an_accumulator(arch: str) -> None:
    """Four waves, each with its 32 rows of a line from row 5 on; an accumulator's lane has 16 rows in runs of four."""
    run = TileRun(arch, waves=4)
    k, values = run.k, special(150)
    s = run.tile("s", (32, 32), mfma("f32_32x32x8_f16", arch).d)
    lse = row_vector(k, "lse", s)
    first = numbers(run, first=5, size=150)
    load(k, lse, line(run, values, "f32", first["size"]), rows=k.wave, column=first["first"])
    mul(k, lse, lse, 2.0)
    out = np.full(140, 7.0)
    store_tile(k, line(run, out, "f32", 100), lse, rows=k.wave)
    run.launch()
    expected = out.astype(np.float32)
    expected[:100] = 2 * values[5:105].astype(np.float32)
    np.testing.assert_array_equal(run.done.buffers[3].view(np.float32), expected)
    assert all(item.name == "buffer_store_dwordx4" for item in k.program().instructions if item.name.startswith("buffer_store"))


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("arch", ARCHS)
def test_one_lane_of_those_with_the_same_row_stores_it(arch: str, dtype: str) -> None:
    """13 sums of rows: 16 lanes have each. With 16-bit elements the last dword is half in the line, and the other half stays."""
    run = TileRun(arch)
    k = run.k
    values = np.arange(16 * 16).reshape(16, 16) / 8.0
    x = run.tile("x", (16, 16), mfma("f32_16x16x16_f16", arch).d, values)
    total = row_vector(k, "total", x)
    row_sum(k, total, x)
    out = line(run, np.full(20, 7.0), dtype, numbers(run, size=13)["size"])
    if dtype == "f32":
        store_tile(k, out, total)
    else:
        half = row_vector(k, "half", x, dtype=dtype)
        convert(k, half, total)
        store_tile(k, out, half)
    run.launch()
    expected = np.full(20, 7.0)
    expected[:13] = rounded(values.sum(1), dtype, arch)[:13]
    found = run.done.buffers[2]
    found = found.view(np.float32) if dtype == "f32" else (found.astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("arch", ARCHS)
def test_a_vector_through_lds_without_conflicts(arch: str) -> None:
    """Two waves write 16 rows each and read all 32 of them."""
    run = TileRun(arch, waves=2)
    k, values = run.k, special(32)
    like = run.tile("like", (16, 16), mfma("f32_16x16x16_f16", arch).d)
    mine = row_vector(k, "mine", like)
    shared = k.shared("shared", "f32", 2, 16, placement=Placement(plain(2, 16, 32)))
    load(k, mine, line(run, values, "f32", 32), rows=k.wave)
    write(k, shared[()].part(k.wave), mine)
    mul(k, mine, mine, 0)
    read(k, mine, shared[()].part(k.wave))
    store_tile(k, line(run, np.zeros(32), "f32", 32), mine, rows=k.wave)
    run.launch()
    np.testing.assert_array_equal(run.done.buffers[3].view(np.float32), values.astype(np.float32))
    conflicts = run.done.result.bank_conflicts
    read_at = next(number for number, item in enumerate(run.program.instructions) if item.name == "ds_read_b128")
    assert conflicts.get(read_at, 0) == 0


@pytest.mark.parametrize("count", [1, 2, 3, 5])
@pytest.mark.parametrize("arch", ARCHS)
def test_vectors_take_turns_in_a_pipeline(arch: str, count: int) -> None:
    """Each step multiplies 16 rows by their own numbers, which were loaded two steps ahead into three stages."""
    run = TileRun(arch)
    k, factors = run.k, special(80, 5)
    factors[3] = 0.5  # the product of a subnormal number is 0 here
    x = run.tile("x", (16, 16), mfma("f32_16x16x16_f16", arch).d, values := np.arange(256.0).reshape(16, 16) - 100)
    total, product = run.tile("total", (16, 16), x.fragment, np.zeros((16, 16))), k.tile("product", 16, 16, x.fragment)
    factor = row_vector(k, "factor", x, stages=3)
    size = numbers(run, size=80, count=count)
    source = line(run, factors, "f32", size["size"])

    def step(t: StepIndex) -> None:
        with k.stage():
            load(k, factor[t + 2], source.k(t + 2))
            mul(k, product, x, factor[t])
            add(k, total, total, product)

    k.pipeline(step, size["count"], InOrder())
    run.give(total)
    expected = np.zeros((16, 16), np.float32)
    for number in range(count):
        expected += values.astype(np.float32) * factors[16 * number:16 * number + 16, None].astype(np.float32)
    np.testing.assert_array_equal(run.finish()[0].astype(np.float32), expected)


@pytest.mark.parametrize("arch", ARCHS)
def test_rows_without_a_stride_are_one(arch: str) -> None:
    run = TileRun(arch)
    k, values = run.k, special(128)
    x = run.tile("x", (8, 128), k.lanes("f32", 8, 16))
    name = run.matrix(values, "f32")
    load(k, x, Matrix(name, "f32", k.argument(name), 8, 120, 0).rows(0, 8))
    run.give(x)
    expected = np.zeros((8, 128))
    expected[:, :120] = rounded(values, "f32", arch)[:120]
    np.testing.assert_array_equal(run.finish()[0], expected)


@pytest.mark.parametrize("stride", [100, 3000])
@pytest.mark.parametrize("arch", ARCHS)
def test_a_stride_that_the_build_knows(arch: str, stride: int) -> None:
    """Rows of 100 elements are told apart by immediates as columns are; rows of 3000 are three pages apart. Two of 13 rows do not exist."""
    run = TileRun(arch)
    k = run.k
    values = np.random.default_rng(2).uniform(-5, 5, (20, stride))
    x = run.tile("x", (16, 64), k.lanes("f32", 4, 16))
    name, target = run.matrix(values, "f32"), run.matrix(np.zeros((20, stride)), "f32")
    first = numbers(run, first=3, rows=13, column=16)
    rows = [Matrix(one, "f32", k.argument(one), first["rows"], stride, stride).rows(first["first"], 16) for one in (name, target)]
    load(k, x, rows[0], column=first["column"])
    store_tile(k, rows[1], x, column=first["column"])
    run.give(x)
    expected = np.zeros((16, 64))
    expected[:10] = rounded(values, "f32", arch)[3:13, 16:80]
    np.testing.assert_array_equal(run.finish()[0], expected)
    stored = np.zeros((20, stride), np.float32)
    stored[3:13, 16:80] = expected[:10]
    np.testing.assert_array_equal(run.done.buffers[3].view(np.float32), stored)
    held = k.made[next(key for key in k.made if isinstance(key, tuple) and key[0] == "load")]
    assert len(held.value) == (2 if stride == 100 else 4)  # type: ignore[attr-defined]  # 4800 bytes and more


@pytest.mark.parametrize("arch", ARCHS)
def test_tensors_of_one_shape_share_addresses(arch: str) -> None:
    """The second tensor costs five scalar instructions for its descriptor and none for its offsets, as does the store of the third."""
    run = TileRun(arch, waves=2)
    k = run.k
    arrays = [np.random.default_rng(seed).uniform(-5, 5, (40, 136)) for seed in range(2)]
    size = numbers(run, first=3, rows=30, columns=128, stride=136)
    names = [run.matrix(array, "f32") for array in (*arrays, np.zeros((40, 136)))]
    x, y, z = (Matrix(name, "f32", k.argument(name), size["rows"], size["columns"], size["stride"]).rows(size["first"], 16)
               for name in names)
    one, other = run.tile("one", (8, 128), k.lanes("f32", 8, 16)), run.tile("other", (8, 128), k.lanes("f32", 8, 16))

    def cost() -> tuple[int, int]:
        named = [item.name for item in k.program().instructions]
        return sum(name.startswith("s_") for name in named), sum(name.startswith("v_") for name in named)

    load(k, one, x, rows=k.wave)
    before = cost()
    load(k, other, y, rows=k.wave)
    assert tuple(np.subtract(cost(), before)) == (5, 0)
    add(k, one, one, other, packed=False)
    before = cost()
    store_tile(k, z, one, rows=k.wave)
    assert tuple(np.subtract(cost(), before)) == (5, 0)
    run.launch()
    expected = np.zeros((40, 136), np.float32)
    expected[3:19, :128] = sum(array.astype(np.float32) for array in arrays)[3:19, :128]
    np.testing.assert_array_equal(run.done.buffers[4].view(np.float32), expected)


@pytest.mark.parametrize("changed", ["first", "stride", "rows", "column", "nothing", "way"])
def test_what_has_changed_is_not_shared(changed: str) -> None:
    """A register of the shape that is written between two loads, or a way on which the first one was not made."""
    run = TileRun("gfx950")
    k = run.k
    array = np.arange(40 * 200.0).reshape(40, 200)
    size = numbers(run, first=3, rows=20, columns=128, stride=160, column=8, skip=int(changed == "way"))
    names = [run.matrix(array, "f32"), run.matrix(-array, "f32")]
    x, y = (Matrix(name, "f32", k.argument(name), size["rows"], size["columns"], size["stride"]).rows(size["first"], 8) for name in names)
    one, other = run.tile("one", (8, 64), k.lanes("f32", 8, 8)), run.tile("other", (8, 64), k.lanes("f32", 8, 8))
    assert k.lane  # computed before the branch
    if changed == "way":  # the first load is skipped
        k.s_cmp_lg_u32(size["skip"], 0)
        k.s_cbranch_scc1("past")
    load(k, one, x, column=size["column"])
    if changed == "way":
        k.label("past")
    elif changed != "nothing":
        k.s_mov_b32(size[changed], {"first": 10, "stride": 200, "rows": 6, "column": 20}[changed])
    before = len(k.items)
    load(k, other, y, column=size["column"])
    assert (len(k.items) - before > 5 + 2) == (changed != "nothing")  # a descriptor by distance, and the loads
    run.give(other)
    flat, (first, rows, stride, column) = -array.ravel(), (10 if changed == "first" else 3, 6 if changed == "rows" else 20,
                                                           200 if changed == "stride" else 160, 20 if changed == "column" else 8)
    expected = np.zeros((8, 64))
    for row in range(min(8, rows - first)):
        expected[row] = flat[(first + row) * stride + column:][:64]
    np.testing.assert_array_equal(run.finish()[0], expected)


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("arch", ARCHS)
def test_a_loop_down_the_rows(arch: str, count: int) -> None:
    """Two waves take 8 rows a step, the loads two steps ahead of the stores. A step has one scalar addition for each walk, and no address
    arithmetic on VGPRs."""
    run = TileRun(arch, waves=2)
    k, values = run.k, np.random.default_rng(4).uniform(-5, 5, (50, 136))
    size = numbers(run, first=3, rows=37, columns=128, stride=136, count=count)
    names = [run.matrix(values, "f32"), run.matrix(np.zeros((50, 136)), "f32")]
    x, y = (Matrix(name, "f32", k.argument(name), size["rows"], size["columns"], size["stride"], 0, 1000).walk(size["first"], 8)
            for name in names)
    held = k.tile("held", 4, 128, k.lanes("f32", 8, 16), stages=3)

    def step(t: StepIndex) -> None:
        with k.stage():
            load(k, held[t + 2], x.step(t + 2), rows=k.wave)
            mul(k, held[t], held[t], 2.0)
            store_tile(k, y.step(t), held[t], rows=k.wave)

    k.pipeline(step, size["count"], InOrder())
    run.launch()
    expected = np.zeros((50, 136), np.float32)
    last = min(37, 3 + 8 * count)
    expected[3:last, :128] = 2 * values[3:last, :128].astype(np.float32)
    np.testing.assert_array_equal(run.done.buffers[3].view(np.float32), expected)
    items = run.program.items
    labels = {item.name: number for number, item in enumerate(items) if isinstance(item, Label)}
    first, last = next((labels[item.target], number) for number, item in enumerate(items)
                       if isinstance(item, Instruction) and item.target and labels[item.target] < number)
    loop = [item.name for item in items[first:last] if isinstance(item, Instruction)]
    assert loop.count("buffer_store_dwordx4") == loop.count("buffer_load_dwordx4") == 2 * 3  # three phases of the stages
    assert not [name for name in loop if name in ("v_add_u32", "s_addc_u32") or "mul_" in name and name != "v_pk_mul_f32"]


def test_a_tile_of_one_row_as_a_vector() -> None:
    run = TileRun("gfx950")
    x = run.tile("x", (16, 16), mfma("f32_16x16x16_f16", "gfx950").d)
    vector = row_vector(run.k, "vector", x)
    assert as_vector(vector.tile, "row", x) == vector
    with pytest.raises(TileError, match="is no column vector of x"):
        as_vector(vector.tile, "column", x)


def test_refusals() -> None:
    run = TileRun("gfx950")
    k = run.k
    x = run.tile("x", (16, 16), mfma("f32_16x16x16_f16", "gfx950").d)
    vector, stages = row_vector(k, "vector", x), row_vector(k, "stages", x, stages=2)
    source = line(run, np.zeros(16), "f32", 16)
    two = Matrix(source.matrix.name, "f32", source.matrix.pointer, 2, 16, 16).rows(0, 2)
    with pytest.raises(TileError, match="has no columns that waves could share; rows="):
        load(k, vector, source, columns=k.wave)
    with pytest.raises(TileError, match=r"one row in memory, and 2 rows of p\d are not; k.line"):
        load(k, vector, two)
    with pytest.raises(TileError, match=r"stages has 2 stages: index it with the step first, stages\[t\]"):
        load(k, stages[0], source)
    whole: Tile = vector.tile
    assert (whole.rows, whole.columns) == (1, 16)
    with pytest.raises(TileError, match="is bf16 and x .* is f32"):
        add(k, x, x, row_vector(k, "narrow", x, dtype="bf16"))
