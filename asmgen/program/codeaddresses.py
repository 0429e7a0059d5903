"""Addresses of code that a program makes from its own position, as compilers do for functions of the same code object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from asmgen.isa.registers import Reg
from asmgen.program.controlflow import Block
from asmgen.program.program import Instruction

_HALVES = {"s_add_u32": 0, "s_addc_u32": 32}
_WORD = (1 << 32) - 1


def target(instructions: Sequence[Instruction], block: Block) -> int:
    """The address that the s_swappc_b64 at a block's end calls; -1 where the block does not make it from its own position."""
    known: dict[int, int] = {}  # what pairs of SGPRs hold, by their masks
    for position in range(block.first, block.last):
        instruction = instructions[position]
        made = _address(instruction, known)
        for mask in [mask for mask in known if mask & instruction.writes]:
            del known[mask]
        if made is not None:
            known[made[0]] = made[1]
    return known.get(instructions[block.last].reads, -1)


def _address(instruction: Instruction, known: Mapping[int, int]) -> tuple[int, int] | None:
    """The pair of registers, as a mask, that holds an address after an instruction, and the address."""
    if instruction.name == "s_getpc_b64" and instruction.address is not None:
        return instruction.writes, instruction.address + instruction.size
    if instruction.name == "s_mov_b64" and instruction.reads in known:
        return instruction.writes, known[instruction.reads]
    shift = _HALVES.get(instruction.name)
    if shift is None:
        return None
    written, source, constant = instruction.operands
    if not isinstance(written, Reg) or written != source or not isinstance(constant, int):
        return None
    # The two halves are added one after the other; what s_add makes is exact only together with the s_addc after it.
    pair = Reg("s", written.index - (shift > 0), 2).mask
    return (pair, known[pair] + ((constant & _WORD) << shift) & (1 << 64) - 1) if pair in known else None
