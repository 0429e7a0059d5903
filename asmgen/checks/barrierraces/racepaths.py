"""Whether two waves are certain to come to a race: the rule of `paths`, for a path that one wave goes to a barrier and another from there.

Waves of a workgroup go the same ways but where it is known that they do not, so that both ways are one path.
"""

from __future__ import annotations

from collections.abc import Sequence

from asmgen.checks.counters.ledger import VM, Operation
from asmgen.checks.wavegroups.wavegroups import WaveGroups
from asmgen.program.controlflow import ControlFlow

_LONGEST = 400
_State = tuple[int, int, int, int, bool]
"""Position, block, newer in-order operations, barriers passed since the one in question (-1: it is still ahead), whether paths joined."""


def certain_path(flow: ControlFlow, operations: Sequence[Operation], groups: WaveGroups, first: int, barrier: int, second: int,
                 waves: tuple[int, int], distance: int, flying: bool) -> bool:
    """Whether the first of the waves, masks of one bit each, goes from `first` to the barrier with that access in flight (or, not `flying`,
    past no other barrier), and the second of them from there past `distance` barriers to `second`, with no branch after a join."""
    waiting: list[_State] = [(first + 1, flow.block_of[first], 0, -1, False)]
    seen: set[tuple[int, int, bool]] = set()
    while waiting and len(seen) < _LONGEST:
        position, number, newer, passed, joined = waiting.pop()
        last = flow.blocks[number].last
        alive = True
        while alive and position <= last:
            operation = operations[position]
            if passed == distance and position == second:
                return True
            if position == barrier and passed < 0:
                passed = 0
            elif operation.barrier:
                alive = flying if passed < 0 else passed < distance
                passed += passed >= 0
            elif operation.leaves or passed < 0 and flying and _lands(operations[first], operation, newer):
                alive = False
            newer += operation.ordered and operations[first].counters[0] in operation.weight
            position += 1
        ways = groups.ways(number, waves[passed >= 0]) if alive else []
        if joined and len(ways) > 1:
            continue
        for successor in ways:
            key = successor, passed, joined or len(groups.sources(successor, waves[passed >= 0])) > 1
            if key not in seen:
                seen.add(key)
                waiting.append((flow.blocks[successor].first, successor, newer, passed, key[2]))
    return False


def _lands(source: Operation, operation: Operation, newer: int) -> bool:
    """Whether an operation waits for one that has `newer` ones after it."""
    if operation.wait is None:
        return False
    count = operation.wait.vmcnt if source.counters[0] == VM else operation.wait.lgkmcnt
    return count is not None and (count == 0 or source.ordered and newer >= count)
