"""Liveness of a Program, anyone's: which registers hold a value that is still wanted."""

from __future__ import annotations

from asmgen.cfg import ControlFlow, control_flow
from asmgen.isa.registers import NAMED, SCC_BIT, SGPR_BIT
from asmgen.program import Instruction, Program
from asmgen.regalloc.liveness import Access, Block, Liveness

_EXEC = NAMED["exec"].mask
_VECTOR = (1 << SGPR_BIT) - 1
EVERYTHING = (1 << SCC_BIT + 1) - 1


def program_liveness(program: Program, flow: ControlFlow | None = None, lanes_kept: bool = False) -> Liveness:
    """The solution for a program. Behind returns and unknown jumps every register counts as wanted.

    A vector write ends the older value, except where the destination is partly kept; with `lanes_kept` it does so only where EXEC
    is known to be full (as at the kernel's start), which never calls a register dead that some lane still wants.
    """
    flow = flow or control_flow(program)
    full_lanes = _full_lanes(program, flow) if lanes_kept else None
    instructions = program.instructions
    blocks = []
    access = tuple.__new__  # a named tuple's own constructor takes three times as long, and this is one for each instruction
    for block in flow.blocks:
        accesses = []
        full = full_lanes is None or full_lanes[block.number]
        for instruction in instructions[block.first:block.last + 1]:
            reads, writes = instruction.reads, instruction.writes
            killed = writes
            if not full and writes & _VECTOR and "mfma" not in instruction.opcode.classes:
                killed = writes & ~_VECTOR
            accesses.append(access(Access, (reads, writes, killed)))
            if full_lanes is not None and writes & _EXEC:
                full = _sets_all(instruction)
        last = instructions[block.last]
        leaves = not block.successors and not last.name.startswith("s_endpgm") or block.last in flow.indirect
        blocks.append(Block(accesses, block.successors, EVERYTHING if leaves else 0))
    return Liveness(blocks)


def _sets_all(instruction: Instruction) -> bool:
    return instruction.name == "s_mov_b64" and instruction.operands[-1] == -1


def _full_lanes(program: Program, flow: ControlFlow) -> list[bool]:
    """For each block, whether every lane runs at its entry, as at the kernel's start, on all paths."""
    effect: list[bool | None] = []
    for block in flow.blocks:
        last = next((instruction for instruction in reversed(program.instructions[block.first:block.last + 1])
                     if instruction.writes & _EXEC), None)
        effect.append(None if last is None else _sets_all(last))
    entry = [True for _ in flow.blocks]
    changed = True
    while changed:
        changed = False
        for block in flow.blocks:
            arriving = all(entry[number] if effect[number] is None else bool(effect[number]) for number in block.predecessors)
            if not block.predecessors and block.first != 0 and block.first != program.labels.get(program.entry, 0):
                arriving = False
            if arriving != entry[block.number]:
                entry[block.number] = arriving
                changed = True
    return entry
