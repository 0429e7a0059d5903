"""attention-backward for gfx950: 8 waves in ping-pong, two on each SIMD, with 32 keys each; a step takes 32 queries.

Its products are those of `products`. A memory stage reads operands of the next product; the matrix stage after it multiplies them, and
reads what found no register:

| product | reads | vector work |
|---|---|---|
| dQ of the step before | dS of all waves, columns of K | |
| S | Q, K | |
| dP | dO | P from S, in the matrix stage |
| dV | dO^T | dS from dP and P, in the memory stage; dS goes to all waves |
| dK | Q^T | |

A wave has 256 registers: dK and dV take 128, V 32, S and dP 32, fragments of operands 32, addresses some 30. So K stays in LDS, P has
registers of S, and dQ has registers of dP.
"""

from __future__ import annotations

from collections.abc import Callable

import asmgen as ag
from asmgen.kernels.attention_backward.dropping import begin
from asmgen.kernels.attention_backward.family import BACKWARD
from asmgen.kernels.attention_backward.gradients import store_of_keys
from asmgen.kernels.attention_backward.products import ProductPiece, products
from asmgen.kernels.attention_backward.tensors import BLOCK
from asmgen.kernels.attention_backward.work import QueryHead, Ring, each_head, place

_FRAGMENTS = 8  # of operands, that are on their way or wait, in registers of their own
_OPERANDS = {"S": 2, "dQ": 3}  # fragments that a piece reads, where that is not 1


@BACKWARD.variant("gfx950", tile=(BLOCK, 256), waves=8, schedule="ping-pong", occupancy=2, d=128, dropout=False)
def ping_pong(k: ag.TileBuilder) -> None:
    """32 keys for each wave."""
    group = k.registers.sgprs(1, "group", note="waves 4 to 7 run a stage behind")
    k.s_lshr_b32(group, k.wave.register, 2)
    at = place(k)
    of = products(k, at, 2, 1, True, lambda k, fragment: Ring(k, _FRAGMENTS, fragment))
    memory, matrix, vector = k.streams("memory", "matrix", "vector")
    k.forget("lds bases")  # V has been read
    ag.zero(k, of.dV, of.dK)

    (changes,) = of.dP.bases
    spare = {"S": (changes,), "dQ": (*of.S.bases, changes[8:15])}  # registers that hold nothing then

    def nothing() -> None:
        pass

    def multiply(name: str, pieces: list[ProductPiece], loads: Callable[[], None] = nothing,
                 computes: Callable[[], None] = nothing, beside: Callable[[], None] = nothing,
                 rounds: Callable[[], None] = nothing) -> None:
        """A memory stage, which `rounds` what it `loads` or adds, and `computes`, and a matrix stage, with vector work `beside` it."""
        of.ring.begin(*spare.get(name, ()))
        early = of.ring.count // _OPERANDS.get(name, 1)
        with k.stage(f"reads of {name}"):
            with vector:
                rounds()
            with memory:
                loads()
                operands = [piece.read() for piece in pieces[:early]]
            with vector:
                computes()
        with k.stage(name):
            with vector:
                beside()
            for number, piece in enumerate(pieces):
                with matrix:
                    piece.multiply(operands[number])
                if number + early < len(pieces):
                    with memory:
                        operands.append(pieces[number + early].read())

    def run(head: QueryHead) -> None:
        begin(k, of.dropout, at, head)

        def step(t: ag.StepIndex) -> None:
            n = t + 1

            def first() -> None:
                of.add_sums(head, t)
                of.fill(head, n + 1)
                of.begin(of.S, n)

            def slopes() -> None:
                of.slope(n)
                of.round_weights(n)
                of.give_slopes(n)

            if of.dQ is not None:
                multiply("dQ", of.sums(t))
            multiply("S", of.scores(of.S, n), first, rounds=of.round_sums)
            multiply("dP", of.scores(of.dP, n), lambda: of.begin(of.dP, n), beside=lambda: of.weigh(n))
            multiply("dV", of.gradient(of.dV, n), computes=slopes)
            multiply("dK", of.gradient(of.dK, n))

        k.pipeline(step, head.steps, ag.PlacedPingPong(), groups=group)

    each_head(k, at, run, of.seen, of.S)
    of.release()
    store_of_keys(k, at, of.dK, of.dV, of.shape)
