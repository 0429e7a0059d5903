"""dQ by itself, for builds whose sums have an order: 4 waves with 64 queries each, a step takes 32 keys.

dQ of a query is a sum over keys, and in the main kernel these are in other workgroups. Here one wave adds them up in its registers, so
the same bits come out each time. It computes S and dP once more: 3 products beside the 4 that are left to the main kernel, 7 for 5. The
other way, float32 sums in memory from each workgroup of 256 keys and a kernel that adds them in order, moves 4 bytes twice for each 256
keys of each element of dQ: at b = hq = 16, 4096 queries and keys and d = 128 that is 17 GB, which takes as long as all 5 products, in
8.6 GB of workspace that grow with sk. Two products more take 2/5 of these, and no workspace.

S^T and dP^T stand with keys in registers and queries in lanes, so dS is an operand of dQ^T += K^T dS^T as it is. dQ of step t stands beside
the products of step t + 1.
"""

from __future__ import annotations

import asmgen as ag
from asmgen.kernels.attention_backward.dropping import choose_keys, draw_keys, dropping_keys
from asmgen.kernels.attention_backward.family import BACKWARD, QUERY_GRID, ROWS_AHEAD, is_ordered, query_arguments, query_work
from asmgen.kernels.attention_backward.gradients import gradient_factor, store_gradient
from asmgen.kernels.attention_backward.heads import head_rows
from asmgen.kernels.attention_backward.keymasks import hide_keys, keys_seen, visit_keys
from asmgen.kernels.attention_backward.ldsrows import rows_in_lds
from asmgen.kernels.attention_backward.queryplace import place_queries, statistics_of
from asmgen.kernels.attention_backward.tensors import BLOCK, QUERIES
from asmgen.kernels.attention_backward.work import Ring, columns


@BACKWARD.companion("dq", "dQ, its keys in order", query_arguments, QUERY_GRID, waves=4, occupancy=1, when=is_ordered,
                    work=query_work)
def by_queries(k: ag.TileBuilder) -> None:
    """64 queries for each wave."""
    d, own = k.variant.d, QUERIES // 4
    new = k.arch == "gfx950"
    M = k.matrix_shape(f"f32_{'32x32x16' if new else '32x32x8' if k.p.dropout else '16x16x16'}_{k.p.dtype}")
    edge, deep, rounding = M.d.rows, M.a.columns, "nearest" if new else k.p.rounding.removesuffix("d")
    fa, fb = (one if new else ag.deep(one, 2) for one in (M.a, M.b))
    # register plan and LDS map
    dQ = k.tile("dQ", d, own, M.d, file="a", note="dQ^T")
    Q, dO = (k.tile(name, own, d, fb, file="a") for name in ("Q", "dO"))
    S, dP = (k.tile(name, BLOCK, own, M.d) for name in ("S", "dP"))
    start = k.tile("start", edge, own, M.d, note="-delta, in all rows")
    dS = k.tile("dS", BLOCK, own, ag.with_dtype(M.d, k.p.dtype), stages=2)
    by_keys = ag.in_order_of(M.a, ag.as_operand(ag.transposed(dS.tiles[0]), M, "b").fragment)
    ring = Ring(k, 12 if not k.p.dropout else 8 if new else 4, fa, "v")
    of_k, of_v = rows_in_lds(k, "K", BLOCK, fa, by_keys, 1), rows_in_lds(k, "V", BLOCK, fa, None, 1)

    at = place_queries(k)
    row0 = k.registers.sgprs(1, "wave_row0", note="the wave's first query")
    k.s_mul_i32(row0, k.wave.register, own)
    k.s_add_u32(row0, row0, at.tile)
    for tile, name in ((Q, "q"), (dO, "do")):
        ag.load(k, tile, head_rows(k, name, at.batch, at.head).rows(row0, own))
    c, low = statistics_of(k, at, row0, start)
    first, steps = visit_keys(k, at.tile)
    dropout = dropping_keys(k, at, row0, first, S)
    seen = keys_seen(k, row0, first, S)
    kv, vv = (head_rows(k, name, at.batch, at.kv_head).walk(first, BLOCK, ROWS_AHEAD) for name in "kv")
    k.forget("load")
    memory, matrix, vector, draws = k.streams("memory", "matrix", "vector", "draws")
    ag.zero(k, dQ)

    def changes(n: ag.StepIndex) -> None:
        for first in range(0, d, fa.columns):
            with memory:
                A = ring.take("V", fa, BLOCK // edge)
                of_v.read(k, A, n, first)
            with matrix:
                ag.mma(k, dP, A, dO.part(0, first, own, fa.columns), first=False if first else start)

    def add_up(t: ag.StepIndex) -> None:
        slopes = ag.as_operand(ag.transposed(dS[t]), M, "b")
        for depth in range(BLOCK // deep):
            for block in range(d // edge):
                with memory:
                    A = ring.take("Kt", by_keys)
                    of_k.read_transposed(k, A, t, ag.PartOf(BLOCK // deep, depth), ag.PartOf(d // edge, block))
                with matrix:
                    ag.mma(k, dQ.part(edge * block, 0, edge, own), A, slopes.part(0, deep * depth, own, deep))

    def step(t: ag.StepIndex) -> None:
        n = t + 1
        ring.begin()
        with memory:
            of_k.advance(k, n, kv)
            of_v.advance(k, n, vv)
        for first in range(0, d, fa.columns):
            with memory:
                A = ring.take("K", fa, BLOCK // edge)
                of_k.read(k, A, n, first)
            with matrix:
                ag.mma(k, S, A, Q.part(0, first, own, fa.columns), first=not first)
        with vector:
            for one, own_low in zip(columns(S), low, strict=True):
                ag.fma(k, one, one, c, own_low, packed=False)
                ag.exp2(k, one, one)
        with draws:
            draw_keys(k, dropout, 0, n)
        changes(n)
        with draws:
            draw_keys(k, dropout, 1, n)
        add_up(t)
        with vector:
            choose_keys(k, dropout, dP, start, n)
            ag.mul(k, dP, dP, S, packed=False)
            hide_keys(k, dP, seen, n)
            ag.convert(k, dS[n], dP, rounding, nan=False)

    k.pipeline(step, steps, ag.Modulo(), empty=k.p.causal or k.p.window or k.p.varlen)
    k.registers.release("Q", "dO", "S", "dP", "start", "dS", "ring", "k_buffer", "v_buffer")
    without = k.fresh("no_queries")  # the descriptor of a wave after the last query would show that one
    k.s_cmp_ge_u32(row0, k.argument("sq"))
    k.s_cbranch_scc1(without)
    store_gradient(k, head_rows(k, "dq", at.batch, at.head).rows(row0, own), None, dQ, M, gradient_factor(k))
    k.label(without)
