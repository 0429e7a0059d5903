"""The instruction mix: which group each instruction belongs to, and what a VALU result is for.

Groups are those of docs/FORMATS.md section 2, exclusive. `valu_address` is a VALU instruction whose result reaches only address
operands, directly or through other such instructions: found backwards over the control-flow graph.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from operator import or_

from asmgen.isa.opcode import group_of
from asmgen.isa.operands import Operand
from asmgen.isa.registers import Modified, Reg
from asmgen.program.controlflow import ControlFlow, control_flow
from asmgen.program.program import Instruction, Program
from asmgen.regalloc.dataflow import solve

GROUPS = ("matrix", "lds_read", "lds_write", "global_load", "global_store", "lds_dma", "valu", "valu_address", "accvgpr", "salu",
          "branch", "wait", "nop", "barrier", "other")
ADDRESS_SLOTS = frozenset({"vaddr", "addr", "saddr", "srsrc", "soffset", "sbase"})
"""Operand slots that hold an address or a part of one."""


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
    """Positions of the VALU instructions whose results are used, and only as addresses.

    Two questions, each monotone, one after the other: which registers reach an address, through any VALU result; and which are wanted
    otherwise, by an instruction that is no VALU instruction on the way to an address, or by one whose own result is wanted otherwise.
    Asked as one, an instruction that turns out to make data would take back what its sources were held to be.
    """
    uses = [_uses(instruction) for instruction in program.instructions]
    arithmetic = [group_of(instruction.opcode, instruction.form) == "valu" for instruction in program.instructions]
    successors = [block.successors for block in flow.blocks]
    nothing = [0] * len(successors)

    def address_before(position: int, address: int) -> int:
        as_address, as_data, writes, kills = uses[position]
        passed_on = as_address | as_data if arithmetic[position] and writes & address else as_address
        return address & ~kills | passed_on

    to_address = _after_each(flow, solve(successors, nothing, _over_blocks(flow, address_before), or_).at_entry, address_before)
    on_the_way = [valu and bool(use[2] & address) for valu, use, address in zip(arithmetic, uses, to_address, strict=True)]

    def data_before(position: int, data: int) -> int:
        _, as_data, writes, kills = uses[position]
        wanted = 0 if on_the_way[position] and not writes & data else as_data
        return data & ~kills | wanted

    to_data = _after_each(flow, solve(successors, nothing, _over_blocks(flow, data_before), or_).at_entry, data_before)
    return frozenset(position for position, found in enumerate(on_the_way) if found and not uses[position][2] & to_data[position])


_Before = Callable[[int, int], int]
"""From the position of an instruction and the registers wanted after it to those wanted before it."""


def _over_blocks(flow: ControlFlow, before: _Before) -> _Before:
    """The same from the number of a block."""
    def over(number: int, mask: int) -> int:
        block = flow.blocks[number]
        for position in range(block.last, block.first - 1, -1):
            mask = before(position, mask)
        return mask

    return over


def _after_each(flow: ControlFlow, at_end: Sequence[int], before: _Before) -> list[int]:
    """What is wanted after each instruction, from what is wanted at each block's end."""
    found = [0] * len(flow.block_of)
    for block in flow.blocks:
        mask = at_end[block.number]
        for position in range(block.last, block.first - 1, -1):
            found[position] = mask
            mask = before(position, mask)
    return found


def _uses(instruction: Instruction) -> tuple[int, int, int, int]:
    """Masks: read as an address, read as data (explicit operands only), written, surely overwritten."""
    address = data = 0
    for location, operand, reads, _ in instruction.accesses:
        if reads:
            mask = _mask_of(operand)
            if location.name in ADDRESS_SLOTS:
                address |= mask
            else:
                data |= mask
    kills = instruction.writes & ~(address | data)
    return address, data, instruction.writes, kills


def _mask_of(operand: Operand) -> int:
    value = operand.value if isinstance(operand, Modified) else operand
    return value.mask if isinstance(value, Reg) else 0
