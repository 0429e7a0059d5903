"""Which registers hold a value that is still wanted, at each instruction of a control-flow graph.

The graph is abstract: an instruction is what it reads and writes, as masks of `asmgen.isa.registers`. A write that may leave
lanes or bits as they were (under a partial EXEC, half of a register) ends no earlier value: it stands in `writes` but not in
`full_writes`. So the analysis errs, if at all, towards "live".
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from asmgen.isa.registers import AGPR_COUNT, SGPR_BIT, SGPR_COUNT, VGPR_COUNT, scc
from asmgen.regalloc.dataflow import solve_masks

_V_MASK = (1 << VGPR_COUNT) - 1
_A_MASK = ((1 << AGPR_COUNT) - 1) << VGPR_COUNT
_S_MASK = ((1 << SGPR_COUNT) - 1) << SGPR_BIT


class RegisterAccess(NamedTuple):
    """What one instruction does to the registers: masks. `full_writes`, a part of `writes`, are definite in every lane and bit."""

    reads: int
    writes: int
    full_writes: int


@dataclass(frozen=True)
class LivenessBlock:
    """Instructions in order and the numbers of the blocks that may follow.

    `live_out` are registers wanted by someone outside of the graph after the block (the caller of a function), beside its successors.
    """

    instructions: Sequence[RegisterAccess]
    successors: Sequence[int] = ()
    live_out: int = 0


class Pressure(NamedTuple):
    """Live registers of each file; special scalar registers are not counted."""

    v: int
    a: int
    s: int


class DeadWrite(NamedTuple):
    """An instruction that writes registers nobody reads before they are overwritten or the program ends.

    `mask` are these registers; `whole` says that nothing else it writes is read either.
    """

    position: int
    mask: int
    whole: bool


def pressure(mask: int) -> Pressure:
    """How many registers of each file a mask holds."""
    return Pressure((mask & _V_MASK).bit_count(), (mask & _A_MASK).bit_count(), (mask & _S_MASK).bit_count())


class Liveness:
    """The solution for a graph. Positions number the instructions of all blocks in order, from 0.

    `live_in` and `live_out` are masks by block; `live_in[0]` is what the program expects to find in its registers.
    Masks within a block are computed when first asked for. Raises ValueError for a successor that is no block.
    """

    def __init__(self, blocks: Sequence[LivenessBlock]) -> None:
        for number, block in enumerate(blocks):
            for successor in block.successors:
                if not 0 <= successor < len(blocks):
                    raise ValueError(f"block {number} names block {successor} as its successor; there are {len(blocks)}")
        self.blocks = tuple(blocks)
        self.starts = tuple(accumulate((len(block.instructions) for block in blocks), initial=0))
        live_in, live_out = _solve(self.blocks)
        self.live_in = tuple(live_in)
        self.live_out = tuple(live_out)
        self._before: dict[int, list[int]] = {}

    def __len__(self) -> int:
        """The number of instructions."""
        return self.starts[-1]

    def locate(self, position: int) -> tuple[int, int]:
        """The block of a position and the instruction's number in it; raises IndexError outside of the program."""
        if not 0 <= position < len(self):
            raise IndexError(f"position {position} is not one of {len(self)} instructions")
        number = bisect_right(self.starts, position) - 1
        return number, position - self.starts[number]

    def block_masks(self, number: int) -> list[int]:
        """What is live before each instruction of a block, and, last, at its end."""
        known = self._before.get(number)
        if known is None:
            live = self.live_out[number]
            known = [live]
            for reads, _, full in reversed(self.blocks[number].instructions):
                live = live & ~full | reads
                known.append(live)
            known.reverse()
            self._before[number] = known
        return known

    def live_before(self, position: int) -> int:
        """What is live right before the instruction."""
        number, index = self.locate(position)
        return self.block_masks(number)[index]

    def dead_writes(self, ignore: int = scc.mask) -> list[DeadWrite]:
        """Instructions with a result that nobody reads, in order; registers of `ignore` (SCC: a by-product mostly) are not looked at.

        A result is an instruction's `writes`. Who stores to memory or waits as well has its use: the caller knows.
        """
        found = []
        for number, block in enumerate(self.blocks):
            masks, start = self.block_masks(number), self.starts[number]
            for index, (_, writes, _) in enumerate(block.instructions):
                dead = writes & ~masks[index + 1]
                if dead & ~ignore:
                    found.append(DeadWrite(start + index, dead & ~ignore, dead == writes))
        return found


def _solve(blocks: Sequence[LivenessBlock]) -> tuple[list[int], list[int]]:
    """Live-in and live-out of each block: the least fixed point of `in = reads first | out & ~written first`."""
    reads_first, written_first = [0] * len(blocks), [0] * len(blocks)
    for number, block in enumerate(blocks):
        needed = killed = 0
        for reads, _, full in block.instructions:
            needed |= reads & ~killed
            killed |= full
        reads_first[number], written_first[number] = needed, killed
    solution = solve_masks([block.successors for block in blocks], [block.live_out for block in blocks], reads_first, written_first)
    return solution.at_exit, solution.at_entry
