"""attention-backward for gfx950: 4 waves, one on each SIMD, with 64 keys each; a step takes 32 queries.

Its products are those of `products`. Half of dQ of step t stands between S and dP of step t + 1, beside the exponentials of S, and half
after dP.
"""

from __future__ import annotations

from collections.abc import Sequence

import asmgen as ag
from asmgen.kernels.attention_backward.dropping import begin
from asmgen.kernels.attention_backward.family import BACKWARD
from asmgen.kernels.attention_backward.gradients import store_of_keys
from asmgen.kernels.attention_backward.operands import add_columns, ring_of_rest
from asmgen.kernels.attention_backward.products import ProductPiece, products
from asmgen.kernels.attention_backward.tensors import BLOCK
from asmgen.kernels.attention_backward.work import QueryHead, each_head, place


@BACKWARD.variant("gfx950", tile=(BLOCK, 256), waves=4, schedule="interleave", occupancy=1, d=128, dropout=False)
@BACKWARD.variant("gfx950", tile=(BLOCK, 256), waves=4, schedule="interleave", occupancy=1, d=64, dropout=False)
@BACKWARD.variant("gfx950", tile=(BLOCK, 128), waves=4, schedule="interleave", occupancy=1, d=128, dropout=True)
@BACKWARD.variant("gfx950", tile=(BLOCK, 128), waves=4, schedule="interleave", occupancy=1, d=64, dropout=True)
def pinned(k: ag.TileBuilder) -> None:
    """64 keys for each wave; 32 with dropout, which takes the registers of the others."""
    d = k.variant.d
    stages = ahead = 2 if d == 128 else 4  # a step of short rows takes less time than a fill
    at = place(k)
    of = products(k, at, stages, 2, False, ring_of_rest)
    memory, matrix, vector, adds = k.streams("memory", "matrix", "vector", "adds")
    ag.zero(k, of.dV, of.dK)

    def multiply(pieces: Sequence[ProductPiece]) -> None:
        for piece in pieces:
            with memory:
                operands = piece.read()
            with matrix:
                piece.multiply(operands)

    def scores(out: ag.Tile, n: ag.StepIndex) -> None:
        start = of.begins.get(out.name)
        with memory:
            of.begin(out, n)
        if start is None:
            multiply(of.scores(out, n))
            return
        with memory:
            operands = [piece.read() for piece in of.scores(out, n)]
        with matrix:
            add_columns(k, out, operands, start)

    def run(head: QueryHead) -> None:
        begin(k, of.dropout, at, head)

        def step(t: ag.StepIndex) -> None:
            n = t + 1
            of.ring.begin()
            with memory:
                of.fill(head, t + ahead)
            sums = of.sums(t)
            half = len(sums) // 2
            scores(of.S, n)
            multiply(sums[:half])
            with vector:
                of.weigh(n)
                of.round_weights(n)
            scores(of.dP, n)
            multiply(sums[half:])
            with vector:
                of.slope(n)
            multiply(of.gradient(of.dV, n))
            with vector:
                of.give_slopes(n)
                of.round_sums()
            with adds:
                of.add_sums(head, t)
            multiply(of.gradient(of.dK, n))

        k.pipeline(step, head.steps, ag.Modulo(beside=__file__))

    each_head(k, at, run, of.seen, of.S)
    of.release()
    store_of_keys(k, at, of.dK, of.dV, of.shape)
