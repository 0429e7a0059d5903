"""The control-flow graph of a Program: basic blocks, edges, loops. It is derived, never stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from asmgen.isa.records import cached_property, dataclass
from asmgen.program.program import NO_FALL_THROUGH, Program
from asmgen.program.sharedblocks import ways_past_shared


@dataclass(frozen=True)
class Block:
    """Instructions `first` to `last` (positions, inclusive) that run in order; `successors` and `predecessors` are block numbers."""

    number: int
    first: int
    last: int
    successors: tuple[int, ...]
    predecessors: tuple[int, ...]


@dataclass(frozen=True)
class Loop:
    """A loop: its back-edge leaves the block that ends at `last` for the one that begins at `first` (positions).

    Where code enters a loop in its middle, `blocks` holds the way in from the program's start too.
    """

    first: int
    last: int
    blocks: frozenset[int]


@dataclass(frozen=True)
class ControlFlow:
    """Blocks in program order; `block_of[position]` is the number of an instruction's block.

    `indirect` are positions whose successors are unknown (s_setpc_b64, s_swappc_b64 without a known target): the
    analyses treat them as exits of the program. `shared` are successors that differ for who follows one way through shared blocks
    (`asmgen.program.sharedblocks`).
    """

    blocks: tuple[Block, ...]
    block_of: tuple[int, ...]
    indirect: tuple[int, ...]
    shared: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    def following(self, number: int) -> tuple[int, ...]:
        """Successors for who follows one way: each way through a shared block returns to where it came from."""
        return self.shared.get(number, self.blocks[number].successors)

    @cached_property
    def leading(self) -> list[tuple[int, ...]]:
        """Predecessors for who follows one way."""
        if not self.shared:
            return [block.predecessors for block in self.blocks]
        found: list[list[int]] = [[] for _ in self.blocks]
        for block in self.blocks:
            for successor in self.following(block.number):
                found[successor].append(block.number)
        return [tuple(one) for one in found]

    def reachable(self, program: Program, calls: bool) -> frozenset[int]:
        """Blocks of `program` that can run: from its beginning and its entry, and, where code calls or jumps to computed addresses, from
        labels. `calls` says that there are calls or returns."""
        starts = {0} if self.blocks else set()
        if program.entry:
            starts.add(self.block_of[program.labels[program.entry]])
        if self.indirect or calls:
            starts |= {self.block_of[position] for position in program.labels.values() if position < len(self.block_of)}
        seen, stack = set(starts), list(starts)
        while stack:
            for successor in self.blocks[stack.pop()].successors:
                if successor not in seen:
                    seen.add(successor)
                    stack.append(successor)
        return frozenset(seen)

    def loops(self) -> list[Loop]:
        """Loops by back-edge, outermost first where they nest.

        A jump back is a loop's only if it comes to itself again, and not just round another loop: a block after the end that is seldom
        entered returns into the middle of the loop around it.
        """
        edges = [(successor, block.number) for block in self.blocks for successor in self.following(block.number)
                 if successor <= block.number]
        plain = frozenset(edge for edge in edges if self._reaches(edge, frozenset(edges)))
        bodies: dict[int, list[tuple[int, frozenset[int]]]] = {}  # latch -> (head, body)
        found = []
        for head, latch in sorted(edges, key=lambda edge: (-edge[0], edge[1])):  # inner loops before those around them
            if (head, latch) not in plain and not self._reaches((head, latch), plain):
                continue
            body = self._body(head, latch, bodies)
            bodies.setdefault(latch, []).append((head, body))
            found.append(Loop(self.blocks[head].first, self.blocks[latch].last, body))
        return sorted(found, key=lambda loop: (loop.first, -loop.last))

    def _reaches(self, edge: tuple[int, int], without: frozenset[tuple[int, int]]) -> bool:
        """Whether code comes from an edge's head to its latch over other edges than those."""
        head, latch = edge
        seen, stack = {head}, [head]
        while stack:
            number = stack.pop()
            if number == latch:
                return True
            for successor in self.following(number):
                if successor not in seen and (successor, number) not in without:
                    seen.add(successor)
                    stack.append(successor)
        return False

    def _body(self, head: int, latch: int, bodies: dict[int, list[tuple[int, frozenset[int]]]]) -> frozenset[int]:
        """The blocks from which `latch` is reached without passing `head`.

        Where the search comes to the latch of another loop without `head`, that loop's whole body belongs to this one, and
        only its head leads further.
        """
        body = {head, latch}
        stack = [latch] if latch != head else []
        while stack:
            number = stack.pop()
            for inner_head, inner in bodies.get(number, ()):
                if head not in inner:
                    if inner_head not in body:
                        stack.append(inner_head)
                    body |= inner
            for predecessor in self.leading[number]:
                if predecessor not in body:
                    body.add(predecessor)
                    stack.append(predecessor)
        return frozenset(body)


def control_flow(program: Program) -> ControlFlow:
    """Derive the blocks and edges of a program. A branch to a label that the program does not have leaves it."""
    instructions = program.instructions
    labels = program.labels
    starts = {0} | {position for position in labels.values() if position < len(instructions)}
    for position, instruction in enumerate(instructions[:-1]):
        row = instruction.opcode
        if "branch" in row.classes or row.name in NO_FALL_THROUGH:
            starts.add(position + 1)
    firsts = sorted(starts) if instructions else []
    number_at = {first: number for number, first in enumerate(firsts)}
    ends = [*(first - 1 for first in firsts[1:]), len(instructions) - 1] if firsts else []
    successors: list[tuple[int, ...]] = []
    indirect = []
    for end in ends:
        instruction = instructions[end]
        following: list[int] = []
        if not instruction.ends_block and end + 1 < len(instructions):
            following.append(number_at[end + 1])
        target = instruction.target
        if target is not None and labels.get(target, len(instructions)) < len(instructions):
            number = number_at[labels[target]]
            if number not in following:
                following.append(number)
        elif instruction.is_branch and target is None:
            indirect.append(end)
        successors.append(tuple(following))
    predecessors: list[list[int]] = [[] for _ in firsts]
    for number, targets in enumerate(successors):
        for target_number in targets:
            predecessors[target_number].append(number)
    blocks = tuple(Block(number, first, ends[number], successors[number], tuple(predecessors[number]))
                   for number, first in enumerate(firsts))
    block_of = [0] * len(instructions)
    for block in blocks:
        block_of[block.first:block.last + 1] = [block.number] * (block.last - block.first + 1)
    shared = ways_past_shared(instructions, list(zip(firsts, ends, strict=True)), successors, predecessors)
    return ControlFlow(blocks, tuple(block_of), tuple(indirect), shared)
