"""Blocks that several places share, as a compiler of calls would write them without a call: each place keeps its number in an SGPR and
goes to the block, which ends with a comparison and a branch for each number.

    first:   s_mov_b32 s9, 0          shared:  ...
             s_branch shared                   s_cmp_eq_u32 s9, 0
    second:  s_mov_b32 s9, 1                   s_cbranch_scc1 after_first
                                               s_branch after_second

Whoever looks for loops must know which way goes back where: each place goes on after itself alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from asmgen.isa.registers import Reg
from asmgen.program.program import Instruction

Successors = Sequence[tuple[int, ...]]


def ways_past_shared(instructions: Sequence[Instruction], spans: Sequence[tuple[int, int]], successors: Successors,
                     predecessors: Sequence[Sequence[int]]) -> Mapping[int, tuple[int, ...]]:
    """Other successors for the blocks (numbers of `spans`, their first and last instructions) that lead to a shared block, and none for
    those that lead back from it. Empty without such blocks."""
    found: dict[int, tuple[int, ...]] = {}
    dispatching = {number: case for number, (first, last) in enumerate(spans) if (case := _case(instructions, first, last)) is not None}
    for number, (register, _) in dispatching.items():
        if any(dispatching.get(before, (None, 0))[0] == register and successors[before][0] == number for before in predecessors[number]):
            continue  # not the first of its chain
        returns, default, chain = _chain(number, register, dispatching, successors)
        head = _head(number, predecessors)
        if default is None or head is None:
            continue
        kept = {before: _kept(instructions, *spans[before], register) for before in predecessors[head]}
        if len(kept) < 2 or any(value is None or successors[before] != (head,) for before, value in kept.items()):
            continue
        found |= {before: (returns.get(value, default),) for before, value in kept.items() if value is not None}
        found |= dict.fromkeys(chain, ())
    return found


def _case(instructions: Sequence[Instruction], first: int, last: int) -> tuple[int, int] | None:
    """(register, number) of a block that ends with the comparison and branch of a return."""
    if last == first or instructions[last].name != "s_cbranch_scc1" or instructions[last - 1].name != "s_cmp_eq_u32":
        return None
    register, number = instructions[last - 1].operands
    return (register.mask, number) if isinstance(register, Reg) and isinstance(number, int) else None


def _chain(number: int, register: int, dispatching: Mapping[int, tuple[int, int]],
           successors: Successors) -> tuple[dict[int, int], int | None, list[int]]:
    """Where each number returns to, where all others do, and the blocks of the comparisons."""
    returns: dict[int, int] = {}
    chain = []
    while dispatching.get(number, (None, 0))[0] == register and len(successors[number]) == 2:
        following, target = successors[number]
        returns.setdefault(dispatching[number][1], target)
        chain.append(number)
        number = following
    if len(successors[number]) != 1:
        return returns, None, chain
    return returns, successors[number][0], [*chain, number]


def _head(number: int, predecessors: Sequence[Sequence[int]]) -> int | None:
    """The block at which a shared block begins, whose comparisons begin with that number: the first that several others lead to."""
    seen = {number}
    while len(predecessors[number]) == 1:
        number = predecessors[number][0]
        if number in seen:
            return None
        seen.add(number)
    return number if predecessors[number] else None


def _kept(instructions: Sequence[Instruction], first: int, last: int, register: int) -> int | None:
    """The number that a block leaves in an SGPR; None where it leaves another value or does not write it."""
    for position in range(last, first - 1, -1):
        instruction = instructions[position]
        if instruction.writes & register:
            value = instruction.operands[1] if instruction.name == "s_mov_b32" else None
            return value if isinstance(value, int) else None
    return None
