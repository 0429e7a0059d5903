"""Sinks: one more score for each query of a head, of a key that has no value.

A sink changes nothing but sums. So a loop over keys knows nothing of it: its sums get one more term at the end.
"""

from __future__ import annotations

import asmgen as ag

LOG2_E = 0x3FB8AA3B
"""log2(e) as float32."""
_LOWEST = -float.fromhex("0x1.fffffep127")  # a difference with it is no NaN
_F32_BITS = 2  # of the size of a score, in bytes


def log2_scale(k: ag.TileBuilder, out: ag.Reg) -> None:
    """softmax_scale in units of log2, in a VGPR."""
    k.v_mov_b32(out, LOG2_E)
    k.v_mul_f32(out, k.argument("softmax_scale"), out)


def head_sink(k: ag.TileBuilder, head: ag.Reg) -> ag.Reg:
    """The score of a head's sink, in an SGPR."""
    found = k.registers.sgprs(1, "sink", note="one more score of the head")
    with k.scratch("entry", file="s") as entry:
        k.s_lshl_b32(entry, head, _F32_BITS)
        k.s_load_dword(found, k.argument("sink"), entry)
    return found


def add_sink(k: ag.TileBuilder, sink: ag.Reg, total: ag.Vector, largest: ag.Vector, factors: ag.Vector, scaled: bool) -> None:
    """Add a sink to sums: `total` of queries is relative to 2^`largest`, or where not `scaled` to exp(softmax_scale * `largest`).

    Then both are so with the sink, in powers of two, and what else was relative to the old maximum takes `factors`.
    """
    with k.operation("sink"), k.scratch("sink_score") as score, k.scratch("scale") as scale, k.scratch("sink_part") as part:
        k.v_mov_b32(scale, LOG2_E)
        k.v_mul_f32(score, sink, scale)
        k.v_mul_f32(scale, k.argument("softmax_scale"), scale)
        for sum_, level, factor in zip(total.registers, largest.registers, factors.registers, strict=True):
            with k.scratch("lowest") as lowest:
                k.v_mov_b32(lowest, _LOWEST)
                if not scaled:
                    k.v_mul_f32(level, scale, level)
                k.v_max3_f32(part, level, score, lowest)
            k.v_sub_f32(factor, level, part)
            k.v_mov_b32(level, part)
            k.v_sub_f32(part, score, level)
            k.v_exp_f32(factor, factor)
            k.v_exp_f32(part, part)
            k.v_fma_f32(sum_, sum_, factor, part)
