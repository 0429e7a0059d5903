"""Rows of K that a loop goes down, in a matrix of any size: the descriptor itself goes on, by 64 bits.

A `Walk` shows the matrix to its end by one descriptor, so below 4 GiB. A `Descent` shows the rows of an iteration alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import asmgen as ag


@dataclass(eq=False)
class Descent(ag.Walk):
    """Rows that go down by `count` with every iteration of a loop. `descent.step(t + 2)` are those of iteration t + 2. From `own`, which
    nothing else needs, the descriptor is made. `to_first(pointer, left)` says where the first row is by what registers hold then, and how
    many of its elements there are. Those `like` another one go down as far in an iteration, by its register."""

    own: tuple[ag.Reg, ...] = ()
    to_first: Callable[[ag.Reg, ag.Reg], None] | None = None
    like: Descent | None = None

    @property
    def reach(self) -> int | None:
        """The rows of an iteration."""
        return self.count

    def offset_of(self, k: ag.KernelBuilder, index: ag.StepIndex) -> ag.Reg | int:  # type: ignore[override]
        """No offset: the descriptor goes on. Raises TileError where one descent is asked for two iterations of a step."""
        if self.ahead not in (None, index.offset):
            raise ag.TileError(f"{self.matrix.name} was read for t+{self.ahead} before: a descent serves one iteration ahead", k.here())
        self.ahead = index.offset
        if self.pace is None:
            self.pace = k.hoist(lambda: self._make_pace(k))
        if self.gone is None:
            (self.gone,) = [descriptor[0:1] for descriptor in self.descriptors.values()]  # what loads depend on
        return 0

    def _make_pace(self, k: ag.KernelBuilder) -> ag.Reg:
        assert k.registers is not None
        stride = self.matrix.stride_bytes(k)
        if self.like is not None and self.like.pace is not None:
            return self.like.pace
        pace = k.registers.sgprs(1, k.registers.unused(f"{self.matrix.name}_pace"), note="bytes an iteration")
        k.s_mul_i32(pace, stride, self.count)
        return pace

    def begin(self, k: ag.KernelBuilder, ahead: int) -> None:
        """A loop begins whose first copy stands `ahead` iterations before the first: where the rows of this copy would begin."""
        assert self.ahead is not None and self.pace is not None and k.registers is not None
        if self.own:
            k.registers.spare(*self.own, at_need=True)
        for descriptor in self.descriptors.values():
            for _ in range(ahead - self.ahead):
                k.s_sub_u32(descriptor[0], descriptor[0], self.pace)
                k.s_subb_u32(descriptor[1], descriptor[1], 0)

    @property
    def goes_over(self) -> bool:
        """Whether it knows where the first row is."""
        return self.to_first is not None

    def show_next(self, k: ag.KernelBuilder, back: int, ended: ag.Reg) -> None:
        """The rows of the first iteration of a next item, or so many iterations before them, or nothing where `ended` is not 0. Changes
        SCC."""
        assert self.to_first is not None and self.pace is not None
        with k.scratch("next_lines", 2, "s") as pointer, k.scratch("next_elements", file="s") as left:
            self.to_first(pointer, left)
            shown = ag.Rows(replace(self.matrix, pointer=pointer, columns_register=left), 0, 0, self.count, self.descriptors)
            shown.show_again(k)
        k.s_cmp_lg_u32(ended, 0)
        for descriptor in self.descriptors.values():
            k.s_cselect_b32(descriptor[2], 0, descriptor[2])
            for _ in range(back):
                k.s_sub_u32(descriptor[0], descriptor[0], self.pace)
                k.s_subb_u32(descriptor[1], descriptor[1], 0)

    def go_on(self, k: ag.KernelBuilder, step: int = 0, count_and_room: tuple[ag.Reg, ag.Reg] | None = None) -> None:
        """One iteration on. Changes SCC. With a count, not beyond its last iteration; `step` is the number of the next step."""
        assert self.ahead is not None and self.pace is not None
        pace = self.pace
        if count_and_room is not None and step + self.ahead > 0:
            count, pace = count_and_room
            k.s_cmp_gt_u32(count, step + self.ahead)
            k.s_cselect_b32(pace, self.pace, 0)
        for descriptor in self.descriptors.values():
            k.s_add_u32(descriptor[0], descriptor[0], pace)
            k.s_addc_u32(descriptor[1], descriptor[1], 0)
