"""The one dataflow solver: least fixed points over a graph of numbered nodes (docs/ARCHITECTURE.md section 2).

It stands in regalloc because liveness is the lowest of its users: a pass above (program.mix, checks.counters) may import it from
here, regalloc may not import it from there, and isa holds no algorithms of passes. The emulator and the model do not use it: who judges
shares no graph walk with the judged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from operator import or_
from typing import Generic, TypeVar

from asmgen.isa.records import dataclass

Fact = TypeVar("Fact")


@dataclass(frozen=True)
class Solution(Generic[Fact]):
    """What holds where each node is entered, in the direction of the analysis, and where it is left."""

    at_entry: list[Fact]
    at_exit: list[Fact]


def solve(sources: Sequence[Sequence[int]], start: Sequence[Fact], transfer: Callable[[int, Fact], Fact],
          join: Callable[[Fact, Fact], Fact]) -> Solution[Fact]:
    """The least solution of `at_entry[n] = start[n] joined with at_exit[m] for m in sources[n]`, `at_exit[n] = transfer(n, at_entry[n])`.

    `sources` are a block's predecessors in a forward analysis, its successors in a backward one. Facts are values compared with ==, of
    a semilattice in which nothing grows without end; `join` is its least upper bound, and changes neither argument; `transfer` must be
    monotone. Every value only ever grows, so the walk ends even for a transfer that is not monotone: its result is then a solution of
    `at_exit[n] >= transfer(n, at_entry[n])`, larger than need be.
    """
    users: list[list[int]] = [[] for _ in sources]
    for node, feeding in enumerate(sources):
        for source in feeding:
            users[source].append(node)
    order = _sources_first(sources)
    rank = [0] * len(order)
    for location, node in enumerate(order):
        rank[node] = location
    at_entry = list(start)
    at_exit: list[Fact | None] = [None] * len(order)
    pending = list(range(len(order)))  # a heap of ranks: what feeds others comes first, so that a loop settles before what follows it
    waiting = [True] * len(order)
    heapify(pending)
    while pending:
        location = heappop(pending)
        waiting[location] = False
        node = order[location]
        before = at_exit[node]
        after = transfer(node, at_entry[node])
        if before is not None:
            after = join(before, after)
            if after == before:
                continue
        at_exit[node] = after
        for user in users[node]:
            entered = at_entry[user]
            grown = join(entered, after)
            if grown != entered:
                at_entry[user] = grown
                if not waiting[rank[user]]:
                    waiting[rank[user]] = True
                    heappush(pending, rank[user])
    return Solution(at_entry, [fact for fact in at_exit if fact is not None])


def solve_masks(sources: Sequence[Sequence[int]], start: Sequence[int], adds: Sequence[int], ends: Sequence[int]) -> Solution[int]:
    """`solve` for sets of bits: a node passes on what enters it but for `ends[n]`, and `adds[n]`."""
    return solve(sources, start, lambda node, mask: adds[node] | mask & ~ends[node], or_)


def reached(following: Sequence[Sequence[int]], starts: Sequence[int]) -> frozenset[int]:
    """The nodes to which an edge of `following` leads from one of `starts` on, these among them."""
    seen = set(starts)
    stack = list(seen)
    while stack:
        for node in following[stack.pop()]:
            if node not in seen:
                seen.add(node)
                stack.append(node)
    return frozenset(seen)


def _sources_first(sources: Sequence[Sequence[int]]) -> list[int]:
    """Every node after its sources, as far as cycles let that be: the order in which facts settle fastest."""
    order: list[int] = []
    seen = [False] * len(sources)
    for root in range(len(sources)):
        if seen[root]:
            continue
        seen[root] = True
        stack = [(root, iter(sources[root]))]
        while stack:
            number, feeding = stack[-1]
            following = next((node for node in feeding if not seen[node]), None)
            if following is None:
                stack.pop()
                order.append(number)
            else:
                seen[following] = True
                stack.append((following, iter(sources[following])))
    return order
