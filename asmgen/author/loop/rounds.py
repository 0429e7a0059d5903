"""Code around pipelines that runs again: whether its rounds need a barrier between them.

A round's first accesses to LDS, before its first barrier, follow what the round before touches after its last one. Where both touch the
same bytes and one fills them, waves must meet in between: one of them may still be in the round before. With a stagger of n, 1 + n barriers
must stand between two such accesses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from asmgen.isa.errors import AsmgenError
from asmgen.program.controlflow import Block, control_flow
from asmgen.program.program import Instruction, Label, Program, TokenUse

if TYPE_CHECKING:
    from asmgen.author.emit.builder import Builder

_BARRIER = "s_barrier"


def barrier_between_rounds(k: Builder, label: str) -> None:
    """Emit a barrier if what stands after `label` up to here needs one before it runs again, which all waves do together; with a stagger
    as many as it needs.

    LDS bytes of fills and reads are those of tokens, which name a whole stage of a shared tile. All ways through the code count, also
    such as no launch takes. Raises AsmgenError where the label does not stand before, and for accesses to LDS without a token.
    """
    begin = next((number for number, item in enumerate(k.items) if isinstance(item, Label) and item.name == label), None)
    if begin is None:
        raise AsmgenError(f"no label {label!r} stands before this; a round begins at a label", k.here())
    end = len(k.items)
    k.s_barrier()
    needed = _needed(Program(k.name, k.arch, tuple(k.items[begin:])), 1 + k.stagger)
    k.cut(end)
    for _ in range(needed):
        k.s_barrier()


def _needed(code: Program, apart: int) -> int:
    """How many barriers make it `apart` from a last access of the code, which a barrier ends, to a first one of the same bytes, if one
    fills them."""
    instructions = code.instructions
    for one in instructions:
        row = one.opcode.memory
        if row is not None and row.space == "lds" and not one.tokens:
            raise AsmgenError(f"{one.text} touches LDS without a token, so that no barrier between rounds can be derived; "
                              "place it by hand", one.where())
    blocks = control_flow(code).blocks
    first = _touched(instructions, blocks, 0, False, apart)
    last = _touched(instructions, blocks, blocks[-1].number, True, apart)
    return max((apart - before - after for one, before in first for other, after in last
                if one.low < other.high and other.low < one.high and "write" in (one.action, other.action)), default=0)


def _touched(instructions: Sequence[Instruction], blocks: Sequence[Block], start: int, back: bool,
             apart: int) -> set[tuple[TokenUse, int]]:
    """The accesses on ways from the beginning of the code, or `back` from the barrier that ends it, with the barriers on the way, fewer
    than `apart`."""
    found: set[tuple[TokenUse, int]] = set()
    entered = {start: -1 if back else 0}  # the fewest barriers before each block
    waiting = [start]
    while waiting:
        number = waiting.pop()
        block, passed = blocks[number], entered[number]
        positions = range(block.first, block.last + 1)
        for position in reversed(positions) if back else positions:
            passed += instructions[position].name == _BARRIER
            if passed < apart:
                found |= {(use, passed) for use in instructions[position].tokens}
        for following in block.predecessors if back else block.successors:
            if passed < min(apart, entered.get(following, apart)):
                entered[following] = passed
                waiting.append(following)
    return found
