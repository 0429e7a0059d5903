"""attention-backward for gfx950: 4 waves, one on each SIMD, with 64 keys each; a step takes 32 queries.

A wave keeps dK^T and dV^T of its keys, and V; `operands` says where it has K. S and dP stand with queries in registers and keys in lanes,
so P and dS are operands of dV^T += dO^T P and dK^T += Q^T dS as they are, where dO^T and Q^T are read in their order. dS crosses waves
through LDS; of dQ = dS K a wave makes 32 columns. S begins at -LSE / softmax_scale and dP at -delta. Half of dQ of step t
stands between S and dP of step t + 1, beside the exponentials of S, and half after dP.
"""

from __future__ import annotations

import asmgen as ag
from asmgen.kernels.attention_backward.dropping import begin, choose, draw, drop, dropping
from asmgen.kernels.attention_backward.family import BACKWARD
from asmgen.kernels.attention_backward.gradients import store_of_keys, sums_of_values
from asmgen.kernels.attention_backward.masks import hide, seen_by
from asmgen.kernels.attention_backward.operands import add_columns, operands_of_keys, ring_of_rest
from asmgen.kernels.attention_backward.sums import new_sums
from asmgen.kernels.attention_backward.tensors import BLOCK
from asmgen.kernels.attention_backward.work import QueryHead, begin_vector, columns, each_head, key_factors, place


