"""Unsigned division of scalars, exact and without a loop, by a reciprocal."""

from __future__ import annotations

from asmgen.author.emit.builder import Builder
from asmgen.isa.registers import Reg

_BELOW_2_TO_32 = 0x4F7FFFFE  # 2^32 - 512 as float32: a reciprocal times this never rounds up beyond the true one


class Divisor:
    """An SGPR that several scalars are divided by, from 1 on, and its `reciprocal` in a scalar register that the caller holds for as long
    as he divides. It is made here, where the whole EXEC or a part of it must be on. Changes SCC."""

    def __init__(self, k: Builder, by: Reg, reciprocal: Reg) -> None:
        self.by, self.reciprocal = by, reciprocal
        with k.operation(f"reciprocal of {by}"), k.scratch("estimate") as estimate, k.scratch("error", file="s") as error:
            k.emit("v_cvt_f32_u32", estimate, by)
            k.emit("v_rcp_iflag_f32", estimate, estimate)
            k.emit("v_mul_f32", estimate, _BELOW_2_TO_32, estimate)
            k.emit("v_cvt_u32_f32", estimate, estimate)
            k.emit("v_readfirstlane_b32", reciprocal, estimate)
            k.emit("s_sub_u32", error, 0, by)  # one step of Newton: a quotient is then at most 2 too small
            k.emit("s_mul_i32", error, error, reciprocal)
            k.emit("s_mul_hi_u32", error, error, reciprocal)
            k.emit("s_add_u32", reciprocal, reciprocal, error)

    def divide(self, k: Builder, quotient: Reg, remainder: Reg, dividend: Reg) -> None:
        """Quotient and remainder of a scalar, in registers of which the remainder's may be the dividend's. Changes SCC."""
        with k.operation(f"{dividend} / {self.by}"), k.scratch("part", file="s") as part:
            k.emit("s_mul_hi_u32", quotient, dividend, self.reciprocal)
            k.emit("s_mul_i32", part, quotient, self.by)
            k.emit("s_sub_u32", remainder, dividend, part)
            for _ in range(2):
                k.emit("s_cmp_ge_u32", remainder, self.by)
                k.emit("s_cselect_b32", part, self.by, 0)
                k.emit("s_addc_u32", quotient, quotient, 0)  # the carry is the comparison's
                k.emit("s_sub_u32", remainder, remainder, part)
