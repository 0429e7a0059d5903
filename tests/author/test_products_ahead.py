"""Products that run a step ahead of their use: rows that walk down a matrix, prologues in which data are used, windows of matrix stages."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from asmgen.author.emit.builder import Builder
from asmgen.author.ops.arithmetic import mma
from asmgen.author.ops.conversions import convert
from asmgen.author.ops.elementwise import add, move, mul
from asmgen.author.ops.movement import fill, read
from asmgen.author.ops.tilememory import load, store_tile
from asmgen.author.schedule.schedules import PingPong, is_matrix, spread
from asmgen.author.step.effects import Unit
from asmgen.author.step.iterations import StepIndex
from asmgen.author.tiles.fragments import mfma
from asmgen.author.tiles.swizzles import DmaFill, FragmentRead
from asmgen.author.tiles.tiles import TileError
from asmgen.author.tiles.views import narrowed, transposed, with_dtype
from asmgen.isa.registers import s, v
from asmgen.regalloc.plan import RegisterPlan
from tests.author.test_tile_memory import matrix
from tests.tile_harness import Array, TileRun, rounded, values_of

ARCH, SHAPE, KEYS, DEPTH = "gfx950", "f32_32x32x16_bf16", 64, 64


def some(rows: int, columns: int, seed: int) -> Array:
    return np.random.default_rng(seed).normal(size=(rows, columns)) + np.arange(rows)[:, None] * 0.01


@functools.cache
def products(count: int, rows: int) -> tuple[Array, Array, Array]:
    """(what the kernel gives, A, Q): the sum over t of (t + 1) A_t Q^T, A_t being 64 rows; those behind `rows` are 0. S of t + 1 is made
    while that of t is used, K is read two steps ahead and asked for three ahead."""
    a_values, q_values = some(KEYS * count, DEPTH, 1), some(32, DEPTH, 2)
    run = TileRun(ARCH, waves=8)
    k = run.k
    M = mfma(SHAPE, ARCH)
    a = matrix(run, a_values, "bf16", rows, DEPTH)
    q = matrix(run, q_values, "bf16", 32, DEPTH)
    out = matrix(run, np.zeros((256, KEYS)), "f32", 256, KEYS)
    zero, left, group = (k.registers.sgprs(1, name) for name in ("zero", "left", "group"))
    k.s_mov_b32(zero, 0)
    k.s_mov_b32(left, count)
    k.s_lshr_b32(group, k.wave.register, 2)
    Q, A = run.tile("Q", (32, DEPTH), M.b), run.tile("A", (KEYS, DEPTH), M.a)
    load(k, Q, q.rows(zero, 32))
    S = k.tile("S", KEYS, 32, M.d, stages=2)
    total, weighted = run.tile("total", (KEYS, 32), M.d), run.tile("weighted", (KEYS, 32), M.d)
    weight = k.registers.vgprs(1, "weight")
    k.v_mov_b32(weight, 0)
    As = k.shared("As", "bf16", KEYS, DEPTH, stages=2, serves=(FragmentRead(M.a), DmaFill()))
    rows_of_a = a.walk(zero, KEYS)
    memory, products_, vector = k.streams("memory", "matrix", "vector")

    def step(t: StepIndex) -> None:
        with k.stage():
            with products_:
                mma(k, S[t + 1], A, Q, first=True)
            with vector:
                with t.first:
                    move(k, total, S[t])
                with t.later:
                    mul(k, weighted, S[t], weight)
                    add(k, total, total, weighted)
        with k.stage():
            with memory:
                fill(k, As[t + 3], rows_of_a.step(t + 3))
                read(k, A, As[t + 2])
            with vector, k.at(t + 1):
                with t.first:
                    k.v_mov_b32(weight, 1.0)
                with t.later:
                    k.v_add_f32(weight, 1.0, weight)

    k.pipeline(step, left, PingPong(), groups=group)
    store_tile(k, out.rows(zero, 256), transposed(total), rows=k.wave)
    return values_of(run.launch().buffers[4], "f32", ARCH), a_values, q_values


@pytest.mark.parametrize(("count", "rows"), [(1, 64), (2, 128), (5, 300)])
def test_products_that_are_made_a_step_before_they_are_used(count: int, rows: int) -> None:
    found, a, q = products(count, rows)
    seen = rounded(a, "bf16", ARCH) * (np.arange(len(a)) < rows)[:, None]
    expected = sum((t + 1) * seen[KEYS * t:KEYS * (t + 1)] @ rounded(q, "bf16", ARCH).T for t in range(count))
    for wave in range(8):
        np.testing.assert_allclose(found[32 * wave:32 * wave + 32, :KEYS], np.asarray(expected).T, rtol=1e-4, atol=1e-3)


def test_a_walk_serves_one_iteration() -> None:
    run = TileRun(ARCH, waves=8)
    k = run.k
    M = mfma(SHAPE, ARCH)
    a = matrix(run, np.zeros((KEYS, DEPTH)), "bf16", KEYS, DEPTH)
    zero = k.registers.sgprs(1, "zero")
    k.s_mov_b32(zero, 0)
    As = k.shared("As", "bf16", KEYS, DEPTH, stages=2, serves=(FragmentRead(M.a), DmaFill()))
    rows = a.walk(zero, KEYS)

    def step(t: StepIndex) -> None:
        with k.stage():
            fill(k, As[t], rows.step(t))
            fill(k, As[t + 1], rows.step(t + 1))

    with pytest.raises(TileError, match=r"was read for t\+0 before: a walk serves one iteration ahead"):
        k.pipeline(step, 3, PingPong(), groups=zero)


def units(emit: str) -> list[Unit]:
    """m: a matrix unit, v: a plain vector unit, e: one that takes twice as long, u: one that uses the last m's result, n: a matrix unit
    that uses the last vector unit's, b: a block, p: packed f32, r: a read of LDS that the last n takes."""
    plan = RegisterPlan(ARCH)
    plan.pin("all", v[0:255])
    plan.pin("some", s[0:31])
    k = Builder("spread", ARCH, plan)
    with k.section() as section:
        product = 0
        for at, one in enumerate(emit, 1):
            if one in "mn":
                product += 1
                a = v[100 + at - 1 & ~1:(100 + at - 1 & ~1) + 3] if one == "n" else v[0:3]
                k.v_mfma_f32_16x16x32_bf16(v[16 + 4 * product:19 + 4 * product], a, v[4:7], 0)
            elif one == "r":
                k.ds_read_b128(v[(first := 100 + emit.rindex("n") & ~1):first + 3], v[9])
            elif one == "b":
                with k.block("seldom"):
                    k.v_mov_b32(v[100 + at], 0)
                    k.v_mov_b32(v[100 + at], 1)
            elif one == "p":
                k.v_pk_add_f32(v[200 + 2 * at:201 + 2 * at], v[8:9], v[8:9])
            else:
                k.emit("v_exp_f32" if one == "e" else "v_mov_b32", v[100 + at], v[16 + 4 * product] if one == "u" else v[8])
    return section.units


