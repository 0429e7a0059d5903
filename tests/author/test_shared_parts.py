"""Parts of shared tiles in the emulator: by rows and columns, strided, constant, by several wave numbers; and whose iteration a read is."""

from __future__ import annotations

import numpy as np
import pytest

from asmgen.author.address.addressing import WaveIndex
from asmgen.author.ops.elementwise import add, fill_with
from asmgen.author.ops.movement import read, write
from asmgen.author.ops.tilememory import load, store_tile
from asmgen.author.ops.transposed import read_transposed
from asmgen.author.schedule.schedules import InOrder
from asmgen.author.step.iterations import PipelineError, StepIndex
from asmgen.author.tiles.fragments import Fragment, mfma
from asmgen.author.tiles.globals import Matrix, Rows
from asmgen.author.tiles.shared import PartOf, SharedTile
from asmgen.author.tiles.swizzles import FragmentRead, plain
from asmgen.author.tiles.tiles import TileError
from asmgen.author.tiles.views import with_dtype
from asmgen.isa.placement import Pads, Placement, Swizzle
from tests.tile_harness import Array, TileRun, codes_of

ARCHS = ("gfx942", "gfx950")
ROWS, COLUMNS = 64, 64
SWIZZLED = Placement(plain(ROWS, COLUMNS, 16), Swizzle(((3, 0x70),)))


def special(seed: int = 1) -> Array:
    found = np.random.default_rng(seed).uniform(-5, 5, (ROWS, COLUMNS))
    found[3, 5], found[40, 33], found[63, 63] = np.nan, np.inf, -np.inf
    return found


def operand(arch: str) -> Fragment:
    return mfma("f32_16x16x16_bf16", arch).a


def rows_of(run: TileRun, array: Array) -> Rows:
    name = run.matrix(array, "bf16")
    return Matrix(name, "bf16", run.k.argument(name), array.shape[0], array.shape[1], array.shape[1]).rows(0, array.shape[0])


