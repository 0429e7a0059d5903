"""Code in which M0 says which registers instructions mean: what instructions name is not what they access there."""

from __future__ import annotations

from asmgen.isa.operands import HwReg
from asmgen.program.program import Instruction, Program

_MODE, _GPR_IDX_EN = 1, 27


def first_indexed(program: Program) -> int | None:
    """The position of the first instruction that may switch on that M0 names VGPRs, or that finds an SGPR by it, or None."""
    return next((position for position, instruction in enumerate(program.instructions) if _may_index(instruction)), None)


def _may_index(instruction: Instruction) -> bool:
    if instruction.name in ("s_set_gpr_idx_on", "s_set_gpr_idx_mode") or instruction.name.startswith(("s_movrel", "v_movrel")):
        return True
    if not instruction.name.startswith("s_setreg"):
        return False
    numbers = [operand for operand in instruction.operands if isinstance(operand, int)]
    named = [operand for operand in instruction.operands if isinstance(operand, HwReg)]
    register = named[0] if named else HwReg.decode(numbers[0])
    if register.number != _MODE or not register.offset <= _GPR_IDX_EN < register.offset + register.size:
        return False
    return instruction.name != "s_setreg_imm32_b32" or bool(numbers[-1] >> _GPR_IDX_EN - register.offset & 1)
