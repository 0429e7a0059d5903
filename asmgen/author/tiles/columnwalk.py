"""How far the sources of a loop have gone along K: `rows.k(t + 2)` shows the columns of iteration t + 2, at a scalar offset.

One offset serves all sources of a pace, the bytes of a step: the base of a source that is read fewer iterations ahead than others lies as
many steps before its rows.

A source *closes* when its last iteration has been asked for: its descriptor then ends where the offset is, so that a load reads nothing and
costs no traffic. The offset goes on no more. A source that is read an iteration later than the farthest ones has one step left; after that
it reads its last iteration again. A loop that is entered for its last steps alone closes such a source a step after the others: the first
iteration may lie elsewhere (`t.first`), and so is never read again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import TYPE_CHECKING

from asmgen.author.tiles.globals import Rows, Walk, begin_before
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
    own: Reg | None = None

    def take(self, k: KernelBuilder, alone: bool) -> Reg:
        """The SGPR with the offset. A walk that is not `alone` takes one for its pace too."""
        if self.offset is None:
            self.offset = k.hoist(lambda: k.registers.sgprs(1, k.registers.unused("k_offset"),
                                                           note=f"bytes that sources of {self.bytes_} a step have gone along K"))
            if not alone:
                self.own = k.hoist(lambda: k.registers.sgprs(1, k.registers.unused("k_pace"), note="bytes of a step, 0 after the last"))
        return self.offset

    def begin(self, k: KernelBuilder, ahead: int) -> None:
        """Before a loop whose first copy stands `ahead` iterations before the first."""
        if self.offset is not None:
            k.s_mov_b32(self.offset, 0)
        for rows, own in self.ahead.items():
            back = (ahead - own) * self.bytes_
            if back:
                for slack, base in rows.descriptors.items():
                    rows.check_reach(k, slack, back)
                    begin_before(k, base, back)

    def go_on(self, k: KernelBuilder) -> None:
        """A step ends. Changes SCC."""
        if self.offset is not None:
            k.s_add_u32(self.offset, self.offset, self.bytes_ if self.pace is None else self.pace)

    def go_over(self, k: KernelBuilder, ahead: int, farthest: int, ended: Reg) -> None:
        """Its sources that are read `farthest` ahead show the next item's rows from now on, or nothing where `ended` is not 0; the others
        stay. The offset begins anew. Changes SCC."""
        assert self.offset is not None
        start = (ahead - farthest) * self.bytes_
        with k.scratch("bytes_gone", file="s") as gone:
            k.s_sub_u32(gone, self.offset, start)
            for rows, own in self.ahead.items():
                for base in rows.descriptors.values() if own != farthest else ():
                    k.s_add_u32(base[0], base[0], gone)
                    k.s_addc_u32(base[1], base[1], 0)
                    k.s_sub_u32(base[2], base[2], gone)
        k.s_mov_b32(self.offset, start)
        self.show_next(k, ahead, farthest, ended)
        if self.pace is not None:
            k.s_cmp_lg_u32(ended, 0)
            k.s_cselect_b32(self.pace, 0, self.bytes_)

    def show_next(self, k: KernelBuilder, ahead: int, own: int, ended: Reg) -> None:
        """Its sources that are read `own` iterations ahead show the next item's rows, or nothing where `ended` is not 0. Changes SCC."""
        for rows, its in self.ahead.items():
            if its == own:
                rows.show_again(k, (ahead - own) * self.bytes_)
        sizes = self.records(own)
        assert self.offset is not None
        if sizes:
            k.s_cmp_lg_u32(ended, 0)
        for records in sizes:
            k.s_cselect_b32(records, self.offset, records)

    def spare(self, k: KernelBuilder) -> None:
        """Its registers are for whoever needs them: the loop asks for no more."""
        held = [self.offset, self.own, *(descriptor for rows in self.ahead for descriptor in rows.descriptors.values())]
        k.registers.spare(*(one for one in held if one is not None and k.registers.holds(one)), at_need=True)

    def records(self, ahead: int) -> list[Reg]:
        """The sizes in the descriptors of sources that are read so many iterations ahead."""
        return [descriptor[2] for rows, own in self.ahead.items() if own == ahead for descriptor in rows.descriptors.values()]


