"""attention-forward for gfx950, interleaved: 4 waves, one on each SIMD, 64 queries for each wave.

A fragment of keys or values serves two fragments of queries. The step is that of `pingpong`, with registers for both operands of both
products: O, Q and K are in AGPRs, as vector instructions do not use them. The softmax of step t + 1 stands in the gaps of the products P V
of step t and K Q^T of step t + 2.
"""

from __future__ import annotations

import asmgen as ag
from asmgen.kernels.attention_forward.epilogue import attention_epilogue
from asmgen.kernels.attention_forward.family import ATTENTION
from asmgen.kernels.attention_forward.pingpong import lower, operand, upper
from asmgen.kernels.attention_forward.place import key_steps, place
from asmgen.kernels.attention_forward.softmax import (
    add_pairs,
    exponentials,
    follow_maximum,
    maximum,
    rescale,
    scale_queries,
    shares,
    softmax,
    sum_up,
    weigh,
)


@ATTENTION.variant("gfx950", tile=(256, 64), waves=4, schedule="interleave", occupancy=1, d=128, dropout=False)
@ATTENTION.variant("gfx950", tile=(256, 64), waves=4, schedule="interleave", occupancy=1, d=64, dropout=False)
def interleaved(k: ag.TileBuilder) -> None:
    """64 queries for each wave."""
    (queries, keys), d = k.variant.tile, k.variant.d
    M = k.matrix_shape(f"f32_32x32x16_{k.p.dtype}")
    rows = queries // 4

    # register plan: 256 AGPRs; vector instructions use VGPRs
    O = k.tile("O", d, rows, M.d, file="a", note="O^T")
    Q = k.tile("Q", rows, d, M.b, file="a")
    K = k.tile("K", keys, d, M.a, file="a")
    late = d == 64  # products do not cover the vector work: scales and sums of P are packed instructions in one group
    S = k.tile("S", keys, rows, M.d, stages=2, note="scores of keys by queries, then P")
    P = k.tile("P", keys, rows, ag.with_dtype(M.d, k.p.dtype), stages=2) if late else S
    V = k.tile("V", d, keys, ag.in_order_of(M.a, operand(k, M, P.tiles[0]).fragment), file="a" if late else "v")
    loaded = k.tile("loaded_Q", rows, d, M.b, shares=P.tiles[1]) if k.p.scale == "folded" else Q  # scaled in VGPRs

    # LDS map
    Ks = k.shared("Ks", k.p.dtype, keys, d, stages=2, serves=(ag.FragmentRead(M.a), ag.DmaFill()))
    Vs = k.shared("Vs", k.p.dtype, keys, d, stages=2, serves=(ag.TransposedRead(V.fragment), ag.DmaFill()))

    at = place(k)
    ag.load(k, loaded, at.q.rows(at.row0, queries), rows=k.wave)
    state = softmax(k, S.tiles[0], late)
    if k.p.scale == "folded":
        scale_queries(k, state, loaded, S.tiles[0])
        ag.move(k, Q, loaded)
        k.registers.release("loaded_Q")
    k.registers.release("work_item")
    steps = key_steps(k, at, S.tiles[0])
    k.forget("load", "lane places")
    memory, matrix, vector = k.streams("memory", "matrix", "vector")

    def step(t: ag.StepIndex) -> None:
        with k.stage("maximum"):
            with memory:
                ag.fill(k, Ks[t + 3], steps.k.step(t + 3))
                ag.read(k, K, Ks[t + 2])
            with vector:
                follow_maximum(k, state, S[t + 1], steps.seen)
        with k.stage("P V"):
            with matrix:
                ag.mma(k, O, V, operand(k, M, P[t]))
            with vector:
                if late:
                    add_pairs(k, state, S[t])
                    exponentials(k, state, S[t + 1])
                else:
                    weigh(k, state, lower(S[t + 1]), lower(P[t + 1]))
        with k.stage("rescale"):
            with memory:
                ag.fill(k, Vs[t + 2], steps.v.step(t + 2))
                ag.read_transposed(k, V, Vs[t + 1])
            with vector, t.later:
                rescale(k, state, O, t + 1)
        with k.stage("K Q"):
            with matrix:
                ag.mma(k, S[t + 2], K, Q, first=state.start or True)
            with vector:
                if late:
                    shares(k, state, S[t + 1], P[t + 1])
                else:
                    weigh(k, state, upper(S[t + 1]), upper(P[t + 1]))

    def ends() -> None:
        sum_up(k, state)
        attention_epilogue(k, at, M, O, state.total, maximum(k, state), k.wave)

    ag.zero(k, O)
    # With packed instructions in the step the older schedule is 1.5 % shorter, at this constant.
    schedule = ag.Interleave(ag.Latencies(cycles=35), vector="vector") if late else ag.Modulo()
    k.pipeline(step, at.steps, schedule, plain=at.plain, early_exit=steps.skipped, ends_plain=not k.p.causal,
               then=ag.FollowingEpilogue(ends, ("S", "K", "Q", "V")))
