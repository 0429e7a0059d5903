"""How far the sources of a loop have gone along K: `rows.k(t + 2)` shows the columns of iteration t + 2, at a scalar offset.

One offset serves all sources of a pace, the bytes of a step: the base of a source that is read fewer iterations ahead than others lies as
many steps before its rows.

A source *closes* when its last iteration has been asked for: its descriptor then ends where the offset is, so that a load reads nothing and
costs no traffic. The offset goes on no more. A source that is read an iteration later than the farthest ones has one step left; after that
it reads its last iteration again.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from asmgen.author.tiles.globals import Rows
from asmgen.isa.records import dataclass
from asmgen.isa.registers import Reg

if TYPE_CHECKING:
    from asmgen.author.emit.kernel import KernelBuilder


@dataclass(eq=False)
class ColumnWalk:
    """`bytes_` are those of a step. `ahead` says for each source how many iterations ahead it is read. `pace` is what a step adds to the
    offset: an SGPR for sources that close."""

    bytes_: int
    ahead: dict[Rows, int] = field(default_factory=dict)
    offset: Reg | None = None
    pace: Reg | None = None

    def take(self, k: KernelBuilder) -> Reg:
        """The SGPR with the offset."""
        if self.offset is None:
            self.offset = k.hoist(lambda: k.registers.sgprs(1, k.registers.unused("k_offset"),
                                                           note=f"bytes that sources of {self.bytes_} a step have gone along K"))
        return self.offset

    @property
    def farthest(self) -> int:
        """The iterations ahead of the farthest sources."""
        return max(self.ahead.values(), default=0)

    @property
    def closes(self) -> bool:
        """Whether all sources can close: none is read more than an iteration later than the farthest."""
        return self.offset is not None and self.farthest - min(self.ahead.values()) <= 1

    def begin(self, k: KernelBuilder, ahead: int) -> None:
        """Before a loop whose first copy stands `ahead` iterations before the first."""
        if self.offset is not None:
            k.s_mov_b32(self.offset, 0)
        for rows, own in self.ahead.items():
            back = (ahead - own) * self.bytes_
            if back:
                for slack, base in rows.descriptors.items():
                    rows.check_reach(k, slack, back)
                    k.s_sub_u32(base[0], base[0], back)
                    k.s_subb_u32(base[1], base[1], 0)
                    k.s_add_u32(base[2], base[2], back)

    def go_on(self, k: KernelBuilder) -> None:
        """A step ends. Changes SCC."""
        if self.offset is not None:
            k.s_add_u32(self.offset, self.offset, self.bytes_ if self.pace is None else self.pace)

    def open(self, k: KernelBuilder, pace: Reg) -> None:
        """The sources are going to close; `pace` is an SGPR that nothing else uses as long as the loop runs."""
        self.pace = pace
        k.s_mov_b32(pace, self.bytes_)

    def close(self, k: KernelBuilder) -> None:
        """Close the sources; those that are already are not changed."""
        assert self.pace is not None and self.offset is not None
        for records in self._records():
            k.s_mov_b32(records, self.offset)
        k.s_mov_b32(self.pace, 0)

    def close_if_equal(self, k: KernelBuilder, one: Reg, other: int) -> None:
        """Close the sources if an SGPR has that value. Changes SCC."""
        assert self.pace is not None and self.offset is not None
        k.s_cmp_eq_u32(one, other)
        for records in self._records():
            k.s_cselect_b32(records, self.offset, records)
        k.s_cselect_b32(self.pace, 0, self.pace)

    def _records(self) -> list[Reg]:
        """The sizes in the descriptors of the farthest sources."""
        return [descriptor[2] for rows, own in self.ahead.items() if own == self.farthest for descriptor in rows.descriptors.values()]
