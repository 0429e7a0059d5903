"""The online softmax of attention-forward in tile operations: S^T (keys x queries) to P^T in place, its sums, and the rare rescale.

Scores are relative to a maximum m. In a lazy build m stays until a score exceeds it by more than 8 powers of two. With exact scale P is
exp2(c S - c m) in float32, with c = softmax_scale * log2(e). With folded scale Q holds c q, and the product K Q^T starts from -m.

Exact scale takes all finite scores. Rounding changes c m by up to 2^-25 of its size. So P of the maximum is not 1 but between 2^-2 and 2^2
while c m is below 2^26; this cancels, as all P of a query share the factor. If |c m| is larger (`_HUGE`), a power of two g replaces c, such
that g m is exact and between 2^26 and 2^27. The maximum then has P = 1. The next lower float32 has P = 2^-8, where c would give 2^-4 or
less.

Folded scale is less exact: the product's partial sums begin at -m, so the error of a score is 2^-24 of the largest |m| that its query has
had. If a maximum rises from far below zero to near zero, scores that differ by less than that become equal. In units of log2, scores and
their distance from m must be within float32.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import asmgen as ag
from asmgen.kernels.attention_forward.place import Limits, WindowLimits
from asmgen.kernels.sequences.sink import log2_scale

THRESHOLD = 8.0  # powers of two by which scores may exceed the maximum
LOWEST = -float.fromhex("0x1.fffffep127")  # finite, so that a row without visible keys has P = 0 and no NaN
_HUGE = 0x4C800000  # 2^26
_EXPONENT = 27  # the exponent of g m, as v_frexp_exp_i32_f32 returns it
_MAGNITUDE = 0x7FFFFFFF


@dataclass(frozen=True)
class Peak:
    """The maximum that exact scores are relative to.

    `m` is the maximum in units of S. `factor` is c, or g if c m is huge. `low` is -factor m. A lazy build has `limit` = m + 8 / c. An eager
    build has `tamed`, a pair of SGPRs: the lanes with a factor g. `bound` is an SGPR: c m is huge from there on.
    """

    m: ag.Vector
    factor: ag.Vector
    low: ag.Vector
    bound: ag.Reg
    limit: ag.Vector | None
    tamed: ag.Reg | None


@dataclass(frozen=True)
class Softmax:
    """The state of one wave's queries.

    `sums` are parts of each lane's own sum of P: one part, or an even number to which packed instructions add; `total` is the first. `high`
    is the maximum of the lane's own scores. When the maximum rises, `high` becomes the factor for O and the sums. `c` is an SGPR.

    Exact scale has `peak` and `slack` = 8 / c. Folded scale has `start`, a fragment full of -m in powers of two. With a window, whose first
    keys may all be hidden, folded scale works as exact scale with c = 1.
    """

    total: ag.Vector
    sums: tuple[ag.Vector, ...]
    high: ag.Vector
    c: ag.Reg
    minus_c: ag.Reg
    slack: ag.Reg
    peak: Peak | None = None
    start: ag.Tile | None = None

    @property
    def columns(self) -> int:
        """Queries."""
        return self.total.size


def softmax(k: ag.TileBuilder, like: ag.Tile, late: bool = False) -> Softmax:
    """The registers in their initial state. `like` is a tile of S^T. `late`: P is summed a stage later."""
    minus_c, slack = (k.registers.sgprs(1, name) for name in ("minus_c", "slack"))
    factors = k.registers.sgprs(2, "c", note="softmax_scale * log2(e), in a pair that packed instructions name")
    c = factors[0:0]
    with k.scratch("scaled") as scaled:
        log2_scale(k, scaled)
        k.v_readfirstlane_b32(c, scaled)
        k.v_rcp_f32(scaled, scaled)
        k.v_mul_f32(scaled, THRESHOLD, scaled)
        k.v_readfirstlane_b32(slack, scaled)
    k.s_mov_b32(factors[1:1], c)
    k.s_xor_b32(minus_c, c, 0x80000000)
    across = like.across
    if late:
        each = 4 // across
        held = k.registers.vgprs(each * across, "total", align=2, note="each lane's own sum of P")
        sums = tuple(ag.Vector("total", "column", like.columns, like.fragment, _singles(held, number, across, each))
                     for number in range(each))
    else:
        sums = (ag.column_vector(k, "total", like, apart=across > 1),)
    for vector in sums:
        ag.fill_with(k, vector, 0)
    total, high = sums[0], ag.column_vector(k, "high", like, apart=across > 1)
    if k.p.scale == "folded" and not k.p.window:
        start = k.tile("start", like.fragment.rows, like.columns, like.fragment, note="-m")
        ag.fill_with(k, start, 0)
        return Softmax(total, sums, high, c, minus_c, slack, start=start)
    bound = k.registers.sgprs(1, "bound", note="where scores are huge")
    k.s_mov_b32(bound, _HUGE)
    lazy = k.p.rescale == "lazy"
    limit = ag.column_vector(k, "limit", like) if lazy else None
    tamed = None if lazy else k.registers.sgprs(2, "tamed", align=2)
    if tamed is not None:
        k.s_mov_b64(tamed, 0)
    factor, low = (ag.column_vector(k, name, like, apart=late) for name in ("factor", "low"))
    return Softmax(total, sums, high, c, minus_c, slack, Peak(ag.column_vector(k, "m", like), factor, low, bound, limit, tamed))


def scale_queries(k: ag.TileBuilder, state: Softmax, queries: ag.Tile, room: ag.Tile) -> None:
    """Multiply Q by c and round it to its type again. `room` is an unused tile with twice the registers of Q, or of a part of its rows."""
    parts = 2 * queries.registers.count // room.registers.count
    rows = queries.rows // parts
    for number in range(parts):
        part = queries.part(number * rows, 0, rows, queries.columns)
        wide = k.tile(f"wide_Q{number}", rows, queries.columns, ag.with_dtype(queries.fragment, "f32"), shares=room)
        ag.convert(k, wide, part)
        ag.mul(k, wide, wide, state.c)
        ag.convert(k, part, wide)
    if state.start is None:
        k.s_mov_b32(state.c, 1.0)
        k.s_mov_b32(state.minus_c, -1.0)
        k.s_mov_b32(state.slack, THRESHOLD)


def weigh(k: ag.TileBuilder, state: Softmax, scores: ag.Tile, weights: ag.Tile, before: ag.Tile | None = None) -> None:
    """Turn scores into P: unrounded in place, rounded in `weights` (if that is `scores`, in the first registers of each fragment).

    Each lane adds P to its own sum. If P is summed late, it adds the P `before` instead.
    """
    if before is not None and len(state.sums) > 1:
        add_pairs(k, state, before)
    exponentials(k, state, scores)
    shares(k, state, scores, weights)


def exponentials(k: ag.TileBuilder, state: Softmax, scores: ag.Tile) -> None:
    """The first part of `weigh`: P in float32."""
    if state.peak is not None:
        ag.fma(k, scores, scores, state.peak.factor, state.peak.low, packed=len(state.sums) > 1)
    ag.exp2(k, scores, scores)


def shares(k: ag.TileBuilder, state: Softmax, scores: ag.Tile, weights: ag.Tile) -> None:
    """The second part of `weigh`: P as an operand, and its sums unless they are late."""
    if len(state.sums) == 1:
        ag.column_sum(k, state.total, scores, across=False, start=True, packed=False)
    rounding = "truncate" if k.p.rounding == "truncated" else "nearest"
    ag.convert(k, ag.narrowed(weights, k.p.dtype), scores, rounding=rounding, nan=False)


def sum_up(k: ag.TileBuilder, state: Softmax) -> None:
    """`total` becomes the sum of P."""
    for part in state.sums[1:]:
        ag.add(k, state.total, state.total, part)
    ag.reduce_lanes(k, "sum", state.total)


def add_pairs(k: ag.TileBuilder, state: Softmax, weights: ag.Tile) -> None:
    """Add pairs of registers to pairs of sums: alternating sums for one query, two queries at once."""
    places = itertools.product(range(weights.down), range(0, weights.fragment.registers, 2))
    with k.at(weights.index):
        for number, (row, first) in enumerate(places):
            for column in range(weights.across):
                one, other = (part.registers.items[column] for part in state.sums[number % (len(state.sums) // 2) * 2:][:2])
                target = ag.joined(one, other)
                assert target is not None
                k.v_pk_add_f32(target, target, weights.base(row, column)[first:first + 1])


def first_maximum(k: ag.TileBuilder, state: Softmax, scores: ag.Tile) -> None:
    """The maximum of the first scores, after `largest`."""
    at = scores.index
    ag.reduce_lanes(k, "max", state.high, at)
    if state.peak is not None:
        peak = state.peak
        ag.max_(k, peak.m, state.high, LOWEST, at=at)
        ag.mul(k, peak.low, peak.m, state.minus_c, at=at)
        ag.move(k, peak.factor, state.c, at=at)
        with _where_huge(k, peak, at, first=True):
            _tame(k, state, peak, peak.m, at)
        _limit(k, state, peak, at)
        return
    ag.max_(k, state.high, state.high, LOWEST)
    _lower(k, state, scores)


def raise_maximum(k: ag.TileBuilder, state: Softmax, scores: ag.Tile) -> None:
    """If a score of a lane exceeds its limit, all queries take their new maximum, and `high` becomes the factor for sums under the old one.
    `largest` stands before it.

    VCC tells `rescale`. An eager build raises the maximum always.
    """
    at = scores.index
    if k.p.rescale == "lazy":
        ag.any_greater(k, state.high, state.peak.limit if state.peak is not None and state.peak.limit is not None else THRESHOLD)
    with _where_raised(k, "raise maximum", at):
        ag.reduce_lanes(k, "max", state.high)
        if state.peak is not None:
            _raise(k, state, state.peak, at)
        else:
            ag.max_(k, state.high, state.high, 0)
            _lower(k, state, scores)
        with k.at(at):
            for register in state.high.registers:
                k.v_exp_f32(register, -register if state.peak is None else register)
        if len(state.sums) == 1:
            ag.mul(k, state.total, state.total, state.high)


def rescale(k: ag.TileBuilder, state: Softmax, out: ag.Tile, at: ag.StepIndex) -> None:
    """Rescale O to the new maximum, if `raise_maximum` has raised one."""
    with _where_raised(k, "rescale", at):
        ag.mul(k, out, out, state.high, at=at)
        for part in state.sums if len(state.sums) > 1 else ():
            ag.mul(k, part, part, state.high, at=at)


def maximum(k: ag.TileBuilder, state: Softmax) -> ag.Vector:
    """The maximum that P is relative to, in units of S, or of log2 if the scale is folded."""
    if state.peak is not None:
        return state.peak.m
    assert state.start is not None
    ag.neg(k, state.high, ag.Vector("start", "column", state.columns, state.high.fragment, _firsts(state.start)))
    return state.high


def follow_maximum(k: ag.TileBuilder, state: Softmax, scores: ag.Tile, seen: Limits | WindowLimits) -> None:
    """Hide the scores that are not `seen`; the maximum of the first scores, or a new one where later ones exceed it."""
    t = scores.index
    assert t is not None
    with t.masked:
        hide(k, scores, seen)
    largest(k, state, scores)
    with t.first:
        first_maximum(k, state, scores)
    with t.later:
        raise_maximum(k, state, scores)


def largest(k: ag.TileBuilder, state: Softmax, scores: ag.Tile) -> None:
    """The maximum of each lane's own scores."""
    ag.column_max(k, state.high, scores, across=False)


