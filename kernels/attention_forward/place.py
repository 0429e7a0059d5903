"""The part of a workgroup of attention-forward: its head, its queries, the keys it visits, and the addresses of its tensors."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass

import asmgen as ag
from asmgen.kernels.attention_forward.family import ROWS_AHEAD
from asmgen.kernels.sequences.dropout import Draws, new_draws
from asmgen.kernels.sequences.sink import head_sink
from asmgen.kernels.sequences.varlen import begin_sequence, end_beyond, longest

_UNLIMITED = 1 << 25  # more keys than there are
_F32 = 4  # bytes


@dataclass(frozen=True)
class WorkgroupPart:
    """A workgroup's part: queries of one head from `row0` on, and keys from `first` on, a multiple of a step's keys.

    o is the rows of that head, k and v those of its KV head, with bases of 64 bits; lse is a column with a row for each query.
    Of the `steps`, at least 1, all queries see all keys in the first `plain` ones. All are SGPRs; a loop uses the counts up. A build with a
    window, which hides keys at both ends, has no `plain` steps: see `WindowLimits`. `sink` is the score of the head's sink,
    `draws` the random words of its dropout.
    """

    k: ag.Matrix
    v: ag.Matrix
    o: ag.Matrix
    lse: ag.Matrix | None
    row0: ag.Reg
    first: ag.Reg
    steps: ag.Reg
    plain: ag.Reg | None
    sink: ag.Reg | None
    draws: Draws | None


def place(k: ag.TileBuilder, Q: ag.Tile, lines: ag.SharedTile | None = None) -> WorkgroupPart:
    """The part of the workgroup with number x. `Q` is loaded as soon as its rows are known, or the `lines` of the workgroup's queries are
    filled: all else is computed while they are on their way. Changes SCC."""
    plan, queries = k.registers, k.variant.tile[0]
    row0, first, steps = (plan.sgprs(1, name) for name in ("row0", "first_key", "key_steps"))
    plain = None if k.p.window else plan.sgprs(1, "plain_steps")
    with k.operation("place"), k.scratch("head", 3, "s") as head, k.scratch("tiles", file="s") as tiles:
        k.s_add_u32(tiles, longest(k, "sq"), queries - 1)
        k.s_lshr_b32(tiles, tiles, (queries - 1).bit_length())
        found = ag.HeadTile(head[0], head[1], head[2], row0)
        ag.place_head(k, found, k.ids["x"], k.argument("b"), k.argument("hq"), k.argument("hkv"), tiles, longest_first=k.p.causal)
        k.s_lshl_b32(row0, row0, (queries - 1).bit_length())
        lse_head = _lse_head(k, found) if k.p.lse else None
        if k.p.varlen:
            lse_rows = () if lse_head is None else ((lse_head, _F32),)
            begin_sequence(k, found.batch, "sq", ("q", "o"), lse_rows)
            begin_sequence(k, found.batch, "sk", ("k", "v"))
            end_beyond(k, row0, "sq")
        rows = _rows(k, "q", found).rows(row0, queries)
        if lines is None:
            ag.load(k, Q, rows, rows=k.wave, spread=k.p.scale == "exact")
        else:
            ag.fill(k, lines[()], rows.k())
            ag.release_fill(k, lines)
        kk, v, o = (_rows(k, name, found) for name in "kvo")
        lse = None if lse_head is None else ag.Matrix("lse", "f32", lse_head, k.argument("sq"), 1, 1)
        sink = head_sink(k, found.head) if k.p.sink else None
        draws = new_draws(k) if k.p.dropout else None
        if draws is not None:
            draws.begin(k, _head_number(k, found))  # after the last use of the batch
    with nullcontext(plain) if plain is not None else k.scratch("seen_keys", file="s") as seen:
        _visit(k, row0, first, steps, seen)
    return WorkgroupPart(kk, v, o, lse, row0, first, steps, plain, sink, draws)


def _rows(k: ag.TileBuilder, tensor: str, found: ag.HeadTile) -> ag.Matrix:
    """The rows of the workgroup's head of a tensor, to which its pointer goes on."""
    own = tensor in "qo"
    with k.scratch("base", 2, "s") as base, k.scratch("far", 2, "s") as far:
        batch = () if k.p.varlen else ((far, found.batch, "b"),)
        for part, number, name in ((base, found.head if own else found.kv_head, "h"), *batch):
            k.s_mul_i32(part[0], number, k.argument(f"{tensor}_stride_{name}"))
            k.s_mul_hi_u32(part[1], number, k.argument(f"{tensor}_stride_{name}"))
        if batch:
            k.s_add_u32(base[0], base[0], far[0])
            k.s_addc_u32(base[1], base[1], far[1])
        k.s_lshl_b64(base, base, 1)
        pointer = _go_on(k, tensor, base)
    least, most = k.limits(f"{tensor}_stride_s")
    rows, stride = k.argument("sq" if own else "sk"), k.argument(f"{tensor}_stride_s")
    return ag.Matrix(tensor, k.p.dtype, pointer, rows, k.variant.d, stride, least, most, empty=not own and k.p.varlen)


