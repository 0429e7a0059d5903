"""Tokens and barriers: what other waves must be able to rely on (design.md sections 2 and 3).

With a stagger of n barriers, a fill must have been waited for by its own wave at least 1+n barriers before another wave reads
it, and a use likewise before the refill: so the wait belongs before the barrier from which such a read or refill is
reached over at most n more barriers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from asmgen.cfg import ControlFlow
from asmgen.program import TokenUse
from asmgen.waits.ledger import Ledger, Operation

Ahead = dict[int, tuple[set[TokenUse], set[TokenUse]]]


@dataclass(frozen=True)
class TooEarly:
    """`other` (a position) was waited for only `have` barriers before an instruction that needs `need`; `name` is the token's."""

    other: int
    have: int
    need: int
    name: str
    refill: bool  # the instruction refills what `other` reads; else it reads what `other` fills


def overlap(one: TokenUse, other: TokenUse) -> bool:
    """Whether two uses share bytes."""
    return one.low < other.high and other.low < one.high


def shared(mine: Iterable[TokenUse], others: Sequence[TokenUse]) -> list[str]:
    """Names of those of mine that share bytes with others."""
    return [use.name for use in mine if any(overlap(use, other) for other in others)]


def due_at_barrier(source: Operation, ahead: tuple[set[TokenUse], set[TokenUse]]) -> list[str]:
    """Which of an operation's LDS bytes must have settled before a barrier with those (fills, uses) ahead."""
    fills, uses = ahead
    due = shared(source.fills, tuple(uses)) if source.fills else []
    if source.uses:
        due += [f"reads of {name}" for name in shared(source.uses, tuple(fills))]
    return list(dict.fromkeys(due))


def too_early(ledger: Ledger, operation: Operation, operations: list[Operation], need: int) -> list[TooEarly]:
    """Fills and uses settled too few barriers ago for an operation that reads or refills the same bytes."""
    found = []
    for position, barriers in ledger.settled.items():
        other = operations[position]
        names = shared(other.fills, operation.uses)
        if names:
            found.append(TooEarly(position, barriers, need, names[0], False))
        names = shared(other.uses, operation.fills)
        if names:
            found.append(TooEarly(position, barriers, need, names[0], True))
    return found


def tokens_ahead(flow: ControlFlow, operations: list[Operation], stagger: int) -> Ahead:
    """For each barrier: the token fills and uses reached behind it over at most `stagger` more barriers.

    Backward dataflow, one set a number of barriers still to cross. A fill ends the search for uses within its bytes: a
    later use means the newer data.
    """
    if not any(operation.fills or operation.uses for operation in operations):
        return {}
    levels = stagger + 1
    state: list[list[tuple[set[TokenUse], set[TokenUse]]]] = [[(set(), set()) for _ in range(levels)] for _ in flow.blocks]
    result: Ahead = {}
    changed = True
    while changed:
        changed = False
        for block in reversed(flow.blocks):
            current = [(set().union(*(state[n][level][0] for n in block.successors)),
                        set().union(*(state[n][level][1] for n in block.successors))) for level in range(levels)]
            for position in range(block.last, block.first - 1, -1):
                operation = operations[position]
                if operation.barrier:
                    result[position] = (set().union(*(fills for fills, _ in current)), set().union(*(uses for _, uses in current)))
                    current = [(set(), set()), *current[:-1]]
                if operation.fills:
                    current = [(fills, {use for use in uses if not any(_covers(fill, use) for fill in operation.fills)})
                               for fills, uses in current]
                if operation.fills or operation.uses:
                    current[0] = (current[0][0] | set(operation.fills), current[0][1] | set(operation.uses))
            if current != state[block.number]:
                state[block.number] = current
                changed = True
    return result


def _covers(fill: TokenUse, use: TokenUse) -> bool:
    return fill.low <= use.low and use.high <= fill.high
