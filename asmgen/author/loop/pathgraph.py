"""The copies of a step that stand in a pipeline's text, and the ways that counts take through them.

`author/loop/pathcheck.py` checks each way against emission order; the kernel's .json has the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from asmgen.author.step.effects import Unit
from asmgen.isa.records import dataclass

EXIT = "exit"
"""The kind of a copy that a wave leaves early: after that it has only the units that are still required."""


@dataclass(frozen=True)
class PathCopy:
    """A copy of the step, or a prologue, which is a copy of several steps together.

    `placed` are the units in the order of the text, each with its step, counted from the copy's first one: one that leads belongs to the
    step after the copy's. The path goes on `steps` steps. `label` is that at the copy's beginning, "" without one.
    """

    kind: str
    label: str
    phase: int
    steps: int
    masked: bool
    placed: tuple[tuple[int, Unit], ...]

    def as_json(self) -> dict[str, Any]:
        """JSON values."""
        return {"kind": self.kind, "label": self.label, "phase": self.phase, "steps": self.steps, "masked": self.masked,
                "units": len(self.placed)}


@dataclass(frozen=True)
class PathChoice:
    """What decides a way: the count; how many first iterations need no masked operations (None: the loop does not ask); whether an
    overlapped epilogue serves the wave; and how many of the last iterations the wave skips."""

    count: int
    plain: int | None = None
    served: bool = False
    skipped: int = 0


Way = Callable[[PathChoice], Sequence[int]]
"""The copies that a choice runs through, by number."""


@dataclass(frozen=True)
class PathGraph:
    """`offsets` are the iterations ahead by ordinal, `ahead` the farthest one, `peel` the steps with a copy of their own at the beginning.
    `known` is the only count, None for all. `asks` says whether some first iterations may need no masked operations, `overlaps` whether an
    epilogue overlaps the last step, `skips` how many last iterations a wave may skip. `least` is the smallest count; in a chain of `items`
    a choice's count is that of so many of them together. `masked_end` is the most last iterations that may need masked operations."""

    copies: tuple[PathCopy, ...]
    way: Way
    offsets: Mapping[int, int]
    ahead: int
    unroll: int
    peel: int = 0
    known: int | None = None
    asks: bool = False
    overlaps: bool = False
    skips: int = 0
    least: int = 1
    items: int = 1
    masked_end: int | None = None

    def choices(self, more: int = 0) -> Iterator[PathChoice]:
        """Choices that run each copy in each of its neighbourhoods, and `more` counts."""
        end = self.least + self.ahead + self.peel + 2 * self.unroll + more
        counts = range(self.least * self.items, end * self.items, self.items) if self.known is None else (self.known,)
        for count in counts:
            least = 0 if self.masked_end is None else max(count - self.masked_end, 0)
            for plain in range(least, count + 1) if self.asks else (None,):
                for skipped in range(min(self.skips, count - 1) + 1):
                    for served in (False, True) if self.overlaps else (False,):
                        yield PathChoice(count, plain, served, skipped)

    def as_json(self) -> dict[str, Any]:
        """The copies by number, and the least count that goes from one to another (None: from the code before the pipeline, or on to the
        code after it). Counts that are equal modulo `unroll` go the same ways but for rounds of a loop."""
        least: dict[tuple[int | None, int | None], int] = {}
        for choice in self.choices():
            for edge in pairwise([None, *self.way(choice), None]):
                least.setdefault(edge, choice.count)
        return {"unroll": self.unroll, "ahead": self.ahead, "copies": [copy.as_json() for copy in self.copies],
                "edges": [{"from": start, "to": end, "count": count} for (start, end), count in least.items()]}
