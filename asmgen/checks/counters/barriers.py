"""What fills LDS and is in flight at a barrier, in groups that one wait would let arrive.

A group are the operations of one straight piece of code without a wait or a barrier in it: in a loop with several buffers, the loads
of one buffer. An instruction of which several executions are outstanding is in one group for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from asmgen.checks.counters.ledger import PLAIN, Flight, Operation
from asmgen.isa.records import dataclass
from asmgen.program.controlflow import ControlFlow
from asmgen.program.program import Instruction


@dataclass(frozen=True)
class LdsGroup:
    """`count` operations from position `first` to `last`, `rounds` executions before their last, with `newer` ones after them all."""

    first: int
    last: int
    count: int
    rounds: int
    newer: int


def sections(flow: ControlFlow, operations: list[Operation]) -> list[int]:
    """By position, the number of the straight piece of code that an instruction stands in."""
    found = []
    number = 0
    for block in flow.blocks:
        number += 1
        for operation in operations[block.first:block.last + 1]:
            if operation is not PLAIN and (operation.barrier or operation.wait is not None):
                number += 1
            found.append(number)
    return found


def groups_in_flight(flight: Flight, producers: Iterable[int], section: list[int]) -> list[LdsGroup]:
    """The groups of those producers, the newest first."""
    members: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for producer in dict.fromkeys(producers):
        for rounds, birth in enumerate((flight.births[producer], *flight.rounds.get(producer, ()))):
            members.setdefault((section[producer], rounds), []).append((producer, flight.clock - birth))
    found = []
    for (_, rounds), group in members.items():
        positions = [producer for producer, _ in group]
        found.append(LdsGroup(min(positions), max(positions), len(group), rounds, min(newer for _, newer in group)))
    return sorted(found, key=lambda group: (group.newer, group.last))


def described(group: LdsGroup, instructions: Sequence[Instruction], what: str = "that fill LDS") -> str:
    """A group by its first and last instruction, and from which round; `what` says what several of them do."""
    first, last = instructions[group.first], instructions[group.last]
    location = f" ({last.where()})" if last.where() else ""
    round_ = "" if not group.rounds else " of the round before" if group.rounds == 1 else f" of {group.rounds} rounds before"
    if group.count == 1:
        return f"{last.text}{location}{round_}"
    return f"{group.count} operations {what}, {first.text} to {last.text}{location}{round_}"
