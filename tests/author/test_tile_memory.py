"""Movement of tiles in the emulator: memory to registers and back, transposing reads, bytes of small types, changes of layout."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from asmgen.author.ops.conversions import convert
from asmgen.author.ops.layoutchange import change_layout
from asmgen.author.ops.movement import fill, read, write
from asmgen.author.ops.tilememory import load, store_tile
from asmgen.author.ops.transposed import read_transposed
from asmgen.author.tiles.fragments import Fragment, mfma
from asmgen.author.tiles.globals import Matrix, Slice
from asmgen.author.tiles.swizzles import DmaFill, FragmentRead, TileAddresses, plain
from asmgen.author.tiles.tiles import TileError
from asmgen.author.tiles.transposing import TransposedRead
from asmgen.author.tiles.views import as_bytes, as_operand, block_fragment, bytes_of, dealt, in_order_of, planes, transposed, with_dtype
from asmgen.isa.bankcost import bank_cost
from asmgen.isa.layouts_lds import DMA_BYTES
from asmgen.isa.layouts_mfma import element_bits
from asmgen.isa.placement import Pads, Placement
from asmgen.isa.registers import m0, s
from tests.tile_harness import Array, TileRun, codes_of, registers_of, rounded, values_of

WIDTH = {8: np.uint8, 16: np.uint16, 32: np.uint32}


def some(rows: int, columns: int, dtype: str, seed: int = 1) -> Array:
    rng = np.random.default_rng(seed)
    values = rng.uniform(-5, 5, (rows, columns))
    return np.rint(values * 20) if dtype[0] == "i" else values


def fragment_of(arch: str, dtype: str) -> Fragment:
    shapes = {"bf16": "f32_16x16x16_bf16", "f16": "f32_32x32x8_f16", "i8": "i32_16x16x32_i8", "fp8": "f32_32x32x16_fp8_fp8",
              "bf8": "f32_16x16x32_bf8_bf8"}
    if dtype in shapes:
        return mfma(shapes[dtype], arch).a
    return with_dtype(mfma("f32_16x16x16_bf16", arch).d, dtype) if dtype == "i32" else mfma("f32_32x32x8_f16", arch).d.T


def matrix(run: TileRun, array: Array, dtype: str, rows: int, columns: int) -> Matrix:
    """A matrix whose buffer has rows of array.shape[1] elements, of which rows x columns exist; sizes are in SGPRs."""
    k = run.k
    name = run.matrix(array, dtype)
    numbers = []
    for what, value in (("rows", rows), ("columns", columns), ("stride", array.shape[1])):
        reg = k.registers.sgprs(1, f"{name}_number_of_{what}")
        k.s_mov_b32(reg, value)
        numbers.append(reg)
    return Matrix(name, dtype, k.argument(name), *numbers)


def number(run: TileRun, value: int, name: str) -> object:
    reg = run.k.registers.sgprs(1, name)
    run.k.s_mov_b32(reg, value)
    return reg


def test_rows_in_another_order() -> None:
    """32 rows a wave dealt so that two accumulators side by side hold runs of eight; rows beyond the end read as 0 wherever they go."""
    array, d = some(64, 64, "bf16"), mfma("f32_16x16x16_bf16", "gfx942").d.T
    run = TileRun("gfx942")
    source = matrix(run, array, "bf16", 60, 64)
    x = run.tile("x", (32, 64), block_fragment(mfma("f32_16x16x16_bf16", "gfx942").a, 1, 8, 8))
    load(run.k, x, source.rows(number(run, 32, "first_row_number"), 32), order=dealt(d, 2))  # type: ignore[arg-type]
    run.give(x)
    places = [8 * lanes + 4 * part + item for part in range(2) for lanes in range(4) for item in range(4)]
    assert [dealt(d, 2)(row) for row in range(64)] == [*places, *(32 + place for place in places)]
    expected = rounded(array, "bf16", "gfx942")
    expected[60:] = 0
    np.testing.assert_array_equal(run.finish()[0], expected[[32 + place for place in places]])


def test_an_order_that_is_no_permutation_of_bits_is_refused() -> None:
    run = TileRun("gfx942")
    x = run.tile("x", (32, 64), block_fragment(mfma("f32_16x16x16_bf16", "gfx942").a, 1, 8, 8))
    source = matrix(run, some(64, 64, "bf16"), "bf16", 64, 64)
    with pytest.raises(TileError, match="no permutation of the bits of their numbers"):
        load(run.k, x, source.rows(number(run, 0, "first_row_number"), 32), order=lambda row: row * 3 % 32)  # type: ignore[arg-type]


def test_the_number_of_a_single_wave_is_0() -> None:
    """It has no register: rows and columns of the wave begin where those of the workgroup do."""
    array = some(64, 100, "f32")
    run = TileRun("gfx950")
    k = run.k
    assert k.wave.count == 1
    source, target = matrix(run, array, "f32", 64, 100), matrix(run, np.zeros((64, 100)), "f32", 64, 100)
    first, limit = number(run, 16, "first_row_number"), number(run, 30, "columns_inside")
    x = run.tile("x", (32, 32), fragment_of("gfx950", "f32"))
    load(k, x, source.rows(first, 32), rows=k.wave, columns=k.wave, limit=limit)  # type: ignore[arg-type]
    store_tile(k, target.rows(first, 32), x, rows=k.wave, columns=k.wave)  # type: ignore[arg-type]
    run.give(x)
    expected = rounded(array, "f32", "gfx950")[16:48, :32].copy()
    expected[:, 30:] = 0
    np.testing.assert_array_equal(run.finish()[0], expected)
    np.testing.assert_array_equal(run.done.buffers[3].view(np.float32)[16:48, :32], expected)


@pytest.mark.parametrize(("dtype", "nontemporal"), [*((dtype, False) for dtype in ("f32", "i32", "bf16", "f16", "fp8", "bf8", "i8")),
                                                    *((dtype, True) for dtype in ("f32", "bf16", "fp8"))])
@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_from_memory_and_back(arch: str, dtype: str, nontemporal: bool) -> None:
    """A 64 x 64 tile at row 32 of a matrix of 90 rows: six rows beyond the end read as 0 and are not written."""
    array = some(128, 100, dtype)
    f = fragment_of(arch, dtype)
    run = TileRun(arch)
    k = run.k
    source, target = matrix(run, array, dtype, 90, 100), matrix(run, np.zeros((128, 100)), dtype, 90, 100)
    first = number(run, 32, "first_row_number")
    x = run.tile("x", (64, 64), f)
    load(k, x, source.rows(first, 64), column=12, nontemporal=nontemporal)  # type: ignore[arg-type]
    store_tile(k, target.rows(first, 64), x, column=12, nontemporal=nontemporal)  # type: ignore[arg-type]
    run.give(x)
    found = run.finish()[0]
    expected = rounded(array, dtype, arch)[32:96, 12:76]
    expected[58:] = 0
    np.testing.assert_array_equal(found, expected)
    stored = np.zeros((128, 100), WIDTH[element_bits(dtype)])
    stored[32:90, 12:76] = codes_of(array, dtype, arch)[32:90, 12:76]
    np.testing.assert_array_equal(run.done.buffers[3], stored)
    assert all(item.modifiers.get("nt", False) == nontemporal for item in k.program().instructions if item.name.startswith("buffer"))


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_columns_are_bounded_to_the_element(arch: str, dtype: str) -> None:
    """42 of 64 columns exist, 41 are to be written; four waves in a grid of 2 x 2 share 64 x 64."""
    array = some(70, 80, dtype, 3)
    f = mfma("f32_16x16x16_bf16", arch).a if dtype == "bf16" else mfma("f32_16x16x16_bf16", arch).d.T
    run = TileRun(arch, waves=4)
    k = run.k
    wm, wn = k.wave_grid(2, 2)
    source, target = matrix(run, array, dtype, 70, 80), matrix(run, np.zeros((70, 80)), dtype, 60, 80)
    first, limit = number(run, 6, "first_row_number"), number(run, 42, "limit_number")
    x = run.tile("x", (32, 32), f)
    load(k, x, source.rows(first, 64), wm, wn, limit=limit)  # type: ignore[arg-type]
    store_tile(k, target.rows(first, 64), x, wm, wn, limit=41)  # type: ignore[arg-type]
    run.launch()
    expected = np.zeros((70, 80), WIDTH[element_bits(dtype)])
    expected[6:60, :41] = codes_of(array, dtype, arch)[6:60, :41]
    np.testing.assert_array_equal(run.done.buffers[3], expected)


def test_lanes_with_single_columns() -> None:
    """D as it is: a lane has one column of a row, of bf16 half a register, which a store takes and a load does not."""
    array = some(32, 32, "bf16", 5)
    run = TileRun("gfx950")
    k = run.k
    f = mfma("f32_16x16x16_bf16", "gfx950").d
    target = matrix(run, np.zeros((32, 32)), "bf16", 32, 32)
    first = number(run, 0, "first_row_number")
    x = run.tile("x", (32, 32), with_dtype(f, "bf16"), array)
    store_tile(k, target.rows(first, 32), x)  # type: ignore[arg-type]
    run.launch()
    np.testing.assert_array_equal(run.done.buffers[2], codes_of(array, "bf16", "gfx950"))
    run = TileRun("gfx950")
    k = run.k
    half, eight = run.tile("half", (32, 32), with_dtype(f, "bf16")), run.tile("eight", (32, 32), with_dtype(f, "fp8"))
    with pytest.raises(TileError, match=r"test_tile_memory.py:\d+: load: a lane of half .* 16 bits, and the least that moves is 32"):
        load(k, half, matrix(run, array, "bf16", 32, 32).rows(s[30], 32))
    target = matrix(run, array, "fp8", 32, 32)
    with pytest.raises(TileError, match=r"test_tile_memory.py:\d+: store: a lane of eight .* 8 bits, and the least that moves is 16"):
        store_tile(k, target.rows(s[30], 32), eight)
    with pytest.raises(TileError, match=r"test_tile_memory.py:\d+: store: half .* are not of one type"):
        store_tile(k, target.rows(s[30], 32), half)


TRANSPOSING: list[tuple[str, Callable[[], Fragment]]] = [
    ("bf16", lambda: mfma("f32_16x16x32_bf16", "gfx950").a), ("f16", lambda: mfma("f32_32x32x16_f16", "gfx950").b),
    ("bf16", lambda: _like_p("f32_32x32x16_bf16")), ("bf16", lambda: _like_p("f32_16x16x32_bf16")),
    ("fp8", lambda: mfma("f32_16x16x32_fp8_fp8", "gfx950").a), ("i8", lambda: mfma("i32_32x32x32_i8", "gfx950").b),
    ("fp8", lambda: mfma("f32_16x16x128_f8f6f4", "gfx950").a),
    ("fp4", lambda: mfma("f32_16x16x128_f8f6f4", "gfx950", cbsz=4).a), ("fp6", lambda: mfma("f32_32x32x64_f8f6f4", "gfx950", cbsz=2).a),
    ("bf6", lambda: mfma("f32_16x16x128_f8f6f4", "gfx950", cbsz=3).a)]


def _like_p(shape: str) -> Fragment:
    """V's fragment in attention: its k stand in the order of P, an accumulator as it lies."""
    M = mfma(shape, "gfx950")
    run = TileRun("gfx950")
    P = as_operand(transposed(run.tile("P", (32, 32), with_dtype(M.d, "bf16"))), M, "b")
    return in_order_of(M.a, P.fragment)


