"""Where control may go in a program, as the emulator's checks walk it: straight pieces and what follows each.

The passes have a graph of their own (program/controlflow.py); a judge that walked it would share its mistakes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from asmgen.program.program import Program


@dataclass(frozen=True)
class WayPiece:
    """Instructions `first` to `last` (positions) that run in order; `following` are numbers of pieces, None where it is not known which."""

    first: int
    last: int
    following: tuple[int, ...] | None


class Ways:
    """The pieces of a program in order, and the number of each position's piece.

    A branch to a label that the program does not have, and one past its end, leaves it.
    """

    def __init__(self, program: Program) -> None:
        instructions, labels = program.instructions, program.labels
        end = len(instructions)
        goes: dict[int, list[int]] = {}  # after an instruction that does not just go on: positions
        lost: set[int] = set()
        begins = {0, *labels.values()}
        for position, instruction in enumerate(instructions):
            if not (instruction.is_branch or instruction.ends_block):
                continue
            begins.add(position + 1)
            onward = [] if instruction.ends_block else [position + 1]
            if instruction.target is not None:
                onward.append(labels.get(instruction.target, end))
            elif instruction.is_branch:
                lost.add(position)
            goes[position] = onward
        firsts = sorted(first for first in begins if first < end)
        number_of = {first: number for number, first in enumerate(firsts)}
        self.pieces: list[WayPiece] = []
        self.piece_of: list[int] = []
        for number, first in enumerate(firsts):
            last = (firsts[number + 1] if number + 1 < len(firsts) else end) - 1
            onward = goes.get(last, [last + 1])
            following = tuple(dict.fromkeys(number_of[location] for location in onward if location in number_of))
            self.pieces.append(WayPiece(first, last, None if last in lost else following))
            self.piece_of += [number] * (last + 1 - first)
        self.onward: list[tuple[int, ...]] = [tuple(goes.get(piece.last, [piece.last + 1])) for piece in self.pieces]

    def following(self, number: int, anywhere: bool) -> tuple[int, ...]:
        """The pieces after one. Where it is not known which: every one with `anywhere`, else those that it names."""
        known = self.pieces[number].following
        if known is not None:
            return known
        if anywhere:
            return tuple(range(len(self.pieces)))
        return tuple(dict.fromkeys(self.piece_of[location] for location in self.onward[number] if location < len(self.piece_of)))

    def loops(self) -> Iterator[tuple[int, int]]:
        """(first, last) positions of each jump back that can come to itself again without going round another, plainer one: one whose
        piece is reached from its target by going down alone."""
        back = {(number, head) for number in range(len(self.pieces)) for head in self.following(number, False) if head <= number}
        plain = {(number, head) for number, head in back if self._leads(head, number, back)}
        for number, head in sorted(back):
            if (number, head) in plain or self._leads(head, number, plain):
                yield self.pieces[head].first, self.pieces[number].last

    def _leads(self, start: int, end: int, but: set[tuple[int, int]]) -> bool:
        seen = {start}
        stack = [start]
        while stack:
            number = stack.pop()
            if number == end:
                return True
            for other in self.following(number, False):
                if other not in seen and (number, other) not in but:
                    seen.add(other)
                    stack.append(other)
        return False
