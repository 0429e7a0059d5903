"""attention-forward for gfx950: 8 waves in ping-pong, 32 queries for each wave, 64 keys in a step.

S^T = K Q^T, so that a lane holds scores of one query. P^T, packed, is then the next product's operand without any move: O^T += V^T P^T.
Transposing reads of LDS transpose V, with its keys in P's order. Scores are computed a step before their P is used; one half of P is
computed beside each product. Between the products, in a memory stage, the kernel checks the maximum. A cold block raises it.
"""

from __future__ import annotations

import asmgen as ag
from asmgen.kernels.attention_forward.dropping import drop, dropping
from asmgen.kernels.attention_forward.epilogue import attention_epilogue
from asmgen.kernels.attention_forward.family import ATTENTION
from asmgen.kernels.attention_forward.place import key_steps, place
from asmgen.kernels.attention_forward.softmax import (
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


def operand(k: ag.TileBuilder, shape: ag.MatrixShape, weights: ag.Tile) -> ag.Tile:
    """P in its registers, rounded in place or not, as the operand of the second product."""
    return ag.as_operand(ag.transposed(ag.narrowed(weights, k.p.dtype)), shape, "b")


def lower(tile: ag.Tile) -> ag.Tile:
    """The first half of the keys."""
    return tile.part(0, 0, tile.rows // 2, tile.columns)


def upper(tile: ag.Tile) -> ag.Tile:
    """The second half of the keys."""
    return tile.part(tile.rows // 2, 0, tile.rows // 2, tile.columns)


@ATTENTION.variant("gfx950", tile=(256, 64), waves=8, schedule="ping-pong", occupancy=2, d=128, dropout=False)
@ATTENTION.variant("gfx950", tile=(256, 64), waves=8, schedule="ping-pong", occupancy=2, d=64, dropout=False)
@ATTENTION.variant("gfx950", tile=(256, 32), waves=8, schedule="ping-pong", occupancy=2, d=128, dropout=True)
@ATTENTION.variant("gfx950", tile=(256, 64), waves=8, schedule="ping-pong", occupancy=2, d=64, dropout=True)
def ping_pong(k: ag.TileBuilder) -> None:
    """32 queries for each wave."""
    (queries, keys), d = k.variant.tile, k.variant.d
    M = k.matrix_shape(f"f32_32x32x16_{k.p.dtype}")
    rows = queries // 8

    # register plan: K's and V's fragments share registers
    O = k.tile("O", d, rows, M.d, note="O^T")
    S = k.tile("S", keys, rows, M.d, stages=2, note="scores of keys by queries, then P")
    one_block = keys == rows  # dropout takes the registers of the other 32 keys
    late = d == 64  # products do not cover the vector work: packed instructions sum P before the next stage's products
    P = k.tile("P", keys, rows, ag.with_dtype(M.d, k.p.dtype), stages=2) if late else S
    Q = k.tile("Q", rows, d, M.b)
    K = k.tile("K", keys, d, M.a)
    V = k.tile("V", d, keys, ag.in_order_of(M.a, operand(k, M, P.tiles[0]).fragment), shares=K)
    group = k.registers.sgprs(1, "group", note="waves 4 to 7 run a stage behind")

    # LDS map
    Ks = k.shared("Ks", k.p.dtype, keys, d, stages=2, serves=(ag.FragmentRead(M.a), ag.DmaFill()))
    Vs = k.shared("Vs", k.p.dtype, keys, d, stages=2, serves=(ag.TransposedRead(V.fragment), ag.DmaFill()))

    k.s_lshr_b32(group, k.wave.register, 2)
    at = place(k)
    ag.load(k, Q, at.q.rows(at.row0, queries), rows=k.wave)
    state = softmax(k, S.tiles[0], late)
    if k.p.scale == "folded":
        scale_queries(k, state, Q, O)
    k.registers.release("work_item")
    steps = key_steps(k, at, S.tiles[0])
    dropout = dropping(k, at, rows)
    k.forget("load", "lane places")
    memory, matrix, vector = k.streams("memory", "matrix", "vector")

    def step(t: ag.StepIndex) -> None:
        with k.stage("maximum"):
            with memory:
                ag.fill(k, Ks[t + 3], steps.k.step(t + 3))
                ag.read_transposed(k, V, Vs[t])
            with vector:
                follow_maximum(k, state, S[t + 1], steps.seen)
        with k.stage("P V"):
            with matrix:
                ag.mma(k, O, V, operand(k, M, P[t]))
            with vector:
                if one_block:
                    exponentials(k, state, S[t + 1])
                else:
                    weigh(k, state, lower(S[t + 1]), lower(P[t + 1]), upper(S[t]))
        with k.stage("rescale"):
            with memory:
                ag.fill(k, Vs[t + 2], steps.v.step(t + 2))
                ag.read(k, K, Ks[t + 2])
            with vector, t.later:
                rescale(k, state, O, t + 1)
        with k.stage("K Q"):
            with matrix:
                ag.mma(k, S[t + 2], K, Q, first=state.start or True)
            with vector:
                if one_block:
                    shares(k, state, S[t + 1], P[t + 1])
                else:
                    weigh(k, state, upper(S[t + 1]), upper(P[t + 1]), lower(S[t + 1]))
                drop(k, dropout, P[t + 1])

    def ends() -> None:
        sum_up(k, state)
        attention_epilogue(k, at, M, O, state.total, maximum(k, state), k.wave)

    ag.zero(k, O)
    k.pipeline(step, at.steps, ag.PingPong(), groups=group, plain=at.plain, early_exit=steps.skipped, ends_plain=not k.p.causal,
               then=ag.FollowingEpilogue(ends, ("S", "K", "Q")))
