"""Fused chains written in tile operations only: softmax behind a product, and attention without a shuffle."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from asmgen.author.ops.arithmetic import mma
from asmgen.author.ops.conversions import convert
from asmgen.author.ops.elementwise import any_greater, div, exp2, fill_with, fma, max_, move, mul, rcp, sub
from asmgen.author.ops.movement import read, write
from asmgen.author.ops.reductions import column_max, column_sum, reduce_lanes, row_max, row_sum
from asmgen.author.ops.tilememory import load, store_tile
from asmgen.author.ops.transposed import read_transposed
from asmgen.author.ops.vectors import column_vector, row_vector
from asmgen.author.tiles.fragments import mfma
from asmgen.author.tiles.swizzles import FragmentRead
from asmgen.author.tiles.tiles import TileError
from asmgen.author.tiles.transposing import TransposedRead
from asmgen.author.tiles.views import as_operand, in_order_of, transposed, with_dtype
from asmgen.regalloc.ranges import PlanError
from tests.author.test_tile_memory import matrix
from tests.tile_harness import Array, TileRun, rounded, values_of

LOG2E = float(np.float32(1.4426950408889634))


def normal(rows: int, columns: int, seed: int) -> Array:
    return np.random.default_rng(seed).normal(size=(rows, columns)) + np.arange(rows)[:, None] * 0.01


def softmax(x: Array) -> Array:
    p = np.exp(x - x.max(1, keepdims=True))
    return np.asarray(p / p.sum(1, keepdims=True))


@pytest.mark.parametrize("turn", [False, True])
@pytest.mark.parametrize(("arch", "shape"), [("gfx942", "f32_16x16x16_bf16"), ("gfx950", "f32_16x16x32_bf16"),
                                             ("gfx950", "f32_32x32x16_bf16")])
def test_softmax_of_64x256_after_a_product(arch: str, shape: str, turn: bool) -> None:
    depth = 32
    a_values, b_values = normal(64, depth, 1) * 0.5, normal(256, depth + 4, 2) * 0.5
    M = mfma(shape, arch)
    run = TileRun(arch)
    k = run.k
    left, right = matrix(run, a_values, "bf16", 64, depth), matrix(run, b_values, "bf16", 256, depth)
    target = matrix(run, np.zeros((64, 258)), "bf16", 60, 256)
    zero = run.k.registers.sgprs(1, "no_row")
    k.s_mov_b32(zero, 0)
    A, B = run.tile("A", (64, depth), M.a), run.tile("B", (256, depth), M.b)
    load(k, A, left.rows(zero, 64))
    load(k, B, right.rows(zero, 256))
    d = M.d.T if turn else M.d
    # Two halves of rows, so that 64 x 256 f32 and its operands fit into the registers of a wave.
    acc = run.tile("acc", (64, 256), d, file="a")
    mma(k, acc, A, B, first=True)
    k.registers.release("A", "B")
    for part in range(2):
        S = run.tile("S", (32, 256), d)
        move(k, S, acc.part(32 * part, 0, 32, 256))
        m, total = row_vector(k, "m", S), row_vector(k, "total", S)
        row_max(k, m, S)
        mul(k, m, m, -LOG2E)
        fma(k, S, S, k_scalar(run), m)
        exp2(k, S, S)
        row_sum(k, total, S)
        div(k, S, S, total)
        P = run.tile("P", (32, 256), with_dtype(d, "bf16"))
        convert(k, P, S)
        store_tile(k, target.rows(zero, 64).parts(2)[part], P, nontemporal=True)
        k.registers.release("S", "m", "total", "P")
    found = values_of(run.launch().buffers[4], "bf16", arch)
    expected = softmax(rounded(a_values, "bf16", arch) @ rounded(b_values[:, :depth], "bf16", arch).T)
    np.testing.assert_allclose(found[:60, :256], expected[:60], rtol=2.0**-8 * 1.02, atol=1e-30)
    assert not found[60:].any() and not found[:, 256:].any()


def k_scalar(run: TileRun):  # type: ignore[no-untyped-def]
    """log2(e) in an SGPR."""
    k = run.k
    key = ("log2e",)
    if key not in k.made:
        k.made[key] = k.registers.sgprs(1, "log2e")
        k.s_mov_b32(k.made[key], int(np.float32(LOG2E).view(np.uint32)))  # type: ignore[arg-type]
    return k.made[key]


@pytest.mark.parametrize(("arch", "shape"), [("gfx942", "f32_32x32x8_bf16"), ("gfx950", "f32_32x32x16_bf16"),
                                             ("gfx942", "f32_16x16x16_bf16"), ("gfx950", "f32_16x16x32_bf16"),
                                             ("gfx942", "f32_32x32x8_f16")])
def test_attention_without_a_shuffle(arch: str, shape: str) -> None:
    """S^T = K Q^T, statistics by column, P the next operand as it lies, O^T = V^T P^T with V in P's order of k."""
    M = mfma(shape, arch)
    dtype = M.a.dtype
    queries, keys, width = M.row.n, 64, 32
    q, kk, vv = normal(queries, width, 3) * 0.5, normal(keys, width, 4) * 0.5, normal(keys, width, 5)
    run = TileRun(arch)
    k = run.k
    Q, K = run.tile("Q", (queries, width), M.b, q), run.tile("K", (keys, width), M.a, kk)
    S = run.tile("S", (keys, queries), M.d)
    mma(k, S, K, Q, first=True)
    m, total = column_vector(k, "m", S), column_vector(k, "total", S)
    column_max(k, m, S)
    sub(k, S, S, m)
    mul(k, S, S, k_scalar(run))
    exp2(k, S, S)
    column_sum(k, total, S)
    packed = run.tile("P", (keys, queries), with_dtype(M.d, dtype))
    convert(k, packed, S)
    P = as_operand(transposed(packed), M, "b")
    V = run.tile("V", (width, keys), in_order_of(M.a, P.fragment), vv.T)
    O = run.tile("O", (width, queries), M.d)
    mma(k, O, V, P, first=True)
    rcp(k, total, total)
    mul(k, O, O, total)
    run.give(O)
    found = run.finish()[0]
    s = rounded(kk, dtype, arch) @ rounded(q, dtype, arch).T
    p = softmax(s.T)
    np.testing.assert_allclose(found, (p @ rounded(vv, dtype, arch)).T, atol=2.0**-7 * 3)
    unnormalised = np.exp(s - s.max(0))
    exact = rounded(vv, dtype, arch).T @ rounded(unnormalised, dtype, arch) / unnormalised.sum(0)
    np.testing.assert_allclose(found, exact, rtol=1e-4, atol=2e-3)


