"""Unsigned division of scalars, exact and without a loop: by a number with a product, by a register with a reciprocal."""

from __future__ import annotations

from asmgen.author.builder import Builder
from asmgen.isa.errors import AsmgenError
from asmgen.isa.registers import Reg

DIVIDENDS_END = 1 << 31
"""Dividends of a division by a number stay below it: then a 32-bit factor is exact for every divisor."""
_BELOW_2_TO_32 = 0x4F7FFFFE  # 2^32 - 512 as float32: a reciprocal times this never rounds up beyond the true one


def factor_and_shift(divisor: int) -> tuple[int, int]:
    """(f, s) with n / divisor == (n * f >> 32) >> s for every n below DIVIDENDS_END (Granlund and Montgomery, PLDI 1994)."""
    length = (divisor - 1).bit_length()
    return (1 << (31 + length)) // divisor + 1, length - 1


class Divisor:
    """A divisor that several scalars are divided by: a number from 1 on, or an SGPR that holds one.

    For a register the reciprocal is made here: `reciprocal` is a scalar register that the caller holds for as long as he divides, unused
    for a number. Raises AsmgenError for a number below 1 or from DIVIDENDS_END on, or a register without `reciprocal`.
    """

    def __init__(self, k: Builder, by: Reg | int, reciprocal: Reg | None = None) -> None:
        self.by, self.reciprocal = by, reciprocal
        if isinstance(by, int):
            if not 1 <= by < DIVIDENDS_END:
                raise AsmgenError(f"division by {by}: 1 to {DIVIDENDS_END - 1} are possible", k.place())
            return
        if reciprocal is None:
            raise AsmgenError(f"division by the register {by} needs a scalar register for its reciprocal", k.place())
        with k.operation(f"reciprocal of {by}"), k.scratch("estimate") as estimate, k.scratch("error", file="s") as error:
            k.emit("v_cvt_f32_u32", estimate, by)
            k.emit("v_rcp_iflag_f32", estimate, estimate)
            k.emit("v_mul_f32", estimate, _BELOW_2_TO_32, estimate)
            k.emit("v_cvt_u32_f32", estimate, estimate)
            k.emit("v_readfirstlane_b32", reciprocal, estimate)
            k.emit("s_sub_u32", error, 0, by)  # one step of Newton: what is left is at most 2 below the quotient
            k.emit("s_mul_i32", error, error, reciprocal)
            k.emit("s_mul_hi_u32", error, error, reciprocal)
            k.emit("s_add_u32", reciprocal, reciprocal, error)

    def divide(self, k: Builder, quotient: Reg, remainder: Reg, dividend: Reg) -> None:
        """Scalars: quotient and remainder of a dividend, three registers, of which the remainder's may be the dividend's. Changes SCC.

        For a number as divisor the dividend is below DIVIDENDS_END, else any.
        """
        with k.operation(f"{dividend} / {self.by}"), k.scratch("part", file="s") as part:
            if isinstance(self.by, int):
                self._by_number(k, self.by, quotient, remainder, dividend, part)
                return
            assert self.reciprocal is not None
            k.emit("s_mul_hi_u32", quotient, dividend, self.reciprocal)
            k.emit("s_mul_i32", part, quotient, self.by)
            k.emit("s_sub_u32", remainder, dividend, part)
            for _ in range(2):  # the carry is the comparison's
                k.emit("s_cmp_ge_u32", remainder, self.by)
                k.emit("s_cselect_b32", part, self.by, 0)
                k.emit("s_addc_u32", quotient, quotient, 0)
                k.emit("s_sub_u32", remainder, remainder, part)

    @staticmethod
    def _by_number(k: Builder, by: int, quotient: Reg, remainder: Reg, dividend: Reg, part: Reg) -> None:
        if by & (by - 1) == 0:
            k.emit("s_lshr_b32", quotient, dividend, by.bit_length() - 1)
            k.emit("s_and_b32", remainder, dividend, by - 1)
            return
        factor, shift = factor_and_shift(by)
        k.emit("s_mul_hi_u32", quotient, dividend, factor)
        k.emit("s_lshr_b32", quotient, quotient, shift)
        k.emit("s_mul_i32", part, quotient, by)
        k.emit("s_sub_u32", remainder, dividend, part)
