"""Accesses to LDS from their issue to their wave's wait: which of them are alive as a wave passes a barrier.

LDS operations arrive in order among themselves, loads into LDS in order among vector memory; flat ones at a wait for 0. What LDS operations
of one wave do to its own bytes never races, so that for them only barriers and ends matter; its loads into LDS are in no order with them.
"""

from __future__ import annotations

from collections.abc import Sequence

from asmgen.checks.counters.ledger import LGKM, VM, Operation, limit_of
from asmgen.checks.raceproofs.valuepaths import Node, ValuePaths
from asmgen.isa.arch import architecture
from asmgen.isa.records import dataclass
from asmgen.regalloc.dataflow import solve

Key = tuple[int, int]
"""An access: its node and its position."""
Alive = dict[tuple[str, Key], int]
"""Counter and access -> how many operations in order were issued after it on that counter, on the way with the fewest."""


@dataclass(frozen=True)
class Lifetimes:
    """`at_barrier` has by node and position of a barrier what is alive as a wave passes it, `at_end` by node what is as it ends, `at_exit`
    what is after each node, `unordered` by access which others of the same wave are as it is issued that are in no order with it: loads
    into LDS, or all else."""

    at_barrier: dict[Key, frozenset[Key]]
    at_end: dict[int, frozenset[Key]]
    at_exit: Sequence[frozenset[Key]]
    unordered: dict[Key, frozenset[Key]]


def lifetimes(paths: ValuePaths, operations: Sequence[Operation], accesses: frozenset[int]) -> Lifetimes:
    """Follow all accesses on all paths."""
    arch = architecture(paths.program.arch)
    limits = {VM: limit_of(arch, VM), LGKM: limit_of(arch, LGKM)}
    told = [[position for position in range(block.first, block.last + 1)
             if operations[position].counters or operations[position].wait is not None or operations[position].barrier]
            for block in paths.flow.blocks]
    at_barrier: dict[Key, frozenset[Key]] = {}
    unordered: dict[Key, frozenset[Key]] = {}

    def passed(number: int, alive: Alive) -> Alive:
        node, alive = paths.nodes[number], dict(alive)
        for position in told[node.block]:
            operation = operations[position]
            if operation.barrier:
                at_barrier[number, position] = frozenset(key for _, key in alive)
            elif operation.wait is not None:
                for counter, count in ((VM, operation.wait.vmcnt), (LGKM, operation.wait.lgkmcnt)):
                    if count is not None:
                        alive = _left(alive, counter, count, operations)
            else:
                if position in accesses:
                    load = operation.queue == "vm"
                    unordered[number, position] = frozenset(key for _, key in alive if (operations[key[1]].queue == "vm") is not load)
                _issue(alive, node, position, operation, position in accesses, limits)
        return alive

    def join(one: Alive, other: Alive) -> Alive:
        if not other:
            return one
        found = dict(one)
        for entry, newer in other.items():
            found[entry] = min(newer, found.get(entry, newer))
        return found

    leading: list[list[int]] = [[] for _ in paths.nodes]
    for node in paths.nodes:
        for way in node.ways:
            leading[way].append(node.number)
    solution = solve(leading, [Alive() for _ in paths.nodes], passed, join)
    at_exit = [frozenset(key for _, key in alive) for alive in solution.at_exit]
    return Lifetimes(at_barrier, {node.number: at_exit[node.number] for node in paths.nodes if not node.ways}, at_exit, unordered)


def _left(alive: Alive, counter: str, count: int, operations: Sequence[Operation]) -> Alive:
    """What a wait for `count` outstanding operations leaves."""
    return {(name, key): newer for (name, key), newer in alive.items()
            if name != counter or count and (newer < count or not operations[key[1]].ordered)}


def _issue(alive: Alive, node: Node, position: int, operation: Operation, access: bool, limits: dict[str, int]) -> None:
    if operation.ordered:
        counter = operation.counters[0]
        for entry in list(alive):
            if entry[0] == counter:
                alive[entry] += 1
                if alive[entry] >= limits[counter]:  # the counter holds no more
                    del alive[entry]
    if access:
        for counter in operation.counters:
            alive[counter, (node.number, position)] = 0