@BACKWARD.variant("gfx950", tile=(BLOCK, 256), waves=4, schedule="interleave", occupancy=1, d=128, dropout=False)
@BACKWARD.variant("gfx950", tile=(BLOCK, 256), waves=4, schedule="interleave", occupancy=1, d=64, dropout=False)
@BACKWARD.variant("gfx950", tile=(BLOCK, 128), waves=4, schedule="interleave", occupancy=1, d=128, dropout=True)
@BACKWARD.variant("gfx950", tile=(BLOCK, 128), waves=4, schedule="interleave", occupancy=1, d=64, dropout=True)
def pinned(k: ag.TileBuilder) -> None:
    """64 keys for each wave; 32 with dropout, which takes the registers of the others."""
    (queries, keys), d = k.variant.tile, k.variant.d
    M = k.matrix_shape(f"f32_32x32x16_{k.p.dtype}")
    narrow = M if d == 128 else k.matrix_shape(f"f32_16x16x32_{k.p.dtype}")  # of dQ, of whose columns a wave has a quarter
    stages, ahead = (2, 2) if d == 128 else (4, 4)  # a step of short rows takes less time than a fill
    own = keys // 4
    at = place(k)

    # register plan and LDS map: AGPRs hold what vector instructions do not touch; fragments of operands take turns
    dK = k.tile("dK", d, own, M.d, file="a", note="dK^T")
    K = operands_of_keys(k, at, M, narrow)
    V = K.values
    P = k.tile("P", queries, own, ag.with_dtype(M.d, k.p.dtype))
    P_keys = ag.as_operand(ag.transposed(P), M, "b")
    by_rows = ag.in_order_of(M.a, P_keys.fragment)
    Qs, dOs = (k.shared(name, k.p.dtype, queries, d, stages=stages,
                        serves=(ag.FragmentRead(M.a), ag.TransposedRead(by_rows), ag.DmaFill())) for name in ("Qs", "dOs"))
    ordered = k.p.dq == "ordered"  # then dQ has a kernel of its own
    dSs = None if ordered else k.shared("dSs", k.p.dtype, keys, queries, stages=2,
                   serves=(ag.FragmentRead(ag.transposed(P).fragment, write=True), ag.TransposedRead(narrow.a)))
    Xs = k.shared("Xs", "f32", 4, 2 * queries, stages=stages)
    dV = sums_of_values(k, own, M)
    S, dP = (k.tile(name, queries, own, M.d) for name in ("S", "dP"))
    dS = ag.narrowed(dP, k.p.dtype)
    begins = {tile.name: k.tile(f"{tile.name}_start", queries, M.d.columns, M.d) for tile in (S, dP)
              if K.own is not None and (tile.across > 1 or k.p.dropout and tile is dP)}
    dQ = None if ordered else new_sums(k, queries, d // 4, narrow)
    ring = ring_of_rest(k, M.a)
    c = key_factors(k, at, S)
    seen = seen_by(k, S)
    dropout = dropping(k, at, S)
    dS_keys = ag.as_operand(ag.transposed(dS), M, "b")
    memory, matrix, vector, adds = k.streams("memory", "matrix", "vector", "adds")
    ag.zero(k, dV, dK)

    def add_rows(out: ag.Tile, source: ag.SharedTile, n: ag.StepIndex, half: int) -> None:
        start, operands = begins.get(out.name), []
        with memory:
            begin_vector(k, start or out, Xs[n], half)
        for depth in range(d // 16):
            with memory:
                A = ring.take(source.name, M.a)
                ag.read(k, A, source[n].part(None, ag.PartOf(d // 16, depth)))
                B = K.rows(k, ring, own, depth, n) if out is S else V.part(0, 16 * depth, own, 16)
            operands.append((A, B))
            if start is None:
                with matrix:
                    ag.mma(k, out, A, B)
        if start is not None:
            with matrix:
                add_columns(k, out, operands, start)

    def add_up(t: ag.StepIndex, half: int) -> None:
        if dQ is None or dSs is None:
            return
        parts = keys // narrow.a.columns
        for depth in range(half * parts // 2, (half + 1) * parts // 2):
            part = ag.PartOf(parts, depth)
            with memory:
                A = ring.take("dS_all", narrow.a, queries // narrow.a.rows)
                ag.read_transposed(k, A, dSs[t].part(part))
                B = K.columns(k, ring, part, t)
            with matrix:
                dQ.add(k, A, B, first=not depth)

    def run(head: QueryHead) -> None:
        begin(k, dropout, at, head)

        def step(t: ag.StepIndex) -> None:
            n = t + 1
            ring.begin()
            with memory:
                ag.fill(k, Qs[t + ahead], head.q.step(t + ahead))
                ag.fill(k, dOs[t + ahead], head.do.step(t + ahead))
                ag.fill(k, Xs[t + ahead], head.statistics.k(t + ahead))
            add_rows(S, Qs, n, 0)
            add_up(t, 0)
            with vector:
                for one, factor in zip(columns(S), c, strict=True):
                    ag.mul(k, one, one, factor, packed=False)
                    ag.exp2(k, one, one)
                hide(k, S, seen, n, begins=True)
                for one, half in zip(columns(S), columns(P), strict=True):
                    ag.convert(k, half, one, nan=False)
                draw(k, dropout, n)
                drop(k, dropout, P, n)
            add_rows(dP, dOs, n, 1)
            add_up(t, 1)
            with vector:
                choose(k, dropout, dP, n, begins.get(dP.name))
                hide(k, dP, seen, n)
                for one, other, half in zip(columns(dP), columns(S), columns(dS), strict=True):
                    ag.mul(k, one, one, other, packed=False)
                    ag.convert(k, half, one, nan=False)
            for out, tile, operand, source in ((dV, "dOt", P_keys, dOs), (dK, "Qt", dS_keys, Qs)):
                for depth in range(queries // 16):
                    for block in range(d // 32):
                        with memory:
                            A = ring.take(tile, by_rows)
                            ag.read_transposed(k, A, source[n].part(ag.PartOf(queries // 16, depth), ag.PartOf(d // 32, block)))
                        with matrix:
                            ag.mma(k, out.part(32 * block, 0, 32, own), A, operand.part(0, 16 * depth, own, 16))
                if out is dV and dSs is not None and dQ is not None and head.dq is not None:
                    with vector:
                        ag.write(k, dSs[n].part(k.wave), ag.transposed(dS))
                        dQ.round(k)
                    with adds:
                        ag.store_tile(k, head.dq.step(t), dQ.rows, columns=k.wave, add=True)

        k.pipeline(step, head.steps, ag.Modulo(beside=__file__))

    each_head(k, at, run, seen, S)
    k.registers.release(*K.names, "ring", "S", "dP", "P", *(tile.name for tile in begins.values()), "q_buffer", "do_buffer",
                        "statistics_buffer", *(() if ordered else ("dQ", "dq_sums_buffer")))
    store_of_keys(k, at, dK, dV, M)