def hide(k: ag.TileBuilder, scores: ag.Tile, seen: Limits | WindowLimits) -> None:
    """Scores of keys that a lane's query does not see become -infinity."""
    if isinstance(seen, WindowLimits):
        _hide_outside(k, scores, seen)
        return
    assert scores.index is not None
    number = scores.index.number
    with k.scratch("keys_gone", file="s") as gone, k.scratch("limit") as limit:
        with k.at(scores.index):
            k.s_mul_i32(gone, number, scores.rows)
        for fragment, upper in enumerate(seen.upper):
            with k.at(scores.index):
                k.v_subrev_u32(limit, gone, upper)
            ag.mask_rows(k, _queries(scores, fragment), limit, vcc_free=True)


def _hide_outside(k: ag.TileBuilder, scores: ag.Tile, seen: WindowLimits) -> None:
    """Mask the scores of keys outside of the window, in a block that a wave skips if it sees all keys."""
    assert scores.index is not None
    with k.block("hide", cold=True), k.at(scores.index):
        skip = k.fresh("all_seen")
        k.s_add_u32(seen.key, seen.key, scores.rows)
        k.s_cmp_lt_u32(seen.key, seen.whole)
        k.s_cbranch_scc1(skip)
        with k.scratch("limit") as limit:
            for number, (lower, upper) in enumerate(zip(seen.lower, seen.upper, strict=True)):
                for bound, mask in ((lower, ag.mask_rows_before), (upper, ag.mask_rows)):
                    k.v_subrev_u32(limit, seen.key, bound)
                    mask(k, _queries(scores, number), limit, vcc_free=True)
        k.label(skip)


