"""A step of two products: a half of A with all of B, then the other half. Two wave groups swap roles only twice in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import asmgen as ag
from asmgen.kernels.products.feed import Feed


def two_halves(k: ag.TileBuilder, C: ag.TileGrid, A: Sequence[ag.Tile], B: ag.TileGrid, of_a: Feed, of_b: Feed,
               wm: ag.WaveIndex, wn: ag.WaveIndex, ahead: int, together: bool = False) -> Callable[[ag.StepIndex], None]:
    """The step: C[i, j] += A[i] B[j]^T. `A` are the registers of both halves, or twice the same ones. All halves are asked for `ahead`
    steps before they are read: after the second half of A has been read, which itself follows after the next step's first reads; or, if
    `together`, all of them after the first reads."""
    memory, matrix = k.streams("memory", "matrix")

    def fill_first(t: ag.StepIndex) -> None:
        if not together:
            of_a.refill(t + ahead - 1, 1)
            return
        for half in range(2):
            of_a.refill(t + ahead, half)
            of_b.refill(t + ahead, half)

    def fill_then(t: ag.StepIndex) -> None:
        if not together:
            of_a.refill(t + ahead, 0)
            of_b.refill(t + ahead, 0)
            of_b.refill(t + ahead, 1)

    def step(t: ag.StepIndex) -> None:
        with k.stage("A0 B"), memory:
            of_a.read(A[0], t, 0, wm)
            of_b.read(B[0], t, 0, wn)
            of_b.read(B[1], t, 1, wn)
            fill_first(t)
        with k.stage("C0"), matrix:
            ag.mma(k, C[0, 0], A[0], B[0])
            ag.mma(k, C[0, 1], A[0], B[1])
        with k.stage("A1"), memory:
            of_a.read(A[1], t, 1, wm)
            fill_then(t)
        with k.stage("C1"), matrix:
            ag.mma(k, C[1, 0], A[1], B[0])
            ag.mma(k, C[1, 1], A[1], B[1])

    return step
