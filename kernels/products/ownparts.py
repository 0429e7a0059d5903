"""Parts of K in turn: a persistent workgroup makes all parts of a tile, one after the other, and adds them itself.

Items of a workgroup are a tile's parts in the order of K, then those of its next tile. The sums of a part go in float32 to the workgroup's
own slot of a workspace, as registers hold them; the next part adds what lies there to its own sums. So D has the bits of the form in which
as many workgroups share a tile and a second kernel adds (`split`, `partsums`): the same sums, added in the same order.

Many rows gain: there is a slot for each workgroup and not for each tile and part, so that it stays in caches near the compute units, the
last part's sums never leave registers, and no launch follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import asmgen as ag
from asmgen.kernels.products.contract import is_persistent
from asmgen.kernels.products.epilogue import ProductEpilogue
from asmgen.kernels.products.persistent import Tiles, item_registers
from asmgen.kernels.products.slots import add_slot, store_slot
from asmgen.kernels.products.split import KEEP_SUBNORMAL, steps_of_each, whole_steps


@dataclass(frozen=True)
class OwnParts(Tiles):
    """The items of a workgroup. `following` has an item's part of K too, and so has `own`. What is loaded next is part number `part`, with
    `columns_left` columns of K from its first on. `each` are the steps of a part but for the last, `steps` is the count of the pipeline."""

    steps: ag.Reg
    part: ag.Reg
    each: ag.Reg
    columns_left: ag.Reg

    @classmethod
    def begun(cls, k: ag.TileBuilder, row0: ag.Reg, column0: ag.Reg, steps: ag.Reg) -> OwnParts:
        """Those of this workgroup, at the first part of its first tile, with the pointers to its matrices. Changes SCC."""
        number, matrix, own, following, ended, over = item_registers(k, 4)
        part, each, left = (k.registers.sgprs(1, name) for name in ("part", "steps_of_part", "columns_left"))
        tiles = cls(k, number, row0, column0, matrix, own, following, ended, over, steps, part, each, left)
        k.s_setreg_imm32_b32(KEEP_SUBNORMAL, 3)  # as where a second kernel adds
        k.s_mov_b32(part, 0)
        tiles._to_first()
        k.registers.release(*(k.ids[axis] for axis in "yz"))
        with k.scratch("all_steps", file="s") as all_steps:
            whole_steps(k, all_steps)
            steps_of_each(k, each, all_steps)
        k.s_mov_b32(steps, each)
        k.s_mov_b32(left, k.argument("k"))
        return tiles

    @property
    def columns(self) -> ag.Reg:
        """The columns of K from the first one on of what is loaded next."""
        return self.columns_left

    @property
    def own_part(self) -> ag.Reg:
        """The part of K that is multiplied and stored."""
        return self.own[3]

    def chain(self, corners: Sequence[ag.Corner], onward: str) -> ag.Chain:
        """The chain that takes one after another, with such accumulators."""
        return replace(super().chain(corners, onward), counted=True)

    @property
    def _placed(self) -> tuple[ag.Reg, ...]:
        """What says where an item lies, and its part of K."""
        return *super()._placed, self.part

    def _to_next(self) -> None:
        """To the next part, or to the first one of the next tile. Changes SCC."""
        k = self.k
        with k.scratch("tiles_on", file="s") as onward:
            k.s_add_u32(self.part, self.part, 1)
            k.s_cmp_lt_u32(self.part, k.p.split_k)
            k.s_cselect_b32(onward, 0, k.argument("workgroups"))
            k.s_cselect_b32(self.part, self.part, 0)
            k.s_add_u32(self.number, self.number, onward)

    def _go_on(self) -> None:
        """The pointers to A and B go from the first column of the following item to that of the item after it. Changes SCC."""
        k = self.k
        with k.scratch("columns_before", file="s") as before:
            k.s_sub_u32(before, k.argument("k"), self.columns_left)
            self._to_column(before, back=True)
            super()._go_on()
            k.s_mul_i32(before, self.part, self.each)
            k.s_lshl_b32(before, before, (k.variant.tile[2] - 1).bit_length())
            k.s_sub_u32(self.columns_left, k.argument("k"), before)
            self._to_column(before)

    def _begin(self) -> None:
        """The following item becomes the one that is multiplied and stored."""
        super()._begin()
        k = self.k
        with k.scratch("all_steps", file="s") as left, k.scratch("steps_before", file="s") as before:
            whole_steps(k, left)
            k.s_mul_i32(before, self.own_part, self.each)
            k.s_sub_u32(left, left, before)
            k.s_min_u32(self.steps, left, self.each)


def with_own_parts(k: ag.TileBuilder, ends: ProductEpilogue, corners: Sequence[ag.Corner], tiles: OwnParts,
                   onward: str) -> ProductEpilogue:
    """The epilogue of parts. All but the first add what lies in the workgroup's slot, all but the last store there; the last one ends as a
    whole tile does. Nothing overlaps the loop: its last step is not the tile's."""
    def rest() -> None:
        first, last = k.fresh("first_part"), k.fresh("last_part")
        if ends.of_part is not None:
            ends.of_part()
        k.s_cmp_eq_u32(tiles.own_part, 0)
        k.s_cbranch_scc1(first)
        with k.registers.scope("sums before"), k.apart():
            add_slot(k, corners, k.ids["x"])
        k.s_cmp_eq_u32(tiles.own_part, k.p.split_k - 1)
        k.s_cbranch_scc1(last)
        k.label(first)
        with k.registers.scope("sums of parts"), k.apart():
            store_slot(k, corners, k.ids["x"])
        k.s_branch(onward)
        k.label(last)
        ends.follow(k)

    assert ends.overlapped is None and is_persistent(k.parameters)
    return ProductEpilogue(None, None, rest)
