"""attention-backward for gfx942: 4 waves, one on each SIMD, with 48 keys each; a step takes 16 queries, or 32 of half the elements. With
dropout, whose masks are tiles of 32 x 32, a wave has 32 keys, and a step 32 queries where LDS has room for them, else half a tile.

As in `pinned`, a wave keeps dK^T and dV^T of its keys, and V; here K too, and the columns of all keys that it wants for its part of dQ: LDS
has room for queries alone. gfx942 has no transposing reads, so LDS holds Q and dO twice: as rows, and transposed on their way through
registers. A register of dS has two queries of one key, which LDS takes one by one. S begins at -LSE / softmax_scale and dP at -delta,
which come from memory in the places of their queries. The products of step t + 1 stand beside dQ of step t.
"""

from __future__ import annotations

import asmgen as ag
from asmgen.kernels.attention_backward.dropping import begin, choose, draw, drop, dropping
from asmgen.kernels.attention_backward.family import BACKWARD
from asmgen.kernels.attention_backward.gradients import store_of_keys
from asmgen.kernels.attention_backward.ldsrows import QuerySums, RowsBothWays, stacked, tile_of
from asmgen.kernels.attention_backward.masks import hide, seen_by
from asmgen.kernels.attention_backward.work import QueryHead, Ring, columns, each_head, forget_loads, key_factors, place


