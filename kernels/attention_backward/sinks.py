"""The gradient of sinks: of the sink of a head, the sum over its queries of -exp(sink - LSE) delta.

The kernel before the main one sums a step's queries at a time; what it leaves in memory has an order, so the same bits come out each time.
"""

from __future__ import annotations

import asmgen as ag
from asmgen.kernels.attention_backward.family import BACKWARD, SINK_GRID, sink_arguments
from asmgen.kernels.attention_backward.heads import count_blocks
from asmgen.kernels.sequences.sink import LOG2_E, head_sink

_TOGETHER = 4 * ag.LANES  # parts that a load takes


def store_part(k: ag.TileBuilder, minus_delta: ag.Vector, lse: ag.Vector, copies: int) -> None:
    """Store the sum of a workgroup's queries. Each query stands in so many lanes, a power of two. Changes SCC and EXEC."""
    column = k.registers.sgprs(1, "part_column")
    line = _parts(k, k.ids["y"])
    count_blocks(k, column, k.variant.tile[0])
    k.s_mul_i32(column, column, k.ids["z"])
    k.s_add_u32(column, column, k.ids["x"])
    k.s_lshl_b32(column, column, 2)
    sink, descriptor = head_sink(k, k.ids["y"]), line.resource(k)
    with k.operation("part of the sink"), k.scratch("part") as part, k.scratch("share") as share, k.scratch("offset") as offset:
        k.v_mov_b32(part, 0)
        for level, change in zip(lse.registers, minus_delta.registers, strict=True):
            k.v_sub_f32(share, sink, level)
            k.v_mul_f32(share, LOG2_E, share)
            k.v_exp_f32(share, share)
            k.v_fma_f32(part, share, change, part)
        ag.over_lanes(k, "v_add_f32", [part], range(ag.LANES.bit_length() - 1))
        k.v_mul_f32(part, 1.0 / copies, part)
        k.v_mov_b32(offset, 0)
        k.s_mov_b64(ag.exec_, 1)
        k.buffer_store_dword(part, offset, descriptor, column, offen=True)
        k.s_mov_b64(ag.exec_, -1)


def _parts(k: ag.TileBuilder, head: ag.Reg) -> ag.Rows:
    """The parts of a head: of each batch, one for each step's queries."""
    base, count = k.registers.sgprs(2, "parts", align=2), k.registers.sgprs(1, "part_count")
    pointer = k.argument("sink_parts")
    count_blocks(k, count, k.variant.tile[0])
    k.s_mul_i32(count, count, k.argument("b"))
    k.s_mul_i32(base[0], head, count)
    k.s_mul_hi_u32(base[1], head, count)
    k.s_lshl_b64(base, base, 2)
    k.s_add_u32(base[0], base[0], pointer[0])
    k.s_addc_u32(base[1], base[1], pointer[1])
    return ag.Matrix("sink_parts", "f32", base, 1, count, 0).rows(0, 1)


@BACKWARD.companion("sink", "dsink, its parts in order", sink_arguments, SINK_GRID, when=lambda p: bool(p["sink"]))
def add_parts(k: ag.TileBuilder) -> None:
    """The sink of one head."""
    lanes = k.lanes("f32", 4, ag.LANES)
    parts, sums = (k.tile(name, 1, _TOGETHER, lanes) for name in ("parts_here", "sums"))
    total = ag.row_vector(k, "total", sums)
    line = _parts(k, k.ids["x"])
    column, again = k.registers.sgprs(1, "column"), k.fresh("more")
    ag.zero(k, sums)
    k.s_mov_b32(column, 0)
    line.resource(k)
    k.label(again)
    ag.load(k, parts, line, column=column)
    ag.add(k, sums, sums, parts)
    k.s_add_u32(column, column, _TOGETHER)
    k.s_cmp_lt_u32(column, line.matrix.columns_register)
    k.s_cbranch_scc1(again)
    ag.row_sum(k, total, sums)
    ag.store_tile(k, ag.Matrix("dsink", "f32", k.argument("dsink"), 1, k.argument("hq"), 0).rows(0, 1), total, column=k.ids["x"])
