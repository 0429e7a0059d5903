"""What two waves compute alike in code of their own, as a producer and a consumer that count the same steps.

Two waves part at a branch that each decides for itself. Scalar registers that are the same for both there stay so as long as both run the
same instructions on them, in the same order: each is compared by its text, and where SCC decides, by its bit. So the code that leads to a
branch is *followed* if it is all scalar and reads nothing but such registers, constants and what followed code made. One wave may come to
code of its own before common code and the other after it, so nothing is followed that reads what common code between writes. Where the
two run something else on such registers, nothing is known any more of what they decide (`twowaves`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import reduce
from operator import or_

from asmgen.checks.raceproofs.valuepaths import ValuePaths
from asmgen.isa.records import dataclass
from asmgen.isa.registers import NAMED, SCC_BIT
from asmgen.regalloc.dataflow import reached

_SCC = 1 << SCC_BIT
_NOT_SCALAR = NAMED["exec"].mask | NAMED["vcc"].mask


@dataclass(frozen=True)
class AlikeWays:
    """Where two waves decide alike: `branches` are blocks at whose ends they do, each at its n-th time there. In nodes `inside`, which are
    of code of their own, they compute alike at the positions `computed`, and by SCC at the ends of the blocks in `decided`, if all before
    was alike: by block the one that a taken branch goes to, and whether it is taken for 0. `own` says whether the two may pass barriers on
    ways of their own by decisions that are compared with nothing."""

    branches: frozenset[int]
    own: bool
    inside: frozenset[int] = frozenset()
    computed: frozenset[int] = frozenset()
    decided: Mapping[int, tuple[int, int]] = field(default_factory=dict)

    def __hash__(self) -> int:
        return hash((self.branches, self.inside, self.computed))


class AlikeCode:
    """The code that is the same for two waves in nodes `inside`, as far as barriers are `ahead` (nodes too). `alone` says by position
    whether an instruction brings a wave something of its own, `differ` what registers may differ after each node, `free` are blocks that
    waves come to again without a barrier."""

    def __init__(self, paths: ValuePaths, inside: frozenset[int], ahead: frozenset[int], alone: Sequence[bool], differ: Sequence[int],
                 free: frozenset[int]) -> None:
        self._instructions, self._flow, self._labels = paths.program.instructions, paths.flow, paths.program.labels
        self._alone, self._free = alone, free
        self._blocks = frozenset(paths.nodes[number].block for number in inside & ahead)
        self._entering = -1 if not inside.isdisjoint(paths.starts) else 0
        """Registers, as bits, that may differ where waves come to this code."""
        for node in paths.nodes:
            if node.number not in inside and any(way in inside for way in node.ways):
                self._entering |= differ[node.number]
            if node.number not in inside and node.block in self._blocks:
                self._entering = -1
        self._between = _written_between(paths, inside & ahead)

    def followed(self) -> tuple[frozenset[int], dict[int, tuple[int, int]]]:
        """The positions of followed code, and the branches that it decides."""
        computed: frozenset[int] = frozenset()
        decided = {}
        for number in self._blocks - self._free if self._entering >= 0 else ():
            target = self._target(number)
            code = None if target is None else self._code_of(self._flow.blocks[number].last)
            if target is not None and code is not None:
                computed |= code
                decided[number] = target, int(self._instructions[self._flow.blocks[number].last].name == "s_cbranch_scc0")
        return computed, decided

    def _target(self, number: int) -> int | None:
        """Where a branch on SCC goes that does not fall through to the same place."""
        block = self._flow.blocks[number]
        branch = self._instructions[block.last]
        if branch.name not in ("s_cbranch_scc0", "s_cbranch_scc1") or len(block.successors) < 2 or branch.target is None:
            return None
        return self._flow.block_of[self._labels[branch.target]]

    def _code_of(self, branch: int) -> frozenset[int] | None:
        """The positions of all code that leads to a branch on SCC; None where some of it is not alike."""
        found: set[int] = set()
        registers, waiting = 0, [branch]
        while waiting:
            writers = self._writers_of_scc(waiting.pop())
            if writers is None:
                return None
            fresh = writers - found
            while fresh:
                found |= fresh
                waiting += [position for position in fresh if self._instructions[position].reads & _SCC]
                for position in fresh:
                    registers |= self._instructions[position].reads & ~_SCC
                if registers & (self._entering | self._between) or registers & _NOT_SCALAR or not all(map(self._alike, fresh)):
                    return None
                fresh = self._writers(registers) - found
        return frozenset(found)

    def _alike(self, position: int) -> bool:
        block, name = self._flow.block_of[position], self._instructions[position].name
        return name.startswith("s_") and name != "s_getpc_b64" and not self._alone[position] and block not in self._free

    def _writers(self, registers: int) -> set[int]:
        """Where this code writes any of some registers."""
        blocks = [self._flow.blocks[number] for number in self._blocks]
        return {position for block in blocks for position in range(block.first, block.last + 1)
                if self._instructions[position].writes & registers}

    def _writers_of_scc(self, reader: int) -> set[int] | None:
        """Which instructions may have written SCC last before another; None where that may be other code."""
        found: set[int] = set()
        waiting, seen = [(reader - 1, self._flow.block_of[reader])], set[int]()
        while waiting:
            position, number = waiting.pop()
            block = self._flow.blocks[number]
            while position >= block.first and not self._instructions[position].writes & _SCC:
                position -= 1
            if position >= block.first:
                found.add(position)
                continue
            if not block.predecessors or not self._blocks.issuperset(block.predecessors):
                return None
            for before in block.predecessors:
                if before not in seen:
                    seen.add(before)
                    waiting.append((self._flow.blocks[before].last, before))
        return found


def _written_between(paths: ValuePaths, own: frozenset[int]) -> int:
    """The registers, as bits, that common code writes after nodes `own` and before them again."""
    ways = [node.ways for node in paths.nodes]
    leading: list[list[int]] = [[] for _ in ways]
    for node in paths.nodes:
        for way in node.ways:
            leading[way].append(node.number)
    between = (reached(ways, sorted(own)) & reached(leading, sorted(own))) - own
    blocks = [paths.flow.blocks[number] for number in {paths.nodes[one].block for one in between}]
    return reduce(or_, (one.writes for block in blocks for one in paths.program.instructions[block.first:block.last + 1]), 0)
