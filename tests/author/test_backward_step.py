"""The step of attention's gradients for rows of 128, written with what an author has: 16 queries, 64 keys a wave.

S, dP and dQ are products of 16 x 16, the sums of dV and dK of 32 x 32: lane swaps make operands of 32 keys of two results of 16. V and a
half of K stay in registers. dS crosses waves through LDS, and each wave adds 32 columns of dQ to memory by atomics, in the step after the
one that made dS; dV and dK come in that step too, so that all that vector work makes of S and dP has a step's time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asmgen as ag
from asmgen.emulator.scheduling.run import Options
from asmgen.emulator.scheduling.trace import Trace
from asmgen.isa.timing import timing
from asmgen.model.profile import profile
from tests.emulator_launch import launch
from tests.tile_harness import codes_of, rounded

Array = np.ndarray[Any, Any]
QUERIES, OWN, WAVES, D, STEPS = 16, 64, 4, 128, 24
KEYS = OWN * WAVES
AHEAD, STAGES = 3, 4  # of queries in LDS: a step takes less time than a round trip to memory
LINE = 64  # statistics of a step, which is as much as a wave fetches: those of S and dP, and as many more
PLACES = 6  # of operands, in VGPRs; 4 more for each 32 columns of K that are read again in each step
AGAIN = 2


def gradients() -> ag.Kernel:
    """P = exp2(c (Q K^T + s)), dS = P (dO V^T + e); dV = P^T dO, dK = dS^T Q, dQ += dS K, of `rows` queries."""
    names = ("q", "do", "k", "v", "statistics", "dq", "dk", "dv")
    arguments = (*(ag.ContractArgument(name, "pointer", "") for name in names),
                 *(ag.ContractArgument(name, "u32", "") for name in ("rows", "steps", "c")))
    contract = ag.KernelContract("backward-step", "test", ("gfx950",), (), arguments, (WAVES * ag.LANES, 1, 1),
                                 ag.Formula("one", lambda _: (1, 1, 1)))
    k = ag.TileBuilder(contract, "gfx950", {}, workgroup_ids="x")
    small, large = k.matrix_shape("f32_16x16x32_bf16"), k.matrix_shape("f32_32x32x16_bf16")
    half = ag.with_dtype(small.d, "bf16")
    dK = k.tile("dK", D, OWN, large.d, file="a", note="dK^T")
    V, K = (k.tile(name, OWN, columns, small.b, file="a") for name, columns in (("V", D), ("K", D - 32 * AGAIN)))
    S, dP = (k.tile(name, QUERIES, OWN, small.d) for name in ("S", "dP"))
    starts = [k.tile(name, QUERIES, QUERIES, small.d) for name in ("s", "e")]
    P, dS = (k.tile(name, QUERIES, OWN, half, stages=2) for name in ("P", "dS"))
    dQ = k.tile("dQ", QUERIES, D // WAVES, small.d)
    rings = [k.tile(f"held_{file}", count * 16, 32, small.a, file=file) for file, count in (("v", PLACES), ("a", 4 * AGAIN))]
    held = [ring.base(number, 0) for ring in rings for number in range(ring.down)]
    taken = 0
    Ks = k.shared("Ks", "bf16", KEYS, D, serves=(ag.FragmentRead(small.b), ag.TransposedRead(small.b)))
    Qs, dOs = (k.shared(name, "bf16", QUERIES, D, stages=STAGES, serves=(
        ag.FragmentRead(small.a), ag.TransposedRead(large.a), ag.DmaFill())) for name in ("Qs", "dOs"))
    dSs = k.shared("dSs", "bf16", KEYS, QUERIES, stages=2,
                   serves=(ag.FragmentRead(ag.transposed(dS.tiles[0]).fragment, write=True), ag.TransposedRead(small.a)))
    Xs = k.shared("Xs", "f32", WAVES, LINE, stages=STAGES)
    wave, rows, c = k.wave, k.argument("rows"), k.argument("c")
    keys = {name: ag.Matrix(name, "bf16", k.argument(name), KEYS, D, D).rows(0, KEYS) for name in ("k", "v")}
    ag.load(k, V, keys["v"], rows=wave)
    loaded = k.tile("loaded", OWN, D, small.b)
    ag.load(k, loaded, keys["k"], rows=wave)
    ag.write(k, Ks[()].part(wave), loaded)  # other waves read it after the loop's first barrier
    ag.move(k, K, loaded.part(0, 0, OWN, K.columns))
    k.registers.release("loaded")
    dV = k.tile("dV", D, OWN, large.d, note="dV^T")
    ag.zero(k, dV, dK)
    first = k.registers.sgprs(1, "first")
    k.s_mov_b32(first, 0)
    queries, slopes, sums = (ag.Matrix(name, dtype, k.argument(name), rows, D, D, D, D).walk(first, QUERIES, 64) for name, dtype in
                             (("q", "bf16"), ("do", "bf16"), ("dq", "f32")))
    width = k.registers.sgprs(1, "width")
    k.s_mul_i32(width, k.argument("steps"), LINE)
    statistics = ag.Matrix("statistics", "f32", k.argument("statistics"), WAVES, width, 0).rows(0, WAVES)
    memory, matrix, vector, adds = k.streams("memory", "matrix", "vector", "adds")

    def take(name: str, fragment: ag.Fragment, count: int = 1) -> ag.Tile:
        """Fragments of operands take turns."""
        nonlocal taken
        bases = [held[(taken + number) % len(held)] for number in range(count)]
        taken += count
        return ag.Tile(name, count * fragment.rows, fragment.columns, fragment, ag.RegisterSet(tuple(bases)))

    def by_columns(tile: ag.Tile) -> list[ag.Tile]:
        return [tile.part(0, first, QUERIES, 16) for first in range(0, OWN, 16)]

    def in_pairs(tile: ag.Tile) -> ag.Tile:
        """Results of 16 keys as lane swaps have made operands of 32 of them."""
        bases = tuple(tile.base(0, fragment) for fragment in range(tile.across))
        return ag.Tile(tile.name, OWN, QUERIES, large.b, ag.RegisterSet(bases), tile.index)

    def start(number: int) -> ag.Tile:
        """What S or dP begin with: the same for all keys."""
        one = starts[number]
        return ag.Tile(one.name, QUERIES, OWN, small.d, ag.RegisterSet((one.base(0, 0),) * (OWN // QUERIES)))

    def add_rows(n: ag.StepIndex, out: ag.Tile, operand: ag.Tile, source: ag.SharedTile, block: int) -> None:
        """Sums of 64 keys, 32 columns of 16 rows: these products ask for little of LDS."""
        with memory:
            A = take("rows", large.a)
            ag.read_transposed(k, A, source[n].part(None, ag.PartOf(D // 32, block)))
        with matrix:
            ag.mma(k, out.part(32 * block, 0, 32, OWN), A, operand)

    def add_queries(t: ag.StepIndex, number: int) -> None:
        """dQ of 32 keys: these ask for much of LDS, so they stand among the others."""
        depth = ag.PartOf(KEYS // small.a.columns, number)
        with memory:
            A, B = take("dS", small.a), take("Kt", small.b, D // WAVES // 16)
            ag.read_transposed(k, A, dSs[t].part(depth))
            ag.read_transposed(k, B, Ks[()].part(depth, wave), at=t)
        with matrix:
            ag.mma(k, dQ, A, B, first=not number)

    def step(t: ag.StepIndex) -> None:
        nonlocal taken
        taken, n = 0, t + 1
        with memory:
            for shared, source in ((Qs, queries), (dOs, slopes)):
                ag.fill(k, shared[t + AHEAD], source.step(t + AHEAD))
            ag.fill(k, Xs[t + AHEAD], statistics.k(t + AHEAD))
            for number, tile in enumerate(starts):
                begin = ag.Vector(tile.name, "row", QUERIES, small.d, ag.RegisterSet((tile.base(0, 0),)))
                ag.read(k, begin, Xs[n].part(wave, ag.PartOf(LINE // QUERIES, number)))
        for number, (out, source, operand) in enumerate(((S, Qs, K), (dP, dOs, V))):
            for depth in range(D // 32):
                with memory:
                    A = take("rows", small.a)
                    ag.read(k, A, source[n].part(None, ag.PartOf(D // 32, depth)))
                    if 32 * depth < operand.columns:
                        B = operand.part(0, 32 * depth, OWN, 32)
                    else:
                        B = take("K", small.b, OWN // 16)
                        ag.read(k, B, Ks[()].part(wave, ag.PartOf(D // 32, depth)), at=n)
                with matrix:
                    ag.mma(k, out, A, B, first=False if depth else start(number))
        for block in range(D // 32):
            add_rows(t, dV, in_pairs(P[t]), dOs, block)
            for number in range(2):
                add_queries(t, 2 * block + number)
        for block in range(D // 32):
            add_rows(t, dK, in_pairs(dS[t]), Qs, block)
        with vector:
            for one, half_one in zip(by_columns(S), by_columns(P[n]), strict=True):
                ag.mul(k, one, one, c, packed=False)
                ag.exp2(k, one, one)
                ag.convert(k, half_one, one, nan=False)
            ag.change_layout(k, ag.transposed(P[n]), large.b)
            for one, other, half_one in zip(by_columns(dP), by_columns(S), by_columns(dS[n]), strict=True):
                ag.mul(k, one, one, other, packed=False)
                ag.convert(k, half_one, one, nan=False)
            ag.write(k, dSs[n].part(wave), ag.transposed(dS[n]))
            ag.change_layout(k, ag.transposed(dS[n]), large.b)
        with adds:
            ag.store_tile(k, sums.step(t), dQ, columns=wave, add=True)

    k.pipeline(step, k.argument("steps"), ag.Modulo())
    for name, out in (("dv", dV), ("dk", dK)):
        ag.store_tile(k, ag.Matrix(name, "f32", k.argument(name), KEYS, D, D).rows(0, KEYS), ag.transposed(out), rows=wave)
    k.s_endpgm()
    return k.finish()


@pytest.mark.slow
def test_the_backward_step_keeps_matrix_cores_busy() -> None:
    rng = np.random.default_rng(4)
    count, c = QUERIES * STEPS, np.float32(0.125)
    q, do, keys, values = (rounded(rng.normal(0, 1, (rows, D)), "bf16", "gfx950") for rows in (count, count, KEYS, KEYS))
    s, e = rng.normal(-12, 4, count), rng.normal(0, 1, count)
    s[77] = -np.inf  # a query that sees no key
    lines = np.zeros((STEPS, LINE), np.float32)
    lines[:, :QUERIES], lines[:, QUERIES:2 * QUERIES] = s.reshape(STEPS, -1), e.reshape(STEPS, -1)
    before = rng.normal(0, 1, (count, D)).astype(np.float32)
    kernel, trace = gradients(), Trace(1)
    buffers = [*(codes_of(one, "bf16", "gfx950").astype(np.uint16) for one in (q, do, keys, values)), lines, before,
               *(np.zeros((KEYS, D), np.float32) for _ in range(2))]
    done = launch("gfx950", kernel.program, block=(WAVES * ag.LANES, 1, 1), buffers=buffers, values=[count, STEPS, int(c.view(np.uint32))],
                  vgprs=512, lds=kernel.resources.lds_bytes, options=Options(True, "lockstep", trace=trace))
    assert not done.findings
    p = np.exp2(c * (q @ keys.T + s[:, None]))
    slopes = rounded(p * (do @ values.T + e[:, None]), "bf16", "gfx950")
    expected = before + slopes @ keys, slopes.T @ q, rounded(p, "bf16", "gfx950").T @ do
    for found, exact in zip(done.buffers[5:], expected, strict=True):
        np.testing.assert_allclose(found, exact, rtol=0, atol=2**-7 * np.sqrt((exact ** 2).mean()))
    loop = max(profile(kernel.program, list(trace.waves()), timing("MI355X"), "l2").loops, key=lambda one: one.rounds)
    assert loop.steady and loop.matrix_busy >= 0.88
