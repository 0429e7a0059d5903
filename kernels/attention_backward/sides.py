"""The kernels beside the main one, a wave for a step's queries of a head: their statistics before it, dQ from its sums after it."""

from __future__ import annotations

import asmgen as ag
from asmgen.kernels.attention_backward.family import BACKWARD, BLOCK_GRID, convert_arguments, delta_arguments, is_ordered, sum_bytes
from asmgen.kernels.attention_backward.gradients import gradient_factor
from asmgen.kernels.attention_backward.heads import count_blocks, flat_head, head_rows
from asmgen.kernels.attention_backward.sinks import store_part
from asmgen.kernels.sequences.varlen import begin_sequence, end_beyond

_F32 = 4  # bytes
_LOWEST = 0xFF000000  # -2^127
"""In place of an LSE of -infinity, the other way round: a query that sees nothing has P = 0, and no infinity meets a factor of 0."""


@BACKWARD.companion("delta", "what the main kernel wants of each query: -LSE / softmax_scale and -sum of dO O", delta_arguments, BLOCK_GRID,
                    axes="xyz", first=True)
def delta(k: ag.TileBuilder) -> None:
    """A step's queries of a head."""
    block, d, lanes = k.variant.tile[0], k.variant.d, k.lanes(k.p.dtype, 8, k.variant.d // 8)
    wide = ag.with_dtype(lanes, "f32")
    narrow = [k.tile(name, block, d, lanes) for name in ("O", "dO")]
    O, dO = (k.tile(f"{name}_f32", block, d, wide) for name in ("O", "dO"))
    total, lse = (ag.row_vector(k, name, O) for name in ("total", "lse"))
    row0, column, inverse = (k.registers.sgprs(1, name) for name in ("row0", "column", "inverse"))

    k.s_lshl_b32(row0, k.ids["x"], block.bit_length() - 1)
    lse_head = _begin(k, row0, "lse", ("o", "do"))
    for tile, name in zip(narrow, ("o", "do"), strict=True):
        ag.load(k, tile, head_rows(k, name, k.ids["z"], k.ids["y"]).rows(row0, block))
    line = ag.Matrix("lse", "f32", lse_head, 1, k.argument("sq"), 0)
    ag.load(k, lse, line.rows(0, 1), column=row0, limit=_left(k, row0))
    for tile, held in zip((O, dO), narrow, strict=True):
        ag.convert(k, tile, held)
    ag.mul(k, O, O, dO)
    ag.row_sum(k, total, O)
    ag.neg(k, total, total)
    if k.p.sink:
        store_part(k, total, lse, d // 8)
    if k.p.dropout:
        with k.scratch("share") as share:
            k.v_sub_f32(share, 1.0, k.argument("p"))
            k.v_readfirstlane_b32(inverse, share)
        ag.mul(k, total, total, inverse)
    with k.scratch("scaled") as scaled:
        k.v_rcp_f32(scaled, k.argument("softmax_scale"))
        k.v_readfirstlane_b32(inverse, scaled)
    ag.mul(k, lse, lse, inverse)
    ag.neg(k, lse, lse)
    _without_infinity(k, lse)
    blocks = k.registers.sgprs(1, "blocks")
    count_blocks(k, blocks, block)
    k.s_lshl_b32(column, k.ids["x"], (2 * block).bit_length() - 1)
    base = flat_head(k, "statistics", k.ids["z"], k.ids["y"], blocks, 2 * block)
    k.s_lshl_b32(blocks, blocks, (2 * block).bit_length() - 1)
    found = ag.Matrix("statistics", "f32", base, 1, blocks, 0).rows(0, 1)
    ag.store_tile(k, found, lse, column=column)
    k.s_add_u32(column, column, block)
    ag.store_tile(k, found, total, column=column)


def _begin(k: ag.TileBuilder, row0: ag.Reg, flat: str, tensors: tuple[str, ...], each: int = 1, width: int = _F32) -> ag.Reg:
    """Where `each` elements of so many bytes for each query of the workgroup's head begin. Where lengths vary, all is its sequence's."""
    base = flat_head(k, flat, None if k.p.varlen else k.ids["z"], k.ids["y"], k.argument("sq"), each, width=width)
    if k.p.varlen:
        begin_sequence(k, k.ids["z"], "sq", tensors, ((base, width * each),))
        end_beyond(k, row0, "sq")
    return base


def _left(k: ag.TileBuilder, row0: ag.Reg) -> ag.Reg:
    left = k.registers.sgprs(1, "queries_left")
    k.s_sub_u32(left, k.argument("sq"), row0)
    return left


def _without_infinity(k: ag.TileBuilder, lse: ag.Vector) -> None:
    """+infinity, of an LSE of -infinity, becomes a number that hides the query; a NaN stays."""
    infinite = k.registers.sgprs(1, "infinite")
    k.s_mov_b32(infinite, 0x7F800000)
    with k.scratch("hidden") as hidden:
        k.v_mov_b32(hidden, _LOWEST)
        for register in lse.registers:
            k.v_cmp_eq_f32(ag.vcc, infinite, register)
            k.v_cndmask_b32(register, register, hidden, ag.vcc)


@BACKWARD.companion("convert", "dQ = softmax_scale times its sums", convert_arguments, BLOCK_GRID, axes="xyz",
                    when=lambda p: not is_ordered(p))
def convert(k: ag.TileBuilder) -> None:
    """A step's queries of a head."""
    block, d, lanes = k.variant.tile[0], k.variant.d, k.lanes(k.p.dtype, 8, k.variant.d // 8)
    sums, rounded = k.tile("sums", block, d, ag.with_dtype(lanes, "f32")), k.tile("rounded", block, d, lanes)
    held = sums if k.p.dq_type == "f32" else k.tile("held", block, d, ag.with_dtype(lanes, k.p.dq_type))
    row0 = k.registers.sgprs(1, "row0")

    k.s_lshl_b32(row0, k.ids["x"], block.bit_length() - 1)
    base = _begin(k, row0, "dq_sums", ("dq",), d, sum_bytes(k.parameters))
    ag.load(k, held, ag.Matrix("dq_sums", k.p.dq_type, base, k.argument("sq"), d, d).rows(row0, block))
    if held is not sums:
        ag.convert(k, sums, held)
    ag.mul(k, sums, sums, gradient_factor(k))
    ag.convert(k, rounded, sums)
    ag.store_tile(k, head_rows(k, "dq", k.ids["z"], k.ids["y"]).rows(row0, block), rounded)