@dataclass(frozen=True)
class ClosingWalks:
    """All sources of a loop, which close together. Those that go `down` the rows of a matrix go over to the next item of a chain too."""

    walks: tuple[ColumnWalk, ...]
    down: tuple[Walk, ...] = ()

    @property
    def farthest(self) -> int:
        """The iterations ahead of the farthest sources."""
        return max(self._ahead(), default=0)

    def _ahead(self) -> Iterator[int]:
        """The iterations ahead of each."""
        for walk in self.walks:
            yield from walk.ahead.values()
        yield from (rows.ahead for rows in self.down if rows.ahead is not None)

    @property
    def goes_over(self) -> bool:
        """Whether all of them can go over to the next item of a chain."""
        return self.closes and all(rows.goes_over for rows in self.down)

    @property
    def closes(self) -> bool:
        """Whether all of them can: none is read more than an iteration later than the farthest, and each walk but one has its own pace."""
        late = any(self.farthest - own > 1 for own in self._ahead())
        return not late and all(walk.offset is not None for walk in self.walks) and sum(walk.own is None for walk in self.walks) <= 1

    @property
    def instructions(self) -> int:
        """How many instructions open and close them."""
        return sum(2 + len(walk.records(self.farthest)) for walk in self.walks)

    def open(self, k: KernelBuilder, pace: Reg) -> None:
        """The sources are going to close; `pace` is an SGPR that nothing else uses as long as the loop runs."""
        for walk in self.walks:
            walk.pace = pace if walk.own is None else walk.own
            k.s_mov_b32(walk.pace, walk.bytes_)

    def close(self, k: KernelBuilder) -> None:
        """Close the sources; those that are already are not changed."""
        for walk, offset, pace in self._opened():
            for records in walk.records(self.farthest):
                k.s_mov_b32(records, offset)
            k.s_mov_b32(pace, 0)

    def close_if_equal(self, k: KernelBuilder, one: Reg, other: int) -> None:
        """Close the sources if an SGPR has that value. Changes SCC."""
        k.s_cmp_eq_u32(one, other)
        for walk, offset, pace in self._opened():
            for records in walk.records(self.farthest):
                k.s_cselect_b32(records, offset, records)
            k.s_cselect_b32(pace, 0, pace)

    def close_late_if_equal(self, k: KernelBuilder, one: Reg, other: int) -> None:
        """Close those that are read an iteration later than the farthest, if an SGPR has that value. Changes SCC."""
        late = [(records, offset) for walk, offset, _ in self._opened() for records in walk.records(self.farthest - 1)]
        if late:
            k.s_cmp_eq_u32(one, other)
        for records, offset in late:
            k.s_cselect_b32(records, offset, records)

    def spare(self, k: KernelBuilder) -> None:
        """Nothing of them is read in the text from here on."""
        for walk in self.walks:
            walk.spare(k)

    def go_over(self, k: KernelBuilder, ahead: int, ended: Reg) -> None:
        """Before the first step that asks for an iteration of the next item: the farthest sources show its rows, from what registers hold
        now, or nothing where `ended` is not 0. The loop looks `ahead` iterations ahead. Changes SCC."""
        for walk in self.walks:
            walk.go_over(k, ahead, self.farthest, ended)
        self._go_down(k, 0, ended)

    def go_over_late(self, k: KernelBuilder, ahead: int, ended: Reg) -> None:
        """A step later the same for those that are read an iteration later."""
        for walk in self.walks:
            walk.show_next(k, ahead, self.farthest - 1, ended)
        self._go_down(k, 1, ended)

    def _go_down(self, k: KernelBuilder, later: int, ended: Reg) -> None:
        """Those down the rows that are read so many iterations later than the farthest. They go on once more before the later ones read."""
        for rows in self.down:
            if rows.ahead == self.farthest - later:
                rows.show_next(k, later, ended)

    def _opened(self) -> Iterator[tuple[ColumnWalk, Reg, Reg]]:
        """Each walk with its offset and its pace."""
        for walk in self.walks:
            assert walk.offset is not None and walk.pace is not None
            yield walk, walk.offset, walk.pace
