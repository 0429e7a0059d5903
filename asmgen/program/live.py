"""Liveness of a Program, anyone's: which registers hold a value that is still wanted."""

from __future__ import annotations

from operator import or_

from asmgen.isa.registers import NAMED, SCC_BIT, SGPR_BIT
from asmgen.program.controlflow import ControlFlow, control_flow
from asmgen.program.program import Instruction, Program
from asmgen.regalloc.dataflow import solve
from asmgen.regalloc.liveness import Liveness, LivenessBlock, RegisterAccess

_EXEC = NAMED["exec"].mask
_VECTOR = (1 << SGPR_BIT) - 1
EVERYTHING = (1 << SCC_BIT + 1) - 1


def program_liveness(program: Program, flow: ControlFlow | None = None, lanes_kept: bool = False) -> Liveness:
    """The solution for a program. After returns and unknown jumps every register counts as wanted.

    A vector write ends the older value, except where the destination is partly kept; with `lanes_kept` it does so only where EXEC
    is known to be full (as at the kernel's start), which never calls a register dead that some lane still wants.
    """
    flow = flow or control_flow(program)
    full_lanes = _full_lanes(program, flow) if lanes_kept else None
    instructions = program.instructions
    blocks = []
    for block in flow.blocks:
        accesses = []
        full = full_lanes is None or full_lanes[block.number]
        for instruction in instructions[block.first:block.last + 1]:
            access = instruction.shared.get("full access" if full else "partial access") or _access(instruction, full)
            accesses.append(access)
            if full_lanes is not None and access.writes & _EXEC:
                full = _sets_all(instruction)
        last = instructions[block.last]
        leaves = not block.successors and not last.name.startswith("s_endpgm") or block.last in flow.indirect
        blocks.append(LivenessBlock(accesses, block.successors, EVERYTHING if leaves else 0))
    return Liveness(blocks)


def _access(instruction: Instruction, full: bool) -> RegisterAccess:
    """What an instruction does where every lane is known to run, and where not."""
    reads, writes = instruction.reads, instruction.writes
    ends = full or "mfma" in instruction.opcode.classes
    access = RegisterAccess(reads, writes, writes if ends else writes & ~_VECTOR)
    instruction.shared["full access" if full else "partial access"] = access
    return access


def _sets_all(instruction: Instruction) -> bool:
    return instruction.name == "s_mov_b64" and instruction.operands[-1] == -1


def _full_lanes(program: Program, flow: ControlFlow) -> list[bool]:
    """For each block, whether every lane runs at its entry, as at the kernel's start, on all paths.

    Solved for the opposite, that some lane may be off: it grows from blocks that nobody is known to enter and from what sets EXEC.
    """
    after: list[bool | None] = []  # whether some lane may be off after a block; None: as at its entry
    for block in flow.blocks:
        last = next((instruction for instruction in reversed(program.instructions[block.first:block.last + 1])
                     if instruction.writes & _EXEC), None)
        after.append(None if last is None else not _sets_all(last))
    begins = (0, program.labels.get(program.entry, 0))
    unknown = [not block.predecessors and block.first not in begins for block in flow.blocks]

    def after_block(number: int, some_off: bool) -> bool:
        set_here = after[number]
        return some_off if set_here is None else set_here

    return [not some_off for some_off in solve([block.predecessors for block in flow.blocks], unknown, after_block, or_).at_entry]
