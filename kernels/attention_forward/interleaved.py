"""attention-forward for gfx950, interleaved: 4 waves, one on each SIMD, 64 queries for each wave.

A fragment of keys or values serves two fragments of queries. The step is that of `attentionstep`, with registers for both operands of both
products: O, Q and K are in AGPRs, as vector instructions do not use them. The softmax of step t + 1 stands in the gaps of the products P V
of step t and K Q^T of step t + 2.
"""

from __future__ import annotations

import asmgen as ag
from asmgen.kernels.attention_forward.attentionstep import ProductTiles, attend, lower, upper
from asmgen.kernels.attention_forward.family import ATTENTION
from asmgen.kernels.attention_forward.lines import query_lines
from asmgen.kernels.attention_forward.pingpong import operand
from asmgen.kernels.attention_forward.place import key_steps, place
from asmgen.kernels.attention_forward.softmax import add_pairs, exponentials, scale_queries, shares, softmax, weigh


@ATTENTION.variant("gfx950", tile=(256, 64), waves=4, schedule="interleave", occupancy=1, d=128, dropout=False)
@ATTENTION.variant("gfx950", tile=(256, 64), waves=4, schedule="interleave", occupancy=1, d=64, dropout=False)
def interleaved(k: ag.TileBuilder) -> None:
    """64 queries for each wave."""
    (queries, size), d = k.variant.tile, k.variant.d
    schedule = ag.Modulo(beside=__file__)
    M = k.matrix_shape(f"f32_32x32x16_{k.p.dtype}")
    rows = queries // 4

    # register plan: 256 AGPRs; vector instructions use VGPRs
    O = k.tile("O", d, rows, M.d, file="a", note="O^T")
    Q = k.tile("Q", rows, d, M.b, file="a")
    K = k.tile("K", size, d, M.a, file="a")
    late = d == 64  # products do not cover the vector work: scales and sums of P are packed instructions in one group
    S = k.tile("S", size, rows, M.d, stages=2, note="scores of keys by queries, then P")
    P = k.tile("P", size, rows, ag.with_dtype(M.d, k.p.dtype), stages=2) if late else S
    V = k.tile("V", d, size, ag.in_order_of(M.a, operand(k, M, P.tiles[0]).fragment), file="a" if late else "v")
    loaded = k.tile("loaded_Q", rows, d, M.b, shares=P.tiles[1]) if k.p.scale == "folded" else Q  # scaled in VGPRs

    # LDS map
    Ks = k.shared("Ks", k.p.dtype, size, d, stages=2, serves=(ag.FragmentRead(M.a), ag.DmaFill()))
    Vs = k.shared("Vs", k.p.dtype, size, d, stages=2, serves=(ag.TransposedRead(V.fragment), ag.DmaFill()))

    Qs = query_lines(k, M.b, schedule)

    at = place(k, loaded, Qs.shared)
    state = softmax(k, S.tiles[0], late)
    if k.p.scale == "folded":
        Qs.read(k, loaded)
        scale_queries(k, state, loaded, S.tiles[0])
        ag.move(k, Q, loaded)
    steps = key_steps(k, at, S.tiles[0])

    def keys(t: ag.StepIndex) -> None:
        ag.fill(k, Ks[t + 3], steps.k.step(t + 3))
        ag.read(k, K, Ks[t + 2])

    def values(t: ag.StepIndex) -> None:
        ag.fill(k, Vs[t + 2], steps.v.step(t + 2))
        ag.read_transposed(k, V, Vs[t + 1])

    def first_part(t: ag.StepIndex) -> None:
        if late:
            add_pairs(k, state, S[t])
            exponentials(k, state, S[t + 1])
        else:
            weigh(k, state, lower(S[t + 1]), lower(P[t + 1]))

    def second_part(t: ag.StepIndex) -> None:
        if late:
            shares(k, state, S[t + 1], P[t + 1])
        else:
            weigh(k, state, upper(S[t + 1]), upper(P[t + 1]))

    products = ProductTiles(O, S, Q, K, V, lambda t: operand(k, M, P[t]))
    attend(k, at, steps, state, products, (keys, values), (first_part, second_part), schedule,
           queries=Qs, meanwhile=Qs.meanwhile(k, Q) if k.p.scale == "exact" else None)
