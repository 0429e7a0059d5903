"""Calls whose target is known: which code runs between a call and the instruction after it, and what comes back over its returns.

The control flow (`controlflow`) has an edge from a call to the instruction after it, and from s_call_b64 one to the called code. What
holds after the call has been through the called code, so an analysis that follows what is in flight takes the way over the returns, not
that edge. s_swappc_b64 is followed where the code makes the address from its own position (`codeaddresses`), as compilers do for functions
of the same code object.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from asmgen.isa.records import dataclass
from asmgen.program.codeaddresses import CALLS as CALLS  # for those who ask for calls
from asmgen.program.codeaddresses import code_addresses
from asmgen.program.controlflow import Block, ControlFlow
from asmgen.program.program import Program
from asmgen.program.returnaddresses import returning_blocks

_JUMP = "s_setpc_b64"


@dataclass(frozen=True)
class KnownCall:
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

    `into` has them by the block that the call ends, `returning` by each block with a return of the called code. `entered` has the blocks
    that end with a call by the block of the called code, where the control flow has no edge between the two. `jumps` are those of
    s_setpc_b64 that are no returns, as long jumps and last calls are: the block where each goes on, by the one that it ends.
    """

    def __init__(self, program: Program, flow: ControlFlow) -> None:
        self._program, self._flow = program, flow
        made = _made(program, flow)
        self.jumps = {number: target for number, target in made.items() if program.instructions[flow.blocks[number].last].name == _JUMP}
        self.into: dict[int, KnownCall] = _calls(program, flow, made, self.jumps)
        self.returning: dict[int, list[KnownCall]] = {}
        for call in self.into.values():
            for number in call.returns:
                self.returning.setdefault(number, []).append(call)
        self.entered: dict[int, list[int]] = {}
        for number, call in self.into.items():
            if call.callee not in flow.blocks[number].successors:
                self.entered.setdefault(call.callee, []).append(number)
        for number, target in self.jumps.items():
            self.entered.setdefault(target, []).append(number)

    def call(self, number: int, successor: int) -> KnownCall | None:
        """The call over whose returns a block leads to its successor; None where the edge is gone along as it is."""
        call = self.into.get(number)
        return call if call is not None and successor == call.back else None

    def edges(self, block: Block) -> list[tuple[int, int]]:
        """The edges over which it matters what holds after a block: its own, and those past calls that it returns to."""
        found = [(block.number, successor) for successor in block.successors]
        call = self.into.get(block.number)
        if call is not None and call.callee not in block.successors:
            found.append((block.number, call.callee))
        if block.number in self.jumps:
            found.append((block.number, self.jumps[block.number]))
        return found + [(call.block, call.back) for call in self.returning.get(block.number, ())]

    def unknown_ways(self) -> list[int]:
        """The positions, in code that runs, at which nobody knows where it goes on: calls and jumps to unknown addresses, to labels of
        other files too, and returns of the kernel itself. Everything else runs in frames that are known: the kernel's, and that of each
        call that is followed."""
        program, flow = self._program, self._flow
        outside = {block.number for block in flow.blocks if _leads_outside(program, program.instructions[block.last].target)}
        if not flow.indirect and not outside:
            return []
        passed = {number: (call.back,) for number, call in self.into.items()} | _alone(self.jumps)
        entry = flow.block_of[program.labels[program.entry]] if program.entry else 0
        frames = [(_reached(flow.blocks, first, passed), frozenset[int]()) for first in {0, entry}]
        indirect = {flow.block_of[position] for position in flow.indirect} - self.into.keys() - self.jumps.keys() | outside
        found: set[int] = set()
        entered: set[int] = set()
        while frames:
            body, returns = frames.pop()
            found |= (indirect - returns) & body
            for number in (self.into.keys() & body) - entered:
                entered.add(number)
                frames.append((self.into[number].body, frozenset(self.into[number].returns)))
        return sorted(flow.blocks[number].last for number in found)

    def predecessors(self, block: Block) -> Sequence[int]:
        """A block's predecessors, calls of it among them."""
        entered = self.entered.get(block.number)
        return block.predecessors if entered is None else (*block.predecessors, *entered)

    def before(self, block: Block) -> Iterator[int]:
        """The blocks that may have run last before one: its predecessors, and for a call that is followed those with its returns."""
        for number in self.predecessors(block):
            call = self.call(number, block.number)
            if call is not None:
                yield from call.returns
            if call is None or not call.whole:
                yield number


def _leads_outside(program: Program, target: str | None) -> bool:
    return target is not None and program.labels.get(target, len(program)) >= len(program)


def _alone(jumps: Mapping[int, int]) -> dict[int, tuple[int, ...]]:
    return {number: (target,) for number, target in jumps.items()}


def _made(program: Program, flow: ControlFlow) -> dict[int, int]:
    """The blocks where calls and jumps to computed addresses go, by the block that each ends, where the code makes the address."""
    instructions = program.instructions
    made = code_addresses(program, flow)
    if not made or instructions[0].address is None:
        return {number: flow.block_of[target] for number, target in made.items() if target < len(instructions)}
    starts = {instructions[block.first].address: block.number for block in flow.blocks}
    return {number: starts[target] for number, target in made.items() if target in starts}


def _calls(program: Program, flow: ControlFlow, made: Mapping[int, int], known_jumps: Mapping[int, int]) -> dict[int, KnownCall]:
    instructions, blocks = program.instructions, flow.blocks
    targets: dict[int, tuple[int, int]] = {}
    calling = [block for block in blocks if instructions[block.last].name in CALLS and block.successors]
    for block in calling:
        back = block.successors[0]
        callee = block.successors[1] if len(block.successors) == 2 else made.get(block.number)
        if callee is not None:
            targets[block.number] = callee, back
    if not targets:
        return {}
    entering = {number: (*blocks[number].successors, callee) for number, (callee, _) in targets.items()} | _alone(known_jumps)
    passed = {number: (back,) for number, (_, back) in targets.items()} | _alone(known_jumps)
    inside = {number: _reached(blocks, callee, entering) for number, (callee, _) in targets.items()}
    found = {}
    for number, (callee, back) in targets.items():
        body = _reached(blocks, callee, passed)
        jumps = tuple(other for other in sorted(body) if instructions[blocks[other].last].name == _JUMP and other not in known_jumps)
        holding = returning_blocks(instructions, blocks, callee, instructions[blocks[number].last].writes, passed, inside)
        returns = tuple(other for other in jumps if other in holding)
        if returns:
            found[number] = KnownCall(number, callee, back, returns, body, inside[number], returns == jumps)
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
