"""Products of tiles: every naming of operands, formats of f8f6f4, scales; in the emulator against float64."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from asmgen.author.ops.arithmetic import mma, mma_scaled
from asmgen.author.ops.movement import read, write
from asmgen.author.ops.scales import ScaleOrder, as_scales, scale_words, scales
from asmgen.author.ops.tilememory import load
from asmgen.author.schedule.schedules import InOrder
from asmgen.author.step.iterations import StepIndex
from asmgen.author.tiles.fragments import mfma
from asmgen.author.tiles.swizzles import FragmentRead
from asmgen.author.tiles.tiles import TileError
from asmgen.author.tiles.views import block_fragment, deep, transposed
from asmgen.isa.opcodes.mfma import F8F6F4_FORMATS
from tests.author.test_tile_memory import matrix
from tests.tile_harness import Array, TileRun, rounded


def some(rows: int, columns: int, seed: int) -> Array:
    return np.random.default_rng(seed).uniform(-2, 2, (rows, columns)) * (1 + np.arange(columns) % 3)


@pytest.mark.parametrize("transpose_c", [False, True])
@pytest.mark.parametrize(("arch", "shape"), [("gfx942", "f32_16x16x16_bf16"), ("gfx950", "f32_32x32x16_f16"),
                                             ("gfx942", "f32_16x16x32_fp8_bf8"),
                                             ("gfx950", "i32_16x16x64_i8"), ("gfx942", "f32_16x16x4_f32")])
def test_operands_named_either_way(arch: str, shape: str, transpose_c: bool) -> None:
    """AB with B named (k, j) and AtB with A named (k, i): the same registers, seen transposed."""
    if transpose_c:
        shape = shape.replace("fp8_bf8", "fp8_fp8")  # transposed, operands of two types are exchanged
    M = mfma(shape, arch)
    m, n, depth = 2 * M.row.m, M.row.n, 2 * M.row.k
    a, b, c = some(m, depth, 1) * 3, some(n, depth, 2) * 3, np.rint(some(m, n, 3) * 8)
    run = TileRun(arch)
    k = run.k
    A, B = run.tile("A", (m, depth), M.a, a), run.tile("B", (n, depth), M.b, b)
    At, Bt = run.tile("At", (depth, m), M.a.T, a.T), run.tile("Bt", (depth, n), M.b.T, b.T)
    d = M.d.T if transpose_c else M.d
    exact = rounded(a, M.a.dtype, arch) @ rounded(b, M.b.dtype, arch).T
    expected = []
    for number, (one, other) in enumerate(((A, B), (A, transposed(Bt)), (transposed(At), B), (transposed(At), transposed(Bt)))):
        C = run.tile(f"C{number}", (m, n), d, c)
        mma(k, C, one, other, first=number == 1)
        run.give(C)
        expected.append(exact + (0 if number == 1 else c))
    for found, wanted in zip(run.finish(), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("transpose_c", [False, True])
@pytest.mark.parametrize(("arch", "shape", "count"), [("gfx942", "f32_16x16x16_bf16", 2), ("gfx942", "f32_16x16x32_fp8_fp8", 2),
                                                      ("gfx950", "f32_32x32x8_f16", 2), ("gfx942", "i32_32x32x16_i8", 4)])
def test_fragments_of_several_instructions(arch: str, shape: str, count: int, transpose_c: bool) -> None:
    M = mfma(shape, arch)
    m, n, depth = 2 * M.row.m, M.row.n, 2 * count * M.row.k
    a, b = some(m, depth, 1) * 3, some(n, depth, 2) * 3
    run = TileRun(arch)
    A, B, C = run.tile("A", (m, depth), deep(M.a, count), a), run.tile("B", (n, depth), deep(M.b, count), b), \
        run.tile("C", (m, n), M.d.T if transpose_c else M.d)
    mma(run.k, C, A, B, first=True)
    run.give(C)
    np.testing.assert_allclose(run.finish()[0], rounded(a, M.a.dtype, arch) @ rounded(b, M.b.dtype, arch).T, rtol=1e-5, atol=1e-4)
    assert sum(item.opcode.group == "matrix" for item in run.program.instructions) == 2 * 2 * count


def test_deep_fragments_from_lds_without_pads() -> None:
    """Written by whole lines, read 16 bytes a lane, without a conflict in as many bytes as the elements have."""
    M, run = mfma("f32_16x16x16_bf16", "gfx942"), TileRun("gfx942")
    k, values = run.k, some(32, 64, 5)
    line, fragment = block_fragment(M.a, 1, 8, 8), deep(M.a, 2)
    R, A = run.tile("R", (32, 64), line, values), run.tile("A", (32, 64), fragment)
    stored = k.shared("As", "bf16", 32, 64, serves=(FragmentRead(fragment), FragmentRead(line, write=True)), pads=False)
    assert stored.ranges[0].size == 32 * 64 * 2 and k.shared("Bs", "bf16", 32, 64, serves=(FragmentRead(fragment),)).ranges[0].size > 4096
    write(k, stored[()], R, own=True)
    read(k, A, stored[()], own=True)
    run.give(A)
    assert (run.finish()[0] == rounded(values, "bf16", "gfx942")).all()
    names = [item.name for item in run.program.instructions if item.name.startswith("ds_")]
    assert names == ["ds_write_b128"] * 4 + ["ds_read_b128"] * 4


@pytest.mark.parametrize("left", range(5))
@pytest.mark.parametrize("transpose_c", [False, True])
def test_scaled_products_in_every_format(left: int, transpose_c: bool) -> None:
    right = (left + 2) % 5
    names = F8F6F4_FORMATS[left], F8F6F4_FORMATS[right]
    M = mfma("v_mfma_scale_f32_16x16x128_f8f6f4", "gfx950", cbsz=left, blgp=right)
    N = mfma("v_mfma_scale_f32_16x16x128_f8f6f4", "gfx950", cbsz=right, blgp=left)
    a, b = some(32, 256, 3), some(16, 256, 4)
    run = TileRun("gfx950")
    k = run.k
    A, B = run.tile("A", (32, 256), N.b if transpose_c else M.a, a), run.tile("B", (16, 256), N.a if transpose_c else M.b, b)
    held, factors = [], []
    for number, tile in enumerate((A, B)):
        codes = np.random.default_rng(9 + number).integers(120, 134, (tile.rows, 8))
        words = np.zeros((-(-tile.down * tile.across // 4), 64), np.uint32)
        for fragment in range(tile.down * tile.across):
            row, depth = divmod(fragment, tile.across)
            for lane in range(64):
                byte = int(codes[row * 16 + lane % 16, depth * 4 + lane // 16])
                words[fragment // 4, lane] |= np.uint32(byte << 8 * (fragment % 4))
        one = scales(k, f"scale{number}", tile)
        run.registers_in(one.registers.items, words)
        held.append(one)
        factors.append(np.exp2(codes - 127.0).repeat(32, axis=1))
    C = run.tile("C", (32, 16), M.d.T if transpose_c else M.d)
    mma_scaled(k, C, A, B, *held, first=True)
    run.give(C)
    exact = (rounded(a, names[0], "gfx950") * factors[0]) @ (rounded(b, names[1], "gfx950") * factors[1]).T
    np.testing.assert_allclose(run.finish()[0], exact, rtol=1e-5, atol=1e-2)


def test_deep_fragments_have_a_scale_for_each_instruction() -> None:
    """A lane group has 64 neighbours of K, which two instructions multiply, so bytes 2 q and 2 q + 1 of a row's scales are its own."""
    M = mfma("v_mfma_scale_f32_16x16x128_f8f6f4", "gfx950", cbsz=4, blgp=4)
    a, b = some(32, 256, 3), some(16, 256, 4)
    run = TileRun("gfx950")
    k = run.k
    A, B = run.tile("A", (32, 256), deep(M.a, 2), a), run.tile("B", (16, 256), deep(M.b, 2), b)
    held, factors = [], []
    for number, tile in enumerate((A, B)):
        codes = np.random.default_rng(9 + number).integers(120, 134, (tile.rows, 8))
        one = scales(k, f"scale{number}", tile, order=ScaleOrder(2, 2))
        words = np.zeros((1, 64), np.uint32)
        for row, part, lane in itertools.product(range(tile.down), range(2), range(64)):
            words[0, lane] |= np.uint32(int(codes[16 * row + lane % 16, 2 * (lane // 16) + part]) << 8 * (2 * row + part))
        run.registers_in(one.registers.items, words)
        held.append(one)
        factors.append(np.exp2(codes - 127.0).repeat(32, axis=1))
    C = run.tile("C", (32, 16), M.d)
    mma_scaled(k, C, A, B, *held, first=True)
    run.give(C)
    exact = (rounded(a, "fp4", "gfx950") * factors[0]) @ (rounded(b, "fp4", "gfx950") * factors[1]).T
    np.testing.assert_allclose(run.finish()[0], exact, rtol=1e-5, atol=1e-2)


def test_scales_are_loaded_as_dwords_of_lanes_in_steps() -> None:
    """Two stages of scales, a step ahead, from a matrix whose rows hold 64 dwords a register and step."""
    M = mfma("v_mfma_scale_f32_16x16x128_f8f6f4", "gfx950", cbsz=4, blgp=4)
    a, b = some(16, 128, 3), some(16, 128, 4)
    run, steps = TileRun("gfx950"), 3
    k = run.k
    A, B = run.tile("A", (16, 128), M.a, a), run.tile("B", (16, 128), M.b, b)
    C, ones = run.tile("C", (16, 16), M.d, np.zeros((16, 16))), scales(k, "ones", B)
    run.registers_in(ones.registers.items, np.full((1, 64), 127, np.uint32))
    codes = np.random.default_rng(5).integers(122, 132, (steps, 16, 4))
    words = np.array([[codes[step, lane % 16, lane // 16] for step in range(steps) for lane in range(64)]])
    first = k.registers.sgprs(1, "no_row")
    k.s_mov_b32(first, 0)
    rows = matrix(run, words, "i32", 1, 64 * steps).rows(first, 1)
    S = k.tile("S", 1, 64, scale_words(M), stages=2)

    def step(t: StepIndex) -> None:
        with k.stage():
            load(k, S[t + 1], rows.k(t + 1))
            mma_scaled(k, C, A, B, as_scales(S[t]), ones)

    k.pipeline(step, steps, InOrder())
    run.give(C)
    factors = np.exp2(codes - 127.0).sum(0).repeat(32, axis=1)
    exact = (rounded(a, "fp4", "gfx950") * factors) @ rounded(b, "fp4", "gfx950").T
    np.testing.assert_allclose(run.finish()[0], exact, rtol=1e-5, atol=1e-2)
    with pytest.raises(TileError, match="A .* holds no scales as dwords of lanes"):
        as_scales(A)


def test_refusals() -> None:
    run = TileRun("gfx950")
    k = run.k
    M, F = mfma("f32_16x16x32_bf16", "gfx950"), mfma("v_mfma_scale_f32_16x16x128_f8f6f4", "gfx950")
    A, B, C = run.tile("A", (32, 64), M.a), run.tile("B", (16, 64), M.b), run.tile("C", (32, 16), M.d)
    here = r"test_tile_mma\.py:\d+: "
    with pytest.raises(TileError, match=here + "mma: C .* is not B .* times A"):
        mma(k, C, B, A)
    with pytest.raises(TileError, match=here + r"mma: F .* cannot be operand a of v_mfma_f32_16x16x32_bf16"):
        mma(k, C, run.tile("F", (32, 64), M.d), B)
    with pytest.raises(TileError, match=here + r"mma: A .* and B2 .* hold k in different orders"):
        mma(k, C, A, run.tile("B2", (16, 64), deep(M.b, 2)))
    with pytest.raises(TileError, match="v_mfma_f32_16x16x32_bf16 a.T .* has no lanes of neighbouring k"):
        deep(M.a.T, 2)
    X, Y = run.tile("X", (32, 256), F.a), run.tile("Y", (16, 128), F.b)
    sx, sy = scales(k, "sx", X), scales(k, "sy", Y)
    with pytest.raises(TileError, match=here + "mma_scaled: v_mfma_f32_16x16x32_bf16 takes no scales"):
        mma_scaled(k, C, A, B, sx, sy)
    with pytest.raises(TileError, match=here + r"scales few of X .* take 1 VGPRs, a byte for each of its 4"):
        from asmgen.isa.registers import a

        scales(k, "few", X, at=a[0:1])
    Z = run.tile("Z", (32, 16), F.d)
    wide = run.tile("W", (80, 128), F.a)
    with pytest.raises(TileError, match=here + r"mma_scaled: sy has 1 registers, and W .* wants a byte for each of its 5"):
        mma_scaled(k, run.tile("Q", (80, 16), F.d), wide, Y, sy, sy)
    with pytest.raises(TileError, match=here + "mma: .* is not"):
        mma_scaled(k, Z, X, Y, sx, sy)
