"""Branches on SCC that go one way whenever a wave comes back to them: nothing that they compare changes on any way back."""

from __future__ import annotations

from asmgen.emulator.shadow.undefineduses import use_of
from asmgen.isa.registers import SGPR_COUNT, Reg
from asmgen.program.controlflow import ControlFlow
from asmgen.program.program import Program
from asmgen.regalloc.dataflow import reached

_COMPUTES = tuple(f"s_{name}_" for name in (
    "and", "andn2", "or", "xor", "add", "sub", "mul", "lshl", "lshr", "ashr", "bfe", "min", "max", "cmp", "cmpk", "mov")) + ("s_bitcmp",)
"""Instructions whose results depend on the registers that they read alone."""


class SameBranches:
    """Of a program whose ways are known."""

    def __init__(self, program: Program, flow: ControlFlow) -> None:
        self._program, self._flow = program, flow
        self._following = [block.successors for block in flow.blocks]
        self._before = [block.predecessors for block in flow.blocks]

    def goes_one_way(self, branch: int) -> bool:
        """Whether the branch at a position decides alike each time that a wave meets it again."""
        block = self._flow.block_of[branch]
        around = reached(self._following, self._following[block]) & reached(self._before, [block])
        written = 0
        for number in around:
            for one in self._program.instructions[self._flow.blocks[number].first:self._flow.blocks[number].last + 1]:
                if one.name.startswith("s_movrel"):
                    return False
                written |= use_of(one, 0).writes
        compares = next((place for place in range(branch - 1, self._flow.blocks[block].first - 1, -1)
                         if "scc" in self._program.instructions[place].opcode.writes), None)
        return compares is not None and self._same(compares, written)

    def _same(self, position: int, written: int) -> bool:
        """Whether an instruction gives the same each time: it reads what is not `written` on the way back, or what an earlier instruction
        of its block gives, which gives the same each time."""
        instruction = self._program.instructions[position]
        plain = all(isinstance(one, int) or isinstance(one, Reg) and one.file == "s" and one.last < SGPR_COUNT
                    for one in instruction.operands)
        if not plain or not instruction.name.startswith(_COMPUTES) or instruction.opcode.reads:
            return False  # use_of leaves out EXEC, and SCC is the one of another instruction
        left = use_of(instruction, 0).reads & written
        for place in range(position - 1, self._flow.blocks[self._flow.block_of[position]].first - 1, -1):
            given = use_of(self._program.instructions[place], 0).writes & left
            if given and not self._same(place, written):
                return False
            left &= ~given
        return not left