def _queries(scores: ag.Tile, number: int) -> ag.Tile:
    """The scores of a fragment's queries."""
    width = scores.fragment.columns
    return scores.part(0, number * width, scores.rows, width)


@contextmanager
def _where_raised(k: ag.TileBuilder, name: str, at: ag.StepIndex) -> Iterator[None]:
    """A block that is skipped if VCC is 0. An eager build skips nothing."""
    if k.p.rescale == "eager":
        yield
        return
    with k.block(name, cold=True):
        skip = k.fresh("not_raised")
        with k.at(at):
            k.s_cbranch_vccz(skip)
        yield
        k.label(skip)


def _raise(k: ag.TileBuilder, state: Softmax, peak: Peak, at: ag.StepIndex) -> None:
    """Raise the maximum to `high`. `high` becomes the logarithm of the factor for sums under the old maximum."""
    with _vector(k, "raised", state, at) as raised:
        ag.max_(k, raised, peak.m, state.high, at=at)
        if peak.tamed is None:
            ag.move(k, state.high, peak.low, at=at)
            ag.mul(k, peak.low, raised, state.minus_c, at=at)
            ag.sub(k, state.high, peak.low, state.high, at=at)
        else:  # one instruction less in each step, with the rounding error of the new `low`
            with k.at(at):
                for high, new, low in zip(state.high.registers, raised.registers, peak.low.registers, strict=True):
                    k.v_fma_f32(high, new, state.minus_c, -low)
            ag.mul(k, peak.low, raised, state.minus_c, at=at)
        with _where_huge(k, peak, at) if peak.tamed is not None else nullcontext():
            _tame(k, state, peak, raised, at, state.high)
        ag.move(k, peak.m, raised, at=at)
        _limit(k, state, peak, at)


