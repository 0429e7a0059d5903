"""Tokens and barriers: what other waves must be able to rely on (docs/ARCHITECTURE.md sections 2 and 4).

With a stagger of n barriers, a fill must have been waited for by its own wave at least 1+n barriers before another wave reads
it, and a use likewise before the refill: so the wait belongs before the barrier from which such a read or refill is
reached over at most n more barriers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_

from asmgen.checks.counters.ledger import Ledger, Operation, Operations
from asmgen.isa.records import dataclass
from asmgen.program.controlflow import ControlFlow
from asmgen.program.program import TokenUse
from asmgen.regalloc.dataflow import solve

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
    found = []
    for use in mine:
        for other in others:
            if use.low < other.high and other.low < use.high:  # `overlap`, written out: a build asks this some ten thousand times
                found.append(use.name)
                break
    return found


def due_at_barrier(source: Operation, ahead: tuple[set[TokenUse], set[TokenUse]]) -> list[str]:
    """Which of an operation's LDS bytes must have settled before a barrier with those (fills, uses) ahead."""
    fills, uses = ahead
    due = shared(source.fills, tuple(uses)) if source.fills else []
    if source.uses:
        due += [f"reads of {name}" for name in shared(source.uses, tuple(fills))]
    return list(dict.fromkeys(due))


def too_early(ledger: Ledger, operation: Operation, operations: Operations, need: int) -> list[TooEarly]:
    """Fills and uses settled too few barriers ago for an operation that reads or refills the same bytes."""
    found = []
    for position, barriers in ledger.settled.items():
        other = operations[position]
        names = shared(other.fills, operation.uses) if other.fills and operation.uses else []
        if names:
            found.append(TooEarly(position, barriers, need, names[0], False))
        names = shared(other.uses, operation.fills) if other.uses and operation.fills else []
        if names:
            found.append(TooEarly(position, barriers, need, names[0], True))
    return found


def cells_of(operations: Sequence[Operation]) -> dict[int, tuple[int, int]]:
    """A bit for each piece of LDS that is filled and used by position: what is in flight is compared with all that comes."""
    telling = {position: (operation.fills, operation.uses) for position, operation in enumerate(operations)
               if operation.fills or operation.uses}
    borders = sorted({border for fills, uses in telling.values() for one in (*fills, *uses) for border in (one.low, one.high)})
    location = {border: 1 << number for number, border in enumerate(borders)}

    def cells(tokens: tuple[TokenUse, ...]) -> int:
        return reduce(or_, (location[one.high] - location[one.low] for one in tokens), 0)

    return {position: (cells(fills), cells(uses)) for position, (fills, uses) in telling.items()}


def tokens_ahead(flow: ControlFlow, operations: list[Operation], stagger: int) -> Ahead:
    """For each barrier: the token fills and uses reached after it over at most `stagger` more barriers.

    Backward dataflow, one pair of sets a number of barriers still to cross. A fill ends the search for uses within its bytes: a
    later use means the newer data.
    """
    telling = [[position for position in range(block.last, block.first - 1, -1)
                if operations[position].barrier or operations[position].fills or operations[position].uses] for block in flow.blocks]
    none: frozenset[TokenUse] = frozenset()
    start: list[_Levels] = [((none, none),) * (stagger + 1) for _ in flow.blocks]

    def before(number: int, levels: _Levels) -> _Levels:
        for position in telling[number]:
            levels = _before(operations[position], levels)
        return levels

    solution = solve([block.successors for block in flow.blocks], start, before, _union)
    result: Ahead = {}
    for number, levels in enumerate(solution.at_entry):
        for position in telling[number]:
            if operations[position].barrier:
                result[position] = (set().union(*(fills for fills, _ in levels)),
                                    set(operations[position].relied).union(*(uses for _, uses in levels)))
            levels = _before(operations[position], levels)
    return result


_Levels = tuple[tuple[frozenset[TokenUse], frozenset[TokenUse]], ...]
"""By number of barriers still to cross: the fills and the uses that follow."""


def _before(operation: Operation, levels: _Levels) -> _Levels:
    """What follows before an operation, from what follows after it."""
    if operation.relied:
        levels = ((levels[0][0], levels[0][1].union(operation.relied)), *levels[1:])
    if operation.barrier:
        levels = ((frozenset(), frozenset()), *levels[:-1])
    if operation.fills:
        levels = tuple((fills, frozenset(use for use in uses if not any(_covers(fill, use) for fill in operation.fills)))
                       for fills, uses in levels)
    if operation.fills or operation.uses:
        levels = ((levels[0][0].union(operation.fills), levels[0][1].union(operation.uses)), *levels[1:])
    return levels


def _union(one: _Levels, other: _Levels) -> _Levels:
    return tuple((fills | more_fills, uses | more_uses)
                 for (fills, uses), (more_fills, more_uses) in zip(one, other, strict=True))


def _covers(fill: TokenUse, use: TokenUse) -> bool:
    return fill.low <= use.low and use.high <= fill.high
