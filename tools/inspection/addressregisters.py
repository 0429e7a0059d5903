"""Registers that hold addresses, with who uses them; and values that instructions only carry from one register file to another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from asmgen.isa.operands import Operand
from asmgen.isa.registers import Reg
from asmgen.program.mix import ADDRESS_SLOTS
from asmgen.program.program import Instruction

_COPIES = frozenset({"v_mov_b32", "v_mov_b64", "v_pk_mov_b32", "v_accvgpr_read_b32", "v_accvgpr_write_b32", "v_accvgpr_mov_b32",
                     "v_readfirstlane_b32", "v_readlane_b32", "v_writelane_b32", "v_swap_b32", "s_mov_b32", "s_mov_b64"})
_OFFSETS = ("offset", "offset0", "offset1")
_FILES = {"v": "VGPR", "a": "AGPR", "s": "SGPR", "scc": "SGPR"}


@dataclass(frozen=True)
class AddressUse:
    """A register that memory instructions take as an address: their groups, how many offsets they add, how often it is written here."""

    register: str
    uses: int
    groups: dict[str, int]
    offsets: int
    written: int

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return dict(vars(self))


def address_uses(instructions: Sequence[Instruction], groups: Sequence[str]) -> tuple[AddressUse, ...]:
    """Of a stretch of code, most used first; `groups` are those of its instructions."""
    used: dict[Reg, Counter[str]] = {}
    offsets: dict[Reg, set[tuple[Any, ...]]] = {}
    for instruction, group in zip(instructions, groups, strict=True):
        if instruction.opcode.memory is None:
            continue
        for location, operand, reads, _ in instruction.accesses:
            if reads and location.name in ADDRESS_SLOTS and isinstance(operand, Reg):
                used.setdefault(operand, Counter())[group] += 1
                offsets.setdefault(operand, set()).add(tuple(instruction.modifiers.get(name, 0) for name in _OFFSETS))
    writes = [instruction.writes for instruction in instructions]
    found = [AddressUse(str(register), counted.total(), dict(counted.most_common()), len(offsets[register]),
                        sum(1 for mask in writes if mask & register.mask)) for register, counted in used.items()]
    return tuple(sorted(found, key=lambda use: (-use.uses, use.register)))


def copies(instructions: Iterable[Instruction]) -> dict[str, int]:
    """How many instructions only carry a value, by the files that it leaves and enters ("AGPR to VGPR"); constants are none."""
    counted: Counter[str] = Counter()
    for instruction in instructions:
        if instruction.name in _COPIES:
            source = next((_file(operand) for operand in instruction.operands[1:] if _file(operand)), "")
            if source:
                counted[f"{source} to {_file(instruction.operands[0])}"] += 1
    return dict(sorted(counted.items()))


def _file(operand: Operand) -> str:
    return _FILES[operand.file] if isinstance(operand, Reg) else ""
