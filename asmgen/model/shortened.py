"""Traces with fewer rounds of their loops: what a change moves in a steady loop shows in few rounds, and takes less time to see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from asmgen.emulator.scheduling.trace import WaveTrace, has_cost
from asmgen.program.controlflow import Loop, control_flow
from asmgen.program.program import Program

KEPT_ROUNDS = 4
"""One to fill, one to drain and two that are steady."""


@dataclass(frozen=True)
class _Rounds:
    """The longest visit of a wave to a loop: the executions at which its rounds begin."""

    heads: tuple[int, ...]

    def cut(self, rounds: int) -> tuple[int, int]:
        """The executions from and up to which so many rounds go, from the third one on."""
        return self.heads[2], self.heads[2 + rounds]


@dataclass(frozen=True)
class Shortened:
    """Traces, and how many rounds of the main loop each of them has lost."""

    traces: tuple[WaveTrace, ...]
    rounds: int = 0


def shortened(program: Program, traces: Sequence[WaveTrace]) -> Shortened:
    """The traces without rounds from the middle of each wave's longest visit to a loop, as many for all. They stay as they are where that
    leaves fewer than KEPT_ROUNDS for a wave, and where the waves would pass different numbers of barriers."""
    whole = Shortened(tuple(traces))
    loops = control_flow(program).loops()
    longest = [_longest(trace.positions, loops) for trace in whole.traces]
    if not longest or any(visit is None for visit in longest):
        return whole
    spans = [visit.heads for visit in longest if visit is not None]
    rounds = min(len(heads) for heads in spans) - KEPT_ROUNDS
    if rounds <= 0:
        return whole
    barriers = {position for position, one in enumerate(program.instructions) if one.name == "s_barrier"}
    accesses = {position for position, one in enumerate(program.instructions) if has_cost(one)}
    found, passed = [], set()
    for trace, visit in zip(whole.traces, longest, strict=True):
        assert visit is not None
        begin, end = visit.cut(rounds)
        passed.add(sum(position in barriers for position in trace.positions[begin:end]))
        before, within = (sum(position in accesses for position in part) for part in (trace.positions[:begin], trace.positions[begin:end]))
        found.append(replace(trace, positions=trace.positions[:begin] + trace.positions[end:],
                             costs=trace.costs[:before] + trace.costs[before + within:],
                             arguments=trace.arguments[:before] + trace.arguments[before + within:]))
    return Shortened(tuple(found), rounds) if len(passed) == 1 else whole


def _longest(positions: Sequence[int], loops: Sequence[Loop]) -> _Rounds | None:
    """The visit with the most rounds, of those that take most of the wave's executions: rounds are linked by the back-edge."""
    best: tuple[int, ...] = ()
    for loop in loops:
        heads: list[int] = []
        for at, position in enumerate(positions):
            if position == loop.first:
                heads = [*heads, at] if heads and positions[at - 1] == loop.last else [at]
                if len(heads) > 1 and heads[-1] - heads[0] > (best[-1] - best[0] if best else 0):
                    best = tuple(heads)
    return _Rounds(best) if best else None
