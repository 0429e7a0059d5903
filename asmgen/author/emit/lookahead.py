"""The frontier that a builder keeps for `peek`: made when first asked for, advanced as items come, made anew where items were moved."""

from __future__ import annotations

from collections.abc import Sequence

from asmgen.checks.frontier.frontier import Frontier
from asmgen.program.program import Instruction, Item, Label, Program


class Lookahead:
    """The frontier behind a builder's items. Where a section begins a copy is kept, so that placing it anew does not cost a pass over
    all that stands before it."""

    def __init__(self, arch: str, stagger: int) -> None:
        self.arch = arch
        self.stagger = stagger
        self._frontier: Frontier | None = None
        self._seen = 0  # items that it has passed
        self._kept: tuple[Frontier, int] | None = None

    def behind(self, items: Sequence[Item], section: int = 0) -> Frontier:
        """The frontier behind all items; `section` is the number of the item with which a section that may be moved begins."""
        if self._frontier is None or self._seen < section:
            self._advance(items[:section])
            self._kept = (self._behind(section).copy(), section)
        self._advance(items)
        return self._behind(len(items))

    def forget(self, start: int) -> None:
        """Items from number `start` on are not what they were."""
        if self._seen <= start:
            return
        if self._kept is not None and self._kept[1] <= start:
            self._frontier, self._seen = self._kept[0].copy(), self._kept[1]
        else:
            self._frontier, self._seen, self._kept = None, 0, None

    def _behind(self, count: int) -> Frontier:
        assert self._frontier is not None and self._seen == count
        return self._frontier

    def _advance(self, items: Sequence[Item]) -> None:
        frontier = self._frontier or Frontier(self.arch, self.stagger)
        for number in range(self._seen, len(items)):
            if frontier.closes_loop(items[number]):
                # Only the last loop that is closed here has to be solved, with all before it.
                frontier = self._solved(items)
                break
            frontier.place(items[number])
        self._frontier, self._seen = frontier, len(items)

    def _solved(self, items: Sequence[Item]) -> Frontier:
        placed: set[str] = set()
        last = 0
        for number, item in enumerate(items):
            if isinstance(item, Label):
                placed.add(item.name)
            elif isinstance(item, Instruction) and item.is_branch and item.target in placed:
                last = number
        frontier = Frontier.after(Program("", self.arch, tuple(items[:last + 1]), self.stagger))
        for item in items[last + 1:]:
            frontier.place(item)
        return frontier
