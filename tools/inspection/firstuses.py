"""How far after a load its data is first used: the shortest way through the control-flow graph, in instructions and matrix cycles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import accumulate
from statistics import median
from typing import Any

from asmgen.isa.registers import VGPR_COUNT
from asmgen.program.controlflow import ControlFlow
from asmgen.program.program import Program

LOADS = ("lds_read", "global_load")
"""The groups whose data is followed."""
_VECTORS = (1 << 2 * VGPR_COUNT) - 1  # both files


@dataclass(frozen=True)
class FirstUse:
    """A load and the nearest instruction that reads what it brings: `instructions` is 1 where that comes right after; `mfma` and
    `matrix_cycles` are those of the matrix instructions between. `use` is None where nothing reads it."""

    position: int
    group: str
    use: int | None
    instructions: int = 0
    mfma: int = 0
    matrix_cycles: int = 0

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return dict(vars(self))


@dataclass(frozen=True)
class UseSummary:
    """The distances of the loads of one group in a stretch of code: least, median and most."""

    group: str
    loads: int
    unused: int
    instructions: tuple[int, float, int]
    matrix_cycles: tuple[int, float, int]

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return {"loads": self.loads, "unused": self.unused, "instructions": _named(self.instructions),
                "matrix_cycles": _named(self.matrix_cycles)}


def _named(values: tuple[int, float, int]) -> dict[str, float]:
    return dict(zip(("min", "median", "max"), values, strict=True))


def first_uses(program: Program, flow: ControlFlow, groups: Sequence[str], cycles: Sequence[int]) -> tuple[FirstUse, ...]:
    """Every load of LOADS that brings vector registers; `cycles` are what each instruction occupies the matrix core for, by position."""
    reads = [instruction.reads & _VECTORS for instruction in program.instructions]
    writes = [instruction.writes & _VECTORS for instruction in program.instructions]
    search = _UseSearch(flow, reads, writes, [0, *accumulate(cycles)], [0, *accumulate(int(clocks > 0) for clocks in cycles)])
    return tuple(search.first_use(position, group) for position, group in enumerate(groups) if group in LOADS and writes[position])


def summarise(uses: Iterable[FirstUse]) -> tuple[UseSummary, ...]:
    """By group."""
    found = []
    every = tuple(uses)
    for group in LOADS:
        mine = [use for use in every if use.group == group]
        used = [use for use in mine if use.use is not None]
        if mine:
            found.append(UseSummary(group, len(mine), len(mine) - len(used), _spread([use.instructions for use in used]),
                                    _spread([use.matrix_cycles for use in used])))
    return tuple(found)


def _spread(values: Sequence[int]) -> tuple[int, float, int]:
    return (min(values), median(values), max(values)) if values else (0, 0, 0)


_Way = tuple[int, int, int, tuple[int, int]]
"""Instructions to the entry of a block, its number, registers still unread, matrix instructions passed and their cycles."""


class _UseSearch:
    """`cycles` and `matrix` count from the program's start to before each position."""

    def __init__(self, flow: ControlFlow, reads: list[int], writes: list[int], cycles: list[int], matrix: list[int]) -> None:
        self.flow, self.reads, self.writes, self.cycles, self.matrix = flow, reads, writes, cycles, matrix
        self.block_reads = [_union(reads[block.first:block.last + 1]) for block in flow.blocks]
        self.block_writes = [_union(writes[block.first:block.last + 1]) for block in flow.blocks]

    def first_use(self, position: int, group: str) -> FirstUse:
        """Blocks in order of their distance from the load, each again only for registers that a longer way has left to be read."""
        first = self.flow.block_of[position]
        last = self.flow.blocks[first].last
        use, left = self._within(position + 1, last, self.writes[position])
        if use is not None:
            return self._found(position, group, use, use - position, position + 1, (0, 0))
        queue: list[_Way] = []
        seen: dict[int, int] = {}
        nearest = FirstUse(position, group, None)
        self._push(queue, first, last + 1 - position, left, self._between(position + 1, last + 1, (0, 0)))
        while queue and (nearest.use is None or queue[0][0] < nearest.instructions):
            steps, number, left, before = heappop(queue)
            if not left & ~seen.get(number, 0):
                continue
            seen[number] = seen.get(number, 0) | left
            block = self.flow.blocks[number]
            use = None
            if left & self.block_reads[number]:
                use, left = self._within(block.first, block.last, left)
            else:
                left &= ~self.block_writes[number]
            if use is None:
                self._push(queue, number, steps + block.last + 1 - block.first, left, self._between(block.first, block.last + 1, before))
            elif nearest.use is None or steps + use - block.first < nearest.instructions:
                nearest = self._found(position, group, use, steps + use - block.first, block.first, before)
        return nearest

    def _between(self, begin: int, end: int, before: tuple[int, int]) -> tuple[int, int]:
        """Matrix instructions and their cycles up to before `end`, those before `begin` being `before`."""
        return before[0] + self.matrix[end] - self.matrix[begin], before[1] + self.cycles[end] - self.cycles[begin]

    def _push(self, queue: list[_Way], number: int, steps: int, left: int, before: tuple[int, int]) -> None:
        if left:
            for successor in self.flow.blocks[number].successors:
                heappush(queue, (steps, successor, left, before))

    def _within(self, first: int, last: int, left: int) -> tuple[int | None, int]:
        """The first reader of registers in `left`, and what is not overwritten after the last instruction."""
        for position in range(first, last + 1):
            if self.reads[position] & left:
                return position, left
            left &= ~self.writes[position]
            if not left:
                break
        return None, left

    def _found(self, position: int, group: str, use: int, instructions: int, begin: int, before: tuple[int, int]) -> FirstUse:
        return FirstUse(position, group, use, instructions, *self._between(begin, use, before))


def _union(masks: Sequence[int]) -> int:
    total = 0
    for mask in masks:
        total |= mask
    return total
