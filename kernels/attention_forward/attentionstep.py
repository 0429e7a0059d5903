"""The step of attention-forward, which all variants share, and the loop around it.

| stage | memory | matrix | vector |
|---|---|---|---|
| maximum | `moves[0]` | | hide scores, the maximum of S[t + 1] |
| P V | | O += P[t] V | `weighs[0]` |
| rescale | `moves[1]` | | O to a raised maximum |
| K Q | | S[t + 2] = K Q | `weighs[1]` |

S^T = K Q^T, so that a lane holds scores of one query. P^T, packed, is then the next product's operand without any move: O^T += V^T P^T.
Scores are computed a step before their P is used. A variant says which moves of keys and values stand in which memory stage, and which
parts of the softmax of S[t + 1] beside which product.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import asmgen as ag
from asmgen.kernels.attention_forward.epilogue import attention_epilogue
from asmgen.kernels.attention_forward.lines import QueryLines
from asmgen.kernels.attention_forward.place import KeySteps, WorkgroupPart
from asmgen.kernels.attention_forward.softmax import Softmax, follow_maximum, maximum, rescale, sum_up

Part = Callable[[ag.StepIndex], None]


@dataclass(frozen=True)
class ProductTiles:
    """The tiles of both products: O^T, scores in two stages, Q, and the operands K and V; `weights` is P of an iteration as an operand."""

    O: ag.Tile
    S: ag.TileGrid
    Q: ag.Tile
    K: ag.Tile
    V: ag.Tile
    weights: Callable[[ag.StepIndex], ag.Tile]


def attend(k: ag.TileBuilder, at: WorkgroupPart, steps: KeySteps, state: Softmax, of: ProductTiles, moves: tuple[Part, Part],
           weighs: tuple[Part, Part], schedule: ag.Schedule, group: ag.Reg | None = None, queries: QueryLines | None = None,
           meanwhile: Callable[[], None] | None = None) -> None:
    """All steps, and the epilogue. `queries` is where Q came through LDS, and `meanwhile` what is done while the first keys come."""
    memory, matrix, vector = k.streams("memory", "matrix", "vector")

    def step(t: ag.StepIndex) -> None:
        with k.stage("maximum"):
            with memory:
                moves[0](t)
            with vector:
                follow_maximum(k, state, of.S[t + 1], steps.seen)
        with k.stage("P V"):
            with matrix:
                ag.mma(k, of.O, of.V, of.weights(t))
            with vector:
                weighs[0](t)
        with k.stage("rescale"):
            with memory:
                moves[1](t)
            with vector, t.later:
                rescale(k, state, of.O, t + 1)
        with k.stage("K Q"):
            with matrix:
                ag.mma(k, of.S[t + 2], of.K, of.Q, first=state.start or True)
            with vector:
                weighs[1](t)

    def ends() -> None:
        sum_up(k, state)
        attention_epilogue(k, at, of.O, state.total, maximum(k, state), k.wave, queries)

    ag.zero(k, of.O)
    k.pipeline(step, at.steps, schedule, groups=group, plain=at.plain, early_exit=steps.skipped, ends_plain=not k.p.causal,
               masked_end=None if k.p.causal else 1, then=ag.FollowingEpilogue(ends), meanwhile=meanwhile)


def lower(tile: ag.Tile) -> ag.Tile:
    """The first half of the keys."""
    return tile.part(0, 0, tile.rows // 2, tile.columns)


def upper(tile: ag.Tile) -> ag.Tile:
    """The second half of the keys."""
    return tile.part(tile.rows // 2, 0, tile.rows // 2, tile.columns)
