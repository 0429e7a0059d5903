"""What code takes of the packed number of the work-item in v0: x in its lowest ten bits, y and z above."""

from __future__ import annotations

from asmgen.isa.registers import Reg, v
from asmgen.program.controlflow import ControlFlow
from asmgen.program.program import Instruction, Program

_X_BITS = 10  # LLVM AMDGPUUsage, "Initial Kernel Execution State": 10 bits each
_BITS = 32

_Packed = frozenset[tuple[int, int]]
"""VGPRs with the packed number or a shifted one, each with how many of its lowest bits hold nothing of y and z."""


def takes_x_alone(program: Program, flow: ControlFlow) -> bool:
    """Whether all that reads v0, as long as it holds the packed number, takes x from it, be it after shifts: then a workgroup is a row of
    work-items, as far as the code can tell."""
    start: _Packed = frozenset([(0, _X_BITS)])
    before = dict.fromkeys({0, flow.block_of[program.labels.get(program.entry, 0)]}, start) if flow.blocks else {}
    waiting = list(before)
    while waiting:
        block = flow.blocks[waiting.pop()]
        packed = before[block.number]
        for instruction in program.instructions[block.first:block.last + 1]:
            after = _after(instruction, packed)
            if after is None:
                return False
            packed = after
        for successor in block.successors if packed else ():
            joined = before.get(successor, frozenset()) | packed
            if joined != before.get(successor):
                before[successor] = joined
                waiting.append(successor)
    return True


def _after(instruction: Instruction, packed: _Packed) -> _Packed | None:
    """Where the number is after an instruction; None where the instruction may take y or z."""
    shifted = set()
    for index, clean in packed:
        if instruction.reads & v[index].mask and not _takes_x(instruction, index, clean):
            left = _shifted(instruction, index, clean)
            if left <= 0:
                return None
            shifted |= {(into.index, left) for into in instruction.operands[:1] if isinstance(into, Reg) and left < _BITS}
    return frozenset([row for row in packed if not instruction.writes & v[row[0]].mask]) | shifted


def _shifted(instruction: Instruction, index: int, clean: int) -> int:
    """How many low bits of the result are free of y and z: 0 of what is no shift of v`index` by a constant."""
    if instruction.name not in ("v_lshrrev_b32", "v_lshlrev_b32") or instruction.suffix == "_sdwa":
        return 0
    _, by, source = instruction.operands
    if type(by) is not int or not 0 <= by < _BITS or source != v[index]:
        return 0
    return clean + by if instruction.name == "v_lshlrev_b32" else clean - by


def _takes_x(instruction: Instruction, index: int, clean: int) -> bool:
    sources = list(instruction.operands[1:])
    if instruction.suffix == "_sdwa":  # it may take the upper half of a register
        return False
    if instruction.name in ("v_and_b32", "v_and_or_b32"):
        return v[index] not in sources[2:] and any(type(source) is int and 0 <= source < 1 << clean for source in sources[:2])
    return instruction.name == "v_bfe_u32" and type(sources[1]) is int and type(sources[2]) is int \
        and sources[1] >= 0 and sources[1] + sources[2] <= clean
