"""Dropout of attention-forward: P of a wave's queries, after its sums."""

from __future__ import annotations

import asmgen as ag
from asmgen.kernels.attention_forward.place import WorkgroupPart
from asmgen.kernels.sequences.dropout import KeysByQueries, keys_by_queries


def dropping(k: ag.TileBuilder, at: WorkgroupPart, queries: int) -> KeysByQueries | None:
    """Dropout of a wave with so many queries, None in a build without. Changes SCC and VCC."""
    if at.draws is None:
        return None
    with k.scratch("row0", file="s") as row0:
        k.s_mul_i32(row0, k.wave.register, queries)
        k.s_add_u32(row0, row0, at.row0)
        return keys_by_queries(k, at.draws, row0, at.first, queries)


def drop(k: ag.TileBuilder, dropout: KeysByQueries | None, weights: ag.Tile) -> None:
    """Elements of a step's P become 0, where it has been rounded and summed. Changes SCC and VCC."""
    if dropout is not None:
        dropout.drop(k, ag.narrowed(weights, k.p.dtype))
