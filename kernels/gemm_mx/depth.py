"""Steps along K where K is no whole number of them: step 0 takes the last columns, and those after it the others in order.

So only the loads of step 0, which stand before the loop, leave columns out. Pointers move back by a step: step t > 0 finds its columns t
steps from there, and step 0 as many as there are steps. Where workgroups share the steps of a tile, each has neighbouring ones, and its
own step 0 is the product's only in the first part.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import asmgen as ag
from asmgen.kernels.products.split import is_split, own_part, steps_of_each


@dataclass(frozen=True)
class StepSource:
    """What the steps of a matrix of bytes come from. `matrix` begins a step before the first one, `ahead` are the bytes of a step, `limit`
    those of step 0 that exist, `jump` is how far away they are. `width` is what a lane moves of step 0 at most, 0 where that is 16 bytes.

    `together` rows of the operand are one row of the matrix: 1, or those of a fragment where weights are shuffled.
    """

    k: ag.TileBuilder
    matrix: ag.Matrix
    together: int
    ahead: int
    limit: ag.Reg
    jump: ag.Reg
    width: int = 0

    @property
    def strides(self) -> tuple[ag.Reg, ...]:
        """The matrix's stride."""
        assert isinstance(self.matrix.stride, ag.Reg)
        return (self.matrix.stride,)

    def prepare(self, target: ag.SharedTile, rows: ag.Rows) -> None:
        """Make the registers of the fills of a shared tile."""
        for width in {0, self.width}:
            ag.prepare_fill(self.k, target, rows, width)

    def fill(self, target: ag.SharedPart, rows: ag.Rows, t: ag.StepIndex) -> None:
        """Some of its rows of an iteration, to LDS."""
        with t.first:
            ag.fill(self.k, target, rows.k(t), limit=self.limit, jump=self.jump, width=self.width)
        with t.later:
            ag.fill(self.k, target, rows.k(t))


@dataclass(frozen=True)
class Depth:
    """The steps of a workgroup, of `total` of the product; `first` is the number of its first one, None for 0. What was made is kept by the
    bytes of a step: those of a row, from a step before the first one on (`widths`), and what `StepSource` says."""

    k: ag.TileBuilder
    steps: ag.Reg
    total: ag.Reg
    first: ag.Reg | None
    widths: dict[int, ag.Reg] = field(default_factory=dict)
    limits: dict[int, ag.Reg] = field(default_factory=dict)
    jumps: dict[int, ag.Reg] = field(default_factory=dict)

    def source(self, name: str, bits: int, rows: ag.Reg, together: int = 1, width: int = 0, plane: ag.Reg | None = None) -> StepSource:
        """A or B, of so many bits a column of a row. `rows` are the matrix's, `plane` is the address of its second part."""
        k, ahead = self.k, self.k.variant.tile[2] * bits * together // 8
        pointer = k.argument(name) if plane is None else plane
        label = name if plane is None else f"{name}_plane"
        stride = k.registers.sgprs(1, f"{label}_stride")
        self._bytes(stride, k.argument(f"ld{name}"), bits * together)
        least, most = (None if limit is None else limit * bits * together // 8 for limit in k.limits(f"ld{name}"))
        if ahead not in self.widths:
            columns: ag.Reg = k.registers.sgprs(1, f"columns_{ahead}")
            self.widths[ahead] = columns
            self._bytes(columns, k.argument("k"), bits * together)
            self.limit(columns, ahead)
            self.shift(columns, ahead)
        self.begin(pointer, ahead)
        columns, limit = self.widths[ahead], self.limits[ahead]
        return StepSource(k, ag.Matrix(label, "i8", pointer, rows, columns, stride, least or 0, most), together, ahead, limit,
                          self.jump(ahead), width)

    def begin(self, pointer: ag.Reg, ahead: int) -> None:
        """A pointer goes to a step of `ahead` bytes before the first."""
        k = self.k
        if self.first is not None:
            with k.scratch("before", file="s") as before:
                k.s_mul_i32(before, self.first, ahead)
                k.s_add_u32(pointer[0], pointer[0], before)
                k.s_addc_u32(pointer[1], pointer[1], 0)
        k.s_sub_u32(pointer[0], pointer[0], ahead)
        k.s_subb_u32(pointer[1], pointer[1], 0)

    def shift(self, columns: ag.Reg, ahead: int) -> None:
        """Columns, in units of which a step has `ahead`, count from there."""
        k = self.k
        if self.first is not None:
            with k.scratch("before", file="s") as before:
                k.s_mul_i32(before, self.first, ahead)
                k.s_sub_u32(columns, columns, before)
        k.s_add_u32(columns, columns, ahead)

    def jump(self, ahead: int) -> ag.Reg:
        """What step 0's loads add to an address: the bytes of all steps, in the first part."""
        if ahead not in self.jumps:
            k = self.k
            made = self.jumps[ahead] = k.registers.sgprs(1, f"all_bytes_{ahead}")
            k.s_mul_i32(made, self.total, ahead)
            self._in_first_part(made, 0)
        return self.jumps[ahead]

    def limit(self, whole: ag.Reg, ahead: int) -> ag.Reg:
        """The bytes of step 0 that exist, of `whole` bytes of all columns."""
        if ahead not in self.limits:
            k = self.k
            made = self.limits[ahead] = k.registers.sgprs(1, f"last_bytes_{ahead}")
            k.s_mul_i32(made, self.total, ahead)
            k.s_sub_u32(made, whole, made)
            k.s_add_u32(made, made, ahead)
            self._in_first_part(made, ahead)
        return self.limits[ahead]

    def _in_first_part(self, value: ag.Reg, otherwise: int) -> None:
        if self.first is not None:
            self.k.s_cmp_eq_u32(self.first, 0)
            self.k.s_cselect_b32(value, value, otherwise)

    def _bytes(self, out: ag.Reg, count: ag.Reg, bits: int) -> None:
        """Of so many columns, a multiple of 8."""
        self.k.s_lshr_b32(out, count, 3)
        self.k.s_mul_i32(out, out, bits)


def depth_of(k: ag.TileBuilder) -> Depth:
    """The workgroup's steps, of the tile's depth each. One without any ends here."""
    total, depth = k.registers.sgprs(1, "all_steps"), k.variant.tile[2]
    k.s_add_u32(total, k.argument("k"), depth - 1)
    k.s_lshr_b32(total, total, depth.bit_length() - 1)
    if not is_split(k.parameters):
        return Depth(k, total, total, None)
    steps, first = k.registers.sgprs(1, "steps"), k.registers.sgprs(1, "first_step")
    has_steps = k.fresh("has_steps")
    with k.scratch("each", file="s") as each:
        steps_of_each(k, each, total)
        own_part(k, first)
        k.s_mul_i32(first, first, each)
        k.s_cmp_lt_u32(first, total)
        k.s_cbranch_scc1(has_steps)
        k.s_endpgm()
        k.label(has_steps)
        k.s_sub_u32(steps, total, first)
        k.s_min_u32(steps, steps, each)
    return Depth(k, steps, total, first)
