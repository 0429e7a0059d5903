"""Conversions of element types in registers: gfx950's packed converts, gfx942's integer sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from asmgen.isa.registers import Reg

if TYPE_CHECKING:
    from asmgen.author.tilebuilder import TileBuilder


def to_bf16_pairs(k: TileBuilder, values: Sequence[Reg]) -> Reg:
    """Neighbouring VGPRs of f32, rounded to nearest even, as pairs in the first half of them: bf16 2n in the low half of register n.

    AGPRs must have been moved before. A NaN stays one.
    """
    if k.arch == "gfx950":
        for number in range(0, len(values), 2):
            k.v_cvt_pk_bf16_f32(values[number // 2], values[number], values[number + 1])
    else:
        _rounded(k, values)
    first = values[0]
    return _span(first, len(values) // 2)


def _span(first: Reg, count: int) -> Reg:
    from asmgen.regalloc.ranges import OwnedReg

    if isinstance(first, OwnedReg):
        return OwnedReg(first.file, first.index, count, first.lease)
    return Reg(first.file, first.index, count)


def _rounded(k: TileBuilder, values: Sequence[Reg]) -> None:
    """Nearest even by integer arithmetic: add 0x7fff and the lowest kept bit, keep the high half. A NaN must not be carried away."""
    with k.scratch("odd") as odd, k.scratch("nan", 2, "s") as nan, k.scratch("half", file="s") as half, k.scratch("quiet") as quiet:
        k.s_movk_i32(half, 0x7FFF)
        k.v_mov_b32(quiet, 0x7FC00000)
        for value in values:
            k.v_bfe_u32(odd, value, 16, 1)
            k.v_cmp_u_f32(nan, value, value)
            k.v_add3_u32(value, value, odd, half)
            k.v_cndmask_b32(value, value, quiet, nan)
        k.s_mov_b32(half, 0x07060302)  # v_perm_b32: the upper halves of both sources
        for number in range(0, len(values), 2):
            k.v_perm_b32(values[number // 2], values[number + 1], values[number], half)
