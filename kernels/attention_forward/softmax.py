"""The online softmax of attention-forward in tile operations: S^T (keys x queries) to P^T in place, its sums, and the rare rescale."""

from __future__ import annotations

from dataclasses import dataclass

from asmgen.author.conversions import convert
from asmgen.author.elementwise import add, any_greater, copy, exp2, fma, max_, mul, sub
from asmgen.author.masks import mask_rows, mask_rows_before
from asmgen.author.reductions import column_max, column_sum, reduce_lanes
from asmgen.author.steps import StepIndex
from asmgen.author.tilebuilder import TileBuilder
from asmgen.author.tiles import Tile
from asmgen.author.vectors import Vector, column_vector
from asmgen.author.views import narrowed
from asmgen.isa.registers import Reg
from asmgen.kernels.attention_forward.place import Limits

LOG2_E = 0x3FB8AA3B
THRESHOLD = 8.0  # powers of two by which scores may exceed the maximum that they are taken relative to
LOWEST = -1e30  # finite, so that a row of which nothing is seen has P = 0 and no NaN


@dataclass(frozen=True)
class Softmax:
    """State of one wave's rows: `m` the maximum in units of S, `low` = -c m, `limit` = m + 8 / c, `total` each lane's own sum of P.

    `high` is the maximum of a lane's own scores, `factor` what O and `total` are multiplied by where the maximum rises. `c` is an SGPR:
    softmax_scale * log2(e), `slack` is 8 / c.
    """

    m: Vector
    low: Vector
    limit: Vector
    total: Vector
    high: Vector
    factor: Vector
    c: Reg
    minus_c: Reg
    slack: Reg


def softmax(k: TileBuilder, like: Tile) -> Softmax:
    """The registers, with no row seen yet; `like` is a tile of S^T."""
    c, minus_c, slack = (k.registers.sgprs(1, name) for name in ("c", "minus_c", "slack"))
    m, low, limit, total, high, factor = (column_vector(k, name, like) for name in ("m", "low", "limit", "total", "high", "factor"))
    with k.scratch("scaled") as scaled:
        k.v_mov_b32(scaled, LOG2_E)
        k.v_mul_f32(scaled, k.argument("softmax_scale"), scaled)
        k.v_readfirstlane_b32(c, scaled)
        k.v_rcp_f32(scaled, scaled)
        k.v_mul_f32(scaled, THRESHOLD, scaled)
        k.v_readfirstlane_b32(slack, scaled)
    k.s_xor_b32(minus_c, c, 0x80000000)
    return Softmax(m, low, limit, total, high, factor, c, minus_c, slack)


def weigh(k: TileBuilder, state: Softmax, scores: Tile, start: bool) -> None:
    """Scores become P in place, in the first registers of each fragment; their sums are added to each lane's own, or start them."""
    fma(k, scores, scores, state.c, state.low, packed=False)
    exp2(k, scores, scores)
    column_sum(k, state.total, scores, across=False, start=start, packed=False)
    convert(k, narrowed(scores, k.p.dtype), scores)


def skip_plain(k: TileBuilder, plain: Reg, seen: Limits, keys: int) -> None:
    """Limits from the first masked step on."""
    with k.scratch("plain_keys", file="s") as gone:
        k.s_mul_i32(gone, plain, keys)
        for limit in (*seen.upper, *seen.lower):
            k.v_subrev_u32(limit, gone, limit)


def hide(k: TileBuilder, scores: Tile, seen: Limits, keys: int) -> None:
    """Scores of keys that a lane's query does not see become -infinity; the limits go on to the next step."""
    for upper in seen.upper:
        mask_rows(k, scores, upper)
    for lower in seen.lower:
        mask_rows_before(k, scores, lower)
    with k.at(scores.index):
        for limit in (*seen.upper, *seen.lower):
            k.v_subrev_u32(limit, keys, limit)


def first_maximum(k: TileBuilder, state: Softmax, scores: Tile) -> None:
    """The maximum of the first scores."""
    column_max(k, state.m, scores)
    max_(k, state.m, state.m, LOWEST)
    _relative(k, state)


def raise_maximum(k: TileBuilder, state: Softmax, scores: Tile) -> None:
    """Where any score of a lane exceeds its limit, all rows take their new maximum, and `factor` is what is left of sums under the old one.

    VCC says so to `rescale`.
    """
    column_max(k, state.high, scores, across=False)
    any_greater(k, state.high, state.limit)
    with k.block("raise maximum"):
        skip = k.fresh("maximum_stays")
        _branch(k, skip, scores)
        reduce_lanes(k, "max", state.high)
        max_(k, state.m, state.m, state.high)
        copy(k, state.factor, state.low, at=scores.index)
        _relative(k, state)
        sub(k, state.factor, state.low, state.factor)
        exp2(k, state.factor, state.factor)
        mul(k, state.total, state.total, state.factor)
        k.label(skip)


def rescale(k: TileBuilder, state: Softmax, out: Tile, at: StepIndex) -> None:
    """O under the new maximum, where `raise_maximum` has raised one."""
    with k.block("rescale"):
        skip = k.fresh("same_scale")
        with k.at(at):
            k.s_cbranch_vccz(skip)
        mul(k, out, out, state.factor, at=at)
        k.label(skip)


def _branch(k: TileBuilder, skip: str, scores: Tile) -> None:
    with k.at(scores.index):
        k.s_cbranch_vccz(skip)


def _relative(k: TileBuilder, state: Softmax) -> None:
    """What is kept of a maximum."""
    mul(k, state.low, state.m, state.minus_c)
    add(k, state.limit, state.m, state.slack)
