"""The epilogue of attention-forward: divide O by its sums, round and store it, and store LSE."""

from __future__ import annotations

import asmgen as ag
from asmgen.kernels.attention_forward.lines import OutputLines, QueryLines
from asmgen.kernels.attention_forward.place import WorkgroupPart
from asmgen.kernels.sequences.dropout import kept_scale
from asmgen.kernels.sequences.sink import add_sink

_LN_2 = 0x3F317218


def attention_epilogue(k: ag.TileBuilder, at: WorkgroupPart, out: ag.Tile, total: ag.Vector, largest: ag.Vector,
                       wave: ag.WaveIndex, queries: QueryLines | None) -> None:
    """Store `out` / `total`, and LSE if the build has it. `out` is O^T (d x the wave's queries, f32); it is overwritten.

    `total` and `largest` have a value for each query, in all lanes that hold the query: the sum of P, and the score that P is relative to.
    That score is in units of S, or of log2 if the scale is folded into Q. A query with a total of 0 has O = 0 and LSE = -inf. O leaves
    through the LDS of `queries`, where Q came through it.
    """
    factors = None
    if at.sink is not None:
        factors = ag.column_vector(k, "sink_factors", out)
        add_sink(k, at.sink, total, largest, factors, k.p.scale == "folded")
    if at.lse is not None:
        _store_lse(k, at, total, largest, wave)
    with k.operation("1 / total"), k.scratch("inverse") as inverse:
        for register in total.registers:
            k.v_rcp_f32(inverse, register)
            k.v_cmp_lt_f32(ag.vcc, 0, register)
            k.v_cndmask_b32(register, 0, inverse, ag.vcc)
    if factors is not None:
        ag.mul(k, total, total, factors)
    if at.draws is not None:
        with k.operation("1 / (1 - p)"), k.scratch("kept") as kept:
            kept_scale(k, kept)
            for register in total.registers:
                k.v_mul_f32(register, kept, register)
    if at.draws is not None:  # SGPRs are few
        k.registers.release("q_buffer", "k_buffer", "v_buffer", *(("rng_state",) if k.p.rng_state else ()))
    held = k.tile("O_moved", out.rows, out.columns, out.fragment) if out.registers.items[0].file == "a" else out
    rows, depth = at.o.rows(at.row0, k.variant.tile[0]), out.fragment.rows
    stored = ag.with_dtype(ag.transposed(out).fragment, k.p.dtype)
    lines = OutputLines(k, queries, stored) if queries is not None else None
    for first in range(0, out.rows, depth):  # the stores of one part go on while the next one is computed
        part, moved = (tile.part(first, 0, depth, out.columns) for tile in (out, held))
        if held is not out:
            ag.move(k, moved, part)
        ag.mul(k, moved, moved, total)
        rounded = ag.narrowed(moved, k.p.dtype)
        ag.convert(k, rounded, moved)
        if lines is not None:
            lines.store(rows, ag.transposed(rounded), first)
        else:
            ag.store_tile(k, rows, ag.transposed(rounded), rows=wave, column=first)


def _store_lse(k: ag.TileBuilder, at: WorkgroupPart, total: ag.Vector, largest: ag.Vector, wave: ag.WaveIndex) -> None:
    """Store ln(total) + largest, with the lanes of one half of the wave."""
    assert at.lse is not None
    f = total.fragment
    _, column = ag.lane_coordinates(k, f)
    descriptor = at.lse.rows(at.row0, k.variant.tile[0]).resource(k)
    with k.operation("LSE"), k.scratch("logarithm") as logarithm, k.scratch("offset") as offset, k.scratch("first", file="s") as first:
        k.s_mul_i32(first, wave.register, total.size)
        k.v_add_u32(offset, first, column)
        k.v_lshlrev_b32(offset, 2, offset)
        for number, (sum_, score) in enumerate(zip(total.registers, largest.registers, strict=True)):
            k.v_log_f32(logarithm, sum_)
            if k.p.scale == "folded" or k.p.sink:
                k.v_add_f32(logarithm, score, logarithm)
                k.v_mul_f32(logarithm, _LN_2, logarithm)
            else:
                k.v_mul_f32(logarithm, _LN_2, logarithm)
                k.v_fma_f32(logarithm, k.argument("softmax_scale"), score, logarithm)
            k.s_mov_b32(ag.exec_[1], 0)
            k.buffer_store_dword(logarithm, offset, descriptor, 0, offen=True, offset=4 * f.columns * number)
            k.s_mov_b32(ag.exec_[1], -1)
