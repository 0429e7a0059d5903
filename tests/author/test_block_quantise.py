"""Block quantisation, orders of scales, and matrices of 4 and 6 bits, in the emulator. Rules and formats are typed from
docs/facts/blockscales.md section 1 and docs/facts/semantics.md section 4."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from asmgen.author.ops.arithmetic import mma_scaled
from asmgen.author.ops.conversions import convert
from asmgen.author.ops.elementwise import fill_with
from asmgen.author.ops.movement import fill, read, write
from asmgen.author.ops.quantise import Shortcuts, exponent_fragment, pack_scales, quantise
from asmgen.author.ops.scales import ALONG_K, ROWS_BY_K, ScaleOrder, as_scales, scale_words, scales
from asmgen.author.ops.tilememory import load, store_tile
from asmgen.author.schedule.schedules import InOrder
from asmgen.author.step.iterations import StepIndex
from asmgen.author.tiles.fragments import Fragment, MatrixShape, mfma
from asmgen.author.tiles.globals import Matrix, Rows, packed_matrix
from asmgen.author.tiles.swizzles import FragmentRead, plain
from asmgen.author.tiles.tiles import Tile, TileError
from asmgen.author.tiles.views import with_dtype
from asmgen.isa.placement import Placement
from tests.tile_harness import Array, TileRun, codes_of, rounded, values_of

FORMATS = {"fp4": (2, 1, 1), "fp6": (2, 3, 1), "bf6": (3, 2, 3), "fp8": (4, 3, 7), "bf8": (5, 2, 15)}  # exponent and mantissa bits, bias
LARGEST = {"fp4": 6.0, "fp6": 7.5, "bf6": 28.0, "fp8": 448.0, "bf8": 57344.0}
EMAX = {"fp4": 2, "fp6": 2, "bf6": 4, "fp8": 8, "bf8": 15}
CODES = {"fp8": 0, "bf8": 1, "fp6": 2, "bf6": 3, "fp4": 4}
NAN = 255


def magnitudes(dtype: str) -> Array:
    """Every finite magnitude in the order of the codes."""
    exponents, mantissa, bias = FORMATS[dtype]
    found = []
    for e, m in itertools.product(range(1 << exponents), range(1 << mantissa)):
        value = (m / 2**mantissa if e == 0 else 1 + m / 2**mantissa) * 2.0 ** ((e or 1) - bias)
        if value <= LARGEST[dtype]:
            found.append(value)
    return np.array(found)


def nearest(values: Array, dtype: str) -> Array:
    """Nearest, ties to the even code, beyond the largest value that one."""
    grid = magnitudes(dtype)
    at = np.minimum(np.searchsorted(grid, abs(values)), len(grid) - 1)
    below = np.maximum(at - 1, 0)
    up, down = abs(grid[at] - abs(values)), abs(abs(values) - grid[below])
    chosen = np.where((down < up) | ((down == up) & (below % 2 == 0)), below, at)
    return np.copysign(grid[chosen], values)


def scale_byte(largest: float, dtype: str, rule: str) -> int:
    """docs/facts/blockscales.md section 1."""
    if not np.isfinite(largest):
        return NAN
    bits = int(np.float32(largest).view(np.uint32))
    if rule == "up":
        share = int(np.float32(np.float32(largest) * np.float32(1 / LARGEST[dtype])).view(np.uint32))
        return (share >> 23) + (share & 0x7FFFFF != 0)
    if rule == "even":
        bits += 1 << 22 - FORMATS[dtype][1]
    return max(0, (bits >> 23) - EMAX[dtype])


def quantised(values: Array, dtype: str, rule: str) -> tuple[Array, Array]:
    """(elements, bytes): each 32 columns of a row have one byte."""
    rows, columns = values.shape
    blocks = values.reshape(rows, columns // 32, 32)
    with np.errstate(invalid="ignore"):
        largest = np.where(np.isnan(blocks).any(2), np.nan, abs(blocks).max(2))
        found = np.array([[scale_byte(one, dtype, rule) for one in line] for line in largest])
        scaled = nearest(np.where(np.isfinite(blocks), blocks, 0) / np.exp2(found - 127.0)[..., None], dtype)
    return scaled.reshape(rows, columns), found


def blocks_of_values(rows: int, columns: int, source: str, seed: int) -> Array:
    """Blocks of sizes from 2^-100 to 2^100, on both sides of thresholds and without any; zeros, NaN, infinities."""
    rng = np.random.default_rng(seed)
    values = rng.uniform(-1, 1, (rows, columns))
    values[:, 5::32] = np.array([1.0, 1.75, 1.7421875, 1.875, 1.9375, 1.5, 1.505])[np.arange(rows) % 7, None]  # the largest ones
    spread = 8 if source == "f16" else 100
    values *= np.exp2(rng.integers(-spread, spread, (rows, columns // 32))).repeat(32, 1)
    values[1, :32] = 0.0
    values[2, 40 % columns], values[3, 3], values[4, 9] = np.nan, np.inf, -np.inf
    values[5, :32] = -0.0
    if source != "f16":
        values[6, 33], values[7, 7] = -(2.0**125), 2.0**121
    return rounded(values, source, "gfx950")


def operand(shape: str, which: str) -> Callable[[str, str], Fragment]:
    """An operand of f8f6f4 as the type it becomes, seen as the source's type."""
    def make(dtype: str, source: str) -> Fragment:
        M = mfma(f"v_mfma_scale_f32_{shape}_f8f6f4", "gfx950", cbsz=CODES[dtype], blgp=CODES[dtype])
        return with_dtype(M.a if which == "a" else M.b, source)
    return make