def _limit(k: ag.TileBuilder, state: Softmax, peak: Peak, at: ag.StepIndex) -> None:
    if peak.limit is not None:
        ag.add(k, peak.limit, peak.m, state.slack, at=at)


def _tame(k: ag.TileBuilder, state: Softmax, peak: Peak, maximum: ag.Vector, at: ag.StepIndex, grown: ag.Vector | None = None) -> None:
    """Replace c by g where -c times the new `maximum`, which is in `low`, is huge. `grown`, the growth of the maximum, is then computed
    from `m`, as the previous `low` had another factor."""
    with k.at(at), k.operation("huge scores"), k.scratch("huge", 2, "s") as huge, k.scratch("power") as power, \
            k.scratch("tame") as tame:
        for number, new in enumerate(maximum.registers):
            m, factor, low = (vector.registers.items[number] for vector in (peak.m, peak.factor, peak.low))
            k.v_cmp_le_f32(huge, peak.bound, abs(low))
            k.v_frexp_exp_i32_f32(power, new)
            k.v_sub_u32(power, _EXPONENT, power)
            k.v_ldexp_f32(power, 1.0, power)
            k.v_mov_b32(factor, state.c)
            k.v_cndmask_b32(factor, factor, power, huge)
            k.v_mul_f32(tame, -power, new)
            k.v_cndmask_b32(low, low, tame, huge)
            if grown is not None:
                change = grown.registers.items[number]
                k.v_sub_f32(tame, m, new)
                k.v_mul_f32(tame, power, tame)
                k.v_cndmask_b32(change, change, tame, huge)
            if peak.tamed is not None and number:
                k.s_or_b64(peak.tamed, peak.tamed, huge)
            elif peak.tamed is not None:
                k.s_mov_b64(peak.tamed, huge)


@contextmanager
def _where_huge(k: ag.TileBuilder, peak: Peak, at: ag.StepIndex, first: bool = False) -> Iterator[None]:
    """A block that is skipped if no `low` is huge and, unless it is the `first`, all factors are c."""
    with k.at(at), k.operation("huge scores"), k.scratch("one_huge", 2, "s") as one:
        for number, low in enumerate(peak.low.registers):
            k.v_cmp_le_f32(one if number else ag.vcc, peak.bound, abs(low))
            if number:
                k.s_or_b64(ag.vcc, ag.vcc, one)
        if peak.tamed is not None and not first:
            k.s_or_b64(ag.vcc, ag.vcc, peak.tamed)
    # In eager loops of long rows, a branch does not reach the end of the code.
    with k.block("huge scores", cold=k.p.rescale == "lazy" or k.variant.d < 128):
        skip = k.fresh("not_huge")
        with k.at(at):
            k.s_cbranch_vccz(skip)
        yield
        k.label(skip)


@contextmanager
def _vector(k: ag.TileBuilder, name: str, state: Softmax, at: ag.StepIndex) -> Iterator[ag.Vector]:
    """A temporary value for each query."""
    like = state.high
    with k.scratch(name, like.registers.count) as held:
        yield ag.Vector(name, "column", like.size, like.fragment, ag.RegisterSet((held,)), at)


def _lower(k: ag.TileBuilder, state: Softmax, scores: ag.Tile) -> None:
    """Subtract `high` from the scores and from the start of the next ones."""
    assert state.start is not None
    ag.sub(k, scores, scores, state.high)
    ag.sub(k, state.start, state.start, state.high)


def _singles(held: ag.Reg, first: int, count: int, step: int) -> ag.RegisterSet:
    """`count` single registers, `step` apart, as a vector has them."""
    return ag.RegisterSet(tuple(held[number:number] for number in range(first, first + count * step, step)))


def _firsts(tile: ag.Tile) -> ag.RegisterSet:
    """The first register of each fragment of a row."""
    return ag.RegisterSet(tuple(base[0:0] for base in tile.bases))