def _head_number(k: ag.TileBuilder, found: ag.HeadTile) -> ag.Reg:
    """The head's number over all batches, in the place of the batch's."""
    k.s_mul_i32(found.batch, found.batch, k.argument("hq"))
    k.s_add_u32(found.batch, found.batch, found.head)
    return found.batch


def _lse_head(k: ag.TileBuilder, found: ag.HeadTile) -> ag.Reg:
    """Where LSE of the workgroup's head begins, where lengths vary that of all sequences; its pointer goes on to there."""
    with k.scratch("head_number", file="s") as number, k.scratch("base", 2, "s") as base:
        if k.p.varlen:
            k.s_mov_b32(number, found.head)
        else:
            k.s_mul_i32(number, found.batch, k.argument("hq"))
            k.s_add_u32(number, number, found.head)
        k.s_mul_i32(base[0], number, k.argument("sq"))
        k.s_mul_hi_u32(base[1], number, k.argument("sq"))
        k.s_lshl_b64(base, base, 2)
        return _go_on(k, "lse", base)


def _go_on(k: ag.TileBuilder, argument: str, distance: ag.Reg) -> ag.Reg:
    """A pointer, so many bytes on."""
    pointer = k.argument(argument)
    k.s_add_u32(pointer[0], pointer[0], distance[0])
    k.s_addc_u32(pointer[1], pointer[1], distance[1])
    return pointer


def _right(k: ag.TileBuilder, out: ag.Reg) -> None:
    """The first key that query 0 does not see because of the mask: sk - sq + right + 1."""
    k.s_sub_u32(out, k.argument("sk"), k.argument("sq"))
    k.s_add_u32(out, out, 1)
    if not k.p.causal:
        with k.scratch("right", file="s") as right:
            k.s_cmp_lt_i32(k.argument("right"), 0)
            k.s_cselect_b32(right, _UNLIMITED, k.argument("right"))
            k.s_add_u32(out, out, right)


def _left(k: ag.TileBuilder, out: ag.Reg) -> None:
    """The first key that query 0 sees, or a negative number: sk - sq - left."""
    k.s_cmp_lt_i32(k.argument("left"), 0)
    k.s_cselect_b32(out, _UNLIMITED, k.argument("left"))
    k.s_sub_u32(out, k.argument("sk"), out)
    k.s_sub_u32(out, out, k.argument("sq"))


def _visit(k: ag.TileBuilder, row0: ag.Reg, first: ag.Reg, end: ag.Reg, plain: ag.Reg) -> None:
    """The first key and the numbers of steps: `end` up to the last key that a query sees, `plain`, of a build without a window,
    up to the first key that one does not."""
    queries, keys = k.variant.tile
    bits = (keys - 1).bit_length()
    sk = k.argument("sk")
    with k.operation("keys to visit"):
        if k.p.causal or k.p.window:
            _right(k, plain)
            k.s_add_u32(plain, plain, row0)
            k.s_sub_u32(end, k.argument("sq"), row0)
            k.s_min_u32(end, end, queries)
            k.s_add_u32(end, end, plain)
            k.s_sub_u32(end, end, 1)
            for bound in (plain, end):
                k.s_min_i32(bound, bound, sk)
                k.s_max_i32(bound, bound, 0)
        else:
            k.s_mov_b32(plain, sk)
            k.s_mov_b32(end, sk)
        k.s_mov_b32(first, 0)
        if not k.p.window:
            k.s_lshr_b32(plain, plain, bits)
        else:
            _left(k, first)
            k.s_add_u32(first, first, row0)
            k.s_max_i32(first, first, 0)
            k.s_andn2_b32(first, first, keys - 1)
            k.s_max_i32(end, end, first)
            k.s_sub_u32(end, end, first)
        k.s_add_u32(end, end, keys - 1)
        k.s_lshr_b32(end, end, bits)
        k.s_max_u32(end, end, 1)


@dataclass(frozen=True)
class Limits:
    """The first keys that a lane's queries do not see, counted from the first key of the loop: a VGPR for each fragment of queries of a
    wave."""

    upper: tuple[ag.Reg, ...]


@dataclass(frozen=True)
class WindowLimits:
    """The keys that a lane's queries see, for each fragment of queries of a wave: from `lower` to below `upper`.

    These VGPRs count from the first key on that no query of the wave misses on the left. So does the SGPR `key`, the first key of the
    previous step; it advances with the steps. All queries of the wave see all keys of a step whose first key, unsigned, is below `whole`.
    So a wave masks only the steps that need it, and one loop serves both kinds of steps.
    """

    upper: tuple[ag.Reg, ...]
    lower: tuple[ag.Reg, ...]
    key: ag.Reg
    whole: ag.Reg


@dataclass(frozen=True)
class KeySteps:
    """The steps of a wave's loop, with their rows of K and V.

    `seen` are the limits that masks keep. `skipped` is an SGPR: the number of last steps in which the wave sees no key. It is None if
    nothing but the end of the keys masks.
    """

    at: WorkgroupPart
    seen: Limits | WindowLimits
    skipped: ag.Reg | None
    k: ag.Walk
    v: ag.Walk


