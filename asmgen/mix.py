"""The instruction mix: which group each instruction belongs to, and what a VALU result is for.

Groups are those of design.md section 6, exclusive. `valu_address` is a VALU instruction whose result reaches only address
operands, directly or through other such instructions: found backwards over the control-flow graph.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from asmgen.cfg import ControlFlow, control_flow
from asmgen.isa.opcode import group_of
from asmgen.isa.operands import Modified, Operand
from asmgen.isa.registers import Reg
from asmgen.program import Instruction, Program

GROUPS = ("matrix", "lds_read", "lds_write", "global_load", "global_store", "lds_dma", "valu", "valu_address", "accvgpr", "salu",
          "branch", "wait", "nop", "barrier", "other")
_ADDRESS_PLACES = frozenset({"vaddr", "addr", "saddr", "srsrc", "soffset", "sbase"})


def groups(program: Program, flow: ControlFlow | None = None) -> tuple[str, ...]:
    """The group of each instruction, by position."""
    addresses = address_instructions(program, flow or control_flow(program))
    return tuple("valu_address" if position in addresses else group_of(instruction.opcode, instruction.form)
                 for position, instruction in enumerate(program.instructions))


def count_groups(found: Iterable[str]) -> dict[str, int]:
    """How many of each group, every group named."""
    counted = Counter(found)
    return {group: counted.get(group, 0) for group in GROUPS}


def address_instructions(program: Program, flow: ControlFlow) -> frozenset[int]:
    """Positions of the VALU instructions whose results are used, and only as addresses."""
    uses = [_uses(instruction) for instruction in program.instructions]
    arithmetic = [group_of(instruction.opcode, instruction.form) == "valu" for instruction in program.instructions]
    entries: list[tuple[int, int]] = [(0, 0)] * len(flow.blocks)  # live as data, live as address
    found: set[int] = set()
    changed = True
    while changed:
        changed = False
        for block in reversed(flow.blocks):
            data = address = 0
            for successor in block.successors:
                data |= entries[successor][0]
                address |= entries[successor][1]
            for position in range(block.last, block.first - 1, -1):
                as_address, as_data, writes, kills = uses[position]
                if arithmetic[position] and writes & address and not writes & data:
                    found.add(position)
                    as_address, as_data = as_address | as_data, 0
                else:
                    found.discard(position)
                data, address = data & ~kills | as_data, address & ~kills | as_address
            if (data, address) != entries[block.number]:
                entries[block.number] = (data | entries[block.number][0], address | entries[block.number][1])
                changed = True
    return frozenset(found)


def _uses(instruction: Instruction) -> tuple[int, int, int, int]:
    """Masks: read as an address, read as data (explicit operands only), written, surely overwritten."""
    address = data = 0
    for place, operand, reads, _ in instruction.accesses:
        if reads:
            mask = _mask_of(operand)
            if place.name in _ADDRESS_PLACES:
                address |= mask
            else:
                data |= mask
    kills = instruction.writes & ~(address | data)
    return address, data, instruction.writes, kills


def _mask_of(operand: Operand) -> int:
    value = operand.value if isinstance(operand, Modified) else operand
    return value.mask if isinstance(value, Reg) else 0