@BACKWARD.variant("gfx942", tile=(16, 192), waves=4, schedule="interleave", occupancy=1, d=128, dropout=False)
@BACKWARD.variant("gfx942", tile=(32, 192), waves=4, schedule="interleave", occupancy=1, d=64, dropout=False)
@BACKWARD.variant("gfx942", tile=(16, 128), waves=4, schedule="interleave", occupancy=1, d=128, dropout=True)
@BACKWARD.variant("gfx942", tile=(32, 128), waves=4, schedule="interleave", occupancy=1, d=64, dropout=True)
def cdna3(k: ag.TileBuilder) -> None:
    """48 keys for each wave; 32 with dropout."""
    (queries, keys), d = k.variant.tile, k.variant.d
    small = k.matrix_shape(f"f32_16x16x16_{k.p.dtype}")
    M = k.matrix_shape(f"f32_32x32x8_{k.p.dtype}") if k.p.dropout and queries == 32 else small  # a mask of 32 queries has its layout
    narrow = M if d // 4 >= M.d.columns else small  # of dQ, of whose columns a wave has a quarter
    fa, fb = ag.deep(M.a, 2), ag.deep(M.b, 2)
    own, edge, deep_of, rounding = keys // 4, M.d.rows, M.a.columns, k.p.rounding.removesuffix("d")
    at = place(k)

    # register plan and LDS map: AGPRs hold what vector instructions do not touch; fragments of operands take turns
    V = k.tile("V", own, d, fb, file="a")
    K = k.tile("K", own, d, fb, file="a")
    P = k.tile("P", queries, own, ag.with_dtype(M.d, k.p.dtype))
    S, dP = (k.tile(name, queries, own, M.d) for name in ("S", "dP"))
    dS = ag.narrowed(dP, k.p.dtype)
    P_keys, dS_keys = (ag.as_operand(ag.transposed(one), M, "b") for one in (P, dS))
    by_rows = ag.in_order_of(M.a, P_keys.fragment)
    stages = 2 if 4 * queries * (4 * d + keys) <= k.lds.limit * 4 // 5 else 1  # two, of elements of 2 bytes; a fifth of LDS pads
    q, do = (RowsBothWays(k, name, queries, fa, by_rows) for name in ("Q", "dO"))
    free = "a" if k.p.dropout else "v"  # the file with room for operands
    few = k.p.dq_type != "f32" and d == 128  # VGPRs, of which rounded sums of dQ take some
    rows, deep = Ring(k, 6 if few else 8, M.a, free), Ring(k, 3 if few else 6, fa, free, "deep_ring")
    ordered = k.p.dq == "ordered"  # then dQ has a kernel of its own
    ag.load(k, V, at.rows(k, "v"), rows=k.wave)
    of_keys = at.rows(k, "k")
    ag.load(k, K, of_keys, rows=k.wave)
    sums = None if ordered else QuerySums(k, narrow, dS, of_keys, q, stages)
    forget_loads(k)
    dK, dV = (k.tile(name, d, own, M.d, file=file, note=f"{name}^T") for name, file in (("dK", "a"), ("dV", "v")))
    early = 3 if queries == 16 else 2  # steps; a wait for what was fetched later would wait for the atomics before it
    begins = k.tile("begins", 2 * queries, edge, M.d, stages=early - 1, note="-LSE / softmax_scale, then -delta")
    c = key_factors(k, at, S)
    seen = seen_by(k, S)
    dropout = dropping(k, at, S)
    memory, matrix, vector, adds = k.streams("memory", "matrix", "vector", "adds")
    ag.zero(k, dV, dK)

    def scores(out: ag.Tile, source: RowsBothWays, t: ag.StepIndex, of_keys: ag.Tile, start: ag.Tile) -> None:
        for depth in range(0, d, fa.columns):
            with memory:
                A = deep.take(out.name, fa, queries // edge)
                source.read(k, A, t, depth)
            with matrix:
                for row in range(0, queries, edge):
                    for first in range(0, own, edge):
                        ag.mma(k, out.part(row, first, edge, edge), A.part(row, 0, edge, fa.columns),
                               of_keys.part(first, depth, edge, fa.columns), first=False if depth else start.part(row, 0, edge, edge))

    def add_up(t: ag.StepIndex, sums: QuerySums) -> None:
        for first in range(0, keys, narrow.a.columns):
            with memory:
                A = rows.take("dS_all", narrow.a, queries // narrow.a.rows)
                sums.read(k, A, t, first)
            with matrix:
                sums.dQ.add(k, A, sums.keys.part(0, first, d // 4, narrow.a.columns), first=not first)

    def run(head: QueryHead) -> None:
        begin(k, dropout, at, head)

        def step(t: ag.StepIndex) -> None:
            n = t + 1
            rows.begin()
            deep.begin()
            scores(S, q, n, K, tile_of(begins, n).part(0, 0, queries, edge))
            with vector:
                draw(k, dropout, n)
                for one, factor in zip(columns(S), c, strict=True):
                    ag.mul(k, one, one, factor, packed=False)
                    ag.exp2(k, one, one)
                hide(k, S, seen, n, begins=True)
                for one, half in zip(columns(S), columns(P), strict=True):
                    ag.convert(k, half, one, rounding, nan=False)
                drop(k, dropout, P, n)
            low = tile_of(begins, n).part(queries, 0, queries, edge)
            scores(dP, do, n, V, low)
            with vector:
                choose(k, dropout, dP, n, low)
            with memory:
                found = tile_of(begins, t + early)
                ag.load(k, ag.Vector("begins", "row", 2 * queries, M.d, found.registers, found.index), head.statistics.k(t + early))
                q.advance(k, n, head.q)
                do.advance(k, n, head.do)
            with vector:
                hide(k, dP, seen, n)
                for one, other, half in zip(columns(dP), columns(S), columns(dS), strict=True):
                    ag.mul(k, one, one, other, packed=False)
                    ag.convert(k, half, one, rounding, nan=False)
            if sums is not None:
                add_up(t, sums)
            for out, operand, source in ((dV, P_keys, do), (dK, dS_keys, q)):
                for depth in range(queries // deep_of):
                    for block in range(d // edge):
                        with memory:
                            A = rows.take(out.name, by_rows)
                            source.read_transposed(k, A, n, ag.PartOf(queries // deep_of, depth), ag.PartOf(d // edge, block))
                        with matrix:
                            ag.mma(k, out.part(edge * block, 0, edge, own), A, operand.part(0, deep_of * depth, own, deep_of))
                if out is dV and sums is not None and head.dq is not None:
                    with vector:
                        ag.write(k, sums.slopes[n].part(k.wave), stacked(dS))
                        sums.dQ.round(k)
                    with adds:
                        ag.store_tile(k, head.dq.step(t), sums.dQ.rows, columns=k.wave, add=True)

        k.pipeline(step, head.steps, ag.Modulo(beside=__file__))

    each_head(k, at, run, seen, S)
    k.registers.release("V", "K", "ring", "deep_ring", "S", "dP", "P", "begins", "q_buffer", "do_buffer", "statistics_buffer",
                        *(() if ordered else ("columns_of_wave", "dQ", "dq_sums_buffer")))
    store_of_keys(k, at, dK, dV, M)
