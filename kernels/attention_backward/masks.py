"""Masks of attention-backward: the queries that see a workgroup's keys, and what a step hides.

Query i sees keys from i + sk - sq - left to i + sk - sq + right. So a key is seen by left + right + 1 queries in a row. A workgroup runs
only the steps with a query that sees one of its keys. All of its waves run these, as each computes a part of dQ from the dS of all.
"""

from __future__ import annotations

from dataclasses import dataclass

import asmgen as ag

_UNLIMITED = 1 << 25  # more queries and keys than there are


def masked(k: ag.TileBuilder) -> bool:
    """Whether the build hides keys from queries."""
    return bool(k.p.causal or k.p.window)


def right_of(k: ag.TileBuilder, out: ag.Reg) -> None:
    """How many keys after its own a query sees, or a number that is no limit. Changes SCC."""
    if k.p.causal:
        k.s_mov_b32(out, 0)
    else:
        _side(k, out, "right")


def left_of(k: ag.TileBuilder, out: ag.Reg) -> None:
    """How many keys before its own a query sees in a build with a window, or a number that is no limit. Changes SCC."""
    _side(k, out, "left")


def _side(k: ag.TileBuilder, out: ag.Reg, name: str) -> None:
    k.s_cmp_lt_i32(k.argument(name), 0)
    k.s_cselect_b32(out, _UNLIMITED, k.argument(name))


def visit(k: ag.TileBuilder, key0: ag.Reg, row0: ag.Reg, steps: ag.Reg) -> None:
    """The first query of a workgroup's first step, a multiple of a step's, and how many steps there are, which may be none in a build with
    a window. Changes SCC."""
    sq, queries = k.argument("sq"), k.variant.tile[0]
    bits = queries.bit_length() - 1
    with k.operation("queries to visit"), k.scratch("own", file="s") as own, k.scratch("side", file="s") as side:
        if not masked(k):
            k.s_mov_b32(row0, 0)
            k.s_add_u32(steps, sq, queries - 1)
            k.s_lshr_b32(steps, steps, bits)
            return
        k.s_add_u32(own, key0, sq)
        k.s_sub_u32(own, own, k.argument("sk"))  # the query whose own key is the workgroup's first
        right_of(k, side)
        k.s_sub_u32(row0, own, side)
        k.s_max_i32(row0, row0, 0)
        k.s_andn2_b32(row0, row0, queries - 1)
        k.s_mov_b32(steps, sq)
        if k.p.window:
            left_of(k, side)
            k.s_add_u32(own, own, side)
            k.s_add_u32(own, own, k.variant.tile[1])
            k.s_min_i32(steps, steps, own)
            k.s_max_i32(steps, steps, row0)
        k.s_sub_u32(steps, steps, row0)
        k.s_add_u32(steps, steps, queries - 1)
        k.s_lshr_b32(steps, steps, bits)


@dataclass(frozen=True)
class Seen:
    """What the masks of a wave keep. Queries count from the first one on that sees the last key of the wave.

    The SGPR `query` is the first query of the previous step; it advances with the steps. All queries of a step see all keys of the wave
    where it is, unsigned, below `whole`: other steps are masked. `column` is a lane's key in a fragment. `width` is an SGPR, how many
    queries see a key; None if all after the first one do.
    """

    query: ag.Reg
    column: ag.Reg
    whole: ag.Reg | int
    width: ag.Reg | None

    def begin(self, k: ag.TileBuilder, key0: ag.Reg, row0: ag.Reg, scores: ag.Tile) -> None:
        """Before the steps of a head, the first of which begins at query `row0`. Changes SCC."""
        with k.operation("masks of a head"), k.scratch("before", file="s") as before:
            right_of(k, before)
            k.s_add_u32(self.query, row0, before)
            k.s_mul_i32(before, k.wave.register, scores.columns)
            k.s_add_u32(before, before, key0)
            k.s_sub_u32(self.query, self.query, before)
            k.s_sub_u32(self.query, self.query, k.argument("sq"))
            k.s_add_u32(self.query, self.query, k.argument("sk"))
            k.s_sub_u32(self.query, self.query, scores.columns - 1 + scores.rows)


def seen_by(k: ag.TileBuilder, scores: ag.Tile) -> Seen | None:
    """What the masks of a wave keep of its scores, queries by keys; None for a build that hides nothing, which
    then forgets the places of lanes. Changes SCC."""
    if not masked(k):
        k.forget("lane places")
        return None
    plan = k.registers
    _, column = ag.lane_coordinates(k, scores.fragment)
    query = plan.sgprs(1, "step_query")
    if not k.p.window:
        return Seen(query, column, _UNLIMITED, None)
    whole, width = plan.sgprs(1, "whole_queries"), plan.sgprs(1, "width", note="queries that see a key")
    with k.operation("window"):
        left_of(k, width)
        right_of(k, whole)
        k.s_add_u32(width, width, whole)
        k.s_add_u32(width, width, 1)
        k.s_sub_u32(whole, width, scores.columns - 1 + scores.rows - 1)
        k.s_max_i32(whole, whole, 0)
    return Seen(query, column, whole, width)


def hide(k: ag.TileBuilder, tile: ag.Tile, seen: Seen | None, at: ag.StepIndex, begins: bool = False) -> None:
    """Elements of queries that do not see a key become 0, in a block that a wave skips if its queries see all its keys. The block that
    `begins` an iteration counts it."""
    if seen is None:
        return
    width = tile.fragment.columns
    with k.block(f"hide {tile.name}", cold=True), k.at(at):
        skip = k.fresh("all_seen")
        if begins:
            k.s_add_u32(seen.query, seen.query, tile.rows)
        k.s_cmp_lt_u32(seen.query, seen.whole)
        k.s_cbranch_scc1(skip)
        with k.scratch("limit") as limit:
            for first in range(0, tile.columns, width):
                part = tile.part(0, first, tile.rows, width)
                k.v_subrev_u32(limit, seen.query, seen.column)
                k.v_add_u32(limit, first - (tile.columns - 1), limit)
                ag.mask_rows_before(k, part, limit, value=0.0)
                if seen.width is not None:
                    k.v_add_u32(limit, seen.width, limit)
                    ag.mask_rows(k, part, limit, value=0.0)
        k.label(skip)
