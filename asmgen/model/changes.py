"""What the main loop would gain by changes of its code: the model runs once more without what is to be changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from asmgen.emulator.scheduling.trace import WaveTrace
from asmgen.isa.operands import Waitcnt
from asmgen.isa.table import opcode
from asmgen.model.costs import CostKind
from asmgen.model.profile import LoopProfile, Profile, profile
from asmgen.program.program import Instruction, Item, Program

CONFLICTS = "bank conflicts"
_LEAST_SHARE = 0.01
"""Stalls of a smaller share of a round are not tried."""


@dataclass(frozen=True)
class LoopChange:
    """What waves of the main loop wait for at some instructions that belong together. clk of a round, the mean of the waves: `stalled` for
    that, `saved` of all if nobody waited there. `longest` are the most clk of one such wait. Bank conflicts are counted in bank cycles."""

    cause: str
    positions: tuple[int, ...]
    stalled: float
    longest: float
    saved: float


def loop_changes(found: Profile, traces: Sequence[WaveTrace], most: int, group: Callable[[int], Hashable]) -> list[LoopChange]:
    """The changes that save most, at most so many are tried: those with the most stalls. Positions of one `group` are changed together.

    `traces` are those of the profile, or shorter ones.
    """
    loop = found.main_loop
    if loop is None or loop.cycles < (1 + _LEAST_SHARE) * _bound(loop):
        return []
    stalls: dict[tuple[Hashable, str], dict[int, float]] = {}
    for row in found.instructions:
        if any(one.first <= row.position <= one.last for one in found.loops):  # those of other waves run beside it
            for cause in row.stalls.keys() & _WITHOUT.keys():
                stalls.setdefault((group(row.position), cause), {})[row.position] = row.stalls[cause] / row.executed
    worst = sorted(stalls.items(), key=lambda item: -sum(item[1].values()))[:most]
    tried = [(cause, clocks) for (_, cause), clocks in worst if sum(clocks.values()) >= _LEAST_SHARE * loop.cycles]
    conflicts = _conflicts(found, traces)
    if not tried and not conflicts:
        return []
    base, most_saved = _clocks(found.program, traces, found), loop.cycles - _bound(loop)

    def change(cause: str, clocks: Mapping[int, float], program: Program, changed: Sequence[WaveTrace]) -> LoopChange:
        saved = min(base - _clocks(program, changed, found), most_saved)
        return LoopChange(cause, tuple(sorted(clocks)), sum(clocks.values()), max(clocks.values()), saved)

    changes = [change(cause, clocks, _changed(found.program, clocks.keys(), _WITHOUT[cause]), traces) for cause, clocks in tried]
    if conflicts:
        changes.append(change(CONFLICTS, conflicts, found.program, _without_conflicts(found, traces)))
    return sorted(changes, key=lambda one: -one.saved)


def _bound(loop: LoopProfile) -> float:
    """clk of a round below which no order of its instructions comes."""
    return max(loop.bounds.clocks.values())


def _clocks(program: Program, traces: Sequence[WaveTrace], like: Profile) -> float:
    """clk of a round of the main loop."""
    loop = profile(program, traces, like.timing, like.level, far=like.far).main_loop
    return loop.cycles if loop is not None else 0.0


def _changed(program: Program, positions: Set[int], change: Callable[[Instruction], Instruction]) -> Program:
    items: list[Item] = []
    position = -1
    for item in program.items:
        if isinstance(item, Instruction):
            position += 1
            items.append(change(item) if position in positions else item)
        else:
            items.append(item)
    return program.with_items(items)


def _conflicts(found: Profile, traces: Sequence[WaveTrace]) -> dict[int, float]:
    """Of each LDS access of the main loop with bank conflicts: how many bank cycles more than without, the mean of its executions."""
    loop, costs, more, executed = found.main_loop, found.timeline.costs, Counter[int](), Counter[int]()
    for trace in traces:
        for position, cost in zip((one for one in trace.positions if costs[one].traced), trace.costs, strict=True):
            if costs[position].kind is CostKind.LDS and loop is not None and loop.first <= position <= loop.last:
                more[position] += max(0, cost - costs[position].lds_ideal)
                executed[position] += 1
    return {position: clocks / executed[position] for position, clocks in more.items() if clocks}


def _without_conflicts(found: Profile, traces: Sequence[WaveTrace]) -> list[WaveTrace]:
    costs = found.timeline.costs
    return [replace(trace, costs=tuple(min(cost, costs[position].lds_ideal) if costs[position].kind is CostKind.LDS else cost
                                       for position, cost in zip((one for one in trace.positions if costs[one].traced), trace.costs,
                                                                 strict=True))) for trace in traces]


def _without_vm(wait: Instruction) -> Instruction:
    return replace(wait, operands=tuple(replace(one, vmcnt=None) if isinstance(one, Waitcnt) else one for one in wait.operands))


def _without_lgkm(wait: Instruction) -> Instruction:
    return replace(wait, operands=tuple(replace(one, lgkmcnt=None) if isinstance(one, Waitcnt) else one for one in wait.operands))


def _without_barrier(barrier: Instruction) -> Instruction:
    """A wait for nothing in its place."""
    wait = opcode("s_waitcnt")
    return replace(barrier, opcode=wait, form=wait.forms[0], operands=(Waitcnt(),))


_WITHOUT: dict[str, Callable[[Instruction], Instruction]] = {
    "wait vm": _without_vm, "wait lgkm": _without_lgkm, "barrier": _without_barrier}
"""What is changed for each cause of stalls."""
