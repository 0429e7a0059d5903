"""What stands around the step of attention-backward: the workgroup's keys, its heads of queries, operands in turns, the epilogue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import asmgen as ag
from asmgen.kernels.attention_backward.family import rows_ahead, sum_bytes
from asmgen.kernels.attention_backward.heads import count_blocks, flat_head, head_rows
from asmgen.kernels.attention_backward.masks import Seen, masked, visit
from asmgen.kernels.sequences.contract import MOST_ROWS
from asmgen.kernels.sequences.sink import log2_scale
from asmgen.kernels.sequences.varlen import begin_sequence, end_beyond, longest


@dataclass(frozen=True)
class KeyPart:
    """A workgroup's part: keys of head `kv_head` from `key0` on; `head` is the first head of queries that reads it, `heads` how many do;
    sums of dQ have `queries` rows a head. All are SGPRs."""

    key0: ag.Reg
    batch: ag.Reg
    kv_head: ag.Reg
    head: ag.Reg
    heads: ag.Reg
    queries: ag.Reg

    def rows(self, k: ag.TileBuilder, tensor: str) -> ag.Rows:
        """The workgroup's rows of K, V, dK or dV. Changes SCC."""
        return head_rows(k, tensor, self.batch, self.kv_head).rows(self.key0, k.variant.tile[1])


def place(k: ag.TileBuilder) -> KeyPart:
    """The part of the workgroup with number x. Changes SCC."""
    plan, keys = k.registers, k.variant.tile[1]
    key0, batch, kv_head, head, heads = (plan.sgprs(1, name) for name in ("key0", "batch", "kv_head", "head", "heads"))
    with k.operation("place"), k.scratch("tiles", file="s") as tiles:
        k.s_add_u32(tiles, longest(k, "sk"), keys - 1)
        k.s_mul_hi_u32(tiles, tiles, _reciprocal(keys))
        ag.place_head(k, ag.HeadTile(batch, head, kv_head, key0), k.ids["x"], k.argument("b"), k.argument("hkv"), k.argument("hkv"), tiles,
                      longest_first=k.p.causal)
        if k.p.causal:  # most queries see the first keys, so these are the longest
            k.s_sub_u32(key0, tiles, key0)
            k.s_sub_u32(key0, key0, 1)
        k.s_mul_i32(key0, key0, keys)
        with k.scratch("reciprocal", file="s") as reciprocal, k.scratch("rest", file="s") as rest:
            ag.Divisor(k, k.argument("hkv"), reciprocal).divide(k, heads, rest, k.argument("hq"))
        k.s_mul_i32(head, kv_head, heads)
    queries = k.argument("sq")
    if k.p.varlen:
        sums = () if k.p.dq == "ordered" else ((k.argument("dq_sums"), sum_bytes(k.parameters) * k.variant.d),)
        if sums:
            queries = plan.share("all_queries", k.argument("max_sk")) if k.p.padded else plan.sgprs(1, "all_queries")
            k.s_mov_b32(queries, k.argument("sq"))
        begin_sequence(k, batch, "sq", ("q", "do"), sums)
        begin_sequence(k, batch, "sk", ("k", "v", "dk", "dv"))
        end_beyond(k, key0, "sk")
    return KeyPart(key0, batch, kv_head, head, heads, queries)


