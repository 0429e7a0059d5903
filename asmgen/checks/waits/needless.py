"""Waits of a program that other waits make needless."""

from __future__ import annotations

from collections.abc import Iterable

from asmgen.checks.waits.verify import Verifier
from asmgen.isa.check import resolve
from asmgen.isa.table import opcode
from asmgen.program.program import Instruction, Program


def without_needless(program: Program, waits: Iterable[int]) -> Program:
    """The program without those of the waits (by position) without which verification still finds no error, the first ones first.

    The program is verified once. A wait that goes leaves an s_nop while the others are judged, so that positions stay.
    """
    nothing = Instruction(opcode("s_nop"), resolve(opcode("s_nop"), (0,), {}, program.arch), (0,))
    numbers = [number for number, item in enumerate(program.items) if isinstance(item, Instruction)]
    verifier, gone = Verifier(program, notes=False), set()
    for position in waits:
        number = numbers[position]
        without = verifier.program.with_items([*verifier.program.items[:number], nothing, *verifier.program.items[number + 1:]])
        weaker, found = verifier.weaker(without, position)
        if not any(one.severity == "error" for one in found):
            verifier = weaker
            gone.add(number)
    return program.with_items([item for number, item in enumerate(program.items) if number not in gone])