SHAPES: dict[str, tuple[Callable[[str, str], Fragment], tuple[str, ...]]] = {
    "16x16x128 a": (operand("16x16x128", "a"), tuple(FORMATS)),
    "32x32x64 b": (operand("32x32x64", "b"), tuple(FORMATS)),
    "a lane a block": (lambda _, source: TileRun("gfx950").k.lanes(source, 32, 4), tuple(FORMATS)),
    "four lanes a block": (lambda _, source: TileRun("gfx950").k.lanes(source, 8, 8), ("fp4", "fp8", "bf8")),
}
CASES = [(shape, dtype, ("f32", "bf16", "f16")[(number + at) % 3]) for number, (shape, (_, types)) in enumerate(SHAPES.items())
         for at, dtype in enumerate(types)]
"""Each type has each source in one of the first three shapes."""


@pytest.mark.parametrize(("shape", "dtype", "source"), CASES)
@pytest.mark.slow_after_first
def test_blocks_by_three_rules(shape: str, dtype: str, source: str) -> None:
    f = SHAPES[shape][0](dtype, source)
    rows, columns = f.rows, 2 * f.columns
    rows = max(rows, 16)
    values = blocks_of_values(rows, columns, source, 7)
    run = TileRun("gfx950")
    k = run.k
    x = run.tile("x", (rows, columns), f, values)
    for rule in ("even", "floor", "up"):
        out, exponents = k.tile(f"out_{rule}", rows, columns, with_dtype(f, dtype)), k.tile(f"e_{rule}", rows, columns // 32,
                                                                                            exponent_fragment(f))
        shortcuts = Shortcuts()
        if "lane" in shape:
            fill_with(k, out, 0)
            shortcuts = Shortcuts(branch=True, begun=True)
        quantise(k, out, exponents, x, rounding=rule, shortcuts=shortcuts)
        run.give(out)
        run.give(exponents)
        k.registers.release(f"out_{rule}", f"e_{rule}")
    found = iter(run.finish())
    for rule in ("even", "floor", "up"):
        elements, bytes_ = quantised(values, dtype, rule)
        given, exponents_given = next(found), next(found)
        np.testing.assert_array_equal(exponents_given.astype(np.int64) & 0xFF, bytes_, err_msg=rule)
        whole = np.repeat(bytes_ != NAN, 32, 1)
        np.testing.assert_array_equal(given[whole], elements[whole], err_msg=rule)
        np.testing.assert_array_equal(np.signbit(given[whole]), np.signbit(elements[whole]), err_msg=rule)


