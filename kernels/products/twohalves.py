"""A step of two products: a half of A with all of B, then the other half. Two wave groups swap roles only twice in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import asmgen as ag
from asmgen.kernels.products.feed import Feed


def two_halves(k: ag.TileBuilder, C: ag.TileGrid, A: Sequence[ag.Tile], B: Sequence[Any], of_a: Feed, of_b: Feed,
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


def is_even(k: ag.TileBuilder) -> bool:
    """Whether the step is that of `even_halves`: two groups of waves take turns, LDS has two steps, and a tile below 256 x 256 leaves
    registers for another half of B. In four stages each barrier would come before the reads of the other group are there."""
    tm, tn, _ = k.variant.tile
    return k.variant.schedule == "ping-pong" and k.variant.stages > 1 and tm * tn < 256 * 256


def halves_of_b(k: ag.TileBuilder, rows: int, fragment: ag.Fragment) -> tuple[Any, ag.Tile]:
    """Registers of both halves of B, `rows` each. The first half has those of two steps where the step is even."""
    depth = k.variant.tile[2]
    if is_even(k):
        ahead = k.tile("B0", rows, depth, fragment, stages=2, note="the first half of N, read a step ahead")
        return ahead, k.tile("B1", rows, depth, fragment)
    first, second = k.tile("B", rows, depth, fragment, grid=(2,), note="[half of N]")
    return first, second


def even_halves(k: ag.TileBuilder, C: ag.TileGrid, A: ag.Tile, B: Sequence[Any], of_a: Feed, of_b: Feed, wm: ag.WaveIndex, wn: ag.WaveIndex,
                ahead: int) -> Callable[[ag.StepIndex], None]:
    """The step of `two_halves` with as many reads in one memory stage as in the other: a half of A and a half of B, of `halves_of_b`. All
    halves are asked for `ahead` steps before they are read, in the memory stage after the last read of what they replace."""
    memory, matrix = k.streams("memory", "matrix")
    first, second = B

    def step(t: ag.StepIndex) -> None:
        with k.stage("A0 B1"), memory:
            of_a.read(A, t, 0, wm)
            of_b.read(second, t, 1, wn)
            of_a.refill(t + ahead - 1, 1)
            of_b.refill(t + ahead, 0)
        with k.stage("C0"), matrix:
            ag.mma(k, C[0, 0], A, first[t])
            ag.mma(k, C[0, 1], A, second)
        with k.stage("A1 B0"), memory:
            of_a.read(A, t, 1, wm)
            of_b.read(first[t + 1], t + 1, 0, wn)
            of_a.refill(t + ahead, 0)
            of_b.refill(t + ahead, 1)
        with k.stage("C1"), matrix:
            ag.mma(k, C[1, 0], A, first[t])
            ag.mma(k, C[1, 1], A, second)

    return step
