"""Halves of a workgroup's waves that run in other phases than they should: they end apart, or compute at the same time.

Ping-pong lets one half of a workgroup's waves run n barriers after the other. A conditional branch over n s_barrier does it, taken by
one half; the same branch with the opposite condition brings the other half level again. What is counted here is how many barriers
more the waves with SCC = 0 pass there than those with SCC = 1: where a program ends it must be none. A wave that has ended holds no barrier
up, so nothing hangs; but the halves then ran in another phase than the schedule, and its waits, were made for.

While one half runs n barriers late, it is where the other half was n barriers before. Where there are MFMAs in both places, the halves
want the matrix cores at once and leave them idle at another time.
"""

from __future__ import annotations

from asmgen.isa.opcode import group_of
from asmgen.program.controlflow import ControlFlow
from asmgen.program.program import Program
from asmgen.regalloc.dataflow import solve

_SKIPPED_WITH = {"s_cbranch_scc1": 1, "s_cbranch_scc0": -1}
_NO_MFMA = -1
_Computed = tuple[int, ...]
"""The first MFMA after each of the last n + 1 barriers, by position, that after the newest one last."""
_Ways = frozenset[tuple[int, _Computed]]
"""The shifts with which paths get somewhere, and, where the halves are n apart, what stands after their last barriers."""


class Phases:
    """How far apart the halves are on each path; nothing is found in a program without a stagger.

    Shifts are counted as far as 4 times the stagger, so that a loop over a lone conditional barrier ends too.
    """

    def __init__(self, program: Program, flow: ControlFlow) -> None:
        self._instructions, self._stagger = program.instructions, program.stagger
        self._blocks = flow.blocks if program.stagger else ()
        self._shift = [_shift(program, flow, block.number) for block in self._blocks]
        self._nothing = (_NO_MFMA,) * (program.stagger + 1)
        self._events = [() if number and self._shift[number - 1] else self._events_of(block.first, block.last)
                        for number, block in enumerate(self._blocks)]
        start = [_Ways() if block.number else _Ways({(0, self._nothing)}) for block in self._blocks]
        self._ways = solve([block.predecessors for block in self._blocks], start, self._after, frozenset.union)

    def shift(self, number: int) -> int:
        """By how many barriers a block's conditional branch sets the waves with SCC = 0 after those with SCC = 1."""
        return self._shift[number] if self._shift else 0

    def apart_at_the_end(self) -> dict[int, list[int]]:
        """For each s_endpgm, by position: the shifts other than 0 with which a path gets there, in order."""
        found = {}
        for block in self._blocks:
            apart = sorted({shift for shift, _ in self._ways.at_exit[block.number]} - {0})
            if apart and self._instructions[block.last].name == "s_endpgm":
                found[block.last] = apart
        return found

    def meetings(self) -> list[tuple[int, int]]:
        """Positions of MFMAs, the first ones after their barriers: while one half is at the second, the other half is at the first."""
        found = set()
        for number, ways in enumerate(self._ways.at_entry):
            for shift, computed in ways:
                for position in self._events[number] if abs(shift) == self._stagger else ():
                    computed = self._next(computed, position)
                    if computed[-1] == position and computed[0] != _NO_MFMA:
                        found.add((computed[0], position))
        return sorted(found)

    def _events_of(self, first: int, last: int) -> tuple[int, ...]:
        """Barriers and MFMAs, by position."""
        return tuple(position for position in range(first, last + 1) if self._is_barrier(position)
                     or group_of(self._instructions[position].opcode, self._instructions[position].form) == "matrix")

    def _is_barrier(self, position: int) -> bool:
        return self._instructions[position].name == "s_barrier"

    def _next(self, computed: _Computed, position: int) -> _Computed:
        if self._is_barrier(position):
            return (*computed[1:], _NO_MFMA)
        return (*computed[:-1], position) if computed[-1] == _NO_MFMA else computed

    def _after(self, number: int, ways: _Ways) -> _Ways:
        """The ways after a block."""
        farthest, found = 4 * self._stagger, set()
        for shift, computed in ways:
            after = max(-farthest, min(farthest, shift + self._shift[number]))
            if after != shift or abs(after) != self._stagger:
                computed = self._nothing
            else:
                for position in self._events[number]:
                    computed = self._next(computed, position)
            found.add((after, computed))
        return frozenset(found)


def _shift(program: Program, flow: ControlFlow, number: int) -> int:
    """By how many barriers a block's conditional branch sets the waves with SCC = 0 after those with SCC = 1."""
    block = flow.blocks[number]
    sign = _SKIPPED_WITH.get(program.instructions[block.last].name, 0)
    if not sign or len(block.successors) != 2 or number + 1 not in block.successors:
        return 0
    over = flow.blocks[number + 1]
    target = next(successor for successor in block.successors if successor != over.number)
    names = {program.instructions[position].name for position in range(over.first, over.last + 1)}
    if over.successors != (target,) or not names <= {"s_barrier", "s_branch"}:
        return 0
    return sign * sum(program.instructions[position].name == "s_barrier" for position in range(over.first, over.last + 1))