ORDERS = (None, ROWS_BY_K, ALONG_K, ScaleOrder(4, 1))


@pytest.mark.parametrize(("shape", "dtype", "order"), [
    (shape, dtype, order) for (one, shape), (two, dtype), (three, order) in itertools.product(
        enumerate(("16x16x128", "32x32x64")), enumerate(("fp4", "bf6", "fp8")), enumerate(ORDERS))
    if (one + two + three) % 2 == 0])  # each pair of two of them
@pytest.mark.slow_after_first
def test_quantised_operands_in_a_product(shape: str, dtype: str, order: ScaleOrder | None) -> None:
    """A of bf16 is quantised in registers and multiplied with B, whose scales lie as dwords of lanes in the same order."""
    M: MatrixShape = mfma(f"v_mfma_scale_f32_{shape}_f8f6f4", "gfx950", cbsz=CODES[dtype], blgp=CODES["fp4"])
    rows, depth, many = 2 * M.a.rows, 2 * M.a.columns, M.b.rows
    rng = np.random.default_rng(3)
    a = rounded(rng.uniform(-4, 4, (rows, depth)) * np.exp2(rng.integers(-3, 3, (rows, depth // 32))).repeat(32, 1), "bf16", "gfx950")
    b = rounded(rng.uniform(-6, 6, (many, depth)), "fp4", "gfx950")
    codes = rng.integers(122, 132, (many, depth // 32))
    run = TileRun("gfx950")
    k = run.k
    x, A, B = run.tile("x", (rows, depth), with_dtype(M.a, "bf16"), a), k.tile("A", rows, depth, M.a), run.tile("B", (many, depth), M.b, b)
    exponents = k.tile("exponents", rows, depth // 32, exponent_fragment(M.a))
    SA, SB = scales(k, "SA", A, order=order), scales(k, "SB", B, order=order)
    words = np.zeros((SB.registers.count, 64), np.uint32)
    per = M.b.columns // 32
    for fragment in range(2):
        register, byte = SB.location(B, 0, fragment)
        at = SB.registers.items.index(register)
        for lane in range(64):
            words[at, lane] |= np.uint32(int(codes[lane % M.b.rows, fragment * per + lane // M.b.rows]) << 8 * byte)
    run.registers_in(SB.registers.items, words)
    quantise(k, A, exponents, x)
    pack_scales(k, SA, exponents, A)
    C = run.tile("C", (rows, many), M.d)
    mma_scaled(k, C, A, B, SA, SB, first=True)
    run.give(C)
    elements, bytes_ = quantised(a, dtype, "even")
    left = elements * np.exp2(bytes_ - 127.0).repeat(32, 1)
    exact = left @ (b * np.exp2(codes - 127.0).repeat(32, 1)).T
    np.testing.assert_allclose(run.finish()[0], exact, rtol=1e-5, atol=1e-3)


def test_bytes_of_scales_by_order() -> None:
    """The dword and byte of each of 4 x 4 fragments, and of 3 x 3, where dwords have bytes that are not used."""
    def table(order: ScaleOrder, down: int, across: int) -> list[tuple[int, int]]:
        return [order.location(across, row, column) for row in range(down) for column in range(across)]

    assert table(ALONG_K, 2, 4) == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (1, 2), (1, 3)]
    assert table(ROWS_BY_K, 2, 4) == [(0, 0), (0, 2), (1, 0), (1, 2), (0, 1), (0, 3), (1, 1), (1, 3)]
    assert table(ScaleOrder(2, 2), 3, 3) == [(0, 0), (0, 1), (1, 0), (0, 2), (0, 3), (1, 2), (2, 0), (2, 1), (3, 0)]
    assert (ALONG_K.count(2, 5), ROWS_BY_K.count(3, 3), ScaleOrder(4, 1).count(4, 3)) == (4, 4, 3)


def test_four_dwords_a_lane_side_by_side() -> None:
    """Scales of 4 rows x 4 steps along K by one load of 16 bytes a lane, in AITER's order of bytes, with stages."""
    M = mfma("v_mfma_scale_f32_16x16x128_f8f6f4", "gfx950", cbsz=4, blgp=4)
    rng = np.random.default_rng(4)
    a, b = (rounded(rng.uniform(-6, 6, (rows, 512)), "fp4", "gfx950") for rows in (64, 16))
    codes = rng.integers(122, 132, (2, 64, 16))
    run = TileRun("gfx950")
    k = run.k
    A, B, C = run.tile("A", (64, 512), M.a, a), run.tile("B", (16, 512), M.b, b), run.tile("C", (64, 16), M.d, np.zeros((64, 16)))
    ones = scales(k, "ones", B)
    run.registers_in(ones.registers.items, np.full((1, 64), 0x7F7F7F7F, np.uint32))
    words = np.zeros((2, 64, 4, 4), np.uint8)  # step, lane, dword, byte
    for row, block in itertools.product(range(64), range(16)):
        along, lane = block // 4, 16 * (block % 4) + row % 16
        words[:, lane, 2 * (row // 32) + along // 2, 2 * (along % 2) + row // 16 % 2] = codes[:, row, block]
    name = run.raw(words.view(np.uint32).reshape(-1))
    source = Matrix(name, "i32", k.argument(name), 1, 512, 512).rows(0, 1)
    S = k.tile("S", 1, 256, scale_words(M, 4), stages=2)

    def step(t: StepIndex) -> None:
        with k.stage():
            load(k, S[t + 1], source.k(t + 1))
            mma_scaled(k, C, A, B, as_scales(S[t], ROWS_BY_K), ones)

    k.pipeline(step, 2, InOrder())
    run.give(C)
    exact = sum((a * np.exp2(one - 127.0).repeat(32, 1)) @ b.T for one in codes)
    np.testing.assert_allclose(run.finish()[0], exact, rtol=1e-5, atol=1e-2)
    assert {item.name for item in k.program().instructions if item.name.startswith("buffer_load")} == {"buffer_load_dwordx4"}


# ---- matrices of 4 and 6 bits ----


def packed(values: Array, dtype: str) -> Array:
    """Rows of bytes: elements as a string of bits, the first one lowest."""
    bits = 4 if dtype == "fp4" else 6
    codes = codes_of(values, dtype, "gfx950").astype(np.uint64)
    rows = np.zeros((values.shape[0], values.shape[1] * bits // 8), np.uint8)
    for column in range(values.shape[1]):
        for bit in range(bits):
            at = column * bits + bit
            rows[:, at // 8] |= ((codes[:, column] >> np.uint64(bit) & np.uint64(1)) << np.uint64(at % 8)).astype(np.uint8)
    return rows


def elements_of(run: TileRun, data: Array, dtype: str, rows: int, columns: int, stride: int) -> tuple[str, Rows]:
    """A matrix whose sizes, in SGPRs, count elements."""
    k = run.k
    name = run.raw(data)
    sizes = []
    for what, value in (("rows", rows), ("columns", columns), ("stride", stride)):
        sizes.append(k.registers.sgprs(1, f"{name}_{what}"))
        k.s_mov_b32(sizes[-1], value)
    made = packed_matrix(k, Matrix(name, dtype, k.argument(name), *sizes))
    return name, made.rows(0, 32)


@pytest.mark.parametrize("dtype", ["fp4", "fp6", "bf6"])
@pytest.mark.slow_after_first
def test_columns_count_elements(dtype: str) -> None:
    """Rows of 320 elements, of which those from 64 to 296 exist; by DMA, LDS, registers, and back to memory."""
    M = mfma("v_mfma_scale_f32_32x32x64_f8f6f4", "gfx950", cbsz=CODES[dtype])
    rng = np.random.default_rng(1)
    values = rounded(rng.uniform(-7, 7, (32, 320)), dtype, "gfx950")
    run = TileRun("gfx950")
    k = run.k
    _, source = elements_of(run, packed(values, dtype), dtype, 30, 320, 320)
    at, target = elements_of(run, np.zeros_like(packed(values, dtype)), dtype, 30, 320, 320)
    shared = k.shared("shared", dtype, 32, 256, serves=(FragmentRead(M.a),))
    x, y = k.tile("x", 32, 256, M.a), k.tile("y", 32, 256, M.a)
    column = k.registers.sgprs(1, "column")
    k.s_mov_b32(column, 64)
    load(k, x, source, column=column, limit=232)
    write(k, shared[()], x)
    read(k, y, shared[()])
    store_tile(k, target, y, column=64, limit=232)
    run.give(y)
    found = run.finish()[0]
    expected = values[:, 64:320].copy()
    expected[30:], expected[:, 232:] = 0, 0
    np.testing.assert_array_equal(found, expected)
    stored = values.copy()
    stored[30:], stored[:, :64], stored[:, 296:] = 0, 0, 0
    np.testing.assert_array_equal(run.done.buffers[int(at[1:])], packed(stored, dtype))


@pytest.mark.parametrize("dtype", ["fp4"])
def test_a_loop_along_k_counts_elements(dtype: str) -> None:
    """Fills a step ahead, 64 elements a step."""
    M = mfma("v_mfma_scale_f32_32x32x64_f8f6f4", "gfx950", cbsz=CODES[dtype], blgp=CODES[dtype])
    values = rounded(np.random.default_rng(2).uniform(-7, 7, (32, 192)), dtype, "gfx950")
    run = TileRun("gfx950")
    k = run.k
    _, source = elements_of(run, packed(values, dtype), dtype, 32, 192, 192)
    As = k.shared("As", dtype, 32, 64, stages=2, placement=Placement(plain(32, 8 * M.a.bits, 8)))
    A, C = k.tile("A", 32, 64, M.a), run.tile("C", (32, 32), M.d, np.zeros((32, 32)))
    ones = scales(k, "ones", A)
    run.registers_in(ones.registers.items, np.full((1, 64), 127, np.uint32))
    memory, matrix = k.streams("memory", "matrix")

    def step(t: StepIndex) -> None:
        with k.stage(), memory:
            fill(k, As[t + 1], source.k(t + 1))
            read(k, A, As[t])
        with k.stage(), matrix:
            mma_scaled(k, C, A, replace(A, fragment=M.b), ones, ones)

    k.pipeline(step, 3, InOrder())  # type: ignore[arg-type]
    run.give(C)
    np.testing.assert_allclose(run.finish()[0], values @ values.T, rtol=1e-5, atol=1e-3)


def test_lanes_of_small_types_move_as_bytes() -> None:
    run = TileRun("gfx950")
    k = run.k
    values = rounded(np.random.default_rng(2).uniform(-7, 7, (16, 128)), "fp4", "gfx950")
    f = k.lanes("fp4", 32, 4)
    x = run.tile("x", (16, 128), f, values)
    at, target = elements_of(run, np.zeros((16, 64), np.uint8), "fp4", 16, 128, 128)
    store_tile(k, target, x)
    run.launch()
    np.testing.assert_array_equal(run.done.buffers[int(at[1:])].reshape(16, 64), packed(values, "fp4"))
    assert [item.name for item in run.program.instructions if "buffer_store" in item.name] == ["buffer_store_dwordx4"]


@pytest.mark.parametrize("dtype", ["fp6", "bf6", "fp8", "bf8"])
def test_conversions_with_a_scale_of_each_lane(dtype: str) -> None:
    """f32 to 6 and 8 bits, divided by a power of two that each lane has of its own."""
    f = operand("16x16x128", "a")(dtype, "f32")
    values = rounded(np.random.default_rng(8).uniform(-5, 5, (16, 128)), "f32", "gfx950")
    run = TileRun("gfx950")
    k = run.k
    x, out = run.tile("x", (16, 128), f, values), k.tile("out", 16, 128, with_dtype(f, dtype))
    scale = k.registers.vgprs(1, "scale")
    run.registers_in([scale], np.array([[127 + lane % 5 << 23 for lane in range(64)]], np.uint32))
    convert(k, out, x, scale=scale)
    run.give(out)
    lane_of = np.zeros((16, 128), np.int64)
    for line in f.table:
        for lane, at in enumerate(line):
            lane_of[at] = lane
    np.testing.assert_array_equal(run.finish()[0], nearest(values / np.exp2(lane_of % 5), dtype))


def test_refusals() -> None:
    run, old = TileRun("gfx950"), TileRun("gfx942")
    k = run.k
    M = mfma("v_mfma_scale_f32_16x16x128_f8f6f4", "gfx950", cbsz=4, blgp=4)
    f = with_dtype(M.a, "bf16")
    x, out, e = k.tile("x", 16, 128, f), k.tile("out", 16, 128, M.a), k.tile("e", 16, 4, exponent_fragment(f))
    narrow = k.tile("narrow", 16, 32, mfma("f32_16x16x16_bf16", "gfx950").a)
    name = run.raw(np.zeros(64, np.uint8))
    rows = packed_matrix(k, Matrix(name, "fp4", k.argument(name), 16, 128, 128)).rows(0, 16)
    lanes = k.lanes("bf16", 8, 8)
    eight = k.tile("eight", 8, 64, lanes)
    six = Tile("six", 8, 64, with_dtype(lanes, "fp6"), k.tile("six", 8, 64, lanes).registers)
    for attempt, sentence in (
            (lambda: quantise(k, out, e, x, rounding="ceil"), "'ceil'; gfx950 makes fp4, fp6, bf6, fp8, bf8 of f32, bf16, f16 by even"),
            (lambda: quantise(old.k, out, e, x), "on gfx942"),
            (lambda: quantise(k, narrow, e, narrow), "to bf16 on gfx950"),
            (lambda: quantise(k, out, out, x), "out .* holds no exponents of x .* make it 16 x 4 with exponent_fragment"),
            (lambda: exponent_fragment(narrow.fragment), "hold no whole blocks of 32 columns"),
            (lambda: quantise(k, out, e, eight), "does not have the places"),
            (lambda: quantise(k, six, k.tile("e6", 8, 2, exponent_fragment(lanes)), eight), "made of 32 elements of a lane at a time"),
            (lambda: scales(k, "s", out, order=ScaleOrder(2, 4)), "4 bytes, and .* wants 8"),
            (lambda: pack_scales(k, scales(k, "s2", out), e, eight), "s2 takes no scales of eight"),
            (lambda: load(k, out, rows, column=3), "column 3 of p2 stands inside of a byte; a multiple of 2 elements"),
            (lambda: packed_matrix(k, Matrix(name, "fp6", k.argument(name), 16, 126, 128)), "126 elements of fp6 are no whole bytes"),
            (lambda: k.shared("odd", "fp6", 4, 33), "rows of 33 elements of 6 bits are no whole bytes")):
        with pytest.raises(TileError, match=sentence):
            attempt()
    assert values_of(np.array([6]), "fp4", "gfx950") == 4.0  # as magnitudes() has it
    assert magnitudes("fp4").tolist() == [0, 0.5, 1, 1.5, 2, 3, 4, 6]
