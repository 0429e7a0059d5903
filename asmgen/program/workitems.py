"""What code takes of the packed number of the work-item in v0: x in its lowest ten bits, y and z above."""

from __future__ import annotations

from asmgen.isa.registers import v
from asmgen.program.controlflow import ControlFlow
from asmgen.program.program import Instruction, Program

_X_BITS = 10  # LLVM AMDGPUUsage, "Initial Kernel Execution State": 10 bits each
_X_MASK = (1 << _X_BITS) - 1


def takes_x_alone(program: Program, flow: ControlFlow) -> bool:
    """Whether all that reads v0, as long as it holds the packed number, takes x from it: then a workgroup is a row of work-items, as far
    as the code can tell."""
    waiting = list({0, flow.block_of[program.labels.get(program.entry, 0)]}) if flow.blocks else []
    seen = set(waiting)
    while waiting:
        block = flow.blocks[waiting.pop()]
        for instruction in program.instructions[block.first:block.last + 1]:
            if instruction.reads & v[0].mask and not _takes_x(instruction):
                return False
            if instruction.writes & v[0].mask:
                break
        else:
            waiting += [successor for successor in block.successors if successor not in seen]
            seen.update(block.successors)
    return True


def _takes_x(instruction: Instruction) -> bool:
    sources = list(instruction.operands[1:])
    if instruction.name == "v_and_b32":
        return any(type(source) is int and 0 <= source <= _X_MASK for source in sources)
    return instruction.name == "v_bfe_u32" and type(sources[2]) is int and sources[1] == 0 and sources[2] <= _X_BITS