def test_lazy_attention_over_keys_and_values_in_lds(tmp_path: Path) -> None:
    """Two blocks of 64 keys: K and V from memory over registers to LDS, K read by rows, V transposed in the order of P; the maximum stays
    where it grows by less than 8, and O and the sum are scaled where it does not, in a branch."""
    arch, shape = "gfx950", "f32_32x32x16_bf16"
    M = mfma(shape, arch)
    queries, keys, block, width = 32, 128, 64, 64
    q, kk, vv = normal(queries, width, 3), normal(keys, width, 4), normal(keys, width, 5)
    kk[block:] *= np.where(np.arange(block) == 7, 9, 1)[:, None]  # the second block's maximum leaves the first's behind
    run = TileRun(arch)
    k = run.k
    zero = k.registers.sgprs(1, "no_row")
    k.s_mov_b32(zero, 0)
    kr, vr = matrix(run, kk, "bf16", keys, width).rows(zero, keys).parts(2), matrix(run, vv, "bf16", keys, width).rows(zero, keys).parts(2)
    Q, K, staged = run.tile("Q", (queries, width), M.b, q), run.tile("K", (block, width), M.a), run.tile("staged", (block, width), M.a)
    S, packed = run.tile("S", (block, queries), M.d), run.tile("P", (block, queries), with_dtype(M.d, "bf16"))
    P = as_operand(transposed(packed), M, "b")
    V, O = run.tile("V", (width, block), in_order_of(M.a, P.fragment)), run.tile("O", (width, queries), M.d)
    Ks = k.shared("Ks", "bf16", block, width, serves=(FragmentRead(M.a), FragmentRead(M.a, write=True)))
    Vs = k.shared("Vs", "bf16", block, width, serves=(TransposedRead(V.fragment),))
    m, high, total, factor = (column_vector(k, name, S) for name in ("m", "new_m", "total", "factor"))
    fill_with(k, m, -1e30)
    fill_with(k, total, 0)
    fill_with(k, O, 0)
    log2e = k_scalar(run)
    for number in range(2):
        for rows, shared in ((kr, Ks), (vr, Vs)):
            load(k, staged, rows[number])
            write(k, shared[()], staged)
        k.s_barrier()
        read(k, K, Ks[()])
        mma(k, S, K, Q, first=True)
        mul(k, S, S, log2e)
        column_max(k, high, S, across=False)
        sub(k, factor, high, 8.0)
        any_greater(k, factor, m)
        skip = k.fresh("keep_maximum")
        k.s_cbranch_vccz(skip)
        reduce_lanes(k, "max", high)
        max_(k, high, high, m)
        sub(k, factor, m, high)
        exp2(k, factor, factor)
        mul(k, total, total, factor)
        mul(k, O, O, factor)
        move(k, m, high)
        k.label(skip)
        sub(k, S, S, m)
        exp2(k, S, S)
        column_sum(k, total, S, across=False, start=True)
        convert(k, packed, S)
        read_transposed(k, V, Vs[()])
        mma(k, O, V, P)
        k.s_barrier()
    reduce_lanes(k, "sum", total)
    div(k, O, O, total)
    run.give(O)
    found = run.finish()[0]
    s = rounded(q, "bf16", arch) @ rounded(kk, "bf16", arch).T
    np.testing.assert_allclose(found, (softmax(s) @ rounded(vv, "bf16", arch)).T, atol=2.0**-7 * 3, rtol=2.0**-7)
    conflicts = {run.program.instructions[position].name for position, extra in run.done.result.bank_conflicts.items() if extra}
    assert not conflicts & {"ds_read_b128", "ds_read_b64_tr_b16"}
    run.lint(tmp_path)


