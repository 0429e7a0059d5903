"""Waves of different roles: whose barriers meet, compared by ordinal on every path, and what that asks of tokens.

A workgroup's barrier lets waves go on when all have arrived at theirs, wherever it stands: the first of one role's code meets the first of
another's, and so on. From there both go on along their paths to the next. Paths that decide otherwise do not meet: a turn at a branch,
and each write of a register that decides, is compared by its text, as roles that share a count run the same scalar code on it. Where
the texts fit nowhere (or are not scalar), every pair of paths is taken as possible.

A fill must have been waited for before the barrier after whose counterpart another role reads, a read before that after whose
counterpart another role refills; between the same two barriers no role may read what another fills.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from itertools import combinations, product

from asmgen.checks.counters.ledger import Operation
from asmgen.checks.counters.tokens import shared
from asmgen.isa.records import dataclass
from asmgen.isa.registers import scc
from asmgen.program.controlflow import ControlFlow
from asmgen.program.program import Instruction, Program

_MOST_PATHS = 512
"""Ways from one barrier to the next that are told apart."""
_MOST_DECISIONS = 64
"""Turns by which one role is ahead of the other."""


@dataclass(frozen=True)
class Stretch:
    """What lies after a barrier (or a role's entry) up to the next one at position `end`, None where the role's barriers and LDS accesses
    end: the `turns` on the way, and the positions of operations with tokens."""

    end: int | None
    decisions: tuple[str, ...]
    members: frozenset[int]


@dataclass
class MetBarriers:
    """By the position of a barrier, the operations of other roles that follow the barriers it meets; and pairs (reader, filler) of
    different roles' operations on the same bytes between the same barriers."""

    after: dict[int, set[int]] = field(default_factory=dict)
    together: set[tuple[int, int]] = field(default_factory=set)


def meetings(program: Program, flow: ControlFlow, operations: Sequence[Operation]) -> MetBarriers:
    """How the barriers of a program's roles meet; nothing for a program without roles."""
    found = MetBarriers()
    entries = [program.labels[label] for label in program.roles if program.labels.get(label, len(program)) < len(program)]
    roles = [_Role(program, flow, operations, entry) for entry in entries]
    for one, other in combinations(roles, 2):
        _meet(one, other, operations, found)
    return found


def _meet(one: _Role, other: _Role, operations: Sequence[Operation], found: MetBarriers) -> None:
    """Go along both roles' barriers at once. A state is where each stands, and the turns by which one (the first where `mine`) is ahead."""
    deciding = one.deciding & other.deciding
    waiting: list[tuple[int, int, tuple[str, ...], bool]] = [(one.entry, other.entry, (), True)]
    seen = set(waiting)
    while waiting:
        first, second, lead, mine = waiting.pop()
        pairs = []
        for left, right in product(one.stretches(first, deciding), other.stretches(second, deciding)):
            rest = _rest((*lead, *left.decisions) if mine else left.decisions, right.decisions if mine else (*lead, *right.decisions))
            if rest is not None:
                pairs.append((left, right, *rest))
        if not pairs:
            pairs = [(left, right, (), True) for left, right in product(one.stretches(first, 0), other.stretches(second, 0))]
        for left, right, more, ahead in pairs:
            found.after.setdefault(first - 1, set()).update(right.members)
            found.after.setdefault(second - 1, set()).update(left.members)
            found.together.update(_clashes(left.members, right.members, operations), _clashes(right.members, left.members, operations))
            if left.end is not None and right.end is not None:
                known = len(more) <= _MOST_DECISIONS
                state = left.end + 1, right.end + 1, more if known else (), ahead if known else True
                if state not in seen:
                    seen.add(state)
                    waiting.append(state)


def _rest(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[tuple[str, ...], bool] | None:
    """The turns by which one of two is ahead, and whether it is the first; None where they part."""
    both = min(len(one), len(other))
    if one[:both] != other[:both]:
        return None
    return one[both:] or other[both:], len(one) >= len(other)


def _clashes(readers: Iterable[int], fillers: Iterable[int], operations: Sequence[Operation]) -> Iterator[tuple[int, int]]:
    for reader, filler in product(readers, fillers):
        if shared(operations[reader].uses, operations[filler].fills):
            yield reader, filler


class _Role:
    """The code of one role, from its entry to where no barrier and no token follows."""

    def __init__(self, program: Program, flow: ControlFlow, operations: Sequence[Operation], entry: int) -> None:
        self.instructions, self.flow, self.operations, self.entry = program.instructions, flow, operations, entry
        self._labels = program.labels
        self._matters = self._leading_on()
        self._blocks = self._reached()
        self.deciding = self._deciding()
        self._known: dict[tuple[int, int], tuple[Stretch, ...]] = {}

    def _leading_on(self) -> set[int]:
        """Blocks from which a barrier or an operation with tokens is reached."""
        blocks = self.flow.blocks
        found = {block.number for block in blocks for position in range(block.first, block.last + 1)
                 if self.operations[position].barrier or self._tells(position)}
        waiting = list(found)
        while waiting:
            for number in blocks[waiting.pop()].predecessors:
                if number not in found:
                    found.add(number)
                    waiting.append(number)
        return found

    def _reached(self) -> set[int]:
        found, waiting = set(), [self.flow.block_of[self.entry]]
        while waiting:
            number = waiting.pop()
            if number not in found and number in self._matters:
                found.add(number)
                waiting += self.flow.blocks[number].successors
        return found

    def _tells(self, position: int) -> bool:
        return bool(self.operations[position].fills or self.operations[position].uses)

    # ---- what decides ----

    def _deciding(self) -> int:
        """The scalar registers, as bits, from which branches on SCC follow; 0 where vector code or SCC itself goes into them."""
        found = 0
        for number in self._blocks:
            branch = self.flow.blocks[number].last
            if self._on_scc(self.instructions[branch]):
                for position in self._last_writers(branch):
                    found |= self.instructions[position].reads
        while True:
            before = found
            for number in self._blocks:
                block = self.flow.blocks[number]
                for instruction in self.instructions[block.first:block.last + 1]:
                    if instruction.writes & found & ~scc.mask:
                        if not instruction.name.startswith("s_") or instruction.reads & scc.mask:
                            return 0
                        found |= instruction.reads
            if found == before:
                return found & ~scc.mask

    @staticmethod
    def _on_scc(instruction: Instruction) -> bool:
        return instruction.name.startswith("s_cbranch_scc")

    def _last_writers(self, branch: int) -> set[int]:
        """Which instructions may have written SCC last before a branch."""
        found: set[int] = set()
        seen: set[int] = set()
        waiting = [(branch - 1, self.flow.block_of[branch])]
        while waiting:
            position, number = waiting.pop()
            block = self.flow.blocks[number]
            while position >= block.first and not self.instructions[position].writes & scc.mask:
                position -= 1
            if position >= block.first:
                found.add(position)
                continue
            for before in block.predecessors:
                if before not in seen:
                    seen.add(before)
                    waiting.append((self.flow.blocks[before].last, before))
        return found

    # ---- stretches ----

    def stretches(self, start: int, deciding: int) -> tuple[Stretch, ...]:
        """The ways from a position, with turns on those registers; one for each end, without turns, where they are too many."""
        key = start, deciding
        if key not in self._known:
            found = self._walk(start, deciding) if deciding else None
            self._known[key] = self._merged(start) if found is None else found
        return self._known[key]

    def _walk(self, start: int, deciding: int) -> tuple[Stretch, ...] | None:
        found: dict[tuple[int | None, tuple[str, ...]], frozenset[int]] = {}
        waiting: list[tuple[int, tuple[str, ...], frozenset[int], frozenset[int]]] = [(start, (), frozenset(), frozenset())]
        paths = 0
        while waiting:
            position, decisions, members, passed = waiting.pop()
            number = self.flow.block_of[position]
            paths += 1
            if position in passed or paths > _MOST_PATHS:
                return None
            end, decisions, members = self._go(position, decisions, members, deciding)
            block = self.flow.blocks[number]
            following = block.successors if end is None else ()
            compared = self._compared(block.last, deciding) if len(following) > 1 else ""
            if not following:
                found[end, decisions] = found.get((end, decisions), frozenset()) | members
            for one in following:
                first = self.flow.blocks[one].first
                way = "taken" if self._labels.get(self.instructions[block.last].target or "") == first else "passed"
                gone = (*decisions, f"{compared}: {way}") if compared else decisions
                if one in self._blocks:
                    waiting.append((first, gone, members, passed | {position}))
                else:
                    found[None, gone] = found.get((None, gone), frozenset()) | members
        return tuple(Stretch(end, decisions, members) for (end, decisions), members in found.items())

    def _go(self, position: int, decisions: tuple[str, ...], members: frozenset[int], deciding: int
            ) -> tuple[int | None, tuple[str, ...], frozenset[int]]:
        """From a position to the end of its block or to a barrier, whose position comes first."""
        for at in range(position, self.flow.blocks[self.flow.block_of[position]].last + 1):
            if self.operations[at].barrier:
                return at, decisions, members
            if self._tells(at):
                members |= {at}
            if self.instructions[at].writes & deciding:
                decisions += (self.instructions[at].text,)
        return None, decisions, members

    def _compared(self, branch: int, deciding: int) -> str:
        """A branch with what it tests, "" where that is not among what is compared."""
        instruction = self.instructions[branch]
        writers = self._last_writers(branch) if self._on_scc(instruction) else set()
        if not writers or any(self.instructions[position].reads & ~deciding for position in writers):
            return ""
        return "; ".join([instruction.name, *sorted(self.instructions[position].text for position in writers)])

    def _merged(self, start: int) -> tuple[Stretch, ...]:
        """A stretch for each next barrier, with all that stands on any way to any."""
        ends: set[int | None] = set()
        members: frozenset[int] = frozenset()
        waiting, seen = [start], {start}
        while waiting:
            position = waiting.pop()
            end, _, more = self._go(position, (), frozenset(), 0)
            members |= more
            every = self.flow.blocks[self.flow.block_of[position]].successors if end is None else ()
            if end is not None or not every or any(one not in self._blocks for one in every):
                ends.add(end)
            for first in [self.flow.blocks[one].first for one in every if one in self._blocks]:
                if first not in seen:
                    seen.add(first)
                    waiting.append(first)
        return tuple(Stretch(end, (), members) for end in ends)
