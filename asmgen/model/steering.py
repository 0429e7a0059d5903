"""Which arithmetic a trace can do without: what cannot change which instructions waves execute, nor the addresses that they access.

A launch that is only traced (`asmgen.emulator.scheduling.trace`) has no use for results. All scalar registers, and vector registers that
become addresses, steer; so does whatever such a register is computed from. A vector register that steers and is loaded from memory or LDS
may hold anything that the kernel has computed before, so nothing is left out then. Scalar loads see none of a kernel's own vector stores:
the scalar cache is not coherent with them. Where EXEC may have fewer lanes, a vector instruction leaves the others as they were.
"""

from __future__ import annotations

from collections.abc import Sequence

from asmgen.isa.registers import NAMED, SGPR_BIT
from asmgen.program.controlflow import Block, ControlFlow, control_flow
from asmgen.program.mix import ADDRESS_SLOTS
from asmgen.program.program import Instruction, Program, operand_mask

_VECTORS = (1 << SGPR_BIT) - 1
_INDEXING = ("s_set_gpr_idx", "v_movrel")  # vector registers that the text does not name
_Masks = tuple[int, int, int]
"""Registers that an instruction writes, reads, and reads as addresses."""


def idle_arithmetic(program: Program) -> frozenset[int]:
    """Positions of the vector and matrix instructions whose results steer nothing."""
    instructions = program.instructions
    flow = control_flow(program)
    if flow.indirect or any(instruction.name.startswith(_INDEXING) for instruction in instructions):
        return frozenset()
    masks = [(instruction.writes, instruction.reads, _addresses(instruction)) for instruction in instructions]
    full = _full_exec(program, flow)
    kills = [writes & ~reads if full[position] or "mfma" in instructions[position].opcode.classes else 0
             for position, (writes, reads, _) in enumerate(masks)]
    steering = [0] * len(flow.blocks)  # vector registers, where each block is entered
    needed: set[int] = set()
    pending = list(range(len(flow.blocks)))
    while pending:
        block = flow.blocks[pending.pop()]
        wanted = 0
        for successor in block.successors:
            wanted |= steering[successor]
        before = steering[block.number] | _enter(block, wanted, masks, kills, needed)
        if before != steering[block.number]:
            steering[block.number] = before
            pending += block.predecessors
    if any(_loads(instructions[position]) and masks[position][0] & _VECTORS for position in needed):
        return frozenset()
    return frozenset(position for position, instruction in enumerate(instructions)
                     if position not in needed and instruction.opcode.classes & {"valu", "mfma"})


def _enter(block: Block, wanted: int, masks: Sequence[_Masks], kills: Sequence[int], needed: set[int]) -> int:
    """The vector registers that steer before a block, from those that do after it; its instructions that make them are `needed`."""
    for position in range(block.last, block.first - 1, -1):
        writes, reads, addresses = masks[position]
        if writes & (wanted | ~_VECTORS):
            needed.add(position)
            wanted = wanted & ~kills[position] | reads & _VECTORS
        wanted |= addresses & _VECTORS
    return wanted


def _full_exec(program: Program, flow: ControlFlow) -> list[bool]:
    """By position, whether EXEC has every lane there that a wave began with: nobody has written it, or all ones were."""
    instructions = program.instructions
    partial = [False] * len(flow.blocks)  # where each block is entered
    found = [True] * len(instructions)
    pending = list(range(len(flow.blocks)))
    while pending:
        block = flow.blocks[pending.pop()]
        now = partial[block.number]
        for position in range(block.first, block.last + 1):
            found[position] = not now
            if instructions[position].writes & NAMED["exec"].mask:
                now = not (instructions[position].name == "s_mov_b64" and instructions[position].operands[1] == -1)
        for successor in block.successors:
            if now and not partial[successor]:
                partial[successor] = True
                pending.append(successor)
    return found


def _loads(instruction: Instruction) -> bool:
    """Whether it brings data from memory or LDS into vector registers."""
    row = instruction.opcode.memory
    return row is not None and row.space != "scalar" and (row.kind == "load" or row.returns)


def _addresses(instruction: Instruction) -> int:
    """Registers of a memory instruction that say where it goes."""
    mask = 0
    if instruction.opcode.memory is not None:
        for location, operand, reads, _ in instruction.accesses:
            if reads and location.name in ADDRESS_SLOTS:
                mask |= operand_mask(operand)
    return mask