def _reciprocal(keys: int) -> int:
    """What a number of rows is multiplied with such that the upper 32 bits are the whole number of times that it holds `keys`."""
    found = -(-(1 << 32) // keys)
    assert (found * keys - (1 << 32)) * (MOST_ROWS + keys) < 1 << 32, f"{keys} keys have no such reciprocal of 32 bits"
    return found


def forget_loads(k: ag.TileBuilder, *more: str) -> None:
    """K and V are where they stay: what their loads needed is free, and what the hardware filled."""
    held = [f"{tensor}_{name}" for tensor in "kv" for name in ("buffer", "head", "stride")]
    k.registers.release(*held, "kernarg", "workgroup_x", "work_item", *more)
    k.forget("load", "lane places")


def meet(k: ag.TileBuilder) -> None:
    """A barrier for what crosses waves through LDS outside of the loop; where groups of waves take turns in the loop it is two, as lint
    takes them to be a barrier apart everywhere."""
    for _ in range(2 if k.variant.schedule == "ping-pong" else 1):
        k.s_barrier()


def key_factors(k: ag.TileBuilder, at: KeyPart, scores: ag.Tile) -> list[ag.Vector]:
    """By fragment, the factor of the scores of a lane's keys in units of log2: 0 for keys after the last one. K has zeros there, so P is 1,
    whatever LSE is, and finite dS add nothing to dQ."""
    factors = ag.column_vector(k, "c", scores)
    _, column = ag.lane_coordinates(k, scores.fragment)
    with k.operation("factors"), k.scratch("scaled") as scaled, k.scratch("left", file="s") as left, \
            k.scratch("before_wave", file="s") as before_wave:
        log2_scale(k, scaled)
        k.s_mul_i32(before_wave, k.wave.register, scores.columns)
        k.s_add_u32(before_wave, before_wave, at.key0)
        k.s_sub_u32(left, k.argument("sk"), before_wave)
        for number, register in enumerate(factors.registers):
            if number:
                k.s_sub_u32(left, left, scores.fragment.columns)
            k.v_cmp_gt_i32(ag.vcc, left, column)
            k.v_cndmask_b32(register, 0, scaled, ag.vcc)
    return apart(factors)


def apart(vector: ag.Vector) -> list[ag.Vector]:
    """A vector of columns by fragment."""
    return [ag.Vector(f"{vector.name}{number}", "column", vector.fragment.columns, vector.fragment, ag.RegisterSet((register,)))
            for number, register in enumerate(vector.registers)]


class Ring:
    """Places for fragments of operands, which take turns: each is overwritten when all after it have been filled."""

    def __init__(self, k: ag.TileBuilder, count: int, fragment: ag.Fragment, file: str = "a", name: str = "ring") -> None:
        held = k.tile(name, fragment.rows * count, fragment.columns, fragment, file=file, note="fragments of operands")
        self._fragment: ag.Fragment = held.fragment
        self._own = [held.base(number, 0) for number in range(count)]
        self._bases = self._own
        self._taken = 0

    @property
    def fragment(self) -> ag.Fragment:
        """What a place is made for."""
        return self._fragment

    @property
    def count(self) -> int:
        """How many places there are."""
        return len(self._bases)

    def begin(self, *spare: ag.Reg) -> None:
        """A step begins: each has the same places. Until the next call there are more, in registers that nothing else holds then."""
        width = self._fragment.registers
        self._bases = self._own + [held[first:first + width - 1] for held in spare for first in range(0, held.count, width)]
        self._taken = 0

    def take(self, name: str, fragment: ag.Fragment, count: int = 1) -> ag.Tile:
        """The next places, as a tile of so many fragments below one another."""
        bases = [self._bases[(self._taken + number) % self.count][0:fragment.registers - 1] for number in range(count)]
        self._taken += count
        return ag.Tile(name, count * fragment.rows, fragment.columns, fragment, ag.RegisterSet(tuple(bases)))


def columns(tile: ag.Tile) -> list[ag.Tile]:
    """The fragments of a tile that stand side by side."""
    width = tile.fragment.columns
    return [tile.part(0, first, tile.rows, width) for first in range(0, tile.columns, width)]


def begin_vector(k: ag.TileBuilder, tile: ag.Tile, source: ag.SharedPart, half: int) -> None:
    """All columns of a tile begin with a half of a row of the statistics: a value for each row of the tile."""
    for column in range(tile.across):
        registers = ag.RegisterSet((tile.base(0, column),))
        start = ag.Vector(f"{tile.name}_start{column}", "row", tile.rows, tile.fragment, registers)
        ag.read(k, start, source.part(k.wave, ag.PartOf(2, half)))


@dataclass(frozen=True)
class QueryHead:
    """A head of queries: what its steps read and add to (no dQ where that is made by itself), their first query, and their
    number, an SGPR that the loop uses up."""

    q: ag.Walk
    do: ag.Walk
    dq: ag.Walk | None
    statistics: ag.Rows
    row0: ag.Reg
    steps: ag.Reg


def each_head(k: ag.TileBuilder, at: KeyPart, run: Callable[[QueryHead], None], seen: Seen | None, scores: ag.Tile) -> None:
    """`run` for each head of queries that reads the keys, in a loop. Changes SCC."""
    block, d, ahead = k.variant.tile[0], k.variant.d, rows_ahead(k.variant.d)
    names = ("row0", "steps", "blocks")
    row0, steps, columns = (k.registers.share(name, k.argument(done)[0:0]) for name, done in zip(names, _done(k), strict=False))
    again, none = k.fresh("head"), k.fresh("no_queries")
    k.label(again)
    visit(k, at.key0, row0, steps)
    if k.p.window or k.p.varlen:  # all heads have the same steps, so the first one ends the loop if there are none
        k.s_cmp_eq_u32(steps, 0)
        k.s_cbranch_scc1(none)
    if seen is not None:
        seen.begin(k, at.key0, row0, scores)
    q, do = (head_rows(k, name, at.batch, at.head, k.argument(done)) for name, done in (("q", "k"), ("do", "v")))
    sums = None
    if k.p.dq != "ordered":
        base = flat_head(k, "dq_sums", None if k.p.varlen else at.batch, at.head, at.queries, d,
                         _done_pair(k, "cu_seqlens_q"), sum_bytes(k.parameters))
        sums = ag.Matrix("dq_sums", k.p.dq_type, base, k.argument("sq"), d, d, argument="dq_sums").walk(row0, block, ahead)
    statistics = _statistics(k, at, row0, columns)
    run(QueryHead(q.walk(row0, block, ahead), do.walk(row0, block, ahead), sums, statistics, row0, steps))
    k.barrier_between_rounds(again)
    k.s_add_u32(at.head, at.head, 1)
    k.s_sub_u32(at.heads, at.heads, 1)
    k.s_cmp_lg_u32(at.heads, 0)
    k.s_cbranch_scc1(again)
    k.label(none)


def _done(k: ag.TileBuilder) -> tuple[str, ...]:
    """Arguments that nothing reads after the workgroup has its place: their SGPRs are free."""
    return ("b", "hkv", ("seqused_q" if k.p.padded else "max_sk") if k.p.varlen else "k_stride_b")


def _done_pair(k: ag.TileBuilder, pointer: str) -> ag.Reg | None:
    """The pointer where lengths vary, which is done then."""
    return k.argument(pointer) if k.p.varlen else None


def _statistics(k: ag.TileBuilder, at: KeyPart, row0: ag.Reg, columns: ag.Reg) -> ag.Rows:
    """The statistics of the head's queries from `row0` on, as a row; four times the same where LDS-DMA fetches them, one for each wave.
    `columns` becomes how many there are."""
    block = k.variant.tile[0]
    count_blocks(k, columns, block)
    base = flat_head(k, "statistics", at.batch, at.head, columns, 2 * block, _done_pair(k, "cu_seqlens_k"))
    k.s_lshl_b32(columns, columns, (2 * block).bit_length() - 1)
    if masked(k):
        with k.scratch("before", file="s") as before:
            k.s_lshl_b32(before, row0, 1)  # two of each query
            k.s_sub_u32(columns, columns, before)
            k.s_lshl_b32(before, before, 2)
            k.s_add_u32(base[0], base[0], before)
            k.s_addc_u32(base[1], base[1], 0)
    lines = k.variant.wave_count if k.arch == "gfx950" else 1
    return ag.Matrix("statistics", "f32", base, lines, columns, 0, argument="statistics").rows(0, lines)
