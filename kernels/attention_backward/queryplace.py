"""What stands around the step of the kernel that makes dQ by itself: the workgroup's head and queries, and their statistics."""

from __future__ import annotations

import asmgen as ag
from asmgen.kernels.attention_backward.heads import count_blocks, flat_head
from asmgen.kernels.attention_backward.tensors import QUERIES
from asmgen.kernels.attention_backward.work import apart
from asmgen.kernels.sequences.sink import log2_scale
from asmgen.kernels.sequences.varlen import begin_sequence, end_beyond


def place_queries(k: ag.TileBuilder) -> ag.HeadTile:
    """The head of the workgroup; `tile` is its first query. Changes SCC."""
    at = ag.HeadTile(*(k.registers.sgprs(1, name) for name in ("batch", "head", "kv_head", "row0")))
    with k.operation("place"), k.scratch("tiles", file="s") as tiles:
        count_blocks(k, tiles, QUERIES)
        ag.place_head(k, at, k.ids["x"], k.argument("b"), k.argument("hq"), k.argument("hkv"), tiles, longest_first=k.p.causal)
        k.s_lshl_b32(at.tile, at.tile, QUERIES.bit_length() - 1)
    if k.p.varlen:
        begin_sequence(k, at.batch, "sq", ("q", "do", "dq"))
        begin_sequence(k, at.batch, "sk", ("k", "v"))
        end_beyond(k, at.tile, "sq")
    return at


def statistics_of(k: ag.TileBuilder, at: ag.HeadTile, row0: ag.Reg, start: ag.Tile) -> tuple[ag.Reg, list[ag.Vector]]:
    """softmax_scale in units of log2, and -LSE in them by fragment of a wave's queries. -delta fills `start`. Changes SCC."""
    blocks, column, c = (k.registers.sgprs(1, name) for name in ("blocks", "column", "c"))
    low, delta = (ag.column_vector(k, name, start) for name in ("low", "delta"))
    with k.scratch("scaled") as scaled:
        log2_scale(k, scaled)
        k.v_readfirstlane_b32(c, scaled)
    together, width = k.variant.tile[0], start.fragment.columns
    count_blocks(k, blocks, together)
    base = flat_head(k, "statistics", at.batch, at.head, blocks, 2 * together)
    k.s_lshl_b32(blocks, blocks, (2 * together).bit_length() - 1)
    line = ag.Matrix("statistics", "f32", base, 1, blocks, 0).rows(0, 1)
    k.s_lshl_b32(column, row0, 1)
    done = 0
    for number, pair in enumerate(zip(*(apart(vector) for vector in (low, delta)), strict=True)):
        inside = number * width % together
        for half, vector in enumerate(pair):
            place = 2 * number * width - inside + half * together  # each block has both statistics of its queries
            k.s_add_u32(column, column, place - done)
            done = place
            ag.load(k, vector, line, column=column)
            if width > together:
                k.s_add_u32(column, column, together)
                done += together
                _other_block(k, vector, line, column)
    ag.mul(k, low, low, c)
    ag.move(k, start, delta)
    k.registers.release("delta", "blocks", "column", "statistics_head", "q_buffer", "do_buffer", "statistics_buffer", "q_head", "do_head")
    return c, apart(low)


def _other_block(k: ag.TileBuilder, vector: ag.Vector, line: ag.Rows, column: ag.Reg) -> None:
    """The second half of a vector comes from the block after the one that it was loaded from. Changes VCC."""
    with k.scratch("later") as later, k.scratch("second") as second:
        ag.load(k, ag.Vector("later", "column", vector.fragment.columns, vector.fragment, ag.RegisterSet((later,))), line, column=column)
        k.v_and_b32(second, vector.fragment.columns // 2, k.lane)
        k.v_cmp_ne_u32(ag.vcc, 0, second)
        k.v_cndmask_b32(vector.registers[0], vector.registers[0], later, ag.vcc)
