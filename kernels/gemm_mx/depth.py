"""Steps along K where K is no whole number of them: step 0 takes the last columns, and those after it the others in order.

So only the fills of step 0, which stand before the loop, leave columns out. The matrices' pointers move back by a step: step t > 0 finds
its columns t steps from there, and step 0 as many as there are steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import asmgen as ag


@dataclass(frozen=True)
class Depth:
    """The steps of a product. `limits` and `jumps` by bits of an element: bytes of the last step's columns that exist, and of all steps."""

    k: ag.TileBuilder
    steps: ag.Reg
    limits: dict[int, ag.Reg]
    jumps: dict[int, ag.Reg]

    def matrix(self, name: str, dtype: str, rows: str) -> ag.Matrix:
        """A or B, from a step before its first column on."""
        k, bits, depth = self.k, ag.element_bits(dtype), self.k.variant.tile[2]
        pointer, ahead = k.argument(name), depth * bits // 8
        if bits not in self.limits:
            limit, jump = (k.registers.sgprs(1, f"{what}_{bits}") for what in ("last_bytes", "all_bytes"))
            k.s_mul_i32(jump, self.steps, ahead)
            self._bytes(limit, k.argument("k"), bits)
            k.s_sub_u32(limit, limit, jump)
            k.s_add_u32(limit, limit, ahead)
            self.limits[bits], self.jumps[bits] = limit, jump
        k.s_sub_u32(pointer[0], pointer[0], ahead)
        k.s_subb_u32(pointer[1], pointer[1], 0)
        made = k.matrix(name, dtype, rows, "k", f"ld{name}")
        columns = k.registers.sgprs(1, f"{name}_columns", note="with those of a step before")
        k.s_add_u32(columns, made.columns_register, ahead)
        return ag.Matrix(made.name, made.dtype, pointer, made.rows_register, columns, made.stride, made.least, made.most, 1, made.of)

    def _bytes(self, out: ag.Reg, count: ag.Reg, bits: int) -> None:
        self.k.s_mul_i32(out, count, bits)
        self.k.s_lshr_b32(out, out, 3)

    def fill(self, target: ag.SharedPart, source: ag.Rows, t: ag.StepIndex, bits: int) -> None:
        """Elements of `bits` of an iteration, to LDS."""
        with t.first:
            ag.fill(self.k, target, source.k(t), limit=self.limits[bits], jump=self.jumps[bits])
        with t.later:
            ag.fill(self.k, target, source.k(t))


def depth_of(k: ag.TileBuilder) -> Depth:
    """The steps, of the tile's depth each."""
    steps, depth = k.registers.sgprs(1, "steps"), k.variant.tile[2]
    k.s_add_u32(steps, k.argument("k"), depth - 1)
    k.s_lshr_b32(steps, steps, depth.bit_length() - 1)
    return Depth(k, steps, {}, {})
