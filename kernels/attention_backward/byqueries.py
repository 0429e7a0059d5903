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
from asmgen.kernels.attention_backward.family import BACKWARD, QUERY_GRID, ROWS_AHEAD, is_ordered, query_arguments, query_work
from asmgen.kernels.attention_backward.gradients import store_gradient
from asmgen.kernels.attention_backward.heads import count_blocks, flat_head, head_rows
from asmgen.kernels.attention_backward.keymasks import hide_keys, keys_seen, visit_keys
from asmgen.kernels.attention_backward.ldsrows import rows_in_lds
from asmgen.kernels.attention_backward.tensors import BLOCK, QUERIES
from asmgen.kernels.attention_backward.work import Ring, apart, columns, log2_scale
from asmgen.kernels.sequences.varlen import begin_sequence, end_beyond


@BACKWARD.companion("dq", "dQ, its keys in order", query_arguments, QUERY_GRID, waves=4, occupancy=1, when=is_ordered,
                    work=query_work)
def by_queries(k: ag.TileBuilder) -> None:
    """64 queries for each wave."""
    d, own = k.variant.d, QUERIES // 4
    new = k.arch == "gfx950"
    M = k.matrix_shape(f"f32_{'32x32x16' if new else '16x16x16'}_{k.p.dtype}")
    edge, rounding = M.d.rows, "nearest" if new else k.p.rounding.removesuffix("d")
    fa, fb = (one if new else ag.deep(one, 2) for one in (M.a, M.b))
    # register plan and LDS map
    dQ = k.tile("dQ", d, own, M.d, file="a", note="dQ^T")
    Q, dO = (k.tile(name, own, d, fb, file="a") for name in ("Q", "dO"))
    S, dP = (k.tile(name, BLOCK, own, M.d) for name in ("S", "dP"))
    start = k.tile("start", edge, own, M.d, note="-delta, in all rows")
    dS = k.tile("dS", BLOCK, own, ag.with_dtype(M.d, k.p.dtype), stages=2)
    by_keys = ag.in_order_of(M.a, ag.as_operand(ag.transposed(dS.tiles[0]), M, "b").fragment)
    ring = Ring(k, 12, fa, "v")
    of_k, of_v = rows_in_lds(k, "K", BLOCK, fa, by_keys, 1), rows_in_lds(k, "V", BLOCK, fa, None, 1)

    at = _place(k)
    row0 = k.registers.sgprs(1, "wave_row0", note="the wave's first query")
    k.s_mul_i32(row0, k.wave.register, own)
    k.s_add_u32(row0, row0, at.tile)
    for tile, name in ((Q, "q"), (dO, "do")):
        ag.load(k, tile, head_rows(k, name, at.batch, at.head).rows(row0, own))
    c, low = _statistics(k, at, row0, start)
    first, steps = visit_keys(k, at.tile)
    seen = keys_seen(k, row0, first, S)
    kv, vv = (head_rows(k, name, at.batch, at.kv_head).walk(first, BLOCK, ROWS_AHEAD) for name in "kv")
    k.forget("load")
    memory, matrix, vector = k.streams("memory", "matrix", "vector")
    ag.zero(k, dQ)

    def step(t: ag.StepIndex) -> None:
        n = t + 1
        ring.begin()
        with memory:
            of_k.advance(k, n + of_k.ahead, kv)
            of_v.advance(k, n + of_v.ahead, vv)
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
        for first in range(0, d, fa.columns):
            with memory:
                A = ring.take("V", fa, BLOCK // edge)
                of_v.read(k, A, n, first)
            with matrix:
                ag.mma(k, dP, A, dO.part(0, first, own, fa.columns), first=False if first else start)
        slopes = ag.as_operand(ag.transposed(dS[t]), M, "b")
        for depth in range(BLOCK // 16):
            for block in range(d // edge):
                with memory:
                    A = ring.take("Kt", by_keys)
                    of_k.read_transposed(k, A, t, ag.PartOf(BLOCK // 16, depth), ag.PartOf(d // edge, block))
                with matrix:
                    ag.mma(k, dQ.part(edge * block, 0, edge, own), A, slopes.part(0, 16 * depth, own, 16))
        with vector:
            ag.mul(k, dP, dP, S, packed=False)
            hide_keys(k, dP, seen, n)
            ag.convert(k, dS[n], dP, rounding, nan=False)

    k.pipeline(step, steps, ag.Modulo(), empty=k.p.causal or k.p.window or k.p.varlen)
    k.registers.release("Q", "dO", "S", "dP", "start", "dS", "ring")
    without = k.fresh("no_queries")  # the descriptor of a wave after the last query would show that one
    k.s_cmp_ge_u32(row0, k.argument("sq"))
    k.s_cbranch_scc1(without)
    store_gradient(k, head_rows(k, "dq", at.batch, at.head).rows(row0, own), None, dQ, M, k.argument("softmax_scale"))
    k.label(without)


def _place(k: ag.TileBuilder) -> ag.HeadTile:
    """The head of the workgroup; `tile` is its first query. Changes SCC."""
    at = ag.HeadTile(*(k.registers.sgprs(1, name) for name in ("batch", "head", "kv_head", "row0")))
    with k.operation("place"), k.scratch("tiles", file="s") as tiles:
        count_blocks(k, tiles, QUERIES)
        ag.place_head(k, at, k.ids["x"], k.argument("b"), k.argument("hq"), k.argument("hkv"), tiles, longest_first=k.p.causal)
        k.s_lshl_b32(at.tile, at.tile, QUERIES.bit_length() - 1)
    if k.p.varlen:
        begin_sequence(k, at.batch, "sq", ("q", "do", "dq"))
        begin_sequence(k, at.batch, "sk", ("k", "v"))
        end_beyond(k, at.tile, "sq")
    return at


def _statistics(k: ag.TileBuilder, at: ag.HeadTile, row0: ag.Reg, start: ag.Tile) -> tuple[ag.Reg, list[ag.Vector]]:
    """softmax_scale in units of log2, and -LSE in them by fragment of a wave's queries. -delta fills `start`. Changes SCC."""
    blocks, column, c = (k.registers.sgprs(1, name) for name in ("blocks", "column", "c"))
    low, delta = (ag.column_vector(k, name, start) for name in ("low", "delta"))
    with k.scratch("scaled") as scaled:
        log2_scale(k, scaled)
        k.v_readfirstlane_b32(c, scaled)
    together, width = k.variant.tile[0], start.fragment.columns
    count_blocks(k, blocks, together)
    base = flat_head(k, "statistics", at.batch, at.head, blocks, 2 * together)
    k.s_lshl_b32(blocks, blocks, (2 * together).bit_length() - 1)
    line = ag.Matrix("statistics", "f32", base, 1, blocks, 0).rows(0, 1)
    k.s_lshl_b32(column, row0, 1)
    for number, pair in enumerate(zip(*(apart(vector) for vector in (low, delta)), strict=True)):
        if number and number * width % together == 0:
            k.s_add_u32(column, column, together)
        for half, vector in enumerate(pair):
            ag.load(k, vector, line, column=column)
            k.s_add_u32(column, column, width if half else together)
        k.s_sub_u32(column, column, together)
    ag.mul(k, low, low, c)
    ag.move(k, start, delta)
    k.registers.release("delta", "blocks", "column", "statistics_head", "q_buffer", "do_buffer", "statistics_buffer", "q_head", "do_head")
    return c, apart(low)
