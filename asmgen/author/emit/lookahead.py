"""The frontier that a builder keeps for `peek`. It is built at the first call, advanced as items come, and rebuilt after items moved."""

from __future__ import annotations

from collections.abc import Sequence

from asmgen.checks.frontier.frontier import Frontier
from asmgen.program.program import Instruction, Item, Label, Program


class Lookahead:
    """The frontier after a builder's items. A snapshot is kept at the beginning of a section, so that moving the section's units needs no
    pass over all items before it."""

    def __init__(self, arch: str, stagger: int) -> None:
        self.arch = arch
        self.stagger = stagger
        self._frontier: Frontier | None = None
        self._seen = 0  # the number of items in the frontier
        self._kept: tuple[Frontier, int] | None = None

    def frontier_after(self, items: Sequence[Item], section: int = 0) -> Frontier:
        """The frontier after all items; `section` is the number of the first item that may still move."""
        if self._frontier is None or self._seen < section:
            self._advance(items[:section])
            self._kept = (self._after(section).copy(), section)
        self._advance(items)
        return self._after(len(items))

    def forget(self, start: int) -> None:
        """Items from number `start` on have changed."""
        if self._seen <= start:
            return
        if self._kept is not None and self._kept[1] <= start:
            self._frontier, self._seen = self._kept[0].copy(), self._kept[1]
        else:
            self._frontier, self._seen, self._kept = None, 0, None

    def _after(self, count: int) -> Frontier:
        assert self._frontier is not None and self._seen == count
        return self._frontier

    def _advance(self, items: Sequence[Item]) -> None:
        frontier = self._frontier or Frontier(self.arch, self.stagger)
        for number in range(self._seen, len(items)):
            if frontier.closes_loop(items[number]):
                # It suffices to solve once, up to the last loop that is closed here.
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