def filled(run: TileRun, values: Array, placement: Placement = SWIZZLED, name: str = "shared") -> SharedTile:
    """A shared tile with the values, written by the first wave."""
    k = run.k
    shared = k.shared(name, "bf16", ROWS, COLUMNS, placement=placement)
    part = k.tile("part", ROWS // run.waves, COLUMNS, operand(run.arch))
    load(k, part, rows_of(run, values), rows=k.wave)
    write(k, shared[()].part(k.wave), part)
    k.registers.release("part")
    k.s_barrier()
    return shared


def bits(array: Array, arch: str) -> Array:
    return codes_of(array, "bf16", arch).astype(np.uint16)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("arch", ARCHS)
def test_rows_and_columns_of_a_grid_of_waves(arch: str, padded: bool) -> None:
    """Each of 2 x 2 waves copies its quarter; the rows alone and the columns alone are read under other numbers of the same waves."""
    run = TileRun(arch, waves=4)
    k, values = run.k, special()
    wm, wn = k.wave_grid(2, 2)
    shared = filled(run, values, Placement(plain(ROWS, COLUMNS, 16), pads=Pads(((128, 16),))) if padded else SWIZZLED)
    quarter = k.tile("quarter", 32, 32, operand(arch))
    read(k, quarter, shared[()].part(wm, wn))
    store_tile(k, rows_of(run, np.zeros((ROWS, COLUMNS))), quarter, wm, wn)
    down, across = k.tile("down", 16, 64, operand(arch)), k.tile("across", 64, 16, operand(arch))
    read(k, down, shared[()].part(k.wave))
    read(k, across, shared[()].part(columns=k.wave))
    store_tile(k, rows_of(run, np.zeros((ROWS, COLUMNS))), down, rows=k.wave)
    store_tile(k, rows_of(run, np.zeros((ROWS, COLUMNS))), across, columns=k.wave)
    run.launch()
    for number in range(3, 6):
        np.testing.assert_array_equal(run.done.buffers[number].reshape(ROWS, COLUMNS), bits(values, arch))


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.slow
def test_parts_by_a_formula(arch: str) -> None:
    """Number 2 wave + 1 of 4, number 3 of 4 for all waves, each fourth row, and each fourth pair of rows."""
    run = TileRun(arch, waves=2)
    k, values = run.k, special(2)
    shared = filled(run, values)
    tiles = [k.tile(f"t{number}", 16, 64, operand(arch)) for number in range(4)]
    parts = PartOf(4, 1, k.wave, 2), PartOf(4, 3), PartOf(4, 1, k.wave, strided=True), PartOf(4, 1, k.wave, strided=True, run=2)
    for tile, part in zip(tiles, parts, strict=True):
        read(k, tile, shared[()].part(part))
        store_tile(k, rows_of(run, np.zeros((32, COLUMNS))), tile, rows=k.wave)
    run.launch()
    codes = bits(values, arch)
    pairs = [np.concatenate([codes[row:row + 2] for row in range(first, ROWS, 8)]) for first in (2, 4)]
    expected = (np.concatenate([codes[16:32], codes[48:64]]), np.concatenate([codes[48:]] * 2), np.concatenate([codes[1::4], codes[2::4]]),
                np.concatenate(pairs))
    for number, wanted in enumerate(expected):
        np.testing.assert_array_equal(run.done.buffers[3 + number].reshape(32, COLUMNS), wanted)
    assert str(shared[()].part(parts[0])) == "shared.part(1 + 2 wave of 4)"
    assert str(shared[()].part(parts[2], PartOf(2, 1))) == "shared.part(1 + wave of 4, strided, columns=1 of 2)"
    assert str(shared[()].part(parts[3])) == "shared.part(1 + wave of 4, strided by 2)"


def test_parts_a_constant_apart_share_address_registers() -> None:
    """Plain rows: 16 rows are 2 KiB, whichever the part, and another tile of that shape lies 8 KiB on."""
    run = TileRun("gfx950")
    k, values = run.k, (special(6), special(7))
    one, other = (filled(run, values[number], Placement(plain(ROWS, COLUMNS, 16)), name) for number, name in enumerate(("one", "other")))
    first, last, third = (k.tile(name, 16, 64, operand("gfx950")) for name in ("first", "last", "third"))
    read(k, first, one[()].part(PartOf(4)))
    before = len(k.items)
    read(k, last, one[()].part(PartOf(4, 3)))
    read(k, third, other[()].part(PartOf(4, 2)))
    assert {item.name for item in k.items[before:]} == {"ds_read_b64"}  # type: ignore[union-attr]
    for tile in (first, last, third):
        store_tile(k, rows_of(run, np.zeros((16, COLUMNS))), tile)
    run.launch()
    for number, wanted in enumerate((values[0][:16], values[0][48:], values[1][32:48]), 4):
        np.testing.assert_array_equal(run.done.buffers[number].reshape(16, COLUMNS), bits(wanted, "gfx950"))


def test_a_constant_part_transposed() -> None:
    """gfx950: the third of four parts of the stored rows, its second half of the columns."""
    run = TileRun("gfx950")
    k, values = run.k, special(3)
    shared = filled(run, values, Placement(plain(ROWS, COLUMNS, 16)))
    f = mfma("f32_16x16x32_bf16", "gfx950").b
    tile = k.tile("tile", 32, 32, f)
    read_transposed(k, tile, shared[()].part(PartOf(2, 1), PartOf(2, 1)))
    store_tile(k, rows_of(run, np.zeros((32, 32))), tile)
    run.launch()
    np.testing.assert_array_equal(run.done.buffers[3].reshape(32, 32), bits(values[32:, 32:].T, "gfx950"))


@pytest.mark.parametrize("arch", ARCHS)
def test_elements_that_are_no_neighbours_of_a_row_are_written_one_by_one(arch: str) -> None:
    """A register of results has two rows of one column: its halves go to LDS apart, and come back as a row's operand."""
    run, values = TileRun(arch), special(5)[32:, 32:]
    k = run.k
    results = run.tile("results", (32, 32), with_dtype(mfma("f32_16x16x16_bf16", arch).d, "bf16"), values)
    shared = k.shared("shared", "bf16", 32, 32, serves=(FragmentRead(operand(arch)), FragmentRead(results.fragment, write=True)))
    write(k, shared[()], results)
    k.s_barrier()
    rows = k.tile("rows", 32, 32, operand(arch))
    read(k, rows, shared[()])
    store_tile(k, rows_of(run, np.zeros((32, 32))), rows)
    run.launch()
    names = [getattr(item, "name", "") for item in k.items]
    assert names.count("ds_write_b16") == names.count("ds_write_b16_d16_hi") == 8 and "ds_write_b32" not in names
    np.testing.assert_array_equal(run.done.buffers[2].reshape(32, 32), bits(values, arch))


def test_parts_that_do_not_exist_are_refused() -> None:
    run = TileRun("gfx950", waves=4)
    k = run.k
    shared = k.shared("shared", "bf16", ROWS, COLUMNS, placement=SWIZZLED)
    wm, _ = k.wave_grid(2, 2)
    for attempt, sentence in (
            (lambda: shared[()].part(PartOf(3)), "shared .* is not cut into 3 equal parts of rows"),
            (lambda: shared[()].part(columns=PartOf(128)), "is not cut into 128 equal parts of columns"),
            (lambda: shared[()].part(wm).part(wm), "is not cut into 2 equal parts of rows"),
            (lambda: shared[()].part(PartOf(4, 4)), r"its rows have parts 0 to 3, and part\(4 of 4\) goes from 4 to 4"),
            (lambda: shared[()].part(PartOf(4, 2, k.wave)), "goes from 2 to 5"),
            (lambda: shared[()].part(k.wave, WaveIndex("wave", wm.register, 2)), "two numbers of the name wave"),
            (lambda: read(k, k.tile("tile", 16, 64, operand("gfx950")), shared[()].part(wm)), r"32 x 64 bf16\) are not of one shape"),
            (lambda: read(k, k.tile("words", 16, 16, operand("gfx950")), shared[()].part(PartOf(4), PartOf(4, strided=True))),
             "no whole dword")):
        with pytest.raises(TileError, match=sentence):
            attempt()


# ---- iterations ----


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("arch", ARCHS)
def test_reads_of_a_tile_without_stages_say_their_iteration(arch: str, count: int) -> None:
    """A tile in LDS that all iterations read: by `at=`, by `k.at`, and one iteration ahead."""
    run = TileRun(arch)
    k, values = run.k, np.rint(special(4)[:16, :64] * 2)
    values[~np.isfinite(values)] = 3
    shared = k.shared("shared", "bf16", 16, COLUMNS, placement=Placement(plain(16, COLUMNS, 16)))
    x, y = k.tile("x", 16, 64, operand(arch)), k.tile("y", 16, 64, operand(arch), stages=2)
    load(k, x, rows_of(run, values))
    write(k, shared[()], x)
    total = k.tile("total", 16, 64, mfma("f32_16x16x16_bf16", arch).d)
    fill_with(k, total, 0)

    def step(t: StepIndex) -> None:
        with k.stage():
            read(k, y[t + 1], shared[()])
            read(k, x, shared[()], at=t)
            with k.at(t):
                read(k, x, shared[()])
                add(k, total, total, 1.0)

    k.pipeline(step, count, InOrder())
    run.give(x)
    run.give(total)
    found, counted = run.finish()
    np.testing.assert_array_equal(found, values)
    assert (counted == count).all()


def test_an_operation_in_another_iteration_is_refused() -> None:
    run = TileRun("gfx950")
    k = run.k
    shared = k.shared("shared", "bf16", 16, COLUMNS, placement=Placement(plain(16, COLUMNS, 16)))
    x = k.tile("x", 16, 64, operand("gfx950"))

    def clashing(t: StepIndex) -> None:
        with k.stage(), k.at(t + 1):
            read(k, x, shared[()], at=t)

    with pytest.raises(PipelineError, match=r"names two iterations, t and t\+1"):
        k.pipeline(clashing, 4, InOrder())

    def without(t: StepIndex) -> None:
        with k.stage():
            with k.at(t):
                read(k, x, shared[()])
            read(k, x, shared[()])

    with pytest.raises(PipelineError, match=r"has no iteration.*or with k.at\(t\): around it"):
        k.pipeline(without, 4, InOrder())
