"""attention-forward for gfx950: 8 waves in ping-pong, 32 queries for each wave, 64 keys in a step.

Transposing reads of LDS transpose V, with its keys in P's order. One half of P is computed beside each product. Between the products, in
a memory stage, the kernel checks the maximum. A cold block raises it. The step is that of `attentionstep`.
"""

from __future__ import annotations

import asmgen as ag
from asmgen.kernels.attention_forward.attentionstep import ProductTiles, attend, lower, upper
from asmgen.kernels.attention_forward.dropping import drop, dropping
from asmgen.kernels.attention_forward.family import ATTENTION
from asmgen.kernels.attention_forward.lines import query_lines
from asmgen.kernels.attention_forward.place import key_steps, place
from asmgen.kernels.attention_forward.softmax import exponentials, scale_queries, shares, softmax, weigh


def operand(k: ag.TileBuilder, shape: ag.MatrixShape, weights: ag.Tile) -> ag.Tile:
    """P in its registers, rounded in place or not, as the operand of the second product."""
    return ag.as_operand(ag.transposed(ag.narrowed(weights, k.p.dtype)), shape, "b")


@ATTENTION.variant("gfx950", tile=(256, 64), waves=8, schedule="ping-pong", occupancy=2, d=128, dropout=False)
@ATTENTION.variant("gfx950", tile=(256, 64), waves=8, schedule="ping-pong", occupancy=2, d=64, dropout=False)
@ATTENTION.variant("gfx950", tile=(256, 32), waves=8, schedule="ping-pong", occupancy=2, d=128, dropout=True)
@ATTENTION.variant("gfx950", tile=(256, 64), waves=8, schedule="ping-pong", occupancy=2, d=64, dropout=True)
def ping_pong(k: ag.TileBuilder) -> None:
    """32 queries for each wave."""
    (queries, keys), d = k.variant.tile, k.variant.d
    schedule = ag.PlacedPingPong()
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
    Qs = query_lines(k, M.b, schedule)

    k.s_lshr_b32(group, k.wave.register, 2)
    at = place(k, Q, Qs.shared)
    state = softmax(k, S.tiles[0], late)
    if k.p.scale == "folded":
        Qs.read(k, Q)
        scale_queries(k, state, Q, O)
    steps = key_steps(k, at, S.tiles[0])
    dropout = dropping(k, at, rows)

    def keys_and_values(t: ag.StepIndex) -> None:
        ag.fill(k, Ks[t + 3], steps.k.step(t + 3))
        ag.read_transposed(k, V, Vs[t])

    def values_and_keys(t: ag.StepIndex) -> None:
        ag.fill(k, Vs[t + 2], steps.v.step(t + 2))
        ag.read(k, K, Ks[t + 2])

    def first_part(t: ag.StepIndex) -> None:
        if one_block:
            exponentials(k, state, S[t + 1])
        else:
            weigh(k, state, lower(S[t + 1]), lower(P[t + 1]), upper(S[t]))

    def second_part(t: ag.StepIndex) -> None:
        if one_block:
            shares(k, state, S[t + 1], P[t + 1])
        else:
            weigh(k, state, upper(S[t + 1]), upper(P[t + 1]), lower(S[t + 1]))
        drop(k, dropout, P[t + 1])

    products = ProductTiles(O, S, Q, K, V, lambda t: operand(k, M, P[t]))
    attend(k, at, steps, state, products, (keys_and_values, values_and_keys), (first_part, second_part), schedule, group, Qs,
           Qs.meanwhile(k, Q) if k.p.scale == "exact" else None)
