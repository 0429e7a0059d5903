"""Code around pipelines that runs again: whether its rounds need a barrier between them.

A round's first accesses to LDS, before its first barrier, follow what the round before touches after its last one. Where both touch the
same bytes and one fills them, waves must meet in between: one of them may still be in the round before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from asmgen.isa.errors import AsmgenError
from asmgen.program.controlflow import control_flow
from asmgen.program.program import Instruction, Label, Program, TokenUse
from asmgen.regalloc.dataflow import reached

if TYPE_CHECKING:
    from asmgen.author.emit.builder import Builder

_BARRIER = "s_barrier"


def barrier_between_rounds(k: Builder, label: str) -> None:
    """Emit a barrier if what stands after `label` up to here needs one before it runs again, which all waves do together.

    LDS bytes of fills and reads are those of tokens, which name a whole stage of a shared tile. All ways through the code count, also
    such as no launch takes. Raises AsmgenError where the label does not stand before, and for accesses to LDS without a token.
    """
    begin = next((number for number, item in enumerate(k.items) if isinstance(item, Label) and item.name == label), None)
    if begin is None:
        raise AsmgenError(f"no label {label!r} stands before this; a round begins at a label", k.here())
    end = len(k.items)
    k.s_barrier()
    if not _needed(Program(k.name, k.arch, tuple(k.items[begin:]))):
        k.cut(end)


def _needed(code: Program) -> bool:
    """Whether a first access of the code and a last one, before the barrier that ends it, touch the same bytes, and one fills them."""
    instructions = code.instructions
    for one in instructions:
        row = one.opcode.memory
        if row is not None and row.space == "lds" and not one.tokens:
            raise AsmgenError(f"{one.text} touches LDS without a token, so that no barrier between rounds can be derived; "
                              "place it by hand", one.where())
    *inner, _ = [position for position, one in enumerate(instructions) if one.name == _BARRIER]
    blocks = control_flow(code).blocks
    barriers = [[position for position in inner if block.first <= position <= block.last] for block in blocks]
    onward = [[] if barriers[block.number] else block.successors for block in blocks]
    back = [[] if barriers[block.number] else block.predecessors for block in blocks]
    first = _touched(instructions, ((blocks[number].first, min(barriers[number], default=blocks[number].last))
                                    for number in reached(onward, [0])))
    last = _touched(instructions, ((max(barriers[number], default=blocks[number].first), blocks[number].last)
                                   for number in reached(back, [blocks[-1].number])))
    return any(one.low < other.high and other.low < one.high and "write" in (one.action, other.action) for one in first for other in last)


def _touched(instructions: Sequence[Instruction], spans: Iterable[tuple[int, int]]) -> set[TokenUse]:
    """The accesses within spans of positions, inclusive."""
    return {use for first, last in spans for position in range(first, last + 1) for use in instructions[position].tokens}