@pytest.mark.parametrize(("emitted", "placed"), [
    ("mmmvvvv", "mvvmvvm"), ("mmmeevv", "meemvvm"), ("vvvvmmm", "mvvmvvm"), ("mmm", "mmm"), ("vvv", "vvv"),
    ("mmmmvu", "mvmmmu"), ("mvnm", "mvnm"), ("mmbvv", "mmbvv"), ("mmvvb", "mvvmb"),
    ("mmppvv", "vvmvmv"), ("mmvvpp", "mvvvvm"), ("mmp", "vmm"), ("mvmmmmrn", "mmvvmmmm")])
def test_windows_of_a_stage(emitted: str, placed: str) -> None:
    found = spread(units(emitted), is_matrix)
    kinds = "".join("b" if unit.is_block else "m" if is_matrix(unit) else "e" if unit.first.name == "v_exp_f32" else "v" for unit in found)
    assert kinds == placed.replace("n", "m").replace("u", "v")


def test_a_tile_in_the_first_registers_of_a_wider_one_and_one_that_shares_registers() -> None:
    M = mfma(SHAPE, ARCH)
    run = TileRun(ARCH)
    values = some(64, 32, 3)
    S = run.tile("S", (64, 32), M.d, values)
    small = narrowed(S, "bf16")
    assert [base.index for base in small.bases] == [base.index for base in S.bases] and small.registers.count == S.registers.count // 2
    convert(run.k, small, S)
    run.give(small)
    np.testing.assert_array_equal(run.finish()[0], rounded(values, "bf16", ARCH))
    with pytest.raises(TileError, match="has no room for f32"):
        narrowed(small, "f32")
    again = TileRun(ARCH)
    one = again.tile("one", (64, 32), M.d)
    assert again.tile("other", (64, 32), M.d, shares=one).registers.mask == one.registers.mask
    with pytest.raises(TileError, match="takes 16 registers; one .*, which it shares, has 32"):
        again.tile("third", (64, 32), with_dtype(M.d, "bf16"), shares=one)


def test_products_that_begin_with_a_row_of_fragments() -> None:
    M = mfma(SHAPE, ARCH)
    a, b, begin = some(64, 16, 4), some(32, 16, 5), some(32, 32, 6)
    run = TileRun(ARCH)
    k = run.k
    A, B, C = run.tile("A", (64, 16), M.a, a), run.tile("B", (32, 16), M.b, b), run.tile("C", (64, 32), M.d)
    D = run.tile("D", (32, 32), M.d, begin)
    mma(k, C, A, B, first=D)
    run.give(C)
    expected = rounded(a, "bf16", ARCH) @ rounded(b, "bf16", ARCH).T + np.tile(begin, (2, 1))
    np.testing.assert_allclose(run.finish()[0], expected, rtol=1e-5, atol=1e-5)
    with pytest.raises(TileError, match="is no row of the fragments of C"):
        mma(k, C, A, B, first=C)


def test_addresses_that_are_forgotten_are_made_again() -> None:
    run = TileRun(ARCH)
    k = run.k
    M = mfma(SHAPE, ARCH)
    values = some(32, 64, 7)
    a = matrix(run, values, "bf16", 32, 64)
    zero = k.registers.sgprs(1, "zero")
    k.s_mov_b32(zero, 0)
    one, other = run.tile("one", (32, 64), M.a), run.tile("other", (32, 64), M.a)
    load(k, one, a.rows(zero, 32))
    held = k.registers.resources().vgprs
    k.forget("load", "lane places")
    load(k, other, a.rows(zero, 32))
    assert k.registers.resources().vgprs == held
    run.give(other)
    np.testing.assert_array_equal(run.finish()[0], rounded(values, "bf16", ARCH))
