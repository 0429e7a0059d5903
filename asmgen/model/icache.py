"""The instruction cache that two compute units share: which lines of a program it holds, and when a missing one is there.

A wave that comes to a line asks for it and for the next ones, as many as are fetched ahead; what is not held comes from L2. All waves of a
launch run the same code, so that a line comes once for all of them, and the neighbour unit's waves ask for no others. The line that was
asked for longest ago makes room.
"""

from __future__ import annotations

from collections.abc import Sequence

from asmgen.emulator.scheduling.trace import WaveTrace
from asmgen.isa.timing import Timing
from asmgen.program.program import Program

_LARGEST = 8  # bytes of an instruction whose size nobody knows


class InstructionCache:
    """`lines` has the number of the line in which each instruction ends, by position."""

    def __init__(self, program: Program, timing: Timing, held: Sequence[int] = ()) -> None:
        size = timing.clocks("icache_line")
        self._room, self._miss = timing.clocks("icache_bytes") // size, timing.clocks("icache_miss")
        self._ahead = timing.clocks("icache_ahead")
        self.lines = lines_of(program, size)
        self._last = max(self.lines, default=0)
        self._there = dict.fromkeys(held, 0)  # the line that was asked for longest ago first

    def ready(self, line: int, now: int) -> int:
        """When a wave that comes to a line has it."""
        there = self._there
        found = there.pop(line, -1)
        if found < 0:
            found = now + self._miss
        there[line] = found
        for following in range(line + 1, min(line + self._ahead, self._last) + 1):
            if following not in there:
                there[following] = now + self._miss
        while len(there) > self._room:
            del there[next(iter(there))]
        return found


def lines_of(program: Program, size: int) -> list[int]:
    """The line in which each instruction ends; from their addresses, or one after the other where they have none."""
    found, at = [], 0
    for instruction in program.instructions:
        at = instruction.address if instruction.address is not None else at
        at += instruction.size or _LARGEST
        found.append((at - 1) // size)
    return found


def left_by(program: Program, traces: Sequence[WaveTrace], timing: Timing) -> list[int]:
    """The lines that workgroups which have run these traces leave in the cache, the one that was asked for longest ago first."""
    size = timing.clocks("icache_line")
    lines, room = lines_of(program, size), timing.clocks("icache_bytes") // size
    held: dict[int, None] = {}
    for trace in traces:
        for position in reversed(trace.positions):
            if len(held) == room:
                break
            held.setdefault(lines[position])
    return list(held)[::-1]
