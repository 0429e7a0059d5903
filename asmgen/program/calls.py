"""Calls whose target is known: which code runs between a call and the instruction after it, and what comes back over its returns.

The control flow (`controlflow`) has an edge from a call to the called code and one to the instruction after the call. What holds after the
call has been through the called code, so an analysis that follows what is in flight takes the way over the returns, not the second edge.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from asmgen.isa.records import dataclass
from asmgen.program.controlflow import Block, ControlFlow
from asmgen.program.program import Instruction, Program

CALLS = frozenset({"s_swappc_b64", "s_call_b64"})
_JUMP = "s_setpc_b64"


@dataclass(frozen=True)
class Call:
    """A call, all by block numbers: the block that it ends, the first one of the called code, the one after the call.

    `returns` are blocks that end with a return, `body` those of the called function without what it calls, `inside` all that may run before
    the call comes back. `whole` says that the body leaves by its returns alone: no jump of it goes to an address that is not known.
    """

    block: int
    callee: int
    back: int
    returns: tuple[int, ...]
    body: frozenset[int]
    inside: frozenset[int]
    whole: bool


class Calls:
    """The calls of a program that are followed: to a known target, from which a known return comes back.

    `into` has them by the block that the call ends, `returning` by each block with a return of the called code.
    """

    def __init__(self, program: Program, flow: ControlFlow) -> None:
        self.into: dict[int, Call] = _calls(program, flow)
        self.returning: dict[int, list[Call]] = {}
        for call in self.into.values():
            for number in call.returns:
                self.returning.setdefault(number, []).append(call)

    def call(self, number: int, successor: int) -> Call | None:
        """The call over whose returns a block leads to its successor; None where the edge is gone along as it is."""
        call = self.into.get(number)
        return call if call is not None and successor == call.back else None

    def edges(self, block: Block) -> list[tuple[int, int]]:
        """The edges over which it matters what holds after a block: its own, and those past calls that it returns to."""
        found = [(block.number, successor) for successor in block.successors]
        return found + [(call.block, call.back) for call in self.returning.get(block.number, ())]

    def before(self, block: Block) -> Iterator[int]:
        """The blocks that may have run last before one: its predecessors, and for a call that is followed those with its returns."""
        for number in block.predecessors:
            call = self.call(number, block.number)
            if call is not None:
                yield from call.returns
            if call is None or not call.whole:
                yield number


def _calls(program: Program, flow: ControlFlow) -> dict[int, Call]:
    instructions, blocks = program.instructions, flow.blocks
    targets: dict[int, tuple[int, int]] = {}
    for block in blocks:
        if instructions[block.last].name in CALLS and len(block.successors) == 2:
            back, callee = block.successors
            targets[block.number] = callee, back
    if not targets:
        return {}
    passed = {number: (back,) for number, (_, back) in targets.items()}
    found = {}
    for number, (callee, back) in targets.items():
        body = _reached(blocks, callee, passed)
        jumps = [other for other in sorted(body) if instructions[blocks[other].last].name == _JUMP]
        addresses = _holders(instructions, blocks, body, instructions[blocks[number].last].writes)
        returns = tuple(other for other in jumps if instructions[blocks[other].last].reads in addresses)
        if returns:
            found[number] = Call(number, callee, back, returns, body, _reached(blocks, callee, {}), returns == tuple(jumps))
    return found


def _reached(blocks: Sequence[Block], first: int, passed: Mapping[int, tuple[int, ...]]) -> frozenset[int]:
    """The blocks that code comes to from one; `passed` has the successors of those that differ from the control flow's."""
    seen, stack = {first}, [first]
    while stack:
        number = stack.pop()
        for successor in passed.get(number, blocks[number].successors):
            if successor not in seen:
                seen.add(successor)
                stack.append(successor)
    return frozenset(seen)


def _holders(instructions: Sequence[Instruction], blocks: Sequence[Block], body: frozenset[int], address: int) -> frozenset[int]:
    """The pairs of registers, as masks, that hold where a call comes back to: the one that it writes, and copies of it in the body."""
    held = {address}
    copies = [instruction for number in body for instruction in instructions[blocks[number].first:blocks[number].last + 1]
              if instruction.name == "s_mov_b64"]
    while more := {copy.writes for copy in copies if copy.reads in held} - held:
        held |= more
    return frozenset(held)
