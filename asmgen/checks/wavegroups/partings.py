"""Waves of one workgroup that part at a branch, and do not pass the same number of barriers before they meet again or end.

A barrier lets waves go on when all have arrived at theirs, wherever it stands. So where the waves of a workgroup go different ways, each
way has as many barriers: where one has fewer, its waves are a barrier ahead from there on, or, where none follows, the others wait at
their last one until these have ended.

Waves of a workgroup differ in their work items: arguments and workgroup ids are the same for all. So a branch parts them where its
condition follows from a work item's number, be it by way of data. All other branches have any barriers on their ways.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import and_

from asmgen.checks.wavegroups.outofphase import Phases
from asmgen.isa.records import dataclass
from asmgen.isa.registers import v
from asmgen.program.controlflow import Block, ControlFlow
from asmgen.program.program import Program
from asmgen.regalloc.dataflow import reached, solve

_WORK_ITEM = v[0].mask
_ITS_OWN = "s_getreg_b32"  # what a wave reads of the hardware is its own
_Count = tuple[int, int]
"""Barriers, and by how many others half of the waves is delayed on the way."""


@dataclass(frozen=True)
class Parting:
    """The branch at `position`: barriers that are passed where it is `taken` and where it is not (`passed`), on the ways with the
    fewest, up to the instruction at `meets` or, for None, to the program's end."""

    position: int
    taken: _Count
    passed: _Count
    meets: int | None


class Partings:
    """The branches at which waves part with different numbers of barriers before them, whatever way they go on.

    A branch that delays half of the waves is none of these, as its counterpart stands elsewhere; its barriers count apart from
    others. Nor is a branch after which roles begin, a path that comes to the same barrier again, or waves that end at once.
    """

    def __init__(self, program: Program, flow: ControlFlow, phases: Phases) -> None:
        self._program, self._flow, self._blocks = program, flow, flow.blocks
        self._end = len(flow.blocks)
        self._shifts = [phases.shift(block.number) for block in flow.blocks]
        self._barriers = [0 if block.number and self._shifts[block.number - 1] else
                          sum(program.instructions[position].name == "s_barrier" for position in range(block.first, block.last + 1))
                          for block in flow.blocks]
        followed = [flow.following(block.number) for block in flow.blocks]
        ways = [block.successors for block in flow.blocks]
        shared = reached(ways, [0]) - reached(followed, [0]) if flow.blocks else frozenset()
        one_way = not any(self._barriers[number] for number in shared)  # else the barriers of shared blocks would not count
        self._following = followed if one_way else ways
        self._leading = flow.leading if one_way else [block.predecessors for block in flow.blocks]
        starts = {program.labels[label] for label in program.roles if label in program.labels}
        self._roles = frozenset(block.number for block in flow.blocks if block.first in starts)

    def found(self) -> list[Parting]:
        """All of them, in order."""
        if not any(self._barriers):
            return []
        differ, after = differing_registers(self._program, self._flow), self._after()
        found: list[Parting] = []
        for block in self._blocks:
            tested = self._program.instructions[block.last].reads & differ[block.number]
            parts = tested and len(self._following[block.number]) == 2 and not self._shifts[block.number]
            if parts and after[block.number] >> self._end & 1:
                found += self._judged(block, after)
        return found

    def after_unknown(self, branches: Iterable[int]) -> frozenset[int]:
        """Of branches, by block: blocks that waves come to after they may have parted at one of them before barriers."""
        differ, after = differing_registers(self._program, self._flow), self._after()
        following = self._following
        found: frozenset[int] = frozenset()
        for number in branches:
            block = self._blocks[number]
            if self._program.instructions[block.last].reads & differ[number]:
                common = after[number] & ~(1 << number)
                meets = next((one for one in range(self._end + 1) if common >> one & 1 and after[one] == common), self._end)
                region = reached([[one for one in ways if one != meets] for ways in following], following[number])
                if any(self._barriers[one] or self._shifts[one] for one in region - {meets}):
                    found |= reached(following, following[number])
        return found

    def _judged(self, block: Block, after: Sequence[int]) -> Iterator[Parting]:
        """The branch at a block's end, where it is one."""
        common = after[block.number] & ~(1 << block.number)
        meets = next(number for number in range(self._end + 1) if common >> number & 1 and after[number] == common)
        following = [[one for one in ways if one != meets] for ways in self._following]
        region = reached(following, following[block.number])
        if block.number in region or region & self._roles or not any(self._barriers[one] or self._shifts[one] for one in region):
            return
        ways = [self._counts(successor, meets, region) for successor in self._following[block.number]]
        if not all(ways) or ways[0] & ways[1] or meets == self._end and (0, 0) in ways[0] | ways[1]:
            return
        first = self._blocks[self._following[block.number][0]].first
        if self._program.labels.get(self._program.instructions[block.last].target or "") != first:
            ways.reverse()
        yield Parting(block.last, min(ways[0]), min(ways[1]), None if meets == self._end else self._blocks[meets].first)

    def _after(self) -> list[int]:
        """Of each block, as bits, itself and the blocks that every way from it comes to; the last bit, and the last entry, are the end."""
        every = (2 << self._end) - 1
        ends = [every if following else 1 << self._end for following in self._following]
        solution = solve(self._following, ends, lambda number, mask: mask | 1 << number, and_)
        return [*solution.at_exit, 1 << self._end]

    def _counts(self, start: int, meets: int, region: frozenset[int]) -> frozenset[_Count]:
        """The numbers of barriers on the ways from a block to where waves meet again; nothing where one comes to a barrier twice."""
        if start == meets:
            return frozenset({(0, 0)})
        most = sum(self._barriers[number] for number in region)
        farthest = sum(abs(self._shifts[number]) for number in region)
        numbers = sorted(region)
        location = {number: at for at, number in enumerate(numbers)}
        sources = [[location[one] for one in self._leading[number] if one in location] for number in numbers]
        begun = [frozenset({(0, 0)}) if number == start else frozenset[_Count]() for number in numbers]

        def after(at: int, counts: frozenset[_Count]) -> frozenset[_Count]:
            number = numbers[at]
            return frozenset((min(most + 1, count + self._barriers[number]),
                              max(-farthest - 1, min(farthest + 1, shift + self._shifts[number]))) for count, shift in counts)

        left = solve(sources, begun, after, frozenset.union).at_exit
        if any(count > most or abs(shift) > farthest for counts in left for count, shift in counts):
            return frozenset()
        last = [counts for number, counts in zip(numbers, left, strict=True)
                if meets in self._following[number] or meets == self._end and not self._following[number]]
        return frozenset().union(*last)


def differing_registers(program: Program, flow: ControlFlow, loads: bool = True) -> Sequence[int]:
    """The registers that may differ among the waves of a workgroup, as bits, after each block. Without `loads`, what is loaded from
    addresses that differ is taken for the same."""
    steps = [[(instruction.reads if loads or instruction.opcode.memory is None else 0, instruction.writes, instruction.name == _ITS_OWN)
              for instruction in program.instructions[block.first:block.last + 1] if instruction.writes] for block in flow.blocks]

    def after(number: int, differ: int) -> int:
        for reads, writes, own in steps[number]:
            differ = differ | writes if own or reads & differ else differ & ~writes
        return differ

    entries = {0, program.labels.get(program.entry, 0)}
    start = [_WORK_ITEM if block.first in entries else 0 for block in flow.blocks]
    return solve([block.predecessors for block in flow.blocks], start, after, lambda one, other: one | other).at_exit