def packed_bytes(values: Array, dtype: str, arch: str) -> Array:
    """Rows of bytes of a matrix, of small types packed from the lowest bit on."""
    codes, bits = codes_of(values, dtype, arch), element_bits(dtype)
    string = (codes[:, :, None] >> np.arange(bits, dtype=np.uint32) & 1).reshape(len(codes), -1).astype(np.uint8)
    return np.packbits(string, axis=1, bitorder="little")


def into_lds(run: TileRun, part: object, data: Array) -> None:
    """Fill a cell of a shared tile with bytes, wherever its placement puts them, a byte a lane."""
    k = run.k
    tile, low = part.tile, part.range.low  # type: ignore[attr-defined]
    size = tile.bits // 8
    image = np.zeros(-(-tile.placement.size // 256) * 256, np.uint8)
    places = TileAddresses(tile.placement, tile.rows, tile.columns)
    for row in range(tile.rows):
        for column in range(tile.columns):
            at = places(row, column)
            image[at:at + size] = data[row, column * size:(column + 1) * size]
    words = image.view(np.uint32).reshape(-1, 64)
    k.lds.take(f"rest_of_{tile.name}", 256)  # the last dwords of the image lie behind the tile
    with k.scratch("filled") as held, k.scratch("at") as at_reg:
        for number_, _ in enumerate(words):
            run.registers_in([held], words[number_:number_ + 1])
            k.v_add_u32(at_reg, 256 * number_ + low, run.at)
            k.ds_write_b32(at_reg, held, fills=part.range)  # type: ignore[attr-defined]


@pytest.mark.parametrize("case", range(len(TRANSPOSING)))
def test_transposing_reads(case: int) -> None:
    """Each width, free of conflicts in the emulator where the placement says so."""
    dtype, make = TRANSPOSING[case]
    f = make()
    rows, depth = 2 * f.rows if f.bits > 6 else 128, f.columns
    values = some(depth, rows, dtype, case)
    run = TileRun("gfx950")
    k = run.k
    width, kind = (rows, dtype) if f.bits % 8 == 0 else (rows * f.bits // 8, "i8")
    serves = (TransposedRead(f),)
    try:
        stored = k.shared("V", kind, depth, width, serves=serves)
    except TileError:  # rows of 64 bytes of 4 bits meet in banks whatever is tried
        stored = k.shared("V", kind, depth, width)
    into_lds(run, stored[()], packed_bytes(values, dtype, "gfx950"))
    x = run.tile("x", (rows, depth), f)
    read_transposed(k, x, stored[()])
    run.give(x)
    np.testing.assert_array_equal(run.finish()[0], rounded(values, dtype, "gfx950").T)
    counted = sum(extra for position, extra in run.done.result.bank_conflicts.items() if "_tr_" in run.program.instructions[position].name)
    assert counted == sum(bank_cost("gfx950", one.op, one.addresses, one.bits).extra
                          for one in serves[0].instructions(TileAddresses(stored.placement, depth, width)))
    assert counted == 0 or dtype == "fp4"


def test_a_tile_of_no_whole_lines_is_filled_by_dwords() -> None:
    """16 rows of 32 bytes are half a line of 16 bytes a lane: two of 4, with one M0."""
    f = mfma("i32_16x16x32_i8", "gfx950").a
    values = some(16, 48, "i8")
    run = TileRun("gfx950")
    k = run.k
    stored = k.shared("A", "i8", 16, 32)
    fill(k, stored[()], matrix(run, values, "i8", 13, 32).rows(number(run, 0, "first_row_number"), 16).k())
    k.s_waitcnt(vmcnt=0)
    k.s_barrier()
    x = run.tile("x", (16, 32), f)
    read(k, x, stored[()])
    run.give(x)
    expected = rounded(values, "i8", "gfx950")[:, :32]
    expected[13:] = 0
    np.testing.assert_array_equal(run.finish()[0], expected)
    names = [item.name for item in run.program.instructions if item.modifiers.get("lds") or m0.mask & item.writes]
    assert names == ["s_add_u32"] + ["buffer_load_dword"] * 2


def test_fills_do_not_tear_rows() -> None:
    """A DMA of 16 bytes a lane would take the end of a row of 72 bytes from memory behind it, not from the next row."""
    run = TileRun("gfx950")
    rows = matrix(run, some(128, 36, "bf16"), "bf16", 128, 36).rows(s[0], 128)
    stored = run.k.shared("A", "bf16", 128, 36)
    with pytest.raises(TileError, match="lane 4 of a line of A .* does not begin at a multiple of 16 bytes of a row"):
        fill(run.k, stored[()], Slice(rows, None))


def test_transposing_reads_are_refused_where_there_are_none() -> None:
    run = TileRun("gfx942")
    f = mfma("f32_16x16x16_bf16", "gfx942").a
    stored = run.k.shared("V", "bf16", 16, 32)
    sentence = r"test_tile_memory.py:\d+: read_transposed: gfx942 has no transposing reads; store V transposed, as 32 x 16"
    with pytest.raises(TileError, match=sentence):
        read_transposed(run.k, run.tile("x", (32, 16), f), stored[()])
    run = TileRun("gfx950")
    stored = run.k.shared("V", "bf16", 32, 32)
    with pytest.raises(TileError, match="is 32 x 32 bf16, and x .* is read from 16 x 32 bf16"):
        read_transposed(run.k, run.tile("x", (32, 16), mfma("f32_16x16x16_bf16", "gfx950").a), stored[()])
    odd = mfma("f32_16x16x16_bf16", "gfx950").d
    with pytest.raises(TileError, match="cannot bring items|no run"):
        read_transposed(run.k, run.tile("y", (32, 32), with_dtype(odd, "bf16")), stored[()])


@pytest.mark.parametrize(("dtype", "code"), [("fp4", 4), ("fp6", 2), ("bf6", 3)])
@pytest.mark.parametrize("shape", ["f32_16x16x128_f8f6f4", "f32_32x32x64_f8f6f4"])
def test_small_types_move_as_bytes(shape: str, dtype: str, code: int) -> None:
    """Memory to registers, to LDS and back, and to memory: 24 bytes of 6-bit elements by b64 reads, aligned in every lane."""
    f = mfma(shape, "gfx950", cbsz=code).a
    rows, columns = 2 * f.rows, 2 * f.columns
    values = some(rows, columns, dtype, code)
    data = packed_bytes(values, dtype, "gfx950")
    run = TileRun("gfx950")
    k = run.k
    source = matrix(run, data.view(np.int8).astype(np.int64), "i8", *data.shape)
    first = number(run, 0, "first_row_number")
    x, y = run.tile("x", (rows, columns), f), run.tile("y", (rows, columns), f)
    load(k, as_bytes(x), source.rows(first, rows))  # type: ignore[arg-type]
    stored = k.shared("As", "i8", rows, columns * f.bits // 8, serves=(FragmentRead(bytes_of(f)),))
    write(k, stored[()], as_bytes(x))
    read(k, as_bytes(y), stored[()])
    run.give(y)
    np.testing.assert_array_equal(run.finish()[0], rounded(values, dtype, "gfx950"))
    reads = {item.name for item in k.program().instructions if item.name.startswith("ds_read")}
    assert reads == ({"ds_read_b128"} if dtype == "fp4" else {"ds_read_b64"})


def _d(shape: str, dtype: str = "f32") -> Callable[[str], Fragment]:
    return lambda arch: with_dtype(mfma(shape, arch).d, dtype)


def _a(shape: str) -> Callable[[str], Fragment]:
    return lambda arch: mfma(shape, arch).a


CHANGES = [
    ("gfx942", _d("f32_16x16x16_bf16"), lambda arch: mfma("f32_16x16x32_bf8_bf8", arch).d, "renaming"),
    ("gfx950", _d("f32_32x32x16_bf16", "bf16"), lambda arch: mfma("f32_32x32x16_bf16", arch).a.T, "permlane"),
    ("gfx950", _d("f32_16x16x32_bf16", "bf16"), lambda arch: mfma("f32_16x16x32_bf16", arch).b.T, "permlane"),
    ("gfx950", _d("f32_16x16x32_bf16"), lambda arch: mfma("f32_16x16x32_bf16", arch).d.T, "lds"),
    ("gfx942", _d("f32_32x32x8_bf16"), lambda arch: mfma("f32_32x32x8_bf16", arch).d.T, "lds"),
    ("gfx942", lambda arch: mfma("f32_32x32x8_bf16", arch).a, lambda arch: mfma("f32_16x16x16_bf16", arch).a, "lds"),
]


@pytest.mark.parametrize("case", range(len(CHANGES)))
def test_changes_of_layout(case: int, tmp_path: Path) -> None:
    arch, start, end, way = CHANGES[case]
    before, after = start(arch), end(arch)
    values = some(64, 64, "bf16", case)
    run = TileRun(arch)
    k = run.k
    x, out = run.tile("x", (64, 64), before, values), run.tile("out", (64, 64), after)
    through = None
    if way == "lds":
        with pytest.raises(TileError, match=r"test_tile_memory.py:\d+: change_layout: .* give a shared tile to go through"):
            change_layout(k, x, after)
        through = k.shared("change", before.dtype, 64, 64)[()]
    moved, found = change_layout(k, x, after, out, through)
    assert found == way
    run.give(moved)
    np.testing.assert_array_equal(run.finish()[0], rounded(values, before.dtype, arch))
    run.lint(tmp_path)


@pytest.mark.parametrize("dtype", ["bf16", "i8"])
@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_a_tile_is_transposed_on_its_way_to_lds_without_transposing_reads(arch: str, dtype: str) -> None:
    """V for gfx942: blocks of 4 x 4 from memory, reordered within lanes, written transposed, read as an operand."""
    operand = mfma("f32_32x32x8_bf16" if dtype == "bf16" else "i32_32x32x16_i8", arch).a
    values = some(64, 64, dtype, 21)
    run = TileRun(arch)
    k = run.k
    source = matrix(run, values, dtype, 64, 64)
    first = number(run, 0, "first_row_number")
    block, columns = block_fragment(operand, 4, 4, 16), block_fragment(operand, 4, 4, 16, by_columns=True)
    x, y = run.tile("x", (64, 64), block), run.tile("y", (64, 64), columns)
    load(k, x, source.rows(first, 64))  # type: ignore[arg-type]
    _, way = change_layout(k, x, columns, y)
    assert way == "items"
    stored = k.shared("Vt", dtype, 64, 64)
    write(k, stored[()], transposed(y))
    V = run.tile("V", (64, 64), operand)
    read(k, V, stored[()])
    run.give(V)
    np.testing.assert_array_equal(run.finish()[0], rounded(values, dtype, arch).T)
    names = [item.name for item in k.program().instructions]
    assert names.count("v_perm_b32") == x.registers.count * (1 if dtype == "bf16" else 2)
    assert {name for name in names if name.startswith("ds_write")} == {"ds_write_b64" if dtype == "bf16" else "ds_write_b32"}


def test_accumulators_are_stored_in_whole_lines_by_way_of_lds() -> None:
    """D to bf16, through LDS into blocks of 1 x 8, so that a store is 16 bytes a lane and eight lanes a row."""
    values = some(32, 64, "f32", 23)
    run = TileRun("gfx950")
    k = run.k
    d = mfma("f32_32x32x16_bf16", "gfx950").d.T
    S, P = run.tile("S", (32, 64), d, values), run.tile("P", (32, 64), with_dtype(d, "bf16"))
    convert(k, P, S)
    block = block_fragment(P.fragment, 1, 8, 8)
    out = run.tile("out", (32, 64), block)
    _, way = change_layout(k, P, block, out, k.shared("D", "bf16", 32, 64)[()])
    target = matrix(run, np.zeros((32, 64)), "bf16", 32, 64)
    store_tile(k, target.rows(number(run, 0, "first_row_number"), 32), out)  # type: ignore[arg-type]
    np.testing.assert_array_equal(run.launch().buffers[2], codes_of(values, "bf16", "gfx950"))
    assert way == "lds"
    assert {item.name for item in k.program().instructions if item.name.startswith("buffer_store")} == {"buffer_store_dwordx4"}


def test_a_renaming_takes_no_instruction_and_a_scattered_one_is_refused() -> None:
    run = TileRun("gfx950")
    k = run.k
    x = run.tile("x", (32, 32), mfma("f32_16x16x16_bf16", "gfx950").d)
    before = k.position
    moved, way = change_layout(k, x, mfma("f32_16x16x32_bf16", "gfx950").d)
    assert (way, k.position) == ("renaming", before) and list(moved.registers) == list(x.registers)
    with pytest.raises(TileError, match="does not become bf16 by moving"):
        change_layout(k, x, with_dtype(x.fragment, "bf16"))


def test_values_and_registers_of_the_harness_agree() -> None:
    """The harness packs as the matrix instruction does: a literal of fp4."""
    f = mfma("f32_16x16x128_f8f6f4", "gfx950", cbsz=4).a
    values = np.zeros((16, 128))
    values[3, 33] = -1.5
    words = registers_of(values, f, "gfx950")
    assert words[0, 19] == 0xB0 and np.count_nonzero(words) == 1
    assert values_of(np.array([0xB]), "fp4", "gfx950")[0] == -1.5


@pytest.mark.parametrize("waves", [1, 2])
@pytest.mark.parametrize(("shape", "code"), [("f32_16x16x128_f8f6f4", 2), ("f32_32x32x64_f8f6f4", 3)])
def test_six_bits_in_two_planes(shape: str, code: int, waves: int) -> None:
    """16 and 8 bytes a lane in matrices and shared tiles of their own, filled by LDS-DMA: a b128 and a b64 a fragment, no conflict."""
    f = mfma(shape, "gfx950", cbsz=code).a
    rows, columns = 64 * waves, 2 * f.columns
    values = some(rows, columns, f.dtype, code)
    data = packed_bytes(values, f.dtype, "gfx950").reshape(rows, -1, 24)
    run = TileRun("gfx950", waves)
    k = run.k
    wave = k.wave_grid(waves, 1)[0]
    x = run.tile("x", (64, columns), f)
    eights = data[:, :, 16:].reshape(rows // 2, 2, -1, 8).swapaxes(1, 2)  # of rows 2 i and 2 i + 1, side by side
    for plane, part in zip(planes(x), (data[:, :, :16].reshape(rows, -1), eights.reshape(rows // 2, -1)), strict=True):
        here = k.shared(plane.name, "i8", *part.shape, serves=(FragmentRead(plane.fragment), DmaFill(16)))
        first = number(run, 0, f"first_of_{part.shape[0]}")
        fill(k, here[()], matrix(run, part.astype(np.int8), "i8", *part.shape).rows(first, part.shape[0]).k())  # type: ignore[arg-type]
        k.s_waitcnt(vmcnt=0)
        k.s_barrier()
        read(k, plane, here[()].part(wave) if waves > 1 else here[()])
    if waves == 1:
        run.give(x)
        np.testing.assert_array_equal(run.finish()[0], rounded(values, f.dtype, "gfx950"))
    else:
        target = matrix(run, np.zeros((rows // 2, 16 * columns // 32)), "i8", rows // 2, 16 * columns // 32)
        store_tile(k, target.rows(number(run, 0, "first_stored"), rows // 2), planes(x)[1], wave)  # type: ignore[arg-type]
        run.launch()
        np.testing.assert_array_equal(run.done.buffers[4], eights.reshape(rows // 2, -1))
    names = [item.name for item in run.program.instructions if item.name.startswith("ds_read")]
    count = x.down * x.across
    assert names == ["ds_read_b128"] * count + ["ds_read_b64"] * count
    assert not any(run.done.result.bank_conflicts.values())
    with pytest.raises(TileError, match="only those lie in planes"):
        planes(run.tile("y", (16, 32), mfma("f32_16x16x32_bf16", "gfx950").a))


FILLED = {"f32": "f32_16x16x4_f32", "bf16": "f32_16x16x16_bf16", "i8": "i32_16x16x32_i8", "fp8": "f32_16x16x32_fp8_fp8"}


@pytest.mark.parametrize("dtype", FILLED)
@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_memory_to_lds_without_a_register(arch: str, dtype: str) -> None:
    """Lines of 4 bytes a lane on gfx942, of 16 on gfx950, plain and with pads between; rows beyond the matrix read as 0."""
    f = mfma(FILLED[dtype], arch).a
    values = some(64, 80, dtype)
    run = TileRun(arch)
    k = run.k
    rows = matrix(run, values, dtype, 59, 64).rows(number(run, 0, "first_row_number"), 64)  # type: ignore[arg-type]
    width = DmaFill(max(width for width in DMA_BYTES[arch] if width != 12))
    padded = Placement(plain(64, 64, f.bits), pads=Pads(((width.line, 32),)))
    for name, placement in (("plain", Placement(plain(64, 64, f.bits))), ("padded", padded)):
        stored = k.shared(name, dtype, 64, 64, placement=placement)
        fill(k, stored[()], rows.k())
        k.s_waitcnt(vmcnt=0)
        k.s_barrier()
        x = run.tile(f"x_{name}", (64, 64), f)
        read(k, x, stored[()])
        run.give(x)
        k.registers.release(x.name)
    expected = rounded(values, dtype, arch)[:, :64]
    expected[59:] = 0
    for found in run.finish():
        np.testing.assert_array_equal(found, expected)
    lines = [item for item in run.program.instructions if item.name.startswith("buffer_load") and item.modifiers.get("lds")]
    assert len(lines) == 2 * 64 * 64 * f.bits // 8 // (64 * width.bytes_)
