"""Groups of waves that end out of phase: a stagger that is opened and never closed, or closed and never opened.

Ping-pong lets one half of a workgroup's waves run n barriers behind the other. A conditional branch over n s_barrier does it, taken by
one half; the same branch with the opposite condition brings the other half level again. What is counted here is how many barriers
more the waves with SCC = 0 pass there than those with SCC = 1: where a program ends it must be none. A wave that has ended holds no barrier
up, so nothing hangs; but the halves then ran in another phase than the schedule, and its waits, were made for.
"""

from __future__ import annotations

from asmgen.program.controlflow import ControlFlow
from asmgen.program.program import Program
from asmgen.regalloc.dataflow import solve

_SKIPPED_WITH = {"s_cbranch_scc1": 1, "s_cbranch_scc0": -1}
_Shifts = frozenset[int]


def ends_out_of_phase(program: Program, flow: ControlFlow) -> dict[int, list[int]]:
    """For each s_endpgm, by position: the shifts other than 0 with which a path gets there, in order; none in a program without a stagger.

    Shifts are counted as far as 4 times the stagger, so that a loop over a lone conditional barrier ends too.
    """
    if not program.stagger:
        return {}
    shift = {block.number: _shift(program, flow, block.number) for block in flow.blocks}
    farthest = 4 * program.stagger

    def passed(number: int, shifts: _Shifts) -> _Shifts:
        if not shift[number]:
            return shifts
        return frozenset(max(-farthest, min(farthest, before + shift[number])) for before in shifts)

    level, unreached = frozenset({0}), frozenset[int]()
    start = [level if block.number == 0 else unreached for block in flow.blocks]
    solution = solve([block.predecessors for block in flow.blocks], start, passed, frozenset.union)
    found = {}
    for block in flow.blocks:
        apart = sorted(solution.leaving[block.number] - level)
        if apart and program.instructions[block.last].name == "s_endpgm":
            found[block.last] = apart
    return found


def _shift(program: Program, flow: ControlFlow, number: int) -> int:
    """By how many barriers a block's conditional branch sets the waves with SCC = 0 behind those with SCC = 1."""
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