def test_operands_of_two_orders_of_k_are_refused() -> None:
    M = mfma("f32_32x32x16_bf16", "gfx950")
    run = TileRun("gfx950")
    k = run.k
    packed = run.tile("P", (32, 32), with_dtype(M.d, "bf16"))
    P = as_operand(transposed(packed), M, "b")
    V, O = run.tile("V", (32, 32), M.a), run.tile("O", (32, 32), M.d)
    with pytest.raises(TileError, match=r"test_fused_tiles\.py:\d+: mma: V .* and P.T .* hold k in different orders; .*in_order_of"):
        mma(k, O, V, P)
    with pytest.raises(TileError, match="cannot be seen as operand b"):
        as_operand(packed, mfma("f32_16x16x32_bf16", "gfx950"), "b")
    with pytest.raises(TileError, match="no 16 neighbouring k"):
        as_operand(packed, M, "b")


def test_a_tile_used_after_its_registers_were_released_is_refused_at_its_line() -> None:
    M = mfma("f32_16x16x32_bf16", "gfx950")
    run = TileRun("gfx950")
    k = run.k
    S, T = run.tile("S", (64, 64), M.d), run.tile("T", (64, 64), M.d)
    k.registers.release("S")
    with pytest.raises(PlanError, match=r"test_fused_tiles\.py:\d+: .* is used after its release"):
        exp2(k, T, S)
    with pytest.raises(PlanError, match=r"test_fused_tiles\.py:\d+: .* is used after its release"):
        mma(k, S, run.tile("A", (64, 32), M.a), run.tile("B", (64, 32), M.b))
