"""Loops that wait for what other waves store: which loads of a program poll."""

from __future__ import annotations

from collections.abc import Callable

from asmgen.emulator.machine.ways import Ways
from asmgen.program.program import Instruction, Program

_LONGEST_POLL = 64
"""Instructions of a loop that waits for a flag."""


def polling(program: Program, waits: Callable[[Instruction], bool], none_of: frozenset[str] = frozenset()) -> frozenset[int]:
    """The loads (by id), of those that `waits` chooses, that a short loop without stores, and without `none_of` by name, repeats at one
    address: they wait for what others store there."""
    found: set[int] = set()
    if any(waits(instruction) for instruction in program.instructions):
        for first, last in Ways(program).loops():
            body = program.instructions[first:last + 1]
            stores = any((row := instruction.opcode.memory) is not None and row.kind == "store" for instruction in body)
            if len(body) > _LONGEST_POLL or stores or not none_of.isdisjoint(instruction.name for instruction in body):
                continue
            written = 0
            for instruction in body:
                written |= instruction.writes
            found |= {id(instruction) for instruction in body if waits(instruction) and not written & _sources(instruction)}
    return frozenset(found)


def _sources(instruction: Instruction) -> int:
    """The registers that an instruction names as sources."""
    mask = 0
    for register in instruction.read_registers:
        mask |= register.mask
    return mask
