"""The end of attention-forward: O divided by its sums, rounded and stored, and LSE."""

from __future__ import annotations

from asmgen.author.address.addressing import WaveIndex
from asmgen.author.builders.tilebuilder import TileBuilder
from asmgen.author.ops.conversions import convert
from asmgen.author.ops.elementwise import copy, mul
from asmgen.author.ops.layoutchange import change_layout
from asmgen.author.ops.masks import lane_places
from asmgen.author.ops.tilememory import store_tile
from asmgen.author.ops.vectors import Vector
from asmgen.author.tiles.fragments import MatrixShape
from asmgen.author.tiles.tiles import Tile
from asmgen.author.tiles.views import narrowed, turned
from asmgen.isa.registers import exec_, vcc
from asmgen.kernels.attention_forward.place import WorkgroupPart

_LN_2 = 0x3F317218


def finish(k: TileBuilder, at: WorkgroupPart, shape: MatrixShape, out: Tile, total: Vector, largest: Vector, wave: WaveIndex) -> None:
    """Store `out` (O^T, d x the wave's queries, f32 by `shape`, used up) over `total`, and LSE where the build has it.

    `total` and `largest` have a value for each query in all lanes that hold it: the sum of P, and the score that P is relative to, in
    units of S, of log2 where the scale is folded into Q. A query with a total of 0 has O = 0, LSE = -inf.
    """
    if at.lse is not None:
        _store_lse(k, at, total, largest, wave)
    with k.operation("1 / total"), k.scratch("inverse") as inverse:
        for register in total.registers:
            k.v_rcp_f32(inverse, register)
            k.v_cmp_lt_f32(vcc, 0, register)
            k.v_cndmask_b32(register, 0, inverse, vcc)
    if out.registers.items[0].file == "a":
        held = k.tile("O_moved", out.rows, out.columns, out.fragment)
        copy(k, held, out)
        out = held
    mul(k, out, out, total)
    rounded = narrowed(out, k.p.dtype)
    convert(k, rounded, out)
    moved = turned(rounded)
    if k.arch == "gfx950":  # a lane's four neighbours become eight, of two fragments' registers: 16 bytes to store
        moved, _ = change_layout(k, moved, shape.b)
    store_tile(k, at.o.rows(at.row0, k.variant.tile[0]), moved, rows=wave)


def _store_lse(k: TileBuilder, at: WorkgroupPart, total: Vector, largest: Vector, wave: WaveIndex) -> None:
    """ln(total) + largest, by the lanes of one half."""
    assert at.lse is not None
    f = total.fragment
    _, column = lane_places(k, f)
    descriptor = at.lse.rows(at.row0, k.variant.tile[0]).resource(k)
    with k.operation("LSE"), k.scratch("logarithm") as logarithm, k.scratch("offset") as offset, k.scratch("first", file="s") as first:
        k.s_mul_i32(first, wave.register, total.size)
        k.v_add_u32(offset, first, column)
        k.v_lshlrev_b32(offset, 2, offset)
        for number, (sum_, score) in enumerate(zip(total.registers, largest.registers, strict=True)):
            k.v_log_f32(logarithm, sum_)
            if k.p.scale == "folded":
                k.v_add_f32(logarithm, score, logarithm)
                k.v_mul_f32(logarithm, _LN_2, logarithm)
            else:
                k.v_mul_f32(logarithm, _LN_2, logarithm)
                k.v_fma_f32(logarithm, k.argument("softmax_scale"), score, logarithm)
            k.s_mov_b32(exec_[1], 0)
            k.buffer_store_dword(logarithm, offset, descriptor, 0, offen=True, offset=4 * f.columns * number)
            k.s_mov_b32(exec_[1], -1)
