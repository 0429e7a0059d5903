"""Steps along K where K is no whole number of them: step 0 takes the last columns, and those after it the others in order.

So only the fills of step 0, which stand before the loop, leave columns out. The matrices' pointers move back by a step: step t > 0 finds
its columns t steps from there, and step 0 as many as there are steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import asmgen as ag


@dataclass(frozen=True)
class StepSource:
    """A or B in memory, and of its steps the bytes of one, of the last one's columns that exist, and of all.

    `together` rows of the operand are one row of the matrix: 1, or those of a fragment where weights are shuffled.
    """

    k: ag.TileBuilder
    matrix: ag.Matrix
    together: int
    ahead: int
    limit: ag.Reg
    jump: ag.Reg

    def fill(self, target: ag.SharedPart, rows: ag.Rows, t: ag.StepIndex) -> None:
        """Some of its rows of an iteration, to LDS."""
        with t.first:
            ag.fill(self.k, target, rows.k(t), limit=self.limit, jump=self.jump)
        with t.later:
            ag.fill(self.k, target, rows.k(t))


@dataclass(frozen=True)
class Depth:
    """The steps of a product. `limits` and `jumps` are those of `StepSource` by bits of an element and rows together."""

    k: ag.TileBuilder
    steps: ag.Reg
    limits: dict[tuple[int, int], ag.Reg]
    jumps: dict[tuple[int, int], ag.Reg]

    def source(self, name: str, dtype: str, rows: ag.Reg, together: int = 1) -> StepSource:
        """A or B, from a step before its first column on. `rows` are the matrix's."""
        k, bits = self.k, ag.element_bits(dtype)
        key, ahead = (bits, together), k.variant.tile[2] * bits * together // 8
        if key not in self.limits:
            limit, jump = (k.registers.sgprs(1, f"{what}_{bits * together}") for what in ("last_bytes", "all_bytes"))
            k.s_mul_i32(jump, self.steps, ahead)
            self._bytes(limit, k.argument("k"), *key)
            k.s_sub_u32(limit, limit, jump)
            k.s_add_u32(limit, limit, ahead)
            self.limits[key], self.jumps[key] = limit, jump
        pointer = k.argument(name)
        k.s_sub_u32(pointer[0], pointer[0], ahead)
        k.s_subb_u32(pointer[1], pointer[1], 0)
        columns, stride = (k.registers.sgprs(1, f"{name}_{what}") for what in ("columns", "stride"))
        self._bytes(columns, k.argument("k"), *key)
        k.s_add_u32(columns, columns, ahead)
        self._bytes(stride, k.argument(f"ld{name}"), *key)
        least, most = (None if limit is None else limit * bits * together // 8 for limit in k.limits(f"ld{name}"))
        matrix = ag.Matrix(name, "i8", pointer, rows, columns, stride, least or 0, most)
        return StepSource(k, matrix, together, ahead, self.limits[key], self.jumps[key])

    def _bytes(self, out: ag.Reg, count: ag.Reg, bits: int, together: int) -> None:
        """Of so many columns, a multiple of 32: 8 of them are whole bytes."""
        self.k.s_lshr_b32(out, count, 3)
        self.k.s_mul_i32(out, out, bits * together)


def depth_of(k: ag.TileBuilder) -> Depth:
    """The steps, of the tile's depth each."""
    steps, depth = k.registers.sgprs(1, "steps"), k.variant.tile[2]
    k.s_add_u32(steps, k.argument("k"), depth - 1)
    k.s_lshr_b32(steps, steps, depth.bit_length() - 1)
    return Depth(k, steps, {}, {})