def key_steps(k: ag.TileBuilder, at: WorkgroupPart, scores: ag.Tile) -> KeySteps:
    """The steps for waves with a tile of S^T each. Changes SCC."""
    keys = scores.rows
    seen = _window(k, at, scores) if k.p.window else _limits(k, at, scores)
    return KeySteps(at, seen, _skipped_steps(k, at, scores.columns), at.k.walk(at.first, keys, ROWS_AHEAD),
                    at.v.walk(at.first, keys, ROWS_AHEAD))


def _limits(k: ag.TileBuilder, at: WorkgroupPart, scores: ag.Tile) -> Limits:
    """The limits, counted from the key `at.first`."""
    f = scores.fragment
    _, column = ag.lane_coordinates(k, f)
    upper = []
    with k.operation("limits"), k.scratch("first_query", file="s") as query, k.scratch("bound", file="s") as bound, \
            k.scratch("all", file="s") as rest:
        k.s_mul_i32(query, k.wave.register, scores.columns)
        k.s_add_u32(query, query, at.row0)
        k.s_sub_u32(query, query, at.first)
        k.s_sub_u32(rest, k.argument("sk"), at.first)
        for number in range(scores.columns // f.columns):
            upper.append(k.registers.vgprs(1, f"upper{number or ''}", note="first key that a query does not see"))
            if not k.p.causal:
                k.v_mov_b32(upper[-1], rest)
                continue
            _right(k, bound)
            k.s_add_u32(bound, bound, query)
            k.v_add_u32(upper[-1], bound, column)
            k.v_min_i32(upper[-1], rest, upper[-1])
            k.s_add_u32(query, query, f.columns)
    return Limits(tuple(upper))


def _window(k: ag.TileBuilder, at: WorkgroupPart, scores: ag.Tile) -> WindowLimits:
    """The limits for the steps from the key `at.first` on."""
    f = scores.fragment
    _, column = ag.lane_coordinates(k, f)
    key, whole = k.registers.sgprs(1, "step_key"), k.registers.sgprs(1, "whole_keys")
    upper, lower = [], []
    with k.operation("window"), k.scratch("first_query", file="s") as query, k.scratch("base", file="s") as base, \
            k.scratch("all", file="s") as rest:
        k.s_mul_i32(query, k.wave.register, scores.columns)
        k.s_add_u32(query, query, at.row0)
        _left(k, base)
        k.s_add_u32(base, base, query)
        k.s_add_u32(base, base, scores.columns - 1)
        _right(k, whole)
        k.s_add_u32(whole, whole, query)
        k.s_sub_u32(whole, whole, base)
        k.s_sub_u32(rest, k.argument("sk"), base)
        for number in range(scores.columns // f.columns):
            upper.append(k.registers.vgprs(1, f"upper{number or ''}", note="first key that a query does not see"))
            lower.append(k.registers.vgprs(1, f"lower{number or ''}", note="first key that a query sees"))
            k.v_add_u32(upper[-1], whole, column)
            if number:
                k.v_add_u32(upper[-1], number * f.columns, upper[-1])
            k.v_min_i32(upper[-1], rest, upper[-1])
            k.v_add_u32(lower[-1], number * f.columns - (scores.columns - 1), column)
        k.s_min_i32(whole, whole, rest)
        k.s_sub_u32(whole, whole, scores.rows - 1)
        k.s_max_i32(whole, whole, 0)
        k.s_sub_u32(key, at.first, base)
        k.s_sub_u32(key, key, scores.rows)
    return WindowLimits(tuple(upper), tuple(lower), key, whole)


def _skipped_steps(k: ag.TileBuilder, at: WorkgroupPart, rows: int) -> ag.Reg | None:
    """The number of last steps in which a wave of `rows` queries sees no key: an SGPR, negative or less than all steps. None if nothing but
    the end of the keys masks. Changes SCC."""
    if not (k.p.causal or k.p.window):
        return None
    keys = k.variant.tile[1]
    skipped = k.registers.sgprs(1, "skipped_steps", note="last steps of which the wave sees no key")
    with k.operation("skipped steps"), k.scratch("seen_keys", file="s") as seen:
        _right(k, seen)
        k.s_add_u32(seen, seen, at.row0)
        k.s_mul_i32(skipped, k.wave.register, rows)
        k.s_add_u32(seen, seen, skipped)
        k.s_add_u32(seen, seen, rows - 1)  # after the last key that the wave's last query sees
        k.s_min_i32(seen, seen, k.argument("sk"))
        k.s_sub_u32(seen, seen, at.first)
        k.s_add_u32(seen, seen, keys - 1)
        k.s_ashr_i32(seen, seen, (keys - 1).bit_length())
        k.s_max_i32(seen, seen, 1)
        k.s_sub_u32(skipped, at.steps, seen)
    return skipped
