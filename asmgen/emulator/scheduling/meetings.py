"""Where waves that stand at different places can still come together before the next barrier, derived from a program's control flow."""

from __future__ import annotations

from bisect import bisect_right
from functools import cache

from asmgen.emulator.machine.ways import Ways
from asmgen.program.program import Program

BARRIER = "s_barrier"


class Meetings:
    """The stretches of a program (straight pieces, cut after every barrier) and which of them lead to which without a barrier between."""

    def __init__(self, program: Program) -> None:
        ways = Ways(program)
        self._firsts: list[int] = []
        self._successors: list[tuple[int, ...] | None] = []  # None: unknown, so any
        begins: list[int] = []
        ends: list[tuple[int, int]] = []  # the stretch with which a piece ends, and the piece
        for number, piece in enumerate(ways.pieces):
            begins.append(len(self._firsts))
            first = piece.first
            for position in range(piece.first, piece.last + 1):
                if program.instructions[position].name == BARRIER:
                    self._firsts.append(first)
                    self._successors.append(())
                    first = position + 1
            if first <= piece.last:
                ends.append((len(self._firsts), number))
                self._firsts.append(first)
                self._successors.append(())
        for stretch, number in ends:
            following = ways.pieces[number].following
            self._successors[stretch] = None if following is None else tuple(begins[other] for other in following)
        self.reached = cache(self._reached)

    def stretch(self, position: int) -> int:
        """The number of the stretch in which an instruction stands."""
        return bisect_right(self._firsts, position) - 1

    def _reached(self, stretch: int) -> int:
        """The stretches that waves in `stretch` may come to before a barrier, it itself among them: one bit for each."""
        found = 1 << stretch
        pending = [stretch]
        while pending:
            following = self._successors[pending.pop()]
            if following is None:
                return -1
            for other in following:
                if not found >> other & 1:
                    found |= 1 << other
                    pending.append(other)
        return found
