"""What queries see, for the kernel whose lanes have queries and whose steps take keys: the keys to visit, and those that a step hides."""

from __future__ import annotations

from dataclasses import dataclass

import asmgen as ag
from asmgen.kernels.attention_backward.masks import left_of, masked, right_of
from asmgen.kernels.attention_backward.tensors import BLOCK, QUERIES


def visit_keys(k: ag.TileBuilder, row0: ag.Reg) -> tuple[ag.Reg, ag.Reg]:
    """The first key that a workgroup with queries from `row0` on visits, a multiple of a step's, and its number of steps, which may be none
    in a build with masks. Changes SCC."""
    first, steps = k.registers.sgprs(1, "first_key"), k.registers.sgprs(1, "steps")
    sk = k.argument("sk")
    with k.operation("keys to visit"), k.scratch("own", file="s") as own, k.scratch("side", file="s") as side:
        k.s_mov_b32(first, 0)
        k.s_mov_b32(steps, sk)
        if masked(k):
            k.s_add_u32(own, row0, sk)
            k.s_sub_u32(own, own, k.argument("sq"))  # the own key of the first query
            right_of(k, side)
            k.s_sub_u32(steps, k.argument("sq"), row0)
            k.s_min_u32(steps, steps, QUERIES)
            k.s_add_u32(steps, steps, own)
            k.s_add_u32(steps, steps, side)
            k.s_min_i32(steps, steps, sk)
        if k.p.window:
            left_of(k, side)
            k.s_sub_u32(first, own, side)
            k.s_max_i32(first, first, 0)
            k.s_andn2_b32(first, first, BLOCK - 1)
        if masked(k):
            k.s_max_i32(steps, steps, first)
            k.s_sub_u32(steps, steps, first)
        k.s_add_u32(steps, steps, BLOCK - 1)
        k.s_lshr_b32(steps, steps, BLOCK.bit_length() - 1)
    return first, steps


@dataclass(frozen=True)
class KeysSeen:
    """The keys that a wave's queries see. Without a window they count from key 0, else from the first one on that no query of the wave
    misses on the left.

    The SGPR `key` is the first key of the previous step; it advances with the steps. All queries see all keys of a step where it is,
    unsigned, below `whole`: other steps are masked. `upper` are the first keys that a lane's queries do not see, by fragment. `column` is
    a lane's query in a fragment, in a build with a window.
    """

    key: ag.Reg
    whole: ag.Reg
    upper: tuple[ag.Reg, ...]
    column: ag.Reg | None


def keys_seen(k: ag.TileBuilder, row0: ag.Reg, first: ag.Reg, scores: ag.Tile) -> KeysSeen:
    """What the masks of a wave with queries from `row0` on keep of its scores, keys by queries, in steps from the key `first` on. Changes
    SCC."""
    width = scores.fragment.columns
    key, whole = k.registers.sgprs(1, "step_key"), k.registers.sgprs(1, "whole_keys")
    upper = tuple(k.registers.vgprs(1, f"upper{number}") for number in range(scores.across))
    _, column = ag.lane_coordinates(k, scores.fragment)
    with k.operation("masks"), k.scratch("own", file="s") as own, k.scratch("base", file="s") as base, k.scratch("rest", file="s") as rest:
        k.s_mov_b32(base, 0)
        k.s_add_u32(own, row0, k.argument("sk"))
        k.s_sub_u32(own, own, k.argument("sq"))  # the own key of the wave's first query
        if k.p.window:
            left_of(k, base)
            k.s_sub_u32(base, own, base)
            k.s_add_u32(base, base, scores.columns - 1)
        k.s_sub_u32(rest, k.argument("sk"), base)
        if masked(k):
            right_of(k, whole)
            k.s_add_u32(whole, whole, own)
            k.s_sub_u32(whole, whole, base)
            k.s_add_u32(whole, whole, 1)
            for number, register in enumerate(upper):
                k.v_add_u32(register, whole, column)
                k.v_add_u32(register, number * width, register)
                k.v_min_i32(register, rest, register)
            k.s_min_i32(whole, whole, rest)
        else:
            k.s_mov_b32(whole, rest)
            for register in upper:
                k.v_mov_b32(register, rest)
        k.s_sub_u32(whole, whole, scores.rows - 1)
        k.s_max_i32(whole, whole, 0)
        k.s_sub_u32(key, first, base)
        k.s_sub_u32(key, key, scores.rows)
    return KeysSeen(key, whole, upper, column if k.p.window else None)


def hide_keys(k: ag.TileBuilder, tile: ag.Tile, seen: KeysSeen, at: ag.StepIndex) -> None:
    """Elements of keys that a query does not see become 0, in a block that a wave skips if its queries see all keys of the step."""
    width = tile.fragment.columns
    with k.block(f"hide {tile.name}", cold=True), k.at(at):
        skip = k.fresh("all_seen")
        k.s_add_u32(seen.key, seen.key, tile.rows)
        k.s_cmp_lt_u32(seen.key, seen.whole)
        k.s_cbranch_scc1(skip)
        with k.scratch("limit") as limit:
            for number, upper in enumerate(seen.upper):
                part = tile.part(0, number * width, tile.rows, width)
                k.v_subrev_u32(limit, seen.key, upper)
                ag.mask_rows(k, part, limit, value=0.0)
                if seen.column is not None:
                    k.v_subrev_u32(limit, seen.key, seen.column)
                    k.v_add_u32(limit, number * width - (tile.columns - 1), limit)
                    ag.mask_rows_before(k, part, limit, value=0.0)
        k.label(skip)
