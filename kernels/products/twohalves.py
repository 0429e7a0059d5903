"""A step of two products: a half of A with all of B, then the other half. Two wave groups swap roles only twice in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import asmgen as ag


def two_halves(k: ag.TileBuilder, C: ag.TileGrid, A: Sequence[ag.Tile], B: ag.TileGrid, As: ag.SharedTile, Bs: ag.SharedTile,
               wm: ag.WaveIndex, wn: ag.WaveIndex, fill_first: Callable[[ag.StepIndex], None],
               fill_then: Callable[[ag.StepIndex], None] = lambda t: None) -> Callable[[ag.StepIndex], None]:
    """The step: C[i, j] += A[i] B[j]^T. `A` are the registers of both halves, or twice the same ones. What `fill_first` fills is asked for
    after the first reads, what `fill_then` fills after the second half of A has been read."""
    memory, matrix = k.streams("memory", "matrix")

    def step(t: ag.StepIndex) -> None:
        with k.stage("A0 B"), memory:
            ag.read(k, A[0], As[t, 0].part(wm))
            ag.read(k, B[0], Bs[t, 0].part(wn))
            ag.read(k, B[1], Bs[t, 1].part(wn))
            fill_first(t)
        with k.stage("C0"), matrix:
            ag.mma(k, C[0, 0], A[0], B[0])
            ag.mma(k, C[0, 1], A[0], B[1])
        with k.stage("A1"), memory:
            ag.read(k, A[1], As[t, 1].part(wm))
            fill_then(t)
        with k.stage("C1"), matrix:
            ag.mma(k, C[1, 0], A[1], B[0])
            ag.mma(k, C[1, 1], A[1], B[1])

    return step
